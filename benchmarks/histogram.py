"""The counting functions against NumPy.

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys

import numpy as np
from harness import Harness

import pycudakit as pk

M = 1_000_000


def pair(name, *arrays, **keywords):
    """Return pycudakit's and NumPy's function of a name, bound to these arrays."""

    def of(kit):
        function = functools.partial(getattr(kit, name), *arrays, **keywords)
        # Compare the counts alone: the edges are computed by NumPy anyway.
        return (lambda: function()[0]) if name.startswith("histogram") else function

    return of(pk), {"NumPy": of(np)}


def main():
    harness = Harness(__doc__.splitlines()[0], 12)
    rng = np.random.default_rng(0)
    size = harness.size((64 if harness.engine == "cuda" else 32) * M)
    figures = harness.engine == "cpu"

    def compare(work, name, *arrays, at_least=None, **keywords):
        required = {"NumPy": at_least} if at_least and figures else None
        harness.compare(work, arrays[0].size, *pair(name, *arrays, **keywords), at_least=required)

    bytes_ = rng.integers(0, 256, size, np.uint8)
    compare("bincount uint8", "bincount", bytes_, at_least=8.0)
    x = rng.random(size, np.float32)
    compare("histogram, 100 bins", "histogram", x, 100, at_least=6.0)
    compare("histogram, a range", "histogram", x, 100, (0, 1), at_least=6.0)

    edges = np.linspace(0, 1, 101) ** 2
    some = x[: size // 4]
    compare("histogram, 100 edges", "histogram", some, edges)
    compare("digitize, 101 edges", "digitize", some, edges)
    compare("histogram float64", "histogram", some.astype(np.float64), 100, (0, 1))
    compare("histogram, weights", "histogram", some, 100, (0, 1), weights=some.astype(np.float64))
    compare("histogram2d, 50 x 50", "histogram2d", some[::4], some[1::4], 50)
    few = rng.integers(0, 1000, size // 4)
    compare("bincount int64", "bincount", few)
    compare("bincount, many bins", "bincount", rng.integers(0, 2 * M, size // 4))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
