"""Small numerical programs as people write them: solvers.py times them, and tests compare them with NumPy.

`SOLVERS` maps each function to its arguments. It may write to copies of these.
"""

import numpy as np


def _rng(seed=0):
    return np.random.default_rng(seed)


def _spd(n):
    a = _rng().random((n, n))
    return a @ a.T + n * np.eye(n)


def conjugate_gradient(a, b, tolerance):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    squares, turns = r @ r, 0
    for _ in range(len(b)):
        ap = a @ p
        alpha = squares / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        turns += 1
        if np.sqrt(new) < tolerance:
            break
        p = r + (new / squares) * p
        squares = new
    return x, turns


def jacobi(u, tolerance):
    turns = 0
    while turns < 200:
        turns += 1
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        change = np.abs(new - u).max()
        u = new
        if change < tolerance:
            break
    return u, turns


def runge_kutta(y, h, steps):
    def slope(y):
        return np.stack([y[1], -y[0] - 0.1 * y[1]])

    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def adaptive_heun(y, h, tolerance):
    t, steps = 0.0, 0
    while t < 1.0:
        k1 = -y * y
        k2 = -((y + h * k1) ** 2)
        if np.abs(k2 - k1).max() * h < tolerance:
            y = y + h * (k1 + k2) / 2
            t += h
            steps += 1
            h = min(h * 1.5, 0.1)
        else:
            h = h / 2
    return y, steps


def logistic_regression(x, y, w, rate, turns):
    for _ in range(turns):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - rate * (x.T @ (p - y)) / len(y)
    return w


def power_iteration(a, v, tolerance):
    old = 0.0
    while True:
        w = a @ v
        new = np.linalg.norm(w)
        v = w / new
        if abs(new - old) < tolerance:
            return new, v
        old = new


def page_rank(links, damping, tolerance):
    n = links.shape[0]
    ranks = np.ones(n) / n
    for _ in range(100):
        new = (1 - damping) / n + damping * (links @ ranks)
        if np.abs(new - ranks).sum() < tolerance:
            break
        ranks = new
    return ranks


def cube_roots(x):
    z = x.copy()
    for _ in range(20):
        step = (z**3 - x) / (3 * z**2)
        z = z - step
        if np.all(np.abs(step) < 1e-12):
            break
    return z


def bisection(low, high, c):
    for _ in range(50):
        middle = 0.5 * (low + high)
        value = middle**3 - c
        low = np.where(value < 0, middle, low)
        high = np.where(value < 0, high, middle)
        if (high - low).max() < 1e-9:
            break
    return middle


def tridiagonal(a, b, c, d):
    n = len(d)
    cp, dp, x = np.zeros(n), np.zeros(n), np.zeros(n)
    cp[0], dp[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


def molecules(positions, velocities, steps, dt):
    for _ in range(steps):
        d = positions[:, None] - positions[None]
        squares = (d**2).sum(-1) + np.eye(len(positions))
        sixth = 1 / squares**3
        forces = ((24 * sixth * (2 * sixth - 1) / squares)[:, :, None] * d).sum(1)
        velocities = velocities + forces * dt
        positions = positions + velocities * dt
    return positions, velocities


def mandelbrot(c, turns):
    z, imaginary, count = np.zeros_like(c), np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(turns):
        z, imaginary = z * z - imaginary * imaginary + c, 2 * z * imaginary + 0.3 * c
        inside = z * z + imaginary * imaginary <= 4
        count += inside
        z, imaginary = np.where(inside, z, 2.0), np.where(inside, imaginary, 0.0)
        if not inside.any():
            break
    return count


def game_of_life(cells, steps):
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    for _ in range(steps):
        neighbours = sum(np.roll(np.roll(cells, i, 0), j, 1) for i, j in shifts)
        cells = ((neighbours == 3) | ((neighbours == 2) & (cells == 1))).astype(cells.dtype)
    return cells


def mixture(x, means, deviations, weights, tolerance):
    old = -np.inf
    for _ in range(50):
        p = weights * np.exp(-0.5 * ((x[:, None] - means) / deviations) ** 2) / deviations
        totals = p.sum(1, keepdims=True)
        shares = p / totals
        sizes = shares.sum(0)
        means = (shares * x[:, None]).sum(0) / sizes
        deviations = np.sqrt((shares * (x[:, None] - means) ** 2).sum(0) / sizes)
        weights = sizes / len(x)
        new = np.log(totals).sum()
        if new - old < tolerance:
            break
        old = new
    return means, deviations, weights


def gray_scott(u, v, feed, kill, steps):
    def laplacian(a):
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    for _ in range(steps):
        reaction = u * v * v
        u = u + 0.16 * laplacian(u) - reaction + feed * (1 - u)
        v = v + 0.08 * laplacian(v) + reaction - (feed + kill) * v
    return u, v


def adam(x, target, turns):
    m, v = np.zeros_like(x), np.zeros_like(x)
    for turn in range(1, turns + 1):
        gradient = 2 * (x - target)
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient * gradient
        x = x - 0.01 * (m / (1 - 0.9**turn)) / (np.sqrt(v / (1 - 0.999**turn)) + 1e-8)
    return x


def descent(target, x, rate, turns):
    for _ in range(turns):
        gradient = 2 * (x - target) + 0.1 * np.sin(x)
        if np.linalg.norm(gradient) < 1e-6:
            break
        x = x - rate * gradient
    return x


def rolling_scores(x, width):
    sums = np.cumsum(np.concatenate([[0.0], x]))
    squares = np.cumsum(np.concatenate([[0.0], x * x]))
    mean = (sums[width:] - sums[:-width]) / width
    deviation = np.sqrt(np.maximum((squares[width:] - squares[:-width]) / width - mean * mean, 0))
    return (x[width - 1 :] - mean) / (deviation + 1e-12)


def sinkhorn(kernel, a, b, tolerance):
    u = np.ones_like(a)
    for _ in range(100):
        v = b / (kernel.T @ u)
        new = a / (kernel @ v)
        if np.max(np.abs(new - u)) < tolerance:
            break
        u = new
    return u, v


def edit_distance(a, b):
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        best = np.minimum(row[1:] + 1, row[:-1] + (a[i] != b))
        best = np.concatenate([[i + 1], best]) - np.arange(len(b) + 1)
        row = np.minimum.accumulate(best) + np.arange(len(b) + 1)
    return row[-1]


def gram_schmidt(a):
    rows, columns = a.shape
    q, r = np.zeros((rows, columns)), np.zeros((columns, columns))
    for j in range(columns):
        v = a[:, j].copy()
        for i in range(j):
            r[i, j] = q[:, i] @ a[:, j]
            v -= r[i, j] * q[:, i]
        r[j, j] = np.linalg.norm(v)
        q[:, j] = v / r[j, j]
    return q, r


def lattice_boltzmann(f, steps):
    cx, cy = [0, 0, 1, 1, 1, 0, -1, -1, -1], [0, 1, 1, 0, -1, -1, -1, 0, 1]
    weights = [4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36]
    for _ in range(steps):
        for i in range(9):
            f[:, :, i] = np.roll(np.roll(f[:, :, i], cx[i], 1), cy[i], 0)
        density = f.sum(2)
        ux = (f * np.array(cx)).sum(2) / density
        uy = (f * np.array(cy)).sum(2) / density
        balance = np.zeros_like(f)
        for i in range(9):
            c = cx[i] * ux + cy[i] * uy
            balance[:, :, i] = density * weights[i] * (1 + 3 * c + 4.5 * c * c - 1.5 * (ux * ux + uy * uy))
        f += -(f - balance) / 0.6
    return f


def support_vectors(x, y, penalty, turns):
    w = np.zeros(x.shape[1])
    for turn in range(1, turns + 1):
        margin = y * (x @ w)
        gradient = penalty * w - (x * (y * (margin < 1))[:, None]).mean(0)
        w = w - gradient / (penalty * turn)
    return w


def quasi_newton(x, turns):
    steps, changes = [], []
    gradient = 2 * x + np.cos(x)
    for _ in range(turns):
        q, alphas = gradient.copy(), []
        for s, y in zip(reversed(steps), reversed(changes), strict=True):
            alpha = (s @ q) / (y @ s)
            alphas.append(alpha)
            q = q - alpha * y
        for s, y, alpha in zip(steps, changes, reversed(alphas), strict=True):
            q = q + s * (alpha - (y @ q) / (y @ s))
        new = x - 0.1 * q
        new_gradient = 2 * new + np.cos(new)
        steps.append(new - x)
        changes.append(new_gradient - gradient)
        if len(steps) > 4:
            steps.pop(0)
            changes.pop(0)
        x, gradient = new, new_gradient
    return x


def spectral_norm(a, turns):
    u = np.ones(len(a))
    for _ in range(turns):
        v = a.T @ (a @ u)
        u = a.T @ (a @ v)
    return np.sqrt((u @ v) / (v @ v))


def running_moments(rows):
    mean, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for count, row in enumerate(rows, 1):
        change = row - mean
        mean = mean + change / count
        squares = squares + change * (row - mean)
    return mean, squares / len(rows)


def recurrent_network(inputs, hidden, cell, weights, recurrent, bias):
    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    for x in inputs:
        i, f, g, o = np.split(x @ weights + hidden @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
    return hidden, cell


def sparse_power_iteration(columns, values, x, turns):
    """Multiply by a sparse matrix, whose rows have equally many elements (ELLPACK)."""
    for _ in range(turns):
        y = (values * x[columns]).sum(axis=1)
        x = y / np.max(np.abs(y))
    return x


def newton(a, b, tolerance):
    """Solve a x + sin(x) = b by Newton's method."""
    x = np.zeros_like(b)
    while True:
        residual = a @ x + np.sin(x) - b
        if np.max(np.abs(residual)) < tolerance:
            return x
        x = x - np.linalg.solve(a + np.diag(np.cos(x)), residual)


def particles_in_cells(at, speed, cells, steps, dt):
    """Move charged particles in one dimension (particle-in-cell method), with the nearest grid point."""
    for _ in range(steps):
        cell = (at * cells).astype(np.int64) % cells
        density = np.zeros(cells)
        np.add.at(density, cell, 1.0)
        potential = np.cumsum(np.cumsum(density - len(at) / cells)) / cells**2
        field = (np.roll(potential, 1) - np.roll(potential, -1)) * 0.5 * cells
        speed = speed + dt * field[cell]
        at = (at + dt * speed) % 1.0
    return at, speed


def _signs(n):
    return np.where(_rng(1).random(n) > 0.5, 1.0, -1.0)


_LINKS = _rng().random((50, 50))

SOLVERS = {
    conjugate_gradient: (_spd(40), _rng().random(40), 1e-8),
    jacobi: (_rng().random((40, 40)), 2e-2),
    runge_kutta: (_rng().random((2, 200)), 0.01, 20),
    adaptive_heun: (1 + _rng().random(1500), 0.01, 1e-3),
    logistic_regression: (_rng().random((200, 10)), (_signs(200) + 1) / 2, np.zeros(10), 0.1, 20),
    power_iteration: (_spd(40), np.ones(40), 1e-6),
    page_rank: (_LINKS / _LINKS.sum(0), 0.85, 1e-8),
    cube_roots: (1 + _rng().random(3000),),
    bisection: (np.zeros(3000), 2 * np.ones(3000), 1 + _rng().random(3000)),
    tridiagonal: (_rng(1).random(60), 3 + _rng(2).random(60), _rng(3).random(60), _rng(4).random(60)),
    molecules: (_rng().random((20, 3)) * 8, np.zeros((20, 3)), 5, 1e-4),
    mandelbrot: (_rng().random((50, 50)) * 3 - 2, 20),
    game_of_life: ((_rng().random((40, 40)) > 0.6).astype(np.int8), 6),
    mixture: (
        *(np.concatenate([_rng(1).normal(0, 1, 300), _rng(2).normal(5, 1, 300)]), np.array([-1.0, 6.0])),
        *(np.ones(2), np.ones(2) / 2, 1e-3),
    ),
    gray_scott: (_rng(1).random((40, 40)), _rng(2).random((40, 40)), 0.04, 0.06, 5),
    adam: (_rng().random(1500), np.zeros(1500), 20),
    descent: (np.zeros(1500), _rng().random(1500), 0.1, 30),
    rolling_scores: (_rng().random(3000), 50),
    sinkhorn: (_rng().random((40, 40)) + 0.1, np.ones(40) / 40, np.ones(40) / 40, 1e-9),
    edit_distance: (_rng(1).integers(0, 4, 30), _rng(2).integers(0, 4, 40)),
    gram_schmidt: (_rng().random((30, 8)),),
    lattice_boltzmann: (1 + _rng().random((20, 30, 9)), 2),
    support_vectors: (_rng().random((200, 10)), _signs(200), 0.01, 20),
    quasi_newton: (_rng().random(300), 8),
    spectral_norm: (_rng().random((40, 40)), 10),
    running_moments: (_rng().random((60, 8)),),
    recurrent_network: (
        *(_rng().random((20, 8)), np.zeros(16), np.zeros(16), _rng().random((8, 64)) / 9),
        *(_rng(1).random((16, 64)) / 9, np.zeros(64)),
    ),
    sparse_power_iteration: (
        _rng().integers(0, 1000, (1000, 5)),
        _rng().random((1000, 5)),
        np.ones(1000),
        20,
    ),
    newton: (_spd(40), _rng().random(40), 1e-10),
    particles_in_cells: (_rng(1).random(1500), _rng(2).random(1500) * 0.1, 50, 10, 0.01),
}
