"""`evaluate`: an expression in a string, compiled to one program.

There are three stages, each cached. `parser.parse` turns the string into steps. `_CompiledExpression` leaves
arithmetic of Python numbers alone to Python, as in a script, and makes the rest one `ElementFunction`.
`fast_path.call` compiles that function for its operands' types and runs it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs import device_launch
from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import COMPARISONS, ElementFunction, checked_output
from pycudakit._element_programs.ufunc_lowering import write_ufunc
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._families.elementwise.fast_path import call
from pycudakit._families.expression.parser import (
    ARITIES,
    CONSTANTS,
    ERRORS,
    NUMBER,
    NUMBERS,
    OPERAND,
    ExpressionStep,
    Parsed,
    by_numpy,
    by_python,
    parse,
    suggestion,
)
from pycudakit._families.expression.reductions import reduce_program
from pycudakit._interop import foreign_arrays
from pycudakit._interop.dispatch import Dispatcher
from pycudakit._interop.pandas_objects import (
    has_same_index,
    is_series,
    pandas_kind,
    values_of,
    warn_of_alignment,
)
from pycudakit._native.dtypes import BOOL, masked_arrays
from pycudakit._runtime import context, late_bound
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit._runtime.ufunc_arguments import broadcast, broadcast_shapes

# ---- Steps as a program ------------------------------------------------------------------------------


class _CompiledExpression:
    """A parsed expression, split into steps that Python computes and one `ElementFunction` for the others."""

    def __init__(self, parsed: Parsed, are_numbers: tuple[bool, ...], as_literals: dict[int, Any]) -> None:
        self.parsed = parsed
        self.steps = [
            ExpressionStep(NUMBER, (), as_literals[index], False, step.span) if index in as_literals else step
            for index, step in enumerate(parsed.steps)
        ]
        literals: set[int] = set()
        numbers: set[int] = set()  # Python's, literals among them
        self.by_python: list[int] = []
        self.by_function: list[int] = []
        for index, step in enumerate(self.steps):
            if step.function == NUMBER:
                literals.add(index)
                if type(step.value) in NUMBERS:
                    numbers.add(index)
            elif step.function == OPERAND:
                if are_numbers[step.value]:
                    numbers.add(index)
            elif step.is_operator and numbers.issuperset(step.arguments):
                numbers.add(index)
                self.by_python.append(index)
            else:
                self.by_function.append(index)
        used = {parsed.result}.union(*(self.steps[index].arguments for index in self.by_function))
        self.inputs = sorted(used.difference(self.by_function, literals))
        self.operands = [self.steps[index].value for index in self.inputs]  # used if by_python is empty
        self.literals = sorted(used & literals)
        # Inputs that are exponents: a program depends on their value, not only on their type.
        self.exponents = [
            self.inputs.index(step.arguments[1])
            for step in (self.steps[index] for index in self.by_function)
            if step.function == "power" and step.arguments[1] in numbers.intersection(self.inputs)
        ]
        last = {a: index for index in self.by_function for a in self.steps[index].arguments}
        self.finished: dict[int, list[int]] = {index: [] for index in self.by_function}
        for argument, index in last.items():
            self.finished[index].append(argument)
        labels = tuple(repr(parsed.source.segment(self.steps[index].span)) for index in self.inputs)
        self.function = ElementFunction(
            "evaluate", self.cast, self.write, labels=labels, types_python_scalars=False
        )

    def bind(self, operands: Sequence[Any]) -> list[Any]:
        """Compute the steps that are Python's, and return the function's inputs."""
        if not self.by_python:
            return [operands[index] for index in self.operands]
        values: dict[int, Any] = {}
        for index, step in enumerate(self.steps):
            if step.function == OPERAND:
                values[index] = operands[step.value]
            elif step.function == NUMBER:
                values[index] = step.value
        for index in self.by_python:
            step = self.steps[index]
            try:
                values[index] = by_python(step.function, [values[a] for a in step.arguments])
            except ERRORS as error:
                raise self.parsed.source.reraised_at(error, step.span) from None
        return [values[index] for index in self.inputs]

    def cast(self, *inputs: Any, out: Any = None) -> Any:
        """Compute the function with NumPy; its name appears in warnings when storing to another type."""
        values = dict(zip(self.inputs, inputs, strict=True))
        values |= {index: self.steps[index].value for index in self.literals}
        for index in self.by_function:
            step = self.steps[index]
            try:
                values[index] = by_numpy(step, [values[a] for a in step.arguments])
            except ERRORS as error:
                raise self.parsed.source.reraised_at(error, step.span) from None
            for argument in self.finished[index]:  # so that the next result can reuse its memory
                del values[argument]
        result = values[self.parsed.result]
        if out is None:
            if not isinstance(result, np.ndarray):
                return result if self.by_function else np.asarray(result)[()]
            result = result.astype(result.dtype.newbyteorder("="), copy=not self.by_function)
            return result[()] if result.ndim == 0 else result
        broadcast([np.asarray(result)], [out])
        np.copyto(out, result, casting="same_kind")
        return out

    def write(
        self, builder: Builder, *arguments: Any, out: tuple[Any, ...], casting: str, **_: Any
    ) -> tuple[Value]:
        """Add the function to a program."""
        values: dict[int, Any] = dict(zip(self.inputs, arguments, strict=True))
        for index in self.literals:
            number = self.steps[index].value
            if isinstance(number, (bool, np.generic)):
                values[index] = builder.constant(number, np.asarray(number).dtype)
            else:
                values[index] = WeakScalar(type(number), None, number)
        for index in self.by_function:
            step = self.steps[index]
            try:
                values[index] = _write_step(builder, step, [values[a] for a in step.arguments])
            except ERRORS as error:
                raise self.parsed.source.reraised_at(error, step.span) from None
        result = _with_dtype(builder, values[self.parsed.result])
        checked_output("evaluate", result, out, casting)
        return (builder.cast(result, out[0] or result.dtype),)


def _with_dtype(builder: Builder, value: Value | WeakScalar) -> Value:
    return builder.cast(value, np.dtype(value.type)) if isinstance(value, WeakScalar) else value


_KEYWORDS: dict[str, Any] = {"out": (None,), "dtype": None, "casting": "same_kind"}


def _write_clip(builder: Builder, x: Value | WeakScalar, *limits: Value | WeakScalar) -> Value:
    """Limit to a range; limits out of an integer type's range limit nothing."""
    bounds = dict(zip(("maximum", "minimum"), limits, strict=True))
    if isinstance(x, Value) and x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        for bound, limit in tuple(bounds.items()):
            number = limit.value if isinstance(limit, WeakScalar) else None
            if type(number) is int and (number <= info.min if bound == "maximum" else number >= info.max):
                del bounds[bound]
    return non_ufuncs.write_clip(tuple(bounds), builder, x, *bounds.values(), **_KEYWORDS)[0]


def _write_step(builder: Builder, step: ExpressionStep, values: list[Any]) -> Value:
    name = step.function
    if name == "where":
        return non_ufuncs.write_where(builder, *values)[0]
    if name == "clip":
        return _write_clip(builder, *values)
    if name == "astype":
        return builder.cast(_with_dtype(builder, values[0]), step.value)
    if name == "round":
        power = WeakScalar(float, None, non_ufuncs.power_of_ten(abs(step.value)))
        write = non_ufuncs.round_function(step.value).write
        return write(builder, _with_dtype(builder, values[0]), power, **_KEYWORDS)[0]
    if name == "nan_to_num":
        x = _with_dtype(builder, values[0])
        limits = np.finfo(x.dtype if x.dtype.kind == "f" else np.float64)
        numbers = (0.0, float(limits.max), float(limits.min))
        return non_ufuncs.write_nan_to_num(builder, x, *(WeakScalar(float, None, n) for n in numbers))[0]
    if name == "power" and step.is_operator:
        base, exponent = values
        literal = exponent.value if isinstance(exponent, WeakScalar) else None
        if isinstance(base, Value) and literal is not None:
            if type(literal) is int and literal == 2:
                return write_ufunc(builder, "square", base)[0]
            if base.dtype.kind == "f" and literal in (0.5, -1):
                return write_ufunc(builder, "sqrt" if literal == 0.5 else "reciprocal", base)[0]
    return write_ufunc(builder, name, *values)[0]


@functools.lru_cache(1024)
def _compile(
    parsed: Parsed, are_numbers: tuple[bool, ...], as_literals: tuple[tuple[int, type, Any], ...] = ()
) -> _CompiledExpression:
    return _CompiledExpression(parsed, are_numbers, {index: value for index, _, value in as_literals})


# ---- The public function -----------------------------------------------------------------------------


def _lookup(parsed: Parsed, name: str, written: str, scopes: Sequence[Mapping[str, Any]]) -> Any:
    for scope in scopes:
        if name in scope:
            return scope[name]
        if written in scope:
            return scope[written]
    if name in CONSTANTS:
        return CONSTANTS[name]
    span = next(s.span for s in parsed.steps if s.function == OPERAND and parsed.names[s.value][0] == name)
    if name in ARITIES:
        message = f"{name!r} is a function, and no operand has that name"
    else:
        known_names = [key for scope in scopes for key in scope]
        message = f"name {written!r} is not defined{suggestion(written, known_names)}"
    raise NameError(parsed.source.with_caret(message, span))


def _as_value(name: str, value: Any) -> Any:
    if not foreign_arrays.is_ordinary(value):
        by_numpy = None if isinstance(value, masked_arrays()) else True
        value = foreign_arrays.read(value, f"evaluate, {name!r}", by_numpy)
    kind = type(value)
    if kind is np.ndarray or kind in NUMBERS or hasattr(kind, "__array_ufunc__"):
        return value
    return np.asarray(value)


def _is_small(exponent: Any) -> bool:
    """Return True if ``x**exponent`` is computed by multiplication, a root or a reciprocal, not by power."""
    return type(exponent) in (int, float) and (exponent in (-1, 0.5) or exponent in range(1, 65))


def evaluate(expression: str, operands: Any = None, out: Any = None) -> Any:
    """Evaluate an expression of arrays in one pass.

    The result is NumPy's for the same expression, by its rules for types and shapes: float32 stays float32,
    and Python numbers take the type of the arrays that they are combined with.

    Parameters
    ----------
    expression : str
        Python's operators ``+ - * / // % ** & | ^ ~ << >>``, comparisons, numbers, ``True``, ``False``,
        and calls of the elementwise functions by NumPy's names, with as many arguments as they need;
        ``round(x, 2)`` takes its decimals and ``astype(x, float32)`` its type. ``and``, ``or`` and ``not``
        are `logical_and`, `logical_or` and `logical_not`; ``0 < x < 1`` is ``(0 < x) and (x < 1)``; and
        ``x if c else y`` is ``where(c, x, y)``. The outermost call may be a reduction of the expression, in
        the same pass: sum, prod, mean, var, std, min, max, ptp, any, all, count_nonzero, argmin and argmax,
        with ``axis=`` and ``keepdims=``, and ``ddof=``, as ``"sum(a*b, axis=0)"``.
    operands : mapping of str to array_like, or DataFrame, optional
        The values of the names in the expression, 64 at most. By default the caller's local and global
        variables. A name that is not among them may be ``pi``, ``e``, ``inf`` or ``nan``. Of a DataFrame,
        they are the columns, and the result is a Series with its index.
    out : ndarray, optional
        Where to put the result. It may be one of the operands.

    Returns
    -------
    ndarray or scalar
        `out` if it was passed.

    Raises
    ------
    SyntaxError, NameError, TypeError, ValueError
        If the expression is not in the language; the message points at the column.

    See Also
    --------
    fuse

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a, b = np.array([0.0, 3.0]), np.array([1.0, 4.0])
    >>> pk.evaluate("sqrt(a*a + b*b) / 2")
    array([0.5, 2.5])
    >>> float(pk.evaluate("sum(a*b)"))
    12.0
    >>> pk.evaluate("x if x > 0 else -x", {"x": np.array([-1, 2], np.int8)})
    array([1, 2], dtype=int8)
    >>> pk.evaluate("sin(a) + c", {"a": a})
    Traceback (most recent call last):
        ...
    NameError: name 'c' is not defined (at column 10)
        sin(a) + c
                 ^
    """
    if not isinstance(expression, str):
        raise TypeError(f"the expression is a str, not a {type(expression).__name__}")
    parsed = parse(expression)
    if operands is None:
        caller = sys._getframe(1)  # noqa: SLF001
        scopes: tuple[Mapping[str, Any], ...] = (caller.f_locals, caller.f_globals)
    elif isinstance(operands, Mapping) or pandas_kind(operands) == "DataFrame":
        scopes = (operands,)
    else:
        raise TypeError(f"operands is a mapping of names, or a DataFrame, not a {type(operands).__name__}")
    variables = {name: _lookup(parsed, name, written, scopes) for name, written in parsed.names}
    if not all(map(foreign_arrays.is_ordinary, (*variables.values(), out))):
        named = {**variables, "out": out}
        result = _dispatcher(parsed, expression, variables, out).dispatch((), named, None)
        if result is not NotImplemented:
            return result
    if out is not None and not isinstance(out, np.ndarray):
        foreign_arrays.read(out, "evaluate, out")
        raise TypeError(f"out is an ndarray, not a {type(out).__name__}")
    if out is None and parsed.reduction is None and any(map(is_series, variables.values())):
        result = _of_series(parsed, expression, variables)
        if result is not None:
            return result
    values = [_as_value(name, value) for name, value in variables.items()]

    are_numbers = tuple([type(value) in NUMBERS for value in values])
    compiled = _compile(parsed, are_numbers)
    inputs = compiled.bind(values)
    exponents = [i for i in compiled.exponents if _is_small(inputs[i])]
    if exponents:
        compiled = _with_literals(compiled, are_numbers, inputs, exponents)
        inputs = compiled.bind(values)
    compute = functools.partial(_compute, parsed.reduction)
    try:
        if parsed.reduction is None and out is None and inputs and compiled.function.is_small(*inputs):
            return compiled.function.numpy(*inputs)
        return compute(compiled, inputs, out)
    except OverflowError:
        # A Python integer that the other operands cannot hold may still be compared, if it is a literal.
        integers = [i for i, value in enumerate(inputs) if type(value) is int]
        if not integers:
            raise
        compiled = _with_literals(compiled, are_numbers, inputs, integers)
        return compute(compiled, compiled.bind(values), out)
    except ValueError:
        try:
            broadcast_shapes(*(np.shape(value) for value in values))
        except ValueError:
            shapes = ", ".join(f"{w} {np.shape(v)}" for (_, w), v in zip(parsed.names, values, strict=True))
            raise ValueError(f"operands could not be broadcast together: {shapes}") from None
        raise


def _dispatcher(parsed: Parsed, expression: str, variables: Mapping[str, Any], out: Any) -> Dispatcher:
    """Return the implementations of an expression for operands of other libraries."""
    return Dispatcher(
        "evaluate",
        evaluate,
        evaluate,
        on_dask=lambda *_: late_bound.call_on_dask("evaluate", (expression, variables), {"out": out}),
        on_device=lambda *_: late_bound.call_on_device(evaluate, (expression, variables, out), {}),
        device_fast_path=lambda **_: _on_device(parsed, list(variables.values()), out),
    )


# Steps that pandas computes otherwise: it replaces the results of divisions by zero.
_DIVISIONS = frozenset({"divmod", "floor_divide", "remainder"})
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})
_TO_BOOL = frozenset(
    {"isfinite", "isinf", "isnan", "logical_and", "logical_not", "logical_or", "logical_xor", *COMPARISONS}
)
_SMALL_SERIES = 4096  # elements: pandas aligns no more than these without a warning


def _differs_in_pandas(parsed: Parsed, operands: list[Any]) -> bool:
    """Return True if pandas computes a step otherwise than NumPy: `//`, or `&` of bools and integers."""
    are_bool: list[bool] = []
    for step in parsed.steps:
        if step.function == OPERAND:
            value = operands[step.value]
            are_bool.append(type(value) is bool or getattr(value, "dtype", None) == BOOL)
            continue
        parts = {are_bool[index] for index in step.arguments}
        if step.function in _DIVISIONS or (step.function in _BITWISE and len(parts) == 2):
            return True
        is_bool = step.function in _TO_BOOL or (step.function in (*_BITWISE, "invert") and parts == {True})
        are_bool.append(is_bool or (step.function == NUMBER and type(step.value) is bool))
    return False


def _of_series(parsed: Parsed, expression: str, variables: Mapping[str, Any]) -> Any:
    """Return the result for Series of one index, computed by their values; None if pandas must compute."""
    if context.current_engine() != "auto" or _differs_in_pandas(parsed, list(variables.values())):
        return None
    values: dict[str, Any] = {}
    all_series = [value for value in variables.values() if is_series(value)]
    first = all_series[0]
    for name, value in variables.items():
        if is_series(value):
            values[name] = values_of(value)
            if values[name] is not None and not has_same_index(first, value):
                if len(value) > _SMALL_SERIES:
                    warn_of_alignment("evaluate", "Series with different indexes")
                return None
        else:
            is_plain = type(value) in NUMBERS or (type(value) is np.ndarray and value.shape == first.shape)
            values[name] = value if is_plain else None
        if values[name] is None:
            return None
    result = evaluate(expression, values)
    return foreign_arrays.with_pandas_index(result, all_series)


def _on_device(parsed: Parsed, values: list[Any], out: Any) -> Any:
    """Enqueue an expression of device arrays; return None if it needs the general path."""
    if parsed.reduction is not None or not any(map(foreign_arrays.is_on_device, values)):
        return None
    are_numbers = tuple([type(value) in NUMBERS for value in values])
    compiled = _compile(parsed, are_numbers)
    inputs = compiled.bind(values)
    exponents = [i for i in compiled.exponents if _is_small(inputs[i])]
    if exponents:
        compiled = _with_literals(compiled, are_numbers, inputs, exponents)
        inputs = compiled.bind(values)
    return device_launch.call(compiled.function, inputs, out)


def _compute(
    reduction: tuple[str, dict[str, Any]] | None,
    compiled: _CompiledExpression,
    inputs: Sequence[Any],
    out: Any,
) -> Any:
    tracer = next((value for value in inputs if issubclass(type(value), LazyArray)), None)
    if tracer is not None and out is None:
        values = tracer.apply(compiled.function, inputs)
        return values if reduction is None else getattr(np, reduction[0])(values, **reduction[1])
    if reduction is None:
        return call(compiled.function, inputs, out)
    name, keywords = reduction
    return reduce_program(name, compiled.function, inputs, out, **keywords)


def _with_literals(
    compiled: _CompiledExpression,
    are_numbers: tuple[bool, ...],
    inputs: Sequence[Any],
    literal_inputs: Sequence[int],
) -> _CompiledExpression:
    """Return the expression compiled anew, with some inputs as literals."""
    before = [(i, type(s.value), s.value) for i, s in enumerate(compiled.steps) if s.function == NUMBER]
    literals = {i for i, step in enumerate(compiled.parsed.steps) if step.function == NUMBER}
    added = [(compiled.inputs[i], type(inputs[i]), inputs[i]) for i in literal_inputs]
    return _compile(compiled.parsed, are_numbers, tuple([b for b in before if b[0] not in literals] + added))
