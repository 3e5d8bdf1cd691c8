"""Lowering of NumPy's ufuncs to instructions, with NumPy's type promotion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.values import ACCEPTS_ANY_INTEGER, Value, WeakScalar, infinity_like
from pycudakit._native.dtypes import (
    BOOL,
    CODES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DType,
)

Lowering = Callable[..., "Value | tuple[Value, ...]"]


def as_named(name: str) -> Lowering:
    return lambda builder, *values: builder.apply(name, *values)


def _same(_builder: Builder, value: Value) -> Value:
    return value


def _or_for_bool(name: str, for_bool: str) -> Lowering:
    def lower(builder: Builder, *values: Value) -> Value:
        return builder.apply(for_bool if values[0].dtype == BOOL else name, *values)

    return lower


def _or_for_exact(name: str, for_exact: Lowering) -> Lowering:
    """Lower floats to one operation, bools and integers by another lowering."""

    def lower(builder: Builder, *values: Value) -> Value | tuple[Value, ...]:
        return builder.apply(name, *values) if values[0].dtype.kind == "f" else for_exact(builder, *values)

    return lower


def _constantly(result: bool) -> Lowering:
    return lambda builder, _value: builder.constant(result, BOOL)


def _comparison(name: str, swapped: bool = False) -> Lowering:
    """Compare bools as bytes, and int64 with uint64 exactly."""
    negative_answer = {"equal": False, "not_equal": True}

    def lower(builder: Builder, a: Value, b: Value) -> Value:
        if swapped:
            a, b = b, a
        if a.dtype == b.dtype:
            return builder.apply(name, builder.cast(a, UINT8) if a.dtype == BOOL else a,
                                 builder.cast(b, UINT8) if b.dtype == BOOL else b)  # fmt: skip
        signed = a if a.dtype == INT64 else b
        is_negative = builder.apply("less", signed, builder.constant(0, INT64))
        as_unsigned = builder.apply(name, builder.cast(a, UINT64), builder.cast(b, UINT64))
        # A negative number is less than every unsigned one.
        for_negative = negative_answer.get(name, signed is a)
        return builder.select(is_negative, builder.constant(for_negative, BOOL), as_unsigned)

    return lower


def _scaled_by(factor: float) -> Lowering:
    def lower(builder: Builder, value: Value) -> Value:
        work = FLOAT32 if value.dtype == FLOAT16 else value.dtype
        if work == FLOAT32:
            numerator, denominator = (np.float32(np.pi), np.float32(180))
            ratio: Any = numerator / denominator if factor < 1 else denominator / numerator
        else:
            ratio = factor
        scaled = builder.apply("multiply", builder.cast(value, work), builder.constant(ratio, work))
        return builder.convert(scaled, value.dtype)

    return lower


def _absolute(builder: Builder, value: Value) -> Value:
    return value if value.dtype == BOOL else builder.apply("absolute", value)


def _square(builder: Builder, value: Value) -> Value:
    return builder.apply("multiply", value, value)


def _nextafter(builder: Builder, a: Value, b: Value) -> Value:
    return builder.apply("nextafter_half" if a.dtype == FLOAT16 else "nextafter", a, b)


def _divmod(builder: Builder, a: Value, b: Value) -> tuple[Value, ...]:
    return builder.apply("floor_divide", a, b), builder.apply("remainder", a, b)


def _ldexp(builder: Builder, value: Value, power: Value) -> Value:
    # Computed in float64, which holds every relevant power exactly, so that the result is rounded once.
    scaled = builder.apply("ldexp", builder.cast(value, FLOAT64), builder.cast(power, FLOAT64))
    return builder.convert(scaled, value.dtype)


def _frexp(builder: Builder, value: Value) -> tuple[Value, ...]:
    exponent = builder.apply("frexp_exponent", value)
    return builder.apply("frexp_fraction", value), builder.convert(exponent, INT32)


def _modf(builder: Builder, value: Value) -> tuple[Value, ...]:
    zero = builder.constant(0, value.dtype)
    finite = builder.select(builder.apply("isinf", value), zero, value)
    rest = builder.apply("subtract", finite, builder.apply("trunc", finite))
    return builder.apply("copysign", rest, value), builder.apply("trunc", value)


LOWERINGS: dict[str, Lowering] = {
    "add": _or_for_bool("add", "logical_or"),
    "multiply": _or_for_bool("multiply", "logical_and"),
    "maximum": _or_for_bool("maximum", "logical_or"),
    "minimum": _or_for_bool("minimum", "logical_and"),
    "fmax": _or_for_exact("fmax", _or_for_bool("maximum", "logical_or")),
    "fmin": _or_for_exact("fmin", _or_for_bool("minimum", "logical_and")),
    "bitwise_and": _or_for_bool("bitwise_and", "logical_and"),
    "bitwise_or": _or_for_bool("bitwise_or", "logical_or"),
    "bitwise_xor": _or_for_bool("bitwise_xor", "logical_xor"),
    "invert": _or_for_bool("invert", "logical_not"),
    "absolute": _absolute,
    "fabs": as_named("absolute"),
    "float_power": as_named("power"),
    "positive": _same,
    "square": _square,
    "floor": _or_for_exact("floor", _same),
    "ceil": _or_for_exact("ceil", _same),
    "trunc": _or_for_exact("trunc", _same),
    "isnan": _or_for_exact("isnan", _constantly(False)),
    "isinf": _or_for_exact("isinf", _constantly(False)),
    "isfinite": _or_for_exact("isfinite", _constantly(True)),
    "equal": _comparison("equal"),
    "not_equal": _comparison("not_equal"),
    "less": _comparison("less"),
    "less_equal": _comparison("less_equal"),
    "greater": _comparison("less", swapped=True),
    "greater_equal": _comparison("less_equal", swapped=True),
    "deg2rad": _scaled_by(np.pi / 180),
    "radians": _scaled_by(np.pi / 180),
    "rad2deg": _scaled_by(180 / np.pi),
    "degrees": _scaled_by(180 / np.pi),
    "nextafter": _nextafter,
    "divmod": _divmod,
    "ldexp": _ldexp,
    "frexp": _frexp,
    "modf": _modf,
}


# NumPy's own, whatever tests put in their places.
UFUNCS: dict[str, Any] = {name: each for name, each in vars(np).items() if isinstance(each, np.ufunc)}

# Before NumPy 2.1, Python numbers had no type under the rule "equiv".
_NUMBERS_HAVE_TYPES = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@functools.lru_cache(4096)
def resolve(
    name: str,
    types: tuple[DType | type, ...],
    out: tuple[DType | None, ...],
    dtype: DType | None,
    casting: str,
) -> tuple[DType, ...]:
    """Return the types of the loop that NumPy's ufunc selects; raise NumPy's error if it has none."""
    ufunc = UFUNCS[name]
    keywords = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype,) * ufunc.nout}
    # NumPy's resolve_dtypes crashes on Python numbers under the rule "equiv"; "no" is the same rule here,
    # where byte orders are native, but takes such numbers as any type.
    equiv = casting == "equiv" and any(isinstance(t, type) for t in types)
    rule = "no" if equiv else casting
    loop: tuple[DType, ...] = ufunc.resolve_dtypes((*types, *out), casting=rule, **keywords)
    checked = types if equiv and _NUMBERS_HAVE_TYPES else ()
    for argument_type, loop_type in zip(checked, loop, strict=False):
        exempt = name in ACCEPTS_ANY_INTEGER and loop_type.kind in "iub"
        if isinstance(argument_type, type) and loop_type != np.dtype(argument_type) and not exempt:
            raise TypeError(
                f"cannot cast Python {argument_type.__name__} to {loop_type} under the casting rule 'equiv'"
            )
    return tuple(d.newbyteorder("=") for d in loop)


def write_ufunc(
    builder: Builder,
    name: str,
    *arguments: Value | WeakScalar,
    out: tuple[DType | None, ...] | None = None,
    dtype: DType | None = None,
    casting: str = "same_kind",
) -> tuple[Value, ...]:
    """Apply a NumPy ufunc, by name, with NumPy's promotion and errors."""
    types = tuple(a.type if isinstance(a, WeakScalar) else a.dtype for a in arguments)
    ufunc = UFUNCS[name]
    name, outputs = ufunc.__name__, ufunc.nout  # aliases such as `true_divide` become one name
    loop = resolve(name, types, out or (None,) * outputs, dtype, casting)
    if name in ACCEPTS_ANY_INTEGER:
        clamped = tuple(_clamp_literal(a, t) for a, t in zip(arguments, loop, strict=False))
        if clamped != arguments:
            return write_ufunc(builder, name, *clamped, out=out, dtype=dtype, casting=casting)
    unsupported = [d for d in loop if d not in CODES]
    if unsupported:
        raise TypeError(f"{name} has a loop for {unsupported[0]} only in NumPy")
    with builder.naming(name):
        if name == "power":
            product = _power_by_multiplication(builder, arguments[0], arguments[1], loop[0])
            if product is not None:
                return (product,)
            builder.may_raise |= loop[0].kind == "i"
        values = []
        for argument, type_ in zip(arguments, loop, strict=False):
            value = builder.cast(argument, type_)
            values.append(builder.masked(value) if isinstance(argument, WeakScalar) else value)
        result = LOWERINGS.get(name, as_named(name))(builder, *values)
    return result if isinstance(result, tuple) else (result,)


def _power_by_multiplication(
    builder: Builder, base: Value | WeakScalar, exponent: Value | WeakScalar, dtype: DType
) -> Value | None:
    """Raise to a literal power by multiplication: integers exactly, floats within the error bound."""
    number = exponent.value if isinstance(exponent, WeakScalar) else None
    if number is None or isinstance(base, WeakScalar):
        return None
    if dtype.kind in "iu":
        np.asarray(number, dtype)  # raises OverflowError
        if number < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
    if number not in range(1, 65 if dtype.kind in "iu" else 5):
        return None
    rest, factor, product = int(number), builder.cast(base, dtype), None
    while rest:
        if rest & 1:
            product = factor if product is None else builder.apply("multiply", product, factor)
        rest >>= 1
        factor = builder.apply("multiply", factor, factor) if rest else factor
    return product


def _clamp_literal(argument: Value | WeakScalar, dtype: DType) -> Value | WeakScalar:
    """Replace a literal integer that a type cannot hold by an infinity."""
    number = argument.value if isinstance(argument, WeakScalar) else None
    if type(number) is not int or dtype.kind not in "iu":
        return argument
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max:
        return argument
    return WeakScalar(float, None, infinity_like(number))
