"""Generator methods with device arrays as parameters: drawn on the device, with the bits of the host."""

import sys

import numpy as np
import pytest
from helpers.device_arrays import SIZE, on_a_gpu
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
    "o": np.array([2.5]),
    "w": np.array([[1.0], [2.0], [3.0]]),
    "e": np.zeros(0),
    "c": np.where(RNG.random(SIZE) < 0.1, np.nan, 1.5),
}
GIVEN |= {
    "ends": GIVEN["a"] * 1e6 - 2e7,
    "beyond": GIVEN["a"] * 1e17 + 1e6,
    "vast": GIVEN["a"] * 4e17 + 1e6,
    "narrow": GIVEN["s"].astype(np.float16),
    "alpha": RNG.random(5) * 3,
    "alphas": np.arange(1, 4),
    "flat": np.array([0.09, 0.01, 0.05, 0.003]),
    "flats": GIVEN["s"] / 100,
    "nearly flat": np.array([0.05, 0.09998], np.float16),
    "nothing": np.array([0.0, -0.0, 1.5]),
    "almost nothing": np.array([0.0, -0.0]),
    "none known": np.array([np.nan, 0.5]),
    "shares": np.array([0.1, 0.0, 0.6, 0.3]),
    "tables": RNG.dirichlet([1, 2, 3], SIZE),
    "floats": RNG.dirichlet([1, 1, 9], (2, ROWS)).astype(np.float32),
    "sure": np.tile([1.0, 0.0], (SIZE, 1)),
    "more than sure": np.where(np.arange(SIZE)[:, None] < 3, [0.5, 0.5 + 9.95e-13, 0.0], [0.2, 0.3, 0.5]),
    "one": np.array(2.5),
    "many": np.array(SIZE),
    "one trial": np.array(7),
    "likelihood": GIVEN["b"] / GIVEN["b"].sum(),
    "rows": RNG.random((3, ROWS + 1)),
    "thin": RNG.random((3, ROWS)).astype(np.float32),
    "rows of none": np.zeros((3, 0)),
    "odd": 2**60 + 2 * RNG.integers(0, 999, SIZE) + 1,
    "around": 2.0**60 + 4096.0 * RNG.integers(1, 99, SIZE),
    "below": -(2.0**63) + 2048.0 * RNG.integers(0, 99, SIZE),
    "all": np.array([-(2.0**63), 0.9, -0.9, 2.0**63 - 1024]),
    "mean": np.arange(3),
    "cov": np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]]),
}
P = GIVEN["likelihood"]


def of(name, *arguments, **keywords):
    """Return a call of a method, in which names of arrays are replaced by the arrays."""

    def call(rng, given):
        places = [given[each] if isinstance(each, str) else each for each in arguments]
        named = {key: given[each] if isinstance(each, str) else each for key, each in keywords.items()}
        return getattr(rng, name)(*places, **named)

    return call


@pk.fuse
def fused(rng, x):
    return rng.laplace(x, 1.0) * 2 + rng.normal(0.0, x)


@pk.fuse
def of_numbers(rng, x):
    """Draw with scalar and host parameters, and combine the result with a device array."""
    normals = rng.multivariate_normal([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], x.size)
    shares = rng.dirichlet([0.02, 0.05], x.size)
    return (normals * shares).sum(axis=1) + x[rng.choice(x.size, x.size)] * rng.standard_cauchy(x.shape)


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
    "gumbel of one element": of("gumbel", "o", 0.5, SIZE),
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
    "normal of rows": of("normal", "m", "w"),
    "normal around NaN": of("normal", "c", "b"),
    "normal of one element": of("normal", "o", 2.0, SIZE),
    "normal of none": of("normal", "e", 1.0),
    "normal of every other": lambda rng, g: rng.normal(g["m"][:, ::2], g["i"][:1]),
    "normal beside rows of the host": of("normal", "m", np.ones((3, 1))),
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
    "integers up to the last of uint64": of("integers", "u", 1 << 64, dtype=np.uint64),
    "integers of a size": of("integers", -3, "h", (2, SIZE)),
    "integers between types, of uint64": of("integers", "t", "u", dtype=np.uint64),
    "integers between floats": of("integers", "ends", "beyond"),
    "integers between floats, from a number": of("integers", -2.5e7, "ends"),
    "integers between floats, to narrow ones": of("integers", "narrow", 77, dtype=np.int16, endpoint=True),
    "integers of uint64 between integers and floats": of("integers", "n", "vast", dtype=np.uint64),
    "integers of uint64 between floats, to the last": of("integers", "vast", 2.0**64, dtype=np.uint64),
    "bools from floats": of("integers", "q", 2.0, dtype=bool),
    "integers up to floats": of("integers", "beyond", None, (2, SIZE)),
    "bools": of("integers", "t", 2, dtype=bool),
    "integers between odd ones and floats": of("integers", "odd", "around"),
    "integers between floats and odd ones": of("integers", "below", "odd", endpoint=True),
    "integers of uint64 between floats and others": of("integers", "around", "u", dtype=np.uint64),
    "integers from a large odd number to floats": of("integers", 2**60 + 1, "around"),
    "integers from floats to the last": of("integers", "all", 2**63),
    "integers from floats to the last one": of("integers", "all", 2**63 - 1, endpoint=True),
    "integers from the first to floats": of("integers", -(2**63), "around", None, np.int64, True),
    "integers of uint64 between floats and all": of("integers", "q", 2**64, None, np.uint64),
    "integers of uint64 up to Python's": lambda rng, g: rng.integers(
        g["u"][:3], [2**64, 2**64 - 1, 2**64 - 3], dtype=np.uint64
    ),
    "integers of a list of all kinds": lambda rng, g: rng.integers([-(2**62), 3, 2.5], g["around"][:3]),
    "no integers": of("integers", "a", "b", (0, 5)),
    "integers between none": of("integers", "rows of none", "w"),
    "choice by probabilities": lambda rng, g: rng.choice(g["a"], SIZE + 5, p=P),
    "choice without replacement": lambda rng, g: rng.choice(g["a"], (3, ROWS), replace=False),
    "choice of columns without replacement": lambda rng, g: rng.choice(g["m"], 30_000, False, axis=1),
    "choice without replacement by probabilities": lambda rng, g: rng.choice(g["a"], 50_000, False, P),
    "dirichlet": of("dirichlet", "alpha", SIZE),
    "dirichlet of integers": of("dirichlet", "alphas", (2, ROWS)),
    "dirichlet of one long vector": of("dirichlet", "b"),
    "choice of a size of nothing": of("choice", "a", ()),
    "choice of rows of a size of nothing": of("choice", "m", (), True, [0.5, 0.5, 0.0]),
    "choice of a column of a size of nothing": of("choice", "m", (), False, axis=np.int64(1)),
    "choice of few": of("choice", "a", (2, 900), False),
    "choice of few in order": of("choice", "a", 1900, False, shuffle=False),
    "choice of few columns": of("choice", "m", 3, False, axis=1),
    "choice of the only one": of("choice", "a", 1, False),
    "choice of none": of("choice", "a", 0),
    "choice of none without replacement": of("choice", "a", (0, 3), False),
    "choice of none by probabilities": lambda rng, g: rng.choice(g["a"], 0, p=P),
    "choice of one by probabilities, without replacement": lambda rng, g: rng.choice(g["a"], None, False, P),
    "choice of integers by probabilities there": of("choice", SIZE, SIZE, True, "likelihood"),
    "choice of integers below one of the device's": of("choice", "many", (2, SIZE)),
    "choice of few integers": of("choice", "many", 300, False),
    "permutation of columns": of("permutation", "m", np.int8(1)),
    "permuted to every other": lambda rng, g: rng.permuted(
        g["m"][:, ::2], axis=1, out=g["rows"][:, : 2 * g["m"][:, ::2].shape[1] : 2]
    ),
    "random to columns": lambda rng, g: rng.random(out=g["m"].T),
    "random of float32 to columns": lambda rng, g: rng.random((ROWS, 3), np.float32, g["thin"].T),
    "standard_normal to columns": lambda rng, g: rng.standard_normal(out=g["m"].T),
    "standard_exponential to columns": lambda rng, g: rng.standard_exponential(out=g["m"].T),
    "laplace around one": of("laplace", "one", 2.0, SIZE),
    "wald of one": of("wald", "one", "one", (2, SIZE)),
    "binomial of one": of("binomial", "one trial", 0.25, size=SIZE),
    "normal of rows of none": of("normal", "rows of none", "w"),
    "triangular of rows of none": of("triangular", "rows of none", "w", 4),
    "binomial of rows of none": of("binomial", 5, "rows of none"),
    "f of no size": of("f", "o", "o", (0, 1)),
    "laplace of no size": of("laplace", "one", 1.0, 0),
    "standard_gamma to out that begins with it": lambda rng, g: rng.standard_gamma(g["a"][:1], out=g["a"]),
    "standard_gamma to out that it overlaps": lambda rng, g: rng.standard_gamma(g["b"][:-1], out=g["b"][1:]),
    "dirichlet of few": of("dirichlet", "alpha", 7),
    "dirichlet of one": of("dirichlet", "alpha"),
    "dirichlet of no vectors": of("dirichlet", "alpha", (2, 0)),
    "dirichlet of a size of nothing": of("dirichlet", "flat", ()),
    "dirichlet by sticks": of("dirichlet", "flat", (3, ROWS)),
    "dirichlet by few sticks": of("dirichlet", "flat", 3),
    "dirichlet by no sticks": of("dirichlet", "flat", 0),
    "dirichlet by one long stick": of("dirichlet", "flats"),
    "dirichlet by sticks of two": of("dirichlet", "nearly flat", SIZE),
    "dirichlet by sticks of nothing": of("dirichlet", "almost nothing", SIZE),
    "dirichlet of nothing": of("dirichlet", "nothing", SIZE),
    "dirichlet of unknown parameters": of("dirichlet", "none known", 5),
    "multinomial": of("multinomial", 40, "shares", SIZE),
    "multinomial of trials": of("multinomial", "n", [0.2, 0.3, 0.5]),
    "multinomial of tables": of("multinomial", "n", "tables"),
    "multinomial of tables and a number": of("multinomial", np.int32(20), "tables", (2, SIZE)),
    "multinomial of float32": of("multinomial", 9, "floats"),
    "multinomial of sure outcomes": of("multinomial", "h", "sure"),
    "multinomial of one outcome": of("multinomial", "i", [1.0]),
    "multinomial of few": of("multinomial", 9, "shares", 30),
    "multinomial of one": of("multinomial", 90, "shares"),
    "multinomial of one, of a size of nothing": of("multinomial", 90, "shares", ()),
    "multinomial of one sure outcome": of("multinomial", "one trial", [1.0]),
    "multinomial of few tables": lambda rng, g: rng.multinomial([[3], [90]], g["tables"][:5]),
    "multinomial of a table": lambda rng, g: rng.multinomial(30, g["tables"][7], 2),
    "multinomial of a sum a little above 1": of("multinomial", "n", "more than sure"),
    "multivariate_normal": of("multivariate_normal", "mean", "cov", SIZE),
    "multivariate_normal around the host's": lambda rng, g: rng.multivariate_normal(
        [3, 2, 1.5], g["cov"], (3, ROWS), method="eigh"
    ),
    "multivariate_normal of few": lambda rng, g: rng.multivariate_normal(g["mean"], np.eye(3), 9, "raise"),
    "multivariate_normal of one": of("multivariate_normal", "mean", "cov"),
    "multivariate_normal of none": of("multivariate_normal", "mean", "cov", 0),
    "in a fused function of numbers": lambda rng, g: of_numbers(rng, g["a"]),
    "in a fused function": lambda rng, g: fused(rng, g["a"]),
}


class Arrays(dict):
    """Named arrays, created on the host or the device when first used."""

    def __init__(self, place):
        self.place = place

    def __missing__(self, key):
        self[key] = self.place({**GIVEN, **ODD}[key].copy())
        return self[key]


def check(call, up, down):
    """Compare the draws on the device with those of the CPU engine, and the generator states afterwards."""
    ours, there = Arrays(np.asarray), Arrays(up)
    host, device = pk.random.default_rng(5), pk.random.default_rng(5)
    with pk.engine("cpu"):
        want = call(host, ours)
    got = call(device, there)
    last = pk.last_call()
    assert type(got).__module__ == type(up(np.ones(1))).__module__
    assert_array_equal(down(got), want, strict=True)
    assert device == host
    for key, x in ours.items():
        assert_array_equal(down(there[key]), x)
    return last


def skip_if_lacking(library, name):
    module = library.module.__name__
    if module == "torch" and "uint64" in name:
        pytest.skip("its integers without a sign are not for all devices")
    if module == "numba.cuda" and ("every other" in name or "to columns" in name):
        pytest.skip("its views are made by other means, or are copies")


@pytest.mark.parametrize("name", CALLS)
def test_drawn_on_the_fake_gpu(gpu, name):
    cupy = sys.modules["cupy"]
    check(CALLS[name], cupy.asarray, cupy.asnumpy)
    of_the_device = 8 * SIZE if "there" in name else 0
    assert gpu.bytes_up + gpu.bytes_down <= 128 + of_the_device


@on_a_gpu
@pytest.mark.parametrize("name", CALLS)
def test_draws_on_device(library, name):
    skip_if_lacking(library, name)
    last = check(CALLS[name], library.up, library.down)
    is_of_the_host = "by probabilities" in name or "of the host" in name
    of_the_host = 8 * SIZE if is_of_the_host else 0  # uploaded, as often as rows are repeated
    if is_of_the_host and "there" in name:  # downloaded first
        of_the_host *= 2
    assert last.bytes_up + last.bytes_down < 20_000 + of_the_host, last


# ---- Invalid parameters --------------------------------------------------------------------------------


def with_one(name, value):
    x = GIVEN[name].copy()
    x[77] = value
    return x


ODD = {
    "-": with_one("b", -1.0),
    "0": with_one("b", 0.0),
    "nan": with_one("b", np.nan),
    "0 -": np.where(GIVEN["b"] > 2, GIVEN["b"], -0.5),
    "likely": np.array([0.5, 0.6, 0.2]),
    "likely tables": GIVEN["tables"] * 1.5,
    "tables nan": np.where(GIVEN["tables"] > 0.99, np.nan, GIVEN["tables"]),
    "tables too likely": np.where(np.arange(SIZE)[:, None] == 7, [0.5, 0.5 + 1.005e-12, 0], GIVEN["tables"]),
    "less than nothing": np.array([0.05, -1e-300]),
    "inf nan": np.array([1.0, np.inf, np.nan]),
    "nan inf": np.array([[1.0, np.nan], [np.inf, 2.0]]),
    "nan -": np.where(GIVEN["b"] > 2, np.nan, -1.0),
    "inf": with_one("b", np.inf),
    "large": with_one("b", 1e300),
    "2": with_one("q", 2.0),
    "tiny": with_one("q", 1e-300),
    "-i": with_one("i", -5),
    "p": P,
    "p -": P * np.where(np.arange(SIZE) == 7, -1, 1),
    "p nan": P * np.where(np.arange(SIZE) == 7, np.nan, 1),
    "p few": np.where(np.arange(SIZE) < 2, 0.5, 0.0),
}
REFUSED = [
    ("normal", 0.0, "-"),
    ("normal", "a", -1.0),
    ("exponential", "nan -"),
    ("laplace", "-", "-"),
    ("gumbel", 0, "-i"),
    ("lognormal", "-", "-"),
    ("beta", "a", "0"),
    ("chisquare", "-i"),
    ("standard_t", "0"),
    ("f", "a", "-"),
    ("wald", "-", "0"),
    ("noncentral_f", "a", 3, "-"),
    ("noncentral_f", "-", "-", "-"),
    ("noncentral_chisquare", "0", 1.0),
    ("poisson", "nan"),
    ("poisson", "large"),
    ("geometric", "2"),
    ("logseries", "2"),
    ("binomial", "n", "2"),
    ("binomial", "-i", "2"),
    ("binomial", "a", "q"),
    ("negative_binomial", 3, "2"),
    ("negative_binomial", "0", "2"),
    ("negative_binomial", "a", "tiny"),
    ("negative_binomial", "inf", 0.5),
    ("weibull", "-"),
    ("pareto", "0"),
    ("power", "0"),
    ("standard_gamma", "-"),
    ("triangular", "a", "b", 0.0),
    ("triangular", 0.0, "a", "b"),
    ("triangular", 0.0, 0.0, "0"),
    ("uniform", "b", 2.0),
    ("uniform", "nan", "large"),
    ("integers", "i", "h"),
    ("integers", 0, "-i", None, np.int64, True),
    ("integers", 0, "n", None, np.int8),
    ("integers", "-i", "u", None, np.uint64),
    ("integers", "i", "u"),
    ("integers", "i", None, None, np.float64),
    ("integers", "ends", "a", None, np.int16),
    ("integers", "a", "ends"),
    ("integers", "a", "a", None, np.int64),
    ("integers", 0, "beyond", None, np.int32),
    ("integers", "vast"),
    ("integers", "nan"),
    ("integers", "a", "inf"),
    ("integers", -1.5, "a", None, np.uint64),
    ("integers", "u", "a"),
    ("integers", "around", "odd"),
    ("integers", "odd", "odd", None, np.int64),
    ("integers", "around", 2**60),
    ("integers", "below", -(2**63), None, np.int64, True),
    ("integers", "below", 2**63 + 1),
    ("integers", "around", "-i"),
    ("integers", "inf nan"),
    ("integers", "nan inf"),
    ("integers", "i", "rows of none", (2, 3)),
    ("dirichlet", "-", 3),
    ("dirichlet", "0 -"),
    ("dirichlet", "less than nothing", SIZE),
    ("dirichlet", "m"),
    ("dirichlet", "alpha", -1),
    ("dirichlet",),
    ("multinomial", "-i", "shares"),
    ("multinomial", "i", "-"),
    ("multinomial", "i", "likely"),
    ("multinomial", "i", "likely tables"),
    ("multinomial", "i", "tables too likely"),
    ("multinomial", "i", "tables nan"),
    ("multinomial", "a", "shares"),
    ("multinomial", "u", "shares"),
    ("multinomial", "i", "tables", 7),
    ("multinomial", "i", "m"),
    ("multinomial", "i", "shares", -1),
    ("multivariate_normal", "b", "cov", SIZE),
    ("multivariate_normal", "mean", "m", SIZE),
    ("multivariate_normal", "mean", "cov", -1),
    ("multivariate_normal", "w", "cov", SIZE),
    ("multivariate_normal", "mean", "cov", SIZE, None),
    ("laplace", "a", "b", 5),
    ("f", "a", "m"),
    ("integers", "i", "m"),
    ("wald", "a", "b", -1),
    ("standard_gamma", "a", None, np.int32),
    ("normal", "a", 1j),
    ("gamma",),
    ("choice", "a", 5, True, "p -"),
    ("choice", "a", 5, True, "p nan"),
    ("choice", "a", 5, False, "b"),
    ("choice", "m", 5, False, "p"),
    ("choice", "a", 5, False, "p few"),
    ("choice", "a", SIZE + 1, False),
    ("choice", "a", 5, False, None, 1),
    ("choice", "many", SIZE + 1, False),
    ("choice", "one", 5),
    ("choice", 7, 5, True, "p"),
]


def refused(call, place):
    """Return the error of a call, and the generator state and arrays afterwards."""
    name, *places = call
    given = Arrays(place)
    rng = pk.random.default_rng(5)
    with pytest.raises((ValueError, TypeError, OverflowError, IndexError)) as told:
        getattr(rng, name)(*[given[each] if isinstance(each, str) else each for each in places])
    assert rng == pk.random.default_rng(5)
    return type(told.value), str(told.value), given


def check_refused(call, up, down):
    with pk.engine("cpu"):
        kind, text, _ = refused(call, np.asarray)
    told = refused(call, up)
    assert told[:2] == (kind, text)
    for key, x in told[2].items():
        assert_array_equal(down(x), {**GIVEN, **ODD}[key])


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("call", REFUSED, ids=str)
def test_refused_on_the_fake_gpu(call):
    cupy = sys.modules["cupy"]
    check_refused(call, cupy.asarray, cupy.asnumpy)


@on_a_gpu
@pytest.mark.parametrize("call", REFUSED, ids=str)
def test_refused_parameters_on_device(library, call):
    skip_if_lacking(library, ["uint64"] if "u" in call else [])
    check_refused(call, library.up, library.down)


@pytest.mark.usefixtures("gpu")
def test_nothing_is_written_to_out():
    x, out = (sys.modules["cupy"].asarray(GIVEN[key]) for key in "ab")
    x.values[7] = -1
    rng = pk.random.default_rng(5)
    for given in ({"shape": x, "out": out}, {"shape": out, "dtype": np.float32, "out": out}):
        with pytest.raises((ValueError, TypeError), match=r"shape < 0|Expected float32"):
            rng.standard_gamma(**given)
    assert_array_equal(out.values, GIVEN["b"])
    assert rng == pk.random.default_rng(5)


@pytest.mark.usefixtures("gpu")
def test_out_that_is_a_parameter():
    x = sys.modules["cupy"].asarray(GIVEN["b"])
    assert pk.random.default_rng(5).standard_gamma(x, out=x) is x
    with pk.engine("cpu"):
        assert_array_equal(x.values, pk.random.default_rng(5).standard_gamma(GIVEN["b"]))
