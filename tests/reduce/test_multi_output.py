"""Several reductions of the same values in one pass."""

import functools
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._families.reduce.multi_output import reduce_multi_output

NAMES = ("sum", "mean", "std", "var", "min", "max", "argmin", "argmax", "prod", "any", "count_nonzero")


def functions(names, **keywords):
    return [functools.partial(getattr(pk, name), **keywords) for name in names]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "bool"])
def test_same_as_one_by_one(engine, dtype, axis):
    x = (np.random.default_rng(1).normal(size=(70, 90, 5)) * 3).astype(dtype)
    names = NAMES[:8] if dtype != "bool" else ("sum", "mean", "any", "count_nonzero")
    for array in (x, x[::2, ::-1], x.T):
        together = reduce_multi_output(functions(names, axis=axis), array)
        for name, mine, alone in zip(names, together, functions(names, axis=axis), strict=True):
            theirs = alone(array)
            assert type(mine) is type(theirs), name
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_they_are_one_call(engine):
    x = np.random.default_rng(1).normal(size=100_000).astype("f4")
    reduce_multi_output(functions(("mean", "std", "min", "max"), keepdims=True), x)
    assert pk.last_call().function == "mean, std, min, max"


def test_more_than_a_call_takes(engine):
    x = np.arange(50_000.0)
    names = ["sum", "max"] * 20
    assert reduce_multi_output(functions(names), x) == [x.sum(), x.max()] * 20


def test_of_different_axes(engine):
    x = np.arange(12_000.0).reshape(3, 4000)
    mixed = [*functions(["max"], axis=0), *functions(["sum"], axis=1)]
    largest, total = reduce_multi_output(mixed, x)
    np.testing.assert_array_equal(largest, x.max(axis=0))
    np.testing.assert_array_equal(total, x.sum(axis=1))


def test_each_function_is_called_once(engine):
    x, counts = np.arange(10_000.0), []

    def counted(function):
        return lambda operand: counts.append(function) or function(operand)

    reduce_multi_output([counted(each) for each in functions(("sum", "mean", "max"))], x)
    assert len(counts) == 3


def test_warnings_and_errors_are_their_own(engine):
    x = np.array([1.0, np.inf, -np.inf, 2.0] * 3000)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        total, spread, largest = reduce_multi_output(functions(("sum", "std", "max")), x)
    assert np.isnan(total)
    assert np.isnan(spread)
    assert largest == np.inf
    assert [str(each.message) for each in met] == [
        "invalid value encountered in reduce"
    ] * 2  # as NumPy warns
    with pytest.raises(np.exceptions.AxisError):
        reduce_multi_output(functions(("sum", "std"), axis=3), x)


def test_an_invalid_argument_is_refused_before_any_warning(engine):
    x = np.array([1.0, np.inf, -np.inf, 2.0] * 3000)
    both = [*functions(["sum"]), *functions(["std"], axis=3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.exceptions.AxisError):
            reduce_multi_output(both, x)
        with pytest.raises(RuntimeWarning, match="in reduce"):
            both[0](x)


def test_warnings_come_in_the_order_of_the_functions(engine):
    x = np.array([1.7e308, 1.7e308, -1.7e308] * 3000)
    for names, texts in [(("sum", "ptp"), ("reduce", "subtract")), (("ptp", "sum"), ("subtract", "reduce"))]:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            reduce_multi_output(functions(names), x)
        assert [str(each.message).rpartition(" ")[2] for each in met] == list(texts)
