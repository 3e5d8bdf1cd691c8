"""Tags of a wrapped function: which pointers are outputs, and how many elements each has."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pycudakit import errors

_TAG = re.compile(r"//[ \t]*@(\w+)([^\n]*)")
_ONE = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[([^\[\]]*)\])?\s*(,|$)")
_OPTION = re.compile(r"\s*([A-Za-z_][\w:]*?)\s*:(?!:)\s*(.*)", re.DOTALL)
_KNOWN = ("out", "inout", "size", "status")
_ALLOWED = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.USub),
)


@dataclass(slots=True)
class Tags:
    """The tags of one function.

    Parameters
    ----------
    outputs, inouts
        The names of the pointers that the function writes; an output's old contents do not count.
    sizes
        The number of elements of a pointer, an expression of C in the integer parameters.
    has_no_sizes
        Whether sizes that are not given are not checked.
    is_status
        Whether the result is a status, of which 0 is success.
    """

    outputs: list[str] = field(default_factory=list)
    inouts: list[str] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    has_no_sizes: bool = False
    is_status: bool = False

    def add(self, tag: str, text: str, where: str) -> None:
        """Add a tag: ``out``, ``inout``, ``size`` or ``status``, and the text after it."""
        text = text.strip()
        if tag == "status":
            if text:
                raise errors.CompileError(f"{where}: @status has no arguments, and is given {text!r}")
            self.is_status = True
        elif tag == "size":
            self._add_size(text, where)
        elif tag in _KNOWN:
            for name, size in _names(text, tag, where):
                (self.outputs if tag == "out" else self.inouts).append(name)
                if size is not None:
                    self.sizes[name] = size
        elif difflib.get_close_matches(tag, _KNOWN, 1, 0.75):  # others are Doxygen's
            listed = ", ".join(f"@{known}" for known in _KNOWN)
            raise errors.CompileError(f"{where}: @{tag} is no tag of pk.wrap, whose tags are {listed}")

    def _add_size(self, text: str, where: str) -> None:
        if text == "none":
            self.has_no_sizes = True
            return
        size, of, names = text.partition(" of ")
        if not of:
            raise errors.CompileError(
                f"{where}: @size {text}: write '@size n of a, b', or '@size none' to check no sizes"
            )
        for name in names.split(","):
            self.sizes[name.strip()] = size.strip()


def _names(text: str, tag: str, where: str) -> Iterator[tuple[str, str | None]]:
    at = 0
    while at < len(text) or not at:
        match = _ONE.match(text, at)
        if match is None:
            raise errors.CompileError(
                f"{where}: @{tag} {text}: write '@{tag} x[n]', with n elements, or "
                f"'@{tag} x[n], y[m]' for two"
            )
        yield match[1], match[2]
        at = match.end()
        if not match[3]:
            break


def in_comments(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the text of each tag in a source's comments."""
    for match in _TAG.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def of_options(
    values: str | Iterable[str], option: str, functions: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield function and text of each ``"function: x[n]"``; the only function need not be named."""
    for value in [values] if isinstance(values, str) else values:
        if not isinstance(value, str):
            raise TypeError(f"{option} takes strings such as 'scale: x[n]', not {value!r}")
        match = _OPTION.fullmatch(value)
        function, text = (match[1], match[2]) if match else ("", value)
        if not function and len(functions) == 1:
            function = functions[0]
        if function not in functions:
            listed = ", ".join(functions)
            raise errors.InvalidArgument(
                f"{option}={value!r} names no function of the source; write 'function: x[n]', where the "
                f"functions are {listed}"
            )
        yield function, text


def size_in_python(size: str, integers: Iterable[str], where: str) -> str:
    """Translate an expression of integers and integer parameters from C to Python, or raise."""
    known = set(integers)
    text = size.replace("/", "//")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise errors.CompileError(
            f"{where}: the size {size!r} is no expression: use + - * / and parentheses"
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise errors.CompileError(
                f"{where}: the size {size!r} is more than integers and parameters with + - * / and "
                "parentheses"
            )
        if isinstance(node, ast.Name) and node.id not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise errors.CompileError(
                f"{where}: the size {size!r} names {node.id!r}, which is no integer parameter; these are: "
                f"{listed}"
            )
    return ast.unparse(tree)


def size_function(expression: str, names: Sequence[str]) -> Callable[[Mapping[str, Any]], int]:
    """Return the function of the arguments, by name, that a checked expression of Python means."""
    code = compile(expression, "<size>", "eval")
    used = [name for name in names if name in code.co_names]

    def size(values: Mapping[str, Any]) -> int:
        # `size_in_python` admits integers, names of parameters and operators only.
        try:
            result: int = eval(code, {"__builtins__": {}}, {name: int(values[name]) for name in used})  # noqa: S307
        except ZeroDivisionError:
            given = ", ".join(f"{name} = {values[name]}" for name in used)
            raise ValueError(f"the number of elements, {expression}, divides by zero, with {given}") from None
        return result

    return size
