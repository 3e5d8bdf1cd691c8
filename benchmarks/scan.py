"""Cumulative sums, products and maxima against NumPy.

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys

import numpy as np
from harness import ULPS, Harness

import pycudakit as pk

M = 1_000_000


def pair(name, *arguments, numpys=None):
    """Return pycudakit's and NumPy's function of a name, bound to these arguments."""
    theirs = numpys or getattr(np, name)
    return functools.partial(getattr(pk, name), *arguments), {"NumPy": functools.partial(theirs, *arguments)}


def main():
    harness = Harness(__doc__.splitlines()[0], 9)
    rng = np.random.default_rng(0)
    size = harness.size(32 * M)
    # Sums of integers in floats are exact, so NumPy's are equal.
    a = rng.integers(0, 2, size).astype(np.float32)
    at_least = {"NumPy": 4.0} if harness.engine == "cpu" else None
    a[:] = rng.integers(0, 2, size) - 0.5
    harness.compare("cumsum float32", size, *pair("cumsum", a), at_least=at_least)
    rows = a[: size // 8192 * 8192].reshape(-1, 8192)
    for axis in (0, 1):
        harness.compare(f"cumsum float32, axis {axis}", rows.size, *pair("cumsum", rows, axis))
    harness.compare("cummax float32", size, *pair("cummax", a, numpys=np.maximum.accumulate))
    d = a.astype(np.float64)
    harness.compare("cumsum float64", size, *pair("cumsum", d))
    del d
    i = rng.integers(-100, 100, size, np.int32)
    harness.compare("cumsum int32", size, *pair("cumsum", i))
    near_one = (1 + rng.standard_normal(size // 8) * 1e-7).astype(np.float64)
    harness.compare("cumprod float64", near_one.size, *pair("cumprod", near_one), ulps=1 << 20)
    harness.compare("diff float32", size, *pair("diff", a), ulps=ULPS)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
