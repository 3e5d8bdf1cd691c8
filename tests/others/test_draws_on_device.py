"""Random numbers whose parameters, or what is chosen from, lie on a GPU: drawn there, with the host's bits."""

import sys
import warnings

import numpy as np
import pytest
from helpers.there import SIZE, on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk

RNG = np.random.default_rng(2)
ROWS = SIZE // 3
GIVEN = {
    "a": RNG.random(SIZE) * 40 + 0.5,
    "b": RNG.random(SIZE) * 3 + 0.5,
    "q": RNG.random(SIZE) * 0.98 + 0.01,
    "i": RNG.integers(1, 60, SIZE),
    "j": RNG.integers(100, 1 << 40, SIZE),
    "h": RNG.integers(1, 60, SIZE).astype(np.int16),
    "u": RNG.integers(1 << 63, 1 << 64, SIZE, np.uint64),
    "s": (RNG.random(SIZE) * 9 + 0.5).astype(np.float32),
    "t": RNG.random(SIZE) < 0.5,
    "m": RNG.random((3, ROWS)) * 9 + 0.5,
    "n": RNG.integers(0, 5000, SIZE),
}
P = RNG.random(SIZE)
P /= P.sum()


def of(name, *arguments, **keywords):
    """Return a call of a method with arrays of these names in the place of the names."""

    def call(rng, given):
        places = [given[each] if isinstance(each, str) else each for each in arguments]
        named = {key: given[each] if isinstance(each, str) else each for key, each in keywords.items()}
        return getattr(rng, name)(*places, **named)

    return call


CALLS = {
    "beta": of("beta", "a", "b"),
    "binomial": of("binomial", "n", "q"),
    "binomial of a number of trials": of("binomial", 40, "q"),
    "binomial of a probability": of("binomial", "h", 0.25),
    "chisquare": of("chisquare", "a"),
    "exponential": of("exponential", "a"),
    "f": of("f", "a", "b"),
    "f of a number": of("f", 7, "i"),
    "gamma": of("gamma", "b", "a"),
    "geometric": of("geometric", "q"),
    "gumbel": of("gumbel", "a", "b"),
    "laplace": of("laplace", "a", "b"),
    "logistic": of("logistic", "a", scale="s"),
    "lognormal": of("lognormal", "b", "q"),
    "logseries": of("logseries", "q"),
    "negative_binomial": of("negative_binomial", "a", "q"),
    "negative_binomial of integers": of("negative_binomial", "i", 0.3),
    "noncentral_chisquare": of("noncentral_chisquare", "a", "b"),
    "noncentral_f": of("noncentral_f", "a", "b", "q"),
    "noncentral_f of two numbers": of("noncentral_f", 3, 4.5, "q"),
    "normal": of("normal", "a", "b"),
    "normal around integers": of("normal", "i", 2.0),
    "normal around narrow integers": of("normal", "h", "s"),
    "normal around bools": of("normal", "t", "a"),
    "normal of a size": of("normal", "i", 2.0, (2, SIZE)),
    "normal of rows": of("normal", "m", np.array([[1.0], [2.0], [3.0]])),
    "normal beside an array of the host": of("normal", "b", np.linspace(1, 2, 3)[:, None], (3, SIZE)),
    "pareto": of("pareto", "a"),
    "poisson": of("poisson", "a"),
    "poisson of integers": of("poisson", "i"),
    "poisson of float32": of("poisson", "s"),
    "power": of("power", "a"),
    "rayleigh": of("rayleigh", "a"),
    "rayleigh of a size": of("rayleigh", "m", (2, 3, ROWS)),
    "standard_gamma": of("standard_gamma", "b"),
    "standard_gamma of float32": of("standard_gamma", "s", dtype=np.float32),
    "standard_gamma to out": of("standard_gamma", "s", out="a"),
    "standard_gamma to out in order": of("standard_gamma", "s", SIZE, np.float64, "b"),
    "standard_t": of("standard_t", "a"),
    "triangular": of("triangular", 0.25, "b", 90),
    "triangular of integers": of("triangular", 0, 50, "j"),
    "uniform": of("uniform", "b", "j"),
    "uniform of a size": of("uniform", -2, "m", (2, 3, ROWS)),
    "wald": of("wald", "a", "b"),
    "weibull": of("weibull", "a"),
    "integers": of("integers", "i"),
    "integers between": of("integers", "i", "j"),
    "integers between, with the end": of("integers", "h", 60, dtype=np.int32, endpoint=True),
    "integers below narrow ones": of("integers", -7, "h", dtype=np.int8),
    "integers of uint64": of("integers", "i", "u", dtype=np.uint64),
    "integers up to the last": of("integers", "u", 1 << 64, dtype=np.uint64),
    "integers of a size": of("integers", -3, "h", (2, SIZE)),
    "integers between two types": of("integers", "t", "u", dtype=np.uint64),
    "bools": of("integers", "t", 2, dtype=bool),
    "choice by probabilities": lambda rng, g: rng.choice(g["a"], SIZE + 5, p=P),
    "choice without replacement": lambda rng, g: rng.choice(g["a"], (3, ROWS), replace=False),
    "choice of columns without replacement": lambda rng, g: rng.choice(g["m"], 30_000, False, axis=1),
    "choice without replacement by probabilities": lambda rng, g: rng.choice(g["a"], 50_000, False, P),
}
