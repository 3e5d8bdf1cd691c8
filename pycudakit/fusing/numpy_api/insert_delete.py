"""Handlers for `delete`, `insert` and `block` in a fused function: each copies slices into a new array."""

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

_MAX_INSERTION_POINTS = 32  # insertion points: each is a kernel of its own


def _array_axis_order(trace: Trace, array: Any, axis: Any) -> tuple[Tracer, int, Any]:
    """Return the array, the axis, and the memory order of NumPy's result."""
    (a,) = tracers_of_arrays(trace, [array])
    if type(a) is not Tracer or a.is_scalar:
        raise errors.Unsupported("insert and delete take arrays only")
    flags = layout_stub(a).flags
    order = "F" if flags.fnc else "C"
    if axis is None:
        return a.ravel(), 0, order
    return a, normalize_axis_index(axis, a.ndim), order


def _host_indices(trace: Trace, obj: Any) -> Any:
    """Return the indices as host values; decline a traced mask, whose number of indices is unknown."""
    if type(obj) is Tracer and obj.dtype == np.bool_:
        raise errors.Unsupported("a mask that is computed in the function")
    return trace.resolved(obj)


def _with_length(a: Tracer, axis: int, length: int) -> tuple[int, ...]:
    return (*a.shape[:axis], length, *a.shape[axis + 1 :])


# ---- delete ---------------------------------------------------------------------------------------------


@_implements(np.delete)
def _delete(trace: Trace, arr: Any, obj: Any, axis: Any = None) -> Any:
    arr, axis, order = _array_axis_order(trace, arr, axis)
    length = arr.shape[axis]
    obj = _host_indices(trace, obj)
    indices = obj if isinstance(obj, slice) else np.asarray(obj)
    if isinstance(indices, np.ndarray):
        if indices.size == 1 and indices.dtype.kind in "iu":
            index = int(indices.item())
            if not -length <= index < length:
                raise IndexError(f"index {index} is out of bounds for axis {axis} with size {length}")
            index %= length
            return _without(trace, arr, axis, range(index, index + 1), order)
        keeps = np.ones(length, bool)
        if indices.dtype == np.bool_ and indices.shape != (length,):
            raise ValueError(
                "boolean array argument obj to delete must be one dimensional and match the axis length "
                f"of {length}"
            )
        if not indices.size and not isinstance(obj, np.ndarray):
            indices = indices.astype(np.intp)
        keeps[indices if indices.dtype == np.bool_ else (indices,)] = False
        return arr[along(axis, keeps.nonzero()[0])]
    removed = range(*indices.indices(length))
    return _without(trace, arr, axis, removed if removed.step > 0 else removed[::-1], order)


def _without(trace: Trace, a: Tracer, axis: int, removed: range, order: Any) -> Any:
    """Return a copy without some indices of an axis."""
    if not removed:
        return trace.call(np.copy, (a, order), {})
    result = empty(trace, _with_length(a, axis, a.shape[axis] - len(removed)), a.dtype, order)
    if removed.step == 1 or len(removed) == 1:
        trace.set(result, along(axis, slice(removed[0])), a[along(axis, slice(removed[0]))])
        trace.set(result, along(axis, slice(removed[0], None)), a[along(axis, slice(removed[-1] + 1, None))])
    else:
        keeps = np.ones(a.shape[axis], bool)
        keeps[removed] = False
        trace.set(result, ..., a[along(axis, keeps.nonzero()[0])])
    return result


# ---- insert ---------------------------------------------------------------------------------------------


@_implements(np.insert)
def _insert(trace: Trace, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    arr, axis, order = _array_axis_order(trace, arr, axis)
    length = arr.shape[axis]
    points = _insertion_points(_host_indices(trace, obj), length)
    if type(values) is not Tracer:
        values = np.asarray(values, None if isinstance(values, np.ndarray) else arr.dtype)
        if values.dtype not in CODES:
            raise errors.Unsupported("insert")
    if points.size == 1:
        index = int(points.item())
        if not -length <= index <= length:
            raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {length}")
        first = index + length if index < 0 else index
        values = values[(None,) * (arr.ndim - values.ndim)]
        if not points.ndim:
            values = np.moveaxis(values, 0, axis)
        if not broadcasts_to(values.shape, _with_length(arr, axis, values.shape[axis])):
            raise errors.Unsupported("insert")
        inserted = [(first, values.shape[axis], values)]
    else:
        points = np.where(points < 0, points + length, points)
        points[points.argsort(kind="stable")] += np.arange(points.size)
        inserted_shape = _with_length(arr, axis, points.size)
        are_in_bounds = bool(np.all((points >= 0) & (points < length + points.size)))
        if points.size > _MAX_INSERTION_POINTS or not (
            are_in_bounds and broadcasts_to(values.shape, inserted_shape)
        ):
            raise errors.Unsupported("insert")
        values = np.broadcast_to(values, inserted_shape)
        inserted = [(int(point), 1, values[along(axis, slice(k, k + 1))]) for k, point in enumerate(points)]
    total = length + sum(count for _, count, _ in inserted)
    result = empty(trace, _with_length(arr, axis, total), arr.dtype, order)
    copied = end = 0  # elements read from the array, and elements of the result
    for start, count, value in [*sorted(inserted, key=operator.itemgetter(0)), (total, 0, None)]:
        between = start - end
        if between:
            trace.set(
                result, along(axis, slice(end, start)), arr[along(axis, slice(copied, copied + between))]
            )
        if count:
            trace.set(result, along(axis, slice(start, start + count)), value)
        copied, end = copied + between, start + count
    return result


def _insertion_points(obj: Any, length: int) -> Any:
    """Return the insertion points as integers."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length), dtype=np.intp)
    points = np.array(obj)
    if not points.size and not isinstance(obj, np.ndarray):
        points = points.astype(np.intp)
    if points.dtype.kind not in "iu" or points.ndim > 1:
        raise errors.Unsupported("insert")
    return points.astype(np.intp)


# ---- block ----------------------------------------------------------------------------------------------

_SMALL_BLOCKS = 2 * 512 * 512  # elements times depth: up to this size NumPy concatenates level by level


@_implements(np.block)
def _block(trace: Trace, arrays: Any) -> Any:
    depth = _depth(arrays)
    leaves: list[Any] = []
    nested = _converted(trace, arrays, leaves)
    ndim = max(depth, *(leaf.ndim for leaf in leaves))
    if not depth:
        return trace.call(np.copy, (nested,), {})
    shape, positions = _laid_out(nested, 0, depth, ndim)
    are_c, are_f = (all(layout_stub(leaf).flags[order] for leaf in leaves) for order in ("C", "F"))
    if depth * math.prod(shape) <= _SMALL_BLOCKS and not (are_c or are_f):
        return _concatenate_nested(trace, nested, -depth, ndim)
    dtype = np.result_type(*(leaf.dtype for leaf in leaves))
    result = empty(trace, shape, dtype, "F" if are_f and not are_c else "C")
    for origin, array in positions:
        ends = zip(origin, (*(1,) * (ndim - array.ndim), *array.shape), strict=True)
        trace.set(result, tuple(slice(start, start + length) for start, length in ends), array)
    return result


def _depth(arrays: Any) -> int:
    """Return the nesting depth of the lists; decline those for which NumPy raises."""
    if type(arrays) is not list:
        if type(arrays) is tuple:
            raise errors.Unsupported("block of a tuple")
        return 0
    depths = {_depth(each) for each in arrays}
    if len(depths) != 1:
        raise errors.Unsupported("block of lists of different depths")
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
    """Return the shape of nested blocks, and the position of the first element of each."""
    if level == depth:
        return (*(1,) * (ndim - arrays.ndim), *arrays.shape), [((0,) * ndim, arrays)]
    axis = ndim - depth + level
    inner = [_laid_out(each, level + 1, depth, ndim) for each in arrays]
    first, length, positions = inner[0][0], 0, []
    for shape, blocks in inner:
        if shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise errors.Unsupported("block of shapes that do not match")
        for at, array in blocks:
            positions.append(((*at[:axis], at[axis] + length, *at[axis + 1 :]), array))
        length += shape[axis]
    return (*first[:axis], length, *first[axis + 1 :]), positions


def _concatenate_nested(trace: Trace, arrays: Any, axis: int, ndim: int) -> Any:
    if type(arrays) is not list:
        return arrays[(None,) * (ndim - arrays.ndim)]
    parts = [_concatenate_nested(trace, each, axis + 1, ndim) for each in arrays]
    return trace.call(np.concatenate, (parts, axis), {})
