"""Host copies of device arrays, on a fake GPU: large host ranges are reused."""

import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit.fusing import device_replay
from pycudakit.fusing.memory import imported_arrays

LARGE = 1 << 19  # float64


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    # Captured calls keep their own ranges.
    monkeypatch.setattr(device_replay, "_signature_of", lambda *_: None)
    imported_arrays._free_host_copies.clear()
    yield imported_arrays._free_host_copies
    imported_arrays._free_host_copies.clear()


def on_device(size, first=0.0):
    return sys.modules["cupy"].asarray(np.arange(first, first + size))


def addresses(rooms):
    return {np.frombuffer(room.memory, np.uint8).ctypes.data for room in rooms}


@pk.fuse
def both(x, y):
    return x * 2 + y


def test_they_serve_again(gpu, rooms):
    a, b = on_device(LARGE), on_device(LARGE, 5)
    both(a, b)
    known = addresses(rooms)
    assert len(known) == 3  # of two arguments and the result
    for _ in range(3):
        assert_array_equal(both(a, b).values, a.values * 2 + b.values)
        assert addresses(rooms) == known


def test_others_sizes_are_let_go(gpu, rooms):
    for extra in range(1, 12):
        both(on_device(LARGE + extra), on_device(LARGE + extra))
    assert len(rooms) == rooms.maxlen


def test_small_ones_are_the_allocators(gpu, rooms):
    both(on_device(1000), on_device(1000))
    assert not rooms


def test_touched_memory_is_not_kept(gpu, rooms):
    @pk.fuse
    def looks(x):
        return x + np.asarray(x)[0]

    a = on_device(LARGE, 3)
    assert_array_equal(looks(a).values, a.values + 3)
    assert not rooms


def test_memory_in_use_is_not_reused(gpu, rooms, monkeypatch):
    held, allocate = [], imported_arrays._allocate_host_copy

    def allocate_and_hold(size):
        host_copy = allocate(size)
        held.append(host_copy[8:16])
        return host_copy

    a = on_device(LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(imported_arrays, "_allocate_host_copy", allocate_and_hold)
        both(a, a)
    kept = addresses(rooms)
    held[0][:] = 7
    for _ in range(3):
        both(a, a)
    assert_array_equal(held[0], 7)
    assert kept <= addresses(rooms)
    assert len(rooms) == 2 * len(kept)


def test_a_call_that_fails_leaves_them(gpu, rooms):
    @pk.fuse
    def fails(x):
        raise KeyError(x[0] > 0)

    for _ in range(2):
        with pytest.raises(KeyError):
            fails(on_device(LARGE))
    assert_array_equal(both(on_device(LARGE), on_device(LARGE)).values, np.arange(LARGE) * 3.0)


def test_threads_have_their_own(gpu):
    found = {}

    def work(first):
        a = on_device(LARGE, first)
        for _ in range(5):
            found[first] = both(a, a).values
            assert_array_equal(found[first], a.values * 3)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for first, values in found.items():
        assert_array_equal(values, np.arange(first, first + LARGE) * 3.0)


def test_release_lets_them_go(gpu, rooms):
    both(on_device(LARGE), on_device(LARGE))
    assert rooms
    pk.release()
    assert not rooms
