"""The dtypes that the C ABI supports, and their codes (`pk_type`)."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import abi

DType = np.dtype[Any]
Array = np.ndarray[Any, Any]

CODES = {dtype: code for code, dtype in enumerate(abi.TYPES)}
BOOL, INT32, INT64, UINT8, UINT64 = (np.dtype(name) for name in ("bool", "int32", "int64", "uint8", "uint64"))
FLOAT16, FLOAT32, FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))


def masked_arrays() -> tuple[type, ...]:
    """Return the type of masked arrays, or () if `numpy.ma` was not imported, so that there are none."""
    masked_array = getattr(sys.modules.get("numpy.ma.core"), "MaskedArray", None)
    return () if masked_array is None else (masked_array,)


def check_file(array: np.memmap[Any, Any]) -> None:
    """Raise if the file of a memory map was truncated: an access beyond its end would raise SIGBUS."""
    mapped: Any = getattr(array, "_mmap", None)
    try:
        size = mapped.size()
    except (AttributeError, OSError, ValueError):  # it is a result, or keeps no file open
        return
    first = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    end = first + len(mapped)
    if size < end:
        raise errors.InvalidArgument(
            f"the file of a memmap, {array.filename}, was cut off: it has {size} bytes, and {end} are mapped"
        )


def code_of(dtype: DType) -> int | None:
    """Return the `pk_type` of a dtype in either byte order, or None if it is not supported."""
    code = CODES.get(dtype)
    if code is None and dtype.kind in "biuf" and dtype.itemsize <= 8:
        code = CODES.get(np.dtype(f"{dtype.kind}{dtype.itemsize}"))  # long long, or the other byte order
    return code
