"""Translation of ``kernel<<<grid, block>>>(...)`` in host code to calls of the CPU engine."""

from __future__ import annotations

import json
import re
from collections.abc import Set as AbstractSet

from pycudakit import errors
from pycudakit.kernels.compiling.extern_c import blanked
from pycudakit.kernels.reading import preprocessor
from pycudakit.kernels.reading.signatures import Declarations

_OPENING = re.compile(r"<<<")
_NAME = re.compile(r"(?:(?:::)?[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*\s*$")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def translated(text: str, file: str, declared: Declarations, waiting: AbstractSet[str]) -> str:
    """Rewrite the launches of a source; line numbers are unchanged.

    Parameters
    ----------
    waiting
        The kernels that may reach a barrier, by their names in `declared`.

    Raises
    ------
    CompileError
        A launch is in a macro, or is not of a kernel that the source declares.
    """
    plain = blanked(text)
    parts: list[str] = []
    done = 0
    for match in _OPENING.finditer(plain):
        where = f"{file}:{plain.count(chr(10), 0, match.start()) + 1}"
        if _is_in_directive(plain, match.start()):
            raise errors.CompileError(
                f"{where}: a launch in a #define is not translated for the CPU: write it out, or make the "
                "macro "
                "a function"
            )
        begin, name, arguments = _kernel_before(plain, match.start(), where)
        end = _end_of_configuration(plain, match.end(), where)
        kernel = _declared_name(name, declared)
        if kernel is None:
            raise errors.CompileError(
                f"{where}: {name!r} is launched, and is no kernel that the source declares: a launch "
                "through a "
                "function pointer is not translated for the CPU; write the kernel's name"
            )
        waits = "true" if any(one.split("<")[0] == kernel for one in waiting) else "false"
        wanted = declared.template_parameters(kernel)
        given = len(preprocessor.split(_tokens(arguments[1:-1]))) if arguments else 0
        quoted = json.dumps(kernel)
        if given == wanted:
            call = f"pk_launch<{waits}, (&{name}{arguments})>({quoted}, "
        else:
            deduced = f"[](auto... pk_values) {{ {name}{arguments}(pk_values...); }}"
            call = f"pk_launch_deduced<{waits}>({deduced}, {quoted}, "
        lost = text.count("\n", begin, match.end()) - call.count("\n")
        parts += [text[done:begin], call, "\n" * lost, text[match.end() : end], ")"]
        done = end + 3
    return "".join([*parts, text[done:]])


def _is_in_directive(plain: str, at: int) -> bool:
    return any(match.start() <= at < match.end() for match in _DIRECTIVE.finditer(plain))


def _kernel_before(plain: str, at: int, where: str) -> tuple[int, str, str]:
    """Return where the name before a launch begins, the name, and its template arguments with brackets."""
    end = len(plain[:at].rstrip())
    arguments = ""
    if plain[end - 1 : end] == ">":
        depth, brackets, begin = 0, 0, end
        while begin > 0:
            begin -= 1
            brackets -= _BRACKETS.get(plain[begin], 0)
            if brackets == 0:  # a comparison is in parentheses
                depth += (plain[begin] == ">") - (plain[begin] == "<")
            if depth == 0:
                break
        arguments = plain[begin:end]
        end = begin
    match = _NAME.search(plain[max(0, end - 500) : end])
    if match is None:
        raise errors.CompileError(
            f"{where}: a launch through an expression is not translated for the CPU: write the kernel's name"
        )
    name = re.sub(r"\s", "", match.group())
    return max(0, end - 500) + match.start(), name, arguments


def _end_of_configuration(plain: str, at: int, where: str) -> int:
    depth = 0
    for place in range(at, len(plain)):
        depth += _BRACKETS.get(plain[place], 0)
        if depth == 0 and plain.startswith(">>>", place):
            return place
        if depth < 0 or plain[place] == ";":
            break
    raise errors.CompileError(f"{where}: <<< has no >>> after it")


def _declared_name(name: str, declared: Declarations) -> str | None:
    """Return the kernel's full name, without template parameters, or None."""
    names = [kernel.split("<")[0] for kernel in declared.kernels]
    name = name.removeprefix("::")
    if name in names:
        return name
    return next((one for one in names if one.endswith(f"::{name}")), None)


def _tokens(text: str) -> list[preprocessor.Token]:
    return [token for kind, token in preprocessor.tokens(text) if kind == "token"]
