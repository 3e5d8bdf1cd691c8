"""NumPy's functions for sorting, selecting and searching, with its names, types, shapes and errors.

NaN sorts last, -0.0 and 0.0 are equal, and every sort is stable. The engines sort by radix.
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
    argsort_along,
    as_keys,
    axis_length,
    check_kind,
    plan_argsort,
    plan_lexsort,
    plan_partition,
    plan_search,
    plan_sort,
    plan_topk,
    sorted_along,
)
from pycudakit._interop.cuda_libraries import has_device_fast_path
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.engine_choice import NO_COST, choose_engine
from pycudakit._runtime.native_call import logged_as_one_call

# Small calls go straight to NumPy; their only overhead is the check at the beginning of `sort` and others.
_NUMPY_SORT_BELOW, _NUMPY_ARGSORT_BELOW = SMALL_SORT.most, SMALL_ARGSORT.most
_MAX_EXACT_INTEGER = 2.0**53  # from here on, different integers convert to the same float
_LONG = 2048  # elements whose conversion in NumPy takes longer than our Python overhead


def _order_reversed(array: Array) -> Array:
    """Return values that sort in the reverse order, except NaN, which stays last."""
    flipped: Array = np.negative(array) if array.dtype.kind == "f" else np.invert(array)
    return flipped


def _descending(
    function: Any, numpy_function: Any, a: Any, axis: Any, kind: Any, order: Any, stable: Any
) -> Any:
    """Sort descending by an ascending sort function, on values in reverse order."""
    if kind is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time")
    array = np.asarray(a)
    if order is not None or array.dtype.kind not in "biuf":
        return numpy_function(array, axis, order=order, stable=stable, descending=True)  # since NumPy 2.5
    result = function(_order_reversed(array), axis, stable=stable)
    return result if numpy_function is np.argsort else _order_reversed(result).astype(array.dtype, copy=False)


def _numpy_sort(
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


@has_device_fast_path(device_fast_path.sort)
@numpy_for_small(_numpy_sort)
def sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Return a sorted copy of an array.

    Parameters
    ----------
    a : array_like
        The array to sort.
    axis : int or None
        The axis to sort along; None flattens the array.
    kind, stable
        As for NumPy. The engines sort stably in any case.
    order
        For arrays with fields, which only NumPy supports.
    descending : bool, optional
        Whether to sort in descending order, as in NumPy 2.5; NaN still sorts last.

    Returns
    -------
    ndarray
        A sorted copy.

    See Also
    --------
    numpy.sort : NumPy's function.
    argsort, lexsort, partition, topk

    Differs from NumPy
    ------------------
    The engines sort stably, whatever `kind` is. `descending` works with every version of NumPy.

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
        and a.size <= (FEW if is_stable else _NUMPY_SORT_BELOW.get(a.dtype, 0))
        and context.fast_path_engine() == "auto"
    ):
        result = np.sort(a, axis, kind, order, stable=stable)
        SMALL_SORT.record()
        return result
    SMALL_SORT.add_dtype(a)
    array = operands.as_array(a)
    choice = plan_sort(array, axis, "stable" if is_stable else None)
    if choice.engine == "numpy" or array is None:
        return native_call.run_numpy(
            "sort", choice.reason, lambda: np.sort(a, axis, kind, order, stable=stable)
        )
    check_kind(np.sort, array, kind, order, stable)
    return sorted_along(choice, array, axis)


def _numpy_argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    if descending:
        return _descending(_numpy_argsort, np.argsort, a, axis, kind, order, stable)
    if kind is not None or stable is not None:
        check_kind(np.argsort, np.asarray(a), kind, order, stable)
    return np.argsort(a, axis, "stable", order)


@has_device_fast_path(device_fast_path.argsort)
@numpy_for_small(_numpy_argsort)
def argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Return the indices that would sort an array, stably, whatever `kind` is.

    Parameters
    ----------
    a : array_like
        The array to sort.
    axis : int or None
        The axis to sort along; None flattens the array.
    kind, stable
        As for NumPy.
    order
        For arrays with fields, which only NumPy supports.
    descending : bool, optional
        Whether to sort in descending order, as in NumPy 2.5; NaN still sorts last.

    Returns
    -------
    ndarray of int64
        The indices that sort the array.

    See Also
    --------
    numpy.argsort : NumPy's function.
    sort, lexsort, argpartition

    Differs from NumPy
    ------------------
    The order is that of ``kind="stable"``, whatever `kind` is. `descending` works with every version of
    NumPy.

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
        and a.size <= _NUMPY_ARGSORT_BELOW.get(a.dtype, 0)
        and context.fast_path_engine() == "auto"
        and kind is None
        and order is None
        and stable is None
    ):
        result = np.argsort(a, axis, "stable")
        SMALL_ARGSORT.record()
        return result
    SMALL_ARGSORT.add_dtype(a)
    array = operands.as_array(a)
    choice = plan_argsort(array, axis)
    if array is None or context.current_engine() == "numpy":
        return native_call.run_numpy(
            "argsort", choice.reason, lambda: np.argsort(a, axis, kind, order, stable=stable)
        )
    check_kind(np.argsort, array, kind, order, stable)
    if choice.engine == "numpy":
        return native_call.run_numpy("argsort", choice.reason, lambda: np.argsort(array, axis, "stable"))
    return argsort_along(choice, np.atleast_1d(array), axis)


@numpy_for_small(np.lexsort)
@logged_as_one_call("lexsort")
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """Perform an indirect stable sort using a sequence of keys, the last one first.

    Parameters
    ----------
    keys : array_like or sequence of array_like
        The keys, all of one shape.
    axis : int
        The axis to sort along.

    Returns
    -------
    ndarray of int64
        The indices that sort by the keys.

    See Also
    --------
    numpy.lexsort : NumPy's function.
    argsort, sort

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.lexsort(([1, 0, 1, 0], [7, 7, 3, 3]))
    array([3, 2, 1, 0])
    """
    try:
        arrays = [operands.as_array(key) for key in keys]
    except TypeError:  # keys is not a sequence
        return np.lexsort(keys, axis)
    ordinary = [array for array in arrays if array is not None]
    if not ordinary or len({array.shape for array in ordinary}) > 1 or ordinary[0].ndim == 0:
        choose_engine("lexsort", arrays, NO_COST)
        return native_call.run_numpy("lexsort", "there is nothing to sort", lambda: np.lexsort(keys, axis))
    choice = plan_lexsort(arrays, axis)
    if choice.engine == "numpy":
        return native_call.run_numpy("lexsort", choice.reason, lambda: np.lexsort(keys, axis))
    axis = operator.index(axis)  # NumPy's lexsort accepts a bool
    order = argsort_along(choice, ordinary[0], axis)
    for key in ordinary[1:]:
        # Each sort is stable, so that earlier keys decide among equal elements.
        next_order = argsort_along(choice, np.take_along_axis(key, order, axis), axis)
        order = np.take_along_axis(order, next_order, axis)
    return order


def _is_kth(kth: Any, array: Array, axis: Any) -> bool:
    """Return True if `kth` is valid along the axis; if not, NumPy raises."""
    columns = axis_length(array, axis)
    try:
        positions = np.asarray(kth)
    except (TypeError, ValueError):
        return False
    within = positions.ndim < 2 and positions.size > 0 and positions.dtype.kind in "iu"
    return within and bool(((positions >= -columns) & (positions < columns)).all())


@has_device_fast_path(device_fast_path.partition)
@numpy_for_small(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return a partitioned copy of an array.

    Element `kth` is where a sort would put it, with the smaller ones before it.

    Parameters
    ----------
    a : array_like
        The array to partition.
    kth : int or sequence of ints
        Indices in the sorted array.
    axis : int or None
        The axis to partition along; None flattens the array.
    kind, order
        As for NumPy.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.partition : NumPy's function.
    argpartition, sort, median

    Differs from NumPy
    ------------------
    The array is sorted completely, which satisfies every `kth`; under `auto`, NumPy's partition is used if
    it is faster.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.partition([9, 1, 8, 2, 7], 2)[2])
    7
    """
    array = operands.as_array(a)
    choice = plan_partition("partition", array)
    is_supported = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if choice.engine == "numpy" or array is None or not is_supported:
        return native_call.run_numpy(
            "partition", choice.reason, lambda: np.partition(a, kth, axis, kind, order)
        )
    return sorted_along(choice, array, axis)


@has_device_fast_path(device_fast_path.argpartition)
@numpy_for_small(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return the indices that would partition an array as `partition` does.

    Parameters
    ----------
    a : array_like
        The array to partition.
    kth : int or sequence of ints
        Indices in the sorted array.
    axis : int or None
        The axis to partition along; None flattens the array.
    kind, order
        As for NumPy.

    Returns
    -------
    ndarray of int64
        Indices that partition the array.

    See Also
    --------
    numpy.argpartition : NumPy's function.
    partition, argsort, topk

    Differs from NumPy
    ------------------
    The indices are those of the completely sorted array, in stable order, which satisfy every `kth`; under
    `auto`, NumPy's partition is used if it is faster.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.argpartition([9, 1, 8, 2, 7], 2)[2])
    4
    """
    array = operands.as_array(a)
    choice = plan_partition("argpartition", array, 8)
    is_supported = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if choice.engine == "numpy" or array is None or not is_supported:
        return native_call.run_numpy(
            "argpartition", choice.reason, lambda: np.argpartition(a, kth, axis, kind, order)
        )
    return argsort_along(choice, np.atleast_1d(array), axis)


def _numpy_searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    if type(a) is np.ndarray and a.size > _LONG and a.dtype.kind in "biuf":
        ordinary_values = operands.as_array(v)
        v = v if ordinary_values is None else _cast_if_lossless(a, ordinary_values)
    return np.searchsorted(a, v, side, sorter)


@numpy_for_small(_numpy_searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Find indices where elements should be inserted to maintain order.

    Parameters
    ----------
    a : array_like
        One dimension, sorted ascending, or by `sorter`.
    v : array_like
        The values to insert.
    side : {"left", "right"}
        Whether to insert before or after equal elements.
    sorter : array_like of ints, optional
        The indices that sort `a`.

    Returns
    -------
    ndarray of int64, or an int64

    See Also
    --------
    numpy.searchsorted : NumPy's function.
    sort, digitize, interp

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.searchsorted([1, 2, 2, 5], [0, 2, 9])
    array([0, 1, 4])
    """
    array, ordinary_values = operands.as_array(a), operands.as_array(v)
    if array is None or ordinary_values is None:
        choice = choose_engine("searchsorted", [array, ordinary_values], NO_COST)
        return native_call.run_numpy(
            "searchsorted", choice.reason, lambda: np.searchsorted(a, v, side, sorter)
        )
    values = _cast_if_lossless(array, ordinary_values)
    choice = plan_search(array, values)
    if choice.engine == "numpy":
        numpy = functools.partial(_numpy_searchsorted, a, v, side, sorter)
        return native_call.run_numpy("searchsorted", choice.reason, numpy)
    np.searchsorted(array, np.empty(0, array.dtype), side, sorter)  # raises NumPy's errors
    if sorter is not None:
        sorter = np.asarray(sorter)
        if values.size and sorter.size and not (sorter.min() >= 0 and sorter.max() < array.size):
            raise ValueError("Sorter index out of range.")
        array = array[sorter]
    dtype = np.result_type(array.dtype, values.dtype)
    name, keys = as_keys(array.astype(dtype, copy=False))
    _, sought = as_keys(values.astype(dtype, copy=False))
    positions = allocator.empty(sought.shape, np.int64)
    arguments = keys, keys.size, sought, positions, sought.size, int(side == "right")
    native_call.run(choice, f"pk_searchsorted_{name}", *arguments, size=sought.size)
    result = positions.astype(np.intp, copy=False)
    return result[()] if result.ndim == 0 else result


def _cast_if_lossless(array: Array, values: Array) -> Array:
    """Convert the values to the array's type if that is lossless, so that the array is not converted."""
    if values.dtype == array.dtype or values.size >= array.size:
        return values
    common = values.astype(np.result_type(array.dtype, values.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        converted = common.astype(array.dtype)
    is_exact = converted == common
    if common.dtype.kind == "f" and array.dtype.kind in "iu":
        is_exact &= np.abs(common) < np.float64(_MAX_EXACT_INTEGER)  # float16 cannot hold the limit
    return converted if is_exact.all() else values


class TopK(NamedTuple):
    """The result of `topk`: the selected elements and their indices."""

    values: Any
    indices: Any


def topk(a: Any, k: Any, axis: Any = -1, largest: Any = True) -> TopK:
    """Return the `k` largest or smallest elements along an axis, the best first, and their indices.

    Equal elements are in order of their indices. NaN sorts last, for the largest and for the smallest. NumPy
    has no such function, so the engine ``"numpy"`` raises `Unsupported`.

    Parameters
    ----------
    a : array_like
        The elements.
    k : int
        The number of elements, from 0 to the length of the axis.
    axis : int or None
        The axis to select along; None flattens the array.
    largest : bool
        False for the smallest.

    Returns
    -------
    (values, indices)
        A named tuple.

    See Also
    --------
    sort, argsort, partition

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
    """Return the indices of the `k` largest or smallest elements along an axis."""
    array = operands.as_array(a)
    k = operator.index(k)
    if array is None:
        raise errors.Unsupported("topk: a is not of bool, integers or floats of up to 64 bits; convert it")
    choice = plan_topk(array, axis, k)
    if choice.engine == "numpy":
        raise errors.Unsupported("topk: NumPy has no such function; use another engine")
    flat, axis = (array.ravel(), 0) if axis is None else (array, normalize_axis_index(axis, array.ndim))
    if not 0 <= k <= flat.shape[axis]:
        raise ValueError(f"k is {k}, and must be from 0 to {flat.shape[axis]}, the length of the axis")
    return argsort_along(choice, flat, axis, k, bool(largest))
