"""Fixtures for tests of other libraries' arrays: real and fake device arrays, and replay counting."""

import warnings

import pytest
from helpers import fake_gpu
from helpers.device_arrays import LIBRARIES, Library
from helpers.fake_library import forget_entries

import pycudakit as pk
from pycudakit._native import engine_status
from pycudakit.fusing import device_replay


@pytest.fixture(params=LIBRARIES)
def library(request):
    pytest.importorskip(request.param)
    with pk.engine("cuda"):
        yield Library(request.param)


@pytest.fixture
def gpu(monkeypatch):
    """Return a fake GPU, on the "cuda" engine."""
    if not pk.engines()["cpu"]:
        pytest.skip("needs the CPU library")
    if pk.engines()["cuda"]:
        pytest.skip("there is a real one")
    gpu = fake_gpu.put(monkeypatch)
    engine_status.status.cache_clear()
    with pk.engine("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield gpu
    monkeypatch.undo()
    forget_entries()
    engine_status.status.cache_clear()


class _FakeLibrary(Library):
    """The library of arrays on the fake GPU."""

    def __init__(self, gpu):
        super().__init__("cupy")
        self._gpu = gpu

    def up(self, x):
        self._gpu.bytes_up = self._gpu.bytes_down = 0
        return super().up(x)

    def moved(self):
        return self._gpu.bytes_up + self._gpu.bytes_down


@pytest.fixture
def cupy_library(request):
    """Return CuPy; without a GPU, the fakes of both."""
    if pk.engines()["cuda"]:
        pytest.importorskip("cupy")
        with pk.engine("cuda"):
            yield Library("cupy")
    else:
        yield _FakeLibrary(request.getfixturevalue("gpu"))


@pytest.fixture
def replayed(cupy_library, monkeypatch):
    """Return the array library, with a count of the replayed calls."""
    device_replay._captured_calls.clear()
    play, cupy_library.count = device_replay.CapturedCall.replay, 0

    def counted(self, kind):
        result = play(self, kind)
        cupy_library.count += result is not NotImplemented
        return result

    monkeypatch.setattr(device_replay.CapturedCall, "replay", counted)
    yield cupy_library
    device_replay._captured_calls.clear()
