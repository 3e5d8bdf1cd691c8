"""Fused kernels compiled by NVRTC give the bits, dtypes and warnings of the interpreted ones."""

import warnings

import numpy as np
import pytest
from helpers.strategies import assert_values

import pycudakit as pk
from pycudakit.fusing.memory import background_jit
from pycudakit.kernels.compiling import cache

SIZE = 70_001
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

UNARY = {
    "f": [
        *("negative", "absolute", "sign", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10"),
        *("log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh"),
        *("arccosh", "arctanh", "floor", "ceil", "trunc", "rint", "isnan", "signbit", "reciprocal", "square"),
    ],
    "i": ["negative", "absolute", "sign", "invert", "square", "logical_not"],
    "b": ["logical_not", "invert"],
}
BINARY = {
    "f": [
        *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "arctan2"),
        *("hypot", "maximum", "minimum", "fmax", "fmin", "copysign", "nextafter", "less", "greater_equal"),
        *("equal", "not_equal", "logical_and", "logical_or", "logical_xor", "heaviside"),
    ],
    "i": [
        *("add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum", "bitwise_and"),
        *("bitwise_or", "bitwise_xor", "left_shift", "right_shift", "less", "equal", "divide"),
    ],
    "b": ["logical_and", "logical_or", "bitwise_xor", "equal", "maximum"],
}


@pytest.fixture(scope="module", autouse=True)
def _on_a_gpu():
    if not pk.engines()["cuda"].available:
        pytest.skip("passes are compiled for a GPU")
    if cache.why_not_cuda() is not None:
        pytest.skip("NVRTC is not installed")


@pytest.fixture
def images(monkeypatch):
    """Collect the sizes of the binaries that are compiled in the test; none exists before it."""
    made = []

    def compile_pass(text, real=background_jit._compiled):
        image = real(text)
        made.append(len(image))
        return image

    background_jit.wait()
    pk.release()
    monkeypatch.setattr(background_jit, "_compiled", compile_pass)
    return made


def values(dtype, seed):
    """Return values of a dtype, special values among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(SIZE) < 0.5
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -9), 10, SIZE)
        wide = rng.integers(limits.min, limits.max, SIZE, dtype=dtype, endpoint=True)
        return np.where(rng.random(SIZE) < 0.5, small, wide).astype(dtype)
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 0.5, 88.8, 6e4], dtype)
    ordinary = (rng.standard_normal(SIZE) * 4).astype(dtype)
    return np.where(rng.random(SIZE) < 0.1, rng.choice(special, SIZE), ordinary)


def result_and_warnings(function, *arguments):
    """Return the result and the warnings of a function."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = function(*arguments)
    return results, sorted({str(warning.message) for warning in caught})


def assert_compiled_alike(images, function, *arguments):
    """Compare a compiled fused function with its calls one by one."""
    fused = pk.fuse(function)
    with pk.engine("cuda"), pk.tuned(worth_compiling=1):
        interpreted = result_and_warnings(fused, *arguments)
        background_jit.wait()
        assert images, "nothing was compiled"
        assert all(images), "NVRTC refused a pass"
        results = result_and_warnings(fused, *arguments)
    assert results[1] == interpreted[1]
    for one, other in zip(results[0], interpreted[0], strict=True):
        assert one.dtype == other.dtype
        assert_values(one, other)
    return results[0]


def kind_of(dtype):
    return {"f": "f", "b": "b"}.get(np.dtype(dtype).kind, "i")


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("arity", [1, 2])
def test_every_operation(images, arity, dtype):
    names = (UNARY if arity == 1 else BINARY)[kind_of(dtype)]
    arguments = [values(dtype, seed) for seed in range(arity)]

    def all_of_them(*arrays):
        return [getattr(np, name)(*arrays) for name in names]

    results = assert_compiled_alike(images, all_of_them, *arguments)
    with pk.engine("cuda"), np.errstate(all="ignore"):
        for name, result in zip(names, results, strict=True):
            assert_values(result, getattr(pk, name)(*arguments))


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int64", "uint16", "bool"])
def test_casts(images, dtype):
    x = values(dtype, 5)
    types = [*FLOATS, *INTEGERS, "bool"]

    def cast(x):
        return [x.astype(to) for to in types if to != dtype]

    assert_compiled_alike(images, cast, x)


def test_views_and_writes(images):
    a, b = (np.random.default_rng(i).random((301, 403)).astype(np.float32) for i in range(2))

    def step(a, b):
        c = a.copy()
        c[1:-1, 1:-1] = 0.25 * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
        c[::-1, ::2] += b[:, :202]
        return c, (c - b[0]) * b[:, :1], c.T + 1

    results = assert_compiled_alike(images, step, a, b)
    for got, wanted in zip(results, step(a, b), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_three_dimensions_and_reductions(images):
    x = np.random.default_rng(1).standard_normal((23, 57, 61))

    def whole(x):
        y = np.exp(x[1:, :, ::-1]) * x[:-1]
        return y.sum(axis=0), y.std(axis=2), np.where(y > 0, y, x[1:]).max(axis=1), x[:, 3] * 2

    for got, wanted in zip(assert_compiled_alike(images, whole, x), whole(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_quotients_and_roots_of_all_magnitudes(images, dtype):
    rng = np.random.default_rng(6)
    size = 1 << 20

    def numbers():  # ordinary ones, then of all magnitudes, then with some zeros
        magnitudes = np.exp2(np.where(np.arange(size) < size // 2, 9, 150) * rng.uniform(-1, 1, size))
        with np.errstate(over="ignore"):
            signed = (magnitudes * rng.choice([-1, 1], size)).astype(dtype)
        signed[-size // 8 :] = rng.choice([0, -0.0, 1.5, -3], size // 8)
        return signed

    def divide(x, y):
        return x / y, np.sqrt(np.abs(x)), np.sqrt(y), x / 3, y / -7, x / 0

    x, y = numbers(), numbers()
    results = assert_compiled_alike(images, divide, x, y)
    with np.errstate(all="ignore"):
        wanted = divide(x, y)
    for got, want in zip(results, wanted, strict=True):
        assert_values(got, want)


def test_passes_are_forgotten(images):
    x = np.ones(SIZE)

    @pk.fuse
    def twice(x):
        return np.exp(x) + x

    with pk.engine("cuda"), pk.tuned(worth_compiling=1):
        for _ in range(3):
            twice(x)
            background_jit.wait()
        assert len(images) == 1
        pk.release()
        twice(x)
        background_jit.wait()
        assert len(images) == 2


def test_compiled_passes_of_a_plan_report_errors(images):
    """A replayed call that divides by zero is traced, and warns."""
    ratio = pk.fuse(lambda x, y: x / y + 1)
    x, y = np.ones(1000), np.ones(1000)
    with pk.engine("cuda"), pk.tuned(worth_compiling=1):
        for _ in range(6):
            ratio(x, y)
            background_jit.wait()
        assert images
        assert pk.last_call().reason.endswith("replayed")
        y[7] = 0
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            result = ratio(x, y)
        assert np.isinf(result[7])


def test_programs_that_do_not_compile_are_interpreted(monkeypatch, images):
    monkeypatch.setattr(background_jit, "_compiled", lambda _: b"")
    x = np.linspace(0, 1, SIZE)
    with pk.engine("cuda"), pk.tuned(worth_compiling=1):
        for _ in range(2):
            assert_values(pk.fuse(lambda x: np.sqrt(x) * x)(x), pk.multiply(pk.sqrt(x), x))
            background_jit.wait()


def test_an_image_for_another_gpu(monkeypatch, images):
    monkeypatch.setattr(background_jit, "_compiled", lambda _: b"no image at all")
    x = np.linspace(0, 1, SIZE)
    with pk.engine("cuda"), pk.tuned(worth_compiling=1):
        for _ in range(2):
            assert_values(pk.fuse(lambda x: np.sqrt(x) * x)(x), pk.multiply(pk.sqrt(x), x))
            background_jit.wait()
