"""Points counted, and running sums from nothing on, where arrays stay on the device.

Each returns NotImplemented for what the host does.
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
from pycudakit.fusing.device_impls.bin_estimators import edges_by_rule
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures, empty

COUNTING: dict[Any, Handler] = {}
_captures = functools.partial(captures, COUNTING)


def _are_points(columns: Sequence[Any]) -> bool:
    """Tell whether they are the points' coordinates, and lie on the device."""
    return all(
        type(column) is StandIn and column.ndim == 1 and column.size and column.shape == columns[0].shape
        for column in columns
    )


def _function(name: str) -> Any:
    return getattr(importlib.import_module("pycudakit._families.histogram.histogram"), name)


def _weighed(x: Any, weights: Any) -> bool:
    """Tell whether there are weights, of elements that lie on the device."""
    is_there = type(x) is StandIn and x.ndim > 0 and x.size > 0
    return is_there and type(weights) in (StandIn, np.ndarray) and weights.shape == x.shape


@functools.cache
def _is_counted(dtype: DType) -> bool:
    """Tell whether NumPy counts integers of a type."""
    with contextlib.suppress(TypeError):
        np.bincount(np.empty(0, dtype))
        return True
    return False


@_captures(np.bincount)
def _bincount(recording: Recording, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    minlength = recording.resolved(minlength)
    are_known = type(x) is StandIn and x.ndim == 1 and x.size and _is_counted(x.dtype)
    is_plain = recording.memory.scope.queues and type(minlength) is int and minlength >= 0
    if are_known and is_plain and (weights is None or _weighed(x, weights)):
        least, greatest = histogram_counts.extent(recording, x)
        count = max(int(greatest) + 1, minlength)
        found = histogram_counts.of_integers(recording, x, count, weights) if least >= 0 else None
        if found is not None:
            return found.copy()
    if not _weighed(x, weights):
        return NotImplemented
    return recording.at_home(_function("bincount"), (x, weights, minlength), {}, places=2)


@_captures(np.histogram)
def _histogram(
    recording: Recording,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    if isinstance(bins, str):
        return NotImplemented if weights is not None else _by_rule(recording, a, bins, range, density)
    range, density = recording.resolved((range, density))
    if type(a) is StandIn and a.ndim and a.size and (weights is None or _weighed(a, weights)):
        found = histogram_counts.of_values(recording, a, bins, range, weights)
        if found is not None:
            return _with_edges(recording, found, density)
    if not _weighed(a, weights):
        return NotImplemented

    def histogram(values: Any, own: Any) -> Any:
        return _function("histogram")(values, *rest, own)

    rest = recording.resolved((bins, range, density))
    return recording.at_home(histogram, (a, weights), {}, places=2)


def _with_edges(recording: Recording, found: histogram_counts.Counts, density: Any) -> tuple[Any, Any]:
    (edges,) = found.edges
    if found.lost is not None:
        histogram_counts.family("histogram").check_lost(bool(recording.resolved(found.lost)), edges.size)
    counts = found.counts
    if density:
        whole = np.sum(recording.resolved(counts) if counts.dtype.kind == "f" else counts)
        counts = counts / np.diff(edges).astype(float) / whole
    return counts.copy(), edges.copy()


def _by_rule(recording: Recording, a: Any, rule: str, range: Any, density: Any) -> Any:
    range = recording.resolved(range)
    found = edges_by_rule(recording, a, rule, range)
    if found is None:
        return NotImplemented
    a, _, count = found
    return recording.call(np.histogram, (a, count, range, density), {})


@_captures(np.histogram_bin_edges)
def _histogram_bin_edges(
    recording: Recording, a: Any, bins: Any = 10, range: Any = None, weights: Any = None
) -> Any:
    if not isinstance(bins, str) or weights is not None:
        return NotImplemented
    found = edges_by_rule(recording, a, bins, recording.resolved(range))
    return NotImplemented if found is None else recording.wrap(found[1])


@_captures(np.histogram2d)
def _histogram2d(
    recording: Recording,
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    if not _are_points((x, y)) or np.promote_types(x.dtype, y.dtype) not in CODES:
        return NotImplemented
    range, density = recording.resolved((range, density))
    if weights is None or _weighed(x, weights):
        found = histogram_counts.of_points(recording, [x, y], bins, range, weights)
        if found is not None:
            shape = [edges.size - 1 for edges in found.edges]
            hist = found.counts.reshape(shape).astype(float)
            if density:
                hist = _as_density(recording, hist, found.edges, weights is not None)
            return hist, *(own.copy() for own in found.edges)
    if weights is None:
        return recording.at_home(_function("histogram2d"), (x, y, bins, range, density), {}, places=2)
    if not _weighed(x, weights):
        return NotImplemented

    def histogram2d(first: Any, second: Any, own: Any) -> Any:
        return _function("histogram2d")(first, second, *rest, own)

    rest = recording.resolved((bins, range, density))
    return recording.at_home(histogram2d, (x, y, weights), {}, places=3)


def _as_density(recording: Recording, hist: Any, edges: Sequence[Any], is_weighed: bool) -> Any:
    whole = _whole(recording, hist) if is_weighed else np.sum(hist)
    for axis, own in enumerate(edges):
        hist = hist / np.diff(own).reshape([-1 if d == axis else 1 for d, _ in enumerate(edges)])
    return hist / whole


def _whole(recording: Recording, hist: Any) -> Any:
    """Return the sum of floats as NumPy rounds it, to which they are within what is around them."""
    return np.pad(recording.resolved(hist), 1)[(slice(1, -1),) * hist.ndim].sum()


@_captures(np.histogramdd)
def _histogramdd(
    recording: Recording,
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    is_one = type(sample) is StandIn and sample.ndim == 2
    columns = list(sample.T) if is_one else list(sample) if type(sample) in (list, tuple) else []
    if not columns or not _are_points(columns) or not (weights is None or _weighed(columns[0], weights)):
        return NotImplemented
    common = functools.reduce(np.promote_types, [column.dtype for column in columns])  # as arrays are joined
    if common not in CODES:
        return NotImplemented
    columns = [column if column.dtype == common else column.astype(common) for column in columns]
    family = importlib.import_module("pycudakit._families.histogram.histogramdd")
    given, bins, range = bins, recording.resolved(bins), recording.resolved(range)
    edges = family.edges_of(columns, bins, range, lambda column: histogram_counts.extent(recording, column))
    there = histogram_counts.edges_there(recording, edges, given)
    lengths = [len(each) + 1 for each in edges]  # with what is outside, at both ends
    if math.prod(lengths) > np.iinfo(np.intp).max:
        return NotImplemented
    places: Any = None
    for column, own, last, length in zip(columns, there, edges, lengths, strict=True):
        place = recording.call(np.searchsorted, (own, column), {"side": "right"})
        place = place - (column == last[-1])  # the last edge is in the last box
        places = place if places is None else places * length + place
    found = histogram_counts.of_integers(recording, places, math.prod(lengths), weights)
    if found is not None:
        hist = found.reshape(lengths).astype(float)[(slice(1, -1),) * len(edges)]
        hist = _as_density(recording, hist, there, weights is not None) if density else hist.copy()
        return hist, type(edges)(each.copy() for each in there)
    counts = recording.resolved(recording.call(np.bincount, (places, weights, math.prod(lengths)), {}))
    return recording.wrap(family.of_counts(counts, edges, density))


@_captures(np.digitize)
def _digitize(recording: Recording, x: Any, bins: Any, right: Any = False) -> Any:
    """Look between edges; what NumPy refuses of them is seen on the host."""
    is_there = type(x) is StandIn and x.ndim > 0 and x.size > 0 and x.dtype in CODES
    if not (recording.memory.scope.is_open and is_there):
        return NotImplemented
    known = np.asarray(recording.resolved(bins))
    if (
        known.ndim != 1
        or not known.size
        or histogram_counts.family("histogram").foreign_edges(known) is not None
    ):
        return NotImplemented
    np.digitize(np.empty(0, x.dtype), known, right)  # raises
    decreasing = bool(known[0] > known[-1])
    between = histogram_counts.family().by_edges(known[::-1] if decreasing else known, x.dtype)
    there = bins if type(bins) is StandIn else recording.wrap(known)
    if decreasing:
        there = recording.call(np.copy, (there[::-1],), {})
    there = there.astype(between.edges.dtype)

    def passed(values: Any, own: Any) -> Any:
        return histogram_counts.family("device_impl").passed(values, between, own, bool(right), decreasing)

    return recording.at_home(passed, (x, there), {}, places=2, are_unseen=True)


def _running(name: str, initial: int) -> Handler:
    function = getattr(np, name)

    def handle(
        recording: Recording,
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: Any = False,
    ) -> Any:
        is_plain = type(x) is StandIn and x.size and (axis is not None or x.ndim == 1)
        if not (include_initial and is_plain and out is None):
            return NotImplemented
        run = recording.call(function, (x,), {"axis": axis, "dtype": dtype})
        place = 0 if axis is None else axis % x.ndim
        shape = tuple(n + (d == place) for d, n in enumerate(run.shape))
        made = empty(recording, shape, run.dtype)
        ahead = (slice(None),) * place
        for part, value in ((slice(1), initial), (slice(1, None), run)):
            recording.set(made, (*ahead, part), value)
        return made

    return handle


for _name, _initial in (("cumulative_sum", 0), ("cumulative_prod", 1)):
    if hasattr(np, _name):  # they are newer than NumPy 2.0
        COUNTING[getattr(np, _name)] = _running(_name, _initial)
