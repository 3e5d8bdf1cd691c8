"""NumPy's functions for sorting and order: its names, signatures, types, shapes and errors.

NaN comes last, -0.0 and 0.0 are equal, and every order is the stable one.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._families.sort import device_fast_path
from pycudakit._families.sort.sort_keys import (
    FEW,
    SMALL_ARGSORT,
    SMALL_SORT,
    as_keys,
    check_kind,
    columns_of,
    order_along,
    plan_order,
    plan_order_by_all,
    plan_parting,
    plan_search,
    plan_sort,
    plan_topk,
    sorted_along,
)
from pycudakit._interop.cuda_libraries import queued_by
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.dispatch_cache import answered_by
from pycudakit._runtime.engine_choice import NOTHING, plan_call
from pycudakit._runtime.native_call import one_call

# Small calls go straight to NumPy: what `sort`, `argsort` and `unique` begin with is all that they cost more.
_FEW_SORTED, _FEW_ORDERED = SMALL_SORT.most, SMALL_ARGSORT.most
_EXACT = 2.0**53  # from here on, different integers are one float
_LONG = 2048  # elements that NumPy takes longer to convert than a call takes us


def _flipped(array: Array) -> Array:
    """Return values whose order is the other way round, but for NaN, which stays last."""
    flipped: Array = np.negative(array) if array.dtype.kind == "f" else np.invert(array)
    return flipped


def _descending(function: Any, numpys: Any, a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> Any:
    """Have a function that sorts as one of NumPy's does find the descending order."""
    if kind is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time")
    array = np.asarray(a)
    if order is not None or array.dtype.kind not in "biuf":
        return numpys(array, axis, order=order, stable=stable, descending=True)  # since NumPy 2.5
    result = function(_flipped(array), axis, stable=stable)
    return result if numpys is np.argsort else _flipped(result).astype(array.dtype, copy=False)


def _numpys_sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    if descending:
        return _descending(np.sort, np.sort, a, axis, kind, order, stable)
    return np.sort(a, axis, kind, order, stable=stable)


@queued_by(device_fast_path.sort)
@answered_by(_numpys_sort)
def sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Return a sorted copy.

    Parameters
    ----------
    a : array_like
        What to sort.
    axis : int or None
        The axis to sort along; None sorts all elements as one list.
    kind, stable
        As NumPy takes them. The engines sort stably, whatever they are.
    order
        NumPy's alone: for arrays with fields.
    descending : bool, optional
        Whether the greatest come first, as NumPy 2.5 has it; NaN comes last all the same.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.sort([[3, 1, 2], [9, 7, 8]])
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    if descending:
        return _descending(sort, np.sort, a, axis, kind, order, stable)
    is_stable = stable or kind in ("stable", "mergesort")
    if (
        type(a) is np.ndarray
        and a.size <= (FEW if is_stable else _FEW_SORTED.get(a.dtype, 0))
        and context.fast() == "auto"
    ):
        result = np.sort(a, axis, kind, order, stable=stable)
        SMALL_SORT.record()
        return result
    SMALL_SORT.learn(a)
    array = operands.as_array(a)
    plan = plan_sort(array, axis, "stable" if is_stable else None)
    if plan.engine == "numpy" or array is None:
        return native_call.by_numpy("sort", plan.reason, lambda: np.sort(a, axis, kind, order, stable=stable))
    check_kind(np.sort, array, kind, order, stable)
    return sorted_along(plan, array, axis)


def _numpys_order(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    if descending:
        return _descending(_numpys_order, np.argsort, a, axis, kind, order, stable)
    if kind is not None or stable is not None:
        check_kind(np.argsort, np.asarray(a), kind, order, stable)
    return np.argsort(a, axis, "stable", order)


@queued_by(device_fast_path.argsort)
@answered_by(_numpys_order)
def argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Return the indices that would sort an array: those of NumPy's ``kind="stable"``, whatever `kind` is.

    Parameters
    ----------
    a : array_like
        What to sort.
    axis : int or None
        The axis to sort along; None sorts all elements as one list.
    kind, stable
        As NumPy takes them.
    order
        NumPy's alone: for arrays with fields.
    descending : bool, optional
        Whether the greatest come first, as NumPy 2.5 has it; NaN comes last all the same.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.argsort([3.0, 1.0, float("nan"), 1.0])
    array([1, 3, 0, 2])
    """
    if descending:
        return _descending(argsort, np.argsort, a, axis, kind, order, stable)
    if (
        type(a) is np.ndarray
        and a.size <= _FEW_ORDERED.get(a.dtype, 0)
        and context.fast() == "auto"
        and kind is None
        and order is None
        and stable is None
    ):
        result = np.argsort(a, axis, "stable")
        SMALL_ARGSORT.record()
        return result
    SMALL_ARGSORT.learn(a)
    array = operands.as_array(a)
    plan = plan_order(array, axis)
    if array is None or context.current() == "numpy":
        return native_call.by_numpy(
            "argsort", plan.reason, lambda: np.argsort(a, axis, kind, order, stable=stable)
        )
    check_kind(np.argsort, array, kind, order, stable)
    if plan.engine == "numpy":
        return native_call.by_numpy("argsort", plan.reason, lambda: np.argsort(array, axis, "stable"))
    return order_along(plan, np.atleast_1d(array), axis)


@answered_by(np.lexsort)
@one_call("lexsort")
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """Return the indices that sort by several keys, the last one first.

    Parameters
    ----------
    keys : array_like or sequence of array_like
        The keys, all of one shape.
    axis : int
        The axis to sort along.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.lexsort(([1, 0, 1, 0], [7, 7, 3, 3]))
    array([3, 2, 1, 0])
    """
    try:
        arrays = [operands.as_array(key) for key in keys]
    except TypeError:  # it is no sequence
        return np.lexsort(keys, axis)
    known = [array for array in arrays if array is not None]
    if not known or len({array.shape for array in known}) > 1 or known[0].ndim == 0:
        plan_call("lexsort", arrays, NOTHING)
        return native_call.by_numpy("lexsort", "there is nothing to sort", lambda: np.lexsort(keys, axis))
    plan = plan_order_by_all(arrays, axis)
    if plan.engine == "numpy":
        return native_call.by_numpy("lexsort", plan.reason, lambda: np.lexsort(keys, axis))
    order = order_along(plan, known[0], axis)
    for key in known[1:]:
        # Each order is stable, so that what came before decides among equals.
        next_order = order_along(plan, np.take_along_axis(key, order, axis), axis)
        order = np.take_along_axis(order, next_order, axis)
    return order


def _is_kth(kth: Any, array: Array, axis: Any) -> bool:
    """Tell whether NumPy takes this for places along an axis; if not, it is for NumPy to say why."""
    columns = columns_of(array, axis)
    try:
        places = np.asarray(kth)
    except (TypeError, ValueError):
        return False
    within = places.ndim < 2 and places.size > 0 and places.dtype.kind in "iu"
    return within and bool(((places >= -columns) & (places < columns)).all())


@queued_by(device_fast_path.partition)
@answered_by(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return a copy in which the `kth` element is where sorting would put it, the smaller ones before it.

    The engines return the array sorted, which is a partition by every `kth`.

    Parameters
    ----------
    a : array_like
        What to partition.
    kth : int or sequence of ints
        Places in the sorted array.
    axis : int or None
        The axis to partition along; None takes all elements as one list.
    kind, order
        As NumPy takes them.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.partition([9, 1, 8, 2, 7], 2)[2])
    7
    """
    array = operands.as_array(a)
    plan = plan_parting("partition", array)
    asked = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if plan.engine == "numpy" or array is None or not asked:
        return native_call.by_numpy("partition", plan.reason, lambda: np.partition(a, kth, axis, kind, order))
    return sorted_along(plan, array, axis)


@queued_by(device_fast_path.argpartition)
@answered_by(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return the indices that would partition an array as `partition` does.

    The engines return the stable order.

    Parameters
    ----------
    a : array_like
        What to partition.
    kth : int or sequence of ints
        Places in the sorted array.
    axis : int or None
        The axis to partition along; None takes all elements as one list.
    kind, order
        As NumPy takes them.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.argpartition([9, 1, 8, 2, 7], 2)[2])
    4
    """
    array = operands.as_array(a)
    plan = plan_parting("argpartition", array, 8)
    asked = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if plan.engine == "numpy" or array is None or not asked:
        return native_call.by_numpy(
            "argpartition", plan.reason, lambda: np.argpartition(a, kth, axis, kind, order)
        )
    return order_along(plan, np.atleast_1d(array), axis)


def _numpys_searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    if type(a) is np.ndarray and a.size > _LONG and a.dtype.kind in "biuf":
        given = operands.as_array(v)
        v = v if given is None else _in_the_type_of(a, given)
    return np.searchsorted(a, v, side, sorter)


@answered_by(_numpys_searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Return where values would have to be inserted to keep an array sorted.

    Parameters
    ----------
    a : array_like
        One dimension, sorted; or `sorter` sorts it.
    v : array_like
        The values.
    side : {"left", "right"}
        Before or after equal elements.
    sorter : array_like of ints, optional
        The indices that sort `a`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.searchsorted([1, 2, 2, 5], [0, 2, 9])
    array([0, 1, 4])
    """
    array, given = operands.as_array(a), operands.as_array(v)
    if array is None or given is None:
        plan = plan_call("searchsorted", [array, given], NOTHING)
        return native_call.by_numpy("searchsorted", plan.reason, lambda: np.searchsorted(a, v, side, sorter))
    values = _in_the_type_of(array, given)
    plan = plan_search(array, values)
    if plan.engine == "numpy":
        numpy = functools.partial(_numpys_searchsorted, a, v, side, sorter)
        return native_call.by_numpy("searchsorted", plan.reason, numpy)
    np.searchsorted(array, np.empty(0, array.dtype), side, sorter)  # which checks them
    if sorter is not None:
        sorter = np.asarray(sorter)
        if values.size and sorter.size and not (sorter.min() >= 0 and sorter.max() < array.size):
            raise ValueError("Sorter index out of range.")
        array = array[sorter]
    dtype = np.result_type(array.dtype, values.dtype)
    name, keys = as_keys(array.astype(dtype, copy=False))
    _, sought = as_keys(values.astype(dtype, copy=False))
    places = allocator.empty(sought.shape, np.int64)
    arguments = keys, keys.size, sought, places, sought.size, int(side == "right")
    native_call.run(plan, f"pk_searchsorted_{name}", *arguments, size=sought.size)
    found = places.astype(np.intp, copy=False)
    return found[()] if found.ndim == 0 else found


def _in_the_type_of(array: Array, values: Array) -> Array:
    """Return few values in the type of many, if that holds them: else the many would be converted."""
    if values.dtype == array.dtype or values.size >= array.size:
        return values
    common = values.astype(np.result_type(array.dtype, values.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        held = common.astype(array.dtype)
    is_exact = held == common
    if common.dtype.kind == "f" and array.dtype.kind in "iu":
        is_exact &= np.abs(common) < np.float64(_EXACT)  # which float16 does not hold
    return held if is_exact.all() else values


class TopK(NamedTuple):
    """The best elements, and where they are."""

    values: Any
    indices: Any


def topk(a: Any, k: Any, axis: Any = -1, largest: Any = True) -> TopK:
    """Return the `k` largest or smallest elements along an axis, the best first, and their indices.

    Equal elements come in order of their indices. NaN comes last, be it the largest or the smallest that are
    wanted. NumPy has no such function, and so the engine ``"numpy"`` has not.

    Parameters
    ----------
    a : array_like
        The elements.
    k : int
        How many, from 0 to the length of the axis.
    axis : int or None
        The axis to choose along; None takes all elements as one list.
    largest : bool
        False for the smallest.

    Returns
    -------
    (values, indices)
        A named tuple.

    Examples
    --------
    >>> import pycudakit as pk
    >>> values, indices = pk.topk([5, 9, float("nan"), 9, 1], 3)
    >>> values, indices
    (array([9., 9., 5.]), array([1, 3, 0]))
    """
    indices = topk_indices(a, k, axis, largest)
    array: Any = operands.as_array(a)
    flat, axis = (array.ravel(), 0) if axis is None else (array, axis)
    return TopK(np.take_along_axis(flat, indices, axis), indices)


def topk_indices(a: Any, k: Any, axis: Any, largest: Any) -> Array:
    """Return the indices that `topk` returns."""
    array = operands.as_array(a)
    k = operator.index(k)
    if array is None:
        raise errors.Unsupported("topk: a is not of bool, integers or floats of up to 64 bits; convert it")
    plan = plan_topk(array, axis, k)
    if plan.engine == "numpy":
        raise errors.Unsupported("topk: NumPy has no such function; use another engine")
    flat, axis = (array.ravel(), 0) if axis is None else (array, normalize_axis_index(axis, array.ndim))
    if not 0 <= k <= flat.shape[axis]:
        raise ValueError(f"k={k} is not from 0 to {flat.shape[axis]}, the length of the axis")
    return order_along(plan, flat, axis, k, bool(largest))
