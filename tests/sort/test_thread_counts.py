"""Sorts with any number of threads, and within any GPU memory budget: each in its own process."""

import os
import subprocess
import sys
import textwrap

import pytest

import pycudakit as pk

CHECK = """
import numpy as np, pycudakit as pk
pk.set_engine("ENGINE")
rng = np.random.default_rng(1)
for dtype in ("uint8", "float16", "int32", "float32", "float64"):
    a = (rng.standard_normal(SIZE) * 1000).astype("i4").astype(dtype)
    if dtype[0] == "f":
        a[::17] = np.nan
        a[1::19] = -0.0
    equal = dict(equal_nan=dtype[0] == "f")
    order = np.argsort(a, kind="stable")
    assert np.array_equal(pk.sort(a), a[order], **equal), dtype
    zeros = a[order] == 0
    assert np.array_equal(np.signbit(pk.sort(a)[zeros]), np.signbit(a[order][zeros])), dtype
    assert np.array_equal(pk.argsort(a), order), dtype
    assert np.array_equal(pk.topk(a, 1000, largest=False).indices, order[:1000]), dtype
    got = pk.unique(a, return_index=True, return_inverse=True, return_counts=True)
    want = np.unique(a.astype("f4") if dtype == "float16" else a, True, True, True)
    assert np.array_equal(got[0], want[0], **equal), dtype
    assert all(np.array_equal(x, y) for x, y in zip(got[1:], want[1:])), dtype
    rows = a[: SIZE // 1000 * 1000].reshape(-1, 1000)
    assert np.array_equal(pk.argsort(rows), np.argsort(rows, kind="stable")), dtype
    assert np.array_equal(pk.sort(rows), np.sort(rows, kind="stable"), **equal), dtype
    v = a[:5000]
    assert np.array_equal(pk.searchsorted(a[order], v), np.searchsorted(a[order], v)), dtype
constant = np.full(SIZE, 3.0)
constant[::1000] = 5
assert np.array_equal(pk.argsort(constant), np.argsort(constant, kind="stable"))
assert np.array_equal(pk.sort(constant), np.sort(constant))
if "ENGINE" == "cuda":
    assert pk.memory_info().device_bytes <= pk.memory_info().device_budget
"""


def check(engine, size, **variables):
    code = textwrap.dedent(CHECK).replace("ENGINE", engine).replace("SIZE", str(size))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_any_number_of_threads(engine, threads):
    check(engine, 150_000, PYCUDAKIT_THREADS=threads)


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
@pytest.mark.parametrize("budget", ["2M", "3M", "16M"])
def test_larger_than_the_budget(budget):
    check("cuda", 1_500_000, PYCUDAKIT_DEVICE_MEMORY=budget, PYCUDAKIT_PINNED_MEMORY="4M")
