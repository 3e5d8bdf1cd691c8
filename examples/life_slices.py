"""The game of life twice: by slices in a fused function, and by a kernel of your own in a program.

    python examples/life_slices.py [LIFE.png]

The board has a dead edge. The picture needs matplotlib.
"""

import sys
import time

import numpy as np

import pycudakit as pk


@pk.fuse
def by_slices(cells, steps):
    for _ in range(steps):
        rows = cells[:-2] + cells[1:-1] + cells[2:]
        around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]  # the cell itself included
        here = cells[1:-1, 1:-1]
        cells[1:-1, 1:-1] = (around == 3) | ((around == 4) & (here == 1))
    return cells


step = pk.SourceModule(r"""
__global__ void step(const unsigned char *cells, unsigned char *next, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= size - 1 || y >= size - 1) return;
    int around = 0;
    for (int j = -1; j <= 1; ++j)
        for (int i = -1; i <= 1; ++i) around += cells[(y + j) * size + x + i];
    next[y * size + x] = around == 3 || (around == 4 && cells[y * size + x]);
}
""").get_function("step")


def by_program(cells, steps):
    shape = {"block": (32, 8, 1), "grid": pk.grid_for(cells.shape, (32, 8))}
    p = pk.Program("life")
    here, there = p.inout("u", cells.shape, cells.dtype), p.temp("v", cells.shape, cells.dtype)
    with p.repeat(steps // 2):
        p.launch(step, here, there, len(cells), **shape)
        p.launch(step, there, here, len(cells), **shape)
    return p(u=cells)["u"]


def run(size=256, steps=600):
    """Return the board at first, and after the steps by slices and by a program; and the seconds of both."""
    first = np.zeros((size, size), np.uint8)
    soup = np.random.default_rng(5).random((size // 2, size // 2)) < 0.35
    first[size // 4 : size // 4 + size // 2, size // 4 : size // 4 + size // 2] = soup
    results, seconds = [], []
    for function in (by_slices, by_program):
        function(first.copy(), 2)  # wakes the threads
        began = time.perf_counter()
        results.append(function(first.copy(), steps))
        seconds.append(time.perf_counter() - began)
    return first, *results, seconds


def draw(result, path):
    """Draw the three boards."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
    for axis, title, cells in zip(axes, ("at first", "by slices", "by a program"), result[:3], strict=True):
        axis.imshow(cells, cmap="Greens", interpolation="nearest")
        axis.set(title=f"{title}: {cells.sum()} cells", xticks=[], yticks=[])
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    result = run()
    first, slices, program, seconds = result
    print(f"by slices {seconds[0] * 1e3:.0f} ms, by a program {seconds[1] * 1e3:.0f} ms")
    print("the same cells:", np.array_equal(slices, program))
    if len(sys.argv) > 1:
        draw(result, sys.argv[1])
