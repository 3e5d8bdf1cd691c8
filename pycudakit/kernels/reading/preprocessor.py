"""A kernels' source as tokens: without comments, macros replaced, conditions decided where they can be."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Token(NamedTuple):
    """A word, number, string or sign, and the line that it is on."""

    text: str
    line: int

    @property
    def is_name(self) -> bool:
        """Tell whether it is an identifier or a keyword."""
        first, last = self.text[:1], self.text[-1:]
        return (first.isalpha() or first in ("_", "$")) and last != '"'  # R"(...)" is a string


class Macro(NamedTuple):
    """What a name stands for; `parameters` is None if it takes none."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


_SPLICE = "\x01"  # stands for a backslash at the end of a line, and counts as one
_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]* | /\*.*?(?:\*/|\Z))
  | (?P<directive>^[ \t\x01]*\#(?!\#)(?:/\*.*?\*/|[^\n])*)
  | (?P<token>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
      | \.?\d(?:[eEpP][+-]|'?[\w.])*
      | [A-Za-z_$][\w$]*
      | :: | \#\# | \.\.\. | && | \|\| | [=!<>]= | [^\s\w\x01])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_INCLUDE = re.compile(r'\s*(?:"([^"]+)"|<([^>]+)>)')
_MAX_TOKENS = 100_000  # tokens that macros may make of those between two directives

Include = Callable[[str], "str | None"]


def tokens(text: str) -> Iterator[tuple[str, Token]]:
    """Yield each token and each directive, with which of the two it is."""
    text = re.sub(r"\\\r?\n", _SPLICE, text)
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        line += sum(text.count(end, at, match.start()) for end in ("\n", _SPLICE))
        at = match.start()
        if kind != "skip":
            yield "directive" if kind == "directive" else "token", Token(match.group(), line)


def preprocessed(text: str, defines: Mapping[str, str], include: Include) -> list[Token]:
    """Return the tokens of a text.

    Parameters
    ----------
    defines
        Macros that are there from the beginning.
    include
        Returns the text of a file that is included, or None where it is to be left out; of what it returns,
        every token is on the line of the directive.
    """
    macros = {name: Macro(None, _words(value)) for name, value in defines.items()}
    reader = _Reader(macros, include)
    reader.read(text)
    return reader.out


class _Reader:
    def __init__(self, macros: dict[str, Macro], include: Include) -> None:
        self.out: list[Token] = []
        self._macros = macros
        self._include = include
        self._included: set[str] = set()
        # Of each #if that is open: whether its tokens count, whether a branch was taken (None: who knows).
        self._conditions: list[tuple[bool, bool | None]] = []
        self._pending: list[Token] = []

    def read(self, text: str, line: int | None = None) -> None:
        for kind, token in tokens(text):
            here = token if line is None else token._replace(line=line)
            if kind == "directive":
                self._flush()
                self._direct(here)
            elif self._counts():
                self._pending.append(here)
        self._flush()

    def _flush(self) -> None:
        self.out += _expanded(self._pending, self._macros, frozenset())
        self._pending = []

    def _counts(self) -> bool:
        return all(counts for counts, _ in self._conditions)

    def _direct(self, token: Token) -> None:
        text = re.sub(r"/\*.*?\*/|//.*", " ", token.text.replace(_SPLICE, " "), flags=re.DOTALL)
        match = re.match(r"\s*#\s*(\w+)(.*)", text, re.DOTALL)
        if match is None:
            return
        word, rest = match.groups()
        if word in ("if", "ifdef", "ifndef"):
            truth = self._truth(word, rest)
            self._conditions.append((truth is not False, truth))
        elif word in ("elif", "else") and self._conditions:
            counts, taken = self._conditions.pop()  # the condition is of what is around it
            if taken is not None:
                truth = not taken and (word == "else" or self._truth("if", rest))
                counts, taken = truth is not False, None if truth is None else taken or truth
            self._conditions.append((counts, taken))
        elif word == "endif" and self._conditions:
            self._conditions.pop()
        elif self._counts():
            self._do(word, rest, token.line)

    def _do(self, word: str, rest: str, line: int) -> None:
        if word == "define":
            match = re.match(r"\s*([A-Za-z_]\w*)(\(([^)]*)\))?(.*)", rest, re.DOTALL)
            if match is not None:
                name, takes, parameters, body = match.groups()
                names = tuple(p.strip() for p in parameters.split(",") if p.strip()) if takes else None
                self._macros[name] = Macro(names, _words(body))
        elif word == "undef":
            self._macros.pop(rest.strip(), None)
        elif word == "include":
            match = _INCLUDE.match(rest)
            name = (match[1] or match[2]) if match else ""
            found = self._include(name) if name and name not in self._included else None
            if found is not None:
                self._included.add(name)
                self.read(found, line)

    def _truth(self, word: str, rest: str) -> bool | None:
        """Return whether a condition holds; None if that depends on the compiler."""
        if not self._counts():
            return False
        if word != "if":
            rest = f"defined({rest.strip()})"
        rest = re.sub(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", self._defined, rest)
        words = _expanded([Token(w, 0) for w in _words(rest)], self._macros, frozenset())
        if any(_is_the_compilers(w.text) for w in words):
            return None
        value = _evaluated(" ".join(_IN_PYTHON.get(w.text, _number(w)) for w in words))
        return None if value is None else bool(value) == (word != "ifndef")

    def _defined(self, match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return "1" if name in self._macros else name if _is_the_compilers(name) else "0"


def _is_the_compilers(name: str) -> bool:
    return name.startswith("__")


_IN_PYTHON = {"&&": "and", "||": "or", "!": "not", "/": "//", "true": "1"}


def _number(token: Token) -> str:
    """Return a token of a condition as Python has it."""
    if token.is_name:
        return "0"
    match = re.fullmatch(r"(0[xX])?([\da-fA-F']+)[uUlL]*", token.text)
    if match is None:
        return "?" if token.text[0].isdigit() else token.text
    digits = match[2].replace("'", "")
    base = 16 if match[1] else 8 if digits.startswith("0") else 10
    try:
        return str(int(digits, base))
    except ValueError:
        return "?"


_OPERATIONS: dict[type[Any], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _evaluated(expression: str) -> Any:
    """Return what an expression of integers is, or None."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BoolOp):
        decide = all if isinstance(node.op, ast.And) else any
        return decide([_value(value) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        value = _value(node.operand)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATIONS[type(node.ops[0])](_value(node.left), _value(node.comparators[0]))
    raise ValueError(node)


def _words(text: str) -> tuple[str, ...]:
    return tuple(token.text for kind, token in tokens(text) if kind == "token")


def _expanded(given: Sequence[Token], macros: Mapping[str, Macro], hidden: frozenset[str]) -> list[Token]:
    """Replace macros, and what they make, but none by itself."""
    out: list[Token] = []
    at = 0
    while at < len(given):
        token = given[at]
        at += 1
        macro = None if token.text in hidden else macros.get(token.text)
        if macro is None:
            out.append(token)
            continue
        made = list(macro.body)
        if macro.parameters is not None:
            if at == len(given) or given[at].text != "(":
                out.append(token)
                continue
            values, at = arguments(given, at)
            made = _filled(macro, [[t.text for t in value] for value in values])
        made_tokens = [Token(text, token.line) for text in made]
        out += _expanded(made_tokens, macros, hidden | {token.text})
        if len(out) > at + _MAX_TOKENS:
            break
    return out


def _filled(macro: Macro, values: list[list[str]]) -> list[str]:
    """Put a macro's arguments into its body, and join what ## joins."""
    known = dict(zip(macro.parameters or (), values, strict=False))
    out: list[str] = []
    joins = False
    for word in macro.body:
        if word == "##":
            joins = True
            continue
        words = known.get(word, [word])
        if joins and out and words:
            out[-1] += words[0]
            words = words[1:]
        out += words
        joins = False
    return out


_PAIRS = {"(": ")", "[": "]", "{": "}"}


def closing(given: Sequence[Token], at: int) -> int:
    """Return where the bracket closes that opens at a place; the end if it does not."""
    opening, ending = given[at].text, _PAIRS[given[at].text]
    depth = 0
    for place in range(at, len(given)):
        text = given[place].text
        depth += (text == opening) - (text == ending)
        if depth == 0:
            return place
    return len(given)


def arguments(given: Sequence[Token], at: int) -> tuple[list[list[Token]], int]:
    """Return what the commas separate in the parentheses that open at a place, and the place after them."""
    end = closing(given, at)
    return split(given[at + 1 : end]), end + 1


def split(given: Sequence[Token]) -> list[list[Token]]:
    """Return what the commas outside all brackets separate, those of templates among them."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in given:
        depth += (token.text in "([{<") - (token.text in ")]}>")
        if token.text == "," and depth <= 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [] if parts == [[]] else parts
