"""Histograms, `bincount`, `digitize`, and scans with `include_initial`, on device-resident arrays.

Functions return NotImplemented for calls that the host must compute.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, DType
from pycudakit.fusing.device_impls import histogram_counts
from pycudakit.fusing.device_impls.bin_estimators import edges_by_estimator
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, empty, implements

COUNTING: dict[Any, Handler] = {}
_implements = functools.partial(implements, COUNTING)


def _are_points(columns: Sequence[Any]) -> bool:
    """Return True if the columns are coordinates of points on the device."""
    return all(
        type(column) is Tracer and column.ndim == 1 and column.size and column.shape == columns[0].shape
        for column in columns
    )


def _function(name: str) -> Any:
    return getattr(importlib.import_module("pycudakit._families.histogram.histogram"), name)


def _is_weighted(x: Any, weights: Any) -> bool:
    """Return True for weights of the shape of `x`, where `x` is on the device."""
    is_on_device = type(x) is Tracer and x.ndim > 0 and x.size > 0
    return is_on_device and type(weights) in (Tracer, np.ndarray) and weights.shape == x.shape


@functools.cache
def _is_counted(dtype: DType) -> bool:
    """Return True if `np.bincount` takes this dtype."""
    with contextlib.suppress(TypeError):
        np.bincount(np.empty(0, dtype))
        return True
    return False


@_implements(np.bincount)
def _bincount(trace: Trace, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    minlength = trace.resolved(minlength)
    are_known = type(x) is Tracer and x.ndim == 1 and x.size and _is_counted(x.dtype)
    is_plain = trace.buffers.scope.is_async and type(minlength) is int and minlength >= 0
    if are_known and is_plain and (weights is None or _is_weighted(x, weights)):
        least, greatest = histogram_counts.extent(trace, x)
        count = max(int(greatest) + 1, minlength)
        counts = histogram_counts.count_integers(trace, x, count, weights) if least >= 0 else None
        if counts is not None:
            return counts.copy()
    if not _is_weighted(x, weights):
        return NotImplemented
    return trace.on_device(_function("bincount"), (x, weights, minlength), {}, num_device_args=2)


@_implements(np.histogram)
def _histogram(
    trace: Trace,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    if isinstance(bins, str):
        return NotImplemented if weights is not None else _by_estimator(trace, a, bins, range, density)
    range, density = trace.resolved((range, density))
    if type(a) is Tracer and a.ndim and a.size and (weights is None or _is_weighted(a, weights)):
        result = histogram_counts.count_values(trace, a, bins, range, weights)
        if result is not None:
            return _with_edges(trace, result, density)
    if not _is_weighted(a, weights):
        return NotImplemented

    def histogram(values: Any, own: Any) -> Any:
        return _function("histogram")(values, *rest, own)

    rest = trace.resolved((bins, range, density))
    return trace.on_device(histogram, (a, weights), {}, num_device_args=2)


def _with_edges(trace: Trace, found: histogram_counts.Counts, density: Any) -> tuple[Any, Any]:
    (edges,) = found.edges
    if found.out_of_range is not None:
        histogram_counts.family("histogram").check_out_of_range(
            bool(trace.resolved(found.out_of_range)), edges.size
        )
    counts = found.counts
    if density:
        total = np.sum(trace.resolved(counts) if counts.dtype.kind == "f" else counts)
        counts = counts / np.diff(edges).astype(float) / total
    return counts.copy(), edges.copy()


def _by_estimator(trace: Trace, a: Any, rule: str, range: Any, density: Any) -> Any:
    range = trace.resolved(range)
    estimate = edges_by_estimator(trace, a, rule, range)
    if estimate is None:
        return NotImplemented
    a, _, count = estimate
    return trace.call(np.histogram, (a, count, range, density), {})


@_implements(np.histogram_bin_edges)
def _histogram_bin_edges(trace: Trace, a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    if not isinstance(bins, str) or weights is not None:
        return NotImplemented
    estimate = edges_by_estimator(trace, a, bins, trace.resolved(range))
    return NotImplemented if estimate is None else trace.wrap(estimate[1])


@_implements(np.histogram2d)
def _histogram2d(
    trace: Trace,
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    if not _are_points((x, y)) or np.promote_types(x.dtype, y.dtype) not in CODES:
        return NotImplemented
    range, density = trace.resolved((range, density))
    if weights is None or _is_weighted(x, weights):
        result = histogram_counts.count_points(trace, [x, y], bins, range, weights)
        if result is not None:
            shape = [edges.size - 1 for edges in result.edges]
            hist = result.counts.reshape(shape).astype(float)
            if density:
                total = np.sum(hist) if weights is None else _padded_sum(trace, hist)
                hist = _function("as_density")(hist, result.edges, total)
            return hist, *(own.copy() for own in result.edges)
    if weights is None:
        return trace.on_device(_function("histogram2d"), (x, y, bins, range, density), {}, num_device_args=2)
    if not _is_weighted(x, weights):
        return NotImplemented

    def histogram2d(first: Any, second: Any, own: Any) -> Any:
        return _function("histogram2d")(first, second, *rest, own)

    rest = trace.resolved((bins, range, density))
    return trace.on_device(histogram2d, (x, y, weights), {}, num_device_args=3)


def _padded_sum(trace: Trace, hist: Any) -> Any:
    """Return the sum on the host, rounded as NumPy rounds it: of the inner part of a padded array."""
    return np.pad(trace.resolved(hist), 1)[(slice(1, -1),) * hist.ndim].sum()


@_implements(np.histogramdd)
def _histogramdd(
    trace: Trace,
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    is_one = type(sample) is Tracer and sample.ndim == 2
    columns = list(sample.T) if is_one else list(sample) if type(sample) in (list, tuple) else []
    if not columns or not _are_points(columns) or not (weights is None or _is_weighted(columns[0], weights)):
        return NotImplemented
    common = functools.reduce(
        np.promote_types, [column.dtype for column in columns]
    )  # the dtype of `np.concatenate`
    if common not in CODES:
        return NotImplemented
    columns = [column if column.dtype == common else column.astype(common) for column in columns]
    family = importlib.import_module("pycudakit._families.histogram.histogramdd")
    bins_given, bins, range = bins, trace.resolved(bins), trace.resolved(range)
    edges = family.edges_of(columns, bins, range, lambda column: histogram_counts.extent(trace, column))
    device_edges = histogram_counts.device_edges(trace, edges, bins_given)
    lengths = [len(each) + 1 for each in edges]  # with one outlier bin at each end
    if math.prod(lengths) > np.iinfo(np.intp).max:
        return NotImplemented
    flat_bins = family.flat_bins(np, columns, edges, device_edges)
    flat_counts = histogram_counts.count_integers(trace, flat_bins, math.prod(lengths), weights)
    if flat_counts is not None:
        hist = flat_counts.reshape(lengths).astype(float)[(slice(1, -1),) * len(edges)]
        if density:
            total = np.sum(hist) if weights is None else _padded_sum(trace, hist)
            hist = _function("as_density")(hist, device_edges, total)
        else:
            hist = hist.copy()
        return hist, type(edges)(each.copy() for each in device_edges)
    counts = trace.resolved(trace.call(np.bincount, (flat_bins, weights, math.prod(lengths)), {}))
    return trace.wrap(family.histogram_from_counts(counts, edges, density))


@_implements(np.digitize)
def _digitize(trace: Trace, x: Any, bins: Any, right: Any = False) -> Any:
    """Find the bin of each element; the edges are validated on the host."""
    is_on_device = type(x) is Tracer and x.ndim > 0 and x.size > 0 and x.dtype in CODES
    if not (trace.buffers.scope.is_open and is_on_device):
        return NotImplemented
    host_edges = np.asarray(trace.resolved(bins))
    if (
        host_edges.ndim != 1
        or not host_edges.size
        or histogram_counts.family("histogram").why_numpy_edges(host_edges) is not None
    ):
        return NotImplemented
    np.digitize(np.empty(0, x.dtype), host_edges, right)  # raises
    decreasing = bool(host_edges[0] > host_edges[-1])
    edge_bins = histogram_counts.family().edge_bins(host_edges[::-1] if decreasing else host_edges, x.dtype)
    device_edges = bins if type(bins) is Tracer else trace.wrap(host_edges)
    if decreasing:
        device_edges = trace.call(np.copy, (device_edges[::-1],), {})
    device_edges = device_edges.astype(edge_bins.edges.dtype)

    def passed(values: Any, own: Any) -> Any:
        return histogram_counts.family("device_impl").bin_indices(
            values, edge_bins, own, bool(right), decreasing
        )

    return trace.on_device(passed, (x, device_edges), {}, num_device_args=2, results_stay_on_device=True)


def _running(name: str, initial: int) -> Handler:
    function = getattr(np, name)

    def handle(
        trace: Trace,
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: Any = False,
    ) -> Any:
        is_plain = type(x) is Tracer and x.size and (axis is not None or x.ndim == 1)
        if not (include_initial and is_plain and out is None):
            return NotImplemented
        run = trace.call(function, (x,), {"axis": axis, "dtype": dtype})
        position = 0 if axis is None else axis % x.ndim
        shape = tuple(n + (d == position) for d, n in enumerate(run.shape))
        result = empty(trace, shape, run.dtype)
        before_axis = (slice(None),) * position
        for part, value in ((slice(1), initial), (slice(1, None), run)):
            trace.set(result, (*before_axis, part), value)
        return result

    return handle


for _name, _initial in (("cumulative_sum", 0), ("cumulative_prod", 1)):
    if hasattr(np, _name):  # they are newer than NumPy 2.0
        COUNTING[getattr(np, _name)] = _running(_name, _initial)
