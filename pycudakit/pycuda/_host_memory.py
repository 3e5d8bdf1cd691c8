"""Host memory: the bytes of arrays and buffers, and page-locked, aligned, managed and registered arrays."""

from __future__ import annotations

import ctypes
import math
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit.pycuda import _engine
from pycudakit.pycuda._device import current_device
from pycudakit.pycuda._errors import LogicError
from pycudakit.pycuda._memory import HostBytes, HostPointer, managed_memory

Array = np.ndarray[Any, Any]


def host_span(name: str, memory: Any, *, writes: bool = False) -> tuple[int, int, Any]:
    """Return the address and the bytes of contiguous host memory, and the object that keeps it alive."""
    if type(memory) is np.ndarray or isinstance(memory, (np.ndarray, np.generic)):
        array = memory if isinstance(memory, np.ndarray) else np.asarray(memory)
        flags = array.flags
        if not (flags.c_contiguous or flags.f_contiguous):
            raise ValueError(f"{name}: the array is not contiguous: copy it, as with .copy()")
        if writes and not flags.writeable:
            raise ValueError(f"{name}: the array is read-only")
        if array.dtype.hasobject:
            raise TypeError(f"{name}: an array of {array.dtype} holds Python objects")
        address = abi.address_of_dense if flags.c_contiguous else abi.address_of
        return address(array), array.nbytes, array
    try:
        view = memoryview(memory)
    except TypeError:
        raise TypeError(f"{name} takes an array or a buffer of the host, not a {_type(memory)}") from None
    if writes and view.readonly:
        raise ValueError(f"{name}: the buffer is read-only")
    if not view.contiguous:
        raise ValueError(f"{name}: the buffer is not contiguous")
    if not view.c_contiguous:  # an array in Fortran's order
        return host_span(name, np.asarray(view))
    array = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    return array.ctypes.data, array.nbytes, array


def _type(memory: Any) -> str:
    return type(memory).__name__


# ---- Arrays ----------------------------------------------------------------------------------------


def _lengths(shape: Any) -> tuple[int, ...]:
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(operator.index(length) for length in shape)


def array_in(shape: Any, dtype: Any, order: str, memory_of: Callable[[int], HostBytes]) -> Array:
    """Return an array in the memory that `memory_of` makes of a number of bytes."""
    lengths, kind = _lengths(shape), np.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"an array of {kind} holds Python objects, which a device cannot access")
    if min(lengths, default=0) < 0:
        raise ValueError(f"shape is {shape!r}; sizes are not negative")
    size = math.prod(lengths) * kind.itemsize
    array: Array = memory_of(max(size, 1)).array(lengths, kind, _order(order))
    return array


def _order(order: str) -> Any:
    if order not in ("C", "F"):
        raise ValueError(f"order is {order!r}; it is 'C' or 'F'")
    return order


def _order_of(array: Array) -> str:
    if array.flags.c_contiguous:
        return "C"
    if array.flags.f_contiguous:
        return "F"
    raise ValueError("the array is not contiguous, so that it has no order")


class PagelockedHostAllocation(HostPointer):
    """Page-locked memory."""

    _release: Any = None
    _flags = 0

    def free(self) -> None:
        """Free the memory; arrays in it must not be used any more."""
        if self._release is None or not self._release.alive:
            raise LogicError("the memory was freed already")
        self._release()

    def get_flags(self) -> int:
        """Return the flags that it was made with."""
        return self._flags


class AlignedHostAllocation(HostPointer):
    """Ordinary memory at an aligned address."""

    def free(self) -> None:
        """Do nothing: the memory is freed with the last array in it."""


class RegisteredHostMemory(HostPointer):
    """Page-locked memory of an ordinary array, until `unregister`."""

    _release: Any = None
    base: Any = None

    def unregister(self) -> None:
        """Make it ordinary memory again."""
        if self._release is None or not self._release.alive:
            raise LogicError("the memory was unregistered already")
        self._release()


def _return_pinned(engine: _engine.Engine, address: int, device: int) -> None:
    # Copies from and to the memory may be pending.
    engine.give_back("device_synchronize", device)
    engine.give_back("pinned_return", address)


def _finalizer(owner: HostPointer, function: Callable[..., None], *arguments: Any) -> Any:
    finalizer = weakref.finalize(owner, function, *arguments)
    finalizer.atexit = False
    return finalizer


def _pagelocked(size: int, flags: int) -> PagelockedHostAllocation:
    engine, device = _engine.current(), current_device()
    release: tuple[Any, ...]
    if engine.is_cpu:  # the device's memory, so that kernels may access it
        address = engine.allocate(device, size, 0)
        release = engine.give_back, "device_memory_free", address
    else:
        taken = ctypes.c_uint64()
        engine.pinned_take(size, ctypes.byref(taken))
        address = taken.value
        release = _return_pinned, engine, address, device
    owner = PagelockedHostAllocation(address, size)
    owner._flags = flags  # noqa: SLF001
    owner._release = _finalizer(owner, *release)  # noqa: SLF001
    return owner


def pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Array:
    """Return an array in page-locked memory, which asynchronous copies take."""
    return array_in(shape, dtype, order, lambda size: _pagelocked(size, mem_flags))


def pagelocked_zeros(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Array:
    """Return an array of zeros in page-locked memory."""
    result = pagelocked_empty(shape, dtype, order, mem_flags)
    result.fill(0)
    return result


def pagelocked_empty_like(array: Array, mem_flags: int = 0) -> Array:
    """Return an array in page-locked memory, of the shape, dtype and order of another."""
    return pagelocked_empty(array.shape, array.dtype, _order_of(array), mem_flags)


def pagelocked_zeros_like(array: Array, mem_flags: int = 0) -> Array:
    """Return an array of zeros in page-locked memory, of the shape, dtype and order of another."""
    return pagelocked_zeros(array.shape, array.dtype, _order_of(array), mem_flags)


def aligned_empty(shape: Any, dtype: Any, order: str = "C", alignment: int = 4096) -> Array:
    """Return an array at an address that is a multiple of `alignment`, a power of two."""
    step = operator.index(alignment)
    if step < 1 or step & (step - 1):
        raise ValueError(f"alignment is {alignment}; it is a power of two")

    def memory(size: int) -> AlignedHostAllocation:
        whole = np.empty(size + step, np.uint8)
        begin = -whole.ctypes.data % step
        return AlignedHostAllocation(whole.ctypes.data + begin, size, whole)

    return array_in(shape, dtype, order, memory)


def aligned_zeros(shape: Any, dtype: Any, order: str = "C", alignment: int = 4096) -> Array:
    """Return an array of zeros at an aligned address."""
    result = aligned_empty(shape, dtype, order, alignment)
    result.fill(0)
    return result


def aligned_empty_like(array: Array, alignment: int = 4096) -> Array:
    """Return an array at an aligned address, of the shape, dtype and order of another."""
    return aligned_empty(array.shape, array.dtype, _order_of(array), alignment)


def aligned_zeros_like(array: Array, alignment: int = 4096) -> Array:
    """Return an array of zeros at an aligned address, of the shape, dtype and order of another."""
    return aligned_zeros(array.shape, array.dtype, _order_of(array), alignment)


def managed_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Array:  # noqa: ARG001
    """Return an array in managed memory, which kernels take as an argument."""
    return array_in(shape, dtype, order, managed_memory)


def managed_zeros(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Array:
    """Return an array of zeros in managed memory."""
    return managed_empty(shape, dtype, order, mem_flags)  # which begins as zeros


def managed_empty_like(array: Array, mem_flags: int = 0) -> Array:
    """Return an array in managed memory, of the shape, dtype and order of another."""
    return managed_empty(array.shape, array.dtype, _order_of(array), mem_flags)


def managed_zeros_like(array: Array, mem_flags: int = 0) -> Array:
    """Return an array of zeros in managed memory, of the shape, dtype and order of another."""
    return managed_zeros(array.shape, array.dtype, _order_of(array), mem_flags)


def register_host_memory(ary: Array, flags: int = 0) -> Array:  # noqa: ARG001
    """Page-lock the memory of an array; return an array whose base has `unregister`."""
    address, size, kept = host_span("register_host_memory", ary)
    if not size:
        raise LogicError("register_host_memory: the array is empty")
    engine = _engine.current()
    engine.host_memory_register(address, size)
    owner = RegisteredHostMemory(address, size)
    owner.base = kept
    owner._release = _finalizer(owner, engine.give_back, "host_memory_unregister", address)  # noqa: SLF001
    array: Array = owner.array(ary.shape, ary.dtype, _order_of(ary))
    return array
