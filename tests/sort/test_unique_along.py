"""`unique` along an axis, against NumPy."""

import numpy as np
import pytest
from helpers.strategies import assert_same_outcome, each_with_smoke, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors


def compare(*arguments, **keywords):
    ours, numpys = (outcome(kit.unique, *arguments, **keywords) for kit in (pk, np))
    assert_same_outcome(ours, numpys, context=f"{arguments} {keywords}", free_zero=True)


@pytest.mark.parametrize(
    "dtype", each_with_smoke(["bool", "int8", "uint64", "float16", "float64", ">i4"], "int8")
)
@given(data=st.data())
def test_rows_and_columns(engine, dtype, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, shape).astype(dtype)
    wanted = [data.draw(st.booleans()) for _ in range(3)]
    for axis in range(-len(shape), len(shape)):
        compare(array, *wanted, axis=axis)


def test_nan_is_equal_to_nothing(engine):
    x = np.array([[1.0, np.nan], [1.0, np.nan], [1.0, 2.0]])
    compare(x, axis=0)
    compare(x, return_counts=True, axis=1)


def test_many_rows(engine):
    x = np.random.default_rng(0).integers(0, 9, (20_000, 4))
    compare(x, True, True, True, axis=0)
    assert (pk.last_call().function, pk.last_call().engine) == ("unique", engine)


def test_errors(engine):
    compare(np.ones((2, 3)), axis=2)
    compare(np.ones((2, 3)), axis=-3)
    with pytest.raises(
        errors.Unsupported, match=f"unique: not on the {engine} engine: it is empty along an axis"
    ):
        pk.unique(np.ones((0, 3)), axis=0)
    with pk.engine("auto"):
        assert pk.unique(np.ones((0, 3)), axis=0).shape == (0, 3)
