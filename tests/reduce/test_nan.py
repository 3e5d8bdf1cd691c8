"""Reductions that ignore NaN, against NumPy and exact arithmetic."""

import functools
import warnings

import helpers.strategies as gen
import numpy as np
import pytest
from helpers.exact_sums import both
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

SUMS = ["nansum", "nanprod"]
MEANS = ["nanmean", "nanvar", "nanstd"]
EXTREMES = ["nanmin", "nanmax"]
PLACES = ["nanargmin", "nanargmax"]
NANS = [*SUMS, *MEANS, *EXTREMES, *PLACES]

axes = st.sampled_from([None, 0, -1, 1, (0,), (0, 1), (-1, 0), (0, 2), (0, 0), 7])


def sprinkle(array, seed, share=0.3):
    """Put NaN among floats, and fill one row with it for odd seeds."""
    if array.dtype.kind != "f" or not array.flags.writeable or not array.size:
        return array
    rng = np.random.default_rng(seed)
    array[rng.random(array.shape) < share] = np.nan
    if array.ndim > 1 and seed % 2:
        array[seed % len(array)] = np.nan
    return array


@given(data=st.data())
@pytest.mark.parametrize("name", NANS)
def test_anything(engine, name, data):
    kinds = st.sampled_from(["ordinary", "small"]) if name in MEANS else gen.kinds
    array = sprinkle(data.draw(gen.arrays(kind=kinds)), data.draw(gen.seeds))
    keywords = {"axis": data.draw(axes)}
    if name in PLACES and isinstance(keywords["axis"], tuple):
        keywords["axis"] = keywords["axis"][0]
    if data.draw(st.booleans()):
        keywords["keepdims"] = data.draw(st.booleans())
    if name not in PLACES and data.draw(st.booleans()):
        keywords["where"] = data.draw(gen.arrays(dtype=st.just("bool"), shape=st.just(array.shape)))
        if name in EXTREMES + SUMS:
            keywords["initial"] = array.dtype.type(1)
    if name in ("nanvar", "nanstd"):
        keywords["ddof"] = data.draw(st.sampled_from([0, 1, 2]))
    both(name, array, warnings=False, **keywords)


@pytest.mark.parametrize("dtype", gen.DTYPES)
@pytest.mark.parametrize("name", NANS)
def test_every_type_and_axis(engine, name, dtype):
    for seed in (2, 3):
        array = sprinkle(gen.build(dtype, (3, 5, 20), "ordinary", 3), seed)
        for axis in (None, 0, 1, -1, (0, 1), (2, 0)):
            if name in PLACES and isinstance(axis, tuple):
                continue
            both(name, array.astype(array.dtype.newbyteorder()) if axis == 0 else array, axis=axis)
            both(name, array, axis=axis, keepdims=True)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize("name", NANS)
def test_block_edges(engine, name, size):
    for dtype in ("float64", "float32"):
        array = sprinkle(gen.build(dtype, (size, 2), "small", 1), 2)
        array[-1] = 11
        array[:, 1] = np.where(np.arange(size) < size - 1, np.nan, 3)
        both(name, array, axis=0, warnings=False)
        both(name, np.ascontiguousarray(array.T), axis=1, warnings=False)
        both(name, array, warnings=False)


@pytest.mark.parametrize("name", NANS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (1, 1)])
def test_small_shapes(engine, name, shape):
    for value in (1.0, np.nan, 3):
        for axis in (None, 0, -1, 1):
            both(name, np.full(shape, value), axis=axis)
            both(name, np.full(shape, value), axis=axis, keepdims=True)


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_degrees_of_freedom(engine, name):
    array = sprinkle(gen.build("float64", (5, 9), "ordinary", 1), 3)
    for ddof in (0, 1, 3, 8, 9, 0.5):
        for axis in (None, 0, 1):
            both(name, array, axis=axis, ddof=ddof)
    with pytest.raises(ValueError, match="ddof and correction can't be provided simultaneously"):
        getattr(pk, name)(array, ddof=1, correction=1)
    mean = np.nanmean(array, axis=0, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, numpys = (getattr(kit, name)(array, axis=0, mean=mean, correction=1) for kit in (pk, np))
    np.testing.assert_allclose(ours, numpys, 1e-12)


@pytest.mark.parametrize("name", [*SUMS, *MEANS, *EXTREMES])
def test_out_and_dtype(engine, name):
    array = sprinkle(gen.build("float32", (5, 6), "small", 1), 2)
    array[0] = 2
    for dtype in ("float64", "float32"):
        outs = np.full(6, 9, dtype), np.full(6, 9, dtype)
        for kit, out in zip((pk, np), outs, strict=True):
            assert getattr(kit, name)(array, axis=0, out=out) is out
        np.testing.assert_allclose(*outs, 1e-5)
        if name not in EXTREMES:
            ours, numpys = (getattr(kit, name)(array, axis=0, dtype=dtype) for kit in (pk, np))
            assert ours.dtype == numpys.dtype
            np.testing.assert_allclose(ours, numpys, 1e-5)
    wrong = np.full((2, 2), 9.0)
    for kit in (pk, np):
        with pytest.raises(ValueError, match=r"output|operand"):
            getattr(kit, name)(array, axis=0, out=wrong)
    assert (wrong == 9).all()


def test_warnings(engine):
    nothing = np.full((2, 3), np.nan)
    for name, words in (
        ("nanmin", "All-NaN slice encountered"),
        ("nanmax", "All-NaN slice encountered"),
        ("nanmean", "Mean of empty slice"),
        ("nanvar", "Degrees of freedom <= 0 for slice."),
        ("nanstd", "Degrees of freedom <= 0 for slice."),
    ):
        with pytest.warns(RuntimeWarning, match=words) as caught:
            assert np.isnan(getattr(pk, name)(nothing, axis=0)).all()
        assert len(caught) == 1
        assert caught[0].filename == __file__
    for name in PLACES:
        with pytest.raises(ValueError, match="All-NaN slice encountered"):
            getattr(pk, name)(nothing, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (pk.nansum(nothing, axis=0) == 0).all()
        assert (pk.nanprod(nothing, axis=0) == 1).all()
        assert pk.nanmin([np.inf, np.nan]) == np.inf
        assert pk.nanargmin([np.inf, np.nan]) == 0
        with pytest.raises(RuntimeWarning, match="All-NaN"):
            pk.nanmax([np.nan])


def test_infinities(engine):
    for values in ([np.inf, np.nan, 1], [-np.inf, np.inf, np.nan], [np.nan, -np.inf], [np.nan, -0.0]):
        for name in NANS:
            both(name, np.array(values), warnings=name not in MEANS)


@pytest.mark.parametrize("layout", ["F", "step", "reversed", "broadcast", "transposed", "misaligned"])
def test_layouts(engine, layout):
    array = gen.lay_out(sprinkle(gen.build("float64", (4, 5, 33), "ordinary", 1), 2), layout)
    before = array.copy()
    for name in NANS:
        for axis in (None, 0, 1, 2):
            call = functools.partial(both, name, array, axis=axis)
            call()
    assert np.array_equal(array, before, equal_nan=True)


def test_calls_that_only_numpy_supports():
    assert pk.nansum(np.array([1j, np.nan])) == 1j
    assert pk.last_call().engine == "numpy"
