"""`pinned_copy`: a copy of an array, of any library, in pinned memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pycudakit import errors
from pycudakit._interop.foreign_arrays import has_dask, read
from pycudakit._native.dtypes import Array
from pycudakit._native.pinned import empty_pinned


def pinned_copy(a: ArrayLike) -> Array:
    """Return a copy of an array in pinned memory: see `empty_pinned`.

    Parameters
    ----------
    a : array_like
        The array. The copy has its dtype, byte order included, and is C-contiguous.

    Returns
    -------
    ndarray
        In pinned memory.

    See Also
    --------
    empty_pinned

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.pinned_copy([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]])
    """
    if has_dask(a):
        raise errors.Unsupported("pinned_copy of a Dask array: .compute() it first")
    array = np.asarray(read(a, "pinned_copy, a", by_numpy=True, mask_aware=False))
    copy = empty_pinned(array.shape, array.dtype)
    copy[...] = array
    return copy
