"""Fixtures: engines for fused functions, forced row tiling, and a fake GPU."""

import os

import pytest
from helpers import replayed, row_tiles
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit.fusing import autotuning, host_replay
from pycudakit.fusing.memory.residency import ResidencyScope

_NAMED = os.environ.get("PYCUDAKIT_TEST_ENGINES")
_AVAILABLE = [name for name in ("cpu", "cuda") if pk.engines()[name].available]
_ENGINES = _NAMED.split(",") if _NAMED else _AVAILABLE
# Without a GPU, `device_impls` runs the device implementations with a fake GPU, on the engine `cpu`.
_DEVICE_IMPLS = ["device_impls"] if _ENGINES == ["cpu"] and not _NAMED else []
# On the engine `cpu`, `replayed` also runs each call by its plan.
_REPLAYED = ["replayed"] if "cpu" in _ENGINES else []


@pytest.fixture(params=[*_ENGINES, *thorough(*_DEVICE_IMPLS, *_REPLAYED, "auto")], scope="session")
def engine(request):
    """Set and return the engine of the test's calls; test_engine_choice.py tests `auto` in each run."""
    if request.param not in ("auto", "device_impls", "replayed"):
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "auto":  # whose first calls would run in NumPy
            patch.setattr(autotuning, "_FIRST_IN_NUMPY", 0)
            yield request.param
            return
        if request.param == "replayed":
            replayed.install(patch)
        else:
            patch.setattr(ResidencyScope, "is_open", True)
        yield "cpu"


_SIGNATURE_OF, _IS_OPEN = host_replay.signature_of, ResidencyScope.is_open
_FIRST_IN_NUMPY = autotuning._FIRST_IN_NUMPY


@pytest.fixture(autouse=True)
def _is_of_no_engine(request):
    """Undo the patches of an engine that is set up for the session, for tests of no engine."""
    with pytest.MonkeyPatch.context() as patch:
        if "engine" not in request.fixturenames:
            patch.setattr(host_replay, "signature_of", _SIGNATURE_OF)
            patch.setattr(ResidencyScope, "is_open", _IS_OPEN)
            patch.setattr(autotuning, "_FIRST_IN_NUMPY", _FIRST_IN_NUMPY)
        yield


@pytest.fixture
def really_replayed(request):
    """Skip the engines that trace each call."""
    parameters = request.node.callspec.params if "callspec" in vars(request.node) else {}
    if parameters.get("engine") in ("replayed", "device_impls"):
        pytest.skip("is traced each time")


@pytest.fixture
def small_blocks(monkeypatch):
    """Force row tiling wherever it is possible, with tiles of some KiB."""
    row_tiles.cut(monkeypatch)


@pytest.fixture
def small_gpu(monkeypatch):
    """Install a fake GPU with little memory."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    gpu = row_tiles.put_gpus(monkeypatch)
    with pk.engine("cuda"):
        yield gpu
