"""NumPy's set operations, by sorting and binary search; their results are sorted.

Each has one body, for vectors on the host and on a device. Its parameter `xp` has the array functions: those
of `ON_HOST`, or NumPy's, which dispatch to tracers. Dask computes the distinct elements of each block first.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._element_programs.values import Value
from pycudakit._families.elementwise.fast_path import call as call_elementwise
from pycudakit._families.sort.searching import searchsorted
from pycudakit._families.sort.sort_keys import MAX_COMPARED, plan_isin
from pycudakit._families.sort.sorting import argsort, sort
from pycudakit._families.sort.unique import unique
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import native_call
from pycudakit._runtime.composite import arrays_or_numpy_result
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER
from pycudakit._runtime.public_function import public_function


@public_function(numpy=np.isin, one_call="isin")
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """Calculate ``element in test_elements``, broadcasting over `element` only.

    Parameters
    ----------
    element : array_like
        The elements to look for.
    test_elements : array_like
        The elements to look among.
    assume_unique, kind
        As for `numpy.isin`; the result does not depend on them.
    invert : bool
        Whether to return the elements that are not in `test_elements`.

    Returns
    -------
    ndarray of bool

    See Also
    --------
    numpy.isin : NumPy's function.
    intersect1d, setdiff1d, searchsorted

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.isin([[1, 2], [3, 4]], [4, 2, 9])
    array([[False,  True],
           [False,  True]])
    """
    numpy = functools.partial(np.isin, element, test_elements, assume_unique, invert, kind=kind)
    arrays, result = arrays_or_numpy_result("isin", numpy, element, test_elements)
    if not arrays:
        return result
    wanted, candidates = arrays
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    if kind == "table" and "f" in (wanted.dtype.kind, candidates.dtype.kind):
        raise ValueError(
            "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or "
            "None for kind."
        )
    choice = plan_isin(wanted, candidates, may_have_table=kind != "sort")
    if choice.engine == "numpy":
        return native_call.run_numpy(
            "isin", REASON_NUMPY_FASTER, numpy
        )  # NumPy's algorithm depends on the values, not only on the size
    flat, candidates = wanted.reshape(-1), sorted_candidates(ON_HOST, wanted.dtype, candidates.ravel())
    if 0 < candidates.size <= MAX_COMPARED and flat.size:
        return _is_one_of(flat, np.unique(candidates), invert).reshape(wanted.shape)
    if flat.size <= _PIECE:
        return is_among(ON_HOST, flat, candidates, invert).reshape(wanted.shape)
    mask: Array = np.empty(wanted.shape, bool)
    flat_mask = mask.reshape(-1)
    for first in range(0, flat.size, _PIECE):  # in pieces, to bound the temporary memory
        part = slice(first, first + _PIECE)
        flat_mask[part] = is_among(ON_HOST, flat[part], candidates, invert)
    return mask


_PIECE = 1 << 24  # elements


def _is_one_of(wanted: Array, candidates: Array, invert: bool) -> Array:
    """Compare each element with a few candidates."""
    values = wanted.astype(candidates.dtype, copy=False)
    if values.dtype == bool:
        values, candidates = values.view(np.uint8), candidates.view(np.uint8)
    mask: Array = call_elementwise(_COMPARISONS[bool(invert)], (values, *candidates))
    return mask


def _comparisons(invert: bool) -> ElementFunction:
    """Return the function that compares a number with others."""

    def write(builder: Builder, value: Value, *candidates: Value, **_: Any) -> tuple[Value]:
        compare, join = ("not_equal", "logical_and") if invert else ("equal", "logical_or")
        compared = (builder.apply(compare, value, each) for each in candidates)
        return (functools.reduce(functools.partial(builder.apply, join), compared),)

    def numpy(value: Any, *candidates: Any) -> Any:
        return np.isin(value, candidates, invert=invert)

    return ElementFunction("isin", numpy, write)


_COMPARISONS = {invert: _comparisons(invert) for invert in (False, True)}


def sorted_candidates(xp: Any, wanted: DType, candidates: Any) -> Any:
    """Return the candidates, sorted, in the type that they are compared in with elements of type `wanted`."""
    common = np.result_type(wanted, candidates.dtype)
    if common.kind == "f" and wanted.kind in "iu" and candidates.dtype.kind in "iu":
        # int64 and uint64: candidates that the type of `wanted` cannot hold cannot be members.
        limits, common = np.iinfo(wanted), wanted
        fits = candidates >= 0 if limits.min == 0 else candidates <= np.uint64(limits.max)
        candidates = xp.compress(fits, candidates)
    return xp.sort(candidates.astype(common, copy=False))


def is_among(xp: Any, wanted: Any, candidates: Any, invert: bool) -> Any:
    """Return a mask of the elements that are among the sorted candidates; with `invert`, of the others."""
    if not candidates.size:
        return np.full(wanted.shape, bool(invert))
    wanted = wanted.astype(candidates.dtype, copy=False)
    nearest = xp.take(candidates, np.minimum(xp.searchsorted(candidates, wanted), candidates.size - 1))
    return nearest != wanted if invert else nearest == wanted


@public_function(numpy=np.union1d, one_call="union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    """Find the union of two arrays: their distinct elements, sorted.

    Parameters
    ----------
    ar1, ar2 : array_like
        The arrays, of any shape.

    Returns
    -------
    ndarray
        The distinct values, sorted.

    See Also
    --------
    numpy.union1d : NumPy's function.
    intersect1d, setdiff1d, setxor1d, unique

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.union1d([3, 1], [2, 3])
    array([1, 2, 3])
    """
    arrays, result = arrays_or_numpy_result("union1d", functools.partial(np.union1d, ar1, ar2), ar1, ar2)
    if not arrays:
        return result
    # A Python number takes the type of the other array.
    parts = [a if type(a) in (int, float) else array for a, array in zip((ar1, ar2), arrays, strict=True)]
    return unique(np.concatenate(parts, axis=None))


@public_function(numpy=np.intersect1d, one_call="intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Find the intersection of two arrays: the distinct elements in both, sorted.

    Parameters
    ----------
    ar1, ar2 : array_like
        The arrays, of any shape.
    assume_unique : bool
        Whether the elements of each array are distinct.
    return_indices : bool
        Whether to also return the indices of their first occurrences in each flattened array.

    Returns
    -------
    ndarray, or a tuple of three
        The common values, sorted; with `return_indices`, also their indices in both arrays.

    See Also
    --------
    numpy.intersect1d : NumPy's function.
    union1d, setdiff1d, setxor1d, isin

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.intersect1d([3, 1, 2], [2, 3, 4])
    array([2, 3])
    """
    numpy = functools.partial(np.intersect1d, ar1, ar2, assume_unique, return_indices)
    arrays, result = arrays_or_numpy_result("intersect1d", numpy, ar1, ar2)
    if not arrays:
        return result
    one, other = (array.ravel() for array in arrays)
    return intersection(ON_HOST, one, other, assume_unique, return_indices)


def intersection(xp: Any, one: Any, other: Any, are_sets: bool, return_indices: bool) -> Any:
    """Return the common elements of two vectors, and with `return_indices` their first indices in each."""
    firsts: list[Any] = []
    if not are_sets:
        if return_indices:
            (one, in_one), (other, in_other) = xp.unique(one, True), xp.unique(other, True)
            firsts = [in_one, in_other]
        else:
            one, other = xp.unique(one), xp.unique(other)
    both = np.concatenate((one, other))
    if not return_indices:
        both = xp.sort(both)
        return xp.compress(both[1:] == both[:-1], both[:-1])
    order = xp.argsort(both, kind="stable")
    both = xp.take(both, order)
    is_common = both[1:] == both[:-1]
    indices = [xp.compress(is_common, order[:-1]), xp.compress(is_common, order[1:]) - one.size]
    if firsts:
        indices = [xp.take(first, index) for first, index in zip(firsts, indices, strict=True)]
    return xp.compress(is_common, both[:-1]), *indices


@public_function(numpy=np.setdiff1d, one_call="setdiff1d")
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Find the set difference of two arrays: the distinct elements of `ar1` that are not in `ar2`.

    Parameters
    ----------
    ar1, ar2 : array_like
        The arrays, of any shape.
    assume_unique : bool
        Whether the elements of each array are distinct; the result is then in the order of `ar1`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.setdiff1d : NumPy's function.
    union1d, intersect1d, setxor1d, isin

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.setdiff1d([3, 1, 2], [2, 5])
    array([1, 3])
    """
    numpy = functools.partial(np.setdiff1d, ar1, ar2, assume_unique)
    arrays, result = arrays_or_numpy_result("setdiff1d", numpy, ar1, ar2)
    if not arrays:
        return result
    one, other = (array.ravel() for array in arrays)
    return difference(ON_HOST, one, other, assume_unique)


def difference(xp: Any, one: Any, other: Any, is_set: bool) -> Any:
    """Return the elements of a vector that are not in the other one."""
    kept = one if is_set else xp.unique(one)
    return xp.compress(xp.isin(kept, other, invert=True), kept)


@public_function(numpy=np.setxor1d, one_call="setxor1d")
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Find the set exclusive-or of two arrays: the elements in exactly one of them, sorted.

    Parameters
    ----------
    ar1, ar2 : array_like
        The arrays, of any shape.
    assume_unique : bool
        Whether the elements of each array are distinct.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.setxor1d : NumPy's function.
    union1d, intersect1d, setdiff1d

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.setxor1d([3, 1, 2], [2, 5])
    array([1, 3, 5])
    """
    numpy = functools.partial(np.setxor1d, ar1, ar2, assume_unique)
    arrays, result = arrays_or_numpy_result("setxor1d", numpy, ar1, ar2)
    if not arrays:
        return result
    one, other = (array.ravel() for array in arrays)
    return symmetric_difference(ON_HOST, one, other, assume_unique)


def symmetric_difference(xp: Any, one: Any, other: Any, are_sets: bool) -> Any:
    """Return the elements that are in exactly one of two vectors."""
    if not are_sets:
        one, other = xp.unique(one), xp.unique(other)
    both = xp.sort(np.concatenate((one, other)))
    if not both.size:
        return both
    differs = np.concatenate((np.array([True]), both[1:] != both[:-1], np.array([True])))
    return xp.compress(differs[1:] & differs[:-1], both)


def _numpy_values(x: Any, /) -> Any:
    return np.unique(x, equal_nan=False)


@public_function(numpy=_numpy_values, one_call="unique_values")
def unique_values(x: Any) -> Any:
    """Return the unique elements of an array, as the array API defines it: every NaN is distinct.

    Parameters
    ----------
    x : array_like
        The elements.

    Returns
    -------
    ndarray
        The distinct values, sorted.

    See Also
    --------
    numpy.unique_values : NumPy's function.
    unique

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.unique_values([3, 1, 3])
    array([1, 3])
    """
    return unique(x, equal_nan=False)


def _compress(mask: Array, a: Array) -> Array:
    return a[mask]


ON_HOST = SimpleNamespace(
    argsort=argsort,
    compress=_compress,
    isin=isin,
    searchsorted=searchsorted,
    sort=sort,
    take=np.take,
    unique=unique,
)
