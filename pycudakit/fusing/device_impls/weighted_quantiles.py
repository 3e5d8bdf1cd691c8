"""Weighted quantiles of device-resident arrays: sort, add up the weights, count below each level.

The host's body cannot serve: NumPy adds the weights sequentially, which a device's sums can only bound.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, FLOAT64, Array
from pycudakit._runtime import context
from pycudakit.fusing.device_impls.matmul import as_matrix
from pycudakit.fusing.device_impls.take import take_along_unchecked
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace

_EXACT = 2.0**53  # float64 represents all integers up to here


def weighted_row_quantiles(
    trace: Trace,
    a: Tracer,
    levels: Array,
    axes: tuple[int, ...] | None,
    weights: Any,
    skips_nan: bool,
) -> Any:
    """Return the weighted quantile of each level and each row, as the host function does.

    Return NotImplemented if the host function raises.
    """
    family: Any = importlib.import_module("pycudakit._families.select.weighted_quantiles")
    weights = weights if type(weights) is Tracer else trace.wrap(np.asarray(trace.resolved(weights)))
    if type(weights) is not Tracer:
        return NotImplemented
    is_shared = weights.shape != a.shape
    weights = family.broadcast_weights(weights, a, axes)
    remaining = [d for d in range(a.ndim) if axes is not None and d not in axes]
    rest = tuple(a.shape[d] for d in remaining)
    along = [d for d in range(a.ndim) if d not in remaining]
    rows = int(np.prod(rest))
    if skips_nan and is_shared and rows > 1:
        return NotImplemented
    skips_nan = skips_nan and a.dtype.kind == "f"
    values, weights = (
        as_matrix(trace, each, [*remaining, *along], rows, a.size // rows) for each in (a, weights)
    )
    order = trace.call(np.argsort, (values, -1), {"kind": "stable"})
    values, weights = (take_along_unchecked(trace, each, order) for each in (values, weights))
    last: Any = values.shape[-1] - 1
    warns = False
    if skips_nan:
        if trace.resolved(np.any(weights < 0)):  # also of the elements that are skipped
            return NotImplemented
        last = np.maximum(np.count_nonzero(~np.isnan(values), axis=-1) - 1, 0)
        weights, is_empty = family.zero_nan_weights(values, weights)
        warns = bool(trace.resolved(np.any(is_empty)))
    indices = _quantile_indices(trace, family, weights, levels, last)
    if indices is NotImplemented:
        return indices
    if warns:
        family.warn_all_nan_slice()
    result = take_along_unchecked(trace, values, indices)
    if a.dtype.kind == "f" and not skips_nan:
        last = values[:, -1:]
        result = np.where(np.isnan(last), last, result)
    result = trace.call(np.copy, (result.T, "C"), {}).reshape((*levels.shape, *rest))
    if not result.ndim:  # NumPy returns a 0-d array, but a scalar for NaN
        result.is_scalar = bool(trace.resolved(np.isnan(result)))
    return result


def _quantile_indices(trace: Trace, family: Any, weights: Tracer, levels: Array, last: Any) -> Any:
    """Return, for each row, the first index where the cumulative weights reach each level of their sum.

    NumPy adds the weights sequentially. The sums here round otherwise, so they give bounds of NumPy's sums.
    NumPy adds the weights of the rows in which the bounds leave two indices possible.
    """
    with np.errstate(all="ignore"):
        sums = np.cumsum(weights, axis=-1, dtype=FLOAT64)
        total = sums[:, -1:]
        is_whole = weights.dtype.kind != "f" or np.all(weights == np.floor(weights))
        min_weight, min_total, max_total, is_whole = trace.resolved(
            [np.min(weights), np.min(total), np.max(total), is_whole]
        )
        if min_weight < 0 or not min_total > 0 or not np.isfinite(max_total):
            return NotImplemented
        error_bound = (
            0.0 if is_whole and max_total <= _EXACT else (weights.shape[-1] + 7) * np.finfo(FLOAT64).eps
        )
        above, below = 1 + error_bound, 1 - error_bound
        limits = [(sums * below) / (total * above), (sums * above) / (total * below)][
            : 2 if error_bound else 1
        ]
        dtype = levels.dtype if levels.dtype.kind == "f" else FLOAT64
        indices = [_counts(trace, limit.astype(dtype), levels, last) for limit in limits]
    if not error_bound:
        return indices[0]
    low, high = indices
    is_ambiguous = np.any(low != high, axis=-1)
    rows = trace.resolved(trace.call(np.flatnonzero, (is_ambiguous,), {}))
    if rows.size:
        row_weights = trace.resolved(trace.call(np.take, (weights, rows, 0), {}))
        with context.override(engine="numpy"):  # else each level would upload the weights again
            exact_indices = family.quantile_indexes(family.cumulative_weights(row_weights), levels)
        low[rows] = exact_indices
    return low


def _counts(trace: Trace, sums: Any, levels: Array, last: Any) -> Any:
    counts = [
        np.minimum(np.count_nonzero((sums < level) | (sums == 0), axis=-1), last) for level in levels.ravel()
    ]
    return trace.call(np.stack, (counts, -1), {})


def are_valid_levels(levels: Array) -> bool:
    """Return True if the quantile levels are valid for the host function."""
    if not levels.size or levels.ndim > 2 or levels.dtype not in CODES:
        return False
    points: Any = importlib.import_module("pycudakit._families.select.quantile_interpolation")
    return bool(points.quantile_is_valid(levels))
