"""A file is sorted that is larger than the memory one call may use: in runs, which are then merged.

    python examples/sort_file.py [SORTED.png]

(`pk.sort` itself takes arrays larger than the GPU's memory; this is for those larger than the host's.) Parts
of the file are sorted into runs. The runs are then merged range by range: where a range of values begins and
ends in each run is found by searching, and the elements between are sorted together.
The picture needs matplotlib.
"""

import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("PYCUDAKIT_DEVICE_MEMORY", "64M")  # as if the GPU had no more

import numpy as np

import pycudakit as pk


def runs_of(source, target, most):
    """Sort each part of so many elements, and return where runs begin and end."""
    bounds = [*range(0, len(source), most), len(source)]
    for start, stop in itertools.pairwise(bounds):
        target[start:stop] = pk.sort(source[start:stop])
    return list(itertools.pairwise(bounds))


def merged(runs, target, most):
    """Merge sorted runs; about so many elements are in memory at once, if few are equal."""
    ranges = max(1, -(-2 * sum(map(len, runs)) // most))
    sample = np.concatenate([run[:: max(1, len(run) // (64 * ranges))] for run in runs])
    splits = pk.quantile(sample, np.arange(1, ranges) / ranges, method="nearest")
    cuts = [np.concatenate([[0], np.searchsorted(run, splits), [len(run)]]) for run in runs]
    done, largest = 0, 0
    for k in range(ranges):
        part = np.concatenate([run[cut[k] : cut[k + 1]] for run, cut in zip(runs, cuts, strict=True)])
        target[done : done + len(part)] = pk.sort(part)
        done, largest = done + len(part), max(largest, len(part))
    return largest


def run(count=32_000_000, most=4_000_000, shown=1500):
    """Return some of the file as it was, in runs and sorted; and how many were sorted at once."""
    with tempfile.TemporaryDirectory() as folder:
        files = [
            np.memmap(Path(folder) / name, np.float32, "w+", shape=count) for name in ("in", "runs", "out")
        ]
        source, between, target = files
        rng = np.random.default_rng(9)
        for start in range(0, count, most):
            source[start : start + most] = rng.gamma(2.0, size=len(source[start : start + most]))
        parts = [between[start:stop] for start, stop in runs_of(source, between, most)]
        largest = merged(parts, target, most)
        in_order = bool(pk.all(pk.less_equal(target[:-1], target[1:])))
        same = pk.sum(source, dtype=np.float64), pk.sum(target, dtype=np.float64)
        seen = [np.array(file[:: max(1, count // shown)]) for file in files]
        del source, between, target, parts, files
    return seen, largest, in_order and bool(np.isclose(*same, rtol=1e-12))


def draw(seen, path):
    """Draw the values by their places."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained", sharey=True)
    for axis, title, values in zip(axes, ("as it was", "in runs", "sorted"), seen, strict=True):
        axis.plot(values, ".", markersize=1.5)
        axis.set(title=title, xticks=[], xlabel="place in the file")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    began = time.perf_counter()
    seen, largest, right = run()
    print(
        f"128 MB in {time.perf_counter() - began:.1f} s, never more than {largest * 4 / 1e6:.0f} MB at once"
    )
    print("in order, and nothing lost:", right)
    if len(sys.argv) > 1:
        draw(seen, sys.argv[1])
