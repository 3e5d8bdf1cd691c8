"""Bin estimators on device arrays: the bounds of NumPy's rounded statistics, and the bins that follow."""

import contextlib
import sys
import warnings

import numpy as np
import pytest
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit.fusing.device_impls import bin_estimators
from pycudakit.fusing.trace.current_trace import current_trace

RNG = np.random.default_rng(7)
NORMAL = RNG.standard_normal(70_001)
ARRAYS = {
    "normal": NORMAL,
    "exponential": RNG.exponential(3.0, 50_000),
    "float32": NORMAL.astype(np.float32) * 3,
    "float32, skew": RNG.exponential(3.0, 70_000).astype(np.float32),
    "long float32": RNG.random(1_000_003).astype(np.float32) ** 3,
    "in rows": NORMAL[:70_000].reshape(7, -1, 100)[:, ::2],
    "far from zero": NORMAL + 1e7,
    "float32 far from zero": (NORMAL * 3 + 300).astype(np.float32),
    "large": NORMAL * 1e60,
    "small": NORMAL * 1e-90,
    "float32, small": (NORMAL * 1e-12).astype(np.float32),
    "int8": RNG.integers(-100, 100, 60_000).astype(np.int8),
    "uint8": RNG.binomial(250, 0.1, 60_000).astype(np.uint8),
    "int32 of few values": RNG.integers(0, 4, 70_000).astype(np.int32),
    "int64": RNG.integers(-(2**40), 2**40, 30_000),
    "uint64": RNG.integers(2**63, 2**64, 30_000, np.uint64),
    "int64 far from zero": RNG.integers(0, 90_000, 50_000) + 2**40,
    "few": NORMAL[:40],
}
# For these, other rounding may give other bins: the arrays are downloaded.
OPEN = {
    "float16": NORMAL.astype(np.float16),
    "constant": np.full(30_000, 0.5),
    "without a width": np.full(30_000, 1e9, np.float32),
    "too far from zero": NORMAL.astype(np.float32) + np.float32(1e7),
    "too large": NORMAL * 1e160,
    "too small": NORMAL * 1e-170,
    "float32, too large": (NORMAL * 1e19).astype(np.float32),
}
RULES = ["doane", "scott"]


def both(call, up, down, x):
    """Return the results of NumPy and of pycudakit on the device; either both raise or neither."""
    want = got = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(IndexError, OverflowError, ValueError):
            want = call(np, x)
        if want is None:
            with pytest.raises((IndexError, OverflowError, ValueError)):
                call(pk, up(x))
            return
        got = call(pk, up(x))
    for one, other in zip(got, want, strict=True):
        assert_array_equal(down(one), other, strict=True)


def check(x, rule, up, down):
    both(lambda kit, a: kit.histogram(a, rule), up, down, x)


def cupys():
    cupy = sys.modules["cupy"]
    return cupy.asarray, cupy.asnumpy


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ARRAYS)
def test_rules_on_the_fake_gpu(gpu, name, rule):
    check(ARRAYS[name], rule, *cupys())
    assert gpu.bytes_down <= 16_384  # edges and counts
    low, high = np.percentile(ARRAYS[name], [10, 80]).tolist()
    both(lambda kit, a: kit.histogram(a, rule, (low, high), True), *cupys(), ARRAYS[name])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", OPEN)
def test_rules_that_rounding_decides_on_the_fake_gpu(gpu, name, rule):
    check(OPEN[name], rule, *cupys())
    assert gpu.bytes_down >= OPEN[name].nbytes


@on_a_gpu
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [*ARRAYS, *OPEN])
def test_rules_on_device(library, name, rule):
    x = {**ARRAYS, **OPEN}[name]
    if library.module.__name__ == "torch" and x.dtype == np.uint64:
        pytest.skip("PyTorch does not compute with these")
    if library.module.__name__ == "numba.cuda" and not x.flags.c_contiguous:
        pytest.skip("Numba does not bring these home")
    check(x, rule, library.up, library.down)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.usefixtures("gpu")
def test_limits(name):
    """NumPy's statistics are within the bounds, and the bounds are close."""
    x, found = ARRAYS[name].ravel(), []

    def body(a):
        bounds = bin_estimators._MomentBounds(current_trace(), a)
        found.extend((bounds.deviation(), bounds.skewness()))
        return a.copy()

    pk.fuse(body)(cupys()[0](x))
    (least, most), (lowest, highest) = found
    deviation = np.std(x)
    assert type(least) is type(most) is type(deviation)
    assert least <= deviation <= most
    assert most - least <= (0.02 if x.dtype == np.float32 else 1e-6) * deviation
    skewness = abs(np.mean(((x - np.mean(x)) / deviation) ** 3))
    assert lowest <= skewness <= highest
    assert highest - lowest <= (0.1 if x.dtype == np.float32 else 1e-5) * (skewness + 1)


def test_bins_where_limits_differ(gpu, monkeypatch):
    """NumPy computes the bins from a copy on the host."""
    x = ARRAYS["normal"]
    monkeypatch.setattr(
        bin_estimators._MomentBounds, "deviation", lambda _: [np.float64(0.5), np.float64(1.5)]
    )
    check(x, "scott", *cupys())
    assert gpu.bytes_down >= x.nbytes


STONES = {
    "normal": NORMAL[:3000],
    "float32": NORMAL[:2000].astype(np.float32),
    "uint8": RNG.integers(0, 200, 2000).astype(np.uint8),
    "constant": np.full(20_000, 7),
    "of two values": np.repeat([1.0, 2.0], 500),
}


@pytest.mark.parametrize("limits", [None, (-1, 1.5)])
@pytest.mark.parametrize("name", STONES)
def test_stone_on_the_fake_gpu(gpu, name, limits):
    both(lambda kit, a: kit.histogram(a, "stone", limits), *cupys(), STONES[name])
    assert gpu.bytes_down <= 200_000  # counts, one for each bin


@on_a_gpu
@pytest.mark.parametrize("name", STONES)
def test_stone_on_device(library, name):
    check(STONES[name], "stone", library.up, library.down)


@pytest.mark.parametrize("rule", [*RULES, "stone", "auto"])
def test_edges_by_rules(gpu, rule):
    x = ARRAYS["exponential"][:9000]
    got = pk.fuse(lambda a: np.histogram_bin_edges(a * 2, rule))(cupys()[0](x))
    assert_array_equal(cupys()[1](got), np.histogram_bin_edges(x * 2, rule))
    assert gpu.bytes_down <= 200_000


def test_bools_are_converted(gpu):
    there = cupys()[0](NORMAL > 1)
    with pytest.warns(RuntimeWarning, match="Converting input from bool to") as told:
        pk.histogram(there, "scott")
    assert len(told) == 1


@pytest.mark.parametrize("rule", [*RULES, "stone"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(gpu, rule, value):
    x = np.where(NORMAL > 2, value, NORMAL)
    with pytest.raises(ValueError, match="autodetected range of") as wanted:
        np.histogram(x, rule)
    with pytest.raises(ValueError, match="autodetected range of") as told:
        pk.histogram(cupys()[0](x), rule)
    assert str(told.value) == str(wanted.value)
    assert gpu.bytes_down <= 64
