"""`topk` against NumPy's stable argsort."""

import numpy as np
import pytest
from helpers.sorting import LONG, draw_axis, mixed
from helpers.strategies import arrays, assert_values
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors


@given(data=st.data(), array=arrays())
def test_topk(engine, data, array):
    axis = draw_axis(data, array)
    if axis is None or array.ndim == 0:
        array, axis = array.ravel(), 0
    k = data.draw(st.integers(0, array.shape[axis]), "k")
    largest = data.draw(st.booleans(), "largest")
    with pk.engine(engine):
        values, indices = pk.topk(array, k, axis, largest)
    ranks = np.unique(array, return_inverse=True)[1].reshape(array.shape) * (-1 if largest else 1)
    if array.dtype.kind == "f":
        ranks[np.isnan(array)] = array.size
    wanted = np.take(np.argsort(ranks, axis, kind="stable"), range(k), axis)
    assert_values(indices, wanted)
    assert_values(values, np.take_along_axis(array, wanted, axis))


@pytest.mark.parametrize("k", [1, 10, 3000, LONG])
def test_topk_of_many(engine, k):
    array = mixed("float32", LONG)
    for largest in (True, False):
        for values in (array, array[:70_000].reshape(700, 100)):
            got = pk.topk(values, min(k, values.shape[-1]), largest=largest)
            keys = np.nan_to_num(-values if largest else values, posinf=np.inf, neginf=-np.inf)
            wanted = np.lexsort((keys, np.isnan(values)), axis=-1)[..., :k]
            assert np.array_equal(got.indices, wanted)
            assert_values(got.values, np.take_along_axis(values, wanted, -1))


@pytest.mark.parametrize("k", [200, 1000])
def test_topk_of_equals_takes_the_first_whichever_thread_is_the_first(engine, k):
    array = np.zeros(300_000, np.int32)
    array[:16_000] = np.arange(16_000, 0, -1)  # its thread takes longer than those of zeros
    for _ in range(20):
        assert np.array_equal(pk.topk(array, k, largest=False).indices, 16_000 + np.arange(k))


def test_topk_errors(engine):
    before = np.arange(3.0)
    for k in (-1, 4):
        with pytest.raises(ValueError, match="the length of the axis"):
            pk.topk(before, k)
    with pytest.raises(TypeError):
        pk.topk(before, 1.5)
    for wrong in (before.astype(complex), ["a"]):
        with pytest.raises(errors.Unsupported, match=r"topk: a is not of .*; convert it$"):
            pk.topk(wrong, 1)
    with pk.engine("numpy"), pytest.raises(errors.Unsupported, match="no such function"):
        pk.topk(before, 1)
    assert pk.topk([3, 1, 2], 2, largest=False).indices.tolist() == [1, 2]
