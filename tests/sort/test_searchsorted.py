"""`searchsorted` against NumPy."""

import tracemalloc
import warnings

import numpy as np
import pytest
from helpers.strategies import arrays, assert_same_outcome, describe, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

RNG = np.random.default_rng(0)


@given(data=st.data(), array=arrays(shape=st.integers(0, 200).map(lambda n: (n,))), values=arrays())
def test_searchsorted(engine, data, array, values):
    side = data.draw(st.sampled_from(["left", "right"]))
    if data.draw(st.booleans(), "sorter"):
        sorter = np.argsort(array, kind="stable")
    else:
        array, sorter = np.sort(array, kind="stable"), None
    with pk.engine(engine):
        ours = outcome(pk.searchsorted, array, values, side, sorter)
    numpys = outcome(np.searchsorted, array, values, side, sorter)
    assert_same_outcome(ours, numpys, strides=False, context=describe(array, values, side, sorter))


def test_searchsorted_in_much(engine):
    array = np.sort(RNG.random(200_000))
    values = RNG.random((300, 500))
    assert np.array_equal(pk.searchsorted(array, values), np.searchsorted(array, values))
    assert pk.searchsorted(array, 0.5) == np.searchsorted(array, 0.5)
    assert type(pk.searchsorted(array, 0.5)) is np.int64
    assert pk.searchsorted(array[:0], values).max() == 0


EDGES = [0, 5, 127, 128, 255, 300, -1, -300, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]


@pytest.mark.parametrize("name", ["auto", "engine"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64", ">i4", "float16", "float32"])
def test_searchsorted_of_a_number_of_another_type(engine, name, dtype):
    array = RNG.integers(0, 120, 5000).astype(dtype)
    if array.dtype.itemsize == 8:
        array[:7] = [2**53, 2**53 + 1, 2**53 + 1, 2**53 + 2, 2**63 - 1, 0, 5]
    array.sort()
    numbers = [*EDGES, True, 2.5, 5.0, 2.1, np.inf, np.nan, np.int64(5), np.float32(0.1), np.uint64(2**53)]
    with pk.engine("auto" if name == "auto" else engine):
        for number in numbers:
            for side in ("left", "right"):
                got, want = (kit.searchsorted(array, number, side) for kit in (pk, np))
                assert type(got) is type(want)
                assert got == want, (number, side)
                several = np.full((2, 3), number)
                assert np.array_equal(pk.searchsorted(array, several, side), np.full((2, 3), want))
        order = RNG.permutation(array.size)
        assert pk.searchsorted(array[order], 1, sorter=np.argsort(order)) == np.searchsorted(array, 1)


@pytest.mark.parametrize("name", ["auto", "engine"])
def test_searchsorted_of_a_number_converts_no_array(engine, name):
    array = np.zeros(4_000_000, np.uint8)
    with pk.engine("auto" if name == "auto" else engine):
        pk.searchsorted(array, 7)  # may fill caches
        tracemalloc.start()
        try:
            for number in (7, np.int64(7), 7.0, np.int32([7, 8])):
                assert np.all(pk.searchsorted(array, number) == array.size)
            assert tracemalloc.get_traced_memory()[1] < array.nbytes / 4
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_floats_sought_among_integers_warn_of_nothing(engine, dtype):
    sought = np.array([-0.0, 3.0, 2.5, 65504.0], np.float16)
    for asked in (engine, "auto"):
        with pk.engine(asked), warnings.catch_warnings():
            warnings.simplefilter("error")
            for count in (1, 40, 9000):
                known = np.sort(np.arange(count).astype(dtype))
                np.testing.assert_array_equal(pk.searchsorted(known, sought), np.searchsorted(known, sought))
