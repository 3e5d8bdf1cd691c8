"""What is made of sorting and of elements by their indices, where arrays stay on the device.

Each returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from pycudakit.fusing.device_impls.take import take_along_unchecked, take_unchecked
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, empty, implements, may_sort_in_c_order

ORDERING: dict[Any, Handler] = {}
_implements = functools.partial(implements, ORDERING)


def topk(trace: Trace, a: Any, k: Any, axis: Any = -1, largest: Any = True) -> Any:
    """Return the best elements, and where they are."""
    is_along = type(a) is Tracer and a.ndim > 0 and type(axis) is int and -a.ndim <= axis < a.ndim
    if not is_along and (type(a) is not Tracer or axis is not None):
        return NotImplemented
    if is_along and axis not in (-1, a.ndim - 1):
        found = topk(trace, trace.call(np.copy, (a.swapaxes(axis, -1), "C"), {}), k, -1, largest)
        return type(found)(*(trace.call(np.copy, (x.swapaxes(axis, -1), "C"), {}) for x in found))
    functions = importlib.import_module("pycudakit._families.sort.sorting")
    indices = trace.on_device(functions.topk_indices, (a, k, axis, largest), {})
    values = take_along_unchecked(trace, a.ravel() if axis is None else a, indices)
    return functions.TopK(values, indices)


def _along_another(name: str) -> Handler:
    """Return what has a function work along the last axis of a copy, in which that is another one."""
    function = getattr(np, name)
    before = 1 + ("partition" in name)  # of the axis

    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        named = dict(keywords)
        if named.pop("descending", None):
            return _descending(trace, function, a, arguments, named)
        axis = arguments[before - 1] if len(arguments) >= before else named.pop("axis", -1)
        is_plain = type(a) is Tracer and type(axis) is int and -a.ndim <= axis < a.ndim
        if not is_plain or axis in (-1, a.ndim - 1) or not (a.size and may_sort_in_c_order(a)):
            return NotImplemented
        moved = trace.call(np.copy, (a.swapaxes(axis, -1), "C"), {})
        given = (moved, *arguments[: before - 1], -1, *arguments[before:])
        return trace.call(np.copy, (trace.call(function, given, named).swapaxes(axis, -1), "C"), {})

    return handle


def _descending(trace: Trace, function: Any, a: Any, arguments: Any, named: Any) -> Any:
    """Find the order of values whose order is the other way round, but for NaN, which stays last."""
    is_plain = type(a) is Tracer and len(arguments) <= 1 and named.keys() <= {"axis", "stable"}
    if not is_plain or not a.size:
        return NotImplemented
    flip = np.negative if a.dtype.kind == "f" else np.invert
    result = trace.call(function, (flip(a), *arguments), named)
    return result if function is np.argsort else flip(result)


for _name in ("sort", "argsort", "partition", "argpartition"):
    ORDERING[getattr(np, _name)] = _along_another(_name)


@_implements(np.lexsort)
def _lexsort(trace: Trace, keys: Any, axis: Any = -1) -> Any:
    parts = list(keys) if type(keys) in (tuple, list, Tracer) else []
    are_alike = bool(parts) and all(type(key) is Tracer and key.shape == parts[0].shape for key in parts)
    if not are_alike or not (parts[0].ndim and parts[0].size) or axis not in (-1, parts[0].ndim - 1):
        return NotImplemented
    order = trace.call(np.argsort, (parts[0],), {})
    for key in parts[1:]:
        # Each order is stable, so that what came before decides among equals.
        following = trace.call(np.argsort, (take_along_unchecked(trace, key, order),), {})
        order = take_along_unchecked(trace, order, following)
    return order


@_implements(np.flatnonzero)
def _flatnonzero(trace: Trace, a: Any) -> Any:
    if type(a) is not Tracer or not a.size:
        return NotImplemented
    return _true_places(trace, a.ravel() if a.dtype == np.bool_ else a.ravel() != 0)


@_implements(np.nonzero)
def _nonzero(trace: Trace, a: Any) -> Any:
    found = _flatnonzero(trace, a) if np.ndim(a) else NotImplemented
    if found is NotImplemented or a.ndim == 1:
        return found if found is NotImplemented else (found,)
    places, inner = [], a.size
    for length in a.shape:
        inner //= length
        places.append(found // inner % length)
    return tuple(places)


@_implements(np.argwhere)
def _argwhere(trace: Trace, a: Any) -> Any:
    places = _nonzero(trace, a)
    return places if places is NotImplemented else trace.call(np.stack, (list(places), -1), {})


@_implements(np.searchsorted)
def _searchsorted(trace: Trace, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Look in an order that `sorter` tells."""
    are_places = type(sorter) is Tracer and sorter.dtype.kind in "iu" and type(a) is Tracer
    if not are_places or not a.ndim == sorter.ndim == 1 or a.size != sorter.size or not a.size:
        return NotImplemented
    return trace.call(np.searchsorted, (trace.call(np.take, (a, sorter), {}), v, side), {})


@_implements(np.take_along_axis)
def _take_along_axis(trace: Trace, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Take along another axis than the last of copies, in which that is the last."""
    is_plain = type(arr) is type(indices) is Tracer and type(axis) is int and arr.ndim == indices.ndim > 1
    if not is_plain or not -arr.ndim <= axis < arr.ndim - 1 or axis == -1:
        return NotImplemented
    moved = [trace.call(np.copy, (each.swapaxes(axis, -1), "C"), {}) for each in (arr, indices)]
    result = trace.call(np.take_along_axis, (*moved, -1), {})
    return trace.call(np.copy, (result.swapaxes(axis, -1), "C"), {})


def _true_places(trace: Trace, mask: Any) -> Any:
    """Return where a mask of one dimension is true."""
    count = int(trace.resolved(trace.call(np.count_nonzero, (mask,), {})))
    # In a stable order of bools, those that are False come first, as they lie.
    order = trace.call(np.argsort, (~mask,), {})
    return order[:count].copy()


@_implements(np.compress)
def _compress(trace: Trace, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    if out is not None or type(condition) is not Tracer or condition.ndim != 1 or not condition.size:
        return NotImplemented
    return trace.call(np.take, (a, trace.call(np.flatnonzero, (condition,), {}), axis), {})


@_implements(np.unique)
def _unique(
    trace: Trace,
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    del sorted  # they are, whatever it is
    if type(ar) is not Tracer or not ar.size:
        return NotImplemented
    if axis is not None and ar.ndim > 1:
        return _unique_along(trace, ar, axis, (return_index, return_inverse, return_counts))
    if axis not in (None, 0, -1):
        return NotImplemented
    flat, order = ar.ravel(), None
    if return_index or return_inverse:
        order = trace.call(np.argsort, (flat,), {})
        ordered = take_unchecked(trace, flat, order)
    else:
        ordered = trace.call(np.sort, (flat,), {})
    now, before = ordered[1:], ordered[:-1]
    differs = now != before
    if equal_nan and flat.dtype.kind == "f":
        differs = differs & ~(np.isnan(now) & np.isnan(before))
    is_first = _with_the_first(trace, differs)
    starts = _true_places(trace, is_first)
    results = [take_unchecked(trace, ordered, starts)]
    if return_index:
        results.append(take_unchecked(trace, order, starts))
    if return_inverse:
        results.append(_ranks(trace, order, is_first).reshape(ar.shape))
    if return_counts:
        results.append(_lengths(trace, starts, flat.size))
    return results[0] if len(results) == 1 else tuple(results)


def _with_the_first(trace: Trace, differs: Any) -> Any:
    """Return a mask of what is unlike the one before it, as the first is."""
    is_first = empty(trace, (differs.size + 1,), bool)
    is_first[:1] = True
    is_first[1:] = differs
    return is_first


def _lengths(trace: Trace, starts: Any, size: int) -> Any:
    ends = trace.call(np.concatenate, ([starts[1:], np.array([size])],), {})
    return ends - starts


_FEW_KEYS = 8  # that rows are sorted by at first


def _rows_in_order(trace: Trace, rows: Any) -> tuple[Any, Any]:
    """Return the order of rows by their elements from the first on, and the rows in it.

    They are sorted by as many columns as tell them apart. Rows that are alike so far are next to each other,
    and so the first column in which any of these differ is that in which any two next to each other do.
    """
    count, length = rows.shape
    begin, step = 0, _FEW_KEYS
    ranks: list[Any] = []
    while True:
        end = min(begin + step, length)
        keys = [*(rows[:, key] for key in reversed(range(begin, end))), *ranks]
        order = trace.call(np.lexsort, (keys,), {})
        ordered = take_unchecked(trace, rows, order, 0)
        if end == length or count == 1:
            return order, ordered
        differs = _differ_in_order(ordered[1:], ordered[:-1])
        is_any, first = np.any(differs, axis=1), np.argmax(differs, axis=1)
        begin = int(trace.resolved(np.min(np.where(is_any & (first >= end), first, length))))
        if begin == length:
            return order, ordered
        is_other = _with_the_first(trace, is_any & (first < end))
        ranks, step = [_ranks(trace, order, is_other)], 2 * step


def _differ_in_order(a: Any, b: Any) -> Any:
    """Tell where one of two comes before the other: NaN come last, and not before one another."""
    return (a != b) & ((a == a) | (b == b)) if a.dtype.kind == "f" else a != b  # noqa: PLR0124


def _ranks(trace: Trace, order: Any, is_first: Any) -> Any:
    """Return which of the distinct ones each element is, by the first of each in order."""
    run = trace.call(np.cumsum, (is_first,), {}) - 1
    return take_unchecked(trace, run, trace.call(np.argsort, (order,), {}))


def _unique_along(trace: Trace, a: Any, axis: Any, wanted: tuple[Any, Any, Any]) -> Any:
    """Return what is distinct along an axis, compared by its elements from the first on."""
    keys = a.size // a.shape[axis] if type(axis) is int and -a.ndim <= axis < a.ndim else 0
    if not keys:
        return NotImplemented
    moved = np.moveaxis(a, axis, 0)
    shape, count = moved.shape, a.shape[axis]
    rows = trace.call(np.copy, (moved, "C"), {}).reshape((count, keys))
    order, ordered = _rows_in_order(trace, rows)
    is_first = _with_the_first(trace, np.any(ordered[1:] != ordered[:-1], axis=1))
    starts = _true_places(trace, is_first)
    distinct = take_unchecked(trace, ordered, starts, 0).reshape((-1, *shape[1:]))
    results = [trace.call(np.copy, (np.moveaxis(distinct, 0, axis), "C"), {})]
    if wanted[0]:
        results.append(take_unchecked(trace, order, starts))
    if wanted[1]:
        results.append(_ranks(trace, order, is_first))
    if wanted[2]:
        results.append(_lengths(trace, starts, count))
    return results[0] if len(results) == 1 else tuple(results)
