"""Streams and events."""

from __future__ import annotations

import ctypes
import operator
from typing import Any

from pycudakit._native import abi_objects
from pycudakit.pycuda import _engine
from pycudakit.pycuda._device import current_device
from pycudakit.pycuda._errors import LogicError, absent


class Stream:
    """A queue of work on the current device.

    Parameters
    ----------
    flags
        1 for a stream that does not synchronize with the legacy default stream.

    Attributes
    ----------
    handle
        The stream's number: on a GPU its address, which other libraries take.
    """

    def __init__(self, flags: int = 0) -> None:
        self.handle = 0
        self._owner = engine = _engine.current()
        if operator.index(flags) & ~abi_objects.STREAM_NON_BLOCKING:
            raise LogicError(f"Stream: flags are {flags}; they are 0 or 1, non-blocking")
        self._device = current_device()
        handle = ctypes.c_uint64()
        engine.stream_create(self._device, operator.index(flags), 0, ctypes.byref(handle))
        self.handle = handle.value

    def synchronize(self) -> None:
        """Wait for the stream's work."""
        engine = _engine.current()
        engine.stream_synchronize(self._device, self.handle)
        if engine.has_text:
            engine.print_texts()

    def is_done(self) -> bool:
        """Return whether all work of the stream is complete."""
        is_done = ctypes.c_int64()
        _engine.current().stream_query(self._device, self.handle, ctypes.byref(is_done))
        return bool(is_done.value)

    def wait_for_event(self, event: Event) -> None:
        """Make the work that is enqueued later wait for an event."""
        if not isinstance(event, Event):
            raise TypeError(f"wait_for_event takes an Event, not a {type(event).__name__}")
        _engine.current().stream_wait_event(self._device, self.handle, event._handle)  # noqa: SLF001

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same stream."""
        return isinstance(other, Stream) and other.handle == self.handle

    def __hash__(self) -> int:
        """Return a hash of the handle."""
        return hash(("Stream", self.handle))

    def __del__(self) -> None:
        """Destroy the stream; its work is completed first."""
        if self.handle:
            self._owner.give_back("stream_destroy", self.handle)


class Event:
    """A point in a stream, with its time.

    Parameters
    ----------
    flags
        Members of `event_flags`.
    """

    def __init__(self, flags: int = 0) -> None:
        self._handle = 0
        self._owner = engine = _engine.current()
        handle = ctypes.c_uint64()
        self._device = current_device()
        engine.event_create(self._device, operator.index(flags), ctypes.byref(handle))
        self._handle = handle.value

    def record(self, stream: Stream | None = None) -> Event:
        """Record the event in a stream; it happens when the work that the stream holds is complete."""
        _engine.current().event_record(self._handle, handle_of(stream))
        return self

    def synchronize(self) -> Event:
        """Wait for the event."""
        engine = _engine.current()
        engine.event_synchronize(self._handle)
        if engine.has_text:
            engine.print_texts()
        return self

    def query(self) -> bool:
        """Return whether the event has happened, or was not recorded."""
        is_done = ctypes.c_int64()
        _engine.current().event_query(self._handle, ctypes.byref(is_done))
        return bool(is_done.value)

    def time_since(self, event: Event) -> float:
        """Return the milliseconds since another event."""
        return _milliseconds(event, self)

    def time_till(self, event: Event) -> float:
        """Return the milliseconds until another event."""
        return _milliseconds(self, event)

    ipc_handle = absent("Event.ipc_handle", "share arrays between processes by multiprocessing.shared_memory")
    from_ipc_handle = staticmethod(ipc_handle)

    def __del__(self) -> None:
        """Destroy the event."""
        if self._handle:
            self._owner.give_back("event_destroy", self._handle)


def _milliseconds(begin: Event, end: Event) -> float:
    for event in (begin, end):
        if not isinstance(event, Event):
            raise TypeError(f"an Event is wanted, not a {type(event).__name__}")
    elapsed = ctypes.c_double()
    _engine.current().event_elapsed(begin._handle, end._handle, ctypes.byref(elapsed))  # noqa: SLF001
    return elapsed.value


def handle_of(stream: Any) -> int:
    """Return the number of a stream; None is the legacy default stream."""
    if stream is None:
        return 0
    handle = getattr(stream, "handle", None)
    if handle is None:
        raise TypeError(f"stream is a {type(stream).__name__}; give a Stream or None")
    return int(handle)
