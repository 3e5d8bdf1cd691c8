"""Accuracy of sums of floats: errors against exact arithmetic, compared with NumPy's."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from helpers.exact_sums import agrees, error, expected, function, inner, root, slack_of, total
from helpers.strategies import FLOATS

import pycudakit as pk

SIZES = [10, 1000, 1025, 20_000]


def spread(rng, size, low, high):
    """Return numbers of either sign, whose magnitudes are log-uniform over orders of magnitude."""
    return rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(low, high, size)


# Distributions that are easy for pairwise summation, and others with cancellation or a wide range.
DISTRIBUTIONS = {
    "uniform": lambda rng, size, _: rng.random(size),
    "alternating": lambda rng, size, _: rng.random(size) * np.where(np.arange(size) % 2, -1, 1),
    "wide": lambda rng, size, widest: spread(rng, size, -widest, widest),
    "sorted": lambda rng, size, _: np.sort(rng.standard_normal(size)),
    "sorted wide": lambda rng, size, widest: np.sort(np.abs(spread(rng, size, -widest, widest)))[::-1],
}


def drawn(case, dtype, size, seed):
    """Return numbers of a distribution, limited to the range of float16 if necessary."""
    widest = 30 if dtype != "float16" else 2
    return DISTRIBUTIONS[case](np.random.default_rng(seed), size, widest).astype(dtype)


def errors_of(name, array, **keywords):
    """Return our error and NumPy's, and whether our result is correctly rounded."""
    value, slack = expected(name, array, **keywords)
    with np.errstate(all="ignore"):
        ours, numpys = (function(kit, name)(array, **keywords) for kit in (pk, np))
    return error(ours, value), error(numpys, value), agrees(ours, value, slack, 1.1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", DISTRIBUTIONS)
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "norm", "nansum", "nanmean", "nanvar"])
def test_error_is_never_above_numpys(engine, name, case, dtype):
    for size in SIZES:
        for seed in range(3):
            array = drawn(case, dtype, size, seed)
            ours, numpys, is_right = errors_of(name, array)
            assert is_right, (size, seed, float(ours))
            assert ours <= numpys, (size, seed, float(ours), float(numpys))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", DISTRIBUTIONS)
@pytest.mark.parametrize("name", ["dot", "vdot"])
def test_error_of_products_is_never_above_numpys(engine, name, case, dtype):
    for size in SIZES:
        for seed in range(3):
            a, b = drawn(case, dtype, size, seed), drawn(case, dtype, size, seed + 100)
            value, largest = inner(a, b)
            with np.errstate(all="ignore"):
                ours, numpys = getattr(pk, name)(a, b), getattr(np, name)(a, b)
            assert agrees(ours, value, slack_of(a.dtype, largest, size), 0.501), (size, seed)
            assert error(ours, value) <= error(numpys, value), (size, seed)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", ["uniform", "wide"])
def test_error_of_a_product_is_never_above_numpys(engine, case, dtype):
    for size in (2, 5, 30, 300):
        for seed in range(5):
            widest = 1 if dtype == "float16" else 8
            array = DISTRIBUTIONS[case](np.random.default_rng(seed), size, widest).astype(dtype)
            ours, numpys, is_right = errors_of("prod", array)
            assert is_right
            assert ours <= numpys


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", DISTRIBUTIONS)
def test_weights(engine, case, dtype):
    for size in SIZES:
        a = drawn(case, dtype, size, 1)
        weights = np.random.default_rng(2).random(size).astype(dtype) + a.dtype.type(0.5)
        value, largest = inner(a, weights)
        whole, _ = total(weights)
        with np.errstate(all="ignore"):
            ours, numpys = (kit.average(a, weights=weights) for kit in (pk, np))
        slack = slack_of(a.dtype, largest, size) / whole
        assert agrees(ours, value / whole, slack, 0.501 if dtype != "float64" else 1.6), size
        assert dtype == "float64" or error(ours, value / whole) <= error(numpys, value / whole)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_axes(engine, dtype, axis):
    """Sums of many columns and of many rows have the error of a single one."""
    array = np.stack([drawn("alternating", dtype, 3000, seed) for seed in range(5)], axis=1 - axis)
    for name in ("sum", "mean", "var"):
        ours, numpys = (getattr(kit, name)(array, axis=axis) for kit in (pk, np))
        for i in range(5):
            value, _ = expected(name, array.take(i, 1 - axis))
            assert error(ours[i], value) <= error(numpys[i], value)


# ---- Beyond NumPy's two passes -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 1025, 50_000])
@pytest.mark.parametrize("offset", [1e8, -1e8, 1e15])
def test_small_noise_about_a_large_mean(engine, offset, size):
    noise = np.random.default_rng(3).standard_normal(size)
    array = offset + noise
    for name in ("mean", "var", "std"):
        ours, numpys, is_right = errors_of(name, array)
        assert is_right
        assert ours <= numpys
    exact, _ = expected("var", array)
    assert pk.var(array) == pytest.approx(float(exact), rel=1e-15)
    assert pk.var(array, ddof=1) == pytest.approx(float(exact * size / (size - 1)), rel=1e-15)
    split = np.ascontiguousarray(np.stack([array, -array], axis=1))
    assert np.array_equal(pk.var(split, axis=0), [pk.var(array)] * 2)
    narrow = (1e4 + noise).astype(np.float32)
    exact, _ = expected("var", narrow)
    assert error(pk.var(narrow), exact) <= Fraction(float(np.spacing(pk.var(narrow))))


def test_constants_have_no_variance(engine):
    for value in (0.1, 1e300, 1e-300, -7):
        assert pk.var(np.full(5000, value)) == 0
        assert pk.std(np.full((3, 5000), value), axis=1).max() == 0
        assert pk.mean(np.full(5000, value)) == value


def test_an_outlier_comes_first(engine):
    """Blocks accumulate deviations from their first value."""
    array = np.random.default_rng(4).standard_normal(5000)
    array[0] = array[2048] = 1e8
    value, _ = expected("var", array)
    assert error(pk.var(array), value) <= Fraction(float(np.spacing(pk.var(array))))


def test_cancellation(engine):
    rng = np.random.default_rng(5)
    for size in (7, 1000, 3000, 40_000):
        half = spread(rng, size, -20, 20)
        array = np.concatenate([half, -half, [1e-25]])
        rng.shuffle(array)
        value, slack = expected("sum", array)
        assert value == Fraction(1e-25)
        assert agrees(pk.sum(array), value, slack)
        assert abs(pk.sum(array)) < 1e-7 * abs(np.sum(array)) + 1e-20


def test_only_the_result_overflows(engine):
    huge = np.full(3000, 1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pk.prod(np.concatenate([huge, 1 / huge])) == pytest.approx(1)
        assert pk.prod(np.float16([300, 300, 1 / 256, 1 / 256])) == np.float16(90000 / 65536)
        assert pk.mean(np.full(100, 3e38, np.float32)) == np.float32(3e38)
        assert pk.linalg.norm(np.float32([3e20, 4e20])) == np.float32(5e20)
        assert pk.dot(np.float32([1e30, 1e30]), np.float32([1e30, -1e30])) == 0
    tiny = np.full(100, 1e-3)
    assert pk.prod(tiny) == pytest.approx(1e-300, rel=1e-14)
    assert pk.prod(np.append(np.full(20, 1e-30), 1e290)) == float(Fraction(1e-30) ** 20 * Fraction(1e290))
    assert root(Fraction(2)) != root(Fraction(3))
