"""NumPy's functions that are not, for every type, the operation of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._values import BOOL, FLOAT16, FLOAT32, INT64, UINT8, UINT64, Value

if TYPE_CHECKING:
    from pycudakit._program import Builder

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
    """Lower to something else for bools and integers."""

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


LOWERED: dict[str, Lowering] = {
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
    "true_divide": as_named("divide"),
    "mod": as_named("remainder"),
    "absolute": _absolute,
    "abs": _absolute,
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
}
