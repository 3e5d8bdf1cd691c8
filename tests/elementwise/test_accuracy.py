"""Accuracy of the inexact functions: errors in ULP against higher precision, and bits at any position."""

import functools

import mpmath
import numpy as np
import pytest
from helpers.strategies import FLOATS, assert_values, build, special_values

import pycudakit as pk

# The stated bounds, in units of the last place of the exact result, for float16, float32 and float64.
# float16 is computed as float32 and rounded.
BOUNDS = {
    "cbrt": (0.52, 0.6, 0.6),
    "exp": (0.52, 1.0, 1.0),
    "exp2": (0.52, 1.0, 1.1),
    "expm1": (0.52, 1.4, 1.4),
    "log": (0.52, 1.0, 1.0),
    "log2": (0.52, 1.2, 1.1),
    "log10": (0.52, 1.1, 1.1),
    "log1p": (0.52, 1.1, 1.1),
    "sin": (0.52, 1.6, 1.6),
    "cos": (0.52, 1.6, 1.6),
    "tan": (0.52, 1.4, 1.4),
    "arcsin": (0.52, 1.3, 1.3),
    "arccos": (0.52, 1.3, 1.3),
    "arctan": (0.52, 1.4, 1.4),
    "sinh": (0.52, 1.5, 1.8),
    "cosh": (0.52, 1.4, 1.4),
    "tanh": (0.52, 1.7, 2.4),
    "arcsinh": (0.52, 1.4, 1.4),
    "arccosh": (0.52, 1.7, 1.7),
    "arctanh": (0.52, 2.0, 2.0),
    "arctan2": (0.52, 1.6, 1.8),
    "hypot": (0.52, 1.1, 1.1),
    "power": (0.52, 1.1, 1.4),
    "float_power": (0.52, 1.4, 1.4),
}
UNARY = [n for n in BOUNDS if n not in ("arctan2", "hypot", "power", "float_power")]
BINARY = ["arctan2", "hypot", "power"]
MPMATH = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "arctan2": "atan2", "log1p": "log1p", "expm1": "expm1",
}  # fmt: skip
LONG = np.finfo(np.longdouble).nmant > 60


def bound(name, dtype):
    return BOUNDS[name][FLOATS.index(np.dtype(dtype).name)]


def test_no_bound_exceeds_four_ulp():
    assert max(max(b) for b in BOUNDS.values()) <= 4


def exact(name, *arguments):
    """Return the function's values as long doubles, with a significand of 64 bits or more."""
    if not LONG and arguments[0].dtype == np.float64:
        pytest.skip("long double is double here; test_against_mpmath remains")
    with np.errstate(all="ignore"):
        return getattr(np, name)(*(a.astype(np.longdouble) for a in arguments))


def by_mpmath(name, *arguments):
    """Return the function's value to 400 bits, or more if the argument is huge."""
    x = [mpmath.mpf(a) for a in arguments]
    own = {
        "cbrt": lambda a: mpmath.sign(a) * mpmath.cbrt(abs(a)),
        "exp2": lambda a: mpmath.power(2, a),
        "log2": lambda a: mpmath.log(a) / mpmath.log(2),
        "log10": mpmath.log10,
        "power": mpmath.power,
    }
    function = own.get(name) or getattr(mpmath, MPMATH.get(name, name))
    with mpmath.workprec(1500 if name in ("sin", "cos", "tan") else 400):
        value = function(*x)
        return mpmath.mpf("nan") if isinstance(value, mpmath.mpc) else +value


def errors_in_ulp(got, want, dtype):
    """Return the distance from exact values, in units of their last place in `dtype`."""
    info = np.finfo(dtype)
    limit = np.ldexp(np.longdouble(1), int(info.maxexp))
    rounds_to_infinity = np.abs(want) >= limit * (1 + 4 * np.longdouble(info.eps))
    assert np.array_equal(np.isinf(got) | ~rounds_to_infinity, np.ones(got.shape, bool)), "should be infinite"
    want = np.clip(want, -limit, limit)
    _, exponent = np.frexp(np.where(np.isnan(want), 1, want))
    exponent = np.clip(exponent, info.minexp + 1, int(info.maxexp))
    unit = np.ldexp(np.longdouble(1), exponent - info.nmant - 1)
    return np.abs(np.clip(got.astype(np.longdouble), -limit, limit) - want) / unit


def check(name, dtype, *arguments):
    with np.errstate(all="ignore"):
        got = np.asarray(getattr(pk, name)(*arguments))
    want = exact(name, *arguments)
    assert got.dtype == dtype

    def at(index):
        return f"{name}({', '.join(repr(a[index]) for a in arguments)}): {got[index]!r}, not {want[index]!r}"

    nan = np.isnan(want)
    wrong = np.isnan(got) != nan
    assert not wrong.any(), at(int(np.argmax(wrong)))
    wrong = (np.signbit(got) != np.signbit(want)) & ~nan
    assert not wrong.any(), at(int(np.argmax(wrong)))
    error = np.where(nan, 0, errors_in_ulp(got, want, dtype))
    worst = int(np.argmax(error))
    assert error[worst] <= bound(name, dtype), f"{at(worst)}, {float(error[worst]):.3f} ULP"


# Arguments where a function's algorithm or behaviour changes: edges of its domain and of overflow, and zeros.
EDGES = {
    "exp": [88.7228, -87.3365, -103.97, 709.782712893384, -708.396, -745.133, 11.09, -17.3],
    "exp2": [127.99999, -126, -149, 1023.9999999999999, -1022, -1074, 15.99, -24, -25],
    "expm1": [88.7228, 709.782712893384, -17.4, -37.5, -1e-5, 1e-9, 0.35],
    "sinh": [89.4159, 710.4758600739439, 1e-4, 1, 11.7],
    "cosh": [89.4159, 710.4758600739439, 1e-4, 1, 11.7],
    "tanh": [0.55, 1e-4, 9.01, 19.06, 22],
    "log": [1, 0.7071067811865476, 1.4142135623730951],
    "log2": [1, 0.7071067811865476, 1.4142135623730951, 8, 0.125],
    "log10": [1, 0.7071067811865476, 10, 1000, 0.1],
    "log1p": [-1, -0.29289321881345254, 0.41421356237309503, 1e-10],
    "arcsin": [0.5, 1, -1, 1e-5],
    "arccos": [0.5, 1, -1, 1e-5],
    "arctan": [0.5, 1, 2, 1e20, 0.4142135623730951, 2.414213562373095],
    "arcsinh": [1, 1e-5, 1e10, 1e19, 1e154],
    "arccosh": [1, 2, 1e10, 1e19, 1e154],
    "arctanh": [1, -1, 0.5, 1e-5, 0.26],
    "cbrt": [8, 27, 1e-300, 1e300, 1],
}
_TURNS = [k * np.pi / 4 for k in (*range(-9, 10), 1000, 12345, 10**6, 10**9)]
EDGES |= {name: [*_TURNS, 1e4, 39000.0, 105615.0, 2.0**20, 2.0**40, 1e22] for name in ("sin", "cos", "tan")}


def neighbours(centres, dtype, steps):
    """Return every float within some steps of each centre, of both signs."""
    with np.errstate(over="ignore"):
        centres = np.array(centres, dtype)
    word = np.dtype(f"i{np.dtype(dtype).itemsize}")
    offsets = np.arange(-steps, steps + 1).astype(word)
    near = (np.abs(centres).view(word)[:, None] + offsets).view(dtype).ravel()
    near = near[np.isfinite(near)]
    return np.concatenate([near, -near])


def arguments_of(name, dtype, size):
    """Return random bits, values in the function's interesting range, special values and edges."""
    ordinary = np.random.default_rng(5).standard_normal(size)
    parts = [build(dtype, (size,), "bits", 1), special_values(dtype), neighbours(EDGES[name], dtype, 40)]
    parts += [(ordinary * scale).astype(dtype) for scale in (0.01, 1, 10, 200)]
    parts += [(np.abs(ordinary) % 1).astype(dtype), (1 + ordinary * 1e-3).astype(dtype)]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", UNARY)
def test_every_float16(engine, name):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    check(name, np.float16, every)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(engine, name, dtype):
    check(name, np.dtype(dtype), arguments_of(name, dtype, 60_000))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(engine, name, dtype):
    rng = np.random.default_rng(7)
    size = 60_000
    special = special_values(dtype)
    a = [build(dtype, (size,), "bits", 2), np.repeat(special, special.size)]
    b = [build(dtype, (size,), "bits", 3), np.tile(special, special.size)]
    near_one, exponent = 1 + rng.standard_normal(size) * 1e-2, rng.standard_normal(size) * 500
    scale = np.exp(rng.standard_normal(size) * 3)
    for x, y in (
        (near_one, exponent),
        (scale, rng.standard_normal(size) * 20),
        (scale, scale[::-1]),
        (scale, scale),
    ):
        with np.errstate(over="ignore"):
            a.append(x.astype(dtype))
            b.append(y.astype(dtype))
    if name == "power":  # the edges of overflow and underflow, and negative bases to whole powers
        base = np.abs(scale) + 1
        a += [base.astype(dtype), (1 / base).astype(dtype), -base.astype(dtype)]
        b += [
            (e * np.log(2) / np.log(base)).astype(dtype)
            for e in (np.finfo(dtype).maxexp, np.finfo(dtype).maxexp)
        ]
        b.append(np.rint(exponent / 20).astype(dtype))
    check(name, np.dtype(dtype), np.concatenate(a), np.concatenate(b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["power", "float_power"])
def test_squares_are_rounded_once(engine, name, dtype):
    """As NumPy's with a scalar exponent; also in arrays of exponents, whatever the others are."""
    function, x = (
        getattr(pk, name),
        np.concatenate([special_values(dtype), build(dtype, (5000,), "ordinary", 4)]),
    )
    mixed = np.where(np.arange(x.size) % 3, 2, 1.5).astype(dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64) if name == "float_power" else x
        squares = wide * wide
        assert_values(function(x, 2), squares)
        assert_values(function(x, np.full(x.size, 2, dtype)), squares)
        assert_values(function(x, mixed)[mixed == 2], squares[mixed == 2])
    with pytest.warns(RuntimeWarning, match=f"overflow encountered in {name}"):
        function(np.full(100, np.finfo(wide.dtype).max), 2)


def test_float_power(engine):
    a, b = build("float64", (30_000,), "ordinary", 2), build("float64", (30_000,), "ordinary", 3)
    check("float_power", np.dtype("float64"), np.abs(a), b)


HUGE = [
    1e15,
    1e22,
    1e100,
    1e300,
    2.0**1023,
    6381956970095103.0 * 2.0**797,
    np.finfo(float).max,
    5.319372648326541e255,
]


@functools.cache
def reference(name):
    """Return arguments, and the values computed by mpmath."""
    rng = np.random.default_rng(11)
    bits = build("float64", (400,), "bits", 12)
    x = np.concatenate(
        [bits[np.isfinite(bits)], neighbours(EDGES[name], "float64", 2), rng.standard_normal(60)]
    )
    if name in ("sin", "cos", "tan"):
        x = np.concatenate([x, HUGE, neighbours([k * np.pi / 2 for k in range(1, 40)], "float64", 1)])
    if name == "exp2":
        x = x[np.abs(x) < 2000]
    if name in ("exp", "expm1", "sinh", "cosh", "tanh"):
        x = x[np.abs(x) < 1000]
    if name.startswith("log") or name == "arccosh":
        x = x[x > {"log1p": -1, "arccosh": 1}.get(name, 0)]
    if name in ("arcsin", "arccos", "arctanh"):
        x = x[np.abs(x) < 1]
    return x, [by_mpmath(name, float(v)) for v in x]


@pytest.mark.parametrize("name", UNARY)
def test_against_mpmath(engine, name):
    x, want = reference(name)
    with np.errstate(all="ignore"):
        got = getattr(pk, name)(x)
    largest = mpmath.mpf(np.finfo(float).max)
    for argument, ours, true in zip(x, got, want, strict=True):
        if abs(true) > largest * (1 + mpmath.mpf(2) ** -50):
            assert np.isinf(ours), (name, argument, ours)
            continue
        exponent = max(mpmath.frexp(true)[1], -1021)
        unit = mpmath.ldexp(1, exponent - 53)
        value = mpmath.mpf(float(ours)) if np.isfinite(ours) else mpmath.sign(ours) * mpmath.ldexp(1, 1024)
        with mpmath.workprec(400):
            error = abs(value - true) / unit
        assert error <= bound(name, "float64"), f"{name}({argument!r}) = {ours!r}: {float(error):.3f} ULP"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles(engine, name, dtype):
    rng = np.random.default_rng(3)
    largest = np.log2(float(np.finfo(dtype).max))
    x = (2.0 ** rng.uniform(4, largest, 60_000) * rng.choice([-1, 1], 60_000)).astype(dtype)
    check(name, np.dtype(dtype), x)


# ---- The value alone decides the bits ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_bits_do_not_depend_on_place(engine, name, dtype):
    function = getattr(pk, name)
    rng = np.random.default_rng(13)
    size = 9000
    x = np.concatenate([build(dtype, (size - 500,), "ordinary", 1), build(dtype, (500,), "special", 2)])
    y = rng.permutation(x)
    inputs = (x, y)[: getattr(np, name).nin]
    with np.errstate(all="ignore"):
        whole = function(*inputs)
        shuffle = rng.permutation(size)
        assert_values(function(*(i[shuffle] for i in inputs)), whole[shuffle], context="shuffled")
        assert_values(function(*(i[::-1] for i in inputs))[::-1], whole, context="reversed")
        assert_values(function(*(np.repeat(i, 2)[::2] for i in inputs)), whole, context="strided")
        swapped = (i.astype(i.dtype.newbyteorder()) for i in inputs)
        assert_values(function(*swapped), whole, context="byte-swapped")
        for length in (1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 63, 65, 100):
            for start in (0, 1, size - 250, size - 500 - length // 2):
                part = slice(start, start + length)
                assert_values(function(*(i[part] for i in inputs)), whole[part], context=f"{start}, {length}")
        # Blocks that contain a value for which the fast path does not hold.
        spoilt = [i.copy() for i in inputs]
        for i in spoilt:
            i[::97] = np.finfo(dtype).max
        kept = np.arange(size) % 97 != 0
        assert_values(function(*spoilt)[kept], whole[kept], context="among huge values")
