"""The kernels and variables that a source declares, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pycudakit import errors
from pycudakit.kernels.compiling.source import Parameter, Signature
from pycudakit.kernels.reading import preprocessor
from pycudakit.kernels.reading.declarators import (
    base_of,
    first,
    is_attribute,
    joined,
    parameter,
    template_end,
    without_attributes,
)
from pycudakit.kernels.reading.preprocessor import Token


@dataclass(frozen=True, slots=True)
class _Declared:
    """A kernel as the text has it: what its types are is found when it is asked for."""

    name: str
    parameters: list[list[Token]]
    template: list[list[Token]] | None
    line: int


@dataclass(slots=True)
class Declarations:
    """What a source declares.

    Parameters
    ----------
    file
        Its name for messages.
    variables
        Those that `symbols=` may set, ``__constant__`` and ``__device__`` ones.
    """

    file: str
    variables: dict[str, Parameter] = field(default_factory=dict)
    _kernels: dict[str, _Declared] = field(default_factory=dict)
    _types: dict[str, list[Token]] = field(default_factory=dict)
    _signatures: dict[str, Signature] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of all kernels; those of templates with what they take, ``"scale<T>"``."""
        return tuple(map(_title, self._kernels.values()))

    @property
    def plain(self) -> tuple[Signature, ...]:
        """Those that are no templates."""
        return tuple(self.signature(name) for name, k in self._kernels.items() if k.template is None)

    def is_template(self, name: str) -> bool:
        """Tell whether a name is a template's, without arguments."""
        return name in self._kernels and self._kernels[name].template is not None

    def signature(self, name: str) -> Signature:
        """Return a kernel, by ``"add"``, or ``"scale<float>"``, or raise `KeyError`; it is read once."""
        known = self._signatures.get(name)
        if known is None:
            known = self._signatures[name] = self._read(name)
        return known

    def _read(self, name: str) -> Signature:
        given = [token for kind, token in preprocessor.tokens(name) if kind == "token"]
        base, _, rest = name.partition("<")
        declared = self._kernels[self._full_name(base.strip())]
        types = dict(self._types)
        if rest and declared.template is not None:
            start = first(given, "<")
            if start == len(given) or given[-1].text != ">":
                raise KeyError(name)
            types.update(_instance(declared.template, preprocessor.split(given[start + 1 : -1])))
            called = declared.name + joined(given[start:])
        elif rest or declared.template is not None:
            raise KeyError(name)
        else:
            called = declared.name
        where = f"{self.file}:{declared.line}: kernel {called!r}"
        parameters = [parameter(p, types, where) for p in declared.parameters]
        return Signature(called, tuple(parameters), declared.line)

    def _full_name(self, name: str) -> str:
        if name in self._kernels:
            return name
        inner = [full for full in self._kernels if full.endswith(f"::{name}")]
        if len(inner) != 1:
            raise KeyError(name)
        return inner[0]


def parse(
    text: str,
    file: str = "kernel.cu",
    options: Iterable[str] = (),
    include: preprocessor.Include = lambda _: None,
) -> Declarations:
    """Read what a source declares.

    Parameters
    ----------
    options
        The compiler's, of which ``-DNAME=value`` counts.
    include
        Returns the text of a file that the source includes, or None for the compiler's own.
    """
    found = Declarations(file)
    try:
        given = preprocessor.preprocessed(text, _defines(options), include)
        _Reader(found).read(given, "")
    except RecursionError:
        raise errors.CompileError(f"{file}: what it declares is nested too deep") from None
    return found


# What compilers of kernels define.
_DEFINED = {"__CUDACC__": "1", "__CUDA_ARCH__": "900", "__cplusplus": "201703"}


def _defines(options: Iterable[str]) -> Mapping[str, str]:
    defines = dict(_DEFINED)
    words = iter(options)
    for word in words:
        match = re.match(r"(?:-D|--define-macro[= ]?)(.*)", word)
        if match is not None:
            name, _, value = (match[1] or next(words, "")).strip().partition("=")
            defines[name] = value if "=" in word or value else "1"
    return defines


class _Reader:
    """Goes through declarations; bodies of functions and of classes are skipped."""

    def __init__(self, found: Declarations) -> None:
        self._found = found

    def read(self, given: Sequence[Token], scope: str) -> None:
        start = at = 0
        while at < len(given):
            text = given[at].text
            if text == ";":
                self._declaration(given[start:at], scope)
            elif text == "{":
                end = preprocessor.closing(given, at)
                head = given[start:at]
                inner = _inner_scope(head, scope)
                if inner is not None:
                    self.read(given[at + 1 : end], inner)
                elif not _is_function(head):
                    at = end + 1  # a class, or what a variable begins as: its declaration goes on
                    continue
                else:
                    self._declaration(head, scope)
                at = end
            elif text in ("(", "["):
                at = preprocessor.closing(given, at) + 1
                continue
            else:
                at += 1
                continue
            at += 1
            start = at

    def _declaration(self, given: Sequence[Token], scope: str) -> None:
        words = [token.text for token in given]
        template = None
        while words[:1] == ["template"] and words[1:2] == ["<"]:
            end = template_end(given, 1)
            template = preprocessor.split(given[2:end])
            given, words = given[end + 1 :], words[end + 1 :]
        if "__global__" in words:
            self._kernel(given, template, scope)
        elif words[:1] == ["typedef"]:
            self._typedef(given[1:])
        elif words[:1] == ["using"] and words[2:3] == ["="] and template is None:
            self._found._types[words[1]] = list(given[3:])  # noqa: SLF001
        elif words[:1] == ["enum"]:
            names = [w for w in words[1:] if w not in ("class", "struct", "{")]
            if names:
                self._found._types[names[0]] = [Token("int", given[0].line)]  # noqa: SLF001
        elif {"__constant__", "__device__", "__managed__"} & {*words} and template is None:
            self._variables(given)

    def _kernel(self, given: Sequence[Token], template: list[list[Token]] | None, scope: str) -> None:
        at = 0
        while at < len(given):
            if given[at].text == "(" and at:
                name = given[at - 1]
                if name.is_name and not is_attribute(name.text):
                    parameters, _ = preprocessor.arguments(given, at)
                    full = scope + name.text
                    if [[t.text for t in p] for p in parameters] == [["void"]]:
                        parameters = []
                    self._found._kernels.setdefault(  # noqa: SLF001
                        full, _Declared(full, parameters, template, name.line)
                    )
                    return
                if name.text == ">":
                    return  # a specialisation, or an instantiation, of a template that is declared elsewhere
                at = preprocessor.closing(given, at)
            at += 1

    def _typedef(self, given: Sequence[Token]) -> None:
        """Read ``typedef float real;``; a struct's name stands for itself."""
        place = max((i for i, token in enumerate(given) if token.is_name), default=0)
        if place == 0 or first(given, "(") < len(given):
            return
        name, words = given[place].text, [token.text for token in given[:place]]
        types = self._found._types  # noqa: SLF001
        if "{" in words:
            types.pop(name, None)
            if words[0] == "enum":
                types[name] = [Token("int", given[place].line)]
        elif words not in (["struct", name], ["class", name], ["union", name]):
            types[name] = list(given[:place])

    def _variables(self, given: Sequence[Token]) -> None:
        """Read ``__constant__ float a[3] = {...}, b;``."""
        given = without_attributes(given[: first(given, "=")])
        if any(token.text == "(" for token in given):
            return  # a function's declaration
        parts = preprocessor.split(given) or [[]]
        base, _, _ = base_of(parts[0])
        for part in [parts[0], *([*base, *other] for other in parts[1:])]:
            try:
                found = parameter(part, self._found._types, self._found.file)  # noqa: SLF001
            except errors.CompileError:
                continue  # which the compiler will refuse
            if found.name:
                self._found.variables[found.name] = found


def _inner_scope(head: Sequence[Token], scope: str) -> str | None:
    """Return the scope that a brace opens after `extern "C"` or `namespace a`; None if it opens another."""
    words = [token.text for token in head]
    if words[:1] == ["extern"] and len(words) == 2:
        return scope
    words = [w for w in words if w != "inline"]
    if words[:1] == ["namespace"] and "=" not in words:
        names = "".join(words[1:])
        return f"{scope}{names}::" if names else scope
    return None


def _is_function(head: Sequence[Token]) -> bool:
    """Tell whether the brace after this opens a function's body, rather than a class or a value."""
    given = without_attributes(head)
    if len(given) > 1 and given[0].text == "template":
        given = given[template_end(given, 1) + 1 :]
    return first(given, "(") < min(first(given, "="), len(given))


def _title(kernel: _Declared) -> str:
    if kernel.template is None:
        return kernel.name
    names = (part[: first(part, "=")] for part in kernel.template)
    return f"{kernel.name}<{', '.join(part[-1].text for part in names if part)}>"


def _instance(template: list[list[Token]], given: list[list[Token]]) -> dict[str, list[Token]]:
    """Return what a template's parameters are for these arguments."""
    types: dict[str, list[Token]] = {}
    for index, declared in enumerate(template):
        cut = first(declared, "=")
        if cut and declared[cut - 1].is_name:
            value = given[index] if index < len(given) else list(declared[cut + 1 :])
            types[declared[cut - 1].text] = [_same(types, token) for token in value]
    return types


def _same(types: Mapping[str, list[Token]], token: Token) -> Token:
    known = types.get(token.text)
    return known[0] if known is not None and len(known) == 1 else token
