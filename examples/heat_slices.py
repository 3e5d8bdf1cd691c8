"""The heat equation twice: by slices in a fused function, and by a kernel of your own in a program.

    python examples/heat_slices.py [HEAT.png]

The picture needs matplotlib.
"""

import sys
import time

import numpy as np

import pycudakit as pk

ALPHA = np.float32(0.2)  # of a step, how much of a point goes to each neighbour


@pk.fuse
def by_slices(u, steps):
    for _ in range(steps):
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += ALPHA * (sides - 4 * u[1:-1, 1:-1])
    return u


step = pk.SourceModule(r"""
__global__ void step(const float *u, float *v, int size, float alpha) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;
    const float *here = u + y * size + x;
    const bool edge = x == 0 || y == 0 || x == size - 1 || y == size - 1;
    v[y * size + x] = edge ? *here
                           : *here + alpha * (here[-1] + here[1] + here[-size] + here[size] - 4 * *here);
}
""").get_function("step")


def by_program(u, steps):
    shape = {"block": (32, 8, 1), "grid": pk.grid_for(u.shape, (32, 8))}
    p = pk.Program("heat")
    here, there = p.inout("u", u.shape, u.dtype), p.temp("v", u.shape, u.dtype)
    with p.repeat(steps // 2):
        p.launch(step, here, there, len(u), ALPHA, **shape)
        p.launch(step, there, here, len(u), ALPHA, **shape)
    return p(u=u)["u"]


def plate(size):
    """Return a plate with hot letters H and I."""
    u = np.zeros((size, size), np.float32)
    unit = size // 8
    u[2 * unit : 6 * unit, unit : 2 * unit] = u[2 * unit : 6 * unit, 3 * unit : 4 * unit] = 100
    u[3 * unit + unit // 2 : 4 * unit + unit // 2, unit : 4 * unit] = 100
    u[2 * unit : 6 * unit, 6 * unit : 7 * unit] = 100
    return u


def run(size=256, steps=400):
    """Return the plate at first, and after the steps by slices and by a program; and the seconds of both."""
    first = plate(size)
    results, seconds = [], []
    for function in (by_slices, by_program):
        function(first.copy(), 2)  # wakes the threads
        began = time.perf_counter()
        results.append(function(first.copy(), steps))
        seconds.append(time.perf_counter() - began)
    return first, *results, seconds


def draw(result, path):
    """Draw the three plates."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
    for axis, title, u in zip(axes, ("at first", "by slices", "by a program"), result[:3], strict=True):
        axis.imshow(u, cmap="inferno", vmin=0, vmax=100)
        axis.set(title=title, xticks=[], yticks=[])
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    result = run()
    first, slices, program, seconds = result
    print(f"by slices {seconds[0] * 1e3:.0f} ms, by a program {seconds[1] * 1e3:.0f} ms")
    print(f"at most {np.abs(slices - program).max():.1e} degrees apart")
    if len(sys.argv) > 1:
        draw(result, sys.argv[1])
