"""Random numbers have the bits of NumPy or of their definition, for any size, engine and thread count."""

import copy
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.strategies import numpys
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.random.generator import default_rng

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 2047, 2048, 2049, 4097]
LARGE = 3 * 65536 + 5  # several tasks for threads


# ---- NumPy's numbers --------------------------------------------------------------------------------

steps = st.tuples(
    st.sampled_from(["float32", "float64", "bytes", "out"]),
    st.one_of(st.none(), st.sampled_from(SIZES), st.sampled_from([(2, 3), (), (3, 0)])),
)


@given(st.integers(0, 2**32), st.lists(steps, max_size=8), st.integers(0, 7))
def test_calls_of_all_kinds_follow_one_another(engine, seed, calls, skipped):
    theirs = numpys(seed)
    theirs.random(skipped, np.float32)
    ours = default_rng(theirs)
    for kind, size in calls:
        if kind == "bytes":
            length = 5 if size is None else int(np.prod(size))
            assert ours.bytes(length) == theirs.bytes(length)
        elif kind == "out":
            a, b = (np.full((3, 7), 9.0, order="F") for _ in range(2))
            assert ours.random(out=a) is a
            theirs.random(out=b)
            np.testing.assert_array_equal(a, b)
        else:
            got, want = ours.random(size, kind), theirs.random(size, kind)
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want, strict=size is not None)
        assert ours == default_rng(theirs)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_is_numpys(engine, dtype):
    ours, theirs = default_rng(3), numpys(3)
    for size in (1, 3, 2500, 1):
        np.testing.assert_array_equal(ours.random(size, dtype), theirs.random(size, dtype), strict=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arrays_are_numpys(engine, dtype):
    ours, theirs = default_rng(3), numpys(3)
    ours.random(dtype="float32"), theirs.random(dtype="float32")
    np.testing.assert_array_equal(ours.random(LARGE, dtype), theirs.random(LARGE, dtype), strict=True)
    assert ours.bytes(4 * LARGE + 3) == theirs.bytes(4 * LARGE + 3)


@pytest.mark.parametrize("counter", [2**64 - 9, 2**128 - 9, 2**192 - 9, 2**256 - 9, 2**256 - 1])
def test_the_counter_carries(engine, counter):
    theirs = np.random.Generator(np.random.Philox(key=[5, 6], counter=counter))
    ours = default_rng(theirs)
    np.testing.assert_array_equal(ours.random(1001), theirs.random(1001))
    np.testing.assert_array_equal(ours.random(33, "f4"), theirs.random(33, "f4"))
    assert ours == default_rng(theirs)


@given(low=st.floats(-1e6, 1e6), width=st.floats(0, 1e6), size=st.sampled_from(SIZES))
def test_uniform_is_numpys(engine, low, width, size):
    high = low + width
    np.testing.assert_array_equal(
        default_rng(8).uniform(low, high, size), numpys(8).uniform(low, high, size), strict=True
    )
    lows, highs = low + np.arange(3.0)[:, None], high + np.arange(5.0)
    np.testing.assert_array_equal(
        default_rng(8).uniform(lows - 9, highs), numpys(8).uniform(lows - 9, highs), strict=True
    )


# ---- Their own words -----------------------------------------------------------------------------------

METHODS = {
    "standard_normal": lambda g, n: g.standard_normal(n),
    "normal": lambda g, n: g.normal(2, 3, n),
    "uniform": lambda g, n: g.uniform(2, 3, n),
    "exponential": lambda g, n: g.exponential(2, n),
    "integers": lambda g, n: g.integers(-5, 50, n),
    "wide integers": lambda g, n: g.integers(0, 3 * 2**62, n, np.uint64),
    "small integers": lambda g, n: g.integers(0, 7, n, np.int8),
    "poisson": lambda g, n: g.poisson(3, n),
    "large poisson": lambda g, n: g.poisson(3000, n),
    "binomial": lambda g, n: g.binomial(12, 0.4, n),
    "large binomial": lambda g, n: g.binomial(5000, 0.7, n),
    "float32": lambda g, n: g.standard_normal(n, np.float32),
    "float32 exponential": lambda g, n: g.standard_exponential(n, np.float32),
    "lognormal": lambda g, n: g.lognormal(2, 0.5, n),
    "gamma": lambda g, n: g.gamma(2.5, 3, n),
    "small gamma": lambda g, n: g.gamma(0.3, 3, n),
    "float32 gamma": lambda g, n: g.standard_gamma(1.1, n, np.float32),
    "beta": lambda g, n: g.beta(2, 3, n),
    "small beta": lambda g, n: g.beta(0.2, 0.3, n),
    "chisquare": lambda g, n: g.chisquare(3, n),
    "geometric": lambda g, n: g.geometric(0.1, n),
    "laplace": lambda g, n: g.laplace(1, 2, n),
    "logistic": lambda g, n: g.logistic(1, 2, n),
    "gumbel": lambda g, n: g.gumbel(1, 2, n),
    "rayleigh": lambda g, n: g.rayleigh(2, n),
    "weibull": lambda g, n: g.weibull(1.5, n),
    "pareto": lambda g, n: g.pareto(3, n),
    "power": lambda g, n: g.power(3, n),
    "standard_cauchy": lambda g, n: g.standard_cauchy(n),
    "standard_t": lambda g, n: g.standard_t(3, n),
    "f": lambda g, n: g.f(3, 5, n),
    "wald": lambda g, n: g.wald(3, 5, n),
    "negative_binomial": lambda g, n: g.negative_binomial(30, 0.5, n),
    "triangular": lambda g, n: g.triangular(-1, 0, 3, n),
    "noncentral_chisquare": lambda g, n: g.noncentral_chisquare(3, 2, n),
    "noncentral_f": lambda g, n: g.noncentral_f(3, 5, 2, n),
    "logseries": lambda g, n: g.logseries(0.7, n),
    "dirichlet": lambda g, n: g.dirichlet([0.5, 2, 30], n),
    "flat dirichlet": lambda g, n: g.dirichlet([0.05, 0.02, 0.03], n),
    "multinomial": lambda g, n: g.multinomial(1000, [0.1, 0.2, 0.3, 0.4], n),
    "multivariate_normal": lambda g, n: g.multivariate_normal([1, 2, 3], np.eye(3) + 0.5, n),
    "random": lambda g, n: g.random(n),
}


@given(method=st.sampled_from(list(METHODS)), cuts=st.lists(st.sampled_from(SIZES), max_size=4))
def test_how_many_are_drawn_at_once_does_not_matter(engine, method, cuts):
    ours, whole = default_rng(11), default_rng(11)
    draw = METHODS[method]
    parts = np.concatenate([draw(ours, n) for n in [*cuts, 1]])
    np.testing.assert_array_equal(parts, draw(whole, len(parts)), strict=True)
    assert ours == whole


@pytest.mark.smoke
@pytest.mark.parametrize("method", METHODS)
def test_a_little_of_each(engine, method):
    ours, draw = default_rng(11), METHODS[method]
    ours.random(dtype=np.float32)
    whole = copy.copy(ours)
    in_place = np.concatenate([draw(ours, 701), draw(ours, 1800)])
    with pk.tuned(**({"in_place_bytes": 0, "threads": 2} if engine == "cuda" else {})):
        np.testing.assert_array_equal(in_place, draw(whole, 2501))


@pytest.mark.parametrize("method", METHODS)
def test_parts_of_large_arrays(engine, method):
    ours, draw = default_rng(11), METHODS[method]
    first, rest = draw(ours, 65537), draw(ours, LARGE - 65537)
    np.testing.assert_array_equal(np.concatenate([first, rest]), draw(default_rng(11), LARGE))


def test_parameters_may_be_arrays(engine):
    lam = np.array([[0.0, 0.5, 9.99], [10.0, 500.0, 1e15]])
    got = default_rng(4).poisson(lam[::-1], (50, 2, 3))
    n, p = np.array([0, 5, 2000]), np.array([[0.0], [0.3], [0.8], [1.0]])
    trials = default_rng(4).binomial(n.astype(">i4"), p, (50, 4, 3))
    for i, j in np.ndindex(2, 3):
        alone = default_rng(4).poisson(lam[::-1][i, j], 300).reshape(50, 2, 3)
        np.testing.assert_array_equal(got[:, i, j], alone[:, i, j])
    for i, j in np.ndindex(4, 3):
        alone = default_rng(4).binomial(n[j], p[i, 0], 600).reshape(50, 4, 3)
        np.testing.assert_array_equal(trials[:, i, j], alone[:, i, j])
    a, b = np.array([0.1, 1.0, 30.0]), np.array([[0.4], [2.0]])
    gammas, betas = default_rng(4).gamma(a, b, (99, 2, 3)), default_rng(4).beta(a, b, (99, 2, 3))
    logs, trials = default_rng(4).lognormal(a, b, (99, 2, 3)), default_rng(4).geometric(b / 3, (99, 2, 3))
    for i, j in np.ndindex(2, 3):
        one, other = a[j], b[i, 0]
        for got, alone in [
            (gammas, default_rng(4).gamma(one, other, 594)),
            (betas, default_rng(4).beta(one, other, 594)),
            (logs, default_rng(4).lognormal(one, other, 594)),
            (trials, default_rng(4).geometric(other / 3, 594)),
        ]:
            np.testing.assert_array_equal(got[:, i, j], alone.reshape(99, 2, 3)[:, i, j])
    low, high = np.array([-(2**63), 0, 5]), np.array([[2**63 - 1], [6]])
    drawn = default_rng(4).integers(low, high, (40, 2, 3), endpoint=True)
    for i, j in np.ndindex(2, 3):
        alone = default_rng(4).integers(low[j], high[i, 0], 240, endpoint=True).reshape(40, 2, 3)
        np.testing.assert_array_equal(drawn[:, i, j], alone[:, i, j])


# ---- Integers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_of_every_type(engine, dtype):
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    rng = default_rng(6)
    got = rng.integers(limits[0], limits[1], 20_000, dtype, endpoint=True)
    assert got.dtype == np.dtype(dtype)
    share = (got.astype(np.float64) - limits[0]) / (limits[1] - limits[0])
    assert abs(share.mean() - 0.5) < 0.02
    assert abs(share.std() - (0.5 if dtype == "bool" else 0.2887)) < 0.02
    assert (rng.integers(limits[1], limits[1], 50, dtype, endpoint=True) == limits[1]).all()
    lows = highs = np.array([limits[0], limits[1]], dtype)
    got = rng.integers(lows, highs, (9, 2), dtype, endpoint=True)
    assert (got == lows).all()
    one = (
        rng.integers(1, 2, dtype=dtype) if dtype != "bool" else rng.integers(0, 1, dtype=dtype, endpoint=True)
    )
    assert type(one) is type(numpys().integers(0, 2, dtype=dtype))


def test_no_integer_is_favoured(engine):
    """Without rejection, a third of these would come twice as often as the others."""
    n = 60_000
    got = default_rng(6).integers(0, 3 * 2**62, n, np.uint64)
    thirds = np.bincount((got >> np.uint64(62)).astype(np.int64), minlength=3)
    assert abs(thirds / n - 1 / 3).max() < 0.01
    odd = np.bincount((got % np.uint64(3)).astype(np.int64))
    assert abs(odd / n - 1 / 3).max() < 0.01


# ---- Engines ----------------------------------------------------------------------------------------


def test_the_engine_numpy_is_numpy():
    with pk.engine("numpy"):
        ours, theirs = default_rng(3), numpys(3)
        for call in (
            lambda g: g.random(5, np.float32),
            lambda g: g.normal(1, 2, 5),
            lambda g: g.standard_normal(5),
            lambda g: g.integers(5, size=3),
            lambda g: np.frombuffer(g.bytes(5), np.uint8),
            lambda g: g.poisson(5, 3),
            lambda g: g.permutation(9),
            lambda g: g.choice(9, 3),
            lambda g: g.lognormal(1, 2, 5),
            lambda g: g.standard_exponential(5, np.float32),
            lambda g: g.standard_exponential(5, method="inv"),
            lambda g: g.standard_gamma([2, 3], (5, 2), np.float32),
            lambda g: g.gamma(2, [3, 4]),
            lambda g: g.beta(2, 3, 5),
            lambda g: g.chisquare(2, 3),
            lambda g: g.geometric(0.1, 3),
            lambda g: g.weibull([1, 2]),
            lambda g: g.standard_t(3, 2),
            lambda g: g.f(3, [2, 1]),
            lambda g: g.wald(3, 2, 1),
            lambda g: g.negative_binomial(3, 0.5, 4),
            lambda g: g.triangular(0, 1, 2, 3),
            lambda g: g.noncentral_chisquare([1, 2], 2),
            lambda g: g.noncentral_f(3, 5, 2, 3),
            lambda g: g.logseries(0.5, 3),
            lambda g: g.dirichlet([1, 2], 3),
            lambda g: g.multinomial([5, 6], [0.5, 0.5]),
            lambda g: g.permuted(np.ones((3, 4)).cumsum(1), axis=1),
            lambda g: g.multivariate_normal([1, 2], [[2, 1], [1, 2]], 5, method="eigh"),
        ):
            np.testing.assert_array_equal(call(ours), call(theirs), strict=True)
            assert pk.last_call().engine == "numpy"
            assert ours == default_rng(theirs)
        deck, other = [*range(9)], [*range(9)]
        ours.shuffle(deck), theirs.shuffle(other)
        assert deck == other


def test_auto():
    rng = default_rng(3)
    assert rng.random(3).tolist() == np.random.Generator(np.random.Philox(3)).random(3).tolist()
    assert pk.last_call().engine == "cpu"  # faster than making a NumPy generator
    rng.random(1_000_000)
    assert pk.last_call().engine != "numpy"
    for call in (rng.normal, lambda: rng.integers(3), lambda: rng.standard_normal(2)):
        call()
        assert pk.last_call().engine != "numpy"  # NumPy's numbers differ


def test_last_call(engine):
    default_rng(3).standard_normal(5)
    assert (pk.last_call().function, pk.last_call().engine) == ("standard_normal", engine)


def everything(size=20_011):
    """Return a hash of every method's numbers."""
    drawn = []
    for method in METHODS.values():
        rng = default_rng(31)
        rng.random(dtype=np.float32)
        drawn.append(method(rng, size).tobytes())
    rng = default_rng(32)
    drawn += [rng.random(20_011, np.float32).tobytes(), rng.bytes(999), rng.permutation(999).tobytes()]
    drawn += [rng.poisson(np.linspace(0, 40, 999)).tobytes(), rng.binomial(np.arange(999), 0.5).tobytes()]
    shapes = np.linspace(0, 3, 999)[:, None]
    drawn += [rng.gamma(shapes, 2).tobytes(), rng.beta(shapes + 0.01, [0.5, 2]).tobytes()]
    drawn += [rng.permuted(np.arange(999).reshape(27, 37), axis=0).tobytes()]
    drawn += [rng.choice(99, 99, p=np.full(99, 1 / 99)).tobytes(), repr(rng).encode()]
    return [hashlib.sha256(each).hexdigest() for each in drawn]


def test_same_bits_on_both_engines(both_engines):
    with pk.engine("cpu"):
        want = everything()
    with pk.engine("cuda"):
        assert everything() == want
    with pk.engine("cpu"):
        want = everything(LARGE)
    chunks = {"chunk_bytes": 256 << 10, "device_bytes": 512 << 10}
    with pk.engine("cuda"), pk.tuned(in_place_bytes=0, threads=2, **chunks):
        assert everything(LARGE) == want


@pytest.mark.parametrize("isa", ["avx2", *thorough("baseline", "avx512")])
def test_same_bits_with_every_instruction_set(isa):
    with pk.engine("cpu"):
        want = everything()
    code = "import test_numbers as t, pycudakit as pk; pk.set_engine('cpu'); print(*t.everything())"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    variables = {"PYCUDAKIT_ISA": isa, "PYCUDAKIT_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    if "this machine and build have" in done.stderr:
        pytest.skip(f"this machine has no {isa}")
    assert done.stdout.split() == want, done.stderr
