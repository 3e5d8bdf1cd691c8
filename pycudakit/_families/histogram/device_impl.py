"""Device implementation of counting: values, edges and counts are device-resident; calls are asynchronous."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pycudakit._families.histogram import binning
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import CODES, FLOAT64, INT64, Array, DType
from pycudakit._runtime import context, native_call
from pycudakit._runtime.engine_choice import requested_engine


def count(
    values: Sequence[Array], bins: Sequence[binning.Bins], edges: Sequence[Array], weights: Array | None
) -> tuple[Array, ...]:
    """Count, or sum weights, in all bins; return them with the library's two further counts.

    `edges` are the device-resident edges of those axes that have any, in the type of the bins' own edges.
    """
    remaining = iter(edges)
    bins = [each if each.edges is None else binning.with_edges_at(each, next(remaining)) for each in bins]
    total, weighs = binning.total_bins(bins), () if weights is None else (weights,)
    arguments = binning.arguments(values, bins, weighs)
    choice = requested_engine("histogram", context.checked_current_engine())
    if weights is not None and weights.dtype.kind == "f":
        sums, outside = allocator.empty(total, FLOAT64), allocator.empty(2, INT64)
        native_call.run(choice, "pk_weighted_histogram", *arguments, sums, outside, size=values[0].size)
        return sums, outside
    counts = allocator.empty(total + 2, INT64)
    native_call.run(choice, "pk_histogram", *arguments, counts, size=values[0].size)
    return (counts,)


def bin_indices(values: Array, bins: binning.Bins, edges: Array, right: bool, decreasing: bool) -> Array:
    """Return, for each element, the number of edges before it."""
    choice = requested_engine("digitize", context.checked_current_engine())
    return binning.bin_indices(choice, values, binning.with_edges_at(bins, edges), right, decreasing)


def may_miss_bins(bins: binning.Bins, values: DType) -> bool:
    """Return True if rounding may put an element out of all bins; NumPy raises an error for it."""
    (row,) = bins.row
    if row["kind"] != abi.BINS_UNIFORM or bins.edges is None:
        return False
    types = [
        each
        for each, code in CODES.items()
        if each.kind == "f" and (each == values or code in (row["type"], row["compute_type"]))
    ]
    off = 8 * max(float(np.finfo(each).eps) for each in types)
    reach = float(np.max(np.abs(bins.edges[[0, -1]].astype(FLOAT64))))
    return not off * bins.count * (1 + reach / float(row["width"])) < 1
