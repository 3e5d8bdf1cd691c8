"""Two discs of stars pass each other: every star pulls at every other, by a kernel of your own.

    python examples/nbody.py [STARS.png]

The picture needs matplotlib.
"""

import sys
import time

import numpy as np

import pycudakit as pk

SOFT = 0.05  # keeps stars that meet from flying off

module = pk.SourceModule(r"""
__global__ void push(const float4 *at, float4 *speed, int n, float dt, float soft) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < n; ++j) {
        const float dx = at[j].x - at[i].x, dy = at[j].y - at[i].y, dz = at[j].z - at[i].z;
        const float near = 1 / sqrtf(dx * dx + dy * dy + dz * dz + soft * soft);
        const float pull = at[j].w * near * near * near;  // w is the mass
        x += dx * pull, y += dy * pull, z += dz * pull;
    }
    speed[i].x += x * dt, speed[i].y += y * dt, speed[i].z += z * dt;
}

__global__ void move(float4 *at, const float4 *speed, int n, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    at[i].x += speed[i].x * dt, at[i].y += speed[i].y * dt, at[i].z += speed[i].z * dt;
}
""")
push, move = module.get_function("push"), module.get_function("move")


def disc(count, place, drift, rng):
    """Return places with masses, and speeds, of stars that go around a heavy one."""
    at, speed = np.zeros((2, count, 4), np.float32)
    radius, angle = np.sqrt(rng.uniform(0.05, 1, count)), rng.uniform(0, 2 * np.pi, count)
    around = np.sqrt(1 / radius)
    at[:, 0], at[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    speed[:, 0], speed[:, 1] = -around * np.sin(angle), around * np.cos(angle)
    at[:, 2] = rng.normal(0, 0.02, count)
    at[:, 3] = 0.1 / count
    at[0], speed[0] = (0, 0, 0, 1), 0
    return at + np.float32([*place, 0, 0]), speed + np.float32([*drift, 0, 0])


def run(count=1024, steps=300, dt=0.01):
    """Return the places of all stars at four times, from the first to the last, and the last speeds."""
    rng = np.random.default_rng(3)
    discs = [
        disc(count // 2, (-1.5, -0.6), (0.45, 0.1), rng),
        disc(count // 2, (1.5, 0.6), (-0.45, -0.1), rng),
    ]
    at, speed = (np.concatenate(parts) for parts in zip(*discs, strict=True))
    p = pk.Program("n-body")
    places, speeds = p.inout("at", at.shape, at.dtype), p.inout("speed", speed.shape, speed.dtype)
    with p.repeat(steps // 3):
        p.launch(push, places, speeds, count, dt, SOFT, threads=count)
        p.launch(move, places, speeds, count, dt, threads=count)
    seen = [at]
    for _ in range(3):
        after = p(at=at, speed=speed)
        at, speed = after["at"], after["speed"]
        seen.append(at)
    return seen, speed


def draw(seen, path):
    """Draw the stars at each time, in the colours of their discs."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(10, 2.7), layout="constrained", facecolor="black")
    half = len(seen[0]) // 2
    for axis, at in zip(axes, seen, strict=True):
        for part, colour in ((at[:half], "#ffd27f"), (at[half:], "#7fb8ff")):
            axis.scatter(part[:, 0], part[:, 1], 2, colour, linewidths=0)
        axis.set(xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[], facecolor="black", aspect="equal")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    began = time.perf_counter()
    seen, speed = run()
    pulls = 300 * len(speed) ** 2
    seconds = time.perf_counter() - began
    print(f"{pulls / 1e9:.1f} billion pulls in {seconds:.1f} s, on the engine {pk.last_call().engine}")
    print("momentum", (seen[-1][:, 3:] * speed[:, :2]).sum(0).round(4))
    if len(sys.argv) > 1:
        draw(seen, sys.argv[1])
