"""How far a call travels in Python: the way of plain ones is short, and stays so."""

import os
import sys

import numpy as np
import pytest

import pycudakit as pk

ROOT = os.path.dirname(pk.__file__)
X = np.ones(3000, np.float32)


def trip(call):
    """Return the Python calls that a warm call makes, and the package's files that they are in."""
    for _ in range(3):
        call()
    calls = []

    def watch(frame, event, _argument):
        if event == "call":
            calls.append(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    calls = calls[1:]  # without `call` itself
    return len(calls), len({name for name in calls if name.startswith(ROOT)})


@pytest.mark.parametrize(
    ("name", "call", "most_calls", "most_files"),
    [
        ("add", lambda: pk.add(X, X), 12, 4),
        ("add of a number", lambda: pk.add(X, 2.0), 12, 4),
        ("add of what is strided", lambda: pk.add(X[::2], X[::2]), 40, 7),
        ("sum", lambda: pk.sum(X), 15, 7),
        ("cumsum", lambda: pk.cumsum(X), 30, 7),
    ],
)
def test_trip(engine, name, call, most_calls, most_files):
    calls, files = trip(call)
    assert 2 <= calls <= most_calls
    assert 2 <= files <= most_files


def test_a_strided_call_does_not_start_over(engine, monkeypatch):
    from pycudakit._families.elementwise import full

    pk.add(X[::2], X[::2])
    monkeypatch.setattr(full, "call", lambda *_: pytest.fail("the full way"))
    assert (pk.add(X[::2], X[::2]) == 2).all()
