"""Reductions and scans of other libraries' device arrays, in place."""

import numpy as np
import pytest
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1,), (1000,), (5_000_003,), (37, 2700), (3, 5000, 64), (2100, 3), (4, 3000, 1100)]
)
def test_reductions_on_device(library, shape, dtype):
    """The bits are those of host arrays: partial results are combined in a fixed order."""
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f" and x.size > 1000:
        x.reshape(-1)[77] = np.nan if x.size > 10_000 and len(shape) == 2 else x.dtype.type(-0.0)
    a = library.up(x)
    names = ["sum", "prod", "min", "max", "mean", "argmin", "argmax", "any", "all"]
    names += ["var", "std"] if dtype != "bool" else []
    for name in names:
        for axis in (None, *range(len(shape))):
            with np.errstate(all="ignore"), pk.engine("cpu"):
                want = getattr(pk, name)(x, axis)
            got = getattr(pk, name)(a, axis)
            assert type(got).__module__.split(".")[0] == library.module.__name__.split(".")[0]
            assert_array_equal(library.down(got), want, strict=False, err_msg=f"{name} {axis}")
            assert library.down(got).dtype == np.asarray(want).dtype
    pk.sum(a)
    if x.dtype.kind == "f":
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)


SCANS = ["cumsum", "cumprod", "cummax", "cummin", "exclusive_scan", "nancumsum"]


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (1000,), (300_007,), (37, 2700), (3, 5000, 64), (2100, 3)])
def test_scans_on_device(library, shape, dtype):
    """The bits are those of the CPU engine, and nothing moves over the link."""
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    a = library.up(x)
    for name in SCANS:
        for axis in (None, *range(len(shape))):
            with np.errstate(all="ignore"), pk.engine("cpu"):
                want = getattr(pk, name)(x, axis)
            got = getattr(pk, name)(a, axis)
            assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
            assert_array_equal(library.down(got), want, strict=True, err_msg=f"{name} {axis}")


@on_a_gpu
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_long_scans_on_device(library, dtype):
    """They go in pieces; one thread computes the running total before each part."""
    x = (np.random.default_rng(2).standard_normal(20_000_123) * 50).astype(dtype)
    if dtype == "float64":
        x[11_000_000] = np.inf
    a = library.up(x)
    for name in ("cumsum", "cummax", "exclusive_scan"):
        with np.errstate(all="ignore"), pk.engine("cpu"):
            want = getattr(pk, name)(x)
        for _ in range(3):
            got = getattr(pk, name)(a)
        assert_array_equal(library.down(got), want, strict=True, err_msg=name)
    assert_array_equal(library.down(a), x)
