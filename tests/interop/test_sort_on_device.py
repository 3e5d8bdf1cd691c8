"""Sorts, shuffles and weighted counts that are computed on the device, without transferring the arrays."""

import numpy as np
import pytest
from helpers.device_arrays import numbers, on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk


@on_a_gpu
def test_shuffle_on_device(library):
    x = numbers(300, 90)
    for axis in (0, 1):
        on_device, on_host = library.up(x), x.copy()
        pk.random.default_rng(3).shuffle(on_device, axis)
        assert pk.last_call().bytes_up + pk.last_call().bytes_down < 20_000
        pk.random.default_rng(3).shuffle(on_host, axis)
        assert_array_equal(library.down(on_device), on_host)


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (1000,), (37, 27), (70_001,), (3, 5, 64), (1 << 20,)])
def test_sort_on_device(library, shape, dtype):
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 0] = rng.choice([0.0, -0.0], np.count_nonzero(x == 0))  # the sort is stable
        x.reshape(-1)[::7], x.reshape(-1)[3::14] = np.nan, -np.nan
    a = library.up(x)
    for axis in (-1, None):
        got = library.down(pk.sort(a, axis))
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
        exact = x.astype(np.float32) if dtype == "float16" else x  # NumPy 2.4 sorts float16 wrongly
        want = np.sort(exact, axis, kind="stable").astype(dtype)
        assert_array_equal(got, want, strict=True)
        if x.dtype.kind == "f":
            known = ~np.isnan(want)
            assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])
        order = library.down(pk.argsort(a, axis))
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
        assert_array_equal(order, np.argsort(exact, axis, kind="stable"), strict=True)
    assert_array_equal(library.down(a), x)
    assert_array_equal(library.down(pk.sort(a, descending=True)), pk.sort(x, descending=True))


@on_a_gpu
@pytest.mark.parametrize(
    "parts", [(1, 0, 0), (0, 0, 1), (5000, 3, 0), (3, 5000, 4), (0, 70_000, 0), (1, 0, 1)]
)
def test_nan_of_either_sign_comes_last(library, parts):
    negative, numbers, positive = parts
    rng = np.random.default_rng(2)
    x = np.concatenate([np.full(negative, -np.nan), rng.standard_normal(numbers), np.full(positive, np.nan)])
    x = rng.permutation(x.astype(np.float32))
    got = library.down(pk.sort(library.up(x)))
    assert_array_equal(got[:numbers], np.sort(x[~np.isnan(x)]), strict=True)
    assert (got[numbers:].view(np.uint32) == 0x7FC00000).all()


@on_a_gpu
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sort_along_an_axis(library, axis):
    x = np.random.default_rng(1).standard_normal((90, 70, 20)).astype(np.float32)
    a = library.up(x)
    assert_array_equal(library.down(pk.sort(a, axis)), np.sort(x, axis))
    assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
    assert_array_equal(library.down(pk.argsort(a, axis)), np.argsort(x, axis, kind="stable"))


@on_a_gpu
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("bins", [1, 1000, 100_000])
@pytest.mark.parametrize("share", [0, 0.9])
def test_weighted_counts_on_device(library, bins, share, dtype):
    """The order of addition is that of the CPU engine, whether bins are balanced or one has nearly all."""
    rng = np.random.default_rng(bins)
    x = rng.random(1_000_003)
    x[rng.random(x.size) < share] = 0.5
    weights = (rng.standard_normal(x.size) * 10.0 ** rng.integers(-2, 4, x.size)).astype(dtype)
    indices = (x * bins).astype(np.int32)
    a, w, p = library.up(x), library.up(weights), library.up(indices)
    with pk.engine("cpu"):
        wanted = pk.histogram(x, bins, (0, 1), weights=weights)[0], pk.bincount(indices, weights)
    for want, call in zip(
        wanted, (lambda: pk.histogram(a, bins, (0, 1), weights=w)[0], lambda: pk.bincount(p, w)), strict=True
    ):
        assert_array_equal(library.down(call()), want, strict=True)
        assert pk.last_call().bytes_up + pk.last_call().bytes_down < 20_000 + 40 * bins
