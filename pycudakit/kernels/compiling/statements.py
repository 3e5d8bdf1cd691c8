"""A parser of C's statements, as far as it takes to see which loops and branches contain which others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE_LINE = re.compile(r"#(?:[^\n\\]|\\.)*", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class UnreadableError(ValueError):
    """The text is not a sequence of statements; `at` is the offset."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no statement at offset {at}")
        self.at = at


@dataclass(slots=True)
class Statement:
    """A statement.

    Parameters
    ----------
    kind
        "block", "for", "while", "if", "simple", "directive", "label", or "other", such as `do` and `switch`.
    begin, end
        The range in the text.
    header
        The range inside the parentheses of `for`, `while` and `if`.
    children
        The statements of a block; the body of a loop; of an `if`, one or two.
    """

    kind: str
    begin: int
    end: int
    header: tuple[int, int] = (0, 0)
    children: list[Statement] = field(default_factory=list)


def parse(plain: str, begin: int, end: int) -> list[Statement]:
    """Parse the statements in a range of a text without comments and strings, or raise `UnreadableError`."""
    statements = []
    at = _skip(plain, begin)
    while at < end:
        statement = _statement(plain, at, end)
        statements.append(statement)
        at = _skip(plain, statement.end)
    return statements


def closing(plain: str, at: int) -> int:
    """Return the offset of the bracket that closes the one at `at`, or raise `UnreadableError`."""
    open_brackets = [_CLOSING[plain[at]]]
    for match in re.compile(r"[()\[\]{}]").finditer(plain, at + 1):
        bracket = match.group()
        if bracket in _CLOSING:
            open_brackets.append(_CLOSING[bracket])
        elif open_brackets.pop() != bracket:
            break
        elif not open_brackets:
            return match.start()
    raise UnreadableError(at)


def split_at(plain: str, begin: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges between separators that are outside of brackets."""
    start = at = begin
    while at < end:
        if plain[at] in _CLOSING:
            at = closing(plain, at)
        elif plain[at] == separator:
            yield start, at
            start = at + 1
        at += 1
    yield start, end


def _skip(plain: str, at: int) -> int:
    match = _SPACE.match(plain, at)
    return match.end() if match is not None else at


def _statement(plain: str, at: int, end: int) -> Statement:
    if at >= end:
        raise UnreadableError(at)
    if plain[at] == "#":
        match = _DIRECTIVE_LINE.match(plain, at)
        return Statement("directive", at, match.end() if match is not None else end)
    if plain[at] == "{":
        last = closing(plain, at)
        return Statement("block", at, last + 1, children=parse(plain, at + 1, last))
    word = _WORD.match(plain, at)
    if word is None:
        return _simple(plain, at, end)
    if word.group() in ("for", "while", "if", "switch"):
        return _with_header(plain, at, word, end)
    after = _skip(plain, word.end())
    if word.group() == "do":
        body = _statement(plain, after, end)
        return Statement("other", at, _simple(plain, _skip(plain, body.end), end).end)
    if plain[after : after + 1] == ":" and plain[after : after + 2] != "::":
        return Statement("label", at, after + 1)
    return _simple(plain, at, end)


def _with_header(plain: str, at: int, word: re.Match[str], end: int) -> Statement:
    opening = plain.find("(", word.end(), end)
    if opening < 0 or plain[word.end() : opening].strip() not in ("", "constexpr"):
        raise UnreadableError(at)
    last = closing(plain, opening)
    after = _skip(plain, last + 1)
    if word.group() == "switch":
        return Statement("other", at, closing(plain, after) + 1 if plain[after] == "{" else end)
    body = _statement(plain, after, end)
    statement = Statement(word.group(), at, body.end, (opening + 1, last), [body])
    if word.group() == "if":
        after = _skip(plain, body.end)
        if re.compile(r"else\b").match(plain, after):
            other = _statement(plain, _skip(plain, after + 4), end)
            statement.children.append(other)
            statement.end = other.end
    return statement


def _simple(plain: str, at: int, end: int) -> Statement:
    for _, last in split_at(plain, at, end, ";"):
        if last < end:
            return Statement("simple", at, last + 1)
    raise UnreadableError(at)
