"""Capture and replay of calls on device arrays with the same signature."""

import gc
import weakref

import numpy as np
import pytest
from helpers.calls_on_device import CALLS, LOOKS_AT, RNG, SLOW, arrays_of, parts_of, with_slow_ones_thorough
from helpers.threads import run_in_threads
from numpy.testing import assert_allclose, assert_array_equal

import pycudakit as pk
from pycudakit.fusing import device_replay

pytestmark = pytest.mark.filterwarnings("ignore")


def values_of(cupy_library, call, arrays):
    """Return the result of a call on device arrays, and these arrays afterwards."""
    placed = {name: cupy_library.up(x) for name, x in arrays.items()}
    results = [
        cupy_library.down(part) if hasattr(part, "shape") else part for part in parts_of(call(**placed))
    ]
    return [np.array(x) for x in (*results, *map(cupy_library.down, placed.values()))]


def shuffled(arrays):
    return {name: RNG.permutation(x.ravel()).reshape(x.shape) for name, x in arrays.items()}


@pytest.mark.parametrize("name", with_slow_ones_thorough(CALLS))
def test_the_same_comes_out(replayed, monkeypatch, name):
    """A replay gives the bits of the call itself, also for other arrays."""
    given = [
        arrays_of(CALLS[name]),
        *(shuffled(arrays_of(CALLS[name])) for _ in range(1 if name in SLOW else 2)),
    ]  # the third call is replayed
    with monkeypatch.context() as plain:
        plain.setattr(device_replay, "_signature_of", lambda *_: None)
        wants = [values_of(replayed, CALLS[name], arrays) for arrays in given]
    assert not replayed.count
    gots = [values_of(replayed, CALLS[name], arrays) for arrays in given]
    for want, got in zip(wants, gots, strict=True):
        for one, other in zip(got, want, strict=True):
            assert_array_equal(one, other, strict=True)
    if LOOKS_AT.match(name) and "isin" not in name and "unique of few in" not in name:
        assert not replayed.count


def _of_two(function):
    return lambda w, u: function(w[:, :300], u[:300]) if function is pk.matmul else function(w[0], u[0])


PLAYED = {
    "matmul": _of_two(pk.matmul),
    "one array twice": lambda w: pk.einsum("ij,kj->ik", w, w),
    "dot": _of_two(pk.dot),
    "norm": lambda a: pk.linalg.norm(a, *()),
    "einsum": lambda m, s: pk.einsum("ij,jk->ki", m, s),
    "diff": lambda a: pk.diff(a, *()),
    "gradient": lambda a: pk.gradient(a, *()),
    "concatenate": lambda a, b: pk.concatenate([a, b]),
    "average": lambda m: pk.average(m, axis=0),
    "topk": lambda w: pk.topk(w, 30),
    "lexsort": lambda a, b: pk.lexsort([a, b]),
    "divmod": _of_two(pk.divmod),
    "nansum": lambda a: pk.nansum(a, *()),
    "backwards": lambda a, b: pk.kron(a[:50][::-1], b[:40]),
    "where": lambda a, b: pk.add(a, b, where=pk.less(a, 50), out=b.copy() if hasattr(b, "copy") else b),
    "blur": lambda p: pk.image.box_blur(p, 5),
}


@pytest.mark.parametrize("name", PLAYED)
def test_is_replayed(replayed, name):
    call, arrays = PLAYED[name], arrays_of(PLAYED[name])
    for _ in range(4):
        values_of(replayed, call, arrays)
    assert replayed.count >= 2
    assert (pk.last_call().engine, pk.last_call().bytes_down) == ("cuda", 0)


def test_call_log_of_replays(replayed):
    a, b = replayed.up(RNG.random((30, 40))), replayed.up(RNG.random((40, 20)))
    for _ in range(4):
        pk.matmul(a, b)
        assert (pk.last_call().function, pk.last_call().engine) == ("matmul", "cuda")
        assert pk.last_call().reason.startswith("the requested engine")
    assert replayed.count == 2
    with pk.profile() as calls:  # a profile sees the single kernels
        pk.matmul(a, b)
    assert replayed.count == 2
    assert [call.function for call in calls.calls] == ["matmul"]


def test_other_arguments_are_other_kinds(replayed):
    x = RNG.random((40, 50))
    a = replayed.up(x)
    for _ in range(4):
        for value in (0.0, -0.0, 1.0, 2.0, np.float32(2)):
            got = replayed.down(pk.diff(a, prepend=value))
            assert_array_equal(got, np.diff(x, prepend=value))
        for axis in (0, 1, -1):
            assert_array_equal(replayed.down(pk.diff(a, axis=axis)), np.diff(x, axis=axis))
            assert_array_equal(replayed.down(pk.diff(a[::2], axis=axis)), np.diff(x[::2], axis=axis))
            assert_array_equal(replayed.down(pk.diff(a[:, 1:], axis=axis)), np.diff(x[:, 1:], axis=axis))


def test_refused_calls_are_refused_again(replayed):
    a, places, powers = replayed.up(np.arange(5000)), np.arange(100), np.full(5000, 2)
    for _ in range(4):
        pk.take(a, replayed.up(places))
        pk.power(a, replayed.up(powers), where=True, dtype=np.int64)
    places[7] = 5000
    with pytest.raises(IndexError, match="5000 is out of bounds"):
        pk.take(a, replayed.up(places))
    powers[3] = -1
    with pytest.raises(ValueError, match="negative integer powers"):
        pk.power(a, replayed.up(powers), where=True, dtype=np.int64)
    with pytest.raises(ValueError, match=r"not aligned|mismatch"):
        pk.matmul(a, replayed.up(np.arange(7)))


def test_one_array_in_the_place_of_others(replayed):
    """Arrays that share memory have another signature than arrays that do not."""
    x, y = RNG.random((200, 200)), RNG.random((200, 200))
    a, b = replayed.up(x), replayed.up(y)
    for _ in range(3):
        assert_array_equal(replayed.down(pk.kron(a[0], b[0])), np.kron(x[0], y[0]))
    assert_array_equal(replayed.down(pk.kron(a[0], a[0])), np.kron(x[0], x[0]))
    assert_array_equal(replayed.down(pk.kron(a[0], a[1])), np.kron(x[0], x[1]))
    flat = a.ravel() if hasattr(a, "ravel") else replayed.up(x.ravel())
    assert_array_equal(
        replayed.down(pk.kron(flat[:200], flat[100:300])), np.kron(x.ravel()[:200], x.ravel()[100:300])
    )


def test_threads_replay_their_own(replayed):
    xs, wrong = RNG.random((8, 60, 60)), []
    wants = [x @ x.T for x in xs]

    def work(number):
        with pk.engine("cuda"):
            a, b = replayed.up(xs[number]), replayed.up(np.ascontiguousarray(xs[number].T))
            for _ in range(30):
                got = replayed.down(pk.einsum("ij,jk->ik", a, b))
                if not np.allclose(got, wants[number]):
                    wrong.append(number)

    run_in_threads(work, range(8))
    assert not wrong


@pytest.mark.parametrize("name", ["matmul", "dot", "norm", "einsum", "concatenate", "average"])
def test_results_are_not_copied(replayed, name):
    """Entries store to the memory of the result, even where the traced call copies from another buffer."""
    call, arrays = PLAYED[name], arrays_of(PLAYED[name])
    wants = [values_of(replayed, call, arrays) for _ in range(2)]
    (captured,) = device_replay._captured_calls.live_values()
    (captured_call,) = captured.idle
    assert captured_call._index_of_new
    assert not any(step.imports in captured_call._index_of_new for step in captured_call._steps)
    got = values_of(replayed, call, arrays)
    assert replayed.count == 1
    for want in wants:
        for one, other in zip(got, want, strict=True):
            assert_array_equal(one, other, strict=True)


def test_memory_is_released(replayed):
    a = replayed.up(RNG.random((100, 100)))
    for _ in range(3):
        pk.einsum("ij,kj->ik", a, a)
    assert device_replay._captured_calls
    pk.release()
    assert not device_replay._captured_calls
    assert replayed.down(pk.einsum("ij,kj->ik", a, a)).shape == (100, 100)


def test_no_more_than_so_much(replayed, monkeypatch):
    """Captured calls may hold only a part of a host copy, whose addresses are their keys."""
    monkeypatch.setattr(device_replay, "_MAX_TOTAL_BYTES", 100_000)
    for size in range(1000, 1020):
        for _ in range(3):
            pk.diff(replayed.up(np.arange(size + 1.0)))
        captured = device_replay._captured_calls.live_values()
        assert sum(each.bytes for known in captured for each in known.idle) <= 100_000
    assert replayed.count
    monkeypatch.setattr(device_replay, "_MAX_BYTES", 1000)
    for _ in range(4):
        pk.diff(replayed.up(np.arange(3000.0)))
    captured = device_replay._captured_calls.items()
    assert not any(known.idle for key, known in captured if "(3000,)" in str(key))


def test_without_end(replayed):
    """Of many signatures, some are evicted."""
    for size in range(1, 400):
        pk.diff(replayed.up(np.arange(size + 1.0)))
    assert 0 < len(device_replay._captured_calls) <= 256


def test_functions_are_held_weakly(replayed):
    scaled = pk.fuse(lambda x: x * 2 + 1)
    for _ in range(4):
        result = scaled(replayed.up(np.arange(1000.0)))
    assert replayed.count
    np.testing.assert_array_equal(replayed.down(result), np.arange(1000.0) * 2 + 1)
    kept = weakref.ref(scaled)
    del scaled
    gc.collect()
    assert kept() is None


FACTOR = 3.0


@pk.fuse
def _scaled(x):
    return x * FACTOR


def _calls_a_fused_function(x, y):
    return _scaled(x) + np.sqrt(_scaled(y))


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_fused_function_called_by_a_fused_function(replayed, monkeypatch, is_shown):
    """The guards accept a fused callee, also after `pk.Fused` has renamed the class's `__module__`."""
    kind = type(_scaled)
    # Other tests may have looked up `pk.Fused`; the `__module__` of a method is never renamed.
    monkeypatch.setattr(kind, "__module__", "pycudakit" if is_shown else kind.__call__.__module__)
    fused = pk.fuse(_calls_a_fused_function)
    assert fused._traced.guards is not None
    for factor in (3.0, 0.5):  # the inner function reads it as a global
        monkeypatch.setitem(globals(), "FACTOR", factor)
        count = replayed.count
        for _ in range(4):
            x, y = RNG.random((2, 3000))
            got = replayed.down(fused(replayed.up(x), replayed.up(y)))
            assert_allclose(got, x * factor + np.sqrt(y * factor), rtol=1e-12)
        assert replayed.count - count == 2  # the first call prepares, the second is recorded
