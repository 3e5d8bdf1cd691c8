"""Buffers of the arrays of a fused function: their owners, and whether host or device is up to date."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from pycudakit._interop.memory_layout import extent
from pycudakit._native.abi import IMPORT_DEVICE_VALID, IMPORT_HOST_VALID, address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.residency import ResidencyScope

_MIN_TRACERS = 64  # from this many weak references on, dead ones are removed


class _DeviceCopy:
    """The device copy of a buffer.

    It has the finalizer, so that buffers of host memory alone have none: Python drops exceptions in
    finalizers, such as a Ctrl-C.
    """

    __slots__ = ("_begin", "_owner", "_scope", "is_freed")

    def __init__(self, buffer: Buffer) -> None:
        self._scope, self._begin = buffer.scope, buffer.begin
        self._owner = buffer.owner  # no other array has its address before the device copy is freed
        self.is_freed = False

    def free(self) -> None:
        """Free the device memory."""
        if not self.is_freed:
            self._scope.drop(self._begin)
        self.is_freed = True

    def __del__(self) -> None:
        """Free the device memory."""
        if hasattr(self, "is_freed"):  # else an interrupt has cut short `__init__`
            self.free()


class Buffer:
    """A range of host memory that arrays are views of, with an optional device copy.

    Parameters
    ----------
    array
        An array in the buffer.
    scope
        The residency scope, which holds the device copy.
    is_caller_owned
        Whether the memory is the caller's.
    """

    reachability_changes: ClassVar = 0  # how often memory of nodes has become reachable from outside

    __slots__ = (
        "__weakref__",
        "_device_copy",
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
        self.is_resident = False  # has a device copy
        self._device_copy: _DeviceCopy | None = None
        self.scalar_reads = 0  # reads of single elements
        self.has_escaped = False  # code outside of the trace may read and write it
        self.overlapping_writes = 0  # writes whose value reads other elements of this buffer
        self.double_buffer: Any = None  # a DoubleBuffer
        self.may_double_buffer = is_caller_owned  # then the tracers of its arrays are remembered
        self.tracers: list[weakref.ref[Any]] = []
        self.max_tracers = _MIN_TRACERS
        self.full_view: Array | None = None  # a C-contiguous array of the whole buffer
        self.begin, self.end = byte_bounds(array)

    def extend(self, array: Array) -> None:
        """Extend the buffer to contain another array of the same memory."""
        first, last = byte_bounds(array)
        if self.begin == self.end:
            self.begin, self.end = first, last
        elif first < last:
            self.begin, self.end = min(first, self.begin), max(last, self.end)
        if array.flags.c_contiguous and (first, last) == (self.begin, self.end):
            self.full_view = array

    def add_tracer(self, tracer: Any) -> None:
        """Remember a tracer of an array in this buffer, for double buffering."""
        tracers = self.tracers
        if self.may_double_buffer:
            if len(tracers) >= self.max_tracers:
                tracers[:] = [ref for ref in tracers if ref() is not None]
                self.max_tracers = max(_MIN_TRACERS, 2 * len(tracers))
            tracers.append(weakref.ref(tracer))

    def make_resident(self, intent: int) -> None:
        """Make the buffer resident, if the device has room."""
        if not self.is_resident and self.may_be_resident:
            self.is_resident = self.scope.make_resident(self.begin, self.end - self.begin, intent)
            if self.is_resident:
                self._device_copy = _DeviceCopy(self)
            if self.is_resident and self.scope.listener is not None:
                self.scope.listener.keep_alive(self.owner)

    def sync_to_host(self) -> None:
        """Download values that only the device has."""
        if self.is_resident:
            self.scope.sync_to_host(self.begin)

    def sync_to_caller(self) -> None:
        """Make the caller's memory up to date."""
        if self.double_buffer is not None:
            self.double_buffer.sync_to_caller()
        self.sync_to_host()

    def mark_host_dirty(self) -> None:
        """Mark the host's values as newer than the device copy."""
        if self.is_resident:
            self.scope.mark_host_dirty(self.begin)

    def evict(self) -> None:
        """Download the newest values and free the device copy."""
        self.sync_to_host()
        self.release()

    def release(self) -> None:
        """Free the device copy without a download."""
        if self._device_copy is not None:
            self._device_copy.free()
        self.is_resident, self._device_copy = False, None

    def mark_escaped(self) -> None:
        """Keep the buffer on the host from now on: code outside of the trace can reach it."""
        if self.double_buffer is not None:
            self.double_buffer.sync_to_caller()
        self.evict()
        self.may_be_resident = False
        self.has_escaped = True
        Buffer.reachability_changes += 1

    @property
    def is_reachable(self) -> bool:
        """Whether code outside of the trace can reach the memory."""
        return self.is_caller_owned or self.has_escaped

    def overlaps_node(self, node: Any) -> bool:
        """Return True if a node's array overlaps this buffer."""
        buffer = node.buffer
        if buffer is self:
            return True
        if (
            buffer is not None
            and buffer.double_buffer is not None
            and buffer.double_buffer is self.double_buffer
        ):
            return False  # it is the other buffer of the pair
        return self.overlaps(node.array)

    def overlaps(self, array: Array) -> bool:
        """Return True if an array overlaps this buffer."""
        first, last = byte_bounds(array)
        return first < self.end and self.begin < last

    def contains(self, array: Array) -> bool:
        """Return True if all of an array is in this buffer."""
        first, last = byte_bounds(array)
        return self.begin <= first and last <= self.end


class ImportedBuffer(Buffer):
    """A device buffer of another library, which the caller owns.

    A host range of the same size, the host copy, is its key in the C library's residency table. Its
    pages are touched only when values must be copied to the host. The buffer is registered in that table
    lazily: until then, calls can be enqueued on the device address directly.

    Parameters
    ----------
    array
        The host copy.
    device_address
        The address of the device buffer.
    streams
        The streams in which the buffer's values are produced.
    """

    __slots__ = ("_device_address", "_is_registered", "streams", "was_never_registered")

    def __init__(
        self, array: Array, scope: ResidencyScope, device_address: int, streams: Iterable[int]
    ) -> None:
        super().__init__(array, scope, is_caller_owned=True)
        self._device_address, self.streams = device_address, tuple(streams)
        self._is_registered = False
        self.was_never_registered = True  # no library call has found it in the table yet
        self.is_resident = True  # until it is evicted

    def __del__(self) -> None:
        """Remove the buffer from the residency table."""
        if self._is_registered:
            self.scope.drop(self.begin)

    @property
    def stream(self) -> int:
        """The first of its streams."""
        return self.streams[0]

    def device_address_of(self, array: Array, stream: int) -> int:
        """Return an array's device address for a kernel in `stream`; 0 if that kernel may not use it."""
        if self._is_registered or not self.is_resident or any(each != stream for each in self.streams):
            return 0
        device_address, item = self._device_address + address_of(array) - self.begin, array.itemsize
        is_aligned = device_address % item == 0 and all(stride % item == 0 for stride in array.strides)
        return device_address if is_aligned and array.dtype.isnative else 0

    def device(self) -> int:
        """Return the index of its device, without synchronizing."""
        device = self.scope.import_buffer(
            self.begin, self.end - self.begin, self._device_address, 0, IMPORT_DEVICE_VALID
        )
        self.scope.drop(self.begin)
        return device

    def register(self) -> None:
        """Register the buffer in the residency table, ordered after the work in its streams."""
        streams = (0,) if self.scope.is_async else self.streams
        for stream in streams if self.is_resident and not self._is_registered else ():
            if self._is_registered:
                self.scope.drop(self.begin)
            self._register(stream, IMPORT_DEVICE_VALID)

    def _register(self, stream: int, valid: int) -> None:
        self._is_registered, self.was_never_registered = True, False
        self.scope.import_buffer(self.begin, self.end - self.begin, self._device_address, stream, valid)

    def make_resident(self, intent: int) -> None:  # noqa: ARG002
        """Register the buffer: it is on the device already."""
        self.register()

    def sync_to_host(self) -> None:
        """Download values that only the device has to the host copy."""
        self.register()
        super().sync_to_host()

    def mark_host_dirty(self) -> None:
        """Mark the host copy's values as newer than the device buffer."""
        self.register()
        super().mark_host_dirty()

    def evict(self) -> None:
        """Download the newest values, and use the host copy until the call ends."""
        super().evict()
        self._is_registered = False

    def release(self) -> None:
        """End the registration without a download."""
        if self.is_resident:
            self.scope.drop(self.begin)
        self.is_resident = False

    def sync_to_caller(self) -> None:
        """Do nothing: the caller's memory is the device buffer."""

    def return_to_owner(self) -> None:
        """Write the newest values to the device buffer, and end its registration."""
        if not self.is_resident:
            self._register(0, IMPORT_HOST_VALID)
        if self._is_registered:
            self.scope.sync_to_device(self.begin)
            self.scope.drop(self.begin)
        self._is_registered = self.is_resident = False


def byte_bounds(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first byte and behind its last; (0, 0) for an empty array."""
    if not array.size:
        return (0, 0)
    first = address_of(array)
    if array.flags.c_contiguous:
        return first, first + array.nbytes
    return extent(array.shape, array.strides, array.itemsize, first)


def is_c_ordered(array: Array) -> bool:
    """Return True if an array's elements are in C order, perhaps with gaps."""
    strides = array.strides
    return array.flags.c_contiguous or all(
        outer >= inner > 0 for outer, inner in zip(strides, (*strides[1:], 1), strict=True)
    )


def owner_of(array: Any) -> Array:
    """Return the array at the end of the chain of `base` attributes, as far as these are NumPy's."""
    owner: Any = array
    while True:
        base = owner.base
        if type(base).__name__ == "DummyArray":  # of `as_strided`
            base = getattr(base, "base", None)
        if type(base) is not np.ndarray:
            return owner  # type: ignore[no-any-return]
        owner = base
