"""Weighted quantiles against NumPy."""

import warnings

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy, since
from helpers.strategies import assert_same_outcome, each_with_smoke, outcome

import pycudakit as pk
from pycudakit import errors


def compare(name, *arguments, **keywords):
    keywords = {"method": "inverted_cdf", **keywords}
    ours, numpys = (outcome(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    assert_same_outcome(ours, numpys, context=f"{name} {arguments[1:]} {keywords}")
    if ours[0] == "error":
        assert str(ours[1]) == str(numpys[1])


RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(0, 5, (6, 40))


@since("2.4")  # before, the least quantile may have zero weight, and sums are not exact
@pytest.mark.parametrize("dtype", each_with_smoke(["int8", "uint64", "float32", "float64"]))
@pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS / 7, WEIGHTS.astype("f4"), np.ones((6, 40))])
def test_values(engine, dtype, weights):
    a = RNG.integers(0, 30, (6, 40)).astype(dtype)
    for shares in (0.5, 0, 1, [0.0, 0.1, 0.25, 1.0], [[0.3], [0.7]], np.float32(0.4)):
        compare("quantile", a, shares, weights=weights)
        compare("quantile", a, shares, axis=1, weights=weights)
        compare("quantile", a, shares, axis=0, weights=weights[:, 3])
        compare("quantile", a, shares, axis=(0, 1), weights=weights, keepdims=True)
        compare("percentile", a, np.multiply(shares, 100), axis=-1, weights=weights[1], keepdims=True)
    assert (pk.last_call().function, pk.last_call().engine) == ("percentile", engine)


def test_nan(engine):
    a = RNG.standard_normal((5, 20))
    a[2, 3] = np.nan
    compare("quantile", a, [0.2, 0.9], axis=1, weights=WEIGHTS[:5, :20] + 1)
    compare("quantile", a, 0.5, weights=WEIGHTS[:5, :20] + 1)


@since("2.4")
@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("weights", [WEIGHTS + 1, WEIGHTS.astype("f4") + 1, WEIGHTS * np.inf])
def test_without_nan(engine, dtype, weights):
    a = RNG.permuted(np.arange(240)).reshape(6, 40) - 120
    if dtype != "int8":
        a = np.where(a % 3 < 1 + (weights == np.inf), np.nan, a)
        a[4] = np.nan
        weights = np.where(np.isnan(a), np.nan, weights)
    a = a.astype(dtype)
    for shares in (0.5, 0, 1, [0.0, 0.1, 1.0], [[0.3], [0.7]], np.float32(0.4)):
        compare("nanquantile", a, shares, weights=weights)
        compare("nanquantile", a, shares, axis=1, weights=weights)
        compare("nanquantile", a, shares, axis=0, weights=np.abs(weights[:, 3]) + 1)
        compare("nanquantile", a[4], shares, weights=weights[4])
        compare("nanpercentile", a, np.multiply(shares, 100), axis=(1, 0), weights=weights, keepdims=True)
    for axis, shape in ((1, 6), (1, 5), (1, 7), (None, ()), (0, (1, 40)), ((0, 1), 3)):
        compare("nanquantile", a, 0.3, axis, np.empty(shape, "f8"), weights=weights)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pk.nanquantile(a, 0.3, 1, weights=np.ones_like(weights), method="inverted_cdf")
    assert [str(each.message) for each in told] == ["All-NaN slice encountered"] * (dtype != "int8")
    assert (pk.last_call().function, pk.last_call().engine) == ("nanquantile", engine)


def test_out(engine):
    a, out = RNG.standard_normal((6, 40)), np.empty(6)
    assert pk.quantile(a, 0.3, 1, out, weights=WEIGHTS + 1, method="inverted_cdf") is out
    assert np.array_equal(out, np.quantile(a, 0.3, 1, weights=WEIGHTS + 1, method="inverted_cdf"))
    compare("quantile", a, 0.3, 1, np.empty(5), weights=WEIGHTS + 1)


def test_no_shares(engine):
    a = RNG.standard_normal((6, 40))
    compare("quantile", a, [], 1, weights=WEIGHTS + 1, method="inverted_cdf")


def test_errors(engine):
    a = RNG.standard_normal((6, 40))
    compare("quantile", a, 0.5, weights=WEIGHTS, method="linear")
    compare("quantile", a, 0.5, weights=WEIGHTS[0])
    compare("quantile", a, 0.5, axis=1, weights=WEIGHTS[:, 0])
    compare("quantile", a, 0.5, weights=-WEIGHTS)
    if has_numpy("2.4"):  # earlier versions accept them
        compare("quantile", a, 0.5, weights=WEIGHTS * 0)
        compare("quantile", a, 0.5, weights=WEIGHTS * np.nan)
    with pytest.raises(
        errors.Unsupported, match=r"nanquantile: not on the .* engine: weights of an unsupported type"
    ):
        pk.nanquantile(a, 0.5, weights=WEIGHTS.astype(complex), method="inverted_cdf")
