"""`unique` rows of other libraries' device arrays, sorted by as many columns as needed."""

import sys

import numpy as np
import pytest
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk

RNG = np.random.default_rng(4)
SOME = RNG.integers(0, 400, 2000)
BITS = RNG.integers(0, 2, (400, 90))
LAST = np.zeros((2000, 90))
LAST[:, -1] = SOME
NAN = np.where(RNG.random((400, 90)) < 0.02, np.nan, BITS)
CASES = {
    "bits": BITS[SOME],
    "bits, of float32": BITS[SOME].astype(np.float32),
    "bools": BITS[SOME] > 0,
    "all alike": np.ones((50, 90)),
    "unlike at the end": LAST,
    "unlike in two columns": np.concatenate([LAST, LAST[::-1]], axis=1),
    "NaN": NAN[SOME],
    "NaN, and unlike at the end": np.where(np.arange(90) == 3, np.nan, LAST),
    "either zero": np.where(RNG.random((2000, 90)) < 0.5, -0.0, BITS[SOME]),
    "one row": BITS[:1],
    "one row at a time": LAST.reshape(40, 50, 90),
}


def check(name, up, down):
    given = CASES[name]
    for axis in range(given.ndim):
        with pk.engine("cpu"):
            wants = pk.unique(given, True, True, True, axis)
        gots = pk.unique(up(given), True, True, True, axis)
        for got, want in zip(gots, wants, strict=True):
            assert_array_equal(down(got), want, strict=True)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", CASES)
def test_rows_on_the_fake_gpu(name):
    cupy = sys.modules["cupy"]
    check(name, cupy.asarray, cupy.asnumpy)


@on_a_gpu
@pytest.mark.parametrize("name", CASES)
def test_unique_on_device(library, name):
    check(name, library.up, library.down)
