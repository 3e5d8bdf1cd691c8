"""Functions composed of sorts and gathers on device-resident arrays: `unique`, `lexsort`, `nonzero`, `topk`.

Functions return NotImplemented for calls that the host must compute.
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
    """Return the k largest (or smallest) elements and their indices."""
    is_along = type(a) is Tracer and a.ndim > 0 and type(axis) is int and -a.ndim <= axis < a.ndim
    if not is_along and (type(a) is not Tracer or axis is not None):
        return NotImplemented
    if is_along and axis not in (-1, a.ndim - 1):
        result = topk(trace, trace.call(np.copy, (a.swapaxes(axis, -1), "C"), {}), k, -1, largest)
        return type(result)(*(trace.call(np.copy, (x.swapaxes(axis, -1), "C"), {}) for x in result))
    functions = importlib.import_module("pycudakit._families.sort.topk")
    indices = trace.on_device(functions.topk_indices, (a, k, axis, largest), {})
    values = take_along_unchecked(trace, a.ravel() if axis is None else a, indices)
    return functions.TopK(values, indices)


def _along_other_axis(name: str) -> Handler:
    """Return a handler that moves the axis last in a copy, and sorts along that."""
    function = getattr(np, name)
    before = 1 + ("partition" in name)  # arguments before the axis

    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        options = dict(keywords)
        if options.pop("descending", None):
            return _descending(trace, function, a, arguments, options)
        axis = arguments[before - 1] if len(arguments) >= before else options.pop("axis", -1)
        is_plain = type(a) is Tracer and type(axis) is int and -a.ndim <= axis < a.ndim
        if not is_plain or axis in (-1, a.ndim - 1) or not (a.size and may_sort_in_c_order(a)):
            return NotImplemented
        moved = trace.call(np.copy, (a.swapaxes(axis, -1), "C"), {})
        call_arguments = (moved, *arguments[: before - 1], -1, *arguments[before:])
        return trace.call(
            np.copy, (trace.call(function, call_arguments, options).swapaxes(axis, -1), "C"), {}
        )

    return handle


def _descending(trace: Trace, function: Any, a: Any, arguments: Any, named: Any) -> Any:
    """Sort in descending order: ascending by negated (inverted) values, so that NaN stays last."""
    is_plain = type(a) is Tracer and len(arguments) <= 1 and named.keys() <= {"axis", "stable"}
    if not is_plain or not a.size:
        return NotImplemented
    flip = np.negative if a.dtype.kind == "f" else np.invert
    result = trace.call(function, (flip(a), *arguments), named)
    return result if function is np.argsort else flip(result)


for _name in ("sort", "argsort", "partition", "argpartition"):
    ORDERING[getattr(np, _name)] = _along_other_axis(_name)


@_implements(np.lexsort)
def _lexsort(trace: Trace, keys: Any, axis: Any = -1) -> Any:
    parts = list(keys) if type(keys) in (tuple, list, Tracer) else []
    are_alike = bool(parts) and all(type(key) is Tracer and key.shape == parts[0].shape for key in parts)
    if not are_alike or not (parts[0].ndim and parts[0].size) or axis not in (-1, parts[0].ndim - 1):
        return NotImplemented
    family = importlib.import_module("pycudakit._families.sort.sorting")
    take = functools.partial(take_along_unchecked, trace)
    return family.lexsort_order(parts, lambda key: trace.call(np.argsort, (key,), {}), take)


@_implements(np.flatnonzero)
def _flatnonzero(trace: Trace, a: Any) -> Any:
    if type(a) is not Tracer or not a.size:
        return NotImplemented
    return _true_indices(trace, a.ravel() if a.dtype == np.bool_ else a.ravel() != 0)


@_implements(np.nonzero)
def _nonzero(trace: Trace, a: Any) -> Any:
    flat_indices = _flatnonzero(trace, a) if np.ndim(a) else NotImplemented
    if flat_indices is NotImplemented or a.ndim == 1:
        return flat_indices if flat_indices is NotImplemented else (flat_indices,)
    indices, inner = [], a.size
    for length in a.shape:
        inner //= length
        indices.append(flat_indices // inner % length)
    return tuple(indices)


@_implements(np.argwhere)
def _argwhere(trace: Trace, a: Any) -> Any:
    indices = _nonzero(trace, a)
    return indices if indices is NotImplemented else trace.call(np.stack, (list(indices), -1), {})


@_implements(np.searchsorted)
def _searchsorted(trace: Trace, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Search the array in the order of `sorter`."""
    are_indices = type(sorter) is Tracer and sorter.dtype.kind in "iu" and type(a) is Tracer
    if not are_indices or not a.ndim == sorter.ndim == 1 or a.size != sorter.size or not a.size:
        return NotImplemented
    return trace.call(np.searchsorted, (trace.call(np.take, (a, sorter), {}), v, side), {})


@_implements(np.take_along_axis)
def _take_along_axis(trace: Trace, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Take along an inner axis: move it last in copies, and take along that."""
    is_plain = type(arr) is type(indices) is Tracer and type(axis) is int and arr.ndim == indices.ndim > 1
    if not is_plain or not -arr.ndim <= axis < arr.ndim - 1 or axis == -1:
        return NotImplemented
    moved = [trace.call(np.copy, (each.swapaxes(axis, -1), "C"), {}) for each in (arr, indices)]
    result = trace.call(np.take_along_axis, (*moved, -1), {})
    return trace.call(np.copy, (result.swapaxes(axis, -1), "C"), {})


def _true_indices(trace: Trace, mask: Any) -> Any:
    """Return the indices of the true elements of a 1-d mask."""
    count = int(trace.resolved(trace.call(np.count_nonzero, (mask,), {})))
    # A stable argsort of the inverted mask puts the true elements first, in their order.
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
    del sorted  # the results are always sorted
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
    later, earlier = ordered[1:], ordered[:-1]
    differs = later != earlier
    if equal_nan and flat.dtype.kind == "f":
        differs = differs & ~(np.isnan(later) & np.isnan(earlier))
    is_first = _run_starts(trace, differs)
    starts = _true_indices(trace, is_first)
    results = [take_unchecked(trace, ordered, starts)]
    if return_index:
        results.append(take_unchecked(trace, order, starts))
    if return_inverse:
        results.append(_ranks(trace, order, is_first).reshape(ar.shape))
    if return_counts:
        results.append(_lengths(trace, starts, flat.size))
    return results[0] if len(results) == 1 else tuple(results)


def _run_starts(trace: Trace, differs: Any) -> Any:
    """Prepend True: a mask of the elements that differ from the one before."""
    is_first = empty(trace, (differs.size + 1,), bool)
    is_first[:1] = True
    is_first[1:] = differs
    return is_first


def _lengths(trace: Trace, starts: Any, size: int) -> Any:
    ends = trace.call(np.concatenate, ([starts[1:], np.array([size])],), {})
    return ends - starts


_FEW_KEYS = 8  # columns that rows are sorted by at first


def _rows_in_order(trace: Trace, rows: Any) -> tuple[Any, Any]:
    """Sort rows lexicographically; return the order and the sorted rows.

    Rows are sorted by a few columns at a time, until these distinguish all rows. Rows that are equal so far
    are adjacent, so the next column that matters is the first in which two adjacent rows differ.
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
        is_other = _run_starts(trace, is_any & (first < end))
        ranks, step = [_ranks(trace, order, is_other)], 2 * step


def _differ_in_order(a: Any, b: Any) -> Any:
    """Return where two elements differ in sort order, in which all NaN are equal."""
    return (a != b) & ((a == a) | (b == b)) if a.dtype.kind == "f" else a != b  # noqa: PLR0124


def _ranks(trace: Trace, order: Any, is_first: Any) -> Any:
    """Return for each element the index of its distinct value, given the first of each run in order."""
    run = trace.call(np.cumsum, (is_first,), {}) - 1
    return take_unchecked(trace, run, trace.call(np.argsort, (order,), {}))


def _unique_along(trace: Trace, a: Any, axis: Any, wanted: tuple[Any, Any, Any]) -> Any:
    """Compute `unique` along an axis: slices are compared lexicographically."""
    keys = a.size // a.shape[axis] if type(axis) is int and -a.ndim <= axis < a.ndim else 0
    if not keys:
        return NotImplemented
    moved = np.moveaxis(a, axis, 0)
    shape, count = moved.shape, a.shape[axis]
    rows = trace.call(np.copy, (moved, "C"), {}).reshape((count, keys))
    order, ordered = _rows_in_order(trace, rows)
    is_first = _run_starts(trace, np.any(ordered[1:] != ordered[:-1], axis=1))
    starts = _true_indices(trace, is_first)
    distinct = take_unchecked(trace, ordered, starts, 0).reshape((-1, *shape[1:]))
    results = [trace.call(np.copy, (np.moveaxis(distinct, 0, axis), "C"), {})]
    if wanted[0]:
        results.append(take_unchecked(trace, order, starts))
    if wanted[1]:
        results.append(_ranks(trace, order, is_first))
    if wanted[2]:
        results.append(_lengths(trace, starts, count))
    return results[0] if len(results) == 1 else tuple(results)
