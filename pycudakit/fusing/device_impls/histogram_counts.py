"""Histogram counts on the device, asynchronously: the edges are device-resident, and so are the counts."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.dtypes import BOOL, CODES, Array, DType
from pycudakit.fusing.device_impls.bin_estimators import bools_as_integers
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import numbers


class Axis(NamedTuple):
    """The bins of one axis, and their edges on the device; no edges if each integer is a bin."""

    bins: Any
    edges: Any = None


class Counts(NamedTuple):
    """The count or weight of each bin, the edges, and a flag for elements out of range (or None)."""

    counts: Any
    edges: list[Any]
    out_of_range: Any


def family(name: str = "binning") -> Any:
    """Import a module of the histogram family."""
    return importlib.import_module(f"pycudakit._families.histogram.{name}")


def extent(trace: Trace, column: Tracer) -> Array:
    """Return the minimum and the maximum, as host values."""
    return np.array(trace.resolved((np.min(column), np.max(column))), column.dtype)


def _linspace_edges(trace: Trace, edges: Array, ends: tuple[Any, Any]) -> Any:
    """Return the device copy of NumPy's linspace edges: recomputed there if that gives the same bits."""
    first, last = (np.asanyarray(end) * 1.0 for end in ends)
    dtype: DType = np.result_type(first, last, 1.0)
    count = len(edges) - 1
    with np.errstate(all="ignore"):
        step = np.subtract(last, first, dtype=dtype) / count

        def linspace(number: Any) -> Any:
            values = (number.astype(dtype) * dtype.type(step) + dtype.type(first)).astype(edges.dtype)
            return np.where(number == count, edges[-1], values)

        if dtype not in CODES or not np.array_equal(linspace(np.arange(count + 1)), edges):
            return trace.wrap(edges)
        return linspace(numbers(trace, count + 1))


def _axis_of(trace: Trace, values: Tracer, bins: Any, range: Any) -> Axis | None:
    """Return the bins of `np.histogram`; None if only NumPy takes them."""
    functions = family("histogram")
    if np.ndim(bins):
        edges = np.histogram_bin_edges(np.empty(0, values.dtype), trace.resolved(bins))
        if len(edges) < 2 or functions.why_numpy_edges(edges) is not None:
            return None
        device_edges = bins if type(bins) is Tracer else trace.wrap(edges)
        return Axis(family().edge_bins(edges, values.dtype), device_edges)
    sample = extent(trace, values) if range is None else np.empty(0, values.dtype)
    edges = np.histogram_bin_edges(sample, bins, range)
    ends = functions.outer_edges(sample, range)
    uniform = (
        family().uniform_bins(edges, *ends, values.dtype) if 1 < len(edges) <= family().MAX_BINS else None
    )
    return None if uniform is None else Axis(uniform, _linspace_edges(trace, edges, ends))


def count_values(trace: Trace, values: Any, bins: Any, range: Any, weights: Any) -> Counts | None:
    """Compute the counts of `np.histogram`; None if the host must do it, or raises."""
    if not _are_on_device(trace, [values], weights) or (weights is not None and weights.dtype == BOOL):
        return None
    if values.dtype == BOOL:
        values = bools_as_integers(values)
    try:
        axis = _axis_of(trace, values, bins, range)
    except (IndexError, TypeError, ValueError):
        return None
    result = None if axis is None else _counted(trace, [values], [axis], weights)
    if result is None or weights is None:
        return result
    return result._replace(counts=result.counts.astype(weights.dtype))


def count_points(trace: Trace, columns: list[Any], bins: Any, range: Any, weights: Any) -> Counts | None:
    """Compute the flat counts of `np.histogram2d`; None if the host must do it, or raises."""
    if not _are_on_device(trace, columns, weights):
        return None
    axis_bins = bins if type(bins) in (list, tuple) and len(bins) == 2 else [bins, bins]
    try:
        edges = family("histogram").histogram2d_edges(
            columns, trace.resolved(bins), range, lambda column: extent(trace, column)
        )
    except (IndexError, TypeError, ValueError):
        return None
    bins_per_axis = family("histogram").bins_along_axes(edges, columns)
    if isinstance(bins_per_axis, str) or any(len(each) < 2 for each in edges):
        return None
    axes = [
        Axis(each, _edges_on_device(trace, *of))
        for each, *of in zip(bins_per_axis, edges, axis_bins, strict=True)
    ]
    return _counted(trace, columns, axes, weights)


def _edges_on_device(trace: Trace, edges: Array, given: Any) -> Any:
    if type(given) is Tracer and given.ndim:
        return given
    return _linspace_edges(trace, edges, (edges[0], edges[-1])) if not np.ndim(given) else trace.wrap(edges)


def device_edges(trace: Trace, edges: Sequence[Array], given: Any) -> list[Any]:
    """Return the edges of each axis on the device, from a number of bins or from given edges."""
    each = list(given) if type(given) in (list, tuple) else [given] * len(edges)
    return [_edges_on_device(trace, *of) for of in zip(edges, each, strict=True)]


def count_integers(trace: Trace, values: Any, count: int, weights: Any) -> Any:
    """Count (or sum the weights of) each integer below `count`; None if the host must do it."""
    if not _are_on_device(trace, [values], weights) or count > family().MAX_BINS:
        return None
    float_weights = weights if weights is None else weights.astype(np.float64)
    result = _counted(trace, [values], [Axis(family().integer_bins(count))], float_weights)
    return None if result is None else result.counts


def _are_on_device(trace: Trace, columns: Sequence[Any], weights: Any) -> bool:
    operands = [*columns, *([] if weights is None else [weights])]
    return trace.buffers.scope.is_async and all(type(each) is Tracer for each in operands)


def _counted(trace: Trace, columns: list[Any], axes: list[Axis], weights: Any) -> Counts | None:
    device_impl, bins = family("device_impl"), [axis.bins for axis in axes]
    total = family().total_bins(bins)
    if not 0 < total < family().MAX_BINS:
        return None
    edges = [axis.edges.astype(axis.bins.edges.dtype) for axis in axes if axis.edges is not None]
    num_edges_end = len(columns) + len(edges)

    def count(*arrays: Any) -> Any:
        weighs = arrays[num_edges_end] if len(arrays) > num_edges_end else None
        return device_impl.count(arrays[: len(columns)], bins, arrays[len(columns) : num_edges_end], weighs)

    operands = (*columns, *edges, *(() if weights is None else (weights,)))
    counts, *rest = trace.on_device(
        count, operands, {}, num_device_args=len(operands), results_stay_on_device=True
    )
    outside = rest[0] if rest else counts[total:]
    out_of_range = outside[1] if device_impl.may_miss_bins(bins[0], columns[0].dtype) else None
    return Counts(counts[:total], [axis.edges for axis in axes], out_of_range)
