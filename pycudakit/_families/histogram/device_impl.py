"""Counting where values, edges and counts lie on a device, and nobody waits for any of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pycudakit._families.histogram import binning
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import CODES, FLOAT64, INT64, Array, DType
from pycudakit._runtime import context, native_call
from pycudakit._runtime.engine_choice import asked_for


def count(
    values: Sequence[Array], bins: Sequence[binning.Bins], edges: Sequence[Array], weights: Array | None
) -> tuple[Array, ...]:
    """Return the counts, or weights, of all bins, and the two numbers more that the library tells.

    The edges are those of axes that have any, in the type that the bins' own are in.
    """
    own = iter(edges)
    bins = [each if each.edges is None else binning.found_at(each, next(own)) for each in bins]
    total, weighs = binning.total_of(bins), () if weights is None else (weights,)
    arguments = binning.arguments(values, bins, weighs)
    plan = asked_for("histogram", context.checked_current())
    if weights is not None and weights.dtype.kind == "f":
        sums, outside = allocator.empty(total, FLOAT64), allocator.empty(2, INT64)
        native_call.run(plan, "pk_weighted_histogram", *arguments, sums, outside, size=values[0].size)
        return sums, outside
    counts = allocator.empty(total + 2, INT64)
    native_call.run(plan, "pk_histogram", *arguments, counts, size=values[0].size)
    return (counts,)


def passed(values: Array, bins: binning.Bins, edges: Array, right: bool, decreasing: bool) -> Array:
    """Return how many edges come before each element."""
    plan = asked_for("digitize", context.checked_current())
    return binning.passed(plan, values, binning.found_at(bins, edges), right, decreasing)


def may_lose(bins: binning.Bins, values: DType) -> bool:
    """Tell whether rounding may put an element beyond the bins, for which NumPy raises an error."""
    (row,) = bins.row
    if row["how"] != abi.BY_WIDTH or bins.edges is None:
        return False
    types = [
        each
        for each, code in CODES.items()
        if each.kind == "f" and (each == values or code in (row["type"], row["quotient"]))
    ]
    off = 8 * max(float(np.finfo(each).eps) for each in types)
    reach = float(np.max(np.abs(bins.edges[[0, -1]].astype(FLOAT64))))
    return not off * bins.count * (1 + reach / float(row["width"])) < 1
