"""Points counted in a device's memory, with edges that lie there, too: nobody waits for the counts."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.dtypes import BOOL, CODES, Array, DType
from pycudakit.fusing.device_impls.bin_estimators import as_integers
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import numbers


class Axis(NamedTuple):
    """Bins along an axis, and their edges on the device: none where integers are bins."""

    bins: Any
    edges: Any = None


class Counts(NamedTuple):
    """The count or the weight of each bin, the edges, and whether an element was lost, if one may be."""

    counts: Any
    edges: list[Any]
    lost: Any


def family(name: str = "binning") -> Any:
    """Return a module of the family."""
    return importlib.import_module(f"pycudakit._families.histogram.{name}")


def extent(recording: Recording, column: StandIn) -> Array:
    """Return the least and the greatest element."""
    return np.array(recording.resolved((np.min(column), np.max(column))), column.dtype)


def _evenly(recording: Recording, edges: Array, ends: tuple[Any, Any]) -> Any:
    """Return edges that NumPy has made between two ends: made there once more, if they are the same."""
    first, last = (np.asanyarray(end) * 1.0 for end in ends)
    dtype: DType = np.result_type(first, last, 1.0)
    count = len(edges) - 1
    with np.errstate(all="ignore"):
        step = np.subtract(last, first, dtype=dtype) / count

        def made(number: Any) -> Any:
            line = (number.astype(dtype) * dtype.type(step) + dtype.type(first)).astype(edges.dtype)
            return np.where(number == count, edges[-1], line)

        if dtype not in CODES or not np.array_equal(made(np.arange(count + 1)), edges):
            return recording.wrap(edges)
        return made(numbers(recording, count + 1))


def _axis_of(recording: Recording, values: StandIn, bins: Any, range: Any) -> Axis | None:
    """Return the bins of `np.histogram`, or None for those that are NumPy's alone."""
    functions = family("histogram")
    if np.ndim(bins):
        edges = np.histogram_bin_edges(np.empty(0, values.dtype), recording.resolved(bins))
        if len(edges) < 2 or functions.foreign_edges(edges) is not None:
            return None
        there = bins if type(bins) is StandIn else recording.wrap(edges)
        return Axis(family().by_edges(edges, values.dtype), there)
    sample = extent(recording, values) if range is None else np.empty(0, values.dtype)
    edges = np.histogram_bin_edges(sample, bins, range)
    ends = functions.outer_edges(sample, range)
    found = family().by_width(edges, *ends, values.dtype) if 1 < len(edges) <= family().MOST else None
    return None if found is None else Axis(found, _evenly(recording, edges, ends))


def of_values(recording: Recording, values: Any, bins: Any, range: Any, weights: Any) -> Counts | None:
    """Return what `np.histogram` counts, or None for what the host does, or refuses."""
    if not _are_there(recording, [values], weights) or (weights is not None and weights.dtype == BOOL):
        return None
    if values.dtype == BOOL:
        values = as_integers(values)
    try:
        axis = _axis_of(recording, values, bins, range)
    except (IndexError, TypeError, ValueError):
        return None
    found = None if axis is None else _counted(recording, [values], [axis], weights)
    if found is None or weights is None:
        return found
    return found._replace(counts=found.counts.astype(weights.dtype))


def of_points(recording: Recording, columns: list[Any], bins: Any, range: Any, weights: Any) -> Counts | None:
    """Return what `np.histogram2d` counts, in a row; or None for what the host does, or refuses."""
    if not _are_there(recording, columns, weights):
        return None
    own = bins if type(bins) in (list, tuple) and len(bins) == 2 else [bins, bins]
    try:
        edges = family("histogram").edges_of_points(
            columns, recording.resolved(bins), range, lambda column: extent(recording, column)
        )
    except (IndexError, TypeError, ValueError):
        return None
    found = family("histogram").bins_of_points(edges, columns)
    if isinstance(found, str) or any(len(each) < 2 for each in edges):
        return None
    axes = [Axis(each, _given_or_even(recording, *of)) for each, *of in zip(found, edges, own, strict=True)]
    return _counted(recording, columns, axes, weights)


def _given_or_even(recording: Recording, edges: Array, given: Any) -> Any:
    if type(given) is StandIn and given.ndim:
        return given
    return _evenly(recording, edges, (edges[0], edges[-1])) if not np.ndim(given) else recording.wrap(edges)


def edges_there(recording: Recording, edges: Sequence[Array], given: Any) -> list[Any]:
    """Return the edges of axes on the device, where they are asked for by so many bins, or given."""
    each = list(given) if type(given) in (list, tuple) else [given] * len(edges)
    return [_given_or_even(recording, *of) for of in zip(edges, each, strict=True)]


def of_integers(recording: Recording, values: Any, count: int, weights: Any) -> Any:
    """Return how often each integer below a number occurs, or its weight; None for what the host does."""
    if not _are_there(recording, [values], weights) or count > family().MOST:
        return None
    added = weights if weights is None else weights.astype(np.float64)
    found = _counted(recording, [values], [Axis(family().by_value(count))], added)
    return None if found is None else found.counts


def _are_there(recording: Recording, columns: Sequence[Any], weights: Any) -> bool:
    given = [*columns, *([] if weights is None else [weights])]
    return recording.memory.scope.queues and all(type(each) is StandIn for each in given)


def _counted(recording: Recording, columns: list[Any], axes: list[Axis], weights: Any) -> Counts | None:
    there, bins = family("device_impl"), [axis.bins for axis in axes]
    total = family().total_of(bins)
    if not 0 < total < family().MOST:
        return None
    edges = [axis.edges.astype(axis.bins.edges.dtype) for axis in axes if axis.edges is not None]
    until = len(columns) + len(edges)

    def count(*arrays: Any) -> Any:
        weighs = arrays[until] if len(arrays) > until else None
        return there.count(arrays[: len(columns)], bins, arrays[len(columns) : until], weighs)

    given = (*columns, *edges, *(() if weights is None else (weights,)))
    counts, *rest = recording.at_home(count, given, {}, places=len(given), are_unseen=True)
    outside = rest[0] if rest else counts[total:]
    lost = outside[1] if there.may_lose(bins[0], columns[0].dtype) else None
    return Counts(counts[:total], [axis.edges for axis in axes], lost)
