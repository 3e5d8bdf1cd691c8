"""Random numbers: NumPy's where they are NumPy's, and else their documented transforms of NumPy's words."""

import copy
import hashlib
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import outcome

import pycudakit as pk
from pycudakit._philox import Stream
from pycudakit.random import Generator, default_rng

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 2047, 2048, 2049, 4097]
LARGE = 3 * 65536 + 5  # several shares of the work


def numpys(seed=0, **keywords):
    return np.random.Generator(np.random.Philox(seed, **keywords))


def words_of(rng, size):
    """The words that a generator would draw next."""
    return Stream(*rng.__getstate__()).to_numpy().random_raw(size)


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


# ---- Transforms -------------------------------------------------------------------------------------


def quantiles(bits, width):
    """Of the lower bits the quantile of the upper tail, and of the highest one the sign."""
    special = pytest.importorskip("scipy.special")
    half = 2 ** (width - 1)
    low = [int(b) % half for b in bits]
    p = np.array([(2 * b + 1) / (4 * half) for b in low])
    x = np.array([(2 * (half - 1 - b) + 1) / (2 * half) for b in low])
    z = np.where(p < 0.2, -special.ndtri(p), special.erfinv(x) * np.sqrt(2))
    return np.where([int(b) >= half for b in bits], -z, z)


def test_normals_are_quantiles(engine):
    n = 20_000
    words = words_of(default_rng(1), n)
    got = default_rng(1).standard_normal(n)
    np.testing.assert_allclose(got, quantiles(words, 64), rtol=4e-15)
    got = default_rng(1).standard_normal(n, np.float32)
    np.testing.assert_allclose(got, quantiles(words.view(np.uint32)[:n], 32), rtol=5e-7)
    assert got.dtype == np.float32


@pytest.mark.parametrize("place", [2**63 - 2, 2**63 - 2**31, 0, 2, 12345, 2**53, 2**42, 2**31])
@pytest.mark.parametrize("width", [32, 64])
def test_normals_at_the_edges_of_their_polynomials(engine, place, width):
    """The counter of a block with these words is found by undoing Philox."""
    words = [place, place + 1, place - 1 if place else 2**63, place | 2**63]
    generator = before_block(words)
    bits = words if width == 64 else np.array(words, np.uint64).view(np.uint32).tolist()
    got = default_rng(generator).standard_normal(len(bits), np.float64 if width == 64 else np.float32)
    np.testing.assert_allclose(got, quantiles(bits, width), rtol=4e-15 if width == 64 else 5e-7)
    assert default_rng(generator).random(4).tolist() == [(word >> 11) / 2**53 for word in words]


FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def before_block(words):
    """Return NumPy's generator with a key of 0 whose next words these are."""
    a, b, c, d = words
    inverse = [pow(factor, -1, 2**64) for factor in FACTORS]
    for round_ in reversed(range(10)):
        key = [step * round_ % 2**64 for step in STEPS]
        x, y = d * inverse[0] % 2**64, b * inverse[1] % 2**64
        a, b, c, d = x, a ^ (y * FACTORS[1] >> 64) ^ key[0], y, c ^ (x * FACTORS[0] >> 64) ^ key[1]
    counter = (a | b << 64 | c << 128 | d << 192) - 1
    generator = np.random.Philox(key=0, counter=counter % 2**256)
    assert copy.deepcopy(generator).random_raw(4).tolist() == words
    return generator


def test_exponentials_are_logarithms(engine):
    words = words_of(default_rng(2), LARGE)
    p = (words.astype(np.longdouble) + 0.5) / np.longdouble(2) ** 64
    missing = ((~words).astype(np.longdouble) + 0.5) / np.longdouble(2) ** 64
    want = np.where(p > 0.5, -np.log1p(-missing), -np.log(p)).astype(np.float64)
    got = default_rng(2).exponential(size=LARGE)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert got.min() > 0
    np.testing.assert_array_equal(default_rng(2).exponential(3.0, LARGE), 3.0 * got)


def test_normal_is_scaled(engine):
    standard = default_rng(2).standard_normal((300, 7))
    loc, scale = np.arange(7.0), np.linspace(0, 3, 300)[:, None]
    got = default_rng(2).normal(loc, scale, (300, 7))
    np.testing.assert_array_equal(got, loc + scale * standard)
    np.testing.assert_array_equal(default_rng(2).normal(loc, scale), got)


def test_integers_are_products(engine):
    words = words_of(default_rng(2), 1000)
    want = [word * 100 >> 64 for word in words.tolist()]
    assert default_rng(2).integers(100, size=1000).tolist() == want


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
    """By a product alone, a third of these would come twice as often as the others."""
    n = 60_000
    got = default_rng(6).integers(0, 3 * 2**62, n, np.uint64)
    thirds = np.bincount((got >> np.uint64(62)).astype(np.int64), minlength=3)
    assert abs(thirds / n - 1 / 3).max() < 0.01
    odd = np.bincount((got % np.uint64(3)).astype(np.int64))
    assert abs(odd / n - 1 / 3).max() < 0.01


# ---- Distributions ----------------------------------------------------------------------------------

CONTINUOUS = {
    "random": (lambda g, n: g.random(n), "uniform", ()),
    "random float32": (lambda g, n: g.random(n, np.float32), "uniform", ()),
    "uniform": (lambda g, n: g.uniform(-3, 5, n), "uniform", (-3, 8)),
    "normal": (lambda g, n: g.normal(2, 3, n), "norm", (2, 3)),
    "standard_normal": (lambda g, n: g.standard_normal(n), "norm", ()),
    "standard_normal float32": (lambda g, n: g.standard_normal(n, np.float32), "norm", ()),
    "exponential": (lambda g, n: g.exponential(2, n), "expon", (0, 2)),
}
DISCRETE = {
    **{
        f"poisson {m}": (lambda g, n, m=m: g.poisson(m, n), "poisson", (m,))
        for m in (0.3, 9.9, 10, 31, 1e4, 1e9)
    },
    **{
        f"binomial {n} {p}": (lambda g, k, n=n, p=p: g.binomial(n, p, k), "binom", (n, p))
        for n, p in [(1, 0.3), (25, 0.39), (25, 0.41), (40, 0.75), (1000, 0.001), (10**6, 0.02), (10**9, 0.9)]
    },
    "integers": (lambda g, n: g.integers(-3, 30, n), "randint", (-3, 30)),
}


def total(base=40_000):
    """How many are drawn: 1e8 in the long profile."""
    return 100_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else base


def batches(draw, rng, n):
    while n > 0:
        yield draw(rng, min(n, 4_000_000))
        n -= 4_000_000


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(engine, name):
    """Kolmogorov and Smirnov's distance over fine bins, the moments, and the correlation of neighbours."""
    stats = pytest.importorskip("scipy.stats")
    draw, family, arguments = CONTINUOUS[name]
    distribution, n = getattr(stats, family)(*arguments), total()
    bins = 1000
    edges = distribution.ppf(np.linspace(0, 1, bins + 1)[1:-1])
    counts, sums, products = np.zeros(bins, np.int64), np.zeros(4), 0.0
    for x in batches(draw, default_rng(2024), n):
        counts += np.bincount(np.searchsorted(edges, x), minlength=bins)
        z = (x.astype(np.float64) - distribution.mean()) / distribution.std()
        sums += [(z**k).sum() for k in (1, 2, 3, 4)]
        products += (z[1:] * z[:-1]).sum()
    distance = np.abs(np.cumsum(counts) / n - np.arange(1, bins + 1) / bins).max()
    assert distance * np.sqrt(n) < 2.0
    assert stats.chisquare(counts).pvalue > 1e-4
    # The k-th moment of a sample has the variance (E z^2k - (E z^k)^2) / n.
    at = distribution.mean(), distribution.std()
    exact = [distribution.expect(lambda x, k=k: ((x - at[0]) / at[1]) ** k) for k in range(1, 9)]
    for k in (1, 2, 3, 4):
        allowed = 5 * np.sqrt((exact[2 * k - 1] - exact[k - 1] ** 2) / n)
        assert abs(sums[k - 1] / n - exact[k - 1]) < allowed + 1e-6
    assert abs(products / n) < 5 / np.sqrt(n)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(engine, name):
    stats = pytest.importorskip("scipy.stats")
    draw, family, arguments = DISCRETE[name]
    distribution, n = getattr(stats, family)(*arguments), total(20_000)
    low, high = (int(distribution.ppf(q)) for q in (2e-3, 1 - 2e-3))
    ends = np.unique(np.linspace(low, high, min(60, high - low + 1)).astype(np.int64))  # last of each bin
    likely = np.diff(distribution.cdf(ends), prepend=0, append=1)
    counts, total_sum, square, products = np.zeros(len(ends) + 1, np.int64), 0.0, 0.0, 0.0
    for x in batches(draw, default_rng(77), n):
        assert x.dtype == np.int64
        counts += np.bincount(np.searchsorted(ends, x), minlength=len(ends) + 1)
        z = (x - distribution.mean()) / distribution.std()
        total_sum, square = total_sum + z.sum(), square + (z**2).sum()
        products += (z[1:] * z[:-1]).sum()
    kept = likely * n > 5
    left = 1 - likely[kept].sum()
    seen = np.append(counts[kept], n - counts[kept].sum())
    want = np.append(likely[kept], left) * n
    if want[-1] < 1e-6 * n:
        assert seen[-1] <= 5 + want[-1] * 2
        seen, want = seen[:-1], want[:-1]
    if len(seen) > 1:
        assert stats.chisquare(seen, want * seen.sum() / want.sum()).pvalue > 1e-4
    assert abs(total_sum / n) < 5 / np.sqrt(n)
    kurtosis = float(distribution.stats(moments="k")) + 3
    assert abs(square / n - 1) < 5 * np.sqrt((kurtosis - 1) / n)
    assert abs(products / n) < 5 / np.sqrt(n)


def test_streams_do_not_correlate(engine):
    n = total()
    n = min(n, 4_000_000)
    root = default_rng(9)
    streams = [root.jumped(), root.jumped(2), *root.spawn(2), default_rng(10), root]
    drawn = [rng.standard_normal(n) for rng in streams]
    correlations = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 5 / np.sqrt(n)


def test_extreme_parameters(engine):
    rng = default_rng(5)
    assert (rng.poisson(0, 9) == 0).all()
    largest = np.iinfo(np.int64).max - np.sqrt(np.iinfo(np.int64).max) * 10
    x = rng.poisson(largest, 1000)
    assert abs((x.astype(np.float64) - largest).mean()) < 5 * np.sqrt(largest / 1000)
    most = np.iinfo(np.int64).max
    assert (rng.binomial(0, 0.5, 9) == 0).all()
    assert (rng.binomial(most, 0.0, 9) == 0).all()
    assert (rng.binomial(most, 1.0, 9) == most).all()
    x = rng.binomial(most, 0.5, 1000)
    assert abs((x.astype(np.float64) / most - 0.5).mean()) < 5 * 0.5 / np.sqrt(most * 1000.0)
    assert x.std() == pytest.approx(0.5 * np.sqrt(float(most)), rel=0.2)
    assert (rng.binomial(most, 1e-300, 9) == 0).all()
    assert (rng.poisson(5e-324, 9) == 0).all()
    assert (rng.normal(3, 0, 9) == 3).all()
    assert (rng.exponential(0, 9) == 0).all()
    assert np.isnan(rng.normal(np.nan, 1))
    assert np.isnan(rng.exponential([1, np.nan])).tolist() == [False, True]
    assert rng.normal(np.inf, 1) == np.inf


# ---- Choosing ---------------------------------------------------------------------------------------


def test_permutations(engine):
    rng = default_rng(1)
    assert sorted(rng.permutation(1000)) == list(range(1000))
    assert rng.permutation(np.int8(5)).dtype == np.int64
    assert rng.permutation(-1).shape == (0,)
    table = np.arange(24.0).reshape(2, 3, 4)
    got = rng.permutation(table, 2)
    assert got.flags.owndata
    assert sorted(map(tuple, got.reshape(6, 4).T)) == sorted(map(tuple, table.reshape(6, 4).T))
    names = np.array(["a", "b", "c"], object)
    assert sorted(rng.permutation(names)) == ["a", "b", "c"]
    orders = np.array([default_rng(i).permutation(3) for i in range(1200)])
    counts = np.unique(orders @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 200) ** 2 / 200).sum() < 25


def test_shuffle(engine):
    rng = default_rng(1)
    x = np.arange(20).reshape(4, 5)
    view = x[:, ::-1]
    rng.shuffle(view, axis=1)
    assert not np.array_equal(x, np.arange(20).reshape(4, 5))
    np.testing.assert_array_equal(np.sort(x, 1), np.arange(20).reshape(4, 5))
    assert (np.diff(x, axis=0) == 5).all()
    deck = [*range(50)]
    assert rng.shuffle(deck) is None
    assert sorted(deck) == [*range(50)]
    assert deck != [*range(50)]
    rng.shuffle([])


def test_choice(engine):
    rng = default_rng(1)
    got = rng.choice(5, 5000, p=[0.1, 0, 0.3, 0.2, 0.4])
    np.testing.assert_allclose(np.bincount(got, minlength=5) / 5000, [0.1, 0, 0.3, 0.2, 0.4], atol=0.03)
    np.testing.assert_allclose(np.bincount(rng.choice(5, 5000)) / 5000, 0.2, atol=0.03)
    assert sorted(rng.choice(100, 100, replace=False)) == list(range(100))
    few = rng.choice(10**15, 50, replace=False)
    assert len(set(few.tolist())) == 50
    assert few.max() > 10**14
    assert len(set(rng.choice(10**15, 50, replace=False, shuffle=False).tolist())) == 50
    table = np.arange(12).reshape(3, 4)
    assert rng.choice(table, (2, 5), axis=1).shape == (3, 2, 5)
    assert rng.choice(table).shape == (4,)
    assert type(rng.choice(5)) is int
    assert rng.choice(["a", "b"]) in ("a", "b")
    assert rng.choice(["a", "b"], ()).shape == ()
    assert rng.choice([], 0).shape == (0,)
    assert rng.choice(0, 0).shape == (0,)


def test_choice_without_replacement_by_probability(engine):
    p = np.array([0.5, 0.25, 0.15, 0.1, 0])
    drawn = np.array([default_rng(i).choice(5, 2, replace=False, p=p) for i in range(1500)])
    assert (drawn < 4).all()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=5) / 1500, p, atol=0.05)
    both = sum(p[i] * p[0] / (1 - p[i]) for i in range(1, 4))
    assert abs((drawn[:, 1] == 0).mean() - both) < 0.05


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
def test_what_numpy_refuses(engine, name):
    call = REFUSED[name]
    status, theirs, _ = outcome(call, numpys(1))
    assert status == "error"
    rng = default_rng(1)
    with pytest.raises(type(theirs)) as ours:
        call(rng)
    if "broadcast" not in str(theirs):
        assert str(ours.value) == str(theirs)
    assert rng == default_rng(1)


def test_what_is_returned(engine):
    rng = default_rng(1)
    for got, want in [
        (rng.normal(), float),
        (rng.uniform(1, 2), float),
        (rng.exponential(), float),
        (rng.poisson(), int),
        (rng.binomial(5, 0.5), int),
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
        ):
            np.testing.assert_array_equal(call(ours), call(theirs), strict=True)
            assert pk.last_call().engine == "numpy"
            assert ours == default_rng(theirs)
        deck, other = [*range(9)], [*range(9)]
        ours.shuffle(deck), theirs.shuffle(other)
        assert deck == other


def test_auto():
    rng = default_rng(3)
    rng.random(3)
    assert pk.last_call().engine == "numpy"
    rng.random(1_000_000)
    assert pk.last_call().engine != "numpy"
    for call in (rng.normal, lambda: rng.integers(3), lambda: rng.standard_normal(2)):
        call()
        assert pk.last_call().engine != "numpy"  # whose numbers are others


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


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_same_bits_with_every_instruction_set(isa):
    with pk.engine("cpu"):
        want = everything()
    code = "import test_random as t, pycudakit as pk; pk.set_engine('cpu'); print(*t.everything())"
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
