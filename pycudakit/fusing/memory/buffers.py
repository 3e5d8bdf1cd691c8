"""Table of the buffers of one call: those of the caller's arrays, and those of intermediate results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer, ImportedBuffer, owner_of
from pycudakit.fusing.memory.double_buffer import DoubleBuffer

_MIN_BUFFERS = 64  # from this many entries on, those of dead buffers are removed


class BufferTable:
    """The buffers of a call, by the id of the array that owns the memory."""

    def __init__(self) -> None:
        self.scope = residency.ResidencyScope()
        self.written: list[Buffer] = []  # the caller's buffers that were written to
        # No WeakValueDictionary: Python drops an exception, such as a Ctrl-C, in its callback.
        self._buffers: dict[int, weakref.ref[Buffer]] = {}
        self._max_buffers = _MIN_BUFFERS
        self._arguments: list[Buffer] = []
        self.stream = 0  # of the imported device buffers; 0 without any
        self._labels: Mapping[int, str] = {}
        self._names: weakref.WeakKeyDictionary[Buffer, str] = weakref.WeakKeyDictionary()
        self._unnamed = 0
        self._double_buffers: list[DoubleBuffer] = []
        # Finds arrays that the function can also reach otherwise than as arguments; called once, before a
        # write.
        self.find_aliased_arrays: Callable[[], Iterable[Array]] | None = None

    def label(self, names: Mapping[int, str]) -> None:
        """Set the arguments' names, by the id of their arrays."""
        self._labels = names

    def add_arguments(self, arrays: Sequence[Array]) -> None:
        """Add the arguments' buffers."""
        for array in arrays:
            buffer = self.buffer_of(array)
            if buffer is None:
                buffer = Buffer(array, self.scope, is_caller_owned=True)
                self._add(buffer)
                self._arguments.append(buffer)
                if id(array) in self._labels:
                    self._names[buffer] = self._labels[id(array)]
            if buffer.is_resident and not buffer.contains(array):  # a column that the body reads later
                buffer.evict()
            buffer.extend(array)
        for i, one in enumerate(self._arguments):  # overlaps that NumPy's `base` does not show
            for other in self._arguments[:i]:
                if one.begin < other.end and other.begin < one.end:
                    one.may_be_resident = other.may_be_resident = False

    def add_imported(self, buffer: ImportedBuffer) -> None:
        """Add an imported device buffer."""
        self._add(buffer)
        self.stream = self.stream or buffer.stream

    def device_address_of(self, array: Array) -> int:
        """Return an array's device address, if a kernel enqueued in `stream` may use it; else 0."""
        buffer = self.buffer_of(array)
        return buffer.device_address_of(array, self.stream) if type(buffer) is ImportedBuffer else 0

    def register(self, arrays: Iterable[Array]) -> None:
        """Register the imported buffers of these arrays in the residency table."""
        for array in arrays if self.stream else ():
            buffer = self.buffer_of(array)
            if type(buffer) is ImportedBuffer:
                buffer.register()

    def double_buffer_for(
        self,
        buffer: Buffer,
        before_write: Callable[[Buffer], None],
        copy: Callable[[Array, Array], None],
    ) -> DoubleBuffer | None:
        """Return the double buffer of a buffer, created if need be; None if that is impossible."""
        full_view = buffer.full_view
        is_free = buffer.may_be_resident and not buffer.has_escaped and type(buffer) is Buffer
        if buffer.double_buffer is None and full_view is not None and is_free:
            self._mark_aliased_arguments()
            if buffer.has_escaped or full_view.nbytes != buffer.end - buffer.begin:
                return None
            double_buffer = DoubleBuffer(buffer, full_view, before_write, copy)
            self._double_buffers.append(double_buffer)
            self._add(double_buffer.second)
            double_buffer.second.make_resident(residency.TEMPORARY)
        pair: DoubleBuffer | None = buffer.double_buffer
        return None if pair is None or pair.original.has_escaped else pair

    def end_double_buffering(self) -> None:
        """End all double buffers; the arrays are in the caller's memory again."""
        for double_buffer in self._double_buffers:
            double_buffer.end()
        self._double_buffers.clear()

    def latest(self, array: Array, buffer: Buffer) -> tuple[Array, Buffer]:
        """Return the array and the buffer that have the newest values of an array's elements."""
        return (array, buffer) if buffer.double_buffer is None else buffer.double_buffer.latest(array, buffer)

    def buffer_of(self, array: Array) -> Buffer | None:
        """Return the buffer of an array by its NumPy `base`; None if the table has none."""
        owner = owner_of(array)
        ref = self._buffers.get(id(owner))
        buffer = None if ref is None else ref()
        return buffer if buffer is not None and buffer.owner is owner else None

    def buffer_for(self, array: Array) -> Buffer:
        """Return the buffer of an array, added to the table if need be."""
        buffer = self.buffer_of(array)
        if buffer is None:
            buffer = Buffer(array, self.scope)
            self._add(buffer)
        return buffer

    def _add(self, buffer: Buffer) -> None:
        if len(self._buffers) >= self._max_buffers:
            self._buffers = {key: ref for key, ref in self._buffers.items() if ref() is not None}
            self._max_buffers = max(_MIN_BUFFERS, 2 * len(self._buffers))
        self._buffers[id(buffer.owner)] = weakref.ref(buffer)

    def mark_escaped(self, array: Array) -> None:
        """Mark the arguments that overlap an array as escaped."""
        for argument in self._arguments:
            if argument.overlaps(array):
                argument.mark_escaped()

    def make_resident(self, arrays: Iterable[Array]) -> None:
        """Make the inputs of a kernel resident, for the next kernels."""
        for array in arrays if self.scope.is_open else ():
            buffer = self.buffer_of(array)
            if buffer is not None and buffer.contains(array):
                buffer.make_resident(residency.INPUT)

    def mark_written(self, buffer: Buffer) -> None:
        """Record that the caller's memory is written to."""
        if buffer.is_caller_owned and buffer not in self.written:
            self.written.append(buffer)
            if self.scope.is_open:
                self._mark_aliased_arguments()

    def _mark_aliased_arguments(self) -> None:
        """Mark the arguments as escaped that the function can also reach otherwise (as an attribute, say)."""
        find_aliased_arrays, self.find_aliased_arrays = self.find_aliased_arrays, None
        for array in () if find_aliased_arrays is None else find_aliased_arrays():
            self.mark_escaped(array)

    def sync_arguments(self) -> None:
        """Make the arguments' host memory up to date, for code that may read and write it past the trace."""
        for double_buffer in self._double_buffers:
            double_buffer.sync_to_caller()
            double_buffer.mark_all_written()
        for buffer in self._arguments:
            buffer.evict()

    def sync_all_to_caller(self) -> None:
        """Make all host memory up to date that may still be read."""
        alive = [buffer for ref in self._buffers.values() if (buffer := ref()) is not None]
        for buffer in [*self.written, *alive]:
            buffer.sync_to_caller()

    def name_of(self, array: Array) -> str:
        """Return the name of an array for `explain`: its argument's, or t1, t2, ..."""
        buffer = self.buffer_of(array)
        if buffer is None:
            return "a number" if array.size == 1 else "an array"
        if buffer.double_buffer is not None:
            buffer = buffer.double_buffer.original
        while buffer not in self._names:
            self._unnamed += 1
            name = f"t{self._unnamed}"
            if name not in self._labels.values():
                self._names[buffer] = name
        return self._names[buffer]
