"""Lowering of NumPy's reductions: the program that computes the values, and how they are folded."""

# ruff: noqa: ARG001 - all lowerings have the same parameters

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.values import Value
from pycudakit._families.reduce import reduce_kernel
from pycudakit._families.reduce.reduce_kernel import Reducer
from pycudakit._native import abi
from pycudakit._native.dtypes import BOOL, FLOAT64, INT64, UINT64, DType


def _sum_dtype(dtype: DType) -> DType:
    """Return the type in which NumPy adds and multiplies a type."""
    if dtype.kind in "bi":
        return INT64
    return UINT64 if dtype.kind == "u" else dtype


def _masked(builder: Builder, value: Value, mask: Value | None, identity: Any) -> Value:
    """Replace masked-out values by the identity of the reduction."""
    return value if mask is None else builder.select(mask, value, builder.constant(identity, value.dtype))


def _mask_not_nan(builder: Builder, value: Value, mask: Value | None) -> Value | None:
    """Return a mask of the values that are not NaN and not masked out."""
    if value.dtype.kind != "f":
        return mask
    is_number = builder.apply("logical_not", builder.apply("isnan", value))
    return is_number if mask is None else builder.apply("logical_and", mask, is_number)


def _write_sum(
    kind: int, identity: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    (value,) = arguments
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    result = _sum_dtype(value.dtype) if dtype is None else dtype
    if result == BOOL:
        truth = _masked(builder, builder.cast(value, BOOL), mask, bool(identity))
        return Reducer(abi.REDUCE_MIN if identity else abi.REDUCE_MAX, abi.FINALIZE_NONE, (truth,), BOOL)
    if result.kind == "f":
        value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    elif value.dtype.kind == "f":
        value = builder.cast(value, result)
    value = _masked(builder, value, mask, -0.0 if value.dtype.kind == "f" and not identity else identity)
    return Reducer(kind, abi.FINALIZE_NONE, (value,), result)


def _as_float(
    skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> tuple[Value, Value | None, DType]:
    """Return an argument as a float, the mask of the values to count, and the type of a mean."""
    (value,) = arguments
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    return value, mask, dtype or value.dtype


def _write_mean(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    value, mask, result = _as_float(skips_nan, builder, arguments, mask, dtype)
    if mask is None:
        return Reducer(abi.REDUCE_SUM, abi.FINALIZE_MEAN, (value,), result)
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_MEAN, (_masked(builder, value, mask, -0.0), mask), result)


def _write_variance(
    finalize: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    value, mask, result = _as_float(skips_nan, builder, arguments, mask, dtype)
    return Reducer(
        abi.REDUCE_SUM_SQUARED_DEVIATIONS, finalize, (value,) if mask is None else (value, mask), result
    )


def _write_extreme(
    kind: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    (value,) = arguments
    is_index = kind in (abi.REDUCE_ARGMIN, abi.REDUCE_ARGMAX)
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    if mask is not None:
        largest = kind in (abi.REDUCE_MAX, abi.REDUCE_ARGMAX)
        value = _masked(builder, value, mask, _neutral_extremum(value.dtype, largest))
    result = INT64 if is_index else value.dtype
    return Reducer(kind, abi.FINALIZE_NONE, (value,), result)


def _neutral_extremum(dtype: DType, largest: bool) -> Any:
    """Return the identity of a minimum or maximum of a type."""
    if dtype.kind == "f":
        return -math.inf if largest else math.inf
    if dtype == BOOL:
        return not largest
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


def _write_ptp(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    return Reducer(abi.REDUCE_PTP, abi.FINALIZE_NONE, tuple(arguments), arguments[0].dtype)


def _write_truth(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    truth = _masked(builder, builder.cast(arguments[0], BOOL), mask, kind == abi.REDUCE_MIN)
    return Reducer(kind, abi.FINALIZE_NONE, (truth,), BOOL)


def _write_finite(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    return Reducer(abi.REDUCE_MIN, abi.FINALIZE_NONE, (builder.apply("isfinite", arguments[0]),), BOOL)


def _write_count(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (builder.cast(arguments[0], BOOL),), INT64)


def _write_count_nonfinite(
    operation: str, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    """Count the elements of which an argument is NaN (or infinite)."""
    flagged = builder.constant(False, BOOL)
    for value in arguments:
        if value.dtype.kind == "f":
            flagged = builder.apply("logical_or", flagged, builder.apply(operation, value))
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (_masked(builder, flagged, mask, False),), INT64)


def _write_count_elements(
    counts_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    """Count the elements that are not masked out, with or without NaN."""
    counted = mask if counts_nan else _mask_not_nan(builder, arguments[0], mask)
    if counted is None:
        counted = builder.constant(True, BOOL)
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (counted,), INT64)


def _write_dot(finalize: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Compute a dot product of two arrays, or of one with itself."""
    a, b = (*arguments, arguments[0])[:2]
    result = dtype or np.result_type(a.dtype, b.dtype)
    if finalize == abi.FINALIZE_NORM and result.kind != "f":
        result = FLOAT64
    if result == BOOL:
        both = builder.apply("logical_and", builder.cast(a, BOOL), builder.cast(b, BOOL))
        return Reducer(abi.REDUCE_MAX, abi.FINALIZE_NONE, (both,), BOOL)
    common = np.result_type(a.dtype, b.dtype)
    if result.kind == "f" and common.kind != "f":
        common = FLOAT64
    values = builder.cast(a, common), builder.cast(b, common)
    return Reducer(abi.REDUCE_DOT, finalize, values, result)


def _write_deviations(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Sum the squared differences from a given mean."""
    value, mean = (builder.cast(argument, FLOAT64) for argument in arguments)
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    difference = builder.apply("subtract", value, mean)
    difference = _masked(builder, difference, mask, 0.0)
    return Reducer(abi.REDUCE_DOT, abi.FINALIZE_NONE, (difference, difference), FLOAT64)


def _write_magnitude(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Fold absolute values as floats; for PK_REDUCE_PROD count the nonzero ones."""
    (value,) = arguments
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    result = value.dtype
    if kind == abi.REDUCE_PROD:
        truth = builder.cast(builder.cast(value, BOOL), value.dtype)
        return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (truth,), result)
    return Reducer(kind, abi.FINALIZE_NONE, (builder.apply("absolute", value),), result)


@functools.cache
def _partial(lower: Any, *arguments: Any) -> reduce_kernel.Lowering:
    return functools.partial(lower, *arguments)


SUM = _partial(_write_sum, abi.REDUCE_SUM, 0, False)
PROD = _partial(_write_sum, abi.REDUCE_PROD, 1, False)
NANSUM = _partial(_write_sum, abi.REDUCE_SUM, 0, True)
NANPROD = _partial(_write_sum, abi.REDUCE_PROD, 1, True)
MEAN, NANMEAN = _partial(_write_mean, False), _partial(_write_mean, True)
VAR, NANVAR = (_partial(_write_variance, abi.FINALIZE_VAR, skips) for skips in (False, True))
STD, NANSTD = (_partial(_write_variance, abi.FINALIZE_STD, skips) for skips in (False, True))
MIN, NANMIN = (_partial(_write_extreme, abi.REDUCE_MIN, skips) for skips in (False, True))
MAX, NANMAX = (_partial(_write_extreme, abi.REDUCE_MAX, skips) for skips in (False, True))
ARGMIN, NANARGMIN = (_partial(_write_extreme, abi.REDUCE_ARGMIN, skips) for skips in (False, True))
ARGMAX, NANARGMAX = (_partial(_write_extreme, abi.REDUCE_ARGMAX, skips) for skips in (False, True))
ANY, ALL = _partial(_write_truth, abi.REDUCE_MAX), _partial(_write_truth, abi.REDUCE_MIN)
DOT, NORM = _partial(_write_dot, abi.FINALIZE_NONE), _partial(_write_dot, abi.FINALIZE_NORM)
COUNT_NAN, COUNT_INF = _partial(_write_count_nonfinite, "isnan"), _partial(_write_count_nonfinite, "isinf")
COUNT_NOT_NAN, COUNT_ELEMENTS = (_partial(_write_count_elements, counts_nan) for counts_nan in (False, True))
MAX_ABS, MIN_ABS = (_partial(_write_magnitude, k) for k in (abi.REDUCE_MAX, abi.REDUCE_MIN))
SUM_ABS, COUNT_NONZERO = (_partial(_write_magnitude, k) for k in (abi.REDUCE_SUM, abi.REDUCE_PROD))
SUM_SQUARED_DEVIATIONS, NANSUM_SQUARED_DEVIATIONS = (
    _partial(_write_deviations, skips) for skips in (False, True)
)
COUNT, ALL_FINITE, PTP = _write_count, _write_finite, _write_ptp
