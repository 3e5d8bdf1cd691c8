"""NumPy's `unique`: distinct elements by sorting, with `pk_unique`; along an axis by `lexsort`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.sort.sort_keys import FEW, SMALL_UNIQUE, as_keys, plan_unique
from pycudakit._families.sort.sorting import lexsort
from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.composite import arrays_or_numpy_result
from pycudakit._runtime.public_function import public_function

_NUMPY_BELOW = SMALL_UNIQUE.most


@public_function(numpy=np.unique)
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """Find the unique elements of an array.

    They are returned in sorted order.

    Parameters
    ----------
    ar : array_like
        The elements.
    return_index, return_inverse, return_counts : bool
        Whether to also return the index of each first occurrence in the flattened array; the index of each
        element in the result; and the number of occurrences.
    axis : int, optional
        The axis along which slices are compared as a whole; by default, elements are compared.
    equal_nan : bool
        Whether all NaN are equal.
    sorted : bool
        Ignored by the engines, which always sort.

    Returns
    -------
    ndarray, or a tuple
        The distinct values, sorted; then indices, inverse and counts, as far as they are asked for.

    See Also
    --------
    numpy.unique : NumPy's function.
    unique_values, sort, isin

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.unique([3, 1, 3, 2], return_counts=True)
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    if (
        type(ar) is np.ndarray
        and ar.size <= _NUMPY_BELOW.get(ar.dtype, 0)
        and context.fast_path_engine() == "auto"
        and (ar.size <= FEW or not (return_index or return_inverse or return_counts))
        and sorted
    ):
        result = np.unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
        SMALL_UNIQUE.record(ar)
        return result
    SMALL_UNIQUE.add_dtype(ar)
    keywords = {"equal_nan": equal_nan} if sorted else {"equal_nan": equal_nan, "sorted": sorted}

    def by_numpy() -> Any:
        return np.unique(ar, return_index, return_inverse, return_counts, axis, **keywords)

    array = operands.as_array(ar)
    if array is not None and axis is not None and array.ndim > 1:
        return _along(array, by_numpy, axis, (return_index, return_inverse, return_counts))
    flags = abi.UNIQUE_INDEX * bool(return_index) + abi.UNIQUE_INVERSE * bool(return_inverse)
    order = "stable" if return_index else ("quicksort" if return_inverse else None)
    choice = plan_unique(array, order, bool(return_counts))
    if choice.engine == "numpy" or array is None:
        return native_call.run_numpy("unique", choice.reason, by_numpy)
    if axis is not None:
        normalize_axis_index(axis, array.ndim)
    flags += abi.UNIQUE_COUNTS * bool(return_counts) + abi.UNIQUE_EQUAL_NAN * bool(equal_nan)
    name, keys = as_keys(array.ravel())
    values, count = np.empty(keys.size, array.dtype.newbyteorder("=")), np.empty(1, np.int64)
    outputs = abi.UNIQUE_INDEX, abi.UNIQUE_INVERSE, abi.UNIQUE_COUNTS
    index, inverse, counts = (np.empty(keys.size if flags & flag else 0, np.int64) for flag in outputs)
    native_call.run(
        choice,
        f"pk_unique_{name}",
        keys,
        keys.size,
        flags,
        values.view(keys.dtype),
        index,
        inverse,
        counts,
        count,
        size=keys.size,
    )
    for result in (values, index, counts):
        result.resize(min(result.size, int(count[0])), refcheck=False)
    results = [values.astype(array.dtype, copy=False)]
    if return_index:
        results.append(index.astype(np.intp, copy=False))
    if return_inverse:
        results.append(inverse.astype(np.intp, copy=False).reshape(array.shape))
    if return_counts:
        results.append(counts.astype(np.intp, copy=False))
    return results[0] if len(results) == 1 else tuple(results)


@public_function(one_call="unique")
def _along(array: Array, by_numpy: Callable[[], Any], axis: int, requested: tuple[bool, bool, bool]) -> Any:
    """Find the unique slices along an axis; NaN is never equal there, as in NumPy."""
    rows = np.moveaxis(array, normalize_axis_index(axis, array.ndim), 0)
    shape = rows.shape
    rows = np.ascontiguousarray(rows.reshape(len(rows), -1)) if array.size else rows
    arrays, numpy_result = arrays_or_numpy_result(
        "unique", by_numpy, rows, unsupported=None if array.size else "it is empty along an axis"
    )
    if not arrays:
        return numpy_result
    order = lexsort(rows.T[::-1])
    ordered = rows[order]
    is_first = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1)))
    firsts = np.flatnonzero(is_first)
    results = [np.moveaxis(ordered[firsts].reshape(-1, *shape[1:]), 0, axis)]
    if requested[0]:
        results.append(order[firsts])
    if requested[1]:
        inverse = np.empty(len(rows), np.intp)
        inverse[order] = np.cumsum(is_first) - 1
        results.append(inverse)
    if requested[2]:
        results.append(np.diff(firsts, append=len(rows)))
    return results[0] if len(results) == 1 else tuple(results)
