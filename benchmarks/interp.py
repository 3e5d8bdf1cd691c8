"""`interp` against NumPy's."""

import functools
import sys

import numpy as np
from harness import Harness

import pycudakit as pk

M = 1_000_000


def main():
    harness = Harness(__doc__.splitlines()[0], 3)
    rng = np.random.default_rng(0)
    size = harness.size(16 * M)
    x = rng.random(size)
    for points in (100, 10_000):
        xp, fp = np.sort(rng.random(points)), rng.standard_normal(points)
        calls = [functools.partial(kit.interp, x, xp, fp) for kit in (pk, np)]
        harness.compare(f"interp, {points} points", size, calls[0], {"NumPy": calls[1]})
    x.sort()
    calls = [functools.partial(kit.interp, x, xp, fp) for kit in (pk, np)]
    harness.compare("interp, sorted", size, calls[0], {"NumPy": calls[1]})
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
