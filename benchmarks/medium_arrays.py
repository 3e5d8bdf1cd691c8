"""Calls of medium size, with NumPy arrays in and out, against CuPy, PyTorch and the engine `cpu`.

Each should be faster than the best of them, and a user kernel should take 17 ms at most.
"""

import functools
import sys

import numpy as np
from harness import Allowance, Harness
from kernels import ADD, M, blocks_of
from matmul import on_gpu
from peer_families import FAMILIES

import pycudakit as pk
from pycudakit import In, Out, SourceModule

APART = 1e-4  # relative to the norm: other libraries sum in float32


def on_cpu(call):
    def run():
        with pk.engine("cpu"):
            return call()

    return run


def compare(harness, work, by, ours, *arrays, **spellings):
    """Time a function; `spellings` are other libraries' versions, None to leave one out."""
    ours = functools.partial(ours, *arrays)
    others = {"NumPy": functools.partial(by, np, *arrays)}
    if harness.engine != "cpu":
        others["cpu"] = on_cpu(ours)
    for name in ("CuPy", "PyTorch"):
        spelling = spellings.get(name, by)
        if spelling is not None:
            found = on_gpu(spelling, *arrays)
            others |= {name: found[name]} if name in found else {}
    at_least = {name: 1.0 for name in others if name != "NumPy"}
    harness.compare(work, arrays[0].size, ours, others, at_least=at_least, within=APART)


def kernel(harness, n):
    """Time a kernel of two input arrays and one output."""
    a, b = np.random.default_rng(0).random((2, n), np.float32)
    c = np.empty_like(a)
    add, shape, count = SourceModule(ADD).get_function("add"), blocks_of(n), np.int32(n)

    def ours():
        add(In(a), In(b), Out(c), count, **shape)
        return c

    at_least = {Allowance("17 ms", "NumPy", factor=0.0, extra=17e-3): 1.0}
    harness.compare("In, In, Out", n, ours, {"NumPy": lambda: a + b}, at_least=at_least)


def main():
    harness = Harness(__doc__.splitlines()[0], 6)
    if pk.engines()["cuda"]:
        pk.link_speed()  # wakes the GPU, as the other libraries' calls do
    rng = np.random.default_rng(0)
    for name in ("sum", "cumsum", "sort"):
        family = FAMILIES[name]
        array = family.fresh(rng, harness.size(M))
        compare(harness, f"{name} of 1M", family.by, family.ours, array, **family.others)
    a, b = rng.standard_normal((2, 512, 512), np.float32)
    compare(harness, "matmul of 512", lambda kit, x, y: kit.matmul(x, y), pk.matmul, a, b)
    array = rng.random(harness.size(64 * M), np.float32)
    # PyTorch's median is the lower of the two middle elements.
    compare(harness, "median of 64M", lambda kit, x: kit.median(x), pk.median, array, PyTorch=None)
    if harness.engine == "cuda" and harness.wanted("In, In, Out"):
        kernel(harness, harness.size(64 * M))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
