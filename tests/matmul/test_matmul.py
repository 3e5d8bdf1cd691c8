"""`matmul` and `matrix_power` against NumPy, and their errors against exact arithmetic."""

import ctypes
import pickle
from fractions import Fraction

import helpers.strategies as gen
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi, loader

sizes = st.one_of(st.integers(0, 9), st.sampled_from([31, 33, 48, 49, 63, 65, 70]))


def bound(a, b, dtype):
    """Return the error bound of each element, as docs/matmul.md states it."""
    eps = {"float16": 2.0**-24, "float32": 2.0**-23, "float64": 2.0**-52}[dtype.name]
    depth = a.shape[-1]
    x, y = np.abs(np.asarray(a, np.longdouble)), np.abs(np.asarray(b, np.longdouble))
    last = 2.0**-10 if dtype == np.float16 else eps
    whole = np.matmul(x, y)
    return (depth + 8) * eps * whole + last * whole + np.finfo(dtype).smallest_subnormal


def agrees(got, a, b, dtype):
    if dtype.kind != "f":
        gen.assert_values(got, np.asarray(np.matmul(a, b)))
        return
    with np.errstate(all="ignore"):
        want = np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))
        assert (np.abs(got - want) <= bound(a, b, dtype)).all(), gen.describe(a, b)


@st.composite
def factors(draw, dtype):
    """Two arrays with shapes that `matmul` accepts."""
    m, n, k = draw(sizes), draw(sizes), draw(sizes)
    stacks = draw(
        st.sampled_from([((), ()), ((2,), (2,)), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((0,), (1,))])
    )
    shapes = [(*stacks[0], m, k), (*stacks[1], k, n)]
    which = draw(st.sampled_from(["matrices", "matrices", "row", "column", "both"]))
    if which in ("row", "both"):
        shapes[0] = (k,)
    if which in ("column", "both"):
        shapes[1] = (k,)
    kinds = st.sampled_from(["ordinary", "small"])
    return [draw(gen.arrays(dtype=st.just(dtype), shape=st.just(s), kind=kinds)) for s in shapes]


@given(data=st.data())
@pytest.mark.parametrize("name", gen.DTYPES)
def test_anything(engine, name, data):
    a, b = data.draw(factors(name))
    got, want = pk.matmul(a, b), np.matmul(a, b)
    assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape)
    agrees(np.asarray(got), a, b, np.dtype(name))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_few(engine, dtype):
    a, b = gen.build(dtype, (33, 17), "ordinary", 1), gen.build(dtype, (17, 20), "ordinary", 2)
    agrees(pk.matmul(a, b), a, b, np.dtype(dtype))
    assert pk.last_call().function == "matmul"
    assert pk.last_call().engine == engine
    assert "; by " in pk.last_call().reason


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_larger(engine, dtype):
    for m, n, k in ((130, 100, 700), (1, 300, 2000), (300, 1, 2000), (5, 3, 5000), (257, 129, 3)):
        a, b = (gen.build(dtype, s, "ordinary", i) for i, s in enumerate([(m, k), (k, n)]))
        for x, y in ((a, b), (a.copy("F"), b), (a, b.copy("F")), (a[::-1], b[:, ::-1])):
            agrees(pk.matmul(x, y), x, y, np.dtype(dtype))


@pytest.mark.parametrize("of", gen.DTYPES)
def test_every_pair_of_types(engine, of):
    for other in gen.DTYPES:
        a, b = gen.build(of, (5, 6), "small", 1), gen.build(other, (6, 4), "small", 2)
        got, want = pk.matmul(a, b), np.matmul(a, b)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


def test_integers_wrap_around(engine):
    for dtype in gen.INTEGERS:
        a, b = gen.build(dtype, (20, 300), "bits", 1), gen.build(dtype, (300, 20), "bits", 2)
        assert np.array_equal(pk.matmul(a, b), np.matmul(a, b))


def test_out(engine):
    a, b = gen.build("float32", (5, 6), "ordinary", 1), gen.build("float32", (6, 4), "ordinary", 2)
    want = np.matmul(a, b)
    for out in (
        np.empty((5, 4), np.float32),
        np.empty((5, 4), np.float64),
        np.empty((5, 4), ">f4"),
        np.empty((4, 5), np.float32).T,
        np.empty((10, 8), np.float32)[::2, ::2],
        gen.lay_out(np.zeros((5, 4), np.float32), "misaligned"),
    ):
        assert pk.matmul(a, b, out) is out
        np.testing.assert_allclose(out, want, rtol=1e-5)
    square = gen.build("int64", (7, 7), "ordinary", 1)
    want = square @ square
    assert pk.matmul(square, square, out=square) is square
    assert np.array_equal(square, want)
    assert pk.matmul([1, 2], [3, 4], out=np.zeros((), int)) == 11


def test_dtype_and_casting(engine):
    a, b = gen.build("int8", (5, 6), "ordinary", 1), gen.build("int8", (6, 4), "ordinary", 2)
    for keywords in ({"dtype": "int64"}, {"dtype": np.float32}, {"casting": "no"}, {"casting": "unsafe"}):
        got, want = (kit.matmul(a, b, **keywords) for kit in (pk, np))
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_errors(engine, dtype):
    a = np.ones((3, 4), dtype)
    out = np.zeros((3, 4), dtype)
    short = np.zeros((3, 3), dtype)
    short.flags.writeable = False
    for arguments, keywords in (
        ((a, a), {}),
        ((a, 3), {}),
        ((3, a), {}),
        ((a, np.ones((3, 4, 5), dtype)), {"out": out}),
        ((np.ones((2, 3, 4), dtype), np.ones((3, 4, 5), dtype)), {}),
        ((a, a.T), {"out": out}),
        ((a, a.T), {"out": short}),
        ((a, a.T), {"out": [1]}),
        ((a, a.T * 1.5), {"out": np.zeros((3, 3), int)}),
        ((a, a.T), {"dtype": np.int8, "casting": "safe"}),
        ((a, a.T), {"casting": "wrong"}),
    ):
        ours, numpys = (gen.outcome(kit.matmul, *arguments, **keywords) for kit in (pk, np))
        assert numpys[0] == "error"
        gen.assert_same_outcome(ours, numpys)
        assert str(ours[1]) == str(numpys[1])
    assert not out.any()
    assert not short.any()
    with pytest.raises(ValueError, match="precision must be one of highest, exact, tf32, bf16, not 'best'"):
        pk.matmul(a, a.T, precision="best")


def test_numpys_alone(engine):
    for a, b in (([[1j]], [[1]]), (np.array([[1]], object), [[2]])):
        with pytest.raises(errors.Unsupported, match="matmul: not on the"):
            pk.matmul(a, b)
        with pk.engine("auto"):
            assert pk.matmul(a, b) == np.matmul(a, b)
            assert pk.last_call().engine == "numpy"
    with pytest.raises(errors.Unsupported, match="the argument signature"):
        pk.matmul(np.ones((2, 3)), np.ones((3, 2)), signature="ff->f")
    with pk.engine("auto"):
        assert pk.matmul(np.ones((2, 3)), np.ones((3, 2)), signature="ff->f").dtype == np.float32


def test_special_values(engine):
    for dtype in gen.FLOATS:
        a = np.ones((4, 3), dtype)
        a[0, 0], a[1, 1], a[2] = np.nan, np.inf, 0
        b = np.ones((3, 5), dtype)
        b[:, 1], b[0, 2] = -1, np.inf
        with np.errstate(all="ignore"):
            gen.assert_values(pk.matmul(a, b), np.matmul(a, b))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in matmul"):
        pk.matmul([[np.inf, 1.0]], [[0.0], [1.0]])
    with pytest.warns(RuntimeWarning, match="overflow encountered in matmul"):
        pk.matmul(np.full((2, 2), 60000, np.float16), np.full((2, 2), 2, np.float16))
    with np.errstate(all="raise"):
        pk.matmul([[np.nan, 1.0]], [[0.0], [1.0]])
        pk.matmul([[np.inf, 1.0]], [[1.0], [1.0]])


DISTRIBUTIONS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 8, shape),
    "cancelling": lambda rng, shape: np.where(np.arange(shape[-1]) % 2, -1, 1) * (1 + rng.random(shape) / 99),
}


@pytest.mark.parametrize("precision", ["highest", "exact"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_error_bound(engine, distribution, dtype, precision):
    rng = np.random.default_rng(5)
    a, b = (DISTRIBUTIONS[distribution](rng, s).astype(dtype) for s in ((65, 900), (900, 70)))
    got = pk.matmul(a, b, precision=precision)
    agrees(got, a, b, np.dtype(dtype))
    row, column = [Fraction(float(v)) for v in a[3]], [Fraction(float(v)) for v in b[:, 7]]
    exact = sum(x * y for x, y in zip(row, column, strict=True))
    whole = sum(abs(x * y) for x, y in zip(row, column, strict=True))
    eps = Fraction(float(np.finfo(dtype).eps))
    steps = 2 if precision == "exact" and dtype == "float32" else 900
    assert abs(Fraction(float(got[3, 7])) - exact) <= steps * eps * whole


@pytest.mark.parametrize("of_b", ["C", "F"])
@pytest.mark.parametrize("of_a", ["C", "F"])
def test_large_floats(engine, of_a, of_b):
    a = np.asarray(gen.build("float32", (1030, 1290), "ordinary", 1), order=of_a)
    b = np.asarray(gen.build("float32", (1290, 1027), "ordinary", 2), order=of_b)
    want = a.astype(float) @ b.astype(float)
    assert np.linalg.norm(pk.matmul(a, b) - want) <= 2e-6 * np.linalg.norm(want)
    a[3, 5], b[7, 2] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        got, want = pk.matmul(a, b), a.astype(float) @ b.astype(float)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert np.linalg.norm(got[finite] - want[finite]) <= 2e-6 * np.linalg.norm(want[finite])


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precisions(engine, precision):
    a, b = gen.build("float32", (50, 60), "ordinary", 1), gen.build("float32", (60, 40), "ordinary", 2)
    got, want = pk.matmul(a, b, precision=precision), np.matmul(a.astype(float), b.astype(float))
    assert got.dtype == np.float32
    eps = 2.0**-10 if precision == "tf32" else 2.0**-7
    assert (np.abs(got - want) <= 2 * eps * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))).all()


def test_same_bits_of_integers(both_engines):
    for dtype in ("bool", *gen.INTEGERS):
        a, b = gen.build(dtype, (3, 70, 129), "bits", 1), gen.build(dtype, (129, 65), "bits", 2)
        results = []
        for name in ("cpu", "cuda"):
            with pk.engine(name):
                results.append(pk.matmul(a, b))
        gen.assert_values(*results)


def test_auto_says_why():
    a = np.ones((4, 4))
    assert np.array_equal(pk.matmul(a, a), a * 4)
    assert pk.last_call().engine == "numpy"
    large = np.ones((400, 400), np.int32)
    assert (pk.matmul(large, large) == 400).all()
    assert pk.last_call().engine in ("cpu", "cuda")


def test_a_profile_tells_who_computed(engine):
    a = np.ones((20, 20), np.int16)
    with pk.profile() as profile:
        pk.matmul(a, a)
    (call,) = profile.calls
    assert call.function == "matmul"
    assert "; by " in call.reason
    assert pickle.loads(pickle.dumps(call)) == call


# ---- The entries of the ABI ---------------------------------------------------------------------------


def entry(library, a, b, c, sizes, places, flags=0, precision=0):
    method = ctypes.c_int64(-1)
    options, report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
    places = np.array(places, np.int64).reshape(-1, 2)
    function = getattr(library, "pk_matmul_" + {"f": "f", "i": "i"}[a.dtype.kind] + str(8 * a.itemsize))
    function(
        *(a, b, c, *sizes, places, len(places), flags, precision),
        *(ctypes.byref(method), options, report),
    )
    return method.value


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("flags", range(4))
def test_entry(engine, dtype, flags):
    library = loader.library(engine)
    a, b = gen.build(dtype, (2, 9, 11), "small", 1), gen.build(dtype, (3, 11, 10), "small", 2)
    c = np.zeros((4, 9, 10), dtype)
    places = [(0, 2), (1, 0), (1, 1), (0, 0)]
    given = [np.ascontiguousarray(v.swapaxes(1, 2)) if flags & flag else v for v, flag in ((a, 1), (b, 2))]
    method = entry(library, *given, c, (9, 10, 11), places, flags)
    assert method == abi.MATMUL_BY_LOOPS if engine == "cpu" else method != abi.MATMUL_BY_LOOPS
    for got, (i, j) in zip(c, places, strict=True):
        assert np.array_equal(got, a[i] @ b[j])


def test_entry_refuses(engine):
    library = loader.library(engine)
    a, c = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    for sizes, places, flags, precision, words in (
        ((-1, 4, 4), [(0, 0)], 0, 0, "a size is negative"),
        ((4, 4, 4), [(0, -1)], 0, 0, "an index of index_pairs is negative"),
        ((4, 4, 4), [(0, 0)], 4, 0, "unknown flags"),
        ((4, 4, 4), [(0, 0)], 0, 9, "the precision is unknown"),
        ((1 << 40, 1 << 40, 4), [(0, 0)], 0, 0, "more elements than 64 bits can count"),
    ):
        with pytest.raises(errors.InvalidArgument, match=words):
            entry(library, a, a, c, sizes, places, flags, precision)
        assert not c.any()
    entry(library, a, a, c, (4, 4, 0), [(0, 0)])
    assert not c.any()


# ---- matrix_power ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "float16"])
def test_matrix_power(engine, dtype):
    for a in (
        *(
            gen.build(dtype, s, "small", 1) % 4 if dtype != "bool" else gen.build(dtype, s)
            for s in ((3, 3), (2, 4, 4))
        ),
    ):
        for n in (0, 1, 2, 3, 4):
            got, want = (np.asarray(kit.linalg.matrix_power(a, n)) for kit in (pk, np))
            assert got.dtype == want.dtype
            assert (got is a) == (want is a)
            np.testing.assert_allclose(
                got.astype(float), want.astype(float), rtol=1e-2 if got.itemsize == 2 else 1e-5
            )


def test_negative_matrix_powers(engine):
    a = gen.build("float64", (3, 3), "ordinary", 3)
    with pytest.raises(errors.Unsupported, match=r"matrix_power: .* pycudakit lacks linalg\.inv"):
        pk.linalg.matrix_power(a, -2)
    for others in (pk.engine("auto"), pk.engine(engine, fallback="numpy")):
        with others:
            np.testing.assert_allclose(
                pk.linalg.matrix_power(a, -2), np.linalg.matrix_power(a, -2), rtol=1e-10
            )
            with pytest.raises(np.linalg.LinAlgError, match="Singular"):
                pk.linalg.matrix_power(np.zeros((2, 2)), -1)


def test_errors_of_matrix_power(engine):
    for a, n in ((np.ones(3), 2), (np.ones((2, 3)), 2), (np.ones((2, 2)), 1.5)):
        gen.assert_same_outcome(*(gen.outcome(kit.linalg.matrix_power, a, n) for kit in (pk, np)))
    with pytest.raises(errors.Unsupported):
        pk.linalg.matrix_power([[1j]], 2)
