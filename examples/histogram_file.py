"""A log histogram of 100 million points in a file, which is read as the call goes on.

    python examples/histogram_file.py [HISTOGRAM.png]

It writes a file of 400 MB to the folder for temporary files. The picture needs matplotlib.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pycudakit as pk

BINS = np.geomspace(1e-3, 1e4, 141)
PIECE = 10_000_000


def write(path, points):
    """Write sizes of two kinds: most are log-normal, one in ten has a heavy tail."""
    rng = pk.random.default_rng(7)
    file = np.memmap(path, np.float32, "w+", shape=points)
    for start in range(0, points, PIECE):
        part = file[start : start + PIECE]
        z = rng.standard_normal(len(part), np.float32)
        u = rng.random(len(part), np.float32)
        pk.evaluate("where(u < 0.1, 20 / sqrt(u * 10 + 1e-7), exp(0.8 * z))", out=part)
    file.flush()


def run(points=100_000_000):
    """Return how many points there are in each bin, and the seconds that this took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sizes.float32"
        write(path, points)
        sizes = np.memmap(path, np.float32, "r")
        began = time.perf_counter()
        counts, _ = pk.histogram(sizes, BINS)
        seconds = time.perf_counter() - began
        del sizes
    return counts, seconds


def draw(counts, path):
    """Draw the counts, both axes in powers of ten."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axis.stairs(counts, BINS, fill=True)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="size",
        ylabel="points in the bin",
        title=f"{counts.sum():,} points",
    )
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    counts, seconds = run()
    print(f"{counts.sum():,} points in {seconds:.2f} s, on the engine {pk.last_call().engine}")
    if len(sys.argv) > 1:
        draw(counts, sys.argv[1])
