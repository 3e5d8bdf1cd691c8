"""The number of Python calls and files that a plain warm call passes through is bounded."""

import gc
import os
import sys

import numpy as np
import pytest

import pycudakit as pk

ROOT = os.path.dirname(pk.__file__)
X = np.ones(3000, np.float32)


def trip(call):
    """Return the Python calls that a warm call makes, and the files of the package that contain them."""
    for _ in range(3):
        call()
    calls = []

    def watch(frame, event, _argument):
        if event == "call":
            calls.append(frame.f_code.co_filename)

    gc.disable()  # a collection would run callbacks of Hypothesis
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    calls = calls[1:]  # without `call` itself
    return len(calls), len({name for name in calls if name.startswith(ROOT)})


@pytest.mark.parametrize(
    ("name", "call", "most_calls", "most_files"),
    [
        ("add", lambda: pk.add(X, X), 12, 4),
        ("add of a number", lambda: pk.add(X, 2.0), 12, 4),
        ("add of strided arrays", lambda: pk.add(X[::2], X[::2]), 40, 7),
        ("sum", lambda: pk.sum(X), 15, 8),
        ("cumsum", lambda: pk.cumsum(X), 30, 9),
    ],
)
def test_trip(engine, name, call, most_calls, most_files):
    calls, files = trip(call)
    assert 2 <= calls <= most_calls
    assert 2 <= files <= most_files


SMALL = X[:10].astype(np.float64)
WHOLE = np.arange(9)
TABLE = np.ones((4, 5))
OUT = np.empty(10)


@pytest.mark.parametrize(
    ("name", "call", "most_calls"),
    [
        ("add", lambda: pk.add(SMALL, SMALL), 1),
        ("add of a number of NumPy's", lambda: pk.add(SMALL, SMALL[0]), 3),
        ("add with out", lambda: pk.add(SMALL, SMALL, OUT), 3),
        ("add of broadcast arrays", lambda: pk.add(TABLE, TABLE[0]), 3),
        ("exp of a number", lambda: pk.exp(1.0), 3),
        ("exp of a list", lambda: pk.exp([1.0, 2.0]), 4),
        ("cumsum of integers", lambda: pk.cumsum(WHOLE), 5),
        ("max along an axis", lambda: pk.max(TABLE, axis=0), 8),
        ("sort", lambda: pk.sort(SMALL), 5),
        ("sum", lambda: pk.sum(SMALL), 12),
        ("sum along an axis", lambda: pk.sum(TABLE, axis=0), 18),
        ("dot", lambda: pk.dot(SMALL, SMALL), 18),
        ("norm", lambda: pk.linalg.norm(SMALL), 18),
        ("cumsum", lambda: pk.cumsum(SMALL), 18),
    ],
)
def test_trip_of_a_small_call(name, call, most_calls):
    with pk.engine("auto"):
        calls, _ = trip(call)
        assert 1 <= calls <= most_calls, pk.last_call()


def test_a_strided_call_does_not_start_over(engine, monkeypatch):
    from pycudakit._families.elementwise import general_path

    pk.add(X[::2], X[::2])
    monkeypatch.setattr(general_path, "call", lambda *_: pytest.fail("the full way"))
    assert (pk.add(X[::2], X[::2]) == 2).all()


def test_trip_of_a_replayed_function(engine):
    """A call of five operations on arrays of 1,000 elements runs their plan."""
    fused = pk.fuse(lambda a, b: np.sqrt(a * b + a) - b / 2)
    a, b = X[:1000].astype(np.float64), X[1000:2000].astype(np.float64)
    for _ in range(9):  # the first runs of a plan on a GPU compile kernels
        fused(a, b)
    calls, files = trip(lambda: fused(a, b))
    assert str(pk.last_call().reason).endswith("replayed")
    assert 2 <= calls <= (60 if engine == "cpu" else 80)
    assert 2 <= files <= 16
