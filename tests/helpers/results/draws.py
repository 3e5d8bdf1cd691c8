"""Digest cases of `pycudakit.random`: each distribution."""

import numpy as np

import pycudakit as pk
from helpers.hashed import whole
from helpers.results.common import LONG

_DRAWS = {
    "random": lambda g, **k: [g.random(**k), g.random(dtype="f4", **k), g.random(**k)],
    "bytes": lambda g, **_: [np.frombuffer(g.bytes(999), np.uint8)],
    "integers": lambda g, **k: [
        g.integers(7, **k),
        g.integers(-5, 900, dtype="i2", **k),
        g.integers(2**63, **k),
    ],
    "integers many": lambda g, **k: [
        g.integers(0, 2, dtype=bool, **k),
        g.integers(0, 2**64 - 3, dtype="u8", **k),
    ],
    "uniform": lambda g, **k: [g.uniform(-2, 5.5, **k)],
    "normal": lambda g, **k: [
        g.normal(1, 2.5, **k),
        g.standard_normal(**k),
        g.standard_normal(dtype="f4", **k),
    ],
    "lognormal": lambda g, **k: [g.lognormal(0.5, 0.25, **k)],
    "exponential": lambda g, **k: [g.exponential(3, **k), g.standard_exponential(dtype="f4", **k)],
    "gamma": lambda g, **k: [g.gamma(2.5, 3, **k), g.gamma(0.25, **k), g.standard_gamma(4, dtype="f4", **k)],
    "chisquare": lambda g, **k: [g.chisquare(3, **k), g.noncentral_chisquare(3, 1.5, **k)],
    "f": lambda g, **k: [g.f(3, 9, **k), g.noncentral_f(3, 9, 0.5, **k)],
    "beta": lambda g, **k: [g.beta(0.5, 3, **k)],
    "poisson": lambda g, **k: [g.poisson(3.5, **k), g.poisson(400, **k)],
    "binomial": lambda g, **k: [g.binomial(20, 0.25, **k), g.binomial(10**6, 0.375, **k)],
    "negative_binomial": lambda g, **k: [g.negative_binomial(5, 0.25, **k)],
    "geometric": lambda g, **k: [g.geometric(0.125, **k)],
    "logseries": lambda g, **k: [g.logseries(0.75, **k)],
    "laplace": lambda g, **k: [g.laplace(1, 2, **k)],
    "logistic": lambda g, **k: [g.logistic(1, 2, **k)],
    "gumbel": lambda g, **k: [g.gumbel(1, 2, **k)],
    "rayleigh": lambda g, **k: [g.rayleigh(2, **k)],
    "weibull": lambda g, **k: [g.weibull(1.5, **k)],
    "pareto": lambda g, **k: [g.pareto(3, **k)],
    "power": lambda g, **k: [g.power(2.5, **k)],
    "standard_cauchy": lambda g, **k: [g.standard_cauchy(**k)],
    "triangular": lambda g, **k: [g.triangular(-1, 0.5, 3, **k)],
    "standard_t": lambda g, **k: [g.standard_t(5, **k)],
    "wald": lambda g, **k: [g.wald(2, 3, **k)],
    "dirichlet": lambda g, **k: [g.dirichlet([0.5, 2, 4], **k), g.dirichlet([0.05, 0.0625], **k)],
    "multinomial": lambda g, **k: [g.multinomial(40, [0.25, 0.25, 0.5], **k)],
    "multivariate_normal": lambda g, **k: [
        g.multivariate_normal([1, -2], np.diag([4.0, 9.0]), method="cholesky", **k)
    ],
    "choice": lambda g, size: [
        g.choice(99, size),
        g.choice(9999, size[0], replace=False),
        g.choice(4, size, p=[0.125, 0.5, 0.25, 0.125]),
        g.choice(5000, 30, replace=False),
        g.choice(whole((50, 3), 0, 9), 20, axis=0, shuffle=False, replace=False),
    ],
    "permutation": lambda g, **_: [
        g.permutation(1000),
        g.permutation(whole((60, 5), 0, 99)),
        g.permuted(whole((20, 30), 0, 99), axis=1),
    ],
    "spawn": lambda g, **k: [each.random(**k) for each in (*g.spawn(2), g.jumped(3))],
}


def random():
    for number, (name, draw) in enumerate(_DRAWS.items()):
        generator = pk.random.default_rng(1000 + number)
        results = draw(generator, size=(30, 40))
        yield name, [*results, generator.random(3)]  # the state of the generator is a result, too
    generator = pk.random.default_rng(5)
    lows, shapes = whole((4, 1), 0, 9, 1), 1 + whole(50, 0, 8, 2) / 4
    yield (
        "parameters of arrays",
        [
            generator.integers(lows, lows + 50, (4, 30)),
            generator.normal(lows, shapes),
            generator.gamma(shapes),
            generator.poisson(shapes * 10),
            generator.binomial(20, shapes / 4),
            generator.beta(shapes, 2.0, (3, 50)),
        ],
    )
    out, shuffled = np.empty((50, 40), np.float32), whole(500, 0, 10**6, 3)
    generator.random(out=out, dtype="f4")
    generator.shuffle(shuffled)
    yield "in place", [out, shuffled, generator.standard_normal(LONG), generator.integers(0, 77, LONG)]
