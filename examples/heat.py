"""The heat equation: 1,000 steps in one call, beside the solution on paper.

    python examples/heat.py [HEAT.png]

A plate is held at 0 degrees along its edges, and begins as a sum of waves, of which each fades at a rate of
its own. With a name, and matplotlib, it is drawn as it was and as it is.
"""

import sys
import time

import numpy as np

import pycudakit as pk

SIZE, STEPS, ALPHA = 129, 1000, 0.2  # points each way; of a step, how much of a point goes to each neighbour

step = pk.SourceModule(r"""
#define TILE 16

// A block has its points in shared memory, and those around them.
__global__ void step(const float *from, float *to, int size, float alpha) {
    __shared__ float t[TILE + 2][TILE + 2];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    const int i = threadIdx.x + 1, j = threadIdx.y + 1;
    const bool inside = x < size && y < size;
    if (inside) {
        const float *here = from + y * size + x;
        t[j][i] = *here;
        if (i == 1 && x > 0) t[j][0] = here[-1];
        if (i == TILE && x < size - 1) t[j][TILE + 1] = here[1];
        if (j == 1 && y > 0) t[0][i] = here[-size];
        if (j == TILE && y < size - 1) t[TILE + 1][i] = here[size];
    }
    __syncthreads();
    if (inside && x > 0 && x < size - 1 && y > 0 && y < size - 1) {
        const float around = t[j][i - 1] + t[j][i + 1] + t[j - 1][i] + t[j + 1][i];
        to[y * size + x] = t[j][i] + alpha * (around - 4 * t[j][i]);
    }
}
""").get_function("step")

WAVES = {(1, 1): 60.0, (3, 2): 50.0, (2, 5): 40.0, (9, 8): 30.0}  # how many across and down, and degrees


def on_paper(steps):
    """Return the plate after so many steps: a wave's points fade by one factor in each."""
    at = np.arange(SIZE) * np.pi / (SIZE - 1)
    plate = np.zeros((SIZE, SIZE))
    for (across, down), degrees in WAVES.items():
        sines = [np.sin(across * np.pi / (SIZE - 1) / 2) ** 2, np.sin(down * np.pi / (SIZE - 1) / 2) ** 2]
        factor = 1 - 4 * ALPHA * sum(sines)
        plate += degrees * factor**steps * np.outer(np.sin(down * at), np.sin(across * at))
    return plate


def drawn(plate, rows=16, columns=48):
    """Return it as text, the hotter the darker."""
    shades = " .:-=+*#%@"
    part = plate[:: SIZE // rows, :: SIZE // columns]
    level = (part - part.min()) / max(np.ptp(part), 1e-9) * (len(shades) - 1)
    return "\n".join("".join(shades[int(shade)] for shade in row) for row in np.rint(level))


def by_numpy(plate, steps):
    """Return the plate after so many steps of NumPy's."""
    plate = plate.copy()
    for _ in range(steps):
        around = plate[1:-1, :-2] + plate[1:-1, 2:] + plate[:-2, 1:-1] + plate[2:, 1:-1]
        plate[1:-1, 1:-1] += np.float32(ALPHA) * (around - 4 * plate[1:-1, 1:-1])
    return plate


blocks = -(-SIZE // 16)
shape = {"block": (16, 16, 1), "grid": (blocks, blocks)}


def heat(steps):
    """Return a program of so many steps: two buffers take turns; `u` goes up and comes down once."""
    p = pk.Program("heat")
    u, v = p.inout("u", (SIZE, SIZE), np.float32), p.temp("v", (SIZE, SIZE), np.float32)
    with p.repeat(steps // 2):
        p.launch(step, u, v, SIZE, ALPHA, **shape)
        p.launch(step, v, u, SIZE, ALPHA, **shape)
    return p


plate = on_paper(0).astype(np.float32)
heat(2)(u=plate)  # wakes the threads
began = time.perf_counter()
result = heat(STEPS)(u=plate)["u"]
seconds = time.perf_counter() - began
call = pk.last_call()
began = time.perf_counter()
by_numpy(plate, STEPS)
numpy_seconds = time.perf_counter() - began

for title, picture in (("At first", plate), (f"After {STEPS} steps", result)):
    print(f"{title}: {picture.min():.1f} to {picture.max():.1f} degrees")
    print(drawn(picture))
error = np.abs(result - on_paper(STEPS)).max()
print(f"{STEPS} steps of {SIZE} x {SIZE} points in {seconds * 1e3:.1f} ms, on the engine {call.engine};")
print(f"in {numpy_seconds * 1e3:.1f} ms by NumPy;")
print(f"at most {error:.1e} degrees from the solution on paper")

if len(sys.argv) > 1:
    try:
        import matplotlib as mpl
    except ImportError:
        sys.exit("a picture needs matplotlib: pip install matplotlib")
    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    for axis, title, picture in zip(axes, ("at first", f"after {STEPS} steps"), (plate, result), strict=True):
        shown = axis.imshow(picture, cmap="inferno", origin="lower")
        axis.set(title=title, xticks=[], yticks=[])
        figure.colorbar(shown, ax=axis, label="degrees")
    figure.savefig(sys.argv[1], dpi=150)
    print(sys.argv[1])
