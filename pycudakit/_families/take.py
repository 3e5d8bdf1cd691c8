"""Take elements by indices, put rows, and find the indices of nonzero elements.

`take` and `take_along_axis` call pk_take. `nonzero` and its kin sort a mask: a stable descending argsort puts
the indices of the True elements first. Under `auto`, NumPy computes `compress` and the nonzero functions,
except `flatnonzero` of large arrays that are not bool, and both of large arrays if many threads share them.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._families.elementwise.manipulation import copy_function, with_layout_of
from pycudakit._families.elementwise.ufuncs import maximum, minimum, not_equal, remainder
from pycudakit._families.reduce.truth_values import count_nonzero
from pycudakit._families.sort.sort_keys import argsort_along, cost_of
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import BOOL, INT64, UINT8, Array, DType
from pycudakit._runtime import context, cost_model, native_call
from pycudakit._runtime.composite import arrays_or_numpy_result
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine, requested_engine
from pycudakit._runtime.operands import allocate, as_array, axis_index, last_axis_to
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import check_writeable

# Nanoseconds per taken element: NumPy's, also of more elements than the caches hold, and the CPU engine's on
# one thread.
_NUMPY_NS, _NUMPY_NS_OF_MANY, _CPU_NS = 0.9, 2.5, 2.0
_MANY = 1 << 22  # elements
_CHECK = 40e-6  # seconds: the CPU engine reads all indices before it takes anything
_TAKEN = copy_function("take_along_axis", np.copy)
# Values of `numpy_below`. With fewer elements, NumPy finds the nonzero ones faster; of bools, it always does.
_ALWAYS, _NUMPY_BELOW = math.inf, 100_000
# One thread of NumPy finds the True ones of fewer elements, or as fast as so many threads.
_MANY_THREADS, _NUMPY_BELOW_BOOLS = 8, 500_000
_NUMPY_FIND_NS, _CPU_FIND_NS = 1.2, 1.5  # nanoseconds per bool: NumPy's, and the CPU engine's on one thread


def _cost_of(picked: int, moved: int) -> Cost:
    work = _CPU_NS * 1e-9 * picked
    workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
    numpy = (_NUMPY_NS if picked < _MANY else _NUMPY_NS_OF_MANY) * 1e-9 * picked
    return Cost(2e-6 + numpy, cost_model.CALL + _CHECK + work / workers, moved, moved)


@public_function(numpy=np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Take elements from an array along an axis.

    Parameters
    ----------
    a : array_like
        The source array.
    indices : array_like of int
        The indices; negative ones count from the end.
    axis : int, optional
        The axis; the array is flattened if None.
    out : ndarray, optional
        Where to put the result.
    mode : {"raise", "wrap", "clip"}
        The treatment of an index that is out of bounds: an error, the index modulo the length, or the nearest
        valid index.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.take : NumPy's function.
    take_along_axis, compress

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.take([4, 3, 5, 7, 6, 8], [0, 1, 4])
    array([4, 3, 6])
    """
    array, index_array = as_array(a), as_array(indices)
    by_numpy = functools.partial(np.take, a, indices, axis, out, mode)
    if array is None or index_array is None:
        return native_call.numpy_fallback("take", by_numpy)
    choice = choose_engine("take", [array], _cost_of(index_array.size, array.nbytes))
    if choice.engine == "numpy":
        return native_call.run_numpy("take", choice.reason, by_numpy)
    along = 0 if axis is None else axis_index(axis, max(array.ndim, 1))
    array = array.reshape(-1) if axis is None or array.ndim == 0 else array
    count = array.shape[along]
    if not isinstance(indices, (np.ndarray, np.generic)):
        index_array = index_array.astype(INT64)  # NumPy truncates floats in lists
    positions = _checked_indices(index_array, count, mode)
    if positions.size and not count:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    shape = array.shape[:along] + index_array.shape + array.shape[along + 1 :]
    outer, inner = math.prod(array.shape[:along]), math.prod(array.shape[along + 1 :])
    if out is not None:
        _check_out(out, shape, array.dtype, mode)
    result = allocator.empty(shape, array.dtype)
    if inner and result.size:
        _run_take(
            choice, array, (outer, count, inner * array.itemsize), positions, positions.size, along, result
        )
    else:
        if outer and mode == "raise":
            by_numpy()  # raises where an index is out of bounds
        native_call.log_empty_call("take")
    if out is None:
        return result[()] if result.ndim == 0 else result
    np.copyto(out, result, casting="unsafe")
    return out


def _check_out(out: Any, shape: tuple[int, ...], dtype: DType, mode: Any) -> None:
    """Raise NumPy's error for an `out` that cannot hold a result."""
    if not isinstance(out, np.ndarray) or out.shape != shape:
        raise ValueError("output array does not match result of ndarray.take")
    # NumPy's versions differ in the types that they take.
    np.zeros(1, dtype).take(np.zeros(1, int), out=np.empty(1, out.dtype), mode=mode)
    check_writeable(out)


def _checked_indices(indices: Array, count: int, mode: str) -> Array:
    """Convert indices to int64 as the engines take them, with `mode` applied."""
    if indices.dtype.kind not in "biu":
        raise TypeError(
            f"Cannot cast array data from {indices.dtype!r} to dtype('int64') according to the rule 'safe'"
        )
    positions: Any = np.require(indices, INT64, ["C", "A"])
    if mode == "wrap" and count:
        positions = remainder(positions, count)
    elif mode == "clip":
        positions = minimum(maximum(positions, 0), max(count - 1, 0))
    elif mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return np.require(positions, INT64, ["C", "A"])


def _run_take(
    choice: EngineChoice,
    array: Array,
    sizes: tuple[int, int, int],
    positions: Array,
    picked: int,
    axis: int,
    out: Array,
    batched_indices: bool = False,
) -> None:
    """Take `picked` elements of every row: by the same indices, or (`batched_indices`) by each row's own.

    `sizes` are the number of rows, the elements of a row, and the bytes of an element.
    """
    dense = np.ascontiguousarray(array).reshape(-1).view(UINT8)
    in_bounds = context.current_context.get().indices_in_bounds
    flags = abi.TAKE_BATCHED_INDICES * batched_indices | abi.TAKE_INDICES_IN_BOUNDS * in_bounds
    with _index_errors(sizes[1], axis):
        native_call.run(
            *(choice, "pk_take", dense, *sizes, positions, picked, flags, out.reshape(-1).view(UINT8)),
            size=positions.size,
        )


def put_rows(array: Array, indices: Array, values: Array, count: int) -> None:
    """Write rows of values to the rows of an array at some indices, on a named engine.

    If an index is repeated, its last value is written.

    Parameters
    ----------
    array
        A dense array, which is modified.
    indices
        Dense integers of 64 bits; negative ones count from the end.
    values, count
        `count` dense rows of the array's type; they repeat if there are more indices.
    """
    dense, source = (each.reshape(-1).view(UINT8) for each in (array, values))
    choice, rows = requested_engine("put", context.checked_current_engine()), len(array)
    with _index_errors(rows, 0):
        native_call.run(
            *(choice, "pk_put", dense, rows, dense.size // rows, indices, indices.size, source, count),
            size=indices.size,
        )


@contextlib.contextmanager
def _index_errors(count: int, axis: int) -> Iterator[None]:
    """Convert the library's out-of-bounds error to NumPy's IndexError."""
    try:
        yield
    except errors.InvalidArgument as error:
        if "out of bounds" not in str(error):
            raise
        where = f"axis {axis} with size {count}"
        raise IndexError(str(error).replace(f"{count} elements", where)) from None


def _numpy_take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    return np.take_along_axis(np.asanyarray(arr), np.asanyarray(indices), axis)


@public_function(numpy=_numpy_take_along_axis, one_call="take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Take values from the input array by matching 1d index and data slices.

    Parameters
    ----------
    arr : array_like
        The source array.
    indices : ndarray of int
        The indices along the axis, broadcast with the array along others.
    axis : int, optional
        The axis; the array is flattened if None.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.take_along_axis : NumPy's function.
    take, argsort

    Examples
    --------
    >>> import pycudakit as pk
    >>> a = [[10, 30, 20], [60, 40, 50]]
    >>> pk.take_along_axis(a, pk.argsort(a, axis=1), axis=1)
    array([[10, 20, 30],
           [40, 50, 60]])
    """
    array, index_array = as_array(arr), as_array(indices)
    by_numpy = functools.partial(_numpy_take_along_axis, arr, indices, axis)
    if array is None or index_array is None:
        return native_call.numpy_fallback("take_along_axis", by_numpy)
    choice = choose_engine("take_along_axis", [array], _cost_of(index_array.size, array.nbytes))
    if choice.engine == "numpy":
        return native_call.run_numpy("take_along_axis", choice.reason, by_numpy)
    if index_array.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if index_array.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        array, axis = array.reshape(-1), 0
    axis = normalize_axis_index(axis, array.ndim)
    if array.ndim != index_array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    lines, positions = (np.moveaxis(each, axis, -1) for each in (array, index_array))
    try:
        rest = np.broadcast_shapes(lines.shape[:-1], positions.shape[:-1])
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            f"{array.shape} {index_array.shape}"
        ) from None
    lines = np.broadcast_to(lines, (*rest, lines.shape[-1]))
    positions = np.require(np.broadcast_to(positions, (*rest, positions.shape[-1])), INT64, ["C", "A"])
    result = allocator.empty(positions.shape, array.dtype)
    if result.size:
        sizes = math.prod(rest), lines.shape[-1], array.itemsize
        if not lines.size:
            raise IndexError(f"index {positions.flat[0]} is out of bounds for axis {axis} with size 0")
        _run_take(choice, lines, sizes, positions, positions.shape[-1], axis, result, batched_indices=True)
    else:
        native_call.log_empty_call("take_along_axis")
    taken = last_axis_to(result, axis)
    if taken.flags.c_contiguous and index_array.flags.c_contiguous:
        return taken
    return with_layout_of(_TAKEN, taken, allocate(array.dtype, taken.shape, [index_array]))


@public_function(numpy=np.compress, one_call="compress")
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return selected slices of an array along given axis.

    Parameters
    ----------
    condition : array_like of bool
        The mask, of one dimension, not longer than the axis.
    a : array_like
        The source array.
    axis, out
        As for `take`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.compress : NumPy's function.
    take, nonzero

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.compress([False, True, True], [10, 20, 30])
    array([20, 30])
    """
    numpy = functools.partial(np.compress, condition, a, axis, out)
    arrays, numpy_result = arrays_or_numpy_result("compress", numpy, condition, a, numpy_below=_bools_below())
    if not arrays:
        return numpy_result
    if arrays[0].ndim != 1:
        raise ValueError("condition must be a 1-d array")
    return take(arrays[1], flatnonzero(arrays[0]), axis, out)


def _bools_below() -> float:
    """Return the number of bools below which NumPy finds the True ones faster."""
    return _NUMPY_BELOW_BOOLS if cost_model.threads() >= _MANY_THREADS else _ALWAYS


@public_function(numpy=np.flatnonzero, one_call="flatnonzero")
def flatnonzero(a: Any) -> Any:
    """Return indices that are non-zero in the flattened version of a.

    Parameters
    ----------
    a : array_like
        The elements.

    Returns
    -------
    ndarray of int64
        The indices of elements that are not zero.

    See Also
    --------
    numpy.flatnonzero : NumPy's function.
    nonzero, argwhere

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.flatnonzero([3, 0, 0, 5])
    array([0, 3])
    """
    numpy_below = _NUMPY_BELOW if type(a) is np.ndarray and a.dtype != BOOL else _bools_below()
    arrays, numpy_result = arrays_or_numpy_result(
        "flatnonzero", functools.partial(np.flatnonzero, a), a, numpy_below=numpy_below
    )
    if not arrays:
        return numpy_result
    is_nonzero = not_equal(arrays[0].ravel(), 0)
    count = int(count_nonzero(is_nonzero))
    if not count:
        return np.empty(0, np.intp)
    guess = cost_of(is_nonzero, _NUMPY_FIND_NS, _CPU_FIND_NS, 8 * count // is_nonzero.size)
    choice = choose_engine("argsort", [is_nonzero], guess)
    if choice.engine == "numpy":
        return native_call.run_numpy(
            "flatnonzero", choice.reason, functools.partial(np.flatnonzero, is_nonzero)
        )
    # A stable descending sort of bools puts the True ones first, in their order.
    return argsort_along(choice, is_nonzero, 0, count, descending=True)


@public_function(numpy=np.nonzero, one_call="nonzero")
def nonzero(a: Any) -> Any:
    """Return the indices of the elements that are non-zero, as one array per axis.

    Parameters
    ----------
    a : array_like
        The elements.

    Returns
    -------
    tuple of ndarrays of int64
        The indices of elements that are not zero, an array for each axis.

    See Also
    --------
    numpy.nonzero : NumPy's function.
    flatnonzero, argwhere, count_nonzero

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nonzero([[3, 0], [0, 5]])
    (array([0, 1]), array([0, 1]))
    """
    arrays, numpy_result = arrays_or_numpy_result(
        "nonzero", functools.partial(np.nonzero, a), a, numpy_below=_ALWAYS
    )
    if not arrays:
        return numpy_result
    if arrays[0].ndim == 0:
        return np.nonzero(arrays[0])  # raises
    return np.unravel_index(flatnonzero(arrays[0]), arrays[0].shape)


@public_function(numpy=np.argwhere, one_call="argwhere")
def argwhere(a: Any) -> Any:
    """Find the indices of array elements that are non-zero, grouped by element.

    Parameters
    ----------
    a : array_like
        The elements.

    Returns
    -------
    ndarray of int64
        A row of indices for each element that is not zero.

    See Also
    --------
    numpy.argwhere : NumPy's function.
    nonzero, flatnonzero

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.argwhere([[3, 0], [0, 5]])
    array([[0, 0],
           [1, 1]])
    """
    arrays, numpy_result = arrays_or_numpy_result(
        "argwhere", functools.partial(np.argwhere, a), a, numpy_below=_ALWAYS
    )
    if not arrays:
        return numpy_result
    if arrays[0].ndim == 0:
        return np.argwhere(arrays[0])
    return np.array(nonzero(arrays[0])).T
