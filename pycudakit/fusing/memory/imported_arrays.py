"""Import of the device arrays among a function's arguments, and allocation of results on their device.

Each group of overlapping device arrays gets a host copy: a host range of the same size, whose address
names the device buffer in the C library's residency table. Its pages are touched only when values must be
copied to the host.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.cuda_libraries import (
    LEGACY_STREAM,
    allocator_for,
    has_one_device,
    library_of_type,
)
from pycudakit._interop.device_view import DeviceView, as_device_view
from pycudakit._interop.memory_layout import contiguous_strides
from pycudakit._native import hardware
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context
from pycudakit.fusing.memory.buffer import ImportedBuffer
from pycudakit.fusing.memory.buffers import BufferTable

_ALIGNMENT = 256  # bytes: host copies have the alignment of their device buffers
_LARGE = 1 << 20  # bytes: a new allocation of this size can take as long as the rest of a call


class _FreeHostCopy:
    """A host copy that a call has returned, and that is free once no array of it is left.

    The views of an allocation end at an array that is made for one call, over a memoryview of the memory. So
    the memory is free when that array is gone.
    """

    def __init__(self, host_copy: Array) -> None:
        self.memory: Any = host_copy.base
        self.size = host_copy.size
        self.in_use = weakref.ref(host_copy)


# Large host copies whose pages were never touched, for reuse by later calls.
_free_host_copies: deque[_FreeHostCopy] = deque(maxlen=8)
hardware.on_release.append(_free_host_copies.clear)


class ImportedArrays:
    """The device arrays of one call, imported at its start and returned to their owners at its end.

    Parameters
    ----------
    buffers
        The call's buffer table.
    values
        Device arrays of other libraries.
    """

    def __init__(self, buffers: BufferTable, values: Sequence[Any]) -> None:
        self._buffers = buffers
        buffers.scope.has_imports = True
        self._imported: list[ImportedBuffer] = []
        self._first = values[0]
        self._arrays: dict[int, Array] = {}
        views = map(as_device_view, values)
        self._views = [view for view in views if view is not None]  # kept alive during the call
        self._import(self._views)
        devices = {0} if has_one_device() else {buffer.device() for buffer in self._imported}
        if len(devices) > 1:
            listed = " and ".join(map(str, sorted(devices)))
            raise errors.InvalidArgument(f"the arrays are on GPUs {listed}: copy them to one GPU first")
        self.device = min(devices, default=0)

    def has(self, value: Any) -> bool:
        """Return True if an object is one of the imported arrays."""
        return id(value) in self._arrays

    def array_of(self, value: Any) -> Array:
        """Return the array on the host of an object."""
        return self._arrays[id(value)]

    def new(self, shape: tuple[int, ...], dtype: DType) -> tuple[Any, Array] | None:
        """Allocate an array of the first array's library; return it with its array on the host.

        Return None if that library's arrays are immutable.
        """
        make = allocator_for(self._first)
        if make is None:
            return None
        array = make(shape, dtype, self._first)
        library = library_of_type(type(array))
        if library is None:
            view = as_device_view(array)
        else:  # faster than an inspection of the new array
            strides = contiguous_strides(shape, dtype.itemsize)
            address, stream = library.address_of(array), self._views[0].stream
            view = DeviceView(array, address, shape, strides, dtype, stream=stream)
        if view is None:
            return None
        if (view.stream or LEGACY_STREAM) != self._buffers.stream:
            self._buffers.scope.enqueue_on(
                0
            )  # synchronize: a reader in the new array's stream waits for that stream only
        if self._buffers.scope.listener is not None:
            self._buffers.scope.listener.on_allocated(array, view.address, shape, dtype)
        self._import([view])
        return array, self.array_of(array)

    def enter_async(self) -> None:
        """Make the call asynchronous, in the stream of its arrays, if they have one and `wait` is off.

        This needs libraries whose allocators are stream-ordered: others may free memory before enqueued
        work has finished.
        """
        streams = {stream for buffer in self._imported for stream in buffer.streams}
        are_in_order = all(library_of_type(type(each.owner)) is not None for each in self._views)
        if are_in_order and len(streams) == 1 and not context.current_context.get().wait:
            self._buffers.scope.enqueue_on(*streams)

    def return_to_owners(self) -> None:
        """Return all buffers to their owners, with the newest values."""
        while self._imported:
            buffer = self._imported.pop()
            buffer.return_to_owner()
            if buffer.was_never_registered and buffer.owner.nbytes > _LARGE:
                _free_host_copies.append(_FreeHostCopy(buffer.owner))

    def _import(self, arrays: Sequence[DeviceView]) -> None:
        for group, low, high in _overlapping_groups(arrays):
            host_copy = _allocate_host_copy(high - low + _ALIGNMENT)
            start = (low - address_of(host_copy)) % _ALIGNMENT
            memory = host_copy[start : start + high - low]
            for array in group:
                self._arrays[id(array.owner)] = _view_of_host_copy(memory, array, low)
            if high > low:
                streams = {array.stream or LEGACY_STREAM for array in group}
                if self._buffers.scope.listener is not None:
                    self._buffers.scope.listener.keep_alive(host_copy)
                buffer = ImportedBuffer(memory, self._buffers.scope, low, streams)
                self._buffers.add_imported(buffer)
                self._imported.append(buffer)


def _allocate_host_copy(size: int) -> Array:
    """Return a host copy of `size` bytes, a free one if possible."""
    for _ in range(len(_free_host_copies) if size > _LARGE else 0):
        try:
            free = _free_host_copies.popleft()
        except IndexError:  # another thread took it
            break
        if free.size == size and free.in_use() is None:
            return np.frombuffer(free.memory, np.uint8)
        _free_host_copies.append(free)
    return np.frombuffer(np.empty(size, np.uint8).data, np.uint8)


def _view_of_host_copy(memory: Array, array: DeviceView, low: int) -> Array:
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    view: Array = np.ndarray(array.shape, array.dtype, memory, array.address - low, array.strides)
    view.flags.writeable = not array.is_readonly
    return view


def _overlapping_groups(arrays: Sequence[DeviceView]) -> list[tuple[list[DeviceView], int, int]]:
    """Group arrays by overlapping memory; return each group with its begin and end addresses."""
    if len(arrays) == 1:
        return [([*arrays], *arrays[0].extent())]
    groups: list[tuple[list[DeviceView], int, int]] = []
    for (low, high), array in sorted([(each.extent(), each) for each in arrays], key=lambda each: each[0]):
        if groups and low < groups[-1][2]:
            group, begin, end = groups.pop()
            groups.append(([*group, array], begin, max(end, high)))
        else:
            groups.append(([array], low, high))
    return groups
