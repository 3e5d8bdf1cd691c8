"""`empty_pinned`: arrays in pinned (page-locked) memory, which the GPU accesses without staging."""

from __future__ import annotations

import ctypes
import math
import operator
import os
import sys
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from pycudakit._native import engine_status, loader

__all__ = ["empty_pinned"]

Array = np.ndarray[Any, Any]


class _PinnedBlock:
    """A block of pinned memory of a library, which is returned when the last array in it dies."""

    def __init__(self, address: int, size: int, library: ctypes.CDLL) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }
        self._address, self._give_back = address, library.pk_pinned_return
        # Attributes, since module globals are cleared at the interpreter's end.
        self._process, self._getpid = os.getpid(), os.getpid

    def __del__(self) -> None:
        if self._getpid() == self._process:  # a forked child must not return the parent's memory
            self._give_back(self._address)


def _library() -> ctypes.CDLL | None:
    return next((loader.library(name) for name in ("cuda", "cpu") if engine_status.status(name)), None)


def _lengths(shape: Any) -> list[int]:
    try:
        return [operator.index(shape)]
    except TypeError:
        return [operator.index(length) for length in shape]


def empty_pinned(shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = float) -> Array:
    """Return a new, uninitialized array in pinned memory.

    Calls on the CUDA engine transfer it without a staging copy, which is faster than for other arrays.
    Otherwise it is an ordinary array: NumPy and every engine take it, and on a machine without a GPU its
    memory is not pinned. Pinning takes some tenths of a second for each GB; the memory of freed arrays is
    kept for reuse, until `release`.

    Parameters
    ----------
    shape : int or sequence of int
        The shape.
    dtype : dtype, optional
        The type of the elements, float64 by default; objects cannot be pinned.

    Returns
    -------
    ndarray
        C-contiguous, and aligned to 4096 bytes.

    See Also
    --------
    pinned_copy

    Examples
    --------
    >>> import pycudakit as pk
    >>> a = pk.empty_pinned((2, 3), "float32")
    >>> a[...] = 1
    >>> pk.add(a, a, out=a)
    array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"an array of {dtype} holds Python objects, which cannot be in pinned memory")
    lengths = _lengths(shape)
    size = math.prod(lengths) * dtype.itemsize
    library = _library()
    if library is None or size == 0 or min(lengths, default=0) < 0 or size > sys.maxsize:
        return np.empty(shape, dtype)  # or NumPy's error
    address = ctypes.c_uint64()
    library.pk_pinned_take(size, ctypes.byref(address))
    memory: Array = np.asarray(_PinnedBlock(address.value, size, library))
    array: Array = np.ndarray(lengths, dtype, memory)
    return array
