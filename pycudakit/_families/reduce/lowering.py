"""Lowering of NumPy's reductions: each function appends the program of the values, and says how to fold them.

A lowering gets the builder of the program, the reduction's arguments as values of that program, a mask or
None, and the requested dtype or None. It returns a `Reducer`. Under `where=` only the reductions that NumPy
gives that keyword get a mask; the others ignore it.
"""

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
    """Replace masked-out values by the identity of the reduction, a value that does not change its result."""
    return value if mask is None else builder.select(mask, value, builder.constant(identity, value.dtype))


def _mask_not_nan(builder: Builder, value: Value, mask: Value | None) -> Value | None:
    """Return a mask of the values that are not NaN and not masked out."""
    if value.dtype.kind != "f":
        return mask
    is_number = builder.apply("logical_not", builder.apply("isnan", value))
    return is_number if mask is None else builder.apply("logical_and", mask, is_number)


def _lower_sum(
    kind: int, identity: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    (value,) = arguments
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    result = _sum_dtype(value.dtype) if dtype is None else dtype
    if result == BOOL:
        # As a bool, a sum is the maximum of the bools, and a product the minimum.
        truth = _masked(builder, builder.cast(value, BOOL), mask, bool(identity))
        return Reducer(abi.REDUCE_MIN if identity else abi.REDUCE_MAX, abi.FINALIZE_NONE, (truth,), BOOL)
    if result.kind == "f":
        value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    elif value.dtype.kind == "f":
        value = builder.cast(value, result)
    # The identity of float addition is -0.0: 0.0 would change a sum of -0.0.
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


def _lower_mean(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    value, mask, result = _as_float(skips_nan, builder, arguments, mask, dtype)
    if mask is None:
        return Reducer(abi.REDUCE_SUM, abi.FINALIZE_MEAN, (value,), result)
    # The library divides by the sum of the second value: the number of values that are not masked out.
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_MEAN, (_masked(builder, value, mask, -0.0), mask), result)


def _lower_variance(
    finalize: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    value, mask, result = _as_float(skips_nan, builder, arguments, mask, dtype)
    values = (value,) if mask is None else (value, mask)  # a second value selects those that count
    return Reducer(abi.REDUCE_SUM_SQUARED_DEVIATIONS, finalize, values, result)


def _lower_extreme(
    kind: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    (value,) = arguments
    is_index = kind in (abi.REDUCE_ARGMIN, abi.REDUCE_ARGMAX)
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    if mask is not None:
        of_max = kind in (abi.REDUCE_MAX, abi.REDUCE_ARGMAX)
        value = _masked(builder, value, mask, _extremum_identity(value.dtype, of_max))
    result = INT64 if is_index else value.dtype
    return Reducer(kind, abi.FINALIZE_NONE, (value,), result)


def _extremum_identity(dtype: DType, of_max: bool) -> Any:
    """Return the identity of the maximum or minimum of a type: its least or greatest value."""
    if dtype.kind == "f":
        return -math.inf if of_max else math.inf
    if dtype == BOOL:
        return not of_max
    limits = np.iinfo(dtype)
    return limits.min if of_max else limits.max


def _lower_ptp(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    return Reducer(abi.REDUCE_PTP, abi.FINALIZE_NONE, tuple(arguments), arguments[0].dtype)


def _lower_truth(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    truth = _masked(builder, builder.cast(arguments[0], BOOL), mask, kind == abi.REDUCE_MIN)
    return Reducer(kind, abi.FINALIZE_NONE, (truth,), BOOL)


def _lower_finite(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    return Reducer(abi.REDUCE_MIN, abi.FINALIZE_NONE, (builder.apply("isfinite", arguments[0]),), BOOL)


def _lower_count(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Count the nonzero values, as an integer (`np.count_nonzero`)."""
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (builder.cast(arguments[0], BOOL),), INT64)


def _lower_count_nonfinite(
    operation: str, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    """Count the elements for which any argument is NaN, or infinite: those for which `operation` is true."""
    flagged = builder.constant(False, BOOL)
    for value in arguments:
        if value.dtype.kind == "f":
            flagged = builder.apply("logical_or", flagged, builder.apply(operation, value))
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (_masked(builder, flagged, mask, False),), INT64)


def _lower_count_elements(
    counts_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    """Count the elements that are not masked out, with or without NaN."""
    counted = mask if counts_nan else _mask_not_nan(builder, arguments[0], mask)
    if counted is None:
        counted = builder.constant(True, BOOL)
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (counted,), INT64)


def _lower_dot(finalize: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Compute a dot product of two arrays, or of one with itself; its square root is the 2-norm."""
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


def _lower_deviations(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Sum the squared differences from a given mean."""
    difference, _ = _difference(skips_nan, builder, arguments, mask)
    return Reducer(abi.REDUCE_DOT, abi.FINALIZE_NONE, (difference, difference), FLOAT64)


def _lower_mean_difference(
    skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    """Compute the mean of the differences from a given mean."""
    difference, mask = _difference(skips_nan, builder, arguments, mask)
    values = (difference,) if mask is None else (difference, mask)
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_MEAN, values, FLOAT64)


def _difference(skips_nan: bool, builder: Builder, arguments: Any, mask: Any) -> tuple[Value, Value | None]:
    """Return the difference of two arguments, 0 where it does not count, and the mask of those that count."""
    value, mean = (builder.cast(argument, FLOAT64) for argument in arguments)
    if skips_nan:
        mask = _mask_not_nan(builder, value, mask)
    return _masked(builder, builder.apply("subtract", value, mean), mask, 0.0), mask


def _lower_magnitude(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Fold absolute values, as floats: the vector norms inf (maximum), -inf (minimum) and 1 (sum)."""
    (value,) = arguments
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    return Reducer(kind, abi.FINALIZE_NONE, (builder.apply("absolute", value),), value.dtype)


def _lower_nonzero_norm(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Reducer:
    """Count the nonzero values, as a float: the vector norm 0."""
    (value,) = arguments
    value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    truth = builder.cast(builder.cast(value, BOOL), value.dtype)
    return Reducer(abi.REDUCE_SUM, abi.FINALIZE_NONE, (truth,), value.dtype)


@functools.cache
def _partial(lower: Any, *arguments: Any) -> reduce_kernel.Lowering:
    """Bind a lowering's first arguments; cached, because the lowering's identity is a key of the kernels."""
    return functools.partial(lower, *arguments)


SUM = _partial(_lower_sum, abi.REDUCE_SUM, 0, False)
PROD = _partial(_lower_sum, abi.REDUCE_PROD, 1, False)
NANSUM = _partial(_lower_sum, abi.REDUCE_SUM, 0, True)
NANPROD = _partial(_lower_sum, abi.REDUCE_PROD, 1, True)
MEAN, NANMEAN = _partial(_lower_mean, False), _partial(_lower_mean, True)
VAR, NANVAR = (_partial(_lower_variance, abi.FINALIZE_VAR, skips) for skips in (False, True))
STD, NANSTD = (_partial(_lower_variance, abi.FINALIZE_STD, skips) for skips in (False, True))
MIN, NANMIN = (_partial(_lower_extreme, abi.REDUCE_MIN, skips) for skips in (False, True))
MAX, NANMAX = (_partial(_lower_extreme, abi.REDUCE_MAX, skips) for skips in (False, True))
ARGMIN, NANARGMIN = (_partial(_lower_extreme, abi.REDUCE_ARGMIN, skips) for skips in (False, True))
ARGMAX, NANARGMAX = (_partial(_lower_extreme, abi.REDUCE_ARGMAX, skips) for skips in (False, True))
ANY, ALL = _partial(_lower_truth, abi.REDUCE_MAX), _partial(_lower_truth, abi.REDUCE_MIN)
DOT, NORM = _partial(_lower_dot, abi.FINALIZE_NONE), _partial(_lower_dot, abi.FINALIZE_NORM)
COUNT_NAN, COUNT_INF = _partial(_lower_count_nonfinite, "isnan"), _partial(_lower_count_nonfinite, "isinf")
COUNT_NOT_NAN, COUNT_ELEMENTS = (_partial(_lower_count_elements, counts_nan) for counts_nan in (False, True))
MAX_ABS, MIN_ABS = (_partial(_lower_magnitude, k) for k in (abi.REDUCE_MAX, abi.REDUCE_MIN))
SUM_ABS, NONZERO_NORM = _partial(_lower_magnitude, abi.REDUCE_SUM), _lower_nonzero_norm
SUM_SQUARED_DEVIATIONS, NANSUM_SQUARED_DEVIATIONS = (
    _partial(_lower_deviations, skips) for skips in (False, True)
)
MEAN_DIFFERENCE, NANMEAN_DIFFERENCE = (_partial(_lower_mean_difference, skips) for skips in (False, True))
COUNT, ALL_FINITE, PTP = _lower_count, _lower_finite, _lower_ptp
