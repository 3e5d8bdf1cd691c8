"""Source-to-source translation of CUDA C to C++ for the CPU engine, beyond the power of headers.

Declarations of shared memory are rewritten; kernels with barriers, and device variables, are found in the
text. Everything else of the dialect is in the headers under `include/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pycudakit.kernels.compiling import include_tracking, statements
from pycudakit.kernels.compiling.compiler_process import HEADERS
from pycudakit.kernels.compiling.extern_c import blanked
from pycudakit.kernels.compiling.source import Source

_SHARED = re.compile(r"\b__shared__\b")
_BETWEEN = re.compile(r"[;{}]")
# Specifiers that are removed from a rewritten declaration.
_DROPPED = re.compile(
    r"\b(?:extern|static|__shared__)\b|\b(?:__align__|alignas|__builtin_align__)\s*\([^()]*\)"
    r"|\b__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)"
)
_DECLARATOR = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<sizes>(?:\[[^\[\]]*\]\s*)*)", re.DOTALL)
_FIRST = re.compile(r"(?P<type>.*[\w>*\s])\b(?P<rest>[A-Za-z_]\w*\s*(?:\[[^\[\]]*\]\s*)*)", re.DOTALL)
_TRANSPARENT = re.compile(r'(?:\bnamespace\b[\s\w:]*|\bextern\s*(?:""|"C"|\s{3}))\s*$')


def translated(text: str, *, checked: bool) -> str:
    """Rewrite the declarations of shared memory to C++; line numbers are unchanged.

    An ``extern __shared__`` array becomes a pointer. If accesses are checked, static shared memory becomes
    references to memory of the engine, which knows its bounds.
    """
    plain = blanked(text)
    parts: list[str] = []
    done = 0
    for match in _SHARED.finditer(plain):
        if match.start() < done:
            continue
        begin = max((m.end() for m in _BETWEEN.finditer(plain, done, match.start())), default=done)
        begin = max(begin, after_directive(plain, begin, match.start()))
        end = plain.find(";", match.end())
        if end < 0:
            break
        declared = plain[begin:end]
        rewritten = _declaration(declared, is_local=depth(plain, begin) > 0, checked=checked)
        if rewritten is not None:
            lead = declared[: len(declared) - len(declared.lstrip())]
            parts += [text[done:begin], lead, rewritten]
            parts.append("\n" * (declared.count("\n") - lead.count("\n") - rewritten.count("\n")))
            done = end
    return "".join([*parts, text[done:]])


def after_directive(plain: str, begin: int, end: int) -> int:
    """Return the start of the line after the last directive."""
    lines = re.finditer(r"^[ \t]*#(?:[^\n\\]|\\.)*\n", plain[begin:end], re.MULTILINE | re.DOTALL)
    return begin + max((line.end() for line in lines), default=0)


def depth(plain: str, end: int) -> int:
    """Return the number of open braces, except those of namespaces."""
    return sum(_TRANSPARENT.search(before) is None for before in _open_braces(plain, end))


def _open_braces(plain: str, end: int) -> list[str]:
    """Return the text before each open brace."""
    texts: list[str] = []
    for brace in re.finditer(r"[{}]", plain[:end]):
        if brace.group() == "{":
            texts.append(plain[max(0, brace.start() - 200) : brace.start()])
        elif texts:
            texts.pop()
    return texts


def _declaration(declared: str, *, is_local: bool, checked: bool) -> str | None:
    """Return the rewritten declaration, or None if it needs no change."""
    if "{" in declared or "(" in _DROPPED.sub(
        " ", declared
    ):  # the declaration defines a type, or is a template
        return None
    is_dynamic = re.search(r"\bextern\b", declared) is not None
    is_static = re.search(r"\bstatic\b", declared) is not None
    stripped = _DROPPED.sub(" ", declared).strip()
    if is_dynamic:
        return _dynamic(stripped, is_local=is_local)
    if checked and is_local:
        checked_declaration = _checked(stripped)
        if checked_declaration is not None:
            return checked_declaration
    return re.sub(r"\bstatic\b", "", declared).strip() if is_static else None


def _dynamic(declared: str, *, is_local: bool) -> str | None:
    match = re.fullmatch(r"(.*?)([A-Za-z_]\w*)\s*\[\s*\]\s*((?:\[[^\[\]]*\]\s*)*)", declared, re.DOTALL)
    if match is None:
        return None
    kind, name, sizes = (part.strip() for part in match.groups())
    if is_local:
        return f"{kind} (*{name}){sizes} = ({kind} (*){sizes}) pk_dynamic()"
    return f"static const pk_dynamic_array<{kind}> {name} = {{}}"


def _checked(declared: str) -> str | None:
    declarators = list(_split(declared))
    match = _FIRST.fullmatch(declarators[0])
    if match is None:
        return None
    kind = match["type"].strip()
    declarations = []
    for declarator in (match["rest"], *declarators[1:]):
        one = _DECLARATOR.fullmatch(declarator)
        if one is None:
            return None
        name, sizes = one["name"], one["sizes"].strip()
        declarations.append(
            f'{kind} (&{name}){sizes} = pk_shared_variable<{kind}{sizes}>(__COUNTER__, "{name}")'
        )
    return "; ".join(declarations)


def _split(declared: str) -> Iterator[str]:
    depth, begin = 0, 0
    for at, sign in enumerate(declared):
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and depth == 0:
            yield declared[begin:at]
            begin = at + 1
    yield declared[begin:]


# ---- Kernels with barriers ----

BARRIERS = re.compile(
    r"__syncthreads\w*|__syncwarp|__shfl\w*|__(?:any|all|ballot|uni)_sync|__match_\w+|__reduce_\w+_sync"
    r"|__activemask|__nanosleep|(?:__)?volatile(?:__)?"
)
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', re.MULTILINE)
_KNOWN_HEADERS = re.compile(
    r"(?:c?(?:stdio|math|stdint|stdlib|string|limits|float|stddef|stdbool|assert|inttypes))(?:\.h)?"
    r"|cuda\w*\.h|curand\w*\.h|math_constants\.h|device_\w+\.h|vector_types\.h|cooperative_groups.*"
    r"|type_traits|utility|limits|algorithm|array|tuple|complex|numeric|initializer_list|cfloat|climits"
)
_NOT_FUNCTIONS = frozenset(
    {"if", "for", "while", "switch", "catch", "sizeof", "return", "alignas", "decltype"}
)


def kernels_with_barriers(source: Source) -> set[str]:
    """Return the names of the kernels that may reach a barrier, by a conservative text search.

    The search covers a kernel's body, and every function, struct and macro that it names, recursively.
    """
    names = {kernel.name for kernel in source.kernels}
    plain = _VOLATILE_ASM.sub(" ", blanked(source.text))
    if (
        includes_others(source)
        or "cooperative_groups" in plain
        or any(BARRIERS.search(option) for option in source.options)
    ):
        return names
    if BARRIERS.search(plain) is None:
        return set()
    words = words_by_name(plain)
    for name in _volatile_names(plain):
        words.setdefault(name, set()).add("volatile")
    return {name for name in names if reaches_barrier(name, words)}


def own_includes(source: Source) -> Iterator[str]:
    """Yield the lines that include those of our headers that a source includes."""
    for name in _INCLUDED.findall(source.text):
        if not Path(name).is_absolute() and (HEADERS / name).is_file():
            yield f"#include <{name}>"


def includes_others(source: Source) -> bool:
    """Return True if a source includes other headers than those of CUDA and C++."""
    return not all(_KNOWN_HEADERS.fullmatch(name) for name in _INCLUDED.findall(source.text))


# ---- Volatile accesses ----

_VOLATILE_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\s+(?:volatile|__volatile|__volatile__)\b")
_VOLATILE = re.compile(r"\b(?:__)?volatile(?:__)?\b")


def has_volatile(source: Source) -> bool:
    """Return True if a source, its options or the user's headers that it includes have volatile accesses."""
    folders = include_tracking.folders_of(source.include_dirs, source.options)
    texts, seen = [source.text], set[str]()
    while texts:
        text = texts.pop()
        plain = _VOLATILE_ASM.sub(" ", blanked(text))
        if _VOLATILE.search(plain) is not None:
            return True
        for name in set(_INCLUDED.findall(text)) - seen:
            seen.add(name)
            texts.append(include_tracking.find_included(name, folders) or "")
    return any(_VOLATILE.search(option) is not None for option in source.options)


def has_shared(source: Source) -> bool:
    """Return True if a source has shared memory."""
    return _SHARED.search(blanked(source.text)) is not None


def _volatile_names(plain: str) -> set[str]:
    """Return the words of the declarations at file scope that have `volatile`: typedefs and variables."""
    names: set[str] = set()
    for match in _VOLATILE.finditer(plain):
        begin = max((m.end() for m in _BETWEEN.finditer(plain, 0, match.start())), default=0)
        end = _BETWEEN.search(plain, match.end())
        declared = plain[begin : end.start() if end else len(plain)]
        if depth(plain, begin) == 0 and "(" not in declared:
            names.update(re.findall(r"[A-Za-z_]\w*", declared))
    return names - _TYPE_WORDS


_TYPE_WORDS = frozenset(
    re.findall(
        r"\w+",
        "static const typedef using char short int long float double unsigned signed bool struct class union"
        " __device__ __constant__ __managed__ __shared__ extern",
    )
)


def words_by_name(plain: str) -> dict[str, set[str]]:
    """Return the words in the macros, structs and functions of a source, by their names."""
    words: dict[str, set[str]] = {}
    for match in re.finditer(
        r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.)*)", plain, re.MULTILINE | re.DOTALL
    ):
        words.setdefault(match[1], set()).update(re.findall(r"\w+", match[2]))
    for match in re.finditer(r"\b(?:struct|class|union)\s+(\w+)[^;{}()]*\{", plain):
        _add(words, match[1], plain, match.end() - 1)
    for match in re.finditer(r"\b(\w+)\s*\(", plain):
        if match[1] in _NOT_FUNCTIONS:
            continue
        end = _closing(plain, match.end() - 1)
        body = re.compile(r"[^;{}()=]*\{").match(plain, end + 1)
        if body is not None:
            _add(words, match[1], plain, body.end() - 1)
            _add(words, match[1], plain, match.end() - 1)  # its parameters may be volatile
    return words


def _add(words: dict[str, set[str]], name: str, plain: str, at: int) -> None:
    words.setdefault(name, set()).update(re.findall(r"\w+", plain[at : _closing(plain, at)]))


def _closing(plain: str, at: int) -> int:
    opening = plain[at]
    ending = {"(": ")", "{": "}"}[opening]
    depth = 0
    for match in re.compile(f"[{re.escape(opening + ending)}]").finditer(plain, at):
        depth += 1 if match.group() == opening else -1
        if depth == 0:
            return match.start()
    return len(plain)


def reaches_barrier(name: str, words: dict[str, set[str]]) -> bool:
    """Return True if the function or macro of a name may reach a barrier, by the words of `words_by_name`."""
    todo, seen = set(re.findall(r"\w+", name)), set()
    while todo:
        word = todo.pop()
        seen.add(word)
        if BARRIERS.fullmatch(word):
            return True
        todo |= words.get(word, set()) - seen
    return False


# ---- Variables ----

_VARIABLE = re.compile(r"\b(?:__constant__|__device__|__managed__)\b")
_NAMED_SPACE = re.compile(r"\bnamespace\s+[\w:\s]+$")
_TYPE_BODY = re.compile(r"[^;={(]*\b(?:struct|class|union|enum)\b[^;={(]*(?=\{)")
_FUNCTION = re.compile(r"[^;{}=(\[]*\b(?!alignas\b|__\w+__\b)\w+\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


def variables(text: str) -> list[str]:
    """Return the names of device variables at file scope that are not inside an ``#if``."""
    plain = blanked(text)
    names: list[str] = []
    for match in _VARIABLE.finditer(plain):
        if _FUNCTION.match(plain, match.end()):
            continue
        before = plain[: match.start()]
        if depth(plain, match.start()) > 0 or "#" in before[before.rfind("\n") + 1 :]:
            continue
        opened = len(re.findall(r"^[ \t]*#[ \t]*if", before, re.MULTILINE))
        if opened > len(re.findall(r"^[ \t]*#[ \t]*endif", before, re.MULTILINE)):
            continue
        if any(map(_NAMED_SPACE.search, _open_braces(plain, match.start()))):  # the names are qualified
            continue
        if not re.search(r"\b(?:extern|template)\b", _line(before)):
            names += _declared(plain, match.end())
    return list(dict.fromkeys(names))


def _declared(plain: str, begin: int) -> list[str]:
    """Return the names in a declaration, ``float a[3] = {1}, *b;``, or none if it is a function's."""
    try:
        body = _TYPE_BODY.match(plain, begin)
        if body is not None:  # of a struct that the declaration defines, too
            begin = statements.closing(plain, body.end()) + 1
        begin, end = next(statements.split_at(plain, begin, len(plain), ";"))
        declaration = _DROPPED.sub(" ", plain[begin:end])
        head = re.split("[={]", declaration, maxsplit=1)[0]
        declaration = re.sub(r"<[^<>]*>", " ", head) + declaration[len(head) :]
        parts = [declaration[a:b] for a, b in statements.split_at(declaration, 0, len(declaration), ",")]
    except statements.UnreadableError:
        return []
    heads = [re.split(r"[={\[]", part, maxsplit=1)[0] for part in parts]
    words = [_WORD.findall(part) for part in heads]
    return [] if "(" in heads[0] or "template" in words[0] else [some[-1] for some in words if some]


def _line(before: str) -> str:
    return before[max(before.rfind(";"), before.rfind("}"), before.rfind("\n")) + 1 :]
