"""Parser of `evaluate`: it turns a string into a list of steps, one per operation, by Python's `ast`."""

from __future__ import annotations

import ast
import difflib
import functools
import math
import operator
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from pycudakit._families.elementwise import ufuncs
from pycudakit._native import abi

MAX_OPERANDS = 64
MAX_OPERATIONS = abi.MAX_INSTRUCTIONS  # of a program, with its operands and numbers
MAX_CHARACTERS = 1 << 19
_MAX_TRIES = 100
MAX_BITS = 4096  # of an integer that Python computes
CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}

# The numbers of arguments that each function accepts.
ARITIES: dict[str, tuple[int, ...]] = {
    name: (function.nin,)
    for name in vars(ufuncs)
    if isinstance(function := getattr(np, name, None), np.ufunc) and function.nout == 1
}
ARITIES |= {"where": (3,), "clip": (3,), "nan_to_num": (1,), "round": (1, 2), "astype": (2,)}

_DTYPES = {dtype.name: dtype for dtype in abi.TYPES}
NUMBERS = (bool, int, float, complex)
ERRORS = (ZeroDivisionError, OverflowError, TypeError, ValueError)  # that arithmetic raises


# ---- Positions in the string -------------------------------------------------------------------------


class Span(NamedTuple):
    """A range in the text that Python's parser saw: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def _span(node: ast.expr) -> Span:
    return Span(
        node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    )


class Source:
    """An expression's text, and errors that point into it."""

    def __init__(self, text: str) -> None:
        self.lines = re.sub("\r\n?", "\n", text).split("\n")
        # Python's parser rejects leading white space.
        stripped = "\n".join(self.lines).lstrip()
        self.first = len(self.lines) - 1 - stripped.count("\n")
        self.indent = len(self.lines[self.first]) - len(stripped.split("\n")[0])
        self.text = stripped

    def at(self, line: int, column: int) -> tuple[int, int]:
        """Return the line and column, from 0, in characters, of a position in the parser's text."""
        line += self.first - 1
        indent = self.indent if line == self.first else 0
        seen = self.lines[line][indent:].encode(errors="surrogatepass")[:column]
        return line, indent + len(seen.decode(errors="ignore"))

    def segment(self, span: Span) -> str:
        """Return the text of a span of one line."""
        (line, start), (_, end) = self.at(*span[:2]), self.at(*span[2:])
        return self.lines[line][start:end]

    def with_caret(self, message: str, span: Span) -> str:
        """Return the message with the column, the line, and carets below the span."""
        (line, start), (end_line, end) = self.at(*span[:2]), self.at(*span[2:])
        text = self.lines[line]
        mark = "^" * max((end if end_line == line else len(text)) - start, 1)
        of_line = f" of line {line + 1}" if len(self.lines) > 1 else ""
        return f"{message} (at column {start + 1}{of_line})\n    {text}\n    {' ' * start}{mark}"

    def syntax_error(self, message: str, span: Span) -> SyntaxError:
        """Make a `SyntaxError` with the position, so that a traceback shows carets."""
        (line, start), (end_line, end) = self.at(*span[:2]), self.at(*span[2:])
        return SyntaxError(
            message, ("<expression>", line + 1, start + 1, self.lines[line], end_line + 1, end + 1)
        )

    def reraised_at(self, error: Exception, span: Span) -> Exception:
        """Copy an error of Python or NumPy, with a message that points at a span."""
        kind = next(kind for kind in ERRORS if isinstance(error, kind))
        message = error.args[-1] if kind is OverflowError else error  # some come with a number
        return kind(self.with_caret(str(message), span))

    def parse(self) -> ast.expr:
        """Parse the text to Python's tree."""
        if len(self.text) > MAX_CHARACTERS:  # Python's parser would take seconds
            raise ValueError(f"the expression has more than {MAX_CHARACTERS} characters; compute it in parts")
        invalid = re.search("[\0\ud800-\udfff]", self.text)
        if invalid:
            before = self.text[: invalid.start()].split("\n")
            line, column = len(before), len(before[-1].encode())
            raise self.syntax_error(f"invalid character {invalid[0]!r}", Span(line, column, line, column + 1))
        try:
            return _parsed(self.text)
        except SyntaxError as error:
            message, lines = error.msg, self.text.split("\n")
            line = min(error.lineno or len(lines), len(lines))
            column = (error.offset or 0) - 1
            if column < 0:  # Python's column where the text ends too early
                column = len(lines[line - 1])
            column = len(lines[line - 1][:column].encode())
        except (RecursionError, MemoryError):
            message, line, column = "the expression is nested too deeply", 1, 0
        if not self.text:
            message = "the expression is empty"
        raise self.syntax_error(message, Span(line, column, line, column + 1)) from None


# ---- The language ------------------------------------------------------------------------------------

OPERAND, NUMBER = "operand", "number"


# Functions that may be the outermost call of an expression, and their keywords.
REDUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("sum", "prod", "mean", "min", "max", "amin", "amax", "any", "all"), ("axis", "keepdims")
    ),
    **dict.fromkeys(("count_nonzero", "ptp", "argmin", "argmax"), ("axis", "keepdims")),
    **dict.fromkeys(("var", "std"), ("axis", "keepdims", "ddof")),
}


class ExpressionStep(NamedTuple):
    """An operation on earlier steps' results, an operand, or a number."""

    function: str  # NumPy's name, or OPERAND or NUMBER
    arguments: tuple[int, ...]
    value: Any  # of a NUMBER; the index of an OPERAND; the decimals of round; the dtype of astype
    is_operator: bool  # between Python numbers an operator is Python's, and a function NumPy's
    span: Span


def _parsed(text: str) -> ast.expr:
    """Parse an expression by Python's parser.

    Before Python 3.13, it counts recursions for all threads together, and raises SystemError if another
    thread parses while this one collects garbage (python/cpython#106905).
    """
    for _ in range(_MAX_TRIES):
        try:
            return ast.parse(text, "<expression>", mode="eval").body
        except SystemError:
            time.sleep(0)
    return ast.parse(text, "<expression>", mode="eval").body


@dataclass(frozen=True, eq=False)
class Parsed:
    """A parsed expression: its steps and operand names."""

    source: Source
    steps: tuple[ExpressionStep, ...]
    result: int  # the step that is the expression's value
    names: tuple[tuple[str, str], ...]  # of the operands: as Python normalises them, and as in the source
    reduction: tuple[str, dict[str, Any]] | None = None  # of the value, and its keywords


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.USub: "negative",
    ast.UAdd: "positive",
    ast.Invert: "invert",
    ast.Not: "logical_not",
    ast.And: "logical_and",
    ast.Or: "logical_or",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.Attribute: "attributes are",
    ast.Subscript: "indexing is",
    ast.Lambda: "lambda is",
    ast.NamedExpr: "assignment is",
    ast.Starred: "* before an argument is",
    ast.MatMult: "the matrix product is",
    ast.JoinedStr: "strings are",
    ast.Is: "'is' is",
    ast.IsNot: "'is not' is",
    ast.In: "'in' is",
    ast.NotIn: "'not in' is",
}
_PYTHON_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "negative": operator.neg,
    "positive": operator.pos,
    "invert": operator.invert,
    "logical_not": operator.not_,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "where": lambda condition, x, y: x if condition else y,
}


def by_python(function: str, values: Sequence[Any]) -> Any:
    """Apply an operator to Python numbers, as Python does, but refuse results of too many bits."""
    if len(values) == 2 and all(isinstance(value, int) for value in values):
        a, b = values
        bits = {"power": a.bit_length() * b, "left_shift": a.bit_length() + b}.get(function, 0)
        if bits > MAX_BITS and not (function == "power" and a in (-1, 0, 1)):
            raise ValueError(f"the integer has more than {MAX_BITS} bits")
    return _PYTHON_OPERATORS[function](*values)


def by_numpy(step: ExpressionStep, values: Sequence[Any]) -> Any:
    """Apply a step with NumPy."""
    if step.function == "round":
        return np.round(values[0], step.value)
    if step.function == "astype":
        return np.asarray(values[0]).astype(step.value)
    if step.function == "power" and step.is_operator:
        return values[0] ** values[1]  # for some exponents NumPy does not use np.power
    return getattr(np, step.function)(*values)


class _Parser:
    """Turns a tree into steps, without recursion, as trees may be deep."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: list[ExpressionStep] = []
        self.names: dict[str, str] = {}
        self.accepted: dict[tuple[Any, ...], int] = {}

    def parse(self) -> Parsed:
        root, reduction = self.outermost_reduction(self.source.parse())
        pending: list[tuple[ast.expr, list[ast.expr] | None]] = [(root, None)]
        values: list[int] = []
        num_nodes = 1
        while pending:
            node, children = pending.pop()
            if children is None:
                children = self.children(node)
                num_nodes += len(children)
                if num_nodes > 4 * MAX_OPERATIONS or len(self.steps) > MAX_OPERATIONS:
                    raise ValueError(
                        f"the expression has more than {MAX_OPERATIONS} operations; compute it in parts"
                    )
                pending.append((node, children))
                pending += [(child, None) for child in reversed(children)]
            else:
                first = len(values) - len(children)
                values[first:] = [self.emit(node, values[first:])]
        return Parsed(self.source, tuple(self.steps), values[0], tuple(self.names.items()), reduction)

    def outermost_reduction(self, root: ast.expr) -> tuple[ast.expr, tuple[str, dict[str, Any]] | None]:
        """Split off a reduction that is the outermost call: its argument, its name and keywords."""
        if not (
            isinstance(root, ast.Call) and isinstance(root.func, ast.Name) and root.func.id in REDUCTIONS
        ):
            return root, None
        name, accepted = root.func.id, REDUCTIONS[root.func.id]
        if len(root.args) != 1 or isinstance(root.args[0], ast.Starred):
            message = f"{name} takes 1 argument, and got {len(root.args)}; others by name, as axis=0"
            raise TypeError(self.source.with_caret(message, _span(root)))
        keywords: dict[str, Any] = {}
        for keyword in root.keywords:
            span = _span(keyword.value)
            if keyword.arg not in accepted:
                message = f"{name} takes {', '.join(accepted)}, not {keyword.arg}"
                raise TypeError(self.source.with_caret(message, span))
            try:
                keywords[keyword.arg] = ast.literal_eval(keyword.value)
            except ValueError:
                raise TypeError(self.source.with_caret(f"{keyword.arg} must be a literal", span)) from None
        return root.args[0], (name, keywords)

    def unsupported(self, subject: str, node: ast.expr) -> SyntaxError:
        return self.source.syntax_error(f"{subject} not part of the language", _span(node))

    def children(self, node: ast.expr) -> list[ast.expr]:
        """Return the operand nodes of a node; raise for syntax that is not part of the language."""
        operators: list[ast.AST] = []
        below: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            operators, below = [node.op], [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            operators, below = [node.op], [node.operand]
        elif isinstance(node, ast.BoolOp):
            below = node.values
        elif isinstance(node, ast.Compare):
            operators, below = [*node.ops], [node.left, *node.comparators]
        elif isinstance(node, ast.IfExp):
            below = [node.test, node.body, node.orelse]
        elif isinstance(node, ast.Call):
            below = self.arguments(node)
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (bool, int, float):
                name = "complex numbers" if type(node.value) is complex else f"{node.value!r:.20}"
                raise self.unsupported(name + (" are" if name.endswith("s") else " is"), node)
        elif not isinstance(node, ast.Name):
            raise self.unsupported(_UNSUPPORTED.get(type(node), f"{type(node).__name__} is"), node)
        for op in operators:
            if type(op) not in _OPERATORS:
                raise self.unsupported(_UNSUPPORTED[type(op)], node)
        return below

    def arguments(self, node: ast.Call) -> list[ast.expr]:
        if not isinstance(node.func, ast.Name):
            raise self.unsupported(_UNSUPPORTED.get(type(node.func), "calling this is"), node.func)
        name, span = node.func.id, _span(node.func)
        if name == "divmod":
            raise TypeError(self.source.with_caret("divmod has two results; take // and %", span))
        if name in REDUCTIONS:
            message = f"{name} must be the outermost call"
            raise TypeError(self.source.with_caret(message + suggestion(name, ARITIES), span))
        if name not in ARITIES:
            raise NameError(
                self.source.with_caret(f"{name!r} is not a function{suggestion(name, ARITIES)}", span)
            )
        if node.keywords:
            raise self.unsupported("keywords are", node.keywords[0].value)
        arities = ARITIES[name]
        if len(node.args) not in arities:
            expected = " or ".join(map(str, arities)) + " argument" + "s" * (arities != (1,))
            message = f"{name} takes {expected}, and got {len(node.args)}"
            raise TypeError(self.source.with_caret(message, _span(node)))
        if name == "astype":
            dtype = node.args[1]
            if not isinstance(dtype, ast.Name) or dtype.id not in _DTYPES:
                accepted = ", ".join(_DTYPES)
                raise TypeError(self.source.with_caret(f"astype takes one of {accepted}", _span(dtype)))
            return node.args[:1]
        return node.args

    def emit(self, node: ast.expr, arguments: list[int]) -> int:
        """Add the steps of a node, and return the index of the last."""
        span = _span(node)
        if isinstance(node, ast.Name):
            return self.operand(node)
        if isinstance(node, ast.Constant):
            return self.number(node.value, span)
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return self.add(_OPERATORS[type(node.op)], arguments, span)
        if isinstance(node, ast.BoolOp):
            return self.joined(_OPERATORS[type(node.op)], arguments, span)
        if isinstance(node, ast.Compare):
            pairs = zip(node.ops, arguments, arguments[1:], strict=False)
            return self.joined(
                "logical_and", [self.add(_OPERATORS[type(op)], [a, b], span) for op, a, b in pairs], span
            )
        if isinstance(node, ast.IfExp):
            return self.add("where", arguments, span)
        called = cast(ast.Call, node)
        name, value = cast(ast.Name, called.func).id, None
        if name == "round":
            decimals = [self.steps[index] for index in arguments[1:]]
            if any(d.function != NUMBER or type(d.value) is not int for d in decimals):
                raise TypeError(self.source.with_caret("round takes a literal number of decimals", span))
            value = decimals[0].value if decimals else 0
            arguments = arguments[:1]
        elif name == "astype":
            value = _DTYPES[cast(ast.Name, called.args[1]).id]
        return self.add(name, arguments, span, value, is_operator=False)

    def joined(self, function: str, arguments: list[int], span: Span) -> int:
        return functools.reduce(lambda a, b: self.add(function, [a, b], span), arguments)

    def operand(self, node: ast.Name) -> int:
        span = _span(node)
        if node.id not in self.names:
            written = self.source.segment(span)  # Python's parser normalises names
            self.names[node.id] = written
            if sum(name not in CONSTANTS for name in self.names) > MAX_OPERANDS:
                raise ValueError(
                    self.source.with_caret(f"the expression has more than {MAX_OPERANDS} operands", span)
                )
        return self.step(ExpressionStep(OPERAND, (), list(self.names).index(node.id), False, span), node.id)

    def number(self, value: Any, span: Span) -> int:
        if isinstance(value, complex):
            raise TypeError(self.source.with_caret("the number is complex", span))
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise ValueError(self.source.with_caret(f"the integer has more than {MAX_BITS} bits", span))
        bits = np.asarray(value).tobytes() if isinstance(value, (float, np.generic)) else value
        return self.step(ExpressionStep(NUMBER, (), value, False, span), type(value), bits)

    def add(
        self, function: str, arguments: list[int], span: Span, value: Any = None, is_operator: bool = True
    ) -> int:
        step = ExpressionStep(function, tuple(arguments), value, is_operator, span)
        inner = [self.steps[index] for index in arguments]
        if all(argument.function == NUMBER for argument in inner):
            try:
                constant = self.fold(step, [argument.value for argument in inner])
            except FloatingPointError:
                pass  # an operation that warns does so at each evaluation
            except ERRORS as error:
                raise self.source.reraised_at(error, span) from None
            else:
                return self.number(constant, span)
        return self.step(step, function, *arguments, value, is_operator)

    def fold(self, step: ExpressionStep, values: list[Any]) -> Any:
        if step.is_operator and all(type(value) in NUMBERS for value in values):
            return by_python(step.function, values)
        with np.errstate(all="raise", under="ignore"):
            return np.asarray(by_numpy(step, values))[()]

    def step(self, step: ExpressionStep, *key: Any) -> int:
        """Add a step and return its index; an identical earlier step is reused."""
        index = self.accepted.setdefault((step.function, *key), len(self.steps))
        if index == len(self.steps):
            self.steps.append(step)
        return index


# NumPy's names for functions that other languages name differently.
_NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "pow": "power",
    "max": "maximum",
    "min": "minimum",
}


def suggestion(name: str, accepted: Iterable[Any]) -> str:
    """Return the end of an error message about an unknown name: the closest match."""
    if _NUMPY_NAMES.get(name) in accepted:
        return f"; did you mean {_NUMPY_NAMES[name]!r}?"
    close = difflib.get_close_matches(name, [k for k in accepted if isinstance(k, str)], 1)
    return f"; did you mean {close[0]!r}?" if close else ""


@functools.lru_cache(256)
def parse(expression: str) -> Parsed:
    """Parse an expression to steps."""
    return _Parser(Source(expression)).parse()
