"""Random numbers: whether they are of their distributions, and what is chosen by them."""

import os

import numpy as np
import pytest

from pycudakit.random.generator import default_rng

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
