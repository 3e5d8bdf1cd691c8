"""Random numbers follow their distributions: statistical tests of samples, choices and permutations."""

import os

import numpy as np
import pytest

import pycudakit as pk
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
    "standard_exponential": (lambda g, n: g.standard_exponential(n), "expon", ()),
    "standard_exponential float32": (lambda g, n: g.standard_exponential(n, np.float32), "expon", ()),
    "lognormal": (lambda g, n: g.lognormal(0.5, 0.25, n), "lognorm", (0.25, 0, np.exp(0.5))),
    **{
        f"gamma {k}": (lambda g, n, k=k: g.gamma(k, 3, n), "gamma", (k, 0, 3))
        for k in (0.2, 0.999, 1, 1.001, 2.5, 40)
    },
    "standard_gamma": (lambda g, n: g.standard_gamma(3, n), "gamma", (3,)),
    "standard_gamma float32": (lambda g, n: g.standard_gamma(0.7, n, np.float32), "gamma", (0.7,)),
    "chisquare": (lambda g, n: g.chisquare(5, n), "chi2", (5,)),
    **{
        f"beta {a} {b}": (lambda g, n, a=a, b=b: g.beta(a, b, n), "beta", (a, b))
        for a, b in [(2, 3), (0.5, 0.7), (0.4, 5), (30, 0.9), (1, 1), (200, 300)]
    },
    "laplace": (lambda g, n: g.laplace(1, 2, n), "laplace", (1, 2)),
    "logistic": (lambda g, n: g.logistic(1, 2, n), "logistic", (1, 2)),
    "gumbel": (lambda g, n: g.gumbel(1, 2, n), "gumbel_r", (1, 2)),
    "rayleigh": (lambda g, n: g.rayleigh(2, n), "rayleigh", (0, 2)),
    "weibull": (lambda g, n: g.weibull(1.5, n), "weibull_min", (1.5,)),
    "pareto": (lambda g, n: g.pareto(30, n), "lomax", (30,)),
    "power": (lambda g, n: g.power(0.7, n), "powerlaw", (0.7,)),
    "standard_t": (lambda g, n: g.standard_t(30, n), "t", (30,)),
    "f": (lambda g, n: g.f(5, 60, n), "f", (5, 60)),
    "wald": (lambda g, n: g.wald(2, 30, n), "invgauss", (2 / 30, 0, 30)),
    **{
        f"noncentral_chisquare {k} {c}": (
            lambda g, n, k=k, c=c: g.noncentral_chisquare(k, c, n),
            "ncx2",
            (k, c),
        )
        for k, c in [(3, 2), (0.5, 7), (1, 40)]
    },
    "noncentral_f": (lambda g, n: g.noncentral_f(5, 60, 2, n), "ncf", (5, 60, 2)),
    "triangular": (lambda g, n: g.triangular(-1, 0, 3, n), "triang", (0.25, -1, 4)),
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
    **{f"logseries {p}": (lambda g, n, p=p: g.logseries(p, n), "logser", (p,)) for p in (0.01, 0.5, 0.9)},
    **{
        f"negative_binomial {n} {p}": (lambda g, k, n=n, p=p: g.negative_binomial(n, p, k), "nbinom", (n, p))
        for n, p in [(5, 0.3), (0.7, 0.05), (100, 0.01)]
    },
    **{
        f"geometric {p}": (lambda g, n, p=p: g.geometric(p, n), "geom", (p,)) for p in (0.95, 0.3, 0.01, 1e-6)
    },
}


def total(base=40_000):
    """Return the sample size: 1e8 in the long profile."""
    return 100_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else base


def batches(draw, rng, n):
    while n > 0:
        yield draw(rng, min(n, 4_000_000))
        n -= 4_000_000


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(engine, name):
    """Test the Kolmogorov-Smirnov distance over fine bins, the moments, and the correlation of neighbours."""
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


@pytest.mark.parametrize("shape", [0.01, 0.03, 1e3, 1e6, 1e9, 1e12])
def test_gamma_numbers_of_any_shape(engine, shape):
    stats = pytest.importorskip("scipy.stats")
    n = 40_000
    x = default_rng(6).standard_gamma(shape, n)
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > 1e-3
    kurtosis = 3 + 6 / shape
    assert abs(x.mean() - shape) < 5 * np.sqrt(shape / n)
    assert abs(x.var() / shape - 1) < 5 * np.sqrt((kurtosis - 1) / n)


def test_cauchy_numbers(engine):
    stats = pytest.importorskip("scipy.stats")
    x = default_rng(6).standard_cauchy(40_000)
    assert stats.kstest(x, stats.cauchy.cdf).pvalue > 1e-3


def test_beta_numbers_of_extreme_shapes(engine):
    rng, n = default_rng(6), 20_000
    for a, b in [(1e-3, 2e-3), (1e-200, 3e-200), (5e-324, 1.5e-323), (1e-310, 1e-310), (0.5, 1e-310)]:
        x, mean = rng.beta(a, b, n), a / (a + b)
        assert ((x >= 0) & (x <= 1)).all()
        assert abs(x.mean() - mean) <= 5 * np.sqrt(mean * (1 - mean) / n)
    np.testing.assert_allclose(rng.beta(1e300, 3e300, 9), 0.25, rtol=1e-12)
    np.testing.assert_allclose(rng.beta(1e-3, 1e300, 9), 0, atol=1e-290)
    assert (rng.beta(1e308, 0.5, 9) == 1).all()


@pytest.mark.parametrize("alpha", [[1, 2, 5], [0.02, 0.05, 0.03], [3], [0.01, 40, 0.5, 7]])
def test_shares_of_dirichlet(engine, alpha):
    """Each element of a Dirichlet vector has a beta distribution."""
    stats = pytest.importorskip("scipy.stats")
    x, total = default_rng(4).dirichlet(alpha, 20_000), sum(alpha)
    np.testing.assert_allclose(x.sum(axis=1), 1, rtol=1e-14)
    for share, a in zip(x.T, alpha, strict=True):
        if a >= 0.1:  # below, too many round to 0 or 1
            assert len(alpha) == 1 or stats.kstest(share, "beta", (a, total - a)).pvalue > 1e-4
        spread = a * (total - a) / (total**2 * (total + 1))
        np.testing.assert_allclose(share.mean(), a / total, atol=5 * np.sqrt(spread / len(x)))
        np.testing.assert_allclose(share.var(), spread, rtol=0.15 if a >= 0.1 else 0.5, atol=1e-15)


@pytest.mark.parametrize("name", ["auto", None])
def test_few_shares_are_the_first_of_many(engine, name):
    """The sum is 1 under `auto`, too, which would let NumPy add few numbers."""
    alpha = np.linspace(0.2, 3, 40)
    many = default_rng(4).dirichlet(alpha, 5000)
    with pk.engine(name or engine):
        assert np.array_equal(default_rng(4).dirichlet(alpha, 3), many[:3])


@pytest.mark.parametrize(
    ("n", "shares"),
    [(5, [0.2, 0.3, 0.5]), (1, [0.25] * 4), (10**6, [0.1, 0.0, 0.9]), (3, [1.0]), (0, [0.5, 0.5])],
)
def test_counts_of_multinomial(engine, n, shares):
    """For few trials all outcomes have their frequencies; for any, the counts are binomial."""
    stats = pytest.importorskip("scipy.stats")
    size = 20_000
    x = default_rng(4).multinomial(n, shares, size)
    assert (x.sum(axis=1) == n).all()
    for counts, share in zip(x.T, shares, strict=True):
        spread = n * share * (1 - share)
        np.testing.assert_allclose(counts.mean(), n * share, atol=5 * np.sqrt(spread / size))
        np.testing.assert_allclose(counts.var(), spread, rtol=0.1)
    if 0 < n < 10 and len(shares) > 1:
        outcomes, counts = np.unique(x, axis=0, return_counts=True)
        wanted = size * stats.multinomial.pmf(outcomes, n, shares)
        assert wanted.sum() > 0.999 * size
        assert stats.chisquare(counts, wanted * size / wanted.sum()).pvalue > 1e-4


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_multivariate_normals(engine, method):
    n, mean = 40_000, np.array([1.0, -2.0, 30.0])
    cov = np.array([[2.0, -1.0, 0.3], [-1.0, 3.0, 0.5], [0.3, 0.5, 1.1]])
    x = default_rng(3).multivariate_normal(mean, cov, n, method=method)
    assert x.shape == (n, 3)
    assert (abs(x.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(cov) / n)).all()
    spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / n)
    assert (abs(np.cov(x.T) - cov) < 5 * spread).all()


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
    assert (rng.lognormal(3, 0, 9) == np.exp(3)).all()
    assert (rng.lognormal(1e5, 1, 9) == np.inf).all()
    assert (rng.standard_gamma(0, 9) == 0).all()
    assert (rng.standard_gamma(5e-324, 9) == 0).all()
    assert (rng.gamma(3, 0, 9) == 0).all()
    assert np.isnan(rng.gamma([1, np.nan], 1)).tolist() == [False, True]
    assert np.isnan(rng.beta([1, np.nan], 1)).tolist() == [False, True]
    assert rng.standard_gamma(np.inf) == np.inf
    np.testing.assert_allclose(rng.standard_gamma(1e308, 9), 1e308)
    assert (rng.weibull(0, 9) == 0).all()
    assert rng.pareto(1e-300) == np.inf
    assert (rng.negative_binomial(5, 1.0, 9) == 0).all()
    assert ((x := rng.wald(1e-6, 1e6, 999)) > 0).all()
    assert x.mean() == pytest.approx(1e-6)
    assert (rng.laplace(3, 0, 9) == rng.logistic(3, 0, 9)).all()
    assert (rng.geometric(1.0, 9) == 1).all()
    assert (rng.geometric(5e-324, 9) == most).all()
    assert rng.geometric(1e-17, 1000).mean() == pytest.approx(1e17, rel=0.2)


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


def test_permuted(engine):
    rng = default_rng(1)
    table = np.arange(2400.0).reshape(20, 30, 4)
    for axis in (0, 1, 2, -1):
        got = rng.permuted(table, axis=axis)
        np.testing.assert_array_equal(np.sort(got, axis), table)
        assert not np.array_equal(got, table)
    lines = rng.permuted(np.tile(np.arange(100), (50, 1)), axis=1)
    assert len(np.unique(lines, axis=0)) == 50  # each in its own order
    assert (np.sort(rng.permuted(table), axis=None) == table.ravel()).all()
    assert default_rng(2).permuted(range(9)).tolist() == default_rng(2).permutation(9).tolist()
    before = rng.__getstate__()
    assert rng.permuted(np.ones((3, 0)), axis=1).shape == (3, 0)
    assert rng.__getstate__() == before
    names = np.array([["a", "b"], ["c", None]], object)
    assert set(rng.permuted(names).ravel()) == {"a", "b", "c", None}
    orders = default_rng(3).permuted(np.tile(np.arange(3), (1200, 1)), axis=1)
    counts = np.unique(orders @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 200) ** 2 / 200).sum() < 25


def test_permuted_to_an_array(engine):
    x = np.arange(24).reshape(4, 6)
    want = default_rng(1).permuted(x, axis=0)
    for out in (np.zeros((4, 6)), np.zeros((6, 4), order="F").T, np.zeros((8, 12))[::2, ::-2]):
        assert default_rng(1).permuted(x, axis=0, out=out) is out
        np.testing.assert_array_equal(out, want)
    assert default_rng(1).permuted(x, axis=0, out=x) is x
    np.testing.assert_array_equal(x, want)


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
    for replace in (True, False):
        for a, p in [(5, None), (5, [0.2] * 5), ([[1, 2], [3, 4]], None), ([1, 2], [0.5, 0.5])]:
            for size in (None, (), 0, 1, (1, 1), (0, 3), (2, 1)):
                want = np.random.default_rng(1).choice(a, size, replace, p)
                got = rng.choice(a, size, replace, p)
                assert type(got) is type(want)
                assert np.shape(got) == np.shape(want)


def test_choice_without_replacement_by_probability(engine):
    p = np.array([0.5, 0.25, 0.15, 0.1, 0])
    drawn = np.array([default_rng(i).choice(5, 2, replace=False, p=p) for i in range(1500)])
    assert (drawn < 4).all()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=5) / 1500, p, atol=0.05)
    both = sum(p[i] * p[0] / (1 - p[i]) for i in range(1, 4))
    assert abs((drawn[:, 1] == 0).mean() - both) < 0.05
