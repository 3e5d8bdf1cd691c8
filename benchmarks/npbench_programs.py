"""Programs of NPBench, rewritten: npbench.py times them, and tests compare them with NumPy.

NPBench (github.com/spcl/npbench) is a standard list of NumPy programs. These have its names and, for the size
paper, its sizes. A program is a plain function that uses NumPy as
the module's global `np`. The arguments that it modifies are a part of its results.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

PROGRAMS = {}


@dataclasses.dataclass(frozen=True)
class Program:
    """A program and its arguments.

    Parameters
    ----------
    function
        The program.
    make
        Makes its arguments from a generator and the numbers of a size.
    sizes
        By name: quick, for milliseconds in NumPy; default, for 20 to 500; and paper, as in NPBench.
    writes
        The names of the arguments that it modifies.
    numba
        Whether Numba's users would write it like this.
    """

    function: Callable
    make: Callable
    sizes: dict
    writes: str = ""
    numba: bool = False

    def initialize(self, size="default"):
        """Make new arguments of a size, always the same."""
        return self.make(np.random.default_rng(42), *self.sizes[size])

    @property
    def written(self):
        """The indices of the arguments that the program modifies."""
        names = self.function.__code__.co_varnames
        return tuple(names.index(name) for name in self.writes.split())


def program(make, writes="", numba=False, **sizes):
    """Register the decorated function in PROGRAMS."""

    def enter(function):
        PROGRAMS[function.__name__] = Program(function, make, sizes, writes, numba)
        return function

    return enter


# ---- Stencils -----------------------------------------------------------------------------------------


def two_fields(dimensions):
    """Return a function that makes a number of steps and two fields with equal sides."""

    def make(rng, steps, side):
        return steps, rng.random((side,) * dimensions), rng.random((side,) * dimensions)

    return make


@program(two_fields(1), "A B", True, quick=(50, 10_000), default=(2000, 16_000), paper=(4000, 32_000))
def jacobi_1d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


@program(two_fields(2), "A B", True, quick=(10, 100), default=(40, 700), paper=(1000, 2800))
def jacobi_2d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def diffused(T):
    """Return the inner part of a 3-d field after a step of diffusion."""
    inner = T[1:-1, 1:-1, 1:-1]
    return (
        0.125 * (T[2:, 1:-1, 1:-1] - 2.0 * inner + T[:-2, 1:-1, 1:-1])
        + 0.125 * (T[1:-1, 2:, 1:-1] - 2.0 * inner + T[1:-1, :-2, 1:-1])
        + 0.125 * (T[1:-1, 1:-1, 2:] - 2.0 * inner + T[1:-1, 1:-1, :-2])
        + inner
    )


@program(two_fields(3), "A B", quick=(5, 20), default=(20, 70), paper=(500, 120))
def heat_3d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1, 1:-1, 1:-1] = diffused(A)
        A[1:-1, 1:-1, 1:-1] = diffused(B)


def make_fdtd(rng, steps, rows, columns):
    return rng.random(steps), *(rng.random((rows, columns)) for _ in range(3))


@program(make_fdtd, "ex ey hz", True, quick=(10, 100, 120), default=(40, 500, 600), paper=(500, 1000, 1200))
def fdtd_2d(source, ex, ey, hz):
    for t in range(source.size):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def make_seidel(rng, steps, side):
    return steps, rng.random((side, side))


@program(make_seidel, "A", quick=(3, 20), default=(10, 100), paper=(100, 400))
def seidel_2d(steps, A):
    columns = A.shape[1]
    for _ in range(steps - 1):
        for i in range(1, A.shape[0] - 1):
            above, below = A[i - 1], A[i + 1]
            A[i, 1:-1] += (
                above[:-2] + above[1:-1] + above[2:] + A[i, 2:] + below[:-2] + below[1:-1] + below[2:]
            )
            for j in range(1, columns - 1):  # each needs its left neighbour's new value
                A[i, j] = (A[i, j] + A[i, j - 1]) / 9.0


def make_hdiff(rng, rows, columns, levels):
    shape = rows, columns, levels
    return rng.random((rows + 4, columns + 4, levels)), np.zeros(shape), rng.random(shape)


@program(make_hdiff, "out", quick=(32, 32, 40), default=(96, 96, 80), paper=(256, 256, 160))
def hdiff(field, out, coefficient):
    sides = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    laplacian = 4.0 * field[1:-1, 1:-1] - sides
    flux_x = laplacian[1:, 1:-1] - laplacian[:-1, 1:-1]
    flux_x = np.where(flux_x * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, flux_x)
    flux_y = laplacian[1:-1, 1:] - laplacian[1:-1, :-1]
    flux_y = np.where(flux_y * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, flux_y)
    divergence = flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1]
    out[:] = field[2:-2, 2:-2] - coefficient * divergence


def make_vadv(rng, rows, columns, levels):
    tendency, velocity, position, own = (rng.random((rows, columns, levels)) for _ in range(4))
    return tendency, velocity, rng.random((rows + 1, columns, levels)), position, own, 3.0 / 20.0


@program(make_vadv, "tendency", quick=(12, 12, 10), default=(90, 90, 80), paper=(256, 256, 160))
def vadv(tendency, velocity, wind, position, own, rate):
    """Advect vertically: a tridiagonal system for each column, solved by elimination and substitution."""
    levels = velocity.shape[2]
    upper, right = np.empty_like(velocity), np.empty_like(velocity)
    for k in range(levels):
        diagonal, correction, lower = rate, 0.0, 0.0
        if k > 0:
            lower = -0.125 * (wind[1:, :, k] + wind[:-1, :, k])
            correction = correction - lower * (velocity[:, :, k - 1] - velocity[:, :, k])
            diagonal = diagonal - lower
        if k < levels - 1:
            upper[:, :, k] = 0.125 * (wind[1:, :, k + 1] + wind[:-1, :, k + 1])
            correction = correction - upper[:, :, k] * (velocity[:, :, k + 1] - velocity[:, :, k])
            diagonal = diagonal - upper[:, :, k]
        right[:, :, k] = rate * position[:, :, k] + own[:, :, k] + tendency[:, :, k] + correction
        if k > 0:
            diagonal = diagonal - upper[:, :, k - 1] * lower
            right[:, :, k] -= right[:, :, k - 1] * lower
        if k < levels - 1:
            upper[:, :, k] /= diagonal
        right[:, :, k] /= diagonal
    solution = right[:, :, -1]
    tendency[:, :, -1] = rate * (solution - position[:, :, -1])
    for k in range(levels - 2, -1, -1):
        solution = right[:, :, k] - upper[:, :, k] * solution
        tendency[:, :, k] = rate * (solution - position[:, :, k])


def make_cavity(rng, side, steps, inner_steps):
    u, v, p = (0.1 * rng.random((side, side)) for _ in range(3))
    d = 2.0 / (side - 1)
    return steps, inner_steps, u, v, p, d, d**2


def slope(field, axis, d):
    """Return the central difference of a field's inner part."""
    return (field[1:-1, 2:] - field[1:-1, :-2] if axis else field[2:, 1:-1] - field[:-2, 1:-1]) / (2 * d)


def moved(field, u, v, d, dt):
    """Return the inner part of a velocity after advection and diffusion, the viscosity being 0.1."""
    inner = field[1:-1, 1:-1]
    return (
        inner
        - u[1:-1, 1:-1] * dt / d * (inner - field[1:-1, :-2])
        - v[1:-1, 1:-1] * dt / d * (inner - field[:-2, 1:-1])
        + 0.1
        * dt
        / d**2
        * (field[1:-1, 2:] + field[1:-1, :-2] + field[2:, 1:-1] + field[:-2, 1:-1] - 4 * inner)
    )


@program(make_cavity, "u v p", quick=(31, 10, 5), default=(101, 100, 10), paper=(101, 700, 50))
def cavity_flow(steps, inner_steps, u, v, p, d, dt):
    """Solve the flow in a box whose lid moves."""
    source = np.zeros_like(p)
    for _ in range(steps):
        ux, uy, vx, vy = slope(u, 1, d), slope(u, 0, d), slope(v, 1, d), slope(v, 0, d)
        source[1:-1, 1:-1] = (ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2
        for _ in range(inner_steps):
            q = p.copy()
            p[1:-1, 1:-1] = 0.25 * (q[1:-1, 2:] + q[1:-1, :-2] + q[2:, 1:-1] + q[:-2, 1:-1]) - (
                0.25 * d**2 * source[1:-1, 1:-1]
            )
            p[:, -1], p[0, :], p[:, 0] = p[:, -2], p[1, :], p[:, 1]
            p[-1, :] = 0
        un, vn = u.copy(), v.copy()
        u[1:-1, 1:-1] = moved(un, un, vn, d, dt) - dt * slope(p, 1, d)
        v[1:-1, 1:-1] = moved(vn, un, vn, d, dt) - dt * slope(p, 0, d)
        u[0, :], u[:, 0], u[:, -1], u[-1, :] = 0, 0, 0, 1
        v[0, :], v[:, 0], v[:, -1], v[-1, :] = 0, 0, 0, 0


# ---- Elements and reductions --------------------------------------------------------------------------


def make_compute(rng, rows, columns):
    one, two = (rng.integers(0, 1000, (rows, columns)) for _ in range(2))
    return one, two, np.int64(4), np.int64(3), np.int64(9)


@program(make_compute, numba=True, quick=(200, 200), default=(2000, 2000), paper=(12_500, 12_500))
def compute(array_1, array_2, a, b, c):
    return np.clip(array_1, 2, 10) * a + array_2 * b + c


def make_softmax(rng, batch, heads, length):
    return (rng.random((batch, heads, length, length), np.float32),)


@program(make_softmax, quick=(4, 4, 128), default=(16, 16, 160), paper=(64, 16, 512))
def softmax(x):
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def make_go_fast(rng, side):
    return (rng.random((side, side)),)


@program(make_go_fast, numba=True, quick=(300,), default=(4000,), paper=(12_500,))
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def make_azimint(rng, size, bins):
    return rng.random(size), rng.random(size), bins


@program(make_azimint, numba=True, quick=(10_000, 50), default=(200_000, 500), paper=(1_000_000, 1000))
def azimint_naive(data, radius, bins):
    widest = radius.max()
    result = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(widest * i / bins <= radius, radius < widest * (i + 1) / bins)
        result[i] = data[inside].mean()
    return result


@program(make_azimint, quick=(10_000, 50), default=(1_000_000, 1000), paper=(1_000_000, 1000))
def azimint_hist(data, radius, bins):
    counts = np.histogram(radius, bins)[0]
    return np.histogram(radius, bins, weights=data)[0] / counts


def make_angles(rng, size):
    return tuple(rng.random(size) for _ in range(4))


@program(make_angles, numba=True, quick=(20_000,), default=(1_000_000,), paper=(10_000_000,))
def arc_distance(theta_1, phi_1, theta_2, phi_2):
    across = np.cos(theta_1) * np.cos(theta_2) * np.sin((phi_2 - phi_1) / 2) ** 2
    square = np.sin((theta_2 - theta_1) / 2) ** 2 + across
    return 2 * np.arctan2(np.sqrt(square), np.sqrt(1 - square))


def make_table(rng, columns, rows):
    return float(rows), rng.random((rows, columns))


@program(make_table, "data", quick=(80, 100), default=(500, 600), paper=(1200, 1400))
def correlation(rows, data):
    deviation = np.std(data, axis=0)
    deviation[deviation <= 0.1] = 1.0
    data -= np.mean(data, axis=0)
    data /= np.sqrt(rows) * deviation
    result = np.eye(data.shape[1])
    for i in range(data.shape[1] - 1):
        result[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
        result[i + 1 :, i] = result[i, i + 1 :]
    return result


@program(make_table, "data", quick=(80, 100), default=(500, 600), paper=(1200, 1400))
def covariance(rows, data):
    data -= np.mean(data, axis=0)
    result = np.zeros((data.shape[1],) * 2)
    for i in range(data.shape[1]):
        result[i, i:] = data[:, i] @ data[:, i:] / (rows - 1.0)
        result[i:, i] = result[i, i:]
    return result


def make_mandelbrot(_, columns, rows, most):
    return -2.0, 0.5, columns, -1.25, 1.25, rows, most


@program(make_mandelbrot, quick=(60, 60, 10), default=(400, 400, 40), paper=(1000, 1000, 200))
def mandelbrot1(left, right, columns, bottom, top, rows, most):
    points = np.linspace(left, right, columns) + np.linspace(bottom, top, rows)[:, None] * 1j
    steps = np.zeros(points.shape, np.int64)
    z = np.zeros(points.shape, np.complex128)
    for step in range(most):
        inside = np.less(np.abs(z), 2.0)
        steps[inside] = step
        z[inside] = z[inside] ** 2 + points[inside]
    steps[steps == most - 1] = 0
    return z, steps


def make_bodies(rng, bodies, steps):
    place, speed = rng.standard_normal((bodies, 3)), rng.standard_normal((bodies, 3))
    return np.full((bodies, 1), 20.0 / bodies), place, speed, steps, 0.01


def distances(place):
    """Return the differences of all pairs along each axis, and the squares of their softened distances."""
    x, y, z = place[:, 0:1], place[:, 1:2], place[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    return dx, dy, dz, dx**2 + dy**2 + dz**2 + 0.1**2


def acceleration(mass, place):
    dx, dy, dz, square = distances(place)
    weight = square**-1.5
    return np.hstack(((dx * weight) @ mass, (dy * weight) @ mass, (dz * weight) @ mass))


def energies(mass, place, speed):
    """Return the kinetic and the potential energy."""
    square = distances(place)[3]
    pairs = np.triu(-(mass * mass.T) / np.sqrt(square - 0.1**2 + np.eye(mass.size)), 1)
    return 0.5 * np.sum(mass * speed**2), np.sum(pairs)


@program(make_bodies, "place speed", quick=(25, 10), default=(100, 200), paper=(100, 1000))
def nbody(mass, place, speed, steps, dt):
    speed -= np.mean(mass * speed, axis=0) / np.mean(mass)
    force = acceleration(mass, place)
    kinetic, potential = np.empty(steps + 1), np.empty(steps + 1)
    kinetic[0], potential[0] = energies(mass, place, speed)
    for i in range(steps):
        speed += force * dt / 2.0
        place += speed * dt
        force = acceleration(mass, place)
        speed += force * dt / 2.0
        kinetic[i + 1], potential[i + 1] = energies(mass, place, speed)
    return kinetic, potential


# ---- Layers of networks -------------------------------------------------------------------------------


def singles(rng, *shapes):
    """Return float32 arrays scaled so that their sums stay around 1."""
    return tuple((rng.random(s, np.float32) - np.float32(0.5)) / np.float32(s[0] ** 0.5) for s in shapes)


def relu(x):
    return np.maximum(x, 0)


def make_mlp(rng, inputs, batch, *layers):
    shapes = [shape for pair in zip((inputs, *layers), layers, strict=False) for shape in (pair, pair[1:])]
    return singles(rng, (batch, inputs), *shapes)


@program(
    make_mlp,
    quick=(3, 8, 3000, 500, 500),
    default=(3, 8, 10_000, 2000, 2000),
    paper=(3, 8, 30_000, 10_000, 1000),
)
def mlp(x, w1, b1, w2, b2, w3, b3):
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


def conv2d(images, weights):
    """Correlate images of (batch, row, column, channel) with (row, column, channel, result)."""
    size, results = weights.shape[0], weights.shape[3]
    batch, height, width = images.shape[0], images.shape[1] - size + 1, images.shape[2] - size + 1
    out = np.empty((batch, height, width, results), np.float32)
    for i in range(height):
        for j in range(width):
            window = images[:, i : i + size, j : j + size, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * weights[np.newaxis], axis=(1, 2, 3))
    return out


def make_conv(rng, batch, channels, results, size, height, width):
    return singles(rng, (batch, height, width, channels), (size, size, channels, results), (results,))


@program(make_conv, quick=(4, 3, 8, 2, 10, 10), default=(8, 3, 16, 5, 44, 44), paper=(8, 3, 16, 20, 256, 256))
def conv2d_bias(images, weights, bias):
    return conv2d(images, weights) + bias


def halved(images):
    """Return the maximum of each two by two elements."""
    batch, height, width, channels = images.shape
    out = np.empty((batch, height // 2, width // 2, channels), np.float32)
    for i in range(height // 2):
        for j in range(width // 2):
            out[:, i, j, :] = np.max(images[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def make_lenet(rng, batch, height, width):
    features = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2) * 16
    filters = (5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,)
    dense = (features, 120), (120,), (120, 84), (84,), (84, 10), (10,)
    return singles(rng, (batch, height, width, 1), *filters, *dense)


@program(make_lenet, quick=(1, 20, 20), default=(8, 56, 56), paper=(16, 256, 256))
def lenet(x, conv1, bias1, conv2, bias2, w1, b1, w2, b2, w3, b3):
    x = halved(relu(conv2d(x, conv1) + bias1))
    x = halved(relu(conv2d(x, conv2) + bias2))
    x = np.reshape(x, (x.shape[0], -1))
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return x @ w3 + b3


# ---- Products -----------------------------------------------------------------------------------------


def arrays(*shapes_of, numbers=()):
    """Return a function that makes numbers and arrays; shapes are given by letters of a size's numbers."""

    def make(rng, *size):
        lengths = dict(zip("IJKLM", size, strict=False))
        made = (rng.random([lengths[letter] for letter in letters]) for letters in shapes_of)
        return *numbers, *made

    return make


@program(
    arrays("IJ", "IK", "KJ", numbers=(1.5, 1.2)),
    "C",
    quick=(160, 170, 180),
    default=(1000, 1100, 1200),
    paper=(2000, 2300, 2600),
)
def gemm(alpha, beta, C, A, B):
    C[:] = alpha * A @ B + beta * C


@program(arrays("II", "II", "I", numbers=(1.5, 1.2)), quick=(500,), default=(3000,), paper=(11_200,))
def gesummv(alpha, beta, A, B, x):
    return alpha * A @ x + beta * B @ x


@program(arrays("IJ", "J"), quick=(700, 800), default=(6000, 7500), paper=(18_000, 22_000))
def atax(A, x):
    return (A @ x) @ A


@program(arrays("IJ", "J", "I"), quick=(700, 800), default=(6000, 7500), paper=(18_000, 22_000))
def bicg(A, p, r):
    return r @ A, A @ p


@program(arrays("I", "I", "I", "I", "II"), "x1 x2", quick=(700,), default=(7000,), paper=(16_000,))
def mvt(x1, x2, y1, y2, A):
    x1 += A @ y1
    x2 += y2 @ A


@program(
    arrays("IJ", "JK", "KL", "IL", numbers=(1.5, 1.2)),
    "D",
    quick=(130, 140, 150, 160),
    default=(800, 850, 900, 950),
    paper=(3200, 3600, 4400, 4800),
)
def k2mm(alpha, beta, A, B, C, D):
    D[:] = alpha * A @ B @ C + beta * D


@program(
    arrays("IJ", "JK", "KL", "LM"),
    quick=(130, 140, 150, 160, 170),
    default=(800, 850, 900, 950, 1000),
    paper=(3200, 3600, 4000, 4400, 4800),
)
def k3mm(A, B, C, D):
    return A @ B @ C @ D


@program(arrays("IJK", "KK"), "A", quick=(20, 22, 64), default=(90, 90, 128), paper=(220, 250, 270))
def doitgen(A, C4):
    rows, columns, depth = A.shape
    A[:] = np.reshape(np.reshape(A, (rows, columns, 1, depth)) @ C4, (rows, columns, depth))
