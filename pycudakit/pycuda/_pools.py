"""PyCUDA's memory pools: freed blocks are kept, by size, for later allocations."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from pycudakit.pycuda import _engine, _host_memory
from pycudakit.pycuda._errors import LogicError, MemoryError
from pycudakit.pycuda._memory import DeviceAllocation, HostPointer, allocate

_Block = TypeVar("_Block")
_LEADING_BITS = 4  # of a size, by which blocks are sorted: sizes of a bin differ by at most 1/16


def bitlog2(value: int) -> int:
    """Return the position of the highest bit of a number: the logarithm to base 2, rounded down."""
    return max(0, int(value).bit_length() - 1)


class _Pool(Generic[_Block]):
    """Blocks that are in use or are kept for reuse; the subclasses say where they come from."""

    def __init__(self, new_block: Callable[[int], _Block]) -> None:
        self._new_block = new_block
        self._held: dict[int, list[_Block]] = {}  # by capacity
        self._lock = threading.RLock()  # since a garbage collection inside may give blocks back
        self._is_holding = True
        self.held_blocks = 0
        self.active_blocks = 0
        self.managed_bytes = 0
        self.active_bytes = 0

    @staticmethod
    def bin_number(size: int) -> int:
        """Return the number of the bin of a size: the place of its highest bit, and the bits below it."""
        place = bitlog2(size)
        shift = place - _LEADING_BITS
        leading = size >> shift if shift >= 0 else size << -shift
        return place << _LEADING_BITS | leading & ((1 << _LEADING_BITS) - 1)

    @staticmethod
    def alloc_size(bin: int) -> int:
        """Return the size of a bin's blocks, the largest one that belongs there."""
        shift = (bin >> _LEADING_BITS) - _LEADING_BITS
        leading = 1 << _LEADING_BITS | bin & ((1 << _LEADING_BITS) - 1)
        return (leading + 1 << shift) - 1 if shift >= 0 else leading >> -shift

    def _capacity(self, size: int) -> int:
        return self.alloc_size(self.bin_number(size))

    def _take(self, size: int) -> _Block:
        capacity = self._capacity(size)
        with self._lock:
            held = self._held.get(capacity)
            if held:
                block = held.pop()
                self.held_blocks -= 1
            else:
                try:
                    block = self._new_block(capacity)
                except MemoryError:
                    self.free_held()
                    block = self._new_block(capacity)
                self.managed_bytes += capacity
            self.active_blocks += 1
            self.active_bytes += size
        return block

    def take_back(self, block: _Block, size: int) -> None:
        """Keep a block of `size` bytes that is not used any more, or free it."""
        capacity = self._capacity(size)
        with self._lock:
            self.active_blocks -= 1
            self.active_bytes -= size
            if self._is_holding:
                self._held.setdefault(capacity, []).append(block)
                self.held_blocks += 1
            else:
                self.managed_bytes -= capacity

    def free_held(self) -> None:
        """Free all blocks that are kept."""
        with self._lock:
            self.managed_bytes -= sum(capacity * len(blocks) for capacity, blocks in self._held.items())
            self._held.clear()
            self.held_blocks = 0

    def stop_holding(self) -> None:
        """Free all blocks that are kept, and from now on each block as it is given back."""
        self._is_holding = False
        self.free_held()


class PooledDeviceAllocation(DeviceAllocation):
    """Device memory of a pool, which it is given back to when the object dies."""

    _pool: DeviceMemoryPool
    _block: DeviceAllocation

    @classmethod
    def of(cls, pool: DeviceMemoryPool, block: DeviceAllocation, nbytes: int) -> PooledDeviceAllocation:
        """Own a block of a pool."""
        allocation = cls(int(block), nbytes, _engine.current())
        allocation._pool, allocation._block = pool, block
        return allocation

    def free(self) -> None:
        """Give the memory back to the pool now."""
        self.require_live()
        self._is_live = False
        self._pool.take_back(self._block, self.nbytes)

    def __del__(self) -> None:
        """Give the memory back, unless that was done."""
        if getattr(self, "_is_live", False):
            with contextlib.suppress(Exception):  # at the end of the process
                self.free()

    def __len__(self) -> int:
        """Return the size in bytes."""
        return self.nbytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.nbytes


class DeviceMemoryPool(_Pool[DeviceAllocation]):
    """A pool of device memory; `allocate` is an allocator of GPUArrays."""

    def __init__(self) -> None:
        super().__init__(lambda size: allocate(size, zeros=False))

    def allocate(self, size: int) -> PooledDeviceAllocation:
        """Return device memory of `size` bytes, whose contents are unspecified."""
        if size < 1:
            raise LogicError(f"DeviceMemoryPool.allocate: {size} bytes; give a number from 1")
        return PooledDeviceAllocation.of(self, self._take(size), size)

    def __call__(self, size: int) -> PooledDeviceAllocation:
        """Return device memory of `size` bytes: a pool is an allocator, too."""
        return self.allocate(size)


class PageLockedAllocator:
    """An allocator of page-locked host memory."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags

    def allocate(self, size: int) -> Any:
        """Return an array of `size` bytes."""
        return _host_memory.pagelocked_empty(size, np.uint8, mem_flags=self.flags)


class PooledHostAllocation(HostPointer):
    """Page-locked memory of a pool: the base of an array, which gives it back when it dies."""

    def __init__(self, pool: PageLockedMemoryPool, block: Any, size: int) -> None:
        super().__init__(block.ctypes.data, size)
        self.size = size
        self._pool, self._block = pool, block

    def __len__(self) -> int:
        """Return the size in bytes."""
        return self.size

    def free(self) -> None:
        """Give the memory back now; arrays in it must not be used any more."""
        if self._block is None:
            raise LogicError(f"page-locked memory of {self.size} bytes was given back already")
        block, self._block = self._block, None
        self._pool.take_back(block, self.size)

    def __del__(self) -> None:
        """Give the memory back, unless that was done."""
        if getattr(self, "_block", None) is not None:
            with contextlib.suppress(Exception):  # at the end of the process
                self.free()


class PageLockedMemoryPool(_Pool[Any]):
    """A pool of page-locked host memory."""

    def __init__(self, allocator: PageLockedAllocator | None = None) -> None:
        super().__init__((allocator or PageLockedAllocator()).allocate)

    def allocate(self, shape: Any, dtype: Any, order: str = "C") -> Any:
        """Return an array in page-locked memory, whose values are unspecified."""
        return _host_memory.array_in(shape, dtype, order, self._memory)

    def _memory(self, size: int) -> PooledHostAllocation:
        return PooledHostAllocation(self, self._take(size), size)
