"""The methods of `Generator`: arguments, results, state and errors."""

import copy
import inspect
import pickle
import threading

import numpy as np
import pytest
from helpers.strategies import numpys, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.random.generator import Generator, default_rng

# ---- Arguments --------------------------------------------------------------------------------------

READ_ONLY = np.zeros(3)
READ_ONLY.flags.writeable = False
REFUSED = {
    "random dtype": lambda g: g.random(3, np.int32),
    "random half": lambda g: g.random(dtype="f2"),
    "random order": lambda g: g.random(3, ">f8"),
    "random size": lambda g: g.random(-1),
    "random sizes": lambda g: g.random((2, -1)),
    "random float": lambda g: g.random(2.5),
    "random text": lambda g: g.random("a"),
    "out shape": lambda g: g.random(3, out=np.empty(4)),
    "out type": lambda g: g.random(out=np.empty(4, "f4")),
    "out strides": lambda g: g.random(out=np.empty((4, 4))[:, ::2]),
    "out order": lambda g: g.random(out=np.empty(2, ">f8")),
    "out read-only": lambda g: g.random(out=READ_ONLY),
    "normal out": lambda g: g.standard_normal(3, out=np.empty(4)),
    "normal dtype": lambda g: g.standard_normal(3, int),
    "uniform order": lambda g: g.uniform(2, 1, 4),
    "uniform orders": lambda g: g.uniform([2, 1], 1, (4, 2)),
    "uniform infinite": lambda g: g.uniform(0, np.inf),
    "uniform wide": lambda g: g.uniform(-1e308, 1e308),
    "uniform shapes": lambda g: g.uniform([2, 1], [3, 3, 3]),
    "normal scale": lambda g: g.normal(0, -1),
    "normal negative zero": lambda g: g.normal(0, -0.0),
    "normal scales": lambda g: g.normal(0, [1, -1]),
    "exponential": lambda g: g.exponential(-1, 3),
    "poisson": lambda g: g.poisson(-1),
    "poisson nan": lambda g: g.poisson(np.nan, 4),
    "poisson nans": lambda g: g.poisson([1, np.nan]),
    "poisson large": lambda g: g.poisson(1e30),
    "binomial n": lambda g: g.binomial(-1, 0.5),
    "binomial ns": lambda g: g.binomial([3, -1], 0.5),
    "binomial p": lambda g: g.binomial(1, 1.5, 3),
    "binomial ps": lambda g: g.binomial([2, 1], [0.5, np.nan]),
    "binomial large": lambda g: g.binomial(2**63, 0.5),
    "integers none": lambda g: g.integers(0),
    "integers empty": lambda g: g.integers(5, 5, 3),
    "integers high": lambda g: g.integers(0, 300, dtype=np.uint8),
    "integers low": lambda g: g.integers(-1, 3, dtype="u1"),
    "integers type": lambda g: g.integers(0, 3, dtype="f4"),
    "integers order": lambda g: g.integers(0, 3, dtype=">i4"),
    "integers arrays": lambda g: g.integers([1, 5], [5, 2]),
    "integers lows": lambda g: g.integers([0, -1], 200, dtype="u1"),
    "integers highs": lambda g: g.integers([0, 1], 300, dtype="u1"),
    "integers highest": lambda g: g.integers([0], [2**64 + 1], dtype="u8"),
    "integers array type": lambda g: g.integers([0], [5], dtype="f8"),
    "integers size": lambda g: g.integers(5, size=-1),
    "integers shapes": lambda g: g.integers([1, 2], [5, 6, 7]),
    "integers type of none": lambda g: g.integers(5, size=0, dtype="f4"),
    "normal shapes": lambda g: g.normal([1, 2], [1, 2, 3]),
    "normal size": lambda g: g.normal([1, 2], 1, (4, 3)),
    "normal sizes": lambda g: g.normal([1, 2], 1, (1,)),
    "normal dimensions": lambda g: g.normal([[1, 2]], 1, (2,)),
    "normal none": lambda g: g.normal([1, 2], 1, 0),
    "normal text": lambda g: g.normal("a"),
    "normal negative size": lambda g: g.normal([1, 2], 1, (-1, 2)),
    "binomial shapes": lambda g: g.binomial([1, 2], [0.1, 0.2, 0.3]),
    "poisson size": lambda g: g.poisson([1, 2], (4, 3)),
    "lognormal": lambda g: g.lognormal(0, -1),
    "lognormal size": lambda g: g.lognormal([0, 1], 1, 3),
    "standard_exponential dtype": lambda g: g.standard_exponential(3, "f2"),
    "standard_exponential out": lambda g: g.standard_exponential(3, out=np.empty(4)),
    "standard_exponential float32": lambda g: g.standard_exponential(dtype="f4", out=np.empty(4)),
    "standard_gamma": lambda g: g.standard_gamma(-1),
    "standard_gammas": lambda g: g.standard_gamma([1, -0.0]),
    "standard_gamma dtype": lambda g: g.standard_gamma(1, dtype=np.int32),
    "standard_gamma out": lambda g: g.standard_gamma(-1, out=np.empty(3)),
    "standard_gamma order": lambda g: g.standard_gamma(1, out=np.empty((3, 2), order="F")),
    "standard_gamma size": lambda g: g.standard_gamma(1, 4, out=np.empty(3)),
    "standard_gamma shape": lambda g: g.standard_gamma([1, 2], out=np.empty(3)),
    "standard_gamma type": lambda g: g.standard_gamma(1, dtype="f4", out=np.empty(3)),
    "standard_gamma read-only": lambda g: g.standard_gamma(1, out=READ_ONLY),
    "gamma": lambda g: g.gamma(-1, 1),
    "gamma scale": lambda g: g.gamma(1, [1, -1]),
    "gamma shapes": lambda g: g.gamma([1, 2], [1, 2, 3]),
    "beta": lambda g: g.beta(0, 1),
    "beta b": lambda g: g.beta(1, [1, 0]),
    "chisquare": lambda g: g.chisquare(0),
    "chisquares": lambda g: g.chisquare([1, -1]),
    "geometric": lambda g: g.geometric(0),
    "geometric above": lambda g: g.geometric([0.5, 1.5]),
    "geometric nan": lambda g: g.geometric(np.nan),
    "laplace": lambda g: g.laplace(0, -1),
    "logistic": lambda g: g.logistic(0, [1, -1]),
    "gumbel shapes": lambda g: g.gumbel([1, 2], [1, 2, 3]),
    "rayleigh": lambda g: g.rayleigh(-1, 3),
    "weibull": lambda g: g.weibull(-1),
    "pareto": lambda g: g.pareto(0),
    "power": lambda g: g.power([1, 0]),
    "standard_cauchy": lambda g: g.standard_cauchy(-1),
    "triangular": lambda g: g.triangular(0, 2, 1),
    "triangular modes": lambda g: g.triangular(0, [-1, 1], 1),
    "triangular none": lambda g: g.triangular(1, 1, 1),
    "standard_t": lambda g: g.standard_t(0),
    "f": lambda g: g.f(1, [1, 0]),
    "f shapes": lambda g: g.f([1, 2], [1, 2, 3]),
    "wald": lambda g: g.wald(0, 1),
    "negative_binomial": lambda g: g.negative_binomial(1, 1.5),
    "negative_binomial n": lambda g: g.negative_binomial([1, 0], 0.5),
    "negative_binomial large": lambda g: g.negative_binomial(1e18, 1e-3),
    "noncentral_chisquare": lambda g: g.noncentral_chisquare(0, 1),
    "noncentral_chisquare nonc": lambda g: g.noncentral_chisquare(1, [1, -1]),
    "noncentral_f": lambda g: g.noncentral_f(1, 0, 1),
    "noncentral_f shapes": lambda g: g.noncentral_f(1, [1, 2], [1, 2, 3]),
    "logseries": lambda g: g.logseries(1),
    "logseries size": lambda g: g.logseries([0.1, 0.2], 3),
    "dirichlet": lambda g: g.dirichlet([1, -1]),
    "dirichlet number": lambda g: g.dirichlet(1),
    "dirichlet table": lambda g: g.dirichlet([[1, 2]]),
    "dirichlet size": lambda g: g.dirichlet([1, 2], -1),
    "multinomial": lambda g: g.multinomial(-1, [0.5, 0.5]),
    "multinomial sum": lambda g: g.multinomial(1, [0.6, 0.6, 0.1], 3),
    "multinomial pvals": lambda g: g.multinomial(1, [-0.5, 1.5]),
    "multinomial none": lambda g: g.multinomial(1, []),
    "multinomial shapes": lambda g: g.multinomial([1, 2, 3], [[0.5, 0.5], [0.1, 0.9]]),
    "multinomial size": lambda g: g.multinomial([1, 2, 3], [0.5, 0.5], 2),
    "multivariate_normal method": lambda g: g.multivariate_normal([0], [[1]], method="qr"),
    "multivariate_normal mean": lambda g: g.multivariate_normal(0, [[1]]),
    "multivariate_normal complex": lambda g: g.multivariate_normal([0], [[1j]]),
    "multivariate_normal vector": lambda g: g.multivariate_normal([0], [1]),
    "multivariate_normal oblong": lambda g: g.multivariate_normal([0, 0], [[1, 0]]),
    "multivariate_normal length": lambda g: g.multivariate_normal([0, 0], [[1]]),
    "multivariate_normal size": lambda g: g.multivariate_normal([0], [[1]], -1),
    "multivariate_normal valid": lambda g: g.multivariate_normal([0], [[1]], check_valid="no"),
    "multivariate_normal indefinite": lambda g: g.multivariate_normal([0], [[-1]], 1, "raise", method="eigh"),
    "multivariate_normal unsymmetric": lambda g: g.multivariate_normal(
        [0, 0], [[1, 2], [0, 1]], check_valid="raise"
    ),
    "multivariate_normal cholesky": lambda g: g.multivariate_normal([0], [[-1]], method="cholesky"),
    "permuted 0-d": lambda g: g.permuted(5),
    "permuted axis": lambda g: g.permuted([1, 2], axis=1),
    "permuted axis of none": lambda g: g.permuted(5, axis=0),
    "permuted float axis": lambda g: g.permuted([1, 2], axis=1.5),
    "permuted text": lambda g: g.permuted([1, 2], axis="a"),
    "permuted list": lambda g: g.permuted([1, 2], out=[1, 2]),
    "permuted shape": lambda g: g.permuted([1, 2], out=np.zeros(3)),
    "permuted type": lambda g: g.permuted([1, 2], out=np.zeros(2, "i1")),
    "permuted read-only": lambda g: g.permuted([1.0, 2, 3], out=READ_ONLY),
    "bytes": lambda g: g.bytes("3"),
    "choice none": lambda g: g.choice(0),
    "choice empty": lambda g: g.choice([]),
    "choice more": lambda g: g.choice(5, 6, replace=False),
    "choice p": lambda g: g.choice(5, 3, p=[0.5, 0.5]),
    "choice sum": lambda g: g.choice(2, 3, p=[0.5, 0.6]),
    "choice negative": lambda g: g.choice(2, 3, p=[1.5, -0.5]),
    "choice nan": lambda g: g.choice(2, 3, p=[np.nan, 1]),
    "choice few": lambda g: g.choice(3, 2, p=[1, 0, 0], replace=False),
    "choice table": lambda g: g.choice(2, 3, p=[[0.5, 0.5]]),
    "choice float": lambda g: g.choice(2.5),
    "choice size": lambda g: g.choice(5, -1),
    "choice text": lambda g: g.choice("abc"),
    "choice axis": lambda g: g.choice([1, 2], 2, axis=1),
    "permutation float": lambda g: g.permutation(2.5),
    "permutation axis": lambda g: g.permutation([[1, 2], [3, 4]], 2),
    "permutation 0-d": lambda g: g.permutation(np.array(5)),
    "shuffle int": lambda g: g.shuffle(5),
    "shuffle text": lambda g: g.shuffle("abc"),
    "shuffle tuple": lambda g: g.shuffle((1, 2)),
    "shuffle list axis": lambda g: g.shuffle([1, 2], axis=1),
    "shuffle axis": lambda g: g.shuffle(np.ones((2, 2)), axis=2),
    "shuffle read-only": lambda g: g.shuffle(READ_ONLY),
    "shuffle 0-d": lambda g: g.shuffle(np.array(5)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_numpy_refuses(engine, name):
    call = REFUSED[name]
    status, theirs, _ = outcome(call, numpys(1))
    assert status == "error"
    rng = default_rng(1)
    with pytest.raises(type(theirs)) as ours:
        call(rng)
    assert str(ours.value) == str(theirs)
    assert rng == default_rng(1)


@pytest.mark.parametrize("name", ["wald", "normal", "noncentral_f", "integers"])
def test_errors_name_the_called_method(engine, name):
    with pytest.raises(
        TypeError, match=rf"^Generator.{name}\(\) got an unexpected keyword argument 'nothing'"
    ):
        getattr(default_rng(0), name)(1, 2, nothing=3)


def test_a_noncentrality_beyond_integers(engine):
    got = default_rng(0).noncentral_chisquare([3.0, 1e30, 3.0, 3.0], [1e30, 1e30, np.inf, np.nan])
    np.testing.assert_allclose(got, [1e30, 2e30, np.inf, np.nan], 1e-12)
    far = default_rng(0).noncentral_chisquare(3.0, 1e22, 10_000)
    assert abs((far - 1e22).mean() / 2e11) < 0.04
    assert abs((far - 1e22).std() / 2e11 - 1) < 0.03


def test_nothing_is_written_by_a_call_that_is_refused(engine):
    out = np.full(3, 7.0)
    for call in (
        lambda g: g.standard_gamma([1, -1, 1], out=out),
        lambda g: g.standard_gamma([1, 1], out=out),
        lambda g: g.standard_exponential(4, out=out),
        lambda g: g.permuted([1.0, 2.0, 3.0], axis=1, out=out),
        lambda g: g.permuted([1j, 2, 3], out=out),
    ):
        rng = default_rng(1)
        with pytest.raises((TypeError, ValueError)):
            call(rng)
        assert rng == default_rng(1)
        assert (out == 7).all()


def test_integers_are_broadcast_to_their_size(engine):
    """NumPy draws only the first of them, without an error."""
    rng = default_rng(1)
    with pytest.raises(ValueError, match=r"Output size \(1,\) is not compatible with .* inputs \(2,\)"):
        rng.integers([1, 2], [5, 6], (1,))
    assert rng == default_rng(1)


def test_the_shape_of_no_integers(engine):
    rng = default_rng(1)
    for arguments in [(0, None), (5, 5), (5, 2), ([], None), ([5], [2]), ([1, 2], [5, 6])]:
        for size in (0, (0, 3), (3, 0)):
            for dtype in (np.int64, "i2", bool):
                got, want = (g.integers(*arguments, size, dtype) for g in (rng, numpys(1)))
                np.testing.assert_array_equal(got, want, strict=True)
    assert rng.integers([]).shape == (0,)
    assert rng.integers(5, [], size=None).shape == (0,)
    assert rng == default_rng(1)


def test_a_covariance_that_is_none_is_warned_of(engine):
    for method in ("svd", "eigh"):
        with pytest.warns(RuntimeWarning, match="covariance is not symmetric positive-semidefinite"):
            got = default_rng(1).multivariate_normal([0, 0], [[1, 0], [0, -1]], 3, method=method)
        assert got.shape == (3, 2)
        default_rng(1).multivariate_normal([0, 0], [[1, 0], [0, -1]], check_valid="ignore", method=method)
        default_rng(1).multivariate_normal([0, 0], [[1, 0], [0, -0.1]], tol=0.2, method=method)


@pytest.mark.parametrize(
    "name",
    [name for name in dir(Generator) if hasattr(np.random.Generator, name) and not name.startswith("_")],
)
def test_signatures_are_numpys(name):
    def arguments(owner):
        found = inspect.signature(getattr(owner, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in found if p.name != "self"]

    assert [a[0] for a in arguments(Generator)] == [a[0] for a in arguments(np.random.Generator)]
    if name not in ("bytes", "spawn", "shuffle", "permutation"):
        assert arguments(Generator) == arguments(np.random.Generator)


def test_fused_functions_draw_the_same(engine):
    def draw(rng, x):
        table = rng.permuted(x, axis=0) + rng.gamma(2.0, 3.0, x.shape)
        row = rng.multivariate_normal([1.0, 2.0], [[2.0, 1.0], [1.0, 2.0]])
        rng.standard_gamma(2.0, out=x)
        many = rng.lognormal(0, 1, x.shape) * rng.beta(2, 3, x.shape) - rng.geometric(0.5, x.shape)
        return table * row + many + x + rng.chisquare(3) + rng.standard_exponential()

    ours, fused = default_rng(1), default_rng(1)
    a, b = (np.arange(400.0).reshape(200, 2) for _ in range(2))
    np.testing.assert_array_equal(pk.fuse(draw)(fused, b), draw(ours, a))
    np.testing.assert_array_equal(a, b)
    assert ours == fused


def test_types_of_results(engine):
    rng = default_rng(1)
    for got, want in [
        (rng.normal(), float),
        (rng.uniform(1, 2), float),
        (rng.exponential(), float),
        (rng.poisson(), int),
        (rng.binomial(5, 0.5), int),
        (rng.lognormal(), float),
        (rng.gamma(2), float),
        (rng.beta(2, 3), float),
        (rng.chisquare(2), float),
        (rng.standard_gamma(2), float),
        (rng.standard_gamma(2, dtype="f4"), float),
        (rng.standard_exponential(), float),
        (rng.standard_exponential(dtype="f4"), float),
        (rng.standard_gamma([2]), np.ndarray),
        (rng.standard_gamma(2, ()), np.ndarray),
        (rng.geometric(0.5), int),
        (rng.standard_cauchy(), float),
        (rng.laplace(), float),
        (rng.standard_t(3), float),
        (rng.f(3, [2]), np.ndarray),
        (rng.wald(1, 2), float),
        (rng.wald(1, 2, ()), np.ndarray),
        (rng.negative_binomial(1, 0.5), int),
        (rng.negative_binomial(1, 0.5, ()), np.ndarray),
        (rng.power([1]), np.ndarray),
        (rng.triangular(0, 1, 2, ()), np.ndarray),
        (rng.multivariate_normal([0], [[1]]), np.ndarray),
        (rng.noncentral_chisquare(1, 2), float),
        (rng.noncentral_f([1], 2, 3), np.ndarray),
        (rng.logseries(0.5), int),
        (rng.dirichlet([1]), np.ndarray),
        (rng.multinomial(3, [1]), np.ndarray),
        (rng.permuted([1, 2]), np.ndarray),
        (rng.integers(5), np.int64),
        (rng.integers(5, dtype=int), int),
        (rng.integers(2, dtype=bool), bool),
        (rng.integers(2, dtype=np.bool_), np.bool_),
        (rng.integers(5, dtype="i2"), np.int16),
        (rng.normal([1.0]), np.ndarray),
        (rng.poisson(3, ()), np.ndarray),
        (rng.integers(3, size=()), np.ndarray),
        (rng.bytes(3), bytes),
    ]:
        assert type(got) is want, want
    for shape in [(0,), (3, 0), (), (2, 1, 2)]:
        assert rng.normal(0, 1, shape).shape == shape
        assert rng.gamma(2, 1, shape).shape == rng.beta(2, 1, shape).shape == shape
        assert rng.multivariate_normal([0, 1], np.eye(2), shape).shape == (*shape, 2)
        assert rng.dirichlet([1, 2, 3], shape).shape == (*shape, 3)
        assert rng.multinomial(5, [0.5, 0.25, 0.25], shape).shape == (*shape, 3)
        assert rng.poisson(3, shape).shape == shape
        assert rng.integers(3, size=shape).shape == shape


# ---- The generator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [0, 5, 2**100, [1, 2, 3], np.random.SeedSequence(7), np.random.SeedSequence(7).spawn(2)[1]]
)
def test_seeds(engine, seed):
    np.testing.assert_array_equal(default_rng(seed).random(5), numpys(seed).random(5))


def test_no_seed_is_a_new_one():
    assert default_rng() != default_rng()
    rng = default_rng(3)
    assert default_rng(rng) is rng


def test_going_on_from_numpys(engine):
    theirs = numpys(3)
    theirs.random(3, np.float32)
    for source in (theirs, theirs.bit_generator):
        ours, before = default_rng(source), copy.deepcopy(theirs)
        np.testing.assert_array_equal(ours.random(9, "f4"), before.random(9, "f4"))


@pytest.mark.parametrize(
    "seed",
    [np.random.default_rng(1), np.random.PCG64(1), np.random.RandomState(1)],
    ids=["rng", "pcg", "state"],
)
def test_other_generators_are_refused(seed):
    with pytest.raises(TypeError, match="goes on from NumPy's Philox"):
        default_rng(seed)


@pytest.mark.parametrize("seed", [-1, 2.5, "a"])
def test_seeds_that_numpy_refuses(seed):
    status, theirs, _ = outcome(np.random.Philox, seed)
    assert status == "error"
    with pytest.raises(type(theirs), match=str(theirs)):
        default_rng(seed)


def test_it_is_plain_data(engine):
    rng = default_rng(3)
    rng.random(3, np.float32)
    others = [pickle.loads(pickle.dumps(rng)), copy.copy(rng), copy.deepcopy(rng)]
    assert all(type(other) is Generator and other == rng for other in others)
    assert repr(rng) == repr(others[0])
    assert repr(rng).startswith("Generator(key=(0x")
    assert "word=2, half=0x" in repr(rng)
    first = rng.random(4)
    assert all(other != rng and (other.random(4) == first).all() and other == rng for other in others)
    assert rng != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(rng)


@given(skipped=st.integers(0, 9), jumps=st.integers(0, 2**70))
def test_jumps_are_numpys(engine, skipped, jumps):
    theirs = np.random.Philox(3)
    np.random.Generator(theirs).random(skipped, np.float32)
    assert default_rng(theirs).jumped(jumps) == default_rng(theirs.jumped(jumps))


def test_spawn(engine):
    rng = default_rng(3)
    children = rng.spawn(3)
    assert len({repr(child) for child in [*children, *rng.spawn(2), rng]}) == 6
    assert rng.spawn(0) == []
    with pytest.raises(ValueError, match="n_children must not be negative"):
        rng.spawn(-1)
    key = np.random.Philox(3).random_raw(2)
    assert children[0] == default_rng(np.random.Philox(key=key))


def test_threads_share_one(engine):
    rng, found = default_rng(3), []
    name = pk.engine

    def draw():
        with name(engine):
            found.extend(rng.random(101).tolist() for _ in range(20))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(np.concatenate(found)) == sorted(default_rng(3).random(4 * 20 * 101).tolist())


@pytest.mark.parametrize("size", [True, np.True_])
def test_a_bool_is_no_size(engine, size):
    for name in ("random", "normal", "standard_gamma"):
        arguments = [2.0] if name == "standard_gamma" else []
        with pytest.raises(TypeError, match="expected a sequence of integers or a single integer"):
            getattr(pk.random.default_rng(1), name)(*arguments, size=size)
