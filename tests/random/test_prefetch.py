"""Prefetched numbers of small draws under `auto` are the same to the bit as those drawn one by one."""

import copy
import pickle
import threading

import numpy as np
import pytest

import pycudakit as pk

CALLS = {
    "random": lambda g, size: g.random(size),
    "float32": lambda g, size: g.random(size, np.float32),
    "normal": lambda g, size: g.normal(size=size),
    "normal of numbers": lambda g, size: g.normal(0.0, 2, size),
    "integers": lambda g, size: g.integers(10, size=size),
    "integers of a type": lambda g, size: g.integers(0, 5, size, dtype=np.int32),
    "integers of Python's": lambda g, _: g.integers(3, dtype=int),
    "bools": lambda g, size: g.integers(0, 2, size, dtype=bool),
    "poisson": lambda g, size: g.poisson(30.0, size),
    "binomial": lambda g, size: g.binomial(10, 0.3, size),
    "gamma": lambda g, size: g.gamma(0.3, 2.0, size),
    "beta": lambda g, size: g.beta(0.5, 0.7, size),
    "chisquare": lambda g, size: g.chisquare(3, size),
    "geometric": lambda g, size: g.geometric(0.2, size),
    "lognormal": lambda g, size: g.lognormal(0, 1, size),
    "choice": lambda g, size: g.choice(9, size),
    "permutation": lambda g, _: g.permutation(7),
    "rayleigh": lambda g, size: g.rayleigh(2.0, size),
}
SIZES = [None, 0, 1, 3, 10, (2, 3), (), 1000, 4096, 5000]


@pytest.mark.parametrize("few", [1, 2, len(CALLS)])
def test_prefetched_numbers_are_those_of_a_call(few):
    rng = np.random.default_rng(few)
    own, other = pk.random.default_rng(5), pk.random.default_rng(5)
    for count in range(400):
        name = rng.choice(rng.permutation(list(CALLS))[:few])
        size = SIZES[rng.integers(len(SIZES))]
        with pk.engine("auto"):
            drawn = CALLS[name](own, size)
        with pk.engine("cpu"):
            expected = CALLS[name](other, size)
        assert type(drawn) is type(expected), name
        np.testing.assert_array_equal(drawn, expected, strict=True, err_msg=name)
        assert own == other
        if count % 100 == 99:
            own = pickle.loads(pickle.dumps(own))
        if count % 100 == 49:
            own = copy.deepcopy(own)


def test_arguments_that_are_equal_are_not_taken_for_the_same():
    generator = pk.random.default_rng(5)
    with pk.engine("auto"):
        for _ in range(3):
            assert not np.signbit(generator.normal(0.0, 0.0, 30)).any()
            assert np.signbit(generator.normal(-0.0, 0.0, 30)).any()
            assert generator.exponential(0.0) == 0
            with pytest.raises(ValueError, match="scale < 0"):
                generator.exponential(-0.0)
            assert generator.random((3,)).shape == (3,)
            with pytest.raises(TypeError):
                generator.random((3.0,))


def test_results_belong_to_the_caller():
    generator, other = pk.random.default_rng(5), pk.random.default_rng(5)
    with pk.engine("auto"):
        for _ in range(5):
            drawn = generator.random(10)
            assert drawn.flags.owndata
            assert (drawn == other.random(10)).all()
            drawn[:] = 7


def test_threads_draw_different_numbers():
    generator, drawn = pk.random.default_rng(5), []

    def draw():
        for _ in range(300):
            drawn.extend(generator.random(3).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pk.engine("cpu"):
        assert sorted(drawn) == sorted(pk.random.default_rng(5).random(len(drawn)).tolist())


def test_the_record_is_of_the_call(engine):
    generator = pk.random.default_rng(5)
    for _ in range(3):
        pk.add([1.0], 1.0)
        generator.normal()
        assert pk.last_call().function == "normal"
        generator.choice(5, 3)
        assert pk.last_call().function == "choice"
    with pk.profile() as profile:
        generator.normal()
    assert [call.function for call in profile.calls] == ["normal"]
    assert profile.calls[0].engine == (pk.last_call().engine if engine == "auto" else engine)
