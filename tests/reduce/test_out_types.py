"""Means and variances into an `out` of another type: rounded once, and saturated."""

import numpy as np
import pytest

import pycudakit as pk

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2"]
NUMBERS = [0.0, 1.9, -1.9, 127.9, 128.0, 300.0, -300.0, 3e30, -3e30, 2.0**63, -(2.0**63), np.inf, np.nan]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_saturate(engine, dtype):
    values = np.array(NUMBERS)
    out = np.empty(values.size, dtype)
    with np.errstate(invalid="ignore"):
        expected = pk.astype(values, np.dtype(dtype))
        assert pk.mean(np.stack([values] * 2), axis=0, out=out) is out
        np.testing.assert_array_equal(out, expected)
        for value, right in zip(values, expected, strict=True):
            pk.mean(np.full(5, value), out=out[:1].reshape(()))
            assert out[0] == right


@pytest.mark.parametrize("dtype", INTEGERS)
def test_results_in_range_are_numpys(engine, dtype):
    values = np.random.default_rng(0).uniform(0, 20, (50, 7))
    for name in ("mean", "var"):
        ours = np.empty(7, dtype)
        getattr(pk, name)(values, axis=0, out=ours)
        np.testing.assert_array_equal(ours, getattr(np, name)(values, axis=0).astype(dtype))


def test_results_out_of_range_warn(engine):
    with pytest.warns(RuntimeWarning, match="invalid value encountered in cast"):
        pk.mean([300.0, 300.0], out=np.empty((), np.int8))


@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["mean", "nanmean", "var", "std"])
def test_float16_is_rounded_once(engine, name, wide):
    x = np.random.default_rng(0).random((9, 1000)).astype(np.float16)
    expected = getattr(np, name)(x.astype(np.float64), axis=1)
    for result in (
        getattr(pk, name)(x, axis=1, out=np.empty(9, wide)),
        getattr(pk, name)(x, axis=1, dtype=wide),
    ):
        np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(wide).eps)
