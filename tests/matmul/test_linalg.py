"""`norm` against NumPy and exact arithmetic."""

import helpers.strategies as gen
import numpy as np
import pytest
from helpers.exact_sums import agrees, expected
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors

VECTORS = [None, 0, 1, 2, 3, -1, -2, 0.5, np.inf, -np.inf]
MATRICES = [None, "fro", 1, -1, np.inf, -np.inf]
TOLERANCES = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}


def norms(x, *arguments, warnings=True, **keywords):
    """Compare a norm with NumPy's."""
    ours, numpys = (gen.outcome(kit.linalg.norm, x, *arguments, **keywords) for kit in (pk, np))
    context = f"norm({gen.describe(x, *arguments)}, {keywords}): {ours}, {numpys}"
    assert ours[0] == numpys[0], context
    if ours[0] == "error":
        assert type(ours[1]) is type(numpys[1]), context
        return
    got, want = ours[1], numpys[1]
    assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape), context
    rtol = TOLERANCES[want.dtype.name]
    np.testing.assert_allclose(got, want, rtol, rtol, err_msg=context)
    if warnings:
        assert ours[2] == numpys[2], context


@given(data=st.data())
def test_anything(engine, data):
    kinds = st.sampled_from(["ordinary", "small"])
    array = data.draw(gen.arrays(kind=kinds))
    order = data.draw(st.sampled_from([*VECTORS, "fro", "f"]))
    axis = data.draw(st.sampled_from([None, 0, -1, 1, (0, 1), (1, 0), (0, 0), 7]))
    is_matrix = (array.ndim == 2 and axis is None) or isinstance(axis, tuple)
    if not (is_matrix and order in (2, -2)):
        norms(array, order, axis, data.draw(st.booleans()), warnings=array.dtype != np.float16)


@pytest.mark.parametrize("dtype", gen.DTYPES)
@pytest.mark.parametrize("order", VECTORS)
def test_vectors(engine, order, dtype):
    array = gen.build(dtype, (7, 40), "ordinary", 1)
    for axis in (0, 1, -1):
        norms(array, order, axis)
        norms(array.T, order, axis, True)
    norms(array[0], order)
    norms(array[0, ::-2], order)
    norms(np.zeros(3, dtype), order, warnings=False)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("order", MATRICES)
def test_matrices(engine, order, dtype):
    array = gen.build(dtype, (4, 5, 30), "ordinary", 1)
    for axis in ((0, 1), (2, 0), (-1, 1)):
        norms(array, order, axis)
        norms(array, order, axis, True)
    norms(array[0], order)
    norms(array[0], order, keepdims=True)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 2049, 100_000])
def test_right(engine, size):
    for dtype in gen.FLOATS:
        array = gen.build(dtype, (size,), "ordinary", 1) / 8
        got, (value, slack) = pk.linalg.norm(array.astype(dtype)), expected("norm", array.astype(dtype))
        assert got.dtype == dtype
        assert agrees(got, value, slack)


def test_special_values(engine):
    inf, nan = np.inf, np.nan
    for values in ([inf, 1.0], [nan, 1.0], [inf, nan], [-inf, inf], [0.0, -0.0]):
        for order in (None, 0, 1, 2, inf, -inf):
            norms(np.array(values), order, warnings=False)
    with pytest.warns(RuntimeWarning, match="overflow encountered in dot"):
        assert pk.linalg.norm([1e200, 1e200]) == inf


def test_errors(engine):
    array = np.ones((3, 4))
    for arguments in (
        (array, "fro", 0),
        (array[0], "fro"),
        (array[0], "nuc", 0),
        (array, 3),
        (array, "x"),
        (array, 1, (0, 0)),
        (array, 1, 5),
        (array, None, (0, 1, 2)),
        (np.ones((2, 2, 2)), 2),
        (np.ones((2, 2, 2)), 1, (0, 1, 2)),
        (array, 2, 1.5),
    ):
        norms(*arguments)
    for order in (2, -2, "nuc"):
        with pytest.raises(errors.Unsupported, match="a matrix norm of order"):
            pk.linalg.norm(array, order)
        with pk.engine("auto"):
            assert pk.linalg.norm(array, order) == np.linalg.norm(array, order)


@pytest.mark.parametrize("name", ["numpy", "auto", "cpu"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "bool"])
def test_norms_of_matrices_on_every_engine(name, dtype):
    array = np.random.default_rng(0).integers(0, 9, (3, 4)).astype(dtype)
    with pk.engine(name):
        for order in (1, -1, np.inf, -np.inf):
            for axis in (None, (0, 1), (1, 0)):
                for keepdims in (False, True):
                    norms(array, order, axis, keepdims)


def test_norms_of_float16_gather_in_float64(engine):
    """NumPy's squares overflow, where the norm does not."""
    array = np.full((10, 10), 50, np.float16)
    for axis, want in ((None, 500), (0, 158.1), (1, 158.1)):
        got = pk.linalg.norm(array, axis=axis)
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, np.full(got.shape, want, np.float16))
