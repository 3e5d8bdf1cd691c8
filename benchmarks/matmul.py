"""Matrix products, transposes and similar functions against NumPy.

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys
from types import SimpleNamespace

import libraries
import numpy as np
from harness import Allowance, Harness, Times, link_seconds

import pycudakit as pk


def pair(name, *arguments, numpys=None):
    """Return pycudakit's and NumPy's function of a name, bound to these arguments."""
    theirs = numpys or getattr(np, name)
    return functools.partial(getattr(pk, name), *arguments), {"NumPy": functools.partial(theirs, *arguments)}


def on_gpu(by, *arrays):
    """Return the work by other GPU libraries that are installed, by name."""
    found, _ = libraries.installed({name: libraries.ON_GPU[name] for name in ("CuPy", "PyTorch")})
    family = SimpleNamespace(by=by)
    return {name: functools.partial(call_of(family), *arrays) for name, call_of in found.items()}


def dense_transpose(library, a):
    return library.ascontiguousarray(a.T) if hasattr(library, "ascontiguousarray") else a.T.contiguous()


def transposed(a):
    return np.ascontiguousarray(a.T)


def whole(rng, *shape):
    """Return small integers as floats, whose products are exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def normal(rng, side):
    return rng.standard_normal((side, side), np.float32)


def copies(harness, rng):
    """Run transposes, which have figures."""
    side = 1024 if harness.quick else 4096
    x = rng.random((side, side), np.float32)
    at_least = {"NumPy": 5.0} if harness.engine == "cpu" else None
    harness.compare("transpose float32", x.size, *pair("transpose", x, numpys=transposed), at_least=at_least)
    bytes_ = x.astype(np.uint8)
    harness.compare("transpose uint8", x.size, *pair("transpose", bytes_, numpys=transposed))
    harness.compare("tril float32", x.size, *pair("tril", x))
    rows = x[0]
    harness.compare("outer float32", x.size, *pair("outer", rows, rows))
    if harness.engine != "cuda":
        return
    x = rng.random((2 * side, 2 * side), np.float32)
    floor = Allowance("the link's floor", "NumPy", factor=0.0, extra=link_seconds(x.nbytes, x.nbytes))
    ours, theirs = pair("transpose", x, numpys=transposed)
    theirs |= on_gpu(dense_transpose, x)
    at_least = {floor: 0.7} | {name: 12.0 for name in theirs if name != "NumPy"}
    harness.compare("transpose 8192 float32", x.size, ours, theirs, at_least=at_least, rounds=3)


def products(harness, rng):
    """Run products; the CPU engine's are computed by NumPy's BLAS."""
    for side in (128, 1024):
        a, b = whole(rng, side, side), whole(rng, side, side)
        harness.compare(f"matmul {side} float32", a.size, *pair("matmul", a, b))
    a, b = whole(rng, 100, 64, 64), whole(rng, 100, 64, 64)
    harness.compare("matmul 100 x 64 float32", a.size, *pair("matmul", a, b))
    for name in ("int8", "int32", "int64", "float16"):
        a, b = (whole(rng, 300, 300).astype(name) for _ in "ab")
        harness.compare(f"matmul 300 {name}", a.size, *pair("matmul", a, b))
    if harness.engine != "cuda":
        return
    for side, least in ((2048, 2.0), (8192, 6.0)):
        a, b = normal(rng, side), normal(rng, side)
        ours, numpys = pair("matmul", a, b)
        # NumPy's threads spin for a while after a product, so NumPy is left out beside another GPU library.
        theirs = on_gpu(lambda library, x, y: library.matmul(x, y), a, b) or numpys
        at_least = {name: least for name in theirs if name != "NumPy"}
        harness.compare(
            *(f"matmul {side} float32", a.size, ours, theirs),
            at_least=at_least,
            within=5e-6,
            rounds=5,
        )
    largest(harness, rng, ours)


def largest(harness, rng, of_half_the_side):
    """Run a product that exceeds the GPU memory that a call may use.

    It may take 1.25 times the longer of its transfers and its arithmetic; the latter is eight times that of
    half the side.
    """
    side, work = 16384, "matmul 16384 float32"
    if harness.quick or not harness.wanted(work):
        return
    harness.step(work)
    a, b = normal(rng, side), normal(rng, side)
    of_half_the_side()
    products = 8 * pk.last_call().stages["kernel"]
    floor = max(products, link_seconds(2 * a.nbytes, a.nbytes))
    times = harness.time(lambda: pk.matmul(a, b), {}, rounds=3)
    harness.row(work, a.size, "cuda", times["pycudakit"], "link or products", Times((floor,) * 3), 0.8)


def others(harness, rng):
    """Run functions that are built on these."""
    a, b = whole(rng, 64, 32, 48), whole(rng, 64, 48, 40)
    harness.compare("einsum bij,bjk->bik", a.size, *pair("einsum", "bij,bjk->bik", a, b))
    x, y = whole(rng, 1000, 1000), whole(rng, 1000, 1000)
    harness.compare("einsum ij,ij->", x.size, *pair("einsum", "ij,ij->", x, y))
    harness.compare("vecdot float32", x.size, *pair("vecdot", x, y))
    small = x[:40, :40]
    harness.compare("kron float32", small.size**2, *pair("kron", small, small))


def main():
    harness = Harness(__doc__.splitlines()[0], 16)
    rng = np.random.default_rng(0)
    copies(harness, rng)
    products(harness, rng)
    others(harness, rng)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
