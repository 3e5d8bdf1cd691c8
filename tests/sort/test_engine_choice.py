"""The engine that `auto` chooses for sorts and set operations, by NumPy's measured times."""

import types

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._families.sort import sort_keys
from pycudakit._runtime import cost_model

M = 10**6


@pytest.fixture(autouse=True)
def _in_auto(monkeypatch):
    """A machine of four threads with empty caches of measurements."""
    monkeypatch.setattr(sort_keys, "threads", lambda: 4)
    learned = [
        small.most for small in (sort_keys.SMALL_SORT, sort_keys.SMALL_ARGSORT, sort_keys.SMALL_UNIQUE)
    ]
    before = [most.copy() for most in learned]
    for most in learned:
        most.clear()
    with pk.engine("auto"):
        yield
    for most, was in zip(learned, before, strict=True):
        most.clear()
        most.update(was)


@pytest.fixture
def numpys(monkeypatch):
    """Make a function that returns NumPy's nanoseconds per element and doubling, by the kind of sort."""

    def say(**orders):
        monkeypatch.setattr(sort_keys, "numpy_sorts", lambda _, order=None: orders[order or "sort"])

    return say


@pytest.mark.cpu
@pytest.mark.parametrize(("nanoseconds", "engine"), [(0.05, "numpy"), (5, "cpu")])
@pytest.mark.parametrize("name", ["sort", "argsort", "unique"])
def test_numpy_where_it_is_quicker(numpys, name, nanoseconds, engine):
    if pk.engines()["cuda"]:
        pytest.skip("the GPU may be quicker than either")
    numpys(**dict.fromkeys(["sort", "stable", "quicksort"], nanoseconds))
    # A limit that was learned for one size also holds for similar sizes.
    x = np.random.default_rng(1).random(M if engine == "cpu" else M // 4, np.float32)
    for _ in range(2):  # the cached choice is the same as the first
        result = getattr(pk, name)(x)
        assert pk.last_call().engine == engine
    keywords = {"kind": "stable"} if name == "argsort" else {}
    np.testing.assert_array_equal(result, getattr(np, name)(x, **keywords))


@pytest.mark.cpu
def test_a_stable_sort_is_another_one(numpys):
    if pk.engines()["cuda"]:
        pytest.skip("the GPU may be quicker than either")
    numpys(sort=0.05, stable=5)
    x = np.arange(M // 4, dtype=np.int32)[::-1]
    for keywords in ({"kind": "stable"}, {"stable": True}, {"kind": "mergesort"}):
        pk.sort(x)
        assert pk.last_call().engine == "numpy"
        pk.sort(x, **keywords)
        assert pk.last_call().engine == "cpu"


@pytest.mark.parametrize("order", [None, "stable", "quicksort"])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "f4", "f8", ">f8"])
def test_numpy_is_measured_once(monkeypatch, dtype, order):
    sort_keys.numpy_sorts.cache_clear()
    clock = iter(range(100))
    monkeypatch.delenv("PYCUDAKIT_TUNED")

    def perf_counter():
        return next(clock) * 4096 * 12e-9

    monkeypatch.setattr(cost_model, "time", types.SimpleNamespace(perf_counter=perf_counter))
    try:
        assert [sort_keys.numpy_sorts(np.dtype(dtype), order) for _ in range(2)] == pytest.approx([1, 1])
        assert next(clock) == 6  # start and end of three measurements
        monkeypatch.setenv("PYCUDAKIT_TUNED", "0")
        sort_keys.numpy_sorts.cache_clear()
        assert sort_keys.numpy_sorts(np.dtype(dtype), order) > 0
        assert next(clock) == 7
    finally:
        sort_keys.numpy_sorts.cache_clear()


@pytest.mark.parametrize(
    ("known", "engine"),
    [
        (np.arange(1000) * M, None),  # NumPy sorts
        (np.arange(5) * M, "numpy"),  # NumPy compares with each
        (np.arange(1000.0), None),
        (np.arange(3.0), "numpy"),
        (np.array([], int), "numpy"),
        (np.arange(1000).astype(np.uint64), None),  # with int64 they are compared as floats
    ],
)
def test_is_in(known, engine):
    x = (
        np.random.default_rng(2)
        .integers(-2000, 2000, 200_000)
        .astype("f8" if known.dtype.kind == "f" else "i8")
    )
    for keywords in ({}, {"invert": True}, {"assume_unique": False, "kind": "sort"}):
        got = pk.isin(x, known, **keywords)
        np.testing.assert_array_equal(got, np.isin(x, known, **keywords), strict=True)
    pk.isin(x, known)
    assert pk.last_call().engine == (engine or "cpu") or pk.engines()["cuda"]  # the GPU may be faster


@pytest.mark.cpu
def test_unique_of_distinct_numbers_and_of_few():
    """NumPy's hashing takes many times as long for distinct numbers as for few."""
    if pk.engines()["cuda"] or not sort_keys._HASHES:
        pytest.skip("the GPU may be faster than either, or NumPy sorts")
    rng = np.random.default_rng(1)
    for dtype in (np.int32, np.int64):
        for high, engine in ((60_000, "cpu"), (8, "numpy"), (60_000, "cpu")):
            x = rng.integers(0, high, 5000).astype(dtype)
            for _ in range(2):
                np.testing.assert_array_equal(pk.unique(x), np.unique(x), strict=True)
                assert pk.last_call().engine == engine
    small = np.arange(200, dtype=np.uint8).repeat(100)
    np.testing.assert_array_equal(pk.unique(small), np.unique(small), strict=True)
    assert pk.last_call().engine == "numpy"


def test_numpy_is_measured_on_new_numbers_each_time():
    seen = []
    cost_model.measure_numpy(seen.append, np.dtype(np.int64))
    assert {array.size for array in seen} == {cost_model.MEASURED_ELEMENTS}
    assert all(np.unique(array).size > 3500 for array in seen)
    assert len({array.tobytes() for array in seen}) == 3
