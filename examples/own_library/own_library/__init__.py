"""Scale NumPy arrays by a CUDA kernel; without a GPU, by the same function on the CPU."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer

# As strict as the ABI: another dtype, or an array that is not contiguous, is an error, not a wrong result.
_IN = ndpointer(np.float32, flags="C_CONTIGUOUS")
_OUT = ndpointer(np.float32, flags=("C_CONTIGUOUS", "WRITEABLE"))


def _load(engine: str) -> ctypes.CDLL:
    folder = Path(os.environ.get("OWN_LIBRARY_DIR") or Path(__file__).parent)
    library = ctypes.CDLL(str(folder / f"libown_{engine}.so"))
    library.own_last_error.restype = ctypes.c_char_p
    library.own_scale.argtypes = (_IN, _OUT, ctypes.c_int64, ctypes.c_float)
    library.own_scale.restype = ctypes.c_int32

    def check(status: int, _function: Any, _arguments: Any) -> int:
        if status:
            raise RuntimeError(library.own_last_error().decode())
        return status

    library.own_scale.errcheck = check
    return library


def _first_that_works() -> tuple[str, ctypes.CDLL]:
    one = np.ones(1, np.float32)
    try:
        library = _load("cuda")
        library.own_scale(one, one, 1, 1.0)
    except (OSError, RuntimeError):  # not built, or no GPU
        return "cpu", _load("cpu")
    return "cuda", library


ENGINE, LIBRARY = _first_that_works()


def scale(x: Any, factor: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Multiply by a factor, in float32.

    Examples
    --------
    >>> import own_library
    >>> own_library.scale([1, 2, 3], 0.5)
    array([0.5, 1. , 1.5], dtype=float32)
    """
    values = np.asarray(x)
    array = np.ascontiguousarray(values, np.float32)
    out = np.empty_like(array)
    LIBRARY.own_scale(array, out, array.size, factor)
    return out.reshape(values.shape)
