"""Points counted, and running sums from nothing on, where arrays stay on the device.

Each returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._library.types import CODES
from pycudakit.fusing.arrays.stand_in import StandIn
from pycudakit.fusing.recording.call import Recording
from pycudakit.fusing.recording.shapes import Handler, captures, empty
from pycudakit.fusing.staying.rules import edges_by_rule

COUNTING: dict[Any, Handler] = {}
_captures = functools.partial(captures, COUNTING)


def _are_points(columns: Sequence[Any]) -> bool:
    """Tell whether they are the points' coordinates, and lie on the device."""
    return all(
        type(column) is StandIn and column.ndim == 1 and column.size and column.shape == columns[0].shape
        for column in columns
    )


def _function(name: str) -> Any:
    return getattr(importlib.import_module("pycudakit._families.histogram.functions"), name)


def _weighed(x: Any, weights: Any) -> bool:
    """Tell whether there are weights, of elements that lie on the device."""
    is_there = type(x) is StandIn and x.ndim > 0 and x.size > 0
    return is_there and type(weights) in (StandIn, np.ndarray) and weights.shape == x.shape


@_captures(np.bincount)
def _bincount(recording: Recording, x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
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
    if not _weighed(a, weights):
        return NotImplemented

    def histogram(values: Any, own: Any) -> Any:
        return _function("histogram")(values, *rest, own)

    rest = recording.resolved((bins, range, density))
    return recording.at_home(histogram, (a, weights), {}, places=2)


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
    if weights is None:
        return recording.at_home(_function("histogram2d"), (x, y, bins, range, density), {}, places=2)
    if not _weighed(x, weights):
        return NotImplemented

    def histogram2d(first: Any, second: Any, own: Any) -> Any:
        return _function("histogram2d")(first, second, *rest, own)

    rest = recording.resolved((bins, range, density))
    return recording.at_home(histogram2d, (x, y, weights), {}, places=3)


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
    family = importlib.import_module("pycudakit._families.histogram.many")
    bins, range = recording.resolved(bins), recording.resolved(range)
    edges = family.edges_of(columns, bins, range, lambda column: _extent(recording, column))
    lengths = [len(each) + 1 for each in edges]  # with what is outside, at both ends
    if math.prod(lengths) > np.iinfo(np.intp).max:
        return NotImplemented
    places: Any = None
    for column, own, length in zip(columns, edges, lengths, strict=True):
        place = recording.call(np.searchsorted, (recording.wrap(own), column), {"side": "right"})
        place = place - (column == own[-1])  # the last edge is in the last box
        places = place if places is None else places * length + place
    counts = recording.resolved(recording.call(np.bincount, (places, weights, math.prod(lengths)), {}))
    return recording.wrap(family.of_counts(counts, edges, density))


def _extent(recording: Recording, column: StandIn) -> Any:
    return recording.resolved((np.min(column), np.max(column)))


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
