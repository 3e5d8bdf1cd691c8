"""What reductions compute: programs for their values, and how those are folded."""

# ruff: noqa: ARG001 - each is called with all that any of them takes

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.values import Value
from pycudakit._families.reduce import reduce_kernel
from pycudakit._families.reduce.reduce_kernel import Folded
from pycudakit._native import abi
from pycudakit._native.dtypes import BOOL, FLOAT64, INT64, UINT64, DType


def _type_of_sum(dtype: DType) -> DType:
    """Return the type that NumPy adds up and multiplies a type in."""
    if dtype.kind in "bi":
        return INT64
    return UINT64 if dtype.kind == "u" else dtype


def _without(builder: Builder, value: Value, mask: Value | None, identity: Any) -> Value:
    """Replace what a mask excludes by what makes no difference."""
    return value if mask is None else builder.select(mask, value, builder.constant(identity, value.dtype))


def _not_nan(builder: Builder, value: Value, mask: Value | None) -> Value | None:
    """Return a mask of what is no NaN, and not masked out."""
    if value.dtype.kind != "f":
        return mask
    is_number = builder.apply("logical_not", builder.apply("isnan", value))
    return is_number if mask is None else builder.apply("logical_and", mask, is_number)


def _write_sum(
    kind: int, identity: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    (value,) = arguments
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    result = _type_of_sum(value.dtype) if dtype is None else dtype
    if result == BOOL:
        truth = _without(builder, builder.cast(value, BOOL), mask, bool(identity))
        return Folded(abi.LEAST if identity else abi.LARGEST, abi.AS_IT_IS, (truth,), BOOL)
    if result.kind == "f":
        value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    elif value.dtype.kind == "f":
        value = builder.cast(value, result)
    value = _without(builder, value, mask, -0.0 if value.dtype.kind == "f" and not identity else identity)
    return Folded(kind, abi.AS_IT_IS, (value,), result)


def _float(
    skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> tuple[Value, Value | None, DType]:
    """Return an argument as a float, the mask of what counts, and the type of a mean."""
    (value,) = arguments
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    return value, mask, dtype or value.dtype


def _write_mean(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    value, mask, result = _float(skips_nan, builder, arguments, mask, dtype)
    if mask is None:
        return Folded(abi.SUM, abi.MEAN, (value,), result)
    return Folded(abi.SUM, abi.MEAN, (_without(builder, value, mask, -0.0), mask), result)


def _write_variance(
    finish: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    value, mask, result = _float(skips_nan, builder, arguments, mask, dtype)
    return Folded(abi.SQUARES, finish, (value,) if mask is None else (value, mask), result)


def _write_extreme(
    kind: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    (value,) = arguments
    is_place = kind in (abi.WHERE_LEAST, abi.WHERE_LARGEST)
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    if mask is not None:
        largest = kind in (abi.LARGEST, abi.WHERE_LARGEST)
        value = _without(builder, value, mask, _last_of_all(value.dtype, largest))
    result = INT64 if is_place else value.dtype
    return Folded(kind, abi.AS_IT_IS, (value,), result)


def _last_of_all(dtype: DType, largest: bool) -> Any:
    """Return what every value of a type comes before."""
    if dtype.kind == "f":
        return -math.inf if largest else math.inf
    if dtype == BOOL:
        return not largest
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


def _write_spread(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    return Folded(abi.SPREAD, abi.AS_IT_IS, tuple(arguments), arguments[0].dtype)


def _write_truth(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    truth = _without(builder, builder.cast(arguments[0], BOOL), mask, kind == abi.LEAST)
    return Folded(kind, abi.AS_IT_IS, (truth,), BOOL)


def _write_finite(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    return Folded(abi.LEAST, abi.AS_IT_IS, (builder.apply("isfinite", arguments[0]),), BOOL)


def _write_count(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    return Folded(abi.SUM, abi.AS_IT_IS, (builder.cast(arguments[0], BOOL),), INT64)


def _write_count_of(operation: str, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Count the elements of which one is NaN, or infinite."""
    found = builder.constant(False, BOOL)
    for value in arguments:
        if value.dtype.kind == "f":
            found = builder.apply("logical_or", found, builder.apply(operation, value))
    return Folded(abi.SUM, abi.AS_IT_IS, (_without(builder, found, mask, False),), INT64)


def _write_count_of_numbers(
    counts_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    """Count the elements that are not masked out, or of them those that are no NaN."""
    counted = mask if counts_nan else _not_nan(builder, arguments[0], mask)
    if counted is None:
        counted = builder.constant(True, BOOL)
    return Folded(abi.SUM, abi.AS_IT_IS, (counted,), INT64)


def _write_dot(finish: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Multiply two arrays and add up, or one by itself."""
    a, b = (*arguments, arguments[0])[:2]
    result = dtype or np.result_type(a.dtype, b.dtype)
    if finish == abi.ROOT and result.kind != "f":
        result = FLOAT64
    if result == BOOL:
        both = builder.apply("logical_and", builder.cast(a, BOOL), builder.cast(b, BOOL))
        return Folded(abi.LARGEST, abi.AS_IT_IS, (both,), BOOL)
    common = np.result_type(a.dtype, b.dtype)
    if result.kind == "f" and common.kind != "f":
        common = FLOAT64
    values = builder.cast(a, common), builder.cast(b, common)
    return Folded(abi.DOT, finish, values, result)


def _write_deviations(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Add up the squares of the differences from what is given as the mean."""
    value, mean = (builder.cast(argument, FLOAT64) for argument in arguments)
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    off = builder.apply("subtract", value, mean)
    off = _without(builder, off, mask, 0.0)
    return Folded(abi.DOT, abi.AS_IT_IS, (off, off), FLOAT64)


def _write_magnitude(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Fold absolute values, as floats, or, as a PK_PRODUCT, count those that are not 0."""
    (value,) = arguments
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    result = value.dtype
    if kind == abi.PRODUCT:
        truth = builder.cast(builder.cast(value, BOOL), value.dtype)
        return Folded(abi.SUM, abi.AS_IT_IS, (truth,), result)
    return Folded(kind, abi.AS_IT_IS, (builder.apply("absolute", value),), result)


@functools.cache
def _partial(write: Any, *arguments: Any) -> reduce_kernel.Write:
    return functools.partial(write, *arguments)


SUM = _partial(_write_sum, abi.SUM, 0, False)
PROD = _partial(_write_sum, abi.PRODUCT, 1, False)
NANSUM = _partial(_write_sum, abi.SUM, 0, True)
NANPROD = _partial(_write_sum, abi.PRODUCT, 1, True)
MEAN, NANMEAN = _partial(_write_mean, False), _partial(_write_mean, True)
VAR, NANVAR = (_partial(_write_variance, abi.VARIANCE, skips) for skips in (False, True))
STD, NANSTD = (_partial(_write_variance, abi.DEVIATION, skips) for skips in (False, True))
MIN, NANMIN = (_partial(_write_extreme, abi.LEAST, skips) for skips in (False, True))
MAX, NANMAX = (_partial(_write_extreme, abi.LARGEST, skips) for skips in (False, True))
ARGMIN, NANARGMIN = (_partial(_write_extreme, abi.WHERE_LEAST, skips) for skips in (False, True))
ARGMAX, NANARGMAX = (_partial(_write_extreme, abi.WHERE_LARGEST, skips) for skips in (False, True))
ANY, ALL = _partial(_write_truth, abi.LARGEST), _partial(_write_truth, abi.LEAST)
DOT, NORM = _partial(_write_dot, abi.AS_IT_IS), _partial(_write_dot, abi.ROOT)
NANS, INFINITIES = _partial(_write_count_of, "isnan"), _partial(_write_count_of, "isinf")
NUMBERS, ONES = (_partial(_write_count_of_numbers, counts_nan) for counts_nan in (False, True))
LARGEST_MAGNITUDE, LEAST_MAGNITUDE = (_partial(_write_magnitude, k) for k in (abi.LARGEST, abi.LEAST))
MAGNITUDES, NONZEROS = (_partial(_write_magnitude, k) for k in (abi.SUM, abi.PRODUCT))
DEVIATIONS, NANDEVIATIONS = (_partial(_write_deviations, skips) for skips in (False, True))
COUNT, FINITE, SPREAD = _write_count, _write_finite, _write_spread
