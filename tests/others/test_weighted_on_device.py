"""Quantiles of weighted values on a GPU: the places that rounding decides, and what is refused."""

import sys

import numpy as np
import pytest
from helpers.there import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk

RNG = np.random.default_rng(3)
ROWS, COLUMNS = 40, 3000
VALUES = RNG.permuted(np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS), axis=1)
WEIGHTS = RNG.random((ROWS, COLUMNS))
TENTHS = np.full((ROWS, COLUMNS), 0.1)  # whose sums come to a half, or next to it
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
# Rows that come down: a share of 1 may be reached anywhere in what weighs next to nothing.
OPEN = {"tenths": ROWS, "tenths in few rows": ROWS // 7 + 1, "wide": ROWS, "half of them nothing": ROWS}


def check(name, up, down):
    weights = CASES[name]
    with pk.engine("cpu"):
        want = pk.quantile(VALUES, SHARES, 1, weights=weights, method="inverted_cdf")
    got = pk.quantile(up(VALUES), SHARES, 1, weights=up(weights), method="inverted_cdf")
    assert_array_equal(down(got), want, strict=True)
    assert_array_equal(want, np.quantile(VALUES, SHARES, 1, weights=weights, method="inverted_cdf"))


@pytest.mark.parametrize("name", CASES)
def test_places_by_a_stand_in(gpu, name):
    cupy = sys.modules["cupy"]
    check(name, cupy.asarray, cupy.asnumpy)
    come_down = OPEN.get(name, 0) * COLUMNS * 8
    assert gpu.bytes_down <= come_down + 400


@on_a_gpu
@pytest.mark.parametrize("name", CASES)
def test_places_there(library, name):
    check(name, library.up, library.down)
    last = pk.last_call()
    assert last.bytes_up + last.bytes_down <= 60_000 + OPEN.get(name, 0) * COLUMNS * 8 * 2, last


REFUSED = {
    "negative": {"weights": -WEIGHTS},
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


def check_refused(name, up):
    given = {"a": VALUES, "q": 0.5, "axis": 1, "method": "inverted_cdf", **REFUSED[name]}
    with pk.engine("cpu"), pytest.raises((ValueError, TypeError)) as told:
        pk.quantile(**given)
    given |= {key: up(given[key]) for key in ("a", "weights")}
    with pytest.raises(type(told.value)) as there:
        pk.quantile(**given)
    assert str(there.value) == str(told.value)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_a_stand_in(name):
    check_refused(name, sys.modules["cupy"].asarray)


@on_a_gpu
@pytest.mark.parametrize("name", REFUSED)
def test_refused_there(library, name):
    check_refused(name, library.up)


@pytest.mark.usefixtures("gpu")
def test_a_number_is_an_array_unless_it_is_nan():
    """As NumPy has it, of arrays on the host, too."""
    half = pk.fuse(lambda x, w: np.quantile(x, 0.5, weights=w, method="inverted_cdf"))
    for x in (VALUES[0], np.where(VALUES[0] > 9, VALUES[0], np.nan)):
        want = np.quantile(x, 0.5, weights=WEIGHTS[0], method="inverted_cdf")
        got = half(x, WEIGHTS[0])
        assert type(got) is type(want)
        assert_array_equal(got, want)
