"""Arrays with what becomes of them in a call of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._interop import foreign_arrays
from pycudakit._native.dtypes import Array, masked_arrays
from pycudakit.kernels.running.device_arguments import is_on_device


class Wrapper:
    """An array with what becomes of it."""

    __slots__ = ("array",)

    array: Any  # of NumPy, or on a GPU

    def __repr__(self) -> str:
        """Return what makes it."""
        return f"{type(self).__name__}({self.array!r})"

    def settled(self) -> Wrapper:
        """Return it as one of an array that is there: in a fused function, it may be of one that is not."""
        return self


class In(Wrapper):
    """An array that a kernel reads: it goes to the device, and what the kernel changes there is dropped.

    Parameters
    ----------
    array : array_like
        Of any layout; the kernel sees its elements in C order, one after the other. One on a GPU is dense.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array if type(array) is np.ndarray or is_on_device(array) else as_array(array)


class Out(Wrapper):
    """An array that a kernel writes: it begins as zeros on the device, and replaces the whole of `array`.

    Parameters
    ----------
    array : ndarray
        Of any layout; or a dense array on a GPU, which is written where it lies.
    poison : bool
        Begin as bytes of 0xA5 instead, which shows what no kernel has written.
    """

    __slots__ = ("poison",)

    def __init__(self, array: Any, *, poison: bool = False) -> None:
        self.array = array if type(array) is np.ndarray else _as_target(array, "Out")
        self.poison = poison


class InOut(Wrapper):
    """An array that a kernel reads and writes: it goes to the device and comes back.

    Parameters
    ----------
    array : ndarray
        Of any layout. An array that is given for several parameters is one buffer. One on a GPU is dense,
        and the kernel works in it where it lies.
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        self.array = array if type(array) is np.ndarray else _as_target(array, "InOut")


def as_array(value: Any) -> Array:
    """Return an array, or refuse what a kernel cannot take."""
    if isinstance(value, masked_arrays()):
        raise TypeError("a masked array has no form that a kernel takes: give its .data or .filled()")
    return np.asarray(foreign_arrays.read(value, "a kernel's array", by_numpy=False))


def _as_target(value: Any, name: str) -> Any:
    if is_on_device(value):
        return value
    if not isinstance(value, np.ndarray):
        foreign_arrays.read(value, name)  # which says what to do about an array on a GPU
        raise TypeError(f"{name} takes a NumPy array, which is written, and not {type(value).__name__}")
    return as_array(value)
