"""Each test has the engine of its parameter; a process of a user's has one."""

import functools

import pytest

from pycudakit.pycuda import _device, _engine


@functools.cache
def _engine_of(name):
    return _engine.Engine(name)


@pytest.fixture(autouse=True)
def _fresh_process(request, monkeypatch):
    """Give the test the engine of its parameter, and no current context."""
    monkeypatch.setattr(_device._stack, "contexts", [])  # another test may have imported autoinit
    if "engine" in request.fixturenames:
        monkeypatch.setattr(_engine, "_engine", _engine_of(request.getfixturevalue("engine")))
