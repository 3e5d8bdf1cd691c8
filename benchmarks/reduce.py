"""Reductions against NumPy.

Each row that has a required figure ends with ok or SHORT. Sums and means may differ from NumPy's by more than
the last place, since NumPy's are less exact; tests/reduce/test_accuracy.py checks both errors.
"""

import functools
import sys

import numpy as np
from harness import Allowance, Harness

import pycudakit as pk

M = 1_000_000
APART = 1 << 16  # units in the last place, between a sum in float64 and NumPy's in float32


def pair(name, *arguments, **keywords):
    """Return pycudakit's and NumPy's function of a name, bound to these arguments."""
    ours, numpys = (functools.partial(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    return ours, {"NumPy": numpys}


def mean_and_variance(kit, x):
    return kit.mean(x), kit.var(x)


def sum_of_products(x, y):
    return (x * y).sum()


def required(harness, rng):
    """Run the works for which the project promises figures."""
    size = harness.size(32 * M)
    x = rng.random(size, np.float32)
    least = {"NumPy": 1.0}
    for name in ("sum", "max", "argmax"):
        harness.compare(f"{name} float32", size, *pair(name, x), at_least=least, ulps=APART)
    rows = max(1, size // (32 * M // 4096))
    grid = rng.random((rows, 8192), np.float32)
    for axis in (0, 1):
        work = f"sum axis {axis} of {rows}x8192"
        harness.compare(work, grid.size, *pair("sum", grid, axis=axis), at_least=least, ulps=APART)
    harness.compare(
        "mean + var float32",
        size,
        functools.partial(mean_and_variance, pk, x),
        {"NumPy": functools.partial(mean_and_variance, np, x)},
        at_least={"NumPy": 3.0},
        ulps=APART,
    )
    y = rng.random(size, np.float32)
    harness.compare(
        'evaluate "sum(a*b)"',
        size,
        functools.partial(pk.evaluate, "sum(a*b)", {"a": x, "b": y}),
        {"NumPy": functools.partial(sum_of_products, x, y)},
        at_least={"NumPy": 3.0},
        ulps=APART,
    )
    ten = rng.random(10, np.float32)
    harness.compare(
        "sum of ten",
        10,
        *pair("sum", ten),
        at_least={Allowance("NumPy + 8 us", "NumPy", extra=8e-6): 1.0},
        ulps=APART,
        engine="auto",
        rounds=harness.rounds * 5,
    )


def others(harness, rng):
    """Run further works, which have no figures."""
    size = harness.size(16 * M)
    x, y = rng.standard_normal(size), rng.standard_normal(size)
    for name in ("sum", "prod", "min", "var", "any", "ptp"):
        harness.compare(f"{name} float64", size, *pair(name, x), ulps=APART)
    harness.compare("dot float64", size, *pair("dot", x, y), ulps=1 << 40)
    norm = (functools.partial(kit.linalg.norm, x) for kit in (pk, np))
    harness.compare("norm float64", size, next(norm), {"NumPy": next(norm)}, ulps=APART)
    holes = np.where(rng.random(size) < 0.1, np.nan, x)
    for name in ("nansum", "nanmean", "nanmax"):
        harness.compare(f"{name} float64", size, *pair(name, holes), ulps=1 << 40)
    integers = rng.integers(-1000, 1000, size, np.int32)
    for name in ("sum", "max", "argmin", "count_nonzero", "mean"):
        harness.compare(f"{name} int32", size, *pair(name, integers), ulps=APART)
    harness.compare("sum float16", size, *pair("sum", (x[:size] * 1e-3).astype(np.float16)), ulps=APART)
    for columns in (3, 10, 100, 1000):
        grid = rng.random((size // columns, columns), np.float32)
        for axis in (0, 1):
            work = f"sum axis {axis} of {columns} columns"
            harness.compare(work, grid.size, *pair("sum", grid, axis=axis), ulps=1 << 20)
    cube = rng.random((size // (256 * 64), 256, 64), np.float32)
    harness.compare("sum middle axis", cube.size, *pair("sum", cube, axis=1), ulps=APART)
    harness.compare("sum transposed", cube.size, *pair("sum", cube.T), ulps=APART)
    harness.compare("sum every other", size // 2, *pair("sum", x[::2]), ulps=APART)


def small(harness, rng):
    """Run sizes at which the call's overhead dominates; engines compute them all the same, for the bits."""
    for size in (1, 100, 1000, 10_000, 100_000):
        x = rng.random(size, np.float32)
        for name in ("sum", "max", "var"):
            harness.compare(
                f"{name} auto {size}",
                size,
                *pair(name, x),
                ulps=APART,
                engine="auto",
                rounds=harness.rounds * 5,
            )
    x = rng.random((30, 30), np.float32)
    harness.compare("sum axis 0 of 30x30", x.size, *pair("sum", x, axis=0), ulps=APART, engine="auto")


def main():
    harness = Harness(__doc__.splitlines()[0], 45)
    rng = np.random.default_rng(0)
    required(harness, rng)
    others(harness, rng)
    small(harness, rng)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
