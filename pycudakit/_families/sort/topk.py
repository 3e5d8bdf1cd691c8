"""`topk`: the largest or smallest elements along an axis, which NumPy lacks."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._families.sort.sort_keys import argsort_along, plan_topk
from pycudakit._native.dtypes import Array
from pycudakit._runtime import operands


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
