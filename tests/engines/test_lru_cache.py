"""The bounded dictionary of the caches of calls."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._runtime import dispatch_cache
from pycudakit._runtime.lru_cache import LRUCache


def test_entries_that_are_used_stay():
    cache = LRUCache(8)
    cache["used"] = "kept"
    for number in range(1000):
        cache[number] = number + 1
        assert cache["used"] == "kept"
        assert cache[number] == number + 1
        assert len(list(cache.live_values())) <= 8
    assert cache[0] is None


@pytest.mark.parametrize("max_entries", range(2, 10))
def test_no_more_than_max_entries(max_entries):
    cache = LRUCache(max_entries)
    for number in range(100):
        cache[number] = number
        assert cache[number // 2 * 2] == number // 2 * 2
        assert len(list(cache.live_values())) <= max_entries


def test_the_latest_half_stays():
    cache = LRUCache(8)
    for number in range(100):
        cache[number] = -number - 1
    assert [cache[number] for number in range(96, 100)] == [-97, -98, -99, -100]
    cache[99] = 5
    assert cache[99] == 5
    cache.clear()
    assert cache[99] is None
    assert not list(cache.live_values())


def test_a_full_dispatch_cache_keeps_what_is_used(monkeypatch):
    monkeypatch.setattr(dispatch_cache, "_MAX_ENTRIES", 8)
    calls = []
    cached = dispatch_cache.with_dispatch_cache(np.sum, lambda x, axis=0: calls.append(axis) or pk.max(x))
    x = np.arange(6, dtype=np.int8)
    with pk.engine("auto"):
        cached(x, 0)
        for axis in range(1, 50):
            cached(x, axis)  # NumPy computes small maxima, so this signature is cached
            assert cached(x, 0) == 15  # by NumPy's function, which stands for the other one
    assert calls == list(range(50))


def test_all_dispatch_caches_together_keep_what_is_used(monkeypatch):
    monkeypatch.setattr(dispatch_cache, "_of_all_functions", [])
    monkeypatch.setattr(dispatch_cache, "_MAX_OF_ALL", 40)
    used, *others = (dispatch_cache.DispatchCache(np.sum, pk.sum) for _ in range(31))
    used._store(("used",), dispatch_cache.Executable(is_general=True))
    for axis in range(60):
        for other in others:
            other._store((axis,), dispatch_cache.Executable())
            assert used.executables["used",] is not None
    assert others[-1].executables[59,] is not None
    kept = [len([*each.executables.live_values()]) for each in (used, *others)]
    assert sum(kept) <= 40


def test_calls_that_leave_nothing_to_cache_are_not_looked_at_for_ever(monkeypatch):
    collected = []
    collect = dispatch_cache.run_and_collect_offer
    monkeypatch.setattr(
        dispatch_cache,
        "run_and_collect_offer",
        lambda function, *args, **kwargs: collected.append(args) or collect(function, *args, **kwargs),
    )
    cached = dispatch_cache.with_dispatch_cache(np.add, lambda x, y: x + y)  # it logs no call
    x = np.ones(1000)
    with pk.engine("auto"):
        for _ in range(100):
            assert cached(x, x).sum() == 2000
    assert 0 < len(collected) < 50


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_within_a_call_that_fills_the_cache(fails):
    def inner():
        assert dispatch_cache.is_filling_cache()
        dispatch_cache.offer_to_cache("inner", None)
        if fails:
            raise ValueError
        return "inner"

    def outer():
        try:
            assert dispatch_cache.run_and_collect_offer(inner) == ("inner", ("inner", None))
        except ValueError:
            assert fails
        assert dispatch_cache.is_filling_cache()
        dispatch_cache.offer_to_cache("outer", None)
        return "outer"

    assert dispatch_cache.run_and_collect_offer(outer) == ("outer", ("outer", None))
    assert not dispatch_cache.is_filling_cache()
