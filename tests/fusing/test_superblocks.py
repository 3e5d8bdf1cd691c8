"""Loops whose turns are replayed by one list of requests: a superblock, left where a condition changes."""

import warnings

import numpy as np
import pytest
from helpers.nested import assert_parts as assert_each
from helpers.nested import copied
from helpers.threads import run_in_threads
from hypothesis import given, settings
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.fusing.execute.plan import PlanRun
from pycudakit.fusing.memory import residency

pytestmark = pytest.mark.usefixtures("really_replayed")


def assert_parts(got, want):
    assert_each(got, want, lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-12))


@pytest.fixture
def runs(monkeypatch):
    """Count the lists of requests that the C library runs."""
    counted = []
    compute = PlanRun.compute

    def counting(self, *arguments):
        if self._plan.order:
            counted.append(self._plan)
        return compute(self, *arguments)

    monkeypatch.setattr(PlanRun, "compute", counting)
    return counted


def with_messages(function, *arguments):
    """Return the result of a call, and the messages of its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = function(*arguments)
    return result, {str(each.message) for each in warned}


def is_replayed():
    return "replayed" in pk.last_call().reason


def halved(x, limit):
    turns = 0
    while np.max(x) > limit:
        x = x * 0.5
        turns += 1
    return x, turns


def both_ways(x, y):
    """Keep other arrays in each outcome."""
    total = np.zeros_like(x)
    while x.sum() > 1:
        before = x
        if x[0] > y[0]:
            x = x * 0.25
            total = total + before
        else:
            y = y * 0.75
            x = x * 0.5 - y * 1e-3
            total = total - y
    return total, x, y


def written(x, y):
    while np.any(x > 1):
        x *= 0.5
        if y.max() > 3:
            y[::2] -= x[::2] * 0.25
    return y.sum()


def by_rows(x):
    """Condition on a reduction of a reduction, with an intermediate array of the loop's that is returned."""
    norms = [np.sqrt((x * x).sum(axis=1))]
    while np.max(norms[-1]) > 1:
        x = x / 2
        norms.append(np.sqrt((x * x).sum(axis=1)))
    return norms, x


BODIES = {
    "halved": (halved, lambda r: (r.random(900) * 2.0 ** r.integers(1, 9), 1)),
    "large": (halved, lambda r: (r.random(40_000) * 2.0 ** r.integers(1, 9), 1)),
    "both ways": (
        both_ways,
        lambda r: (r.random(700) * r.integers(1, 60), r.random(700) * r.integers(1, 60)),
    ),
    "written": (written, lambda r: (r.random(700) * r.integers(1, 99), r.random(700) * r.integers(1, 9))),
    "rows": (by_rows, lambda r: (r.random((50, 60)) * 2.0 ** r.integers(0, 6),)),
}


@pytest.mark.parametrize("name", BODIES)
def test_results_are_numpys(engine, name):
    """Of calls with other numbers of turns and other outcomes, also those that leave a superblock early."""
    check(engine, name)


@pytest.mark.parametrize("min_resident_bytes", [1, 1 << 40])
@pytest.mark.parametrize("name", BODIES)
def test_results_on_a_fake_gpu_are_numpys(small_gpu, monkeypatch, name, min_resident_bytes):
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", min_resident_bytes)
    check("cuda", name)


def check(engine, name):
    body, draw = BODIES[name]
    fused = pk.fuse(body)
    rng = np.random.default_rng(5)
    replayed, kept = 0, []
    for _ in range(80):
        ours = draw(rng)
        numpys = copied(ours)
        result, expected = fused(*ours), body(*numpys)
        assert_parts(result, expected)
        assert_parts(list(ours), list(numpys))
        replayed += is_replayed()
        kept.append((result, copied(result)))
    assert engine != "cpu" or replayed > 20
    for result, values in kept:  # no later call has written to them
        assert_each(result, values, np.testing.assert_array_equal)


@pytest.mark.parametrize("size", [1000, 100_000])
def test_a_loop_is_one_list(engine, runs, size):
    if engine == "auto":
        pytest.skip("it may choose NumPy")
    fused = pk.fuse(halved)
    x = np.linspace(0, 1.5, size)
    for turns in (10, 10, 9, 9, 3, 3, 1, 1, 10):  # each is captured; then the longest is made a superblock
        fused(x * 2 ** (turns - 1), 1)
    for turns in (10, 9, 3, 1, 10):  # fewer turns leave it early
        runs.clear()
        result, count = fused(x * 2 ** (turns - 1), 1)
        assert count == turns
        np.testing.assert_array_equal(result, x / 2)
        assert is_replayed()
        assert len(runs) <= 2  # the turns, and what is left to compute


def with_history(x, limit):
    """Keep numbers of each turn, which the condition reads, too."""
    sums, largest = [], [np.inf]
    while largest[-1] > limit:
        sums.append(x.sum())
        largest.append(float(x.max()))
        x = x * 0.5
    return x, sums, largest


@pytest.mark.parametrize("size", [1000, 20_000])
def test_a_loop_that_keeps_numbers_is_one_list(engine, runs, size):
    fused, x = pk.fuse(with_history), np.linspace(0, 1.5, size)
    for turns in (10, 10, 9, 9, 3, 3, 1, 1, 10):
        fused(x * 2 ** (turns - 1), 1)
    for turns in (10, 9, 3, 1, 10):
        runs.clear()
        given = x * 2 ** (turns - 1)
        got, want = fused(given, 1), with_history(given, 1)
        assert_parts(got, want)
        assert {type(each) for each in got[1]} == {np.float64}
        assert {type(each) for each in got[2]} == {float}
        if engine != "auto":
            assert is_replayed()
            assert len(runs) <= 2


@pytest.mark.parametrize("turn", [0, 1, 3])
def test_a_kept_number_that_overflows(engine, turn):
    """A sum that is no longer finite is warned of, in the turn in which it overflows."""

    def body(x, factor):
        sums = []
        while len(sums) < 2 or sums[-1] > sums[0] * 2:
            sums.append(x.sum())
            x = x * factor
            if len(sums) > 5:
                break
        return x, sums

    fused, factor = pk.fuse(body), 4.0
    for _ in range(4):
        assert_parts(fused(np.ones(1000), factor), body(np.ones(1000), factor))
    large = np.full(1000, 1.5e305 / factor**turn)
    want, wanted = with_messages(body, large, factor)
    got, warned = with_messages(fused, large, factor)
    assert_parts(got, want)
    assert {each.replace("scalar ", "") for each in warned} == {
        each.replace("scalar ", "") for each in wanted
    }


def test_memory_is_reused_from_turn_to_turn(engine, runs):
    if engine == "auto":
        pytest.skip("it may choose NumPy")
    fused = pk.fuse(halved)
    for _ in range(6):
        fused(np.linspace(0, 2.0**40, 5000), 1)
    (plan,) = [each for each in runs if each.stops][-1:]
    assert len(plan.stops) >= 40
    assert len(plan.new) <= 3
    assert len(plan.requests) <= 20


@pytest.mark.parametrize("scale", [1e200, np.inf, np.nan])
def test_a_turn_that_warns(engine, scale):
    """A sum that is not finite ends the list; the call is traced, and warns as NumPy."""

    def body(x, factor):
        total = x.sum()
        while total < 1e300:
            x = x * factor
            total = x.sum()
        return x

    fused = pk.fuse(body)
    for factor in (10.0, 10.0, 10.0, 10.0, scale, 10.0):
        x = np.full(600, 1e280)
        x[5] = factor
        result, ours = with_messages(fused, x, factor)
        expected, numpys = with_messages(body, x, factor)
        np.testing.assert_array_equal(result, expected)
        assert ours == numpys


def test_ignored_errors_are_replayed(engine):
    def body(x):
        while x.sum() < np.inf:
            x = x * 1e100
        return x

    fused = pk.fuse(body)
    with np.errstate(all="ignore"):
        for exponent in (0, 0, 0, 0, -150, -50, 200):
            x = np.full(600, 10.0**exponent)
            np.testing.assert_array_equal(fused(x), body(x))


def test_an_unknown_outcome_restores_the_arguments(engine):
    fused = pk.fuse(written)
    x, y = np.full(500, 100.0), np.full(500, 2.0)
    for _ in range(6):
        fused(x.copy(), y.copy())
    ours, numpys = (np.full(500, 3000.0), np.full(500, 9.0)), (np.full(500, 3000.0), np.full(500, 9.0))
    assert_parts(fused(*ours), written(*numpys))
    assert_parts(ours, numpys)


def test_threads(engine):
    fused = pk.fuse(both_ways)

    def run(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            x, y = rng.random(300) * 20, rng.random(300) * 20
            assert_parts(fused(x, y), both_ways(x, y))

    run_in_threads(run, range(4))


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 2), st.booleans()), min_size=8, max_size=30))
@settings(max_examples=30)
def test_random_outcomes(engine, calls):
    def body(x, y, limit):
        turns = 0
        while x.max() > limit:
            if (x > y).any():
                x = x * 0.5
                y = y + 0.125
            elif y[3] > 2:
                y = y - x
                x = x * 0.75
            else:
                x = x - 0.25
            turns += 1
        return x, y, turns

    fused = pk.fuse(body)
    for exponent, limit, is_above in calls:
        x = np.linspace(0.5, 1, 300) * 2.0**exponent
        y = np.full(300, 0.0 if is_above else 2.0**exponent)
        assert_parts(fused(x, y, limit + 0.5), body(x, y, limit + 0.5))
