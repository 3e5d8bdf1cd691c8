"""Medians and quantiles against NumPy. (The file's name avoids Python's own `select`.)

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys

import numpy as np
from harness import Allowance, Harness

import pycudakit as pk

M = 1_000_000


def pair(name, *arguments, **keywords):
    """Return pycudakit's and NumPy's function of a name, bound to these arguments."""
    ours, numpys = (functools.partial(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    return ours, {"NumPy": numpys}


def required(harness, rng):
    """Run the works for which the project promises figures."""
    size = harness.size(32 * M)
    x = rng.random(size, np.float32)
    least = {"NumPy": 2.0}
    harness.compare("median float32", size, *pair("median", x), at_least=least)
    harness.compare("quantile float32", size, *pair("quantile", x, 0.9), at_least=least)
    harness.compare("3 quantiles float32", size, *pair("quantile", x, [0.25, 0.5, 0.75]), at_least=least)


def others(harness, rng):
    """Run further works, which have no figures."""
    size = harness.size(16 * M)
    normal = rng.standard_normal(size)
    harness.compare("median normal float64", size, *pair("median", normal))
    holes = np.where(rng.random(size) < 0.1, np.nan, normal)
    harness.compare("nanmedian float64", size, *pair("nanmedian", holes))
    harness.compare("99 percentiles float64", size, *pair("percentile", normal, np.arange(1, 100)))
    harness.compare("median 0..99 int64", size, *pair("median", rng.integers(0, 100, size)))
    harness.compare("median uint8", size, *pair("median", rng.integers(0, 256, size, np.uint8)))
    for columns in (20, 1000, 100_000):
        x = rng.random((size // columns, columns), np.float32)
        harness.compare(f"median rows of {columns}", x.size, *pair("median", x, axis=1))
    harness.compare("median first axis", x.size, *pair("median", x.reshape(1000, -1), axis=0))
    holes = rng.random((harness.size(1_000_000) // 100, 100))
    holes[rng.random(holes.shape) < 0.1] = np.nan
    harness.compare("nanquantile rows of 100", holes.size, *pair("nanquantile", holes, 0.9, axis=1))


def small(harness, rng):
    """Run sizes at which `auto` has a choice."""
    limit = Allowance("1.1 NumPy + 10 us", "NumPy", factor=1.1, extra=10e-6)
    for size in (10, 1000, 10_000, 30_000, 100_000):
        x = rng.random(size, np.float32)
        harness.compare(
            f"median auto {size}",
            size,
            *pair("median", x),
            at_least={limit: 1.0},
            engine="auto",
            rounds=harness.rounds * 5,
        )


def main():
    harness = Harness(__doc__.splitlines()[0], 18)
    rng = np.random.default_rng(0)
    required(harness, rng)
    others(harness, rng)
    small(harness, rng)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
