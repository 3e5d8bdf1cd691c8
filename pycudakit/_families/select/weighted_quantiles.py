"""NumPy's quantiles of weighted values: sorted on the engine, and found by NumPy's own arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._families.elementwise.ufuncs import less
from pycudakit._families.reduce.sums_and_means import count_nonzero
from pycudakit._families.select.order_statistics import warn_all_nan_slice
from pycudakit._families.sort.sorting import argsort
from pycudakit._native.dtypes import FLOAT64, Array

_NUMPY: Any = np  # whose annotations are narrower than what it takes


def weighted_quantiles(
    a: Array,
    levels: Array,
    axis: Any,
    out: Any,
    method: str,
    keepdims: bool,
    user_weights: Array,
    skips_nan: bool,
) -> Any:
    """Return for each share the first value up to which the weights come to that share of their sum.

    NaN are the last values, or none where they are skipped.
    """
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    axes = None if axis is None else normalize_axis_tuple(axis, a.ndim, "axis")
    weights = broadcast_weights(user_weights, a, axes)
    if (weights < 0).any():
        raise ValueError("Weights must be non-negative.")
    axes = tuple(range(a.ndim)) if axes is None else axes
    kept_axes = [d for d in range(a.ndim) if d not in axes]
    outer_shape = tuple(a.shape[d] for d in kept_axes)

    def numpys() -> Any:
        return _NUMPY.nanquantile(
            a, levels, axis, out, method=method, keepdims=keepdims, weights=user_weights
        )

    if skips_nan and user_weights.shape != a.shape and math.prod(outer_shape) > 1:
        return numpys()  # which refuses that of several rows
    values, weights = (_rows(array, kept_axes, axes) for array in (a, weights))
    order = argsort(values, axis=-1, kind="stable")
    values, weights = (np.take_along_axis(array, order, -1) for array in (values, weights))
    may_have_nan = a.dtype.kind == "f"
    if may_have_nan and skips_nan:
        weights, is_empty = zero_nan_weights(values, weights)
        if is_empty.any():
            warn_all_nan_slice()
    sums = cumulative_weights(weights)
    if np.isnan(sums[:, -1]).any():
        raise ValueError("Weights included NaN, inf or were all zero.")
    indexes = quantile_indexes(sums, levels)
    result = np.take_along_axis(values, indexes, -1)
    if may_have_nan and not skips_nan:
        result = np.where(np.isnan(values[:, -1:]), values[:, -1:], result)
    result = np.ascontiguousarray(result.T).reshape(levels.shape + outer_shape)
    if keepdims:
        sizes = (1 if d in axes else n for d, n in enumerate(a.shape))
        result = result.reshape(levels.shape + tuple(sizes))
    if out is None:  # NumPy gives one value as an array, unless it is NaN
        return result[()] if result.ndim == 0 and np.isnan(result) else result
    if out.shape != result.shape:
        if skips_nan:
            return numpys()  # which writes to a part of it, or raises
        raise ValueError(
            f"Wrong shape of argument 'out', shape={result.shape} is required; got shape={out.shape}."
        )
    out[...] = result
    return out


def zero_nan_weights(values: Any, weights: Any) -> tuple[Any, Any]:
    """Return weights of rows in order, in which NaN have none, and which rows have nothing else.

    In these all weigh as much, so that what is found there is a NaN.
    """
    is_nan = np.isnan(values)
    is_empty = is_nan[:, :1]  # where even the first is
    return np.where(is_nan, is_empty, weights), is_empty


def cumulative_weights(weights: Array) -> Array:
    """Return what the weights of rows come to, up to each, as a share of their sum."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sums: Array = weights.cumsum(axis=-1, dtype=FLOAT64)
        sums /= sums[:, -1:]
    return sums


def quantile_indexes(sums: Array, levels: Array) -> Array:
    """Return where rows of sums first come to each share; what weighs nothing is before the least, too."""
    if levels.dtype.kind == "f":
        sums = sums.astype(levels.dtype)
    sums[sums == 0] = -1
    last = sums.shape[-1] - 1
    indexes = np.empty((*sums.shape[:-1], levels.size), np.intp)
    for i, level in enumerate(levels.ravel()):
        indexes[..., i] = np.minimum(count_nonzero(less(sums, level), axis=-1), last)
    return indexes


def broadcast_weights(weights: Any, a: Any, axes: tuple[int, ...] | None) -> Any:
    """Return a weight for each value."""
    if weights.shape == a.shape:
        return weights
    if axes is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(a.shape[d] for d in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    shape = [n if d in axes else 1 for d, n in enumerate(a.shape)]
    return np.broadcast_to(weights.transpose(np.argsort(axes)).reshape(shape), a.shape)


def _rows(array: Array, kept_axes: list[int], axes: tuple[int, ...]) -> Array:
    """Return what is compared with each other as rows."""
    length = int(np.prod([array.shape[d] for d in axes], dtype=np.int64))
    rows: Array = array.transpose(*kept_axes, *sorted(axes)).reshape(-1, length)
    return rows
