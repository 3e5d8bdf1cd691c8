"""Small arrays in globals, closures and defaults: their elements are constants and guards of a plan."""

import threading

import numpy as np
import pytest
from helpers.nested import assert_near

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 900

TABLE = np.cumsum(np.arange(1.0, 41.0))
INDICES = np.arange(0, SIZE, 7)[::-1].copy()
MATRIX = np.arange(12.0).reshape(3, 4)
OFFSETS = np.arange(3.0)
LARGE = np.ones(8192)


def curve(x):
    """Interpolate between global points, and search global edges."""
    return np.interp(x, TABLE, TABLE * 2), np.interp(x * 2, TABLE, np.sqrt(TABLE), 1.5, right=-2)


def searches(x):
    edges = TABLE[3:30:2]
    return np.digitize(x, edges), np.digitize(x, TABLE, right=True), np.searchsorted(TABLE, x * 2, "right")


def elements(x):
    y = x * 2
    return y[INDICES], np.take(y, INDICES) - x[INDICES], y.reshape(30, 30)[INDICES[:9] % 30]


def scatters(x):
    y = x + 1
    y[INDICES] = 0.0
    np.add.at(y, INDICES, 2.0)
    return y


def arithmetic(x):
    first, rows = TABLE[0], x.reshape(-1, 4)
    return (rows * MATRIX[1] + first)[:, ::-1], rows @ MATRIX.T, x[:40] * TABLE, float(MATRIX[2, 3]) + x


BODIES = (curve, searches, elements, scatters, arithmetic)


def numbers(seed):
    return np.random.default_rng(seed).random(SIZE) * 900


def assert_replayed(engine):
    if engine != "auto":  # which may choose NumPy
        assert "replayed" in pk.last_call().reason


def assert_traced(engine):
    if engine != "auto":
        assert "replayed" not in pk.last_call().reason


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_functions_of_global_arrays(engine, body):
    fused = pk.fuse(body)
    for seed in range(5):
        x = numbers(seed)
        assert_near(fused(x), body(x))
    assert_replayed(engine)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_elements_that_change(engine, body, monkeypatch):
    """New elements have plans of their own, and former ones the plan that they had."""
    fused, others = pk.fuse(body), {"TABLE": TABLE + 0.5, "INDICES": INDICES[::-1] // 2, "MATRIX": -MATRIX}
    own = {name: globals()[name].copy() for name in others}
    for name in others:
        monkeypatch.setitem(globals(), name, own[name])
    for change in (own, others, own, others):
        for name, values in change.items():
            globals()[name][...] = values.copy()
        for seed in range(4):
            assert_near(fused(numbers(seed)), body(numbers(seed)))
    assert_replayed(engine)


def test_another_array_by_the_same_name(engine, monkeypatch):
    fused = pk.fuse(lambda x: x[: len(TABLE)] * TABLE + x[-1])
    values = (np.ones(5), np.ones(5, np.float32), np.ones((5, 1)), np.arange(10.0)[::2], LARGE[:5].copy())
    for table in (*values, *values):
        monkeypatch.setitem(globals(), "TABLE", table)
        for seed in range(3):
            assert_near(fused(numbers(seed)), fused.__wrapped__(numbers(seed)))


def test_closures_and_defaults(engine):
    def made(weights):
        def body(x, offsets=OFFSETS):
            return x[:3] * weights + offsets

        return body

    for weights in (np.ones(3), np.arange(3.0)):
        body = made(weights)
        fused = pk.fuse(body)
        for seed in range(4):
            np.add(weights, seed, out=weights)
            for _ in range(4):
                assert_near(fused(numbers(seed)), body(numbers(seed)))
        assert_replayed(engine)


def test_the_argument_is_the_global(engine, monkeypatch):
    """Writes to the argument change the global, which the body reads after them."""

    def body(x):
        x[3:9] += 1
        return x * 2 + TABLE[: len(x)], TABLE.sum()

    fused = pk.fuse(body)
    for part in (slice(None), slice(2, 30)):
        for seed in range(5):
            ours, numpys = numbers(seed)[:40], numbers(seed)[:40]
            monkeypatch.setitem(globals(), "TABLE", ours)
            got = fused(ours[part])
            monkeypatch.setitem(globals(), "TABLE", numpys)
            assert_near(got, body(numpys[part]))
            assert_near(ours, numpys)


@pytest.mark.parametrize("way", ["item", "slice", "method", "out", "put", "in place"])
def test_functions_that_write_to_a_global(engine, way, monkeypatch):
    def body(x):
        if way == "item":
            TABLE[1] += 1
        elif way == "slice":
            TABLE[:] = x[:40]
        elif way == "method":
            TABLE.fill(TABLE[0] + 1)
        elif way == "out":
            np.add(x[:40], TABLE, out=TABLE)
        elif way == "put":
            np.put(TABLE, [1, 2], x[:2])
        else:
            table = TABLE
            table *= 1.5
        return x[:40] + TABLE

    fused = pk.fuse(body)
    ours, numpys = TABLE.copy(), TABLE.copy()
    for seed in range(6):
        x = numbers(seed)
        monkeypatch.setitem(globals(), "TABLE", ours)
        got = fused(x)
        monkeypatch.setitem(globals(), "TABLE", numpys)
        assert_near(got, body(x))
        assert_near(ours, numpys)
    assert_traced(engine)


def test_a_write_that_is_undone(engine, monkeypatch):
    """What the body reads in between is not what the guard has seen."""

    def body(x):
        TABLE[0] = 100.0
        y = x * TABLE[:1] + np.interp(x, TABLE[1:], TABLE[1:] * TABLE[0])
        TABLE[0] = 1.0
        return y

    fused = pk.fuse(body)
    monkeypatch.setitem(globals(), "TABLE", TABLE.copy())
    for seed in range(6):
        assert_near(fused(numbers(seed)), body(numbers(seed)))


def test_the_result_is_the_global(engine):
    fused = pk.fuse(lambda x: (x + 1, MATRIX, MATRIX.T))
    for seed in range(5):
        got = fused(numbers(seed))
        assert got[1] is MATRIX
        assert np.shares_memory(got[2], MATRIX)
        assert_near(got[0], numbers(seed) + 1)


def test_large_arrays_are_read_in_each_call(engine, monkeypatch):
    fused = pk.fuse(lambda x: x + LARGE[: len(x)])
    monkeypatch.setitem(globals(), "LARGE", LARGE.copy())
    for seed in range(5):
        LARGE[:] = seed
        assert_near(fused(numbers(seed)), numbers(seed) + seed)
    assert_traced(engine)


def test_points_that_numpy_refuses(engine, monkeypatch):
    fused = pk.fuse(lambda x: np.interp(x, TABLE, MATRIX[0]))
    for _ in range(3):
        with pytest.raises(ValueError, match="fp and xp are not of the same length"):
            fused(numbers(0))
    unsorted = pk.fuse(lambda x: np.digitize(x, TABLE))
    for _ in range(2):
        assert_near(unsorted(numbers(0)), np.digitize(numbers(0), TABLE))
    monkeypatch.setitem(globals(), "TABLE", np.array([1.0, 5.0, 2.0]))
    for _ in range(3):
        with pytest.raises(ValueError, match="bins must be monotonically increasing or decreasing"):
            unsorted(numbers(0))
    monkeypatch.setitem(globals(), "TABLE", np.array([300.0, 200.0, 100.0, 100.0]))
    for seed in range(4):
        assert_near(unsorted(numbers(seed)), np.digitize(numbers(seed), TABLE))


def test_two_names_of_one_array(engine, monkeypatch):
    """The body may tell them apart by identity, and by shared memory."""

    def body(x):
        y = x + 1 if TABLE is OFFSETS else x - 1
        return y * 2 if np.shares_memory(TABLE, MATRIX) else y

    fused = pk.fuse(body)
    one, base = np.arange(3.0), np.arange(12.0)
    same = {"TABLE": one, "OFFSETS": one, "MATRIX": base[2:8]}
    equal = {"TABLE": one, "OFFSETS": one.copy(), "MATRIX": base[2:8]}
    shared = {"TABLE": base[:3], "OFFSETS": one, "MATRIX": base[2:8]}
    apart = {"TABLE": base[:3].copy(), "OFFSETS": one, "MATRIX": base[2:8].copy()}
    for arrays in (same, equal, shared, apart, same, equal, shared, apart):
        for name, array in arrays.items():
            monkeypatch.setitem(globals(), name, array)
        for seed in range(3):
            assert_near(fused(numbers(seed)), body(numbers(seed)))


def test_an_array_in_a_module_of_numpy(engine, monkeypatch):
    monkeypatch.setattr(np, "own_table", np.ones(3), raising=False)
    fused = pk.fuse(lambda x: x[:3] * np.own_table)
    for scale in (1.0, 5.0, 1.0, 7.0):
        np.own_table[:] = scale
        for seed in range(4):
            assert_near(fused(numbers(seed)), numbers(seed)[:3] * scale)


def test_arguments_by_name_and_complex_points(engine):
    """These are no requests of a plan."""

    def body(x):
        by_name = np.interp(x=x, xp=[0.0, 900.0], fp=[0.0, 2.0])
        return by_name, np.sort(a=x), np.argsort(a=x), np.interp(x, [0, 900], [1j, 2])

    fused = pk.fuse(body)
    for seed in range(4):
        assert_near(fused(numbers(seed)), body(numbers(seed)))


def test_calls_in_threads(engine):
    """Each thread has arguments of its own; the array is shared, and changes between the rounds."""
    weights = np.ones(3)
    fused = pk.fuse(lambda x: x.reshape(-1, 3) @ weights)
    wrong = []

    def work(seed, want):
        x = numbers(seed)
        wrong.extend(seed for _ in range(20) if not np.allclose(fused(x), x.reshape(-1, 3).sum(1) * want))

    for scale in (1.0, 2.0, 3.0):
        weights[:] = scale
        threads = [threading.Thread(target=work, args=(seed, scale)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
