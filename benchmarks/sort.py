"""Sorting against NumPy. (peers.py compares with GPU libraries.)

A row with a required speedup ends with "ok", or with "SHORT" if the speedup is below it.
"""

import functools
import sys

import numpy as np
from harness import Harness

import pycudakit as pk

M = 1_000_000


def pair(name, *arrays, **keywords):
    """Return pycudakit's and NumPy's function of a name, bound to these arrays."""
    ours, numpys = (functools.partial(getattr(xp, name), *arrays) for xp in (pk, np))
    return ours, {"NumPy": functools.partial(numpys, **keywords)}


def main():
    harness = Harness(__doc__.splitlines()[0], 20)
    rng = np.random.default_rng(0)
    at_least = {"NumPy": 1.0}
    a = rng.random(harness.size(32 * M), np.float32)
    harness.compare("sort float32", a.size, *pair("sort", a), at_least=at_least)
    harness.compare("argsort float32", a.size, *pair("argsort", a, kind="stable"), at_least=at_least)
    harness.compare("unique float32", a.size, *pair("unique", a), at_least=at_least)
    i = rng.integers(0, 1000, harness.size(32 * M))
    harness.compare("unique int64 of 1000", i.size, *pair("unique", i))  # NumPy is faster, by a hash table
    for dtype in ("uint8", "int16", "int64", "float64"):
        b = (rng.random(harness.size(8 * M)) * 250).astype(dtype)
        harness.compare(f"sort {dtype}", b.size, *pair("sort", b), at_least=at_least)
    sorted_a, values = np.sort(a[: len(a) // 8]), a[-len(a) // 8 :]
    harness.compare("searchsorted float32", values.size, *pair("searchsorted", sorted_a, values))
    rows = a[: len(a) // 8 // 1000 * 1000].reshape(-1, 1000)
    harness.compare("sort rows of 1000", rows.size, *pair("sort", rows), at_least=at_least)
    for columns in (1000, 4096):  # columns of 4096 float32 are whole pages apart
        square = a[: len(a) // 2 // columns * columns].reshape(-1, columns)
        along = functools.partial(pk.sort, square, axis=0)
        numpys = functools.partial(np.sort, square, axis=0)
        harness.compare(f"sort {columns} columns", square.size, along, {"NumPy": numpys})
    few = rng.integers(0, 1000, 50)
    harness.compare("isin, of 50", i.size, *pair("isin", i, few))
    ten = [functools.partial(topk, a, 10) for topk in (pk.topk, numpys_topk)]
    harness.compare("topk of 10", a.size, ten[0], {"NumPy": ten[1]}, engine=harness.engine)

    # Under auto, at sizes around the crossover from NumPy.
    for size in (10, 1000, 5_000, 20_000, 100_000, M):
        for name, keywords in (("sort", {}), ("argsort", {"kind": "stable"}), ("unique", {})):
            harness.compare(
                f"auto: {name} float32",
                size,
                *pair(name, a[:size], **keywords),
                engine="auto",
                rounds=harness.rounds * 5,
            )
    harness.compare("auto: partition float32", a.size, *pair("partition", a, a.size // 2), engine="auto")
    return harness.finish()


def numpys_topk(a, k):
    """Compute `topk` by a partition, as NumPy's users would."""
    found = np.sort(np.argpartition(a, len(a) - k)[-k:])
    order = found[np.argsort(-a[found], kind="stable")]
    return a[order], order


if __name__ == "__main__":
    sys.exit(main())
