"""Quantiles of weighted values where arrays stay on the device: sorted, added up and searched there."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, FLOAT64, Array
from pycudakit._runtime import context
from pycudakit.fusing.device_impls.matmul import as_matrix
from pycudakit.fusing.device_impls.take import taken_along
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording

_EXACT = 2.0**53  # integers up to here are floats


def of_weighted_rows(
    recording: Recording,
    a: StandIn,
    shares: Array,
    axes: tuple[int, ...] | None,
    weights: Any,
    skips_nan: bool,
) -> Any:
    """Return for each share, and each row along axes, what the host's function does.

    It is NotImplemented for what that refuses.
    """
    family: Any = importlib.import_module("pycudakit._families.select.weighted_quantiles")
    weights = weights if type(weights) is StandIn else recording.wrap(np.asarray(recording.resolved(weights)))
    if type(weights) is not StandIn:
        return NotImplemented
    is_shared = weights.shape != a.shape
    weights = family.as_many(weights, a, axes)
    kept = [d for d in range(a.ndim) if axes is not None and d not in axes]
    rest = tuple(a.shape[d] for d in kept)
    along = [d for d in range(a.ndim) if d not in kept]
    rows = int(np.prod(rest))
    if skips_nan and is_shared and rows > 1:
        return NotImplemented
    skips_nan = skips_nan and a.dtype.kind == "f"
    values, weights = (
        as_matrix(recording, each, [*kept, *along], rows, a.size // rows) for each in (a, weights)
    )
    order = recording.call(np.argsort, (values, -1), {"kind": "stable"})
    values, weights = (taken_along(recording, each, order) for each in (values, weights))
    last: Any = values.shape[-1] - 1
    warns = False
    if skips_nan:
        if recording.resolved(np.any(weights < 0)):  # even of those that are skipped
            return NotImplemented
        last = np.maximum(np.count_nonzero(~np.isnan(values), axis=-1) - 1, 0)
        weights, is_empty = family.without_nan(values, weights)
        warns = bool(recording.resolved(np.any(is_empty)))
    found = _places(recording, family, weights, shares, last)
    if found is NotImplemented:
        return found
    if warns:
        family.warn_of_only_nan()
    result = taken_along(recording, values, found)
    if a.dtype.kind == "f" and not skips_nan:
        last = values[:, -1:]
        result = np.where(np.isnan(last), last, result)
    result = recording.call(np.copy, (result.T, "C"), {}).reshape((*shares.shape, *rest))
    if not result.ndim:  # NumPy gives one value as an array, unless it is NaN
        result.is_scalar = bool(recording.resolved(np.isnan(result)))
    return result


def _places(recording: Recording, family: Any, weights: StandIn, shares: Array, last: Any) -> Any:
    """Return where each row's weights first come to each share of their sum, up to the last one's place.

    NumPy adds them one after the other. Sums that are rounded otherwise tell between which limits its own
    are; of rows in which that leaves a place open, NumPy adds the weights.
    """
    with np.errstate(all="ignore"):
        sums = np.cumsum(weights, axis=-1, dtype=FLOAT64)
        total = sums[:, -1:]
        is_whole = weights.dtype.kind != "f" or np.all(weights == np.floor(weights))
        least, lowest, most, is_whole = recording.resolved(
            [np.min(weights), np.min(total), np.max(total), is_whole]
        )
        if least < 0 or not lowest > 0 or not np.isfinite(most):
            return NotImplemented
        rounded = 0.0 if is_whole and most <= _EXACT else (weights.shape[-1] + 7) * np.finfo(FLOAT64).eps
        above, below = 1 + rounded, 1 - rounded
        limits = [(sums * below) / (total * above), (sums * above) / (total * below)][: 2 if rounded else 1]
        dtype = shares.dtype if shares.dtype.kind == "f" else FLOAT64
        found = [_counts(recording, limit.astype(dtype), shares, last) for limit in limits]
    if not rounded:
        return found[0]
    low, high = found
    is_open = np.any(low != high, axis=-1)
    rows = recording.resolved(recording.call(np.flatnonzero, (is_open,), {}))
    if rows.size:
        own = recording.resolved(recording.call(np.take, (weights, rows, 0), {}))
        with context.asking(engine="numpy"):  # and all of it would go up again for each share
            places = family.places_of(family.sums_of(own), shares)
        low[rows] = places
    return low


def _counts(recording: Recording, sums: Any, shares: Array, last: Any) -> Any:
    counts = [
        np.minimum(np.count_nonzero((sums < share) | (sums == 0), axis=-1), last) for share in shares.ravel()
    ]
    return recording.call(np.stack, (counts, -1), {})


def are_known(shares: Array) -> bool:
    """Tell whether these are shares of a sum, which the host does not refuse."""
    if not shares.size or shares.ndim > 2 or shares.dtype not in CODES:
        return False
    points: Any = importlib.import_module("pycudakit._families.select.quantile_interpolation")
    return bool(points.are_valid(shares))
