"""`In`, `Out` and `InOut`: arrays with the direction of their transfer in a kernel call."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._interop import foreign_arrays
from pycudakit._native.dtypes import Array, masked_arrays
from pycudakit.kernels.running.device_arguments import is_on_device


class Wrapper:
    """Base class of the three wrappers: an array with the direction of its transfer."""

    __slots__ = ("array",)

    array: Any  # a NumPy array or a device array

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"{type(self).__name__}({self.array!r})"

    def settled(self) -> Wrapper:
        """Return a wrapper of the computed array, if this one wraps a tracer of a fused function."""
        return self


class In(Wrapper):
    """An array that a kernel reads: it is uploaded, and changes by the kernel are dropped.

    Parameters
    ----------
    array : array_like
        An array of any layout; the kernel sees its elements contiguous in C order. A device array must be
        C-contiguous.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array if type(array) is np.ndarray or is_on_device(array) else as_array(array)


class Out(Wrapper):
    """An array that a kernel writes: the buffer starts as zeros, and then replaces the whole of `array`.

    Parameters
    ----------
    array : ndarray
        An array of any layout; or a C-contiguous device array, which is written in place.
    poison : bool
        Fill the buffer with bytes of 0xA5 instead, which shows elements that no kernel has written.
    """

    __slots__ = ("poison",)

    def __init__(self, array: Any, *, poison: bool = False) -> None:
        self.array = array if type(array) is np.ndarray else _as_target(array, "Out")
        self.poison = poison


class InOut(Wrapper):
    """An array that a kernel reads and writes: it is uploaded and downloaded.

    Parameters
    ----------
    array : ndarray
        An array of any layout. An array that is given for several parameters is one buffer. A device array
        must be C-contiguous, and is updated in place.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array if type(array) is np.ndarray else _as_target(array, "InOut")


def as_array(value: Any) -> Array:
    """Convert a value to an array, or raise if a kernel cannot take it."""
    if isinstance(value, masked_arrays()):
        raise TypeError("a kernel takes no masked array: give its .data or .filled()")
    return np.asarray(foreign_arrays.read(value, "a kernel's array", by_numpy=False))


def _as_target(value: Any, name: str) -> Any:
    if is_on_device(value):
        return value
    if not isinstance(value, np.ndarray):
        foreign_arrays.read(value, name)  # its error names the remedy for a device array
        raise TypeError(f"{name} takes a NumPy array, which is written, and not {type(value).__name__}")
    return as_array(value)
