"""The functions of a source that are wrapped: their names, parameters and tags, found by the reader."""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pycudakit import errors
from pycudakit.kernels.compiling import extern_c, include_tracking
from pycudakit.kernels.reading import preprocessor, signatures
from pycudakit.kernels.reading.declarators import base_of, first, joined, without_attributes
from pycudakit.kernels.reading.preprocessor import Token
from pycudakit.kernels.wrapping.headers import UserHeaders
from pycudakit.kernels.wrapping.tags import Tags, in_comments, of_options

MAX_BYTES = 4 << 20  # of a source
_NOT_NAMES = frozenset(["const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "enum"])


@dataclass(frozen=True, slots=True)
class HostParameter:
    """A parameter of a function: its name, its declaration, and the name of its type without pointers."""

    name: str
    declared: str
    base: str


@dataclass(frozen=True, slots=True)
class WrappedFunction:
    """A function with C linkage, as the source declares it.

    Parameters
    ----------
    name, symbol
        The name, and the same qualified by namespaces.
    declaration
        The declaration in C.
    """

    name: str
    symbol: str
    declaration: str
    parameters: tuple[HostParameter, ...]
    line: int
    tags: Tags


@dataclass(slots=True)
class WrappedSource:
    """A source with the functions that are wrapped.

    Parameters
    ----------
    structs
        The members' names of each struct that a parameter has, a member's struct first.
    headers
        The headers of the user that it includes.
    declared
        All that the source declares, which launches are read by.
    """

    text: str
    file: str
    functions: list[WrappedFunction]
    structs: dict[str, list[str]]
    declared: signatures.Declarations = field(repr=False)
    headers: UserHeaders = field(repr=False)


def read(
    text: str,
    file: str,
    options: Iterable[str] = (),
    include_dirs: Sequence[str] = (),
    chosen: Sequence[str] | None = None,
    tagged: Mapping[str, str | Iterable[str]] | None = None,
) -> WrappedSource:
    """Read a source.

    Parameters
    ----------
    chosen
        The functions to wrap; None for all with C linkage.
    tagged
        Tags that are not in the source: ``{"out": ["scale: x[n]"]}``.

    Raises
    ------
    CompileError
        The source has no function with C linkage, or one that cannot be wrapped. The message has its line.
    """
    options = tuple(options)
    headers = UserHeaders(text, include_tracking.folders_of(include_dirs, options))
    declared = signatures.parse(text, file, options, headers.find)
    found = _defined(declared, file)
    if not found:
        raise errors.CompileError(_nothing(declared, file))
    if chosen is not None:
        missing = [name for name in chosen if name not in found]
        if missing:
            listed = ", ".join(found)
            raise errors.InvalidArgument(
                f"{file} has no function {missing[0]!r} with C linkage; its functions: {listed}"
            )
    tags = _tags(text, file, found, tagged or {})
    names = list(found) if chosen is None else [name for name in found if name in chosen]
    functions = [_function(found[name], tags[name], declared, file) for name in names]
    structs = _structs(functions, declared)
    return WrappedSource(text, file, functions, structs, declared, headers)


def _defined(declared: signatures.Declarations, file: str) -> dict[str, signatures.HostFunction]:
    """Return the functions that are defined and have C linkage, by their names without namespaces."""
    with_linkage = {one.name for one in declared.functions if one.has_c_linkage}
    found: dict[str, signatures.HostFunction] = {}
    for one in declared.functions:
        if not one.is_defined or one.name not in with_linkage or one.name == "main":
            continue
        name = one.name.rpartition("::")[2]
        if one.is_template:
            if not one.has_c_linkage:
                continue
            raise errors.CompileError(
                f"{file}:{one.line}: {name!r} is a template, which has no C linkage: move it out of "
                'extern "C", and write a function for each type that you need'
            )
        before = found.get(name)
        if before is not None and _types(before) != _types(one):
            raise errors.CompileError(
                f"{file}:{one.line}: {name!r} is defined in line {before.line}, too: C has no overloads, so "
                "give each function a name of its own"
            )
        found[name] = one
    return found


def _types(function: signatures.HostFunction) -> list[list[str]]:
    return [[token.text for token in one] for one in function.parameters]


def _nothing(declared: signatures.Declarations, file: str) -> str:
    others = [one for one in declared.functions if one.is_defined and not one.is_template]
    if others:
        one = others[0]
        listed = f"{joined(one.result)} {one.name}(...)"
        return (
            f"{file}:{one.line}: no function has C linkage: add extern \"C\" before '{listed}', or put the "
            'functions to wrap between extern "C" { and }'
        )
    if declared.kernels:
        return (
            f"{file}: it has kernels, and no function of the host that launches them: add one in extern "
            '"C" { ... }, or use pk.SourceModule, which calls kernels'
        )
    return f'{file}: it has no functions: add extern "C" before those to wrap'


def _tags(
    text: str,
    file: str,
    found: Mapping[str, signatures.HostFunction],
    tagged: Mapping[str, str | Iterable[str]],
) -> dict[str, Tags]:
    """Return the tags of each function: those in comments before its name, and those that are given."""
    tags = {name: Tags() for name in found}
    places = sorted((one.line, name) for name, one in found.items())
    for line, tag, words in in_comments(text):
        where = f"{file}:{line}"
        name = next((name for at, name in places if at >= line), None)
        if name is None:
            raise errors.CompileError(
                f"{where}: @{tag} is after the last function: write it before its function"
            )
        tags[name].add(tag, words, where)
    for tag, values in tagged.items():
        for name, words in of_options(values, tag, list(found)):
            tags[name].add(tag, words, f"{tag}={words!r}")
    return tags


def _function(
    one: signatures.HostFunction, tags: Tags, declared: signatures.Declarations, file: str
) -> WrappedFunction:
    parameters = tuple(_parameter(tokens, index, declared) for index, tokens in enumerate(one.parameters))
    name = one.name.rpartition("::")[2]
    listed = ", ".join(parameter.declared for parameter in parameters)
    names = [parameter.name for parameter in parameters]
    where = f"{file}:{one.line}: {name!r}"
    for given in (*tags.outputs, *tags.inouts, *tags.sizes):
        if given not in names:
            raise errors.CompileError(
                f"{where} has a tag of {given!r}, which is no parameter; these are: {', '.join(names)}"
            )
    if len(set(names)) != len(names):
        raise errors.CompileError(f"{where} has two parameters of one name")
    result = joined(without_attributes(one.result))
    declaration = f"{result}{'' if result.endswith('*') else ' '}{name}({listed or 'void'})"
    return WrappedFunction(name, one.name, declaration, parameters, one.line, tags)


def _parameter(tokens: list[Token], index: int, declared: signatures.Declarations) -> HostParameter:
    tokens = without_attributes(tokens[: first(tokens, "=")])
    base, _, rest = base_of(tokens)
    name = next((token.text for token in rest if token.is_name and token.text not in _NOT_NAMES), "")
    if keyword.iskeyword(name):
        name += "_"
    return HostParameter(name or f"argument{index}", _spaced(tokens), _resolved(joined(base), declared))


def _spaced(tokens: Sequence[Token]) -> str:
    """Return a declaration as C programmers write it: ``const float *a``."""
    text = " ".join(token.text for token in tokens)
    text = re.sub(r"\s*([*&]+)\s*(?=[*&\w.)]|$)", r" \1", text)
    return re.sub(r"\s*(::|<|>|\[|\]|\(|\))\s*", r"\1", text).replace(" ,", ",").strip()


def _resolved(name: str, declared: signatures.Declarations) -> str:
    """Return the struct that a name means, through typedefs, or the name."""
    seen: set[str] = set()
    while name not in declared.structs and name in declared.types and name not in seen:
        seen.add(name)
        name = joined(base_of(declared.types[name])[0])
    return name


# ---- Structs ---------------------------------------------------------------------------------------


def _structs(functions: Iterable[WrappedFunction], declared: signatures.Declarations) -> dict[str, list[str]]:
    structs: dict[str, list[str]] = {}
    for function in functions:
        for parameter in function.parameters:
            _add_struct(parameter.base, declared, structs, frozenset())
    return structs


def _add_struct(
    name: str, declared: signatures.Declarations, structs: dict[str, list[str]], outer: frozenset[str]
) -> None:
    if name not in declared.structs or name in structs or name in outer:
        return
    members: list[str] = []
    for base, names in _members(declared.structs[name]):
        _add_struct(_resolved(base, declared), declared, structs, outer | {name})
        members += names
    if members:
        structs[name] = members


def _members(tokens: Sequence[Token]) -> list[tuple[str, list[str]]]:
    """Return the base type and the names of each member; nothing for a class with functions or access."""
    out: list[tuple[str, list[str]]] = []
    start = 0
    for at, token in enumerate(tokens):
        if token.text in ("{", "(", ":", "~"):
            return []
        if token.text != ";":
            continue
        parts = preprocessor.split(without_attributes(tokens[start:at]))
        start = at + 1
        if not parts:
            continue
        base, _, rest = base_of(parts[0])
        names = [
            next(
                (one.text for one in part[: first(part, "=")] if one.is_name and one.text not in _NOT_NAMES),
                "",
            )
            for part in (rest, *parts[1:])
        ]
        if not all(names):
            return []
        out.append((joined(base), names))
    return out


# ---- Warnings --------------------------------------------------------------------------------------

_EXIT = re.compile(r"(?<![\w.>:])(?:std::)?(_?exit|_Exit|abort|quick_exit)\s*\(")


def warn_of_exits(source: WrappedSource) -> None:
    """Warn of calls that end the process, and of a function that is named main."""
    file = source.file
    plain = extern_c.blanked(source.text)
    for match in _EXIT.finditer(plain):
        line = plain.count("\n", 0, match.start()) + 1
        warnings.warn(
            f"{file}:{line}: {match[1]}() ends Python when it is reached: return a status or throw instead",
            RuntimeWarning,
            stacklevel=4,
        )
    for one in source.declared.functions:
        if one.name == "main" and one.is_defined:
            warnings.warn(
                f"{file}:{one.line}: 'main' is not wrapped: give it another name to call it",
                RuntimeWarning,
                stacklevel=4,
            )
