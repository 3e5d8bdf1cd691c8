"""`unique` of all elements, against NumPy."""

import numpy as np
import pytest
from helpers.sorting import LONG, mixed
from helpers.strategies import FLOATS, arrays, assert_same_outcome, assert_values, describe, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk


@given(data=st.data(), array=arrays())
def test_unique(engine, data, array):
    flags = {f"return_{name}": data.draw(st.booleans(), name) for name in ("index", "inverse", "counts")}
    flags["equal_nan"] = data.draw(st.booleans(), "equal_nan")
    if flags["return_inverse"] and not flags["equal_nan"]:
        flags["return_index"] = True  # else NumPy leaves distinct NaN in no defined order
    with pk.engine(engine):
        ours, numpys = outcome(pk.unique, array, **flags), outcome(np.unique, array, **flags)
    assert_same_outcome(ours, numpys, free_zero=True, strides=False, context=describe(array, flags))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32"])
def test_unique_of_many(engine, dtype):
    array = mixed(dtype, 4 * LONG)
    wide = array.astype(np.float32) if dtype == "float16" else array
    for flags in ({}, {"return_counts": True}, {"return_index": True, "return_inverse": True}):
        got, want = pk.unique(array, **flags), np.unique(wide, **flags)
        if not flags:
            got, want = (got,), (want,)
        for mine, theirs in zip(got, want, strict=True):
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float32", "float64"])
def test_unique_of_runs(engine, dtype):
    size = 5 * LONG  # more than one thread's work
    for array in (
        np.full(size, 3),
        np.arange(size) // 1000,
        np.where(np.arange(size) < size // 2, 0, np.arange(size)),
    ):
        values = (array % 250).astype(dtype) if dtype in ("uint8", "float16") else array.astype(dtype)
        got = pk.unique(values, return_counts=True)
        want = np.unique(values, return_counts=True)
        assert_values(got[0], want[0])
        assert_values(got[1], want[1])
        assert_values(pk.unique(values), want[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [100, 9 * LONG])
def test_the_zero_of_unique_is_the_first(engine, dtype, size):
    for first, second in ((0.0, -0.0), (-0.0, 0.0), (0.0, 0.0), (-0.0, -0.0)):
        for places in ((0, 1), (5, size - 1), (size - 2, size - 1)):
            array = np.resize(np.array([1, -2, np.nan, 3, np.inf], dtype), size)
            array[list(places)] = first, second
            for got in (pk.unique(array), pk.unique(array, return_index=True)[0]):
                assert got.tolist()[:4] == [-2, 0, 1, 3]
                assert np.signbit(got[1]) == np.signbit(np.float64(first))
                assert len(got) == 6
    array = np.full(size, np.nan, dtype)
    assert len(pk.unique(array)) == 1
    assert len(pk.unique(array, equal_nan=False)) == size


def test_unique_along_an_axis():
    array = np.array([[1, 2], [1, 2], [0, 3]])
    assert np.array_equal(pk.unique(array, axis=0), np.unique(array, axis=0))
    assert pk.unique(np.array([2, 1, 2]), axis=0).tolist() == [1, 2]
    with pk.engine("cpu"):
        assert pk.unique(np.array([2, 1, 2]), axis=-1).tolist() == [1, 2]
        assert np.array_equal(pk.unique(array, axis=0), np.unique(array, axis=0))
