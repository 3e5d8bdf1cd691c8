"""Wrapping of a source in ``extern "C"``, as PyCUDA does, and helpers for source text and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

TEMPLATE_REMEDY = "a source with templates needs SourceModule(..., no_extern_c=True)"
_TOKENS = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(include|else|elif|endif)\b[^\n]*", re.MULTILINE)


_LONG = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}


def preprocessing(options: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split compiler options into those for macros and header folders, as pairs, and the others.

    Examples
    --------
    >>> preprocessing(["-DN=3", "-I", "here", "-O3"])
    ([('-D', 'N=3'), ('-I', 'here')], ['-O3'])
    """
    pairs: list[tuple[str, str]] = []
    others: list[str] = []
    remaining = iter(options)
    for option in remaining:
        name, is_set, value = option.partition("=")
        if name in _LONG:
            pairs.append((_LONG[name], value if is_set else next(remaining, "")))
        elif option[:2] in _LONG.values():
            pairs.append((option[:2], option[2:] or next(remaining, "")))
        else:
            others.append(option)
    return pairs, others


def directives(options: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield directives that define macros as the options do, but after the headers."""
    yield line_directive(1, "options").rstrip()
    for option, value in options:
        if option == "-D":
            name, _, meaning = value.partition("=")
            yield f"#define {name} {meaning if '=' in value else 1}"
        elif option == "-U":
            yield f"#undef {value}"


def blanked(text: str) -> str:
    """Replace comments and strings of a source by spaces; offsets and lines are unchanged."""
    return _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def line_directive(line: int, name: str) -> str:
    """Return a ``#line`` directive, so that the compiler's messages have the user's line numbers."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'#line {line} "{escaped}"\n'


def _end_of_line(text: str, position: int) -> int:
    """Return the start of the next line, after comments that begin on this line."""
    for token in _TOKENS.finditer(text, position):
        newline = text.find("\n", position, token.start())
        if newline >= 0:
            return newline + 1
        position = token.end()
    return text.find("\n", position) + 1 or len(text)


def wrapped(text: str, name: str) -> str:
    """Wrap a source in ``extern "C"``, except its includes, which may contain templates.

    Parameters
    ----------
    text
        The user's source.
    name
        The file's name for messages.
    """
    plain = blanked(text)
    parts = ['extern "C" {\n', line_directive(1, name)]
    done, depth, counted = 0, 0, 0
    for match in _DIRECTIVE.finditer(plain):
        depth += plain.count("{", counted, match.start()) - plain.count("}", counted, match.start())
        counted = match.start()
        line = text.count("\n", 0, match.start()) + 1
        end = _end_of_line(text, match.start())
        directive = text[match.start() : end].rstrip("\n") + "\n"
        after = line + directive.count("\n")
        if match[1] != "include":
            # A skipped branch contains the added lines, so the line number is set after each branch.
            parts += [text[done : match.start()], directive, line_directive(after, name)]
        elif depth == 0:
            parts += [text[done : match.start()], "}\n", line_directive(line, name), directive]
            parts += ['extern "C" {\n', line_directive(after, name)]
        else:
            continue
        done = end
    return "".join([*parts, text[done:], "\n}\n"])
