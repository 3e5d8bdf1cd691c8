"""A kernels' source inside ``extern "C"``, as PyCUDA has it."""

from __future__ import annotations

import re

_TOKENS = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)


def blanked(text: str) -> str:
    """Return a source without comments and strings: spaces stand in their place, lines stay."""
    return _TOKENS.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def line_directive(line: int, name: str) -> str:
    """Return the directive by which the compiler counts lines as the user does."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'#line {line} "{escaped}"\n'


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
    for found in _INCLUDE.finditer(plain):
        depth += plain.count("{", counted, found.start()) - plain.count("}", counted, found.start())
        counted = found.start()
        if depth != 0:
            continue
        line = text.count("\n", 0, found.start()) + 1
        end = text.find("\n", found.start())
        end = len(text) if end < 0 else end + 1
        parts += [text[done : found.start()], "}\n", line_directive(line, name)]
        parts += [text[found.start() : end].rstrip("\n"), '\nextern "C" {\n', line_directive(line + 1, name)]
        done = end
    return "".join([*parts, text[done:], "\n}\n"])
