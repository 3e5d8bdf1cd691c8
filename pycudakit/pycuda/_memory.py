"""Device memory: allocations, managed memory, and the addresses that arguments name."""

from __future__ import annotations

import ctypes
import operator
from typing import Any

import numpy as np

from pycudakit._native import abi_objects
from pycudakit.pycuda import _engine
from pycudakit.pycuda._array_layout import contiguous_strides
from pycudakit.pycuda._device import current_device, memory_info
from pycudakit.pycuda._errors import LogicError


def _buffer(address: int, size: int, offset: int) -> memoryview:
    kind: Any = ctypes.c_char * operator.index(size)
    return memoryview(kind.from_address(address + operator.index(offset))).cast("B")


class DeviceAllocation(int):
    """Device memory, which is freed when the object dies. It is its address: arithmetic gives an int."""

    nbytes: int
    _is_live = False
    _owner: _engine.Engine

    def __new__(cls, address: int, nbytes: int, engine: _engine.Engine) -> DeviceAllocation:  # noqa: PYI034
        """Own memory of `nbytes` bytes at an address that the engine has allocated."""
        allocation = super().__new__(cls, address)
        allocation.nbytes = nbytes
        allocation._is_live = True
        allocation._owner = engine
        return allocation

    def free(self) -> None:
        """Free the memory now."""
        self.require_live()
        _engine.current()  # or LogicError
        self._is_live = False
        self._owner.device_memory_free(int(self))

    def require_live(self) -> None:
        """Raise LogicError if the memory was freed."""
        if not self._is_live:
            raise LogicError(f"memory of {self.nbytes} bytes at {int(self):#x} was freed already")

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """Return a buffer over the memory; on a GPU, the host can access it if it is managed memory."""
        return _buffer(int(self), size, offset)

    def __del__(self) -> None:
        """Free the memory, unless that was done."""
        if self._is_live:
            self._is_live = False
            self._owner.give_back_memory(self)

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        raise TypeError("device memory cannot be pickled: copy it to the host")

    def __copy__(self) -> DeviceAllocation:
        """Return the object itself."""
        return self

    def __deepcopy__(self, memo: Any) -> DeviceAllocation:
        """Return the object itself."""
        return self

    def __repr__(self) -> str:
        """Return the address and the size."""
        return f"<DeviceAllocation of {self.nbytes} bytes at {int(self):#x}>"

    __str__ = __repr__


class PointerHolderBase:
    """The base of classes that hold an address of device memory; they define `get_pointer`."""

    def get_pointer(self) -> int:
        """Return the address."""
        raise NotImplementedError("a class below PointerHolderBase defines get_pointer")

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """Return a buffer over the memory."""
        return _buffer(int(self.get_pointer()), size, offset)

    def __int__(self) -> int:
        """Return the address."""
        return int(self.get_pointer())

    def __index__(self) -> int:
        """Return the address."""
        return int(self.get_pointer())


def allocate(nbytes: int, *, zeros: bool = True) -> DeviceAllocation:
    """Allocate memory of the current device, as zeros or with contents that are unspecified."""
    flags = abi_objects.MEMORY_ZEROS if zeros else 0
    engine = _engine.current()
    return DeviceAllocation(engine.allocate(current_device(), nbytes, flags), nbytes, engine)


def mem_alloc(bytes: int) -> DeviceAllocation:
    """Allocate memory of the current device, aligned to 256 bytes; it begins as zeros."""
    return allocate(_size("mem_alloc", bytes))


def mem_alloc_like(ary: Any) -> DeviceAllocation:
    """Allocate as many bytes as an array has."""
    return mem_alloc(ary.nbytes)


_PITCH_ALIGNMENT = 512


def mem_alloc_pitch(width: int, height: int, access_size: int) -> tuple[DeviceAllocation, int]:
    """Allocate `height` rows of at least `width` bytes; return the memory and the pitch of its rows."""
    width, height = _size("mem_alloc_pitch", width), _size("mem_alloc_pitch", height)
    if access_size not in (4, 8, 16):
        raise LogicError(f"mem_alloc_pitch: access_size is {access_size}; it is 4, 8 or 16")
    pitch = -(-width // _PITCH_ALIGNMENT) * _PITCH_ALIGNMENT
    return mem_alloc(pitch * height), pitch


def _size(function: str, size: Any) -> int:
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"{function} takes a number of bytes, not a {type(size).__name__}") from None
    if not 0 < number < 1 << 62:
        raise LogicError(f"{function}: {number} bytes; give a number from 1")
    return number


def mem_get_info() -> tuple[int, int]:
    """Return the free and the total bytes of the current device's memory."""
    return memory_info(current_device())


def mem_get_address_range(ptr: Any) -> tuple[int, int]:
    """Return the begin and the size of the allocation that contains an address."""
    begin, size, device = ctypes.c_uint64(), ctypes.c_int64(), ctypes.c_int64()
    _engine.current().device_memory_find(
        address_of(ptr), ctypes.byref(begin), ctypes.byref(size), ctypes.byref(device)
    )
    return begin.value, size.value


def address_of(pointer: Any) -> int:
    """Return the address that an argument names: memory, a number, or an array on the device."""
    address = find_address(pointer)
    if address is not None:
        return address
    if isinstance(pointer, np.ndarray):
        raise TypeError("device memory is wanted, and a NumPy array was given: copy it by memcpy_htod")
    raise TypeError(f"device memory is wanted, not a {type(pointer).__name__}")


def find_address(pointer: Any) -> int | None:
    """Return the address that an argument names, or None if it names none; an empty array's is 0."""
    if isinstance(pointer, int):
        return int(pointer)
    interface = getattr(pointer, "__cuda_array_interface__", None)
    if interface is not None:
        return int(interface["data"][0])
    if isinstance(pointer, np.ndarray):
        return managed_address(pointer)
    if hasattr(pointer, "gpudata"):
        pointer = 0 if pointer.gpudata is None else pointer.gpudata
    try:
        return operator.index(pointer)
    except TypeError:
        return None


class HostBytes:
    """Memory at a host address: the base of arrays in it, which keep it alive, and `owner`."""

    def __init__(self, address: int, nbytes: int, owner: Any = None) -> None:
        self.address, self.owner = address, owner
        self._describe((nbytes,), "|u1", None)

    def _describe(self, shape: tuple[int, ...], typestr: str, strides: tuple[int, ...] | None) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (self.address, False),
        }

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], order: Any = "C") -> Any:
        """Return an array in the memory, whose base is this object, or an array that has it as base."""
        if dtype.kind == "V":  # a name of a type does not say its fields
            return np.ndarray(shape, dtype, np.asarray(self), order=order)
        self._describe(shape, dtype.str, contiguous_strides(dtype.itemsize, shape, order))
        return np.asarray(self)


class HostPointer(HostBytes):
    """Host memory that a device accesses."""

    def get_device_pointer(self) -> int:
        """Return the address at which kernels access the memory."""
        return self.address


class ManagedAllocation(HostPointer, PointerHolderBase):
    """Memory that the host and the device access at one address."""

    def get_pointer(self) -> int:
        """Return the address."""
        return self.address

    def free(self) -> None:
        """Free the memory; arrays in it must not be used any more."""
        self.owner.free()

    def attach(self, mem_flags: int, stream: Any = None) -> None:
        """Do nothing: the whole device may access the memory."""


def managed_memory(nbytes: int) -> ManagedAllocation:
    """Allocate managed memory."""
    flags = abi_objects.MEMORY_ZEROS | abi_objects.MEMORY_MANAGED
    engine = _engine.current()
    address = engine.allocate(current_device(), nbytes, flags)
    return ManagedAllocation(address, nbytes, DeviceAllocation(address, nbytes, engine))


def managed_address(array: Any) -> int | None:
    """Return the address of an array in managed memory, or None if it is in other memory."""
    owner = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return int(array.ctypes.data) if isinstance(owner, ManagedAllocation) else None
