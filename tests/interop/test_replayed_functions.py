"""Fused functions without side effects are replayed for a known signature; others run each time."""

import math
import time
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pycudakit as pk

FACTOR, OFFSET, log = 2.0, (1, 0.5), []
rng = np.random.default_rng(3)
table = np.arange(3.0)


def values(seed, *shape):
    return np.random.default_rng(seed).random(shape or (3000,)) + 1


def scaled(x):
    return x * FACTOR + OFFSET[1]


def twice(x, y=1.0, *, z=2):
    return x * y + z


def in_place(x, y):
    x *= 2
    x[1:] += y[:-1]
    return x


def loops(x, y):
    for k in range(3):
        x = np.sqrt(x * x + y) - y / (k + 2)
    return x if x.ndim == 1 else -x


def parts(x, y):
    low, high = x.min(), x.max()
    return (x - low) / (high - low), [part + y for part in (x, y)]


PURE = {
    "standardise": lambda x, y: (x - x.mean()) / (x.std() + y.sum()),
    "softmax": lambda x, y: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))) + y,
    "a function that it names": lambda x, y: scaled(x) - scaled(y),
    "defaults": lambda x, y: twice(x) + twice(y, 3.0, z=1),
    "in place": in_place,
    "loops": loops,
    "parts": parts,
    "pycudakit": lambda x, y: pk.evaluate("a * b + 1", {"a": x, "b": y}) + np.clip(x, 1.2, 1.7),
    "a mask": lambda x, y: np.where(x > y, math.pi, np.float32(2)) * x,
    "products": lambda x, y: np.dot(x, y) + x,
    "sorted": lambda x, y: np.sort(x)[::2] + np.cumsum(y)[::2],
}


def flat(result):
    if isinstance(result, (tuple, list)):
        return [value for part in result for value in flat(part)]
    return [result]


@pytest.mark.parametrize("name", PURE)
def test_the_same_comes_out(replayed, name):
    function = pk.fuse(PURE[name])
    for seed in range(5):
        x, y = values(seed), values(seed + 100)
        a, b = replayed.up(x), replayed.up(y)
        got, want = flat(function(a, b)), flat(PURE[name](x, y))
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_allclose(replayed.down(one), other, rtol=1e-9, atol=1e-9)
        assert_allclose(replayed.down(a), x, rtol=1e-12)
        assert_array_equal(replayed.down(b), y)
        assert pk.last_call().engine == "cuda"
    assert replayed.count >= 2


def changing(x):
    return x * FACTOR


def through_another(x):
    return changing(x) + 1


def test_current_meanings_of_names(replayed, monkeypatch):
    a = replayed.up(np.ones(2000))
    for function, more in ((changing, -0.0), (through_another, 1)):
        fused = pk.fuse(function)
        for factor in (2.0, 3.0, 2, -0.0, 3.0, 2.0, 2.0, np.float32(5)):
            monkeypatch.setitem(globals(), "FACTOR", factor)
            got = replayed.down(fused(a))
            assert_array_equal(got, np.full(2000, factor + more, np.float64))
            assert np.signbit(got[0]) == np.signbit(factor + more)
    assert replayed.count


def test_another_function_by_a_name(replayed, monkeypatch):
    def other(x):
        return x - FACTOR

    fused, a = pk.fuse(through_another), replayed.up(np.ones(2000))
    for _ in range(4):
        fused(a)
    assert replayed.count == 2
    monkeypatch.setitem(globals(), "changing", other)
    for factor in (1.0, 2.0, 3.0, 4.0):  # its globals were not analysed yet
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert_array_equal(replayed.down(fused(a)), np.full(2000, 2.0 - factor))


def test_closures(replayed):
    factor = 2.0

    def function(x):
        return x * factor

    fused, a = pk.fuse(function), replayed.up(np.ones(2000))
    for _ in range(3):
        for factor in (2.0, 3.0):
            assert_array_equal(replayed.down(fused(a)), np.full(2000, factor))
    assert replayed.count == 2


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + 1


def _logs(x):
    log.append(1)
    return x + 1


def _prints(x):
    print("seen", end="")  # noqa: T201
    return x + 1


def _draws(x):
    return x + rng.random()


def _draws_by_numpy(x):
    return x + np.random.random()  # noqa: NPY002


def _tells_time(x):
    return x + time.perf_counter()


def _reads(x):
    return x[:3] + table


def _heeds(x):
    with np.errstate(all="ignore"):
        return x / 0


def _sets(x):
    global FACTOR  # noqa: PLW0603
    FACTOR = 2.0
    return x + FACTOR


def _of_settings(x):
    return x + float(np.geterr()["divide"] == "warn")


def _imports(x):
    import math

    return x + math.e


CURVE = np.poly1d([1.0, 2.0])


def _of_an_object(x):
    return x + CURVE(1.0)


RUN = [
    _of_an_object,
    _logs,
    _prints,
    _draws,
    _draws_by_numpy,
    _tells_time,
    _reads,
    _heeds,
    _sets,
    _of_settings,
    _imports,
]


@pytest.mark.parametrize("function", RUN)
@pytest.mark.filterwarnings("ignore")
def test_functions_that_run_each_time(replayed, function, capsys):
    fused, a = pk.fuse(function), replayed.up(np.ones(2000))
    assert fused._traced.guards is None or function in (_heeds, _reads)  # replayed for host arrays
    log.clear()
    for _ in range(5):
        fused(a)
    assert not replayed.count
    assert len(log) == 5 * (function is _logs)
    assert capsys.readouterr().out == "seen" * (5 * (function is _prints))


def test_objects_run_each_time(replayed):
    counter, a = Counter(), replayed.up(np.ones(2000))
    fused = pk.fuse(counter)
    method = pk.fuse(types.MethodType(Counter.__call__, counter))
    for _ in range(5):
        fused(a), method(a)
    assert counter.calls == 10


def branching(x):
    return x + 1 if x.sum() > 2500 else x - 1


def test_functions_of_values_run_each_time(replayed):
    fused = pk.fuse(branching)
    for value in (1.0, 2.0, 1.0, 2.0, 1.0, 2.0):
        got = replayed.down(fused(replayed.up(np.full(2000, value))))
        assert_array_equal(got, np.full(2000, value + (1 if value > 1.5 else -1)))
    assert not replayed.count


def test_numbers_that_are_given(replayed):
    fused, x = pk.fuse(lambda x, k: x * k if k else x), values(1)
    for _ in range(3):
        for k in (0, 1, 2.5, True, np.float32(0.1)):
            assert_array_equal(replayed.down(fused(replayed.up(x), k)), x * k if k else x)
    assert replayed.count


def test_lists_are_changed_each_time(replayed):
    def function(parts):
        parts[0] = parts[0] * 2
        return parts[0] + parts[1]

    fused = pk.fuse(function)
    for _ in range(4):
        a, b = replayed.up(np.ones(2000)), replayed.up(np.ones(2000))
        parts = [a, b]
        assert_array_equal(replayed.down(fused(parts)), np.full(2000, 3.0))
        assert_array_equal(replayed.down(parts[0]), np.full(2000, 2.0))
    pair = pk.fuse(lambda both: both[0] + both[1])
    for _ in range(4):
        assert_array_equal(replayed.down(pair((a, b))), np.full(2000, 2.0))
    assert replayed.count == 2


def test_errors_come_again(replayed):
    fused, a, b = pk.fuse(lambda x, y: x + y), replayed.up(np.ones(2000)), replayed.up(np.ones(3))
    for _ in range(4):
        fused(a, a)
    for _ in range(3):
        with pytest.raises(ValueError, match="could not be broadcast"):
            fused(a, b)


def test_the_report_of_the_last_call(replayed):
    fused, a = pk.fuse(lambda x: (x - x.mean()) / x.std()), replayed.up(np.ones(2000))
    for _ in range(4):
        fused(a)
        told = pk.last_call()
        assert (told.engine, told.bytes_down) == ("cuda", 0)
        assert [each.function for each in told.passes][-1:] == ["subtract, divide"]
    assert replayed.count == 2
