"""A C preprocessor and tokenizer: comments removed, macros expanded, conditions evaluated where possible."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Token(NamedTuple):
    """A token (word, number, string or punctuator), and its line."""

    text: str
    line: int

    @property
    def is_name(self) -> bool:
        """Return True for identifiers and keywords."""
        first, last = self.text[:1], self.text[-1:]
        return (first.isalpha() or first in ("_", "$")) and last != '"'  # R"(...)" is a string


class Macro(NamedTuple):
    """A macro; `parameters` is None for object-like macros."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


_SPLICE = "\x01"  # replaces a backslash at the end of a line
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
_MAX_TOKENS = 100_000  # limit of the expansion of the text between two directives

Include = Callable[[str], "str | None"]


def tokens(text: str) -> Iterator[tuple[str, Token]]:
    """Yield the tokens and directives of a text, each with its kind: "token" or "directive"."""
    text = re.sub(r"\\\r?\n", _SPLICE, text)
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        line += sum(text.count(end, at, match.start()) for end in ("\n", _SPLICE))
        at = match.start()
        if kind != "skip":
            yield "directive" if kind == "directive" else "token", Token(match.group(), line)


def preprocessed(text: str, defines: Mapping[str, str], include: Include) -> list[Token]:
    """Preprocess a text; return its tokens.

    Parameters
    ----------
    defines
        Predefined macros.
    include
        Returns the text of an included file, or None to skip it. Its tokens get the line of the directive.
    """
    macros = {name: Macro(None, _words(value)) for name, value in defines.items()}
    reader = _Reader(macros, include)
    reader.read(text)
    return reader.out


class _Reader:
    """The state of the preprocessor: macros, open conditions, output."""

    def __init__(self, macros: dict[str, Macro], include: Include) -> None:
        self.out: list[Token] = []
        self._macros = macros
        self._include = include
        self._included: set[str] = set()
        # For each open #if: whether its tokens count, and whether a branch was taken (None: unknown).
        self._conditions: list[tuple[bool, bool | None]] = []
        self._pending: list[Token] = []

    def read(self, text: str, line: int | None = None) -> None:
        for kind, token in tokens(text):
            located = token if line is None else token._replace(line=line)
            if kind == "directive":
                self._flush()
                self._direct(located)
            elif self._counts():
                self._pending.append(located)
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
            counts, taken = self._conditions.pop()  # `_truth` below depends on the enclosing conditions
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
            text = self._include(name) if name and name not in self._included else None
            if text is not None:
                self._included.add(name)
                self.read(text, line)

    def _truth(self, word: str, rest: str) -> bool | None:
        """Evaluate a condition; return None if it depends on the compiler."""
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
    """Translate a token of a condition to Python."""
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
    """Evaluate an integer expression; return None if that is impossible."""
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


def _expanded(sequence: Sequence[Token], macros: Mapping[str, Macro], hidden: frozenset[str]) -> list[Token]:
    """Expand macros, and their results, but no macro within itself."""
    out: list[Token] = []
    at = 0
    while at < len(sequence):
        token = sequence[at]
        at += 1
        macro = None if token.text in hidden else macros.get(token.text)
        if macro is None:
            out.append(token)
            continue
        replacement = list(macro.body)
        if macro.parameters is not None:
            if at == len(sequence) or sequence[at].text != "(":
                out.append(token)
                continue
            values, at = arguments(sequence, at)
            replacement = _filled(macro, [[t.text for t in value] for value in values])
        new_tokens = [Token(text, token.line) for text in replacement]
        out += _expanded(new_tokens, macros, hidden | {token.text})
        if len(out) > at + _MAX_TOKENS:
            break
    return out


def _filled(macro: Macro, values: list[list[str]]) -> list[str]:
    """Substitute arguments in the body of a macro, and paste tokens joined by ##."""
    arguments_by_name = dict(zip(macro.parameters or (), values, strict=False))
    out: list[str] = []
    joins = False
    for word in macro.body:
        if word == "##":
            joins = True
            continue
        words = arguments_by_name.get(word, [word])
        if joins and out and words:
            out[-1] += words[0]
            words = words[1:]
        out += words
        joins = False
    return out


_PAIRS = {"(": ")", "[": "]", "{": "}"}


def closing(sequence: Sequence[Token], at: int) -> int:
    """Return the index of the bracket that closes the one at `at`, or the length."""
    opening, ending = sequence[at].text, _PAIRS[sequence[at].text]
    depth = 0
    for index in range(at, len(sequence)):
        text = sequence[index].text
        depth += (text == opening) - (text == ending)
        if depth == 0:
            return index
    return len(sequence)


def arguments(sequence: Sequence[Token], at: int) -> tuple[list[list[Token]], int]:
    """Return the arguments in the parentheses that open at `at`, and the index after them."""
    end = closing(sequence, at)
    return split(sequence[at + 1 : end]), end + 1


def split(sequence: Sequence[Token]) -> list[list[Token]]:
    """Split tokens at the commas outside of brackets, angle brackets included."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in sequence:
        depth += (token.text in "([{<") - (token.text in ")]}>")
        if token.text == "," and depth <= 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [] if parts == [[]] else parts
