"""A kernels' source inside ``extern "C"``, as PyCUDA has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKENS = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(include|else|elif|endif)\b[^\n]*", re.MULTILINE)


_LONG = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}


def preprocessing(options: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return a compiler's options for macros and places of headers, as pairs, and the others.

    Examples
    --------
    >>> preprocessing(["-DN=3", "-I", "here", "-O3"])
    ([('-D', 'N=3'), ('-I', 'here')], ['-O3'])
    """
    found: list[tuple[str, str]] = []
    others: list[str] = []
    given = iter(options)
    for option in given:
        name, is_set, value = option.partition("=")
        if name in _LONG:
            found.append((_LONG[name], value if is_set else next(given, "")))
        elif option[:2] in _LONG.values():
            found.append((option[:2], option[2:] or next(given, "")))
        else:
            others.append(option)
    return found, others


def directives(options: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines that do what options for macros ask for, behind headers that these must not change."""
    yield line_directive(1, "options").rstrip()
    for option, value in options:
        if option == "-D":
            name, _, meaning = value.partition("=")
            yield f"#define {name} {meaning if '=' in value else 1}"
        elif option == "-U":
            yield f"#undef {value}"


def blanked(text: str) -> str:
    """Return a source without comments and strings: spaces stand in their place, lines stay."""
    return _TOKENS.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def line_directive(line: int, name: str) -> str:
    """Return the directive by which the compiler counts lines as the user does."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'#line {line} "{escaped}"\n'


def _end_of_line(text: str, place: int) -> int:
    """Return where the next line begins: a comment that goes on there belongs to this one."""
    for token in _TOKENS.finditer(text, place):
        newline = text.find("\n", place, token.start())
        if newline >= 0:
            return newline + 1
        place = token.end()
    return text.find("\n", place) + 1 or len(text)


def wrapped(text: str, name: str) -> str:
    """Return a source in ``extern "C"``, but for its includes, which may have templates in them.

    Parameters
    ----------
    text
        What the user wrote.
    name
        The file's name for messages, whose lines are counted as the user does.
    """
    plain = blanked(text)
    parts = ['extern "C" {\n', line_directive(1, name)]
    done, depth, counted = 0, 0, 0
    for found in _DIRECTIVE.finditer(plain):
        depth += plain.count("{", counted, found.start()) - plain.count("}", counted, found.start())
        counted = found.start()
        line = text.count("\n", 0, found.start()) + 1
        end = _end_of_line(text, found.start())
        directive = text[found.start() : end].rstrip("\n") + "\n"
        after = line + directive.count("\n")
        if found[1] != "include":
            # What was added is counted where it is skipped.
            parts += [text[done : found.start()], directive, line_directive(after, name)]
        elif depth == 0:
            parts += [text[done : found.start()], "}\n", line_directive(line, name), directive]
            parts += ['extern "C" {\n', line_directive(after, name)]
        else:
            continue
        done = end
    return "".join([*parts, text[done:], "\n}\n"])
