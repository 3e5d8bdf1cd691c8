"""Arrays with some elements more or less, and of blocks, in a fused function."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._native.dtypes import CODES
from pycudakit._runtime.ufunc_arguments import broadcasts_to
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.joining import along, tracers_of_arrays
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, empty, implements, layout_stub

CUT: dict[Any, Handler] = {}
_implements = functools.partial(implements, CUT)

_MOST_PLACES = 32  # that elements are put in, each by a pass


def _array_axis_order(trace: Trace, given: Any, axis: Any) -> tuple[Tracer, int, Any]:
    """Return an array, one of its axes, and how NumPy lays out what it makes of it."""
    (a,) = tracers_of_arrays(trace, [given])
    if type(a) is not Tracer or a.is_scalar:
        raise errors.Unsupported("no array")
    flags = layout_stub(a).flags
    order = "F" if flags.fnc else "C"
    if axis is None:
        return a.ravel(), 0, order
    return a, normalize_axis_index(axis, a.ndim), order


def _known(trace: Trace, obj: Any) -> Any:
    """Return places with their values; decline those whose number these tell."""
    if type(obj) is Tracer and obj.dtype == np.bool_:
        raise errors.Unsupported("a mask that is computed")
    return trace.resolved(obj)


def _with_length(a: Tracer, axis: int, length: int) -> tuple[int, ...]:
    return (*a.shape[:axis], length, *a.shape[axis + 1 :])


# ---- delete ---------------------------------------------------------------------------------------------


@_implements(np.delete)
def _delete(trace: Trace, arr: Any, obj: Any, axis: Any = None) -> Any:
    arr, axis, order = _array_axis_order(trace, arr, axis)
    length = arr.shape[axis]
    obj = _known(trace, obj)
    places = obj if isinstance(obj, slice) else np.asarray(obj)
    if isinstance(places, np.ndarray):
        if places.size == 1 and places.dtype.kind in "iu":
            index = int(places.item())
            if not -length <= index < length:
                raise IndexError(f"index {index} is out of bounds for axis {axis} with size {length}")
            index %= length
            return _without(trace, arr, axis, range(index, index + 1), order)
        keeps = np.ones(length, bool)
        if places.dtype == np.bool_ and places.shape != (length,):
            raise ValueError(
                "boolean array argument obj to delete must be one dimensional and match the axis length "
                f"of {length}"
            )
        if not places.size and not isinstance(obj, np.ndarray):
            places = places.astype(np.intp)
        keeps[places if places.dtype == np.bool_ else (places,)] = False
        return arr[along(axis, keeps.nonzero()[0])]
    gone = range(*places.indices(length))
    return _without(trace, arr, axis, gone if gone.step > 0 else gone[::-1], order)


def _without(trace: Trace, a: Tracer, axis: int, gone: range, order: Any) -> Any:
    """Return a copy without some places of an axis."""
    if not gone:
        return trace.call(np.copy, (a, order), {})
    made = empty(trace, _with_length(a, axis, a.shape[axis] - len(gone)), a.dtype, order)
    if gone.step == 1 or len(gone) == 1:
        trace.set(made, along(axis, slice(gone[0])), a[along(axis, slice(gone[0]))])
        trace.set(made, along(axis, slice(gone[0], None)), a[along(axis, slice(gone[-1] + 1, None))])
    else:
        keeps = np.ones(a.shape[axis], bool)
        keeps[gone] = False
        trace.set(made, ..., a[along(axis, keeps.nonzero()[0])])
    return made


# ---- insert ---------------------------------------------------------------------------------------------


@_implements(np.insert)
def _insert(trace: Trace, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    arr, axis, order = _array_axis_order(trace, arr, axis)
    length = arr.shape[axis]
    places = _places(_known(trace, obj), length)
    if type(values) is not Tracer:
        values = np.asarray(values, None if isinstance(values, np.ndarray) else arr.dtype)
        if values.dtype not in CODES:
            raise errors.Unsupported("insert")
    if places.size == 1:
        index = int(places.item())
        if not -length <= index <= length:
            raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {length}")
        first = index + length if index < 0 else index
        values = values[(None,) * (arr.ndim - values.ndim)]
        if not places.ndim:
            values = np.moveaxis(values, 0, axis)
        if not broadcasts_to(values.shape, _with_length(arr, axis, values.shape[axis])):
            raise errors.Unsupported("insert")
        put = [(first, values.shape[axis], values)]
    else:
        places = np.where(places < 0, places + length, places)
        places[places.argsort(kind="stable")] += np.arange(places.size)
        wanted = _with_length(arr, axis, places.size)
        are_there = bool(np.all((places >= 0) & (places < length + places.size)))
        if places.size > _MOST_PLACES or not (are_there and broadcasts_to(values.shape, wanted)):
            raise errors.Unsupported("insert")
        values = np.broadcast_to(values, wanted)
        put = [(int(place), 1, values[along(axis, slice(k, k + 1))]) for k, place in enumerate(places)]
    total = length + sum(count for _, count, _ in put)
    made = empty(trace, _with_length(arr, axis, total), arr.dtype, order)
    seen = end = 0  # of the elements that were there, and of those that are
    for start, count, value in [*sorted(put, key=operator.itemgetter(0)), (total, 0, None)]:
        between = start - end
        if between:
            trace.set(made, along(axis, slice(end, start)), arr[along(axis, slice(seen, seen + between))])
        if count:
            trace.set(made, along(axis, slice(start, start + count)), value)
        seen, end = seen + between, start + count
    return made


def _places(obj: Any, length: int) -> Any:
    """Return before which elements there will be others."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length), dtype=np.intp)
    places = np.array(obj)
    if not places.size and not isinstance(obj, np.ndarray):
        places = places.astype(np.intp)
    if places.dtype.kind not in "iu" or places.ndim > 1:
        raise errors.Unsupported("insert")
    return places.astype(np.intp)


# ---- block ----------------------------------------------------------------------------------------------

_SMALL_BLOCKS = 2 * 512 * 512  # elements times depth: up to there NumPy puts lists together one by one


@_implements(np.block)
def _block(trace: Trace, arrays: Any) -> Any:
    depth = _depth(arrays)
    leaves: list[Any] = []
    nested = _converted(trace, arrays, leaves)
    ndim = max(depth, *(leaf.ndim for leaf in leaves))
    if not depth:
        return trace.call(np.copy, (nested,), {})
    shape, places = _laid_out(nested, 0, depth, ndim)
    are_c, are_f = (all(layout_stub(leaf).flags[order] for leaf in leaves) for order in ("C", "F"))
    if depth * math.prod(shape) <= _SMALL_BLOCKS and not (are_c or are_f):
        return _concatenate_nested(trace, nested, -depth, ndim)
    dtype = np.result_type(*(leaf.dtype for leaf in leaves))
    made = empty(trace, shape, dtype, "F" if are_f and not are_c else "C")
    for first, array in places:
        ends = zip(first, (*(1,) * (ndim - array.ndim), *array.shape), strict=True)
        trace.set(made, tuple(slice(start, start + length) for start, length in ends), array)
    return made


def _depth(arrays: Any) -> int:
    """Return how deep lists go; decline what NumPy has errors for."""
    if type(arrays) is not list:
        if type(arrays) is tuple:
            raise errors.Unsupported("block, of a tuple")
        return 0
    depths = {_depth(each) for each in arrays}
    if len(depths) != 1:
        raise errors.Unsupported("block, of lists that do not match")
    return 1 + depths.pop()


def _converted(trace: Trace, arrays: Any, leaves: list[Any]) -> Any:
    if type(arrays) is list:
        return [_converted(trace, each, leaves) for each in arrays]
    (leaf,) = tracers_of_arrays(trace, [arrays])
    if type(leaf) is not Tracer:
        raise errors.Unsupported("block")
    leaves.append(leaf)
    return leaf


def _laid_out(arrays: Any, level: int, depth: int, ndim: int) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of lists of blocks, and where each block begins."""
    if level == depth:
        return (*(1,) * (ndim - arrays.ndim), *arrays.shape), [((0,) * ndim, arrays)]
    axis = ndim - depth + level
    inner = [_laid_out(each, level + 1, depth, ndim) for each in arrays]
    first, length, places = inner[0][0], 0, []
    for shape, blocks in inner:
        if shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise errors.Unsupported("block, of shapes that do not match")
        for at, array in blocks:
            places.append(((*at[:axis], at[axis] + length, *at[axis + 1 :]), array))
        length += shape[axis]
    return (*first[:axis], length, *first[axis + 1 :]), places


def _concatenate_nested(trace: Trace, arrays: Any, axis: int, ndim: int) -> Any:
    if type(arrays) is not list:
        return arrays[(None,) * (ndim - arrays.ndim)]
    parts = [_concatenate_nested(trace, each, axis + 1, ndim) for each in arrays]
    return trace.call(np.concatenate, (parts, axis), {})
