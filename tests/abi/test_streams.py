"""pk_stream_* and pk_event_*: the life of streams and events, and refused calls."""

import ctypes
import time

import pytest

from pycudakit import errors
from pycudakit._native import abi_objects, loader


@pytest.fixture
def library(engine):
    return loader.library(engine)


def stream_of(library, flags=0, priority=0):
    stream = ctypes.c_uint64()
    library.pk_stream_create(0, flags, priority, ctypes.byref(stream))
    return stream.value


def event_of(library, flags=0):
    event = ctypes.c_uint64()
    library.pk_event_create(0, flags, ctypes.byref(event))
    return event.value


@pytest.mark.smoke
@pytest.mark.parametrize("flags", [0, abi_objects.STREAM_NON_BLOCKING])
def test_streams(library, flags):
    stream, other = stream_of(library, flags), stream_of(library, flags, -1)
    assert stream > 2
    assert stream != other
    library.pk_stream_synchronize(0, stream)
    is_done = ctypes.c_int64(-1)
    library.pk_stream_query(0, stream, ctypes.byref(is_done))
    assert is_done.value == 1
    library.pk_stream_destroy(stream)
    library.pk_stream_destroy(other)
    with pytest.raises(errors.InvalidArgument, match=f"no stream {stream}"):
        library.pk_stream_destroy(stream)


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_default_streams(library, stream):
    library.pk_stream_synchronize(0, stream)
    event = event_of(library)
    library.pk_event_record(event, stream)
    library.pk_stream_wait_event(0, stream, event)
    library.pk_event_destroy(event)


def test_events_measure_time(library):
    stream, begin, end = stream_of(library), event_of(library), event_of(library)
    library.pk_event_record(begin, stream)
    library.pk_event_synchronize(begin)
    time.sleep(0.02)
    library.pk_event_record(end, stream)
    library.pk_event_synchronize(end)
    is_done, milliseconds = ctypes.c_int64(), ctypes.c_double()
    library.pk_event_query(end, ctypes.byref(is_done))
    library.pk_event_elapsed(begin, end, ctypes.byref(milliseconds))
    assert is_done.value == 1
    assert 19 < milliseconds.value < 5000
    library.pk_event_elapsed(end, begin, ctypes.byref(milliseconds))
    assert -5000 < milliseconds.value < -19
    for event in (begin, end):
        library.pk_event_destroy(event)
        with pytest.raises(errors.InvalidArgument, match=f"no event {event}"):
            library.pk_event_destroy(event)
    library.pk_stream_destroy(stream)


def test_times_that_events_do_not_have(library):
    timed, untimed = event_of(library), event_of(library, abi_objects.EVENT_DISABLE_TIMING)
    milliseconds = ctypes.c_double(7)
    with pytest.raises(errors.InvalidArgument, match="not recorded"):
        library.pk_event_elapsed(timed, timed, ctypes.byref(milliseconds))
    for event in (timed, untimed):
        library.pk_event_record(event, 0)
        library.pk_event_synchronize(event)
    with pytest.raises(errors.InvalidArgument, match="without timing"):
        library.pk_event_elapsed(timed, untimed, ctypes.byref(milliseconds))
    assert milliseconds.value == 7
    for event in (timed, untimed):
        library.pk_event_destroy(event)


def test_an_event_that_was_not_recorded_has_happened(library):
    event, is_done = event_of(library), ctypes.c_int64()
    library.pk_event_query(event, ctypes.byref(is_done))
    library.pk_event_synchronize(event)
    assert is_done.value == 1
    library.pk_event_destroy(event)


def test_bad_arguments(library):
    number = ctypes.c_uint64(7)
    for call in (
        lambda: library.pk_stream_create(0, 0, 0, None),
        lambda: library.pk_stream_create(0, 2, 0, ctypes.byref(number)),
        lambda: library.pk_stream_create(1000, 0, 0, ctypes.byref(number)),
        lambda: library.pk_stream_create(-1, 0, 0, ctypes.byref(number)),
        lambda: library.pk_stream_query(0, 0, None),
        lambda: library.pk_event_create(0, 0, None),
        lambda: library.pk_event_create(0, 8, ctypes.byref(number)),
        lambda: library.pk_event_create(1000, 0, ctypes.byref(number)),
        lambda: library.pk_event_query(0, None),
        lambda: library.pk_event_elapsed(0, 0, None),
        lambda: library.pk_event_record(12345, 0),
        lambda: library.pk_event_synchronize(12345),
        lambda: library.pk_stream_wait_event(0, 0, 12345),
        lambda: library.pk_device_synchronize(-1),
        lambda: library.pk_device_synchronize(1000),
    ):
        with pytest.raises(errors.InvalidArgument):
            call()
    assert number.value == 7


def test_a_device_synchronizes(library):
    library.pk_device_synchronize(0)


def test_attributes_are_those_of_gpus(library, engine):
    value = ctypes.c_int64(-7)
    if engine == "cpu":
        with pytest.raises(errors.InvalidArgument, match="no device"):
            library.pk_device_attribute(0, 10, ctypes.byref(value))
        assert value.value == -7
        return
    library.pk_device_attribute(0, 10, ctypes.byref(value))
    assert value.value == 32  # the threads of a warp
    with pytest.raises(errors.InvalidArgument, match="no attribute"):
        library.pk_device_attribute(0, 100_000, ctypes.byref(value))
