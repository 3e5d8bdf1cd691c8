"""Fused functions run on each engine, and where `auto` has them run."""

import os

import pytest

import pycudakit as pk

_NAMED = os.environ.get("PYCUDAKIT_TEST_ENGINES")
_AVAILABLE = [name for name in ("cpu", "cuda") if pk.engines()[name].available]


@pytest.fixture(params=[*(_NAMED.split(",") if _NAMED else _AVAILABLE), "auto"], scope="session")
def engine(request):
    """The name of the engine that the test's calls run on."""
    return request.param
