"""Fused functions run on each engine, and where `auto` has them run."""

import os

import pytest
from helpers import rows

import pycudakit as pk

_NAMED = os.environ.get("PYCUDAKIT_TEST_ENGINES")
_AVAILABLE = [name for name in ("cpu", "cuda") if pk.engines()[name].available]


@pytest.fixture(params=[*(_NAMED.split(",") if _NAMED else _AVAILABLE), "auto"], scope="session")
def engine(request):
    """The name of the engine that the test's calls run on."""
    return request.param


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut whatever can be cut, in blocks of some KiB."""
    rows.cut(monkeypatch)


@pytest.fixture
def small_gpu(monkeypatch):
    """A GPU that is none, with little memory."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    gpu = rows.put_gpus(monkeypatch)
    with pk.engine("cuda"):
        yield gpu
