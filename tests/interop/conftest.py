"""What tests of other libraries' arrays share."""

import warnings

import pytest
from helpers import fake_gpu
from helpers.device_arrays import LIBRARIES, Library
from helpers.fake_library import forget_entries

import pycudakit as pk
from pycudakit._native import engine_status
from pycudakit.fusing import replay


@pytest.fixture(params=LIBRARIES)
def library(request):
    pytest.importorskip(request.param)
    with pk.engine("cuda"):
        yield Library(request.param)


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that is none, on the engine "cuda"."""
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


class _StandingFor(Library):
    """What keeps arrays on a GPU that is none."""

    def __init__(self, gpu):
        super().__init__("cupy")
        self._gpu = gpu

    def up(self, x):
        self._gpu.bytes_up = self._gpu.bytes_down = 0
        return super().up(x)

    def moved(self):
        return self._gpu.bytes_up + self._gpu.bytes_down


@pytest.fixture
def there(request):
    """Return CuPy; where there is no GPU, what stands for both."""
    if pk.engines()["cuda"]:
        pytest.importorskip("cupy")
        with pk.engine("cuda"):
            yield Library("cupy")
    else:
        yield _StandingFor(request.getfixturevalue("gpu"))


@pytest.fixture
def played(there, monkeypatch):
    """Return the library that arrays are of, with a count of the calls that were played."""
    replay._captured_calls.clear()
    play, there.count = replay.CapturedCall.replay, 0

    def counted(self, kind):
        result = play(self, kind)
        there.count += result is not NotImplemented
        return result

    monkeypatch.setattr(replay.CapturedCall, "replay", counted)
    yield there
    replay._captured_calls.clear()
