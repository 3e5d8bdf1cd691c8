"""A zoom into the Mandelbrot set, by a kernel of your own: each frame eight times closer than the last.

    python examples/mandelbrot_zoom.py [ZOOM.png]

The picture needs matplotlib.
"""

import sys

import numpy as np

import pycudakit as pk
from pycudakit import Out

MIDDLE = (-0.743643887, 0.131825904)

escape = pk.SourceModule(r"""
__global__ void escape(float *times, int width, int height, double x0, double y0, double step, int most) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    const double x = x0 + (column - width / 2) * step, y = y0 + (row - height / 2) * step;
    double re = 0, im = 0;
    int n = 0;
    while (n < most && re * re + im * im < 256) {
        const double next = re * re - im * im + x;
        im = 2 * re * im + y;
        re = next;
        ++n;
    }
    times[row * width + column] = n;
}
""").get_function("escape")


def frame(width, height, span, most):
    """Return when each point leaves, over a part of the plane so wide; infinity where that takes too long."""
    times = np.empty((height, width), np.float32)
    block = (16, 16, 1)
    escape(
        Out(times),
        width,
        height,
        *MIDDLE,
        span / width,
        most,
        block=block,
        grid=pk.grid_for(times.shape, block),
    )
    times[times == most] = np.inf
    return times


def run(width=360, height=270, frames=6, most=3000):
    """Return the frames, the widest first."""
    return [frame(width, height, 3.2 / 8**zoom, most) for zoom in range(frames)]


def draw(frames, path):
    """Draw the frames side by side, points that never escape in black."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(frames) // 2, figsize=(9, 4.7), layout="constrained")
    for zoom, (axis, times) in enumerate(zip(axes.flat, frames, strict=True)):
        axis.imshow(np.where(np.isinf(times), np.nan, np.log(times)), cmap="twilight_shifted")
        axis.set(xticks=[], yticks=[], title=f"{8**zoom:,} x", facecolor="black")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    frames = run()
    inside = [float(np.isinf(times).mean()) for times in frames]
    print("of the frames, never leaves:", " ".join(f"{part:.0%}" for part in inside))
    print("the last call ran on", pk.last_call().engine)
    if len(sys.argv) > 1:
        draw(frames, sys.argv[1])
