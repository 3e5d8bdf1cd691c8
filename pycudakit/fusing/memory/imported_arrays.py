"""Arrays on a GPU among the arguments of a function: what stands for them, and results beside them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.cuda_libraries import (
    ALLOCATORS,
    LEGACY_STREAM,
    byte_extent,
    has_one_device,
    library_of_type,
)
from pycudakit._interop.device_view import DeviceView, as_device_view, contiguous_strides
from pycudakit._interop.foreign_arrays import library_of
from pycudakit._native import hardware
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context
from pycudakit.fusing.memory.buffer import ImportedBuffer
from pycudakit.fusing.memory.buffers import BufferTable

_ALIGNED = 256  # bytes: an array is aligned on the host as it is on the device
_LARGE = 1 << 20  # bytes, which the system is asked for: that can take as long as the rest of a call

# The host's memory that nobody touched while it stood for large arrays, for those of the next calls.
_rooms: deque[Array] = deque(maxlen=8)
hardware.on_release.append(_rooms.clear)


class ImportedArrays:
    """The device arrays of a call, which begins and ends with it.

    Parameters
    ----------
    memory
        Of the call.
    values
        Other libraries' objects, each of which lies on a device.
    """

    def __init__(self, buffers: BufferTable, values: Sequence[Any]) -> None:
        self._buffers = buffers
        buffers.scope.has_imports = True
        self._imported: list[ImportedBuffer] = []
        self._first = values[0]
        self._arrays: dict[int, Array] = {}
        found = map(as_device_view, values)
        self._found = [known for known in found if known is not None]  # which live as long
        self._import(self._found)
        devices = {0} if has_one_device() else {buffer.device() for buffer in self._imported}
        if len(devices) > 1:
            listed = " and ".join(map(str, sorted(devices)))
            raise errors.InvalidArgument(f"the arrays lie on GPUs {listed}: bring them to one of them first")
        self.device = min(devices, default=0)

    def has(self, value: Any) -> bool:
        """Tell whether an object is one of them."""
        return id(value) in self._arrays

    def array_of(self, value: Any) -> Array:
        """Return the array that stands for an object."""
        return self._arrays[id(value)]

    def new(self, shape: tuple[int, ...], dtype: DType) -> tuple[Any, Array] | None:
        """Return a new object of the first one's library, and the array that stands for it.

        None if that library has no arrays which others may write.
        """
        make = ALLOCATORS.get(library_of(self._first))
        if make is None:
            return None
        made = make(shape, dtype, self._first)
        library = library_of_type(type(made))
        if library is None:
            known = as_device_view(made)
        else:  # of which a look would take longer
            strides = contiguous_strides(shape, dtype)
            address, stream = library.address_of(made), self._found[0].stream
            known = DeviceView(made, address, shape, strides, dtype, stream=stream)
        if known is None:
            return None
        if (known.stream or LEGACY_STREAM) != self._buffers.stream:
            self._buffers.scope.enqueue_on(0)  # whoever reads it there waits for its own stream alone
        if self._buffers.scope.listener is not None:
            self._buffers.scope.listener.on_allocated(made, known.address, shape, dtype)
        self._import([known])
        return made, self.array_of(made)

    def enter_async(self) -> None:
        """Have calls queued where the arrays' values come, if that is one stream, and nobody is to wait.

        Memory of other libraries may be freed before what was queued is done.
        """
        streams = {stream for buffer in self._imported for stream in buffer.streams}
        are_in_order = all(library_of_type(type(each.owner)) is not None for each in self._found)
        if are_in_order and len(streams) == 1 and not context.current_context.get().wait:
            self._buffers.scope.enqueue_on(*streams)

    def return_to_owners(self) -> None:
        """Leave all to their owners, with the newest values."""
        while self._imported:
            buffer = self._imported.pop()
            buffer.return_to_owner()
            if buffer.was_never_registered and buffer.owner.nbytes > _LARGE:
                _rooms.append(buffer.owner)

    def _import(self, arrays: Sequence[DeviceView]) -> None:
        for group, low, high in _overlapping_groups(arrays):
            room = _room(high - low + _ALIGNED)
            start = (low - address_of(room)) % _ALIGNED
            memory = room[start : start + high - low]
            for array in group:
                self._arrays[id(array.owner)] = _standing(memory, array, low)
            if high > low:
                streams = {array.stream or LEGACY_STREAM for array in group}
                if self._buffers.scope.listener is not None:
                    self._buffers.scope.listener.keep_alive(room)
                buffer = ImportedBuffer(memory, self._buffers.scope, low, streams)
                self._buffers.add_imported(buffer)
                self._imported.append(buffer)


def _room(size: int) -> Array:
    """Return as much of the host's memory."""
    for _ in range(len(_rooms) if size > _LARGE else 0):
        try:
            room = _rooms.popleft()
        except IndexError:  # another thread has them
            break
        if room.size == size and sys.getrefcount(room) == 2:  # `room`, and what is given here
            return room
        _rooms.append(room)
    return np.empty(size, np.uint8)


def _standing(memory: Array, array: DeviceView, low: int) -> Array:
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    view: Array = np.ndarray(array.shape, array.dtype, memory, array.address - low, array.strides)
    view.flags.writeable = not array.is_readonly
    return view


def _extent(array: DeviceView) -> tuple[int, int]:
    """Return where its memory begins and ends."""
    if 0 in array.shape:
        return 0, 0
    low, high = byte_extent(array.shape, array.strides)
    return array.address + low, array.address + high + array.dtype.itemsize


def _overlapping_groups(arrays: Sequence[DeviceView]) -> list[tuple[list[DeviceView], int, int]]:
    """Return them in groups whose memory overlaps, and where that begins and ends."""
    if len(arrays) == 1:
        return [([*arrays], *_extent(arrays[0]))]
    groups: list[tuple[list[DeviceView], int, int]] = []
    for (low, high), array in sorted([(_extent(each), each) for each in arrays], key=lambda each: each[0]):
        if groups and low < groups[-1][2]:
            group, begin, end = groups.pop()
            groups.append(([*group, array], begin, max(end, high)))
        else:
            groups.append(([array], low, high))
    return groups
