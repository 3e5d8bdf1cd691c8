"""NumPy's functions for sorting and partitioning, with its names, types, shapes and errors.

NaN sorts last, -0.0 and 0.0 are equal, and every sort is stable. The engines sort by radix.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._families.sort import device_fast_path
from pycudakit._families.sort.sort_keys import (
    FEW,
    SMALL_ARGSORT,
    SMALL_SORT,
    argsort_along,
    axis_length,
    by_rows,
    check_kind,
    has_strided_rows,
    plan_argsort,
    plan_lexsort,
    plan_partition,
    plan_sort,
    sorted_along,
)
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.engine_choice import NO_COST, choose_engine
from pycudakit._runtime.public_function import public_function

# Small calls go straight to NumPy; their only overhead is the check at the beginning of `sort` and others.
_NUMPY_SORT_BELOW, _NUMPY_ARGSORT_BELOW = SMALL_SORT.most, SMALL_ARGSORT.most


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


@public_function(numpy=_numpy_sort, device_fast_path=device_fast_path.sort)
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
        and not has_strided_rows(a, axis)
    ):
        result = np.sort(a, axis, kind, order, stable=stable)
        SMALL_SORT.record(a)
        return result
    SMALL_SORT.add_dtype(a)
    array = operands.as_array(a)
    if array is not None and has_strided_rows(array, axis):
        return by_rows("sort", array, axis, functools.partial(sort, kind=kind, order=order, stable=stable))
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


@public_function(numpy=_numpy_argsort, device_fast_path=device_fast_path.argsort)
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
        and not has_strided_rows(a, axis)
    ):
        result = np.argsort(a, axis, "stable")
        SMALL_ARGSORT.record(a)
        return result
    SMALL_ARGSORT.add_dtype(a)
    array = operands.as_array(a)
    if array is not None and has_strided_rows(array, axis):
        compute = functools.partial(argsort, kind=kind, order=order, stable=stable)
        return by_rows("argsort", array, axis, compute, returns_indices=True)
    choice = plan_argsort(array, axis)
    if array is None or context.current_engine() == "numpy":
        numpy = functools.partial(_numpy_argsort, a, axis, kind, order, stable=stable)
        return native_call.run_numpy("argsort", choice.reason, numpy)
    check_kind(np.argsort, array, kind, order, stable)
    if choice.engine == "numpy":
        return native_call.run_numpy("argsort", choice.reason, lambda: np.argsort(array, axis, "stable"))
    return argsort_along(choice, np.atleast_1d(array), axis)


@public_function(numpy=np.lexsort, one_call="lexsort")
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
    return lexsort_order(
        ordinary,
        lambda key: argsort_along(choice, key, axis),
        lambda array, order: np.take_along_axis(array, order, axis),
    )


def lexsort_order(keys: Sequence[Any], argsort: Callable[[Any], Any], take: Callable[[Any, Any], Any]) -> Any:
    """Return the order of keys on the host or on a device, by a stable `argsort` and `take` along an axis."""
    order = argsort(keys[0])
    for key in keys[1:]:  # earlier keys decide among equal elements
        order = take(order, argsort(take(key, order)))
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


@public_function(numpy=np.partition, device_fast_path=device_fast_path.partition)
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
    if array is not None and has_strided_rows(array, axis):
        compute = functools.partial(partition, kth=kth, kind=kind, order=order)
        return by_rows("partition", array, axis, compute)
    choice = plan_partition("partition", array)
    is_supported = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if choice.engine == "numpy" or array is None or not is_supported:
        return native_call.run_numpy(
            "partition", choice.reason, lambda: np.partition(a, kth, axis, kind, order)
        )
    return sorted_along(choice, array, axis)


@public_function(numpy=np.argpartition, device_fast_path=device_fast_path.argpartition)
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
    if array is not None and has_strided_rows(array, axis):
        compute = functools.partial(argpartition, kth=kth, kind=kind, order=order)
        return by_rows("argpartition", array, axis, compute, returns_indices=True)
    choice = plan_partition("argpartition", array, 8)
    is_supported = kind == "introselect" and order is None and array is not None and _is_kth(kth, array, axis)
    if choice.engine == "numpy" or array is None or not is_supported:
        return native_call.run_numpy(
            "argpartition", choice.reason, lambda: np.argpartition(a, kth, axis, kind, order)
        )
    return argsort_along(choice, np.atleast_1d(array), axis)
