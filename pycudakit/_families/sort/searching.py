"""NumPy's `searchsorted`: the places of values in a sorted array."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.sort.sort_keys import as_keys, plan_search
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime import native_call, operands
from pycudakit._runtime.engine_choice import NO_COST, choose_engine
from pycudakit._runtime.public_function import public_function

_MAX_EXACT_INTEGER = 2.0**53  # from here on, different integers convert to the same float
_LONG = 2048  # elements whose conversion in NumPy takes longer than our Python overhead


def _numpy_searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    if type(a) is np.ndarray and a.size > _LONG and a.dtype.kind in "biuf":
        ordinary_values = operands.as_array(v)
        v = v if ordinary_values is None else _cast_if_lossless(a, ordinary_values)
    return np.searchsorted(a, v, side, sorter)


@public_function(numpy=_numpy_searchsorted)
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
