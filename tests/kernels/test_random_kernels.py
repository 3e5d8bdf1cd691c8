"""Random kernels without races, against an interpreter that runs their threads one by one.

`PYCUDAKIT_RANDOM_KERNELS=100` compiles so many modules instead of 4.
"""

import os

import numpy as np
import pytest
from helpers.random_kernels import ITEMS, interpreted, random_kernel, source_of
from helpers.thorough_cases import thorough

from pycudakit import In, InOut, SourceModule

KERNELS = 6  # of a module
SEEDS = int(os.environ.get("PYCUDAKIT_RANDOM_KERNELS", "4"))  # modules
SHAPES = [((32, 1, 1), 3), ((7, 1, 1), 2), ((8, 8, 1), 0)]


def check(seeds, rng):
    kernels = {f"k{seed}": random_kernel(seed) for seed in seeds}
    module = SourceModule("".join(source_of(name, statements) for name, statements in kernels.items()))
    x = rng.integers(-100, 100, ITEMS).astype(np.int32)
    for name, statements in kernels.items():
        function = module.get_function(name)
        for block, n in SHAPES:
            width, blocks = block[0] * block[1], 2
            out = np.zeros(blocks * width + 1, np.int32)
            function(In(x), InOut(out), np.int32(n), np.int32(width), block=block, grid=(blocks, 1))
            expected = interpreted(statements, x, n, width, blocks)
            np.testing.assert_array_equal(out, expected, err_msg=f"{name}, blocks of {block}, n = {n}")


@pytest.mark.parametrize("fibers", ["0", "1"])
@pytest.mark.parametrize("number", [0, *thorough(*range(1, SEEDS))])
def test_random_kernels(engine, number, fibers, monkeypatch):
    if engine != "cpu" and fibers == "1":
        pytest.skip("fibers are the CPU engine's")
    monkeypatch.setenv("PYCUDAKIT_FIBERS", fibers)
    check(range(number * KERNELS, (number + 1) * KERNELS), np.random.default_rng(number))


def test_a_random_kernel_that_gcc_vectorises_wrongly(engine):
    """GCC 12 takes the elements of `x` in it by the vector of a comparison, whose true is -1."""
    check([30056], np.random.default_rng(5009))


WRONGLY_VECTORISED = """
__global__ void compared(const int *x, const int *a, int *out) {
    const int t = threadIdx.x;
    int c = a[t];
    __syncthreads();
    const unsigned index = c <= 0;
    c = x[index];
    __syncthreads();
    out[t] = c;
}
"""


def test_elements_indexed_by_a_comparison(engine):
    a = (np.arange(64) % 4 - 2).astype(np.int32)
    out = np.zeros(64, np.int32)
    compared = SourceModule(WRONGLY_VECTORISED).get_function("compared")
    compared(In(np.int32([10, 11])), In(a), InOut(out), block=(64, 1, 1))
    np.testing.assert_array_equal(out, np.where(a <= 0, 11, 10))
