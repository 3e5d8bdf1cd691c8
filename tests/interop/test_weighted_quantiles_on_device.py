"""Weighted quantiles of device arrays: indices that depend on rounding, and invalid calls."""

import contextlib
import functools
import sys

import numpy as np
import pytest
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk

RNG = np.random.default_rng(3)
ROWS, COLUMNS = 40, 3000
VALUES = RNG.permuted(np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS), axis=1)
WEIGHTS = RNG.random((ROWS, COLUMNS))
TENTHS = np.full((ROWS, COLUMNS), 0.1)  # their sums are a half, or next to it
FEW = WEIGHTS.copy()
FEW[::7] = TENTHS[::7]
SHARES = np.array([0.0, 0.1, 0.25, 0.5, 1.0])
CASES = {
    "random": WEIGHTS,
    "random, of float32": WEIGHTS.astype(np.float32),
    "wide": WEIGHTS**40,
    "half of them nothing": WEIGHTS * (WEIGHTS > 0.5),
    "whole": np.floor(WEIGHTS * 3) + 1,
    "large": WEIGHTS * 1e300,
    "tenths": TENTHS,
    "tenths in few rows": FEW,
}
# Rows that are downloaded: level 1 may be reached anywhere among elements of tiny weight.
OPEN = {"tenths": ROWS, "tenths in few rows": ROWS // 7 + 1, "wide": ROWS, "half of them nothing": ROWS}


# NaN that nanquantile skips, with their weights: some of each row, and all of one.
GAPS = np.where(RNG.random((ROWS, COLUMNS)) < 0.2, np.nan, VALUES)
GAPS[5] = np.nan
GAPS[::3, -1] = np.nan


def check(name, up, down, function="quantile"):
    weights, values = CASES[name], VALUES if function == "quantile" else GAPS
    if function == "nanquantile" and weights.dtype.kind == "f":
        weights = np.where(np.isnan(values), np.nan, weights).astype(weights.dtype)
    given = {"axis": 1, "method": "inverted_cdf"}
    with pk.engine("cpu"), warnings_of(function):
        want = getattr(pk, function)(values, SHARES, weights=weights, **given)
    with warnings_of(function):
        got = getattr(pk, function)(up(values), SHARES, weights=up(weights), **given)
        assert_array_equal(want, getattr(np, function)(values, SHARES, weights=weights, **given))
    assert_array_equal(down(got), want, strict=True)


def warnings_of(function):
    if function == "quantile":
        return contextlib.nullcontext()
    return pytest.warns(RuntimeWarning, match="All-NaN slice encountered")


@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
@pytest.mark.parametrize("name", CASES)
def test_places_on_the_fake_gpu(gpu, name, function):
    cupy = sys.modules["cupy"]
    check(name, cupy.asarray, cupy.asnumpy, function)
    come_down = OPEN.get(name, 0) * COLUMNS * 8
    assert gpu.bytes_down <= come_down + 400


@on_a_gpu
@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
@pytest.mark.parametrize("name", CASES)
def test_quantiles_on_device(library, name, function):
    check(name, library.up, library.down, function)
    last = pk.last_call()
    assert last.bytes_up + last.bytes_down <= 60_000 + OPEN.get(name, 0) * COLUMNS * 8 * 2, last


REFUSED = {
    "negative": {"weights": -WEIGHTS},
    "negative, of NaN": {"weights": np.where(np.isnan(GAPS), -1.0, np.where(WEIGHTS > 0.5, WEIGHTS, np.nan))},
    "nothing": {"weights": WEIGHTS * 0},
    "NaN": {"weights": WEIGHTS * np.nan},
    "infinite": {"weights": WEIGHTS * np.inf},
    "of another shape": {"weights": WEIGHTS[1:]},
    "of rows, along no axis": {"weights": WEIGHTS[0], "axis": None},
    "along no such axis": {"weights": WEIGHTS, "axis": 2},
    "by another method": {"weights": WEIGHTS, "method": "linear"},
    "of shares above 1": {"weights": WEIGHTS, "q": 1.5},
    "of shares in three dimensions": {"weights": WEIGHTS, "q": np.zeros((1, 1, 1))},
}


def check_refused(name, up, function):
    values = VALUES if function == "quantile" else GAPS
    given = {"a": values, "q": 0.5, "axis": 1, "method": "inverted_cdf", **REFUSED[name]}
    with pk.engine("cpu"), pytest.raises((ValueError, TypeError)) as told:
        getattr(pk, function)(**given)
    given |= {key: up(given[key]) for key in ("a", "weights")}
    with pytest.raises(type(told.value)) as there:
        getattr(pk, function)(**given)
    assert str(there.value) == str(told.value)


@pytest.mark.usefixtures("gpu")
@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_on_the_fake_gpu(name, function):
    check_refused(name, sys.modules["cupy"].asarray, function)


@on_a_gpu
@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_weights_on_device(library, name, function):
    check_refused(name, library.up, function)


@pytest.mark.usefixtures("gpu")
def test_a_number_is_an_array_unless_it_is_nan():
    """As in NumPy, also for host arrays."""
    for function, x in ((np.quantile, VALUES[0]), (np.quantile, GAPS[0]), (np.nanquantile, GAPS[5])):
        call = functools.partial(function, q=0.5, method="inverted_cdf")
        want = call(x, weights=WEIGHTS[0])
        got = pk.fuse(lambda x, w, call=call: call(x, weights=w))(x, WEIGHTS[0])
        assert type(got) is type(want)
        assert_array_equal(got, want)
