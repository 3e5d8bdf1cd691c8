"""Random numbers are the documented transforms of the words of NumPy's Philox."""

import copy

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.random.generator import default_rng
from pycudakit.random.philox import Stream

LARGE = 3 * 65536 + 5  # several tasks for threads


def words_of(rng, size):
    """Return the words that a generator would draw next."""
    return Stream(*rng.__getstate__()).to_numpy().random_raw(size)


def quantiles(bits, width):
    """Compute a normal quantile from the lower bits (upper tail), with the sign from the highest bit."""
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
    """The generator is set, by inverting Philox, so that it draws these words."""
    words = [place, place + 1, place - 1 if place else 2**63, place | 2**63]
    generator = before_block(words)
    bits = words if width == 64 else np.array(words, np.uint64).view(np.uint32).tolist()
    got = default_rng(generator).standard_normal(len(bits), np.float64 if width == 64 else np.float32)
    np.testing.assert_allclose(got, quantiles(bits, width), rtol=4e-15 if width == 64 else 5e-7)
    assert default_rng(generator).random(4).tolist() == [(word >> 11) / 2**53 for word in words]


FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def before_block(words):
    """Return NumPy's generator with a key of 0 whose next words are these."""
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


def test_float32_exponentials_are_logarithms(engine):
    bits = words_of(default_rng(2), LARGE).view(np.uint32)[:LARGE]
    p = (bits + 0.5) / 2**32
    want = np.where(p > 0.5, -np.log1p(-((~bits) + 0.5) / 2**32), -np.log(p))
    got = default_rng(2).standard_exponential(LARGE, np.float32)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=5e-7)
    np.testing.assert_array_equal(
        default_rng(2).standard_exponential(LARGE, method="inv"), default_rng(2).exponential(size=LARGE)
    )


def test_made_of_others(engine):
    def rng():
        return default_rng(12)

    n = 3000
    np.testing.assert_array_equal(rng().lognormal(1, 2, n), pk.exp(rng().normal(1, 2, n)))
    gammas = rng().standard_gamma(0.7, n)
    np.testing.assert_array_equal(rng().gamma(0.7, 3, n), 3 * gammas)
    np.testing.assert_array_equal(rng().chisquare(1.4, n), 2 * gammas)
    np.testing.assert_array_equal(rng().standard_gamma(0.7, n, np.float32), gammas.astype(np.float32))
    np.testing.assert_allclose(gammas, rng().standard_gamma(1.7, n) * fallen(n) ** (1 / 0.7), rtol=1e-13)
    steps = rng().exponential(1, n) / -np.log1p(-0.2)
    np.testing.assert_array_equal(rng().geometric(0.2, n), np.ceil(steps))


def plane_of(seed, number, size):
    """Return the first words of a substream, whose counters differ in the highest 16 bits."""
    key = np.array(default_rng(seed).__getstate__()[0], np.uint64)
    return np.random.Philox(key=key, counter=number << 240).random_raw(size)


def fallen(n):
    return (plane_of(12, 128, n).astype(np.longdouble) + 0.5).astype(np.float64) / 2**64


@pytest.mark.parametrize("shape", [1.0, 1.3, 8.0, 1e4])
def test_gamma_numbers_are_marsaglias_and_tsangs(engine, shape):
    """A rejection method draws normal and uniform numbers of its own words, in two substreams per attempt."""
    n, d = 5000, shape - 1 / 3
    want, left = np.full(n, np.nan), np.arange(n)
    for attempt in range(12):
        z, u = (plane_of(5, 2 * attempt + i, n) for i in (0, 1))
        z, u = quantiles(z, 64)[left], ((u >> np.uint64(11)) / 2**53)[left]
        cube = (1 + z / np.sqrt(9 * d)) ** 3
        with np.errstate(invalid="ignore"):
            taken = (cube > 0) & (np.log(u) < z**2 / 2 + d * (1 - cube + np.log(cube)))
        want[left[taken]], left = d * cube[taken], left[~taken]
    assert len(left) == 0
    np.testing.assert_allclose(default_rng(5).standard_gamma(shape, n), want, rtol=1e-12)
    if shape == 1:
        assert (plane_of(5, 0, n) == words_of(default_rng(5), n)).all()


def test_triangular_numbers_are_numpys(engine):
    arguments = np.array([0.0, -3.0])[:, None], 1.0, np.linspace(1, 9, 50)
    want = np.random.Generator(np.random.Philox(2)).triangular(*arguments)
    np.testing.assert_allclose(default_rng(2).triangular(*arguments), want, rtol=1e-12, atol=1e-14)


def test_expressions_of_few_numbers_are_those_of_many():
    """NumPy's functions, which `auto` uses for few elements, have other last bits."""
    for name in ("laplace", "logistic", "gumbel", "standard_cauchy"):
        one, many = default_rng(2), default_rng(2)
        with pk.engine("cpu"):
            want = getattr(many, name)(size=3000)
        assert [getattr(one, name)() for _ in range(3000)] == want.tolist()


def test_of_two_numbers_each(engine):
    def rng():
        return default_rng(12)

    def beside():
        key = np.array(rng().__getstate__()[0], np.uint64)
        return default_rng(np.random.Philox(key=key, counter=512 << 240))

    n = 300
    gammas = beside().standard_gamma(1.5, n)
    np.testing.assert_allclose(rng().standard_t(3, n), rng().normal(0, 1, n) * np.sqrt(1.5 / gammas))
    np.testing.assert_allclose(rng().f(5, 3, n), rng().standard_gamma(2.5, n) * 3 / (gammas * 5))
    counts = beside().poisson(rng().gamma(4, 3, n))
    np.testing.assert_array_equal(rng().negative_binomial(4, 0.25, n), counts)


def test_shares_and_counts_of_several(engine):
    gammas = default_rng(3).standard_gamma([0.5, 2, 30], (40, 3))
    shares = default_rng(3).dirichlet([0.5, 2, 30], 40)
    np.testing.assert_allclose(shares, gammas / gammas.sum(axis=1, keepdims=True), rtol=1e-14)
    assert (default_rng(3).dirichlet([0.0, 0.05], 9) == [0, 1]).all()
    n, likely = np.array([3, 500, 0]), np.array([[[0.2, 0.3, 0.5]], [[1.0, 0, 0]]]).repeat(3, axis=1)
    counts = default_rng(3).multinomial(n, likely)
    assert counts.shape == (2, 3, 3)
    assert (counts.sum(axis=-1) == n).all()
    assert (counts[1] == n[:, None] * [1, 0, 0]).all()
    np.testing.assert_array_equal(counts[0, :, 0], default_rng(3).binomial(n, 0.2))
    assert (default_rng(3).logseries(0, 9) == 1).all()
    centred = default_rng(3).noncentral_chisquare([3, 5], 0, (50, 2))
    key, word, _ = default_rng(3).__getstate__()
    further = default_rng(Stream(key, word).beside(1).to_numpy())
    np.testing.assert_allclose(centred, 2 * further.standard_gamma([1.5, 2.5], (50, 2)), rtol=1e-14)
    assert np.isnan(default_rng(3).noncentral_chisquare(3, np.nan))


def test_multivariate_normals_are_products(engine):
    mean, cov = [1.0, 2.0, 3.0], [[4, 1, 1], [1, 3, 0], [1, 0, 2]]
    normals = default_rng(2).standard_normal((500, 3))
    for method in ("svd", "eigh", "cholesky"):
        got = default_rng(2).multivariate_normal(mean, cov, 500, method=method)
        centred = got - mean
        factor = np.linalg.lstsq(normals, centred, rcond=None)[0].T
        np.testing.assert_allclose(normals @ factor.T, centred, atol=1e-13)
        np.testing.assert_allclose(factor @ factor.T, cov, atol=1e-12)
    one = default_rng(2).multivariate_normal(mean, cov, method="cholesky")
    np.testing.assert_array_equal(one, got[0])
    many = default_rng(2).multivariate_normal(mean, cov, (50, 10), method="cholesky")
    np.testing.assert_array_equal(many.reshape(500, 3), got)


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
