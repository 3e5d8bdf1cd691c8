"""Quantiles of weighted values where arrays stay on the device: sorted, added up and searched there."""

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

_EXACT = 2.0**53  # integers up to here are floats


def weighted_row_quantiles(
    trace: Trace,
    a: Tracer,
    levels: Array,
    axes: tuple[int, ...] | None,
    weights: Any,
    skips_nan: bool,
) -> Any:
    """Return for each share, and each row along axes, what the host's function does.

    It is NotImplemented for what that refuses.
    """
    family: Any = importlib.import_module("pycudakit._families.select.weighted_quantiles")
    weights = weights if type(weights) is Tracer else trace.wrap(np.asarray(trace.resolved(weights)))
    if type(weights) is not Tracer:
        return NotImplemented
    is_shared = weights.shape != a.shape
    weights = family.broadcast_weights(weights, a, axes)
    kept = [d for d in range(a.ndim) if axes is not None and d not in axes]
    rest = tuple(a.shape[d] for d in kept)
    along = [d for d in range(a.ndim) if d not in kept]
    rows = int(np.prod(rest))
    if skips_nan and is_shared and rows > 1:
        return NotImplemented
    skips_nan = skips_nan and a.dtype.kind == "f"
    values, weights = (as_matrix(trace, each, [*kept, *along], rows, a.size // rows) for each in (a, weights))
    order = trace.call(np.argsort, (values, -1), {"kind": "stable"})
    values, weights = (take_along_unchecked(trace, each, order) for each in (values, weights))
    last: Any = values.shape[-1] - 1
    warns = False
    if skips_nan:
        if trace.resolved(np.any(weights < 0)):  # even of those that are skipped
            return NotImplemented
        last = np.maximum(np.count_nonzero(~np.isnan(values), axis=-1) - 1, 0)
        weights, is_empty = family.zero_nan_weights(values, weights)
        warns = bool(trace.resolved(np.any(is_empty)))
    found = _places(trace, family, weights, levels, last)
    if found is NotImplemented:
        return found
    if warns:
        family.warn_all_nan_slice()
    result = take_along_unchecked(trace, values, found)
    if a.dtype.kind == "f" and not skips_nan:
        last = values[:, -1:]
        result = np.where(np.isnan(last), last, result)
    result = trace.call(np.copy, (result.T, "C"), {}).reshape((*levels.shape, *rest))
    if not result.ndim:  # NumPy gives one value as an array, unless it is NaN
        result.is_scalar = bool(trace.resolved(np.isnan(result)))
    return result


def _places(trace: Trace, family: Any, weights: Tracer, levels: Array, last: Any) -> Any:
    """Return where each row's weights first come to each share of their sum, up to the last one's place.

    NumPy adds them one after the other. Sums that are rounded otherwise tell between which limits its own
    are; of rows in which that leaves a place open, NumPy adds the weights.
    """
    with np.errstate(all="ignore"):
        sums = np.cumsum(weights, axis=-1, dtype=FLOAT64)
        total = sums[:, -1:]
        is_whole = weights.dtype.kind != "f" or np.all(weights == np.floor(weights))
        least, lowest, most, is_whole = trace.resolved(
            [np.min(weights), np.min(total), np.max(total), is_whole]
        )
        if least < 0 or not lowest > 0 or not np.isfinite(most):
            return NotImplemented
        rounded = 0.0 if is_whole and most <= _EXACT else (weights.shape[-1] + 7) * np.finfo(FLOAT64).eps
        above, below = 1 + rounded, 1 - rounded
        limits = [(sums * below) / (total * above), (sums * above) / (total * below)][: 2 if rounded else 1]
        dtype = levels.dtype if levels.dtype.kind == "f" else FLOAT64
        found = [_counts(trace, limit.astype(dtype), levels, last) for limit in limits]
    if not rounded:
        return found[0]
    low, high = found
    is_open = np.any(low != high, axis=-1)
    rows = trace.resolved(trace.call(np.flatnonzero, (is_open,), {}))
    if rows.size:
        own = trace.resolved(trace.call(np.take, (weights, rows, 0), {}))
        with context.override(engine="numpy"):  # and all of it would go up again for each share
            places = family.quantile_indexes(family.cumulative_weights(own), levels)
        low[rows] = places
    return low


def _counts(trace: Trace, sums: Any, levels: Array, last: Any) -> Any:
    counts = [
        np.minimum(np.count_nonzero((sums < level) | (sums == 0), axis=-1), last) for level in levels.ravel()
    ]
    return trace.call(np.stack, (counts, -1), {})


def are_valid_levels(levels: Array) -> bool:
    """Tell whether these are shares of a sum, which the host does not refuse."""
    if not levels.size or levels.ndim > 2 or levels.dtype not in CODES:
        return False
    points: Any = importlib.import_module("pycudakit._families.select.quantile_interpolation")
    return bool(points.quantile_is_valid(levels))
