"""Several reductions of the same values in one pass."""

import functools
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._families.reduce.multi_output import reduce_multi_output

NAMES = ("sum", "mean", "std", "var", "min", "max", "argmin", "argmax", "prod", "any", "count_nonzero")


def calls(x, names, **keywords):
    return [functools.partial(getattr(pk, name), x, **keywords) for name in names]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "bool"])
def test_same_as_one_by_one(engine, dtype, axis):
    x = (np.random.default_rng(1).normal(size=(70, 90, 5)) * 3).astype(dtype)
    names = NAMES[:8] if dtype != "bool" else ("sum", "mean", "any", "count_nonzero")
    for array in (x, x[::2, ::-1], x.T):
        together = reduce_multi_output(calls(array, names, axis=axis))
        for name, mine, alone in zip(names, together, calls(array, names, axis=axis), strict=True):
            theirs = alone()
            assert type(mine) is type(theirs), name
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_they_are_one_call(engine):
    x = np.random.default_rng(1).normal(size=100_000).astype("f4")
    reduce_multi_output(calls(x, ("mean", "std", "min", "max"), keepdims=True))
    assert pk.last_call().function == "mean, std, min, max"


def test_more_than_a_call_takes(engine):
    x = np.arange(50_000.0)
    names = ["sum", "max"] * 20
    assert reduce_multi_output(calls(x, names)) == [x.sum(), x.max()] * 20


def test_of_different_values(engine):
    x, y = np.arange(10_000.0), np.ones((30, 40))
    assert reduce_multi_output([*calls(x, ["max"]), *calls(y, ["sum"])]) == [9999.0, 1200.0]


def test_warnings_and_errors_are_their_own(engine):
    x = np.array([1.0, np.inf, -np.inf, 2.0] * 3000)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        total, spread, largest = reduce_multi_output(calls(x, ("sum", "std", "max")))
    assert np.isnan(total)
    assert np.isnan(spread)
    assert largest == np.inf
    assert [str(each.message) for each in met] == [
        "invalid value encountered in reduce"
    ] * 2  # as NumPy warns
    with pytest.raises(np.exceptions.AxisError):
        reduce_multi_output(calls(x, ("sum", "std"), axis=3))
    assert pk.sum(x[3:4]) == 2  # the interceptor was removed


def test_an_invalid_argument_is_refused_before_any_warning(engine):
    x = np.array([1.0, np.inf, -np.inf, 2.0] * 3000)
    both = [*calls(x, ["sum"]), *calls(x, ["std"], axis=3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.exceptions.AxisError):
            reduce_multi_output(both)
        with pytest.raises(RuntimeWarning, match="in reduce"):
            both[0]()


def test_warnings_come_in_the_order_of_the_functions(engine):
    x = np.array([1.7e308, 1.7e308, -1.7e308] * 3000)
    for names, texts in [(("sum", "ptp"), ("reduce", "subtract")), (("ptp", "sum"), ("subtract", "reduce"))]:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            reduce_multi_output(calls(x, names))
        assert [str(each.message).rpartition(" ")[2] for each in met] == list(texts)
