"""Replays that draw from the random generators among the arguments."""

import copy
import signal
import threading

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 500


def vector(seed, size=SIZE):
    return np.random.default_rng(seed).integers(1, 100, size).astype("f8")


def adds_noise(x, rng):
    return np.sqrt(x) + 0.5 * rng.standard_normal(x.shape)


def distributions(x, rng):
    drawn = rng.normal(x, 2.0), rng.exponential(3.0, x.shape), rng.gamma(x + 1), rng.poisson(x)
    whole = rng.integers(0, 7, x.size), rng.binomial(10, x / 100)
    return [each * 2 for each in drawn], [each + 1 for each in whole]


def narrow(x, rng):
    halves = rng.random(x.size, dtype=np.float32), rng.standard_normal(3, dtype=np.float32)
    return x.astype(np.float32) * halves[0], halves[1] + 1, rng.integers(0, 9, 5, dtype=np.uint8)


def walks(x, rng):
    """A loop whose branch depends on what was drawn."""
    turns = 0
    while np.mean(x) < 60:
        x = x + rng.uniform(0, 5, x.size)
        turns += 1
    return x, turns


def writes(x, rng):
    x *= rng.random(x.size)
    x[:10] += rng.standard_normal(10)
    return x.sum()


def of_two(x, one, other):
    return x + one.random(x.size) - other.random(x.size), one is other


def without_arrays(rng, size):
    return rng.standard_normal(size) * 2 + 1


def replayed(function, *arguments):
    """Call a fused function; return its result, and whether the call was replayed."""
    result = function(*arguments)
    return result, "replayed" in pk.last_call().reason


def rngs(*seeds):
    return tuple(pk.random.default_rng(seed) for seed in seeds)


BODIES = {body: lambda seed: (vector(seed),) for body in (adds_noise, distributions, narrow, walks, writes)}
BODIES |= {of_two: lambda seed: (vector(seed),), without_arrays: lambda _: ()}


def assert_close(one, other):
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(one, other, rtol=1e-9)


def assert_close_or_equal(one, other):
    if isinstance(one, str):
        assert one.split(" at ")[0] == other.split(" at ")[0]
    else:
        assert_close(one, other)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_each_call_goes_on_in_the_streams(engine, body):
    """The numbers, the arguments and the states of the generators are those of the body itself."""
    fused = pk.fuse(body)
    drawn, expected = (rngs(1, 2) if body is of_two else rngs(1) for _ in range(2))
    rest = (SIZE,) if body is without_arrays else ()
    for seed in (0, 1, 2, 3, 0, 1, 2, 3):
        ours, numpys = BODIES[body](seed), BODIES[body](seed)
        result, is_replayed = replayed(fused, *ours, *drawn, *rest)
        assert_parts(result, body(*numpys, *expected, *rest), assert_close)
        assert_parts(ours, numpys, assert_close)
        assert drawn == expected
    assert is_replayed == (engine == "cpu")


def test_the_bits_are_numpys(engine):
    fused = pk.fuse(lambda x, rng: x + rng.random(x.size))
    rng, numpys = pk.random.default_rng(5), np.random.Generator(np.random.Philox(5))
    for seed in range(5):
        result, is_replayed = replayed(fused, vector(seed), rng)
        np.testing.assert_array_equal(result, vector(seed) + numpys.random(SIZE))
    assert is_replayed == (engine == "cpu")


def test_one_generator_given_twice(engine):
    """Whether two arguments are one generator belongs to the signature."""
    fused = pk.fuse(of_two)
    for seed in range(4):
        (one,), (other,) = rngs(seed), rngs(seed)
        assert_parts(fused(vector(seed), one, one), of_two(vector(seed), other, other), assert_close)
        assert one == other
        assert not fused(vector(seed), *rngs(1, 1))[1]


def test_in_a_tuple(engine):
    fused = pk.fuse(lambda x, pair: x * pair[1].random(x.size) + pair[0])
    one, other = rngs(4, 4)
    for seed in range(5):
        expected = vector(seed) * other.random(SIZE) + 0.5
        np.testing.assert_array_equal(fused(vector(seed), (0.5, one)), expected)
        assert one == other


def test_a_call_that_warns_draws_the_same_numbers(engine):
    """The replay of a call that must be traced advances no generator."""

    def body(x, rng):
        x *= rng.random(x.size)
        return 1 / (x - x[0] * (x[0] < 0)), rng.random(3)

    fused = pk.fuse(body)
    one, other = rngs(9, 9)
    for turn in range(12):
        x = vector(turn)
        if turn % 3 == 2:
            x[7] = 0
        ours, numpys = x.copy(), x.copy()
        if turn % 3 == 2:
            with pytest.warns(RuntimeWarning, match="divide by zero"):
                got = fused(ours, one)
            with np.errstate(divide="ignore"):
                expected = body(numpys, other)
        else:
            got, expected = fused(ours, one), body(numpys, other)
        assert_parts(got, expected, assert_close)
        assert_parts((ours,), (numpys,), assert_close)
        assert one == other


def test_a_draw_that_raises(engine):
    """The error is that of the method; the first draw is done, as without `fuse`."""

    def body(x, rng):
        noise = rng.random(x.size)
        return x + noise + rng.normal(0, x)

    fused = pk.fuse(body)
    one, other = rngs(3, 3)
    for turn in range(6):
        x = vector(turn) * (-1) ** turn
        if turn % 2:
            messages = []
            for function, rng in ((fused, one), (body, other)):
                with pytest.raises(ValueError, match="scale") as caught:
                    function(x, rng)
                messages.append(str(caught.value))
            assert messages[0] == messages[1]
        else:
            assert_close(fused(x, one), body(x, other))
        assert one == other


def of_a_module(x, rng):
    return x + np.random.random(x.size) * 0 + rng.random(x.size)  # noqa: NPY002


def of_our_module(x, rng):
    return x + pk.random.default_rng(int(x[0])).random(x.size) + rng.random(x.size)


def from_a_derived_generator(x, rng):
    return x + rng.jumped().random(x.size), rng.random(x.size)


def fills(x, rng):
    """Fill an array of which a value is deferred, with `out` by name and by position."""
    doubled = x * 2
    rng.random(out=x)
    shifted = x + 1
    rng.standard_normal(None, np.float64, x)
    return doubled, shifted, x * 2


def one_number(x, rng):
    return x * rng.random()


@pytest.mark.parametrize("body", [of_a_module, of_our_module, from_a_derived_generator, fills, one_number])
def test_other_draws_are_traced(engine, body):
    fused = pk.fuse(body)
    one, other = rngs(2, 2)
    for seed in range(5):
        result, is_replayed = replayed(fused, vector(seed), one)
        assert_parts(result, body(vector(seed), other), assert_close)
        assert one == other
        assert not is_replayed


def test_numpys_generators_are_traced(engine):
    for body in (adds_noise, fills):
        fused = pk.fuse(body)
        one, other = np.random.default_rng(1), np.random.default_rng(1)
        for seed in range(5):
            result, is_replayed = replayed(fused, vector(seed), one)
            assert_parts(result, body(vector(seed), other), assert_close)
            assert not is_replayed


def test_a_module_in_place_of_an_argument(engine):
    """A name `random` may be that of `numpy.random`, whose numbers no replay may repeat."""

    def draws(module, size):
        return module.random.random(size)

    fused = pk.fuse(lambda x: x + draws(np, x.size))
    results = {fused(np.zeros(9)).tobytes() for _ in range(6)}
    assert len(results) == 6


def test_under_auto():
    """`auto` runs a call on the CPU engine or in NumPy, where the numbers are those of NumPy's generator."""
    fused = pk.fuse(lambda x, rng: x + rng.random(x.size))
    rng, numpys = pk.random.default_rng(5), np.random.Generator(np.random.Philox(5))
    with pk.engine("auto"):
        for turn in range(60):
            x = vector(turn, 20_000)
            np.testing.assert_array_equal(fused(x, rng), x + numpys.random(x.size))


def test_threads_share_a_generator(engine):
    """No number is drawn twice."""
    fused = pk.fuse(lambda x, rng: x + rng.random(x.size) + 0 * rng.random(1))
    rng, rounds, size = pk.random.default_rng(8), 200, 16
    zeros = np.zeros(size)
    for _ in range(3):
        fused(zeros, rng)
    before = rng.__getstate__()[1]
    drawn = []

    def draw():
        with pk.engine(engine):
            drawn.extend([fused(zeros, rng) for _ in range(rounds)])

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = np.concatenate(drawn)
    assert len(np.unique(numbers)) == numbers.size == 3 * rounds * size
    assert rng.__getstate__()[1] - before >= 3 * rounds * (size + 1)


def test_a_generator_that_is_used_during_a_replay(engine, monkeypatch):
    """As by another thread: the call is traced, and draws the next numbers."""
    fused = pk.fuse(lambda x, rng: (x + rng.random(4), x + rng.random(4)))
    one, numpys = pk.random.default_rng(6), np.random.Generator(np.random.Philox(6))
    for _ in range(3):
        fused(np.zeros(4), one)
    numpys.random(3 * 8)
    seen, random = [], type(one).random

    def interleaved(self, *args, **kwargs):
        monkeypatch.undo()
        seen.append(random(one, 4))
        return random(self, *args, **kwargs)

    monkeypatch.setattr(type(one), "random", interleaved)
    seen += fused(np.zeros(4), one)
    assert len(seen) == 3
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.sort(numpys.random(12)))
    assert one.random() == numpys.random()


def test_two_generators_advance_together(engine, monkeypatch):
    """If one is used during a replay, neither advances by it."""
    fused = pk.fuse(lambda x, a, b: x + a.random(4) - b.random(4))
    one, two = rngs(1, 2)
    for _ in range(3):
        fused(np.zeros(4), one, two)
    words = one.__getstate__()[1]
    random = type(one).random

    def interleaved(self, *args, **kwargs):
        monkeypatch.undo()
        random(two, 4)
        return random(self, *args, **kwargs)

    monkeypatch.setattr(type(one), "random", interleaved)
    fused(np.zeros(4), one, two)
    assert one.__getstate__()[1] == words + 4
    for _ in range(3):  # such calls do not end replays
        _, is_replayed = replayed(fused, np.zeros(4), one, two)
        assert is_replayed == (engine == "cpu")


def compares(x, rng, other):
    return x * 2 if rng == other else x * 3, rng != other, rng in [None, other]


def copies(x, rng, other):
    return x + copy.copy(rng).random(5), x - copy.deepcopy(other).random(5), rng.random(2)


def shows(x, rng, other):
    return x + len(f"{rng}") * 0, str(other), rng.random.__name__


def saves(x, rng, other):
    state = rng.__getstate__()
    first = rng.random(5)
    other.__setstate__(state)
    return x + first - other.random(5)


def shuffles_lists(x, rng, other):
    numbers, arrays = [1, 2, 3, 4, 5, 6], [x, x * 2, x + 3]
    rng.shuffle(numbers)
    other.shuffle(arrays)
    return numbers, arrays


def by_the_class(x, rng, other):
    return x + type(rng).random(rng, 5) - type(other).random(other, 5)


@pytest.mark.parametrize("make", [pk.random.default_rng, np.random.default_rng])
@pytest.mark.parametrize(
    "body", [compares, copies, shows, saves, shuffles_lists, by_the_class], ids=lambda body: body.__name__
)
def test_other_uses_are_those_of_the_generator(engine, body, make):
    if body is saves and make is np.random.default_rng:
        pytest.skip("NumPy's generators have other methods for that")
    fused = pk.fuse(body)
    one, other = (make(3), make(3)), (make(3), make(3))
    for turn in range(5):
        result, is_replayed = replayed(fused, np.arange(5.0) + turn, *one)
        assert_parts(result, body(np.arange(5.0) + turn, *other), assert_close_or_equal)
        assert not is_replayed


def test_a_state_that_changes_between_calls(engine):
    fused, (one, two), x = pk.fuse(compares), rngs(1, 2), np.ones(5)
    for _ in range(4):
        assert (fused(x, one, two)[0] == 3).all()
    two.__setstate__(one.__getstate__())
    assert (fused(x, one, two)[0] == 2).all()


@pytest.mark.parametrize("make", [pk.random.default_rng, np.random.default_rng])
def test_out_given_twice(engine, make):
    fused = pk.fuse(lambda x, rng: rng.random(None, np.float64, x, out=x))
    for _ in range(3):
        x = np.ones(5)
        with pytest.raises(TypeError, match="out"):
            fused(x, make(1))
        assert (x == 1).all()


def test_an_exception_of_a_signal_handler(engine):
    """It ends the replay whose host call it interrupts, and leaves the generator as it was."""

    def interrupt(*_):
        raise TimeoutError

    fused, (rng,) = pk.fuse(lambda x, rng: x + rng.gamma(x).cumsum()), rngs(1)
    x = np.ones(1_000_000)
    for _ in range(3):
        fused(x, rng)
    state, outer = rng.__getstate__(), signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        try:
            for _ in range(1000):
                state = rng.__getstate__()
                fused(x, rng)
        except TimeoutError:
            pass
        else:
            pytest.fail("the exception was lost")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    if engine == "cpu":
        assert rng.__getstate__() == state
