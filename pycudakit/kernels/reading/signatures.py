"""The kernels and variables that a source declares, parsed from its preprocessed tokens."""

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
    """A kernel whose parameters are not parsed yet."""

    name: str
    parameters: list[list[Token]]
    template: list[list[Token]] | None
    line: int


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function of the host, as its definition or a prototype declares it.

    Parameters
    ----------
    name
        The name, qualified by its namespaces.
    result
        The tokens before the name, without ``extern "C"``.
    parameters
        The tokens of each parameter.
    line
        The line of the name.
    has_c_linkage, is_defined, is_template
        Whether it is in ``extern "C"``, has a body, and is a template.
    """

    name: str
    result: list[Token]
    parameters: list[list[Token]]
    line: int
    has_c_linkage: bool
    is_defined: bool
    is_template: bool


@dataclass(slots=True)
class Declarations:
    """The declarations of a source.

    Parameters
    ----------
    file
        The file's name for messages.
    variables
        The ``__constant__`` and ``__device__`` variables, which `symbols=` may set.
    functions
        The functions of the host at file scope, each declaration of its own.
    structs
        The tokens of the bodies of structs, by the structs' names.
    """

    file: str
    variables: dict[str, Parameter] = field(default_factory=dict)
    functions: list[HostFunction] = field(default_factory=list)
    structs: dict[str, list[Token]] = field(default_factory=dict)
    _kernels: dict[str, _Declared] = field(default_factory=dict)
    _types: dict[str, list[Token]] = field(default_factory=dict)
    _signatures: dict[str, Signature] = field(default_factory=dict)
    _instances: list[str] = field(default_factory=list)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of all kernels; those of templates with their parameters, ``"scale<T>"``."""
        return tuple(map(_title, self._kernels.values()))

    @property
    def types(self) -> Mapping[str, list[Token]]:
        """The tokens that each ``typedef`` or ``using`` of a type means."""
        return self._types

    def template_parameters(self, name: str) -> int:
        """Return how many parameters a kernel's template has; 0 if it is none."""
        template = self._kernels[self._full_name(name)].template
        return 0 if template is None else len(template)

    @property
    def plain(self) -> tuple[Signature, ...]:
        """The signatures of the kernels that are not templates."""
        return tuple(self.signature(name) for name, k in self._kernels.items() if k.template is None)

    @property
    def instantiated(self) -> tuple[Signature, ...]:
        """The signatures of the instances of templates that the source itself instantiates."""
        found: dict[str, Signature] = {}
        for name in self._instances:
            try:
                signature = self.signature(name)
            except KeyError:  # its template is in a header of the compiler's own
                continue
            found[signature.name] = signature
        return tuple(found.values())

    def is_template(self, name: str) -> bool:
        """Return True if a name is that of a template, without arguments."""
        return name in self._kernels and self._kernels[name].template is not None

    def signature(self, name: str) -> Signature:
        """Return the signature of ``"add"`` or ``"scale<float>"``, or raise `KeyError`. It is cached."""
        cached = self._signatures.get(name)
        if cached is None:
            cached = self._signatures[name] = self._read(name)
        return cached

    def _read(self, name: str) -> Signature:
        tokens = [token for kind, token in preprocessor.tokens(name) if kind == "token"]
        base, _, rest = name.partition("<")
        declared = self._kernels[self._full_name(base.strip())]
        types = dict(self._types)
        if rest and declared.template is not None:
            start = first(tokens, "<")
            if start == len(tokens) or tokens[-1].text != ">":
                raise KeyError(name)
            types.update(_instance(declared.template, preprocessor.split(tokens[start + 1 : -1])))
            called = declared.name + joined(tokens[start:])
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
    """Parse the declarations of a source.

    Parameters
    ----------
    options
        The compiler's options, of which ``-DNAME=value`` counts.
    include
        Returns the text of an included file, or None for the compiler's own headers.
    """
    declarations = Declarations(file)
    try:
        tokens = preprocessor.preprocessed(text, _defines(options), include)
        _Reader(declarations).read(tokens, "")
    except RecursionError:
        raise errors.CompileError(f"{file}: its declarations are nested too deeply") from None
    return declarations


# Predefined macros of the compilers.
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
    """Parses declarations; skips the bodies of functions and classes."""

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations

    def read(self, tokens: Sequence[Token], scope: str, has_c_linkage: bool = False) -> None:
        start = at = 0
        while at < len(tokens):
            text = tokens[at].text
            if text == ";":
                self._declaration(tokens[start:at], scope, has_c_linkage)
            elif text == "{":
                end = preprocessor.closing(tokens, at)
                head = tokens[start:at]
                inner = _inner_scope(head, scope)
                if inner is not None:
                    self.read(tokens[at + 1 : end], inner, _linkage(head, has_c_linkage))
                elif not _is_function(head):
                    at = end + 1  # the body of a class, or an initializer: the declaration goes on
                    continue
                else:
                    self._declaration(head, scope, has_c_linkage, is_defined=True)
                at = end
            elif text in ("(", "["):
                at = preprocessor.closing(tokens, at) + 1
                continue
            else:
                at += 1
                continue
            at += 1
            start = at

    def _declaration(
        self, tokens: Sequence[Token], scope: str, has_c_linkage: bool, is_defined: bool = False
    ) -> None:
        if len(tokens) > 2 and tokens[0].text == "extern" and tokens[1].text.startswith('"'):
            has_c_linkage = _linkage(tokens[:2], has_c_linkage)
            tokens = tokens[2:]
        words = [token.text for token in tokens]
        template = None
        while words[:1] == ["template"] and words[1:2] == ["<"]:
            end = template_end(tokens, 1)
            template = preprocessor.split(tokens[2:end])
            tokens, words = tokens[end + 1 :], words[end + 1 :]
        if "__global__" in words:
            self._kernel(tokens, template, scope)
        elif words[:1] == ["typedef"]:
            self._typedef(tokens[1:])
        elif words[:1] == ["using"] and words[2:3] == ["="] and template is None:
            self._declarations._types[words[1]] = list(tokens[3:])  # noqa: SLF001
        elif words[:1] == ["enum"]:
            names = [w for w in words[1:] if w not in ("class", "struct", "{")]
            if names:
                self._declarations._types[names[0]] = [Token("int", tokens[0].line)]  # noqa: SLF001
        elif {"__constant__", "__device__", "__managed__"} & {*words} and template is None:
            self._variables(tokens)
        elif words[:1] == ["struct"] and "{" in words:
            if words.index("{") == 2:  # it has a name, and no base
                self._struct(words[1], tokens)
        else:
            self._function(tokens, scope, has_c_linkage, is_defined, template is not None)

    def _struct(self, name: str, tokens: Sequence[Token]) -> None:
        brace = first(tokens, "{")
        end = preprocessor.closing(tokens, brace)
        self._declarations.structs[name] = list(tokens[brace + 1 : end])

    def _function(
        self,
        tokens: Sequence[Token],
        scope: str,
        has_c_linkage: bool,
        is_defined: bool,
        is_template: bool,
    ) -> None:
        """Record ``void scale(float *x, int n)``; a variable, a class or a static function is none."""
        tokens = without_attributes(tokens)
        at = first(tokens, "(")
        words = {token.text for token in tokens[: at + 1]}
        is_function = 0 < at < len(tokens) - 1 and tokens[at - 1].is_name and "=" not in words
        if not is_function or words & {"static", "using", "typedef", "operator", "friend"}:
            return
        if "__device__" in words and "__host__" not in words:
            return
        name, result = tokens[at - 1], [token for token in tokens[: at - 1] if token.text != "extern"]
        if not result or result[-1].text in ("::", "~"):  # a macro's call, or a member of a class
            return
        parameters, _ = preprocessor.arguments(tokens, at)
        if [[token.text for token in one] for one in parameters] == [["void"]]:
            parameters = []
        self._declarations.functions.append(
            HostFunction(
                scope + name.text, result, parameters, name.line, has_c_linkage, is_defined, is_template
            )
        )

    def _kernel(self, tokens: Sequence[Token], template: list[list[Token]] | None, scope: str) -> None:
        at = 0
        while at < len(tokens):
            if tokens[at].text == "(" and at:
                name = tokens[at - 1]
                if name.is_name and not is_attribute(name.text):
                    parameters, _ = preprocessor.arguments(tokens, at)
                    full = scope + name.text
                    if [[t.text for t in p] for p in parameters] == [["void"]]:
                        parameters = []
                    self._declarations._kernels.setdefault(  # noqa: SLF001
                        full, _Declared(full, parameters, template, name.line)
                    )
                    return
                if name.text == ">":  # a specialization or an explicit instantiation of a template
                    begin = _template_begin(tokens, at - 1)
                    self._declarations._instances.append(scope + joined(tokens[begin - 1 : at]))  # noqa: SLF001
                    return
                at = preprocessor.closing(tokens, at)
            at += 1

    def _typedef(self, tokens: Sequence[Token]) -> None:
        """Parse ``typedef float real;``; a struct's name is not replaced."""
        index = max((i for i, token in enumerate(tokens) if token.is_name), default=0)
        if index == 0 or first(tokens, "(") < len(tokens):
            return
        name, words = tokens[index].text, [token.text for token in tokens[:index]]
        types = self._declarations._types  # noqa: SLF001
        if "{" in words:
            types.pop(name, None)
            if words[0] == "struct":
                self._struct(name, tokens)
            if words[0] == "enum":
                types[name] = [Token("int", tokens[index].line)]
        elif words not in (["struct", name], ["class", name], ["union", name]):
            types[name] = list(tokens[:index])

    def _variables(self, tokens: Sequence[Token]) -> None:
        """Parse ``__constant__ float a[3] = {...}, b;``."""
        tokens = without_attributes(tokens)
        if "(" in [token.text for token in tokens[: min(first(tokens, "="), first(tokens, "["))]]:
            return  # a function's declaration
        parts = preprocessor.split(tokens) or [[]]
        base, _, _ = base_of(parts[0])
        for part in [parts[0], *([*base, *other] for other in parts[1:])]:
            try:
                variable = parameter(part, self._declarations._types, self._declarations.file)  # noqa: SLF001
            except errors.CompileError:
                continue  # the compiler will report it
            if variable.name:
                self._declarations.variables[variable.name] = variable


def _linkage(head: Sequence[Token], outer: bool) -> bool:
    """Return whether declarations in the braces after `head` have C linkage, as in ``extern "C" {``."""
    words = [token.text for token in head]
    return words[1] == '"C"' if words[:1] == ["extern"] and len(words) == 2 else outer


def _inner_scope(head: Sequence[Token], scope: str) -> str | None:
    """Return the scope that a brace opens after `extern "C"` or `namespace a`; None for other braces."""
    words = [token.text for token in head]
    if words[:1] == ["extern"] and len(words) == 2:
        return scope
    words = [w for w in words if w != "inline"]
    if words[:1] == ["namespace"] and "=" not in words:
        names = "".join(words[1:])
        return f"{scope}{names}::" if names else scope
    return None


def _is_function(head: Sequence[Token]) -> bool:
    """Return True if the brace after these tokens opens a function's body, not a class or an initializer."""
    tokens = without_attributes(head)
    if len(tokens) > 1 and tokens[0].text == "template":
        tokens = tokens[template_end(tokens, 1) + 1 :]
    return first(tokens, "(") < min(first(tokens, "="), len(tokens))


def _title(kernel: _Declared) -> str:
    if kernel.template is None:
        return kernel.name
    names = (part[: first(part, "=")] for part in kernel.template)
    return f"{kernel.name}<{', '.join(part[-1].text for part in names if part)}>"


def _template_begin(tokens: Sequence[Token], end: int) -> int:
    """Return the index of the ``<`` of a template's arguments whose ``>`` is at `end`."""
    depth = 0
    for at in range(end, 0, -1):
        depth += {">": 1, "<": -1}.get(tokens[at].text, 0)
        if depth == 0:
            return at
    return end


def _instance(template: list[list[Token]], tokens: list[list[Token]]) -> dict[str, list[Token]]:
    """Return the values of a template's parameters for these arguments."""
    types: dict[str, list[Token]] = {}
    for index, declared in enumerate(template):
        cut = first(declared, "=")
        if cut and declared[cut - 1].is_name:
            value = tokens[index] if index < len(tokens) else list(declared[cut + 1 :])
            types[declared[cut - 1].text] = [_same(types, token) for token in value]
    return types


def _same(types: Mapping[str, list[Token]], token: Token) -> Token:
    alias = types.get(token.text)
    return alias[0] if alias is not None and len(alias) == 1 else token
