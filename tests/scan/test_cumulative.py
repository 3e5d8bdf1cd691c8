"""`cumulative_sum` and `cumulative_prod` of the array API, against NumPy."""

import numpy as np
import pytest
from helpers.strategies import assert_same_outcome, outcome

import pycudakit as pk

pytestmark = pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="newer than this NumPy")


def compare(name, *arguments, **keywords):
    ours, numpys = (outcome(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    assert_same_outcome(ours, numpys, 2, context=f"{name} {arguments[1:]} {keywords}")
    if ours[0] == "error":
        assert str(ours[1]) == str(numpys[1])


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float32", "float64"])
def test_values(engine, name, dtype):
    x = np.random.default_rng(0).integers(0, 3, (5, 6)).astype(dtype)
    for initial in (False, True):
        compare(name, x[0], include_initial=initial)
        compare(name, x[:, ::-1], axis=0, include_initial=initial)
        compare(name, x, axis=-1, dtype="int64", include_initial=initial)
        compare(name, x[:, :0], axis=1, include_initial=initial)
        out = np.empty((5, 6 + initial))
        assert getattr(pk, name)(x, axis=1, out=out, include_initial=initial) is out
        assert np.array_equal(out, getattr(np, name)(x, axis=1, include_initial=initial))
    assert pk.last_call().function == name


def test_out_may_be_in_a_tuple(engine):
    out = np.empty((2, 3))
    assert pk.cumulative_sum(np.ones((2, 3)), axis=0, out=(out,)) is out
    np.testing.assert_array_equal(out, [[1, 1, 1], [2, 2, 2]])


def test_errors(engine):
    compare("cumulative_sum", np.ones((2, 2)))
    compare("cumulative_sum", np.ones((2, 2)), axis=2)
    compare("cumulative_prod", 3.0)
    with pytest.raises(ValueError, match="the output array has shape"):
        pk.cumulative_sum(np.ones(3), out=np.empty(3), include_initial=True)
