"""The keyword `initial`: NumPy's result or error, also for numbers that the result's type cannot hold."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

NAN, INFINITY = float("nan"), float("inf")
CASES = [
    (name, dtype, initial)
    for name in ("sum", "prod", "max", "min")
    for dtype in ("int8", "uint8", "int64", "uint64", "bool", "float32", "float64")
    for initial in (100.0, 7.0, 2.5, -1, 300, 2**63, NAN, INFINITY, True, np.float64(2.5), np.int8(-3))
]


def outcome(kit, name, a, initial, **keywords):
    try:
        with np.errstate(all="ignore"):
            result = getattr(kit, name)(a, initial=initial, **keywords)
    except (OverflowError, ValueError) as error:
        return type(error), str(error)
    return result.dtype, np.asarray(result).tolist()


@pytest.mark.parametrize(("name", "dtype", "initial"), CASES)
def test_numpys(engine, name, dtype, initial):
    a = np.array([[3, 4], [1, 0]], dtype)
    for axis in (None, 1):
        want = outcome(np, name, a, initial, axis=axis)
        got = outcome(pk, name, a, initial, axis=axis)
        assert repr(got) == repr(want)  # NaN among them
        with pk.engine("auto"):
            assert repr(outcome(pk, name, a, initial, axis=axis)) == repr(want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["nanmin", "nanmax"])
def test_an_initial_nan_is_skipped_too(engine, name, dtype):
    a = np.array([[3, NAN], [1, 5]], dtype)
    for axis in (None, 0, 1):
        for keywords in ({}, {"where": np.array([True, False])}):
            ours, numpys = (outcome(kit, name, a, NAN, axis=axis, **keywords) for kit in (pk, np))
            assert repr(ours) == repr(numpys)
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        assert np.isnan(getattr(pk, name)(np.full(3, NAN, dtype), initial=NAN))


@pytest.mark.parametrize("initial", [None, 2**70, -(2**70), 1j, "a"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_values_that_no_type_holds(engine, name, dtype, initial):
    """It is converted as NumPy converts it, or refused with NumPy's error."""
    a = np.array([[3, 4], [1, 0]], dtype)
    for axis in (None, 1):
        want = numpys_or_error(np, name, a, axis=axis, initial=initial)
        assert numpys_or_error(pk, name, a, axis=axis, initial=initial) == want
        with pk.engine("auto"):
            assert numpys_or_error(pk, name, a, axis=axis, initial=initial) == want


def numpys_or_error(kit, name, a, **keywords):
    try:
        result = getattr(kit, name)(a, **keywords)
    except (OverflowError, TypeError, ValueError) as error:
        return type(error), str(error)
    return result.dtype, np.asarray(result).tolist()


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize(("dtype", "initial"), [("float16", 1e6), ("float32", 1e300), ("float32", -1e300)])
def test_one_that_overflows(engine, name, dtype, initial):
    """It becomes infinite, as in NumPy, with NumPy's warning."""
    a = np.array([3, 4], dtype)
    with pytest.warns(RuntimeWarning) as numpys:
        want = getattr(np, name)(a, initial=initial)
    with pytest.warns(RuntimeWarning) as ours:
        got = getattr(pk, name)(a, initial=initial)
    assert (got, got.dtype) == (want, want.dtype)
    assert [str(each.message) for each in ours] == [str(each.message) for each in numpys]


def test_one_is_rounded_to_the_results_type(engine):
    a = np.zeros(3, np.float32)
    assert pk.sum(a, initial=0.1, dtype=np.float64) == 0.1
    assert pk.max(a, initial=0.1) == pk.sum(a, initial=0.1) == np.float32(0.1)


def test_no_initial(engine):
    for name in ("sum", "prod"):
        with pytest.raises(ValueError, match="which has no identity"):
            getattr(pk, name)(np.empty(0), initial=None)
    with pytest.raises(errors.Unsupported, match="initial=None together with where"):
        pk.sum([1.0, 2.0], initial=None, where=[True, False])
    with pytest.raises(errors.Unsupported, match="an initial value of type list"):
        pk.sum([1.0, 2.0], initial=[1.0])


def test_refused_calls_write_nothing(engine):
    out = np.array(7, np.int8)
    with pytest.raises(OverflowError, match="300 out of bounds for int8"):
        pk.max(np.int8([3]), initial=300, out=out)
    assert out == 7


def test_integers_beyond_64_bits():
    assert pk.sum(2**70) == 2**70
    assert pk.sum([2**70, 1]) == 2**70 + 1
    for name in ("cpu", "cuda"):
        if pk.engines()[name]:
            with pk.engine(name), pytest.raises(errors.Unsupported, match=f"sum: not on the {name} engine"):
                pk.sum(2**70)


def test_means_of_floats_into_integers(engine):
    out = np.array(7)
    for name in ("nanmean", "nanvar", "nanstd"):
        for kit in (np, pk):
            with pytest.raises(TypeError, match="If a is inexact, then out must be inexact"):
                getattr(kit, name)(np.array([1.5, 2.0]), out=out)
    assert out == 7


@pytest.mark.parametrize("name", ["min", "max", "nanmin", "nanmax"])
@pytest.mark.parametrize("to", ["float64", ">f8", "int64", "int8"])
def test_an_initial_is_of_the_outs_type(engine, name, to):
    array = np.array([[3, 200, 7], [250, 5, 90]], np.uint8)
    for initial in (100, 2.5, 251.5) if "f" in to else (100, 4):
        outs = np.empty(2, to), np.empty(2, to)
        for kit, out in zip((pk, np), outs, strict=True):
            assert getattr(kit, name)(array, axis=1, out=out, initial=initial) is out
        np.testing.assert_array_equal(*outs)
