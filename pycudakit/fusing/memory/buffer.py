"""The memory of arrays while a function is fused: whose it is, and where its newest values are."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from pycudakit._native.abi import IMPORT_DEVICE_VALID, IMPORT_HOST_VALID, address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.residency import ResidencyScope

_MIN_TRACERS = 64  # tracers, of which those that are no more are then forgotten


class Buffer:
    """Memory that arrays are views of.

    Parameters
    ----------
    array
        One that lies in it.
    scope
        What knows of it on the device.
    is_given
        Whether it is the caller's.
    """

    __slots__ = (
        "__weakref__",
        "begin",
        "double_buffer",
        "end",
        "full_view",
        "has_escaped",
        "is_caller_owned",
        "is_resident",
        "max_tracers",
        "may_be_resident",
        "may_double_buffer",
        "overlapping_writes",
        "owner",
        "scalar_reads",
        "scope",
        "tracers",
    )

    def __init__(self, array: Array, scope: ResidencyScope, is_caller_owned: bool = False) -> None:
        self.owner = owner_of(array)
        self.scope = scope
        self.is_caller_owned = is_caller_owned
        self.may_be_resident = True
        self.is_resident = False  # on the device
        self.scalar_reads = 0  # elements that were asked for one by one
        self.has_escaped = False  # with others, who may write to it unseen
        self.overlapping_writes = 0  # writes that read other elements of it
        self.double_buffer: Any = None  # its Twin
        self.may_double_buffer = is_caller_owned  # to a twin: what stands for its arrays is remembered
        self.tracers: list[weakref.ref[Any]] = []
        self.max_tracers = _MIN_TRACERS
        self.full_view: Array | None = None  # what is all of it, side by side
        self.begin, self.end = byte_bounds(array)

    def __del__(self) -> None:
        """Let the device forget it."""
        if self.is_resident:
            self.scope.drop(self.begin)

    def extend(self, array: Array) -> None:
        """Learn of another array that lies in it."""
        first, last = byte_bounds(array)
        if self.begin == self.end:
            self.begin, self.end = first, last
        elif first < last:
            self.begin, self.end = min(first, self.begin), max(last, self.end)
        if array.flags.c_contiguous and (first, last) == (self.begin, self.end):
            self.full_view = array

    def add_tracer(self, tracer: Any) -> None:
        """Learn of what stands for an array in it."""
        tracers = self.tracers
        if self.may_double_buffer:
            if len(tracers) >= self.max_tracers:
                tracers[:] = [ref for ref in tracers if ref() is not None]
                self.max_tracers = max(_MIN_TRACERS, 2 * len(tracers))
            tracers.append(weakref.ref(tracer))

    def make_resident(self, intent: int) -> None:
        """Let the device keep it, if it has room."""
        if not self.is_resident and self.may_be_resident:
            self.is_resident = self.scope.make_resident(self.begin, self.end - self.begin, intent)
            if self.is_resident and self.scope.listener is not None:
                self.scope.listener.keep_alive(self.owner)

    def sync_to_host(self) -> None:
        """Bring what the device alone has to the host."""
        if self.is_resident:
            self.scope.sync_to_host(self.begin)

    def sync_to_caller(self) -> None:
        """Bring it to where the caller has it."""
        if self.double_buffer is not None:
            self.double_buffer.sync_to_caller()
        self.sync_to_host()

    def mark_host_dirty(self) -> None:
        """Say that the host's memory was written to, by others than the engine."""
        if self.is_resident:
            self.scope.mark_host_dirty(self.begin)

    def evict(self) -> None:
        """Bring it to the host, and let the device forget it."""
        self.sync_to_host()
        self.release()

    def release(self) -> None:
        """Let the device forget it."""
        if self.is_resident:
            self.scope.drop(self.begin)
        self.is_resident = False

    def mark_escaped(self) -> None:
        """Keep it on the host from now on, where others read it, too."""
        if self.double_buffer is not None:
            self.double_buffer.sync_to_caller()
        self.evict()
        self.may_be_resident = False
        self.has_escaped = True

    def overlaps_node(self, node: Any) -> bool:
        """Tell whether some of a node's array lies in this memory."""
        buffer = node.buffer
        if buffer is self:
            return True
        if (
            buffer is not None
            and buffer.double_buffer is not None
            and buffer.double_buffer is self.double_buffer
        ):
            return False
        return self.overlaps(node.array)

    def overlaps(self, array: Array) -> bool:
        """Tell whether some of an array lies in this memory."""
        first, last = byte_bounds(array)
        return first < self.end and self.begin < last

    def contains(self, array: Array) -> bool:
        """Tell whether all of an array lies in this memory."""
        first, last = byte_bounds(array)
        return self.begin <= first and last <= self.end


class ImportedBuffer(Buffer):
    """Memory that stands for the caller's own on a device: its pages are touched only on the way of copies.

    The device is told of it when an entry is to find it, or somebody looks at it. Until then its newest
    values are where the caller has them, and calls may be queued there.

    Parameters
    ----------
    array
        All of it.
    home
        The device's memory.
    streams
        Those that the home's values come in.
    """

    __slots__ = ("_device_address", "_is_registered", "streams", "was_never_registered")

    def __init__(
        self, array: Array, scope: ResidencyScope, device_address: int, streams: Iterable[int]
    ) -> None:
        super().__init__(array, scope, is_caller_owned=True)
        self._device_address, self.streams = device_address, tuple(streams)
        self._is_registered = False
        self.was_never_registered = True  # as long as no entry was told of it
        self.is_resident = True  # but for what is lost on the way

    def __del__(self) -> None:
        """Let the device forget it."""
        if self._is_registered:
            self.scope.drop(self.begin)

    @property
    def stream(self) -> int:
        """One of its streams."""
        return self.streams[0]

    def device_address_of(self, array: Array, stream: int) -> int:
        """Return where an array's values are on the device, for a kernel in a stream; else 0."""
        if self._is_registered or not self.is_resident or any(each != stream for each in self.streams):
            return 0
        device_address, item = self._device_address + address_of(array) - self.begin, array.itemsize
        is_aligned = device_address % item == 0 and all(stride % item == 0 for stride in array.strides)
        return device_address if is_aligned and array.dtype.isnative else 0

    def device(self) -> int:
        """Return which device it lies on; nothing waits for that."""
        device = self.scope.import_buffer(
            self.begin, self.end - self.begin, self._device_address, 0, IMPORT_DEVICE_VALID
        )
        self.scope.drop(self.begin)
        return device

    def register(self) -> None:
        """Let entries find it, with what its streams are to do before."""
        streams = (0,) if self.scope.is_async else self.streams
        for stream in streams if self.is_resident and not self._is_registered else ():
            if self._is_registered:
                self.scope.drop(self.begin)
            self._register(stream, IMPORT_DEVICE_VALID)

    def _register(self, stream: int, valid: int) -> None:
        self._is_registered, self.was_never_registered = True, False
        self.scope.import_buffer(self.begin, self.end - self.begin, self._device_address, stream, valid)

    def make_resident(self, intent: int) -> None:  # noqa: ARG002
        """Let entries find it."""
        self.register()

    def sync_to_host(self) -> None:
        """Bring what the device alone has to the host."""
        self.register()
        super().sync_to_host()

    def mark_host_dirty(self) -> None:
        """Say that the host's memory was written to, by others than the engine."""
        self.register()
        super().mark_host_dirty()

    def evict(self) -> None:
        """Bring it to the host, and let the device forget it until the end."""
        super().evict()
        self._is_registered = False

    def sync_to_caller(self) -> None:
        """Stay: its home is the device."""

    def return_to_owner(self) -> None:
        """Leave the device's memory to the caller, with the newest values."""
        if not self.is_resident:
            self._register(0, IMPORT_HOST_VALID)
        if self._is_registered:
            self.scope.sync_to_device(self.begin)
            self.scope.drop(self.begin)
        self._is_registered = self.is_resident = False


def byte_bounds(array: Array) -> tuple[int, int]:
    """Return the first byte's address and the one after the last; (0, 0) of no elements."""
    if not array.size:
        return (0, 0)
    first = last = address_of(array)
    if array.flags.c_contiguous:
        return first, first + array.nbytes
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            first += (length - 1) * stride
        else:
            last += (length - 1) * stride
    return first, last + array.itemsize


def is_c_ordered(array: Array) -> bool:
    """Tell whether its elements lie in C order, though perhaps not side by side."""
    strides = array.strides
    return array.flags.c_contiguous or all(
        outer >= inner > 0 for outer, inner in zip(strides, (*strides[1:], 1), strict=True)
    )


def owner_of(array: Any) -> Array:
    """Return an array of the whole memory that an array is a view of, as far as that is NumPy's."""
    owner: Any = array
    while type(owner.base) is np.ndarray:
        owner = owner.base
    return owner  # type: ignore[no-any-return]
