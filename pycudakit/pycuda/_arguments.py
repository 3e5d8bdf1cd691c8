"""Arguments of kernels: conversion to the types that the source declares."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit.kernels.compiling.source import Parameter
from pycudakit.kernels.running.argument_binding import Slot
from pycudakit.pycuda._copies import memcpy_dtoh, memcpy_dtoh_async, memcpy_htod, memcpy_htod_async
from pycudakit.pycuda._host_memory import host_span
from pycudakit.pycuda._memory import DeviceAllocation, PointerHolderBase, allocate, find_address

# The codes of `struct` by the characters of dtypes.
_CODES = {"b": "b", "h": "h", "i": "i", "l": "q", "q": "q", "B": "B", "H": "H", "I": "I", "L": "Q", "Q": "Q"}
_FLOAT_CODES = {"e": "e", "f": "f", "d": "d"}
_COMPLEX = {
    f"{name}complex<{kind}>": f"c{2 * size}"
    for name in ("", "pycuda::")
    for kind, size in (("float", 4), ("double", 8))
}

Getter = Callable[[Any], Any]


# ---- In, Out, InOut --------------------------------------------------------------------------------


class ArgumentHandler:
    """An array of the host as an argument: it gets device memory for the call.

    Parameters
    ----------
    ary
        The array.
    """

    def __init__(self, ary: Any) -> None:
        self.array = ary
        self.dev_alloc: DeviceAllocation | None = None

    def get_device_alloc(self) -> DeviceAllocation:
        """Return the device memory, of as many bytes as the array has."""
        if self.dev_alloc is None:
            size = getattr(self.array, "nbytes", None)
            if size is None:
                size = host_span(type(self).__name__, self.array)[1]
            self.dev_alloc = allocate(max(operator.index(size), 1))
        return self.dev_alloc

    def pre_call(self, stream: Any) -> None:
        """Prepare the device memory before the launch."""

    def post_call(self, stream: Any) -> None:
        """Copy the results after the launch."""


class In(ArgumentHandler):
    """An array that a kernel reads: ``In(array)``."""

    def pre_call(self, stream: Any) -> None:
        """Copy the array to the device."""
        if stream is None:
            memcpy_htod(self.get_device_alloc(), self.array)
        else:
            memcpy_htod_async(self.get_device_alloc(), self.array, stream)


class Out(ArgumentHandler):
    """An array that a kernel writes: ``Out(array)``."""

    def post_call(self, stream: Any) -> None:
        """Copy the array from the device, and wait for that."""
        if stream is None:
            memcpy_dtoh(self.array, self.get_device_alloc())
        else:
            memcpy_dtoh_async(self.array, self.get_device_alloc(), stream)
            stream.synchronize()


class InOut(In, Out):
    """An array that a kernel reads and writes: ``InOut(array)``."""


# ---- Parameters ------------------------------------------------------------------------------------


class KernelParameter(Slot):
    """A parameter of a kernel: converts an argument to a value of `struct`.

    Attributes
    ----------
    code
        The code of `struct` for the value, with padding to a multiple of 16 bytes.
    """

    def __init__(self, kernel: str, index: int, parameter: Parameter, size: int) -> None:
        super().__init__(kernel, index, parameter, size)
        dtype = self._dtype
        self.size = size = size or (8 if self._is_pointer else 0 if dtype is None else dtype.itemsize)
        char = "" if dtype is None or dtype.itemsize != size else dtype.char
        self._is_integer, self._is_float = char in _CODES, char in _FLOAT_CODES
        code = "Q" if self._is_pointer else _CODES.get(char) or _FLOAT_CODES.get(char) or f"{size}s"
        self.code = f"{code}{-size % 16}x"
        self._complex: Slot | None = None  # converts numbers to a complex one
        if dtype is None and parameter.element in _COMPLEX:
            declared = Parameter(
                "", "", "", pointer=False, const=False, dtype=np.dtype(_COMPLEX[parameter.element])
            )
            self._complex = Slot("", 0, declared)
            self._complex.title = self.title

    def packed_directly(self, kind: type) -> tuple[bool, Getter | None]:
        """Return whether `struct` packs arguments of a type, or those that the getter returns."""
        if self._is_pointer:
            if issubclass(kind, (int, np.integer, PointerHolderBase)):
                return True, None
            getter = getattr(kind, "_device_address", None)  # of arrays on the device
            return getter is not None, getter
        if self._is_integer:
            return issubclass(kind, (int, np.integer)) and not issubclass(kind, DeviceAllocation), None
        if self._is_float:
            numbers = (float, int, np.floating, np.integer)
            return issubclass(kind, numbers) and not issubclass(kind, DeviceAllocation), None
        return False, None

    def converted(self, argument: Any, handlers: list[ArgumentHandler]) -> Any:
        """Return the value that `struct` packs, or raise; In, Out and InOut are added to `handlers`."""
        if self._is_pointer:
            return self._address(argument, handlers)
        raw = self.value(argument)
        if self._is_integer or self._is_float:
            return np.frombuffer(raw, self._dtype)[0].item()
        return raw

    def _address(self, argument: Any, handlers: list[ArgumentHandler]) -> int:
        if isinstance(argument, ArgumentHandler):
            handlers.append(argument)
            return int(argument.get_device_alloc())
        if argument is None:
            return 0
        if isinstance(argument, (bool, np.bool_, float, np.floating)):
            raise TypeError(f"{self.title} is a pointer, and takes no {type(argument).__name__}")
        address = find_address(argument)
        if address is None and isinstance(argument, np.ndarray):
            raise TypeError(
                f"{self.title} is a pointer to device memory, and a NumPy array was given: give In(array), "
                "Out(array) or InOut(array), or copy it to the device"
            )
        if address is None:
            raise TypeError(
                f"{self.title} is a pointer: give device memory, an address, or In, Out or InOut of an "
                f"array, not a {type(argument).__name__}"
            )
        if not 0 <= address < 1 << 64:
            raise OverflowError(f"{self.title} is a pointer, and {address} is no address")
        return address

    def value(self, argument: Any) -> bytes:
        """Convert a value to the parameter's bytes, or raise."""
        if isinstance(argument, (DeviceAllocation, PointerHolderBase, ArgumentHandler)):
            raise TypeError(f"{self.title} is a value, and takes no {type(argument).__name__}")
        if isinstance(argument, (bytes, bytearray, memoryview)):
            return self._sized(bytes(argument), np.dtype("V"))
        if self._complex is not None:
            if isinstance(argument, (np.number, np.bool_)):
                argument = argument.item()
            if isinstance(argument, (int, float, complex)):
                return self._complex.value(argument)
        if isinstance(argument, (np.generic, np.ndarray)) and argument.dtype.names is None:
            if self._dtype is None and argument.nbytes == self.size:
                return argument.tobytes()
            if self._dtype is not None and argument.size == 1:
                return self._number(argument)
        return super().value(argument)

    def _number(self, argument: Any) -> bytes:
        """Convert a number of NumPy: an integer of another width if it fits, a float by rounding."""
        wanted = "" if self._dtype is None else self._dtype.kind
        taken = {"f": "fc", "c": "c"}.get(argument.dtype.kind, "iubfc")
        return super().value(argument.item() if wanted in taken else argument)


class UnknownParameter(KernelParameter):
    """A parameter of a kernel whose source is not known, as that of a PTX: its size may be known."""

    def __init__(self, kernel: str, index: int, size: int) -> None:
        parameter = Parameter("", f"{size} bytes", "", pointer=False, const=False, dtype=None)
        super().__init__(kernel, index, parameter, size)

    def packed_directly(self, kind: type) -> tuple[bool, Getter | None]:  # noqa: ARG002
        """Return that arguments are always converted."""
        return False, None

    def converted(self, argument: Any, handlers: list[ArgumentHandler]) -> Any:
        """Return the bytes of an argument; a pointer is known by its type."""
        if isinstance(argument, np.generic) and argument.nbytes == self.size:
            return argument.tobytes()
        if isinstance(argument, (float, np.floating)) and self.size in (4, 8):
            return np.dtype(f"f{self.size}").type(argument).tobytes()
        if isinstance(argument, (int, np.integer)) and not isinstance(argument, DeviceAllocation):
            number = int(argument)
            try:
                return number.to_bytes(self.size, "little", signed=number < 0)
            except OverflowError:
                raise OverflowError(f"{self.title}: {number} does not fit in {self.size} bytes") from None
        if isinstance(argument, (bytes, bytearray, memoryview)):
            return self._sized(bytes(argument), np.dtype("V"))
        if isinstance(argument, np.void):
            return self._sized(argument.tobytes(), np.dtype("V"))
        if self.size != 8:
            raise TypeError(f"{self.title} takes no {type(argument).__name__}")
        return self._address(argument, handlers).to_bytes(8, "little")
