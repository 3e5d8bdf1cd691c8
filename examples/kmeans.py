"""k-means on four million points: the nearest centre in one fused pass, the new centres by counting.

    python examples/kmeans.py [CLUSTERS.png]

The picture needs matplotlib.
"""

import sys
import time

import numpy as np

import pycudakit as pk

CLUSTERS = 8


@pk.fuse
def nearest(x, y, centres_x, centres_y):
    """Return the index of the nearest centre of each point, and the sum of the squared distances."""
    best = (x - centres_x[0]) ** 2 + (y - centres_y[0]) ** 2
    label = np.zeros(x.shape, np.int64)
    for k in range(1, len(centres_x)):
        distance = (x - centres_x[k]) ** 2 + (y - centres_y[k]) ** 2
        label = np.where(distance < best, k, label)
        best = np.minimum(best, distance)
    return label, best.sum(dtype=np.float64)


def points_around(count, rng):
    """Return points around as many places as there are clusters."""
    places = np.array([[np.cos(a), np.sin(a)] for a in np.arange(CLUSTERS) * 2 * np.pi / CLUSTERS]) * 5
    which = rng.integers(CLUSTERS, size=count)
    spread = rng.standard_normal((2, count), np.float32)
    x, y = places.T.astype(np.float32)[:, which] + spread * np.float32(0.8)
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def run(count=4_000_000, rounds=12):
    """Return the points, their labels, the centres, and each round's sum of squared distances."""
    x, y = points_around(count, np.random.default_rng(11))
    first = np.array(
        [[4.0, 3.0], [0.0, 4.0], [-3.0, 3.0], [-5.0, 0.5], [-3.0, -3.0], [0.5, -5.0], [3.0, -3.0], [4.5, 0.0]]
    )
    centres_x, centres_y = first.T.astype(np.float32).copy()
    sums = []
    for _ in range(rounds):
        label, total = nearest(x, y, centres_x, centres_y)
        sums.append(float(total))
        sizes = np.maximum(pk.bincount(label, minlength=CLUSTERS), 1)
        centres_x = (pk.bincount(label, x, CLUSTERS) / sizes).astype(np.float32)
        centres_y = (pk.bincount(label, y, CLUSTERS) / sizes).astype(np.float32)
    return x, y, label, np.stack([centres_x, centres_y]), sums


def draw(result, path):
    """Draw some of the points, the centres, and how the sum fell."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    x, y, label, centres, sums = result
    some = slice(None, None, max(1, len(x) // 8000))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    left.scatter(x[some], y[some], 1, label[some], cmap="tab10")
    left.plot(*centres, "k+", markersize=12)
    left.set(aspect="equal", xticks=[], yticks=[], title=f"{len(x):,} points")
    right.plot(range(1, len(sums) + 1), np.array(sums) / len(x), "o-")
    right.set(xlabel="round", title="mean squared distance")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    began = time.perf_counter()
    result = run()
    print(f"{len(result[0]):,} points, {len(result[4])} rounds in {time.perf_counter() - began:.1f} s")
    print("centres:", *(f"({x:.2f}, {y:.2f})" for x, y in result[3].T))
    if len(sys.argv) > 1:
        draw(result, sys.argv[1])
