"""The functions of sum.cu for NumPy arrays, on a GPU; made by ``pycudakit wrap``."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer

__all__ = ["launch_sum_kernel"]

# The dtype of each struct.
DTYPES: dict[str, np.dtype[Any]] = {}


# As strict as C: another dtype, or an array that is not contiguous, is an error, not a wrong result.
def _IN(dtype: Any) -> Any:
    return ndpointer(dtype, flags=("C_CONTIGUOUS", "ALIGNED"))


def _OUT(dtype: Any) -> Any:
    return ndpointer(dtype, flags=("C_CONTIGUOUS", "ALIGNED", "WRITEABLE"))


ARGTYPES: dict[str, list[Any]] = {
    "launch_sum_kernel": [
        _IN(np.float32),
        _IN(np.float32),
        _OUT(np.float32),
        ctypes.c_int,
    ],
}


def _load() -> ctypes.CDLL:
    folder = Path(os.environ.get("MYSUM_LIBRARY_DIR") or Path(__file__).parent)
    hint = "without a GPU, pycudakit.wrap('sum.cu') runs the same file on the CPU"
    try:
        library = ctypes.CDLL(str(folder / "libmysum_cuda.so"))
    except OSError as error:
        raise ImportError(f"mysum does not load: {error}; {hint}") from None
    if library.pk_table_devices() < 1:
        raise ImportError(f"mysum needs an NVIDIA GPU, and there is none; {hint}")
    library.pk_table_message.restype = ctypes.c_char_p
    library.pk_table_call.restype = ctypes.c_void_p
    return library


def _check(status: int, _function: Any, _arguments: Any) -> int:
    if status:
        message = LIBRARY.pk_table_message().decode("utf-8", "replace")
        raise MemoryError(message) if status == 1 else RuntimeError(message)
    return status


def _function(name: str) -> Any:
    address = LIBRARY.pk_table_call(name.encode())
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *ARGTYPES[name])(address)
    function.errcheck = _check
    return function


LIBRARY = _load()
_FUNCTIONS = {name: _function(name) for name in ARGTYPES}


def _read(function: str, name: str, array: Any, dtype: Any) -> Any:
    """Return an input as a contiguous array."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        given = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"{function}: {name} takes arrays of {np.dtype(dtype)}, and is given {given}")
    return np.ascontiguousarray(array)


def _written(function: str, name: str, array: Any, dtype: Any) -> Any:
    """Return an output, which C writes in place."""
    _read(function, name, array, dtype)
    if not (array.flags.carray and array.dtype.isnative):
        raise ValueError(f"{function}: {name} is written, and is not contiguous or not writeable")
    return array


def _require_size(function: str, name: str, array: Any, count: int, size: str) -> None:
    """Raise unless an array has at least so many elements."""
    if array.size < count:
        raise ValueError(
            f"{function}: {name} needs at least {size} elements, which is {count}, and has {array.size}"
        )


def _require_range(function: str, name: str, number: Any, dtype: Any) -> None:
    """Raise unless an integer fits: ctypes would drop its upper bits."""
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise OverflowError(f"{function}: {name} is {number}, which does not fit in {np.dtype(dtype)}")


def _returned(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values) or None


def launch_sum_kernel(a: Any, b: Any, n: int, *, out: Any = None) -> Any:
    """Call ``void launch_sum_kernel(const float *a, const float *b, float *out, int n)``.

    a: float32, read; at least n elements.
    b: float32, read; at least n elements.
    out: float32, written, and returned if it is left out; at least n elements.
    """
    _require_range("launch_sum_kernel", "n", n, np.int32)
    made = []
    if out is None:
        out = np.empty(n, np.float32)
        made.append(out)
    a = _read("launch_sum_kernel", "a", a, np.float32)
    _require_size("launch_sum_kernel", "a", a, n, "n")
    b = _read("launch_sum_kernel", "b", b, np.float32)
    _require_size("launch_sum_kernel", "b", b, n, "n")
    out = _written("launch_sum_kernel", "out", out, np.float32)
    _require_size("launch_sum_kernel", "out", out, n, "n")
    _FUNCTIONS["launch_sum_kernel"](None, a, b, out, n)
    return _returned(made)
