"""NumPy's weighted quantiles: values are sorted on the engine, and looked up by cumulative weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._families.elementwise.ufuncs import less
from pycudakit._families.reduce.truth_values import count_nonzero
from pycudakit._families.select.order_statistics import warn_all_nan_slice
from pycudakit._families.sort.sorting import argsort
from pycudakit._native.dtypes import FLOAT64, Array

_NUMPY: Any = np  # NumPy's annotations are narrower than its functions


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
    """Return, for each level, the first value at which the cumulative weight reaches that share of the total.

    NaN sort last, or have no weight if `skips_nan`.
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

    def by_numpy() -> Any:
        return _NUMPY.nanquantile(
            a, levels, axis, out, method=method, keepdims=keepdims, weights=user_weights
        )

    if skips_nan and user_weights.shape != a.shape and math.prod(outer_shape) > 1:
        return by_numpy()  # NumPy raises for several rows
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
            return by_numpy()  # NumPy writes to a part of it, or raises
        raise ValueError(
            f"Wrong shape of argument 'out', shape={result.shape} is required; got shape={out.shape}."
        )
    out[...] = result
    return out


def zero_nan_weights(values: Any, weights: Any) -> tuple[Any, Any]:
    """Set the weights of NaN to zero in sorted rows; return them, and a mask of rows that have only NaN.

    Rows of NaN alone get equal weights, so that their quantiles are NaN.
    """
    is_nan = np.isnan(values)
    is_empty = is_nan[:, :1]  # NaN sort last, so the whole row is NaN
    return np.where(is_nan, is_empty, weights), is_empty


def cumulative_weights(weights: Array) -> Array:
    """Return the cumulative weights of rows, divided by their totals."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sums: Array = weights.cumsum(axis=-1, dtype=FLOAT64)
        sums /= sums[:, -1:]
    return sums


def quantile_indexes(sums: Array, levels: Array) -> Array:
    """Return the index at which each row of cumulative weights reaches each level, past leading zeros."""
    if levels.dtype.kind == "f":
        sums = sums.astype(levels.dtype)
    sums[sums == 0] = -1
    last = sums.shape[-1] - 1
    indexes = np.empty((*sums.shape[:-1], levels.size), np.intp)
    for i, level in enumerate(levels.ravel()):
        indexes[..., i] = np.minimum(count_nonzero(less(sums, level), axis=-1), last)
    return indexes


def broadcast_weights(weights: Any, a: Any, axes: tuple[int, ...] | None) -> Any:
    """Return a weight for each value; raise NumPy's errors."""
    if weights.shape == a.shape:
        return weights
    if axes is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(a.shape[d] for d in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    shape = [n if d in axes else 1 for d, n in enumerate(a.shape)]
    return np.broadcast_to(weights.transpose(np.argsort(axes)).reshape(shape), a.shape)


def _rows(array: Array, kept_axes: list[int], axes: tuple[int, ...]) -> Array:
    """Return the array with the reduced axes joined to rows."""
    length = int(np.prod([array.shape[d] for d in axes], dtype=np.int64))
    rows: Array = array.transpose(*kept_axes, *sorted(axes)).reshape(-1, length)
    return rows
