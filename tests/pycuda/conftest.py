"""Each test has the engine of its parameter; a process of a user's has one."""

import functools

import pytest

from pycudakit.pycuda import _engine


@functools.cache
def _engine_of(name):
    return _engine.Engine(name)


@pytest.fixture(autouse=True)
def _device(request, monkeypatch):
    """Make the engine of the test that of the process, for as long as the test runs."""
    if "engine" in request.fixturenames:
        monkeypatch.setattr(_engine, "_engine", _engine_of(request.getfixturevalue("engine")))
