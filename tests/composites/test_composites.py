"""Composites, compared with NumPy."""

import functools
import operator
import warnings

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy
from helpers.strategies import each_with_smoke, outcome
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import engine_status, hardware
from pycudakit._runtime import cost_model
from pycudakit.fusing.composites import signals

TYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]
EACH = each_with_smoke(TYPES)


def numbers(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 9, shape)
    return (values / 8 if np.dtype(dtype).kind == "f" else values).astype(dtype)


def compare(name, *arguments, rtol=0.0, **keywords):
    """Compare results (within a fraction of the largest), shapes, dtypes, and error messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        ours = outcome(getattr(pk, name), *arguments, **keywords)
        numpys = outcome(getattr(np, name), *arguments, **keywords)
    context = f"{name} {keywords}: {ours[1]!r}, not {numpys[1]!r}"
    assert ours[0] == numpys[0], context
    assert ours[2] == numpys[2], context
    if ours[0] == "error":
        assert isinstance(ours[1], next(b for b in type(numpys[1]).__mro__ if b.__module__ == "builtins"))
        assert str(ours[1]).split(" ")[:3] == str(numpys[1]).split(" ")[:3], context
        return
    got, want = (r if isinstance(r, tuple) else (r,) for r in (ours[1], numpys[1]))
    assert len(got) == len(want), context
    for mine, theirs in zip(got, want, strict=True):
        assert theirs.ndim == 0 or type(mine) is type(theirs), context
        assert mine.dtype == theirs.dtype, context
        assert mine.shape == theirs.shape, context
        largest = np.max(np.abs(theirs), initial=0, where=np.isfinite(theirs)) if rtol else 0
        assert np.allclose(mine, theirs, 0, rtol * largest, equal_nan=True), context


# ---- Differences, integrals, vectors --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EACH)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (4, 1, 5), (70, 90)])
def test_gradient(engine, shape, dtype):
    f = numbers(shape, dtype)
    compare("gradient", f)
    compare("gradient", f, 0.5, axis=-1, edge_order=2)
    compare("gradient", f, np.arange(shape[-1]) ** 2.0, axis=-1, edge_order=2)
    compare("gradient", f, np.arange(shape[0]) ** 2, axis=0)
    compare("gradient", f, *[0.5 + i for i in range(len(shape))])
    compare("gradient", f[::-1, ...] if f.ndim > 1 else f[::-1], np.arange(shape[-1]), axis=-1)


def test_errors_of_gradient(engine):
    f = np.arange(6.0).reshape(2, 3)
    compare("gradient", f, 1, 2, 3)
    compare("gradient", f, edge_order=3)
    compare("gradient", f, edge_order=2)
    compare("gradient", f, [1.0, 2.0], [1.0, 2.0])
    compare("gradient", f, np.ones((2, 2)), 1)
    compare("gradient", f, axis=2)
    compare("gradient", f, axis=(0, 0))


@pytest.mark.parametrize("dtype", EACH)
def test_trapezoid(engine, dtype):
    y = numbers((30, 40), dtype)
    eps = np.finfo(np.result_type(dtype, np.float16)).eps
    compare("trapezoid", y, rtol=8 * eps)
    compare("trapezoid", y, dx=0.25, axis=0, rtol=8 * eps)
    compare("trapezoid", y, np.arange(40) ** 2.0, rtol=8 * eps)
    compare("trapezoid", y, np.arange(30), axis=0, rtol=8 * eps)
    compare("trapezoid", y[0], y[1].astype("f8"), rtol=8 * eps)
    compare("trapezoid", y, np.arange(1200.0).reshape(30, 40), rtol=8 * eps)
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds"):
        pk.trapezoid(y, axis=2)


AXIS_CALLS = {
    "trapezoid": lambda lib, a, axis: lib.trapezoid(a, axis=axis),
    "trapezoid of x": lambda lib, a, axis: lib.trapezoid(a, a, axis=axis),
    "concatenate": lambda lib, a, axis: lib.concatenate((a, a), axis=axis),
    "repeat": lambda lib, a, axis: lib.repeat(a, 2, axis=axis),
    "vecdot": lambda lib, a, axis: lib.vecdot(a, a, axis=axis),
    "vecdot of axes": lambda lib, a, axis: lib.vecdot(a, a, axes=[0, axis]),
    "take": lambda lib, a, axis: lib.take(a, [0], axis=axis),
    "cumsum": lambda lib, a, axis: lib.cumsum(a, axis=axis),
    "argsort": lambda lib, a, axis: lib.argsort(a, axis=axis),
}


@pytest.mark.parametrize("axis", [True, False])
@pytest.mark.parametrize("name", AXIS_CALLS)
def test_bool_axes_are_refused(engine, name, axis):
    call, a = AXIS_CALLS[name], numbers((30, 40), "f8")
    for function in (
        lambda a: call(np, a, axis),
        lambda a: call(pk, a, axis),
        pk.fuse(lambda a: call(np, a, axis)),
    ):
        with pytest.raises(TypeError, match="an integer is required"):
            function(a)


def test_concatenate_with_bool_axis_writes_nothing(engine):
    a, out = np.ones((30, 40)), np.full((60, 40), 7.0)
    with pytest.raises(TypeError, match="an integer is required"):
        pk.concatenate((a, a), axis=False, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("dtype", EACH[1:])
@pytest.mark.parametrize(("m", "n"), [(3, 3), (2, 3), (3, 2), (2, 2)])
def test_cross(engine, m, n, dtype):
    compare("cross", numbers((50, m), dtype), numbers((50, n), dtype, 1))
    compare("cross", numbers((m,), dtype), numbers((20, n), dtype, 1), axisc=0)
    compare("cross", numbers((m, 4, 5), dtype), numbers((n, 4, 5), "float64", 1), axis=0)
    compare("cross", numbers((m, 4), dtype), numbers((5, 4, n), dtype, 1), 0, 2, 1)
    compare("cross", numbers((m,), dtype), numbers((n,), dtype, 1))


def test_errors_of_cross(engine):
    compare("cross", np.float64(1), np.ones(3))
    compare("cross", np.ones(4), np.ones(3))
    compare("cross", np.ones(3), np.ones(3), axisa=2)
    with pytest.raises(ValueError, match="could not be broadcast together with shapes"):
        pk.cross(np.ones((2, 3)), np.ones((4, 3)))
    if np.lib.NumpyVersion(np.__version__) < "2.5.0":
        with pytest.warns(DeprecationWarning, match="Arrays of 2-dimensional vectors"):
            pk.cross(np.ones((2000, 2)), np.ones((2000, 2)))


# ---- Statistics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EACH)
def test_covariances(engine, dtype):
    m = numbers((6, 300), dtype)
    for name in ("cov", "corrcoef"):
        compare(name, m, rtol=1e-13)
        compare(name, m, rowvar=False, rtol=1e-13)
        compare(name, m[0], rtol=1e-13)
        compare(name, m[:2], m[3:] * 2, rtol=1e-13)
        compare(name, m, dtype="float32", rtol=1e-5)
        compare(name, m, m.T[:6, :6], rowvar=False, rtol=1e-13)
        compare(name, np.ones((2, 2, 2)), m)
        compare(name, m, np.ones((2, 2, 2)))


@pytest.mark.parametrize("dtype", [int, bool, complex, "u1"])
@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_covariances_in_other_types_than_floats_are_numpys(engine, name, dtype):
    x = [[1, 2, 4], [3, 4, 4]]
    with pytest.raises(errors.Unsupported, match=f"{name}: not on the {engine} engine: a dtype of"):
        getattr(pk, name)(x, dtype=dtype)
    with pk.engine("auto"):
        compare(name, x, dtype=dtype, rtol=1e-15)
        compare(name, np.zeros((0, 2)), dtype=dtype)


def test_a_bias_that_is_no_bool(engine):
    x = np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 4.0]])
    for bias in (None, 0, 1, 0.0, 2):  # NumPy compares it with 0
        compare("cov", x, bias=bias, rtol=1e-15)


def test_weights_of_covariances(engine):
    m = numbers((4, 50), "float64")
    counts, weights = np.arange(50) % 4, np.linspace(0.1, 2, 50)
    for keywords in (
        {"bias": True},
        {"ddof": 0},
        {"ddof": 3},
        {"fweights": counts},
        {"aweights": weights},
        {"fweights": counts, "aweights": weights},
        {"fweights": counts, "aweights": weights, "ddof": 0},
        {"aweights": weights, "bias": True},
    ):
        compare("cov", m, rtol=1e-13, **keywords)
    for keywords in (
        {"ddof": 1.5},
        {"fweights": weights},
        {"fweights": counts[None]},
        {"fweights": counts[:-1]},
        {"fweights": -counts},
        {"aweights": weights[None]},
        {"aweights": weights[:-1]},
        {"aweights": -weights},
    ):
        compare("cov", m, **keywords)
    compare("cov", m[:, :1])
    compare("cov", m[:0])


# ---- Sequences -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", each_with_smoke(["full", "same", "valid"], "same"))
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@given(data=st.data())
def test_sequences(engine, name, mode, data):
    dtype = data.draw(st.sampled_from(TYPES))
    n, m = data.draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    eps = np.finfo(np.result_type(dtype, np.float16)).eps if np.dtype(dtype).kind == "f" else 0
    compare(name, numbers(n, dtype), numbers(m, dtype, 1), mode, rtol=4 * eps)
    compare(name, numbers(n, dtype)[::-1], numbers(m, "float32", 1), mode, rtol=1e-6)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sequences_that_are_not_finite(engine, name, mode):
    nan, infinity = float("nan"), float("inf")
    for v in ([1.0, 4.0, nan], [infinity, 1.0, 0.0], [nan, 2.0], [infinity]):
        for a in ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0], [7.0]):
            compare(name, np.array(a), np.array(v), mode)


@pytest.mark.parametrize("mode", ["full", "same"])
@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_zeros_at_the_ends_are_those_of_products_that_are_left_out(engine, mode, dtype):
    """The filter is finite, so it may slide over padding; each sum is that of the products inside."""
    rng = np.random.default_rng(2)
    values = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -1e-200]).astype(dtype)
    for n, m in 10 * [(3, 3), (7, 2), (9, 8), (1, 1), (30, 1)]:
        a, v = rng.choice(values, n), rng.choice(values, m)
        wanted = []
        for last in range(n + m - 1):
            firsts = range(last - m + 1, last + 1)
            products = [a[i] * v[last - i] if 0 <= i < n else values.dtype.type(0) for i in firsts]
            wanted.append(functools.reduce(operator.add, products))
        got = pk.convolve(a, v, mode)
        start = 0 if mode == "full" else (m - 1) // 2
        expected = np.array(wanted[start : start + got.size], dtype)
        np.testing.assert_array_equal(got, expected, strict=True)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_long_sequences(engine):
    a, v = np.random.default_rng(0).standard_normal((2, 100_000))
    for name in ("convolve", "correlate"):
        for length in (1, 7, 200):
            compare(name, a, v[:length], "same", rtol=1e-13)


@pytest.mark.parametrize(
    ("count", "taps", "dtype", "wanted"),
    [
        *((2, 9, kind, "numpy") for kind in ("f4", "f8")),
        (2, 9, "i8", "cpu"),
        (2, 100, "f8", "cpu"),
        (16, 9, "f8", "cpu"),
    ],
)
def test_auto_knows_numpys_own_loops(monkeypatch, count, taps, dtype, wanted):
    """On few threads they are faster than the kernels of a fused function."""
    monkeypatch.setattr(signals, "threads", lambda: count)
    monkeypatch.setattr(engine_status, "status", lambda name: engine_status.EngineStatus(name == "cpu", ""))
    arrays = [np.ones(taps, dtype), np.broadcast_to(np.ones((), dtype), 20_000_000)]
    assert signals._numpy_is_faster(arrays) == (wanted == "numpy")
    if wanted == "numpy":
        with pk.engine("auto"):
            few = [arrays[1][:300_000].copy(), arrays[0]]
            np.testing.assert_array_equal(pk.convolve(*few), np.convolve(*few), strict=True)
            np.testing.assert_array_equal(pk.correlate(*few), np.correlate(*few), strict=True)
        call = pk.last_call()
        assert (call.function, call.engine, call.reason) == (
            "correlate",
            "numpy",
            cost_model.REASON_NUMPY_FASTER_FOR_SIZE,
        )


@pytest.mark.parametrize(("size", "wanted"), [(100_000, True), (20_000_000, False)])
@pytest.mark.parametrize("is_awake", [False, True])
def test_auto_knows_numpys_own_loops_beside_a_gpu(monkeypatch, size, wanted, is_awake):
    monkeypatch.setattr(signals, "threads", lambda: 2)
    monkeypatch.setattr(engine_status, "status", lambda _: engine_status.EngineStatus(True, ""))
    monkeypatch.setattr(hardware, "link_is_known", lambda: is_awake)
    monkeypatch.setattr(hardware, "link_speed", lambda _: hardware.Link(25e9, 25e9))
    a, v = np.broadcast_to(1.0, size), np.ones(5)
    assert signals._numpy_is_faster([a, v]) == signals._numpy_is_faster([v, a]) == wanted


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_modes_by_number(engine, mode):
    for name in ("convolve", "correlate"):
        compare(name, [1, 2, 3], [1, 2], mode)


def test_numbers_are_no_sequences_to_correlate(engine):
    compare("correlate", 3, [1.0, 2.0])
    compare("correlate", [1.0, 2.0], 3)
    compare("convolve", 3, [1.0, 2.0])
    compare("convolve", [1.0, 2.0], 3, "no mode")


def test_the_type_of_covariances_has_no_byte_order(engine):
    for name in ("cov", "corrcoef"):
        compare(name, [[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]], dtype=">f4", rtol=1e-6)


def test_errors_of_sequences(engine):
    for name in ("convolve", "correlate"):
        if name == "correlate" or has_numpy("2.4"):  # before, convolve names the other argument
            compare(name, [], [1.0])
            compare(name, [1.0], [])
        compare(name, np.ones((2, 2)), [1.0])
        if has_numpy("2.3"):  # before, "some" is taken for "same"
            compare(name, np.ones(5), np.ones(2), "some")


# ---- Joining ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EACH)
def test_put_together(engine, dtype):
    a, b = numbers((4, 5), dtype), numbers((4, 5), "int16", 1)
    compare("concatenate", (a, b))
    compare("concatenate", [a, b[:, ::-1]], axis=1)
    compare("concatenate", (a, b, b[0]), axis=None)
    compare("concatenate", (a, a[:0]))
    compare("stack", (a, b))
    compare("stack", (a, b.T[:5, :4].T), -1)
    compare("stack", (a, b), axis=1)
    compare("tile", a, 3)
    compare("tile", a, (2, 1, 3))
    compare("tile", a[0], (2, 2))
    compare("tile", a, 0)
    compare("tile", a[0], (1, 0))
    compare("repeat", a, 3)
    compare("repeat", a, 2, axis=1)
    compare("repeat", a, [0, 1, 2, 3], 0)
    compare("concatenate", (a, b), dtype="float64")
    compare("stack", (a, b), dtype="int8", casting="unsafe")


@pytest.mark.parametrize("number", [2, 2.5, 300, 2**63, 70000.0, True, np.int64(3)])
def test_numbers_put_together_with_arrays_have_their_type(engine, number):
    for dtype in ("int8", "uint64", "float16", "float32", "bool"):
        for size in (1, 9000):
            x = np.ones((size, 1), dtype)
            for arrays in ((x, number), (number, x), (number, 1, x, number)):
                with np.errstate(over="ignore"):
                    want = np.concatenate(arrays, axis=None)
                    for asked in (engine, "auto"):
                        with pk.engine(asked):
                            assert_array_equal(pk.concatenate(arrays, axis=None), want, strict=True)
                            fused = pk.fuse(lambda *a: np.concatenate(a, axis=None))(*arrays)
                            assert_array_equal(fused, want, strict=True)
                            assert_array_equal(pk.union1d(*arrays[:2]), np.union1d(*arrays[:2]), strict=True)
    for numbers in ((1,), (1, 2.5), (2**63, -1)):
        assert_array_equal(
            pk.concatenate(numbers, axis=None), np.concatenate(numbers, axis=None), strict=True
        )
    compare("concatenate", (np.ones(3), 1.0))
    compare("stack", (np.float32(1), 1.0))


def test_out_of_joined_arrays(engine):
    a, b = np.ones((3, 4)), np.zeros((3, 4))
    out = np.full((6, 4), 7.0)
    assert pk.concatenate((a, b), out=out) is out
    assert np.array_equal(out, np.concatenate((a, b)))
    out = np.full((2, 3, 4), 7.0)
    assert pk.stack((a, b), out=out) is out
    assert np.array_equal(out, np.stack((a, b)))


def test_errors_of_joined_arrays(engine):
    a = np.ones((2, 3))
    compare("concatenate", (a, a[0]))
    compare("concatenate", (a, a[:, :2]))
    compare("concatenate", (a, a), axis=2)
    compare("concatenate", ())
    compare("concatenate", (a, a), dtype="int8")
    for casting in ("no", "equiv", "safe", "same_kind", "unsafe", "some"):
        for parts in ((a, a), (a, np.ones((2, 3), "f4")), (a[:1], np.ones((1, 3), "i8"))):
            compare("concatenate", parts, casting=casting)
            compare("stack", parts, casting=casting)
    compare("stack", (a, a[:1]))
    compare("stack", (a, a), axis=3)
    compare("stack", ())
    for axis in (0, -1, 1):
        compare("repeat", np.float32(5), 3, axis=axis)
    compare("repeat", a, -1)
    compare("repeat", a, 2, axis=2)
    compare("repeat", a, [1, 2])


# ---- All of them ------------------------------------------------------------------------------------------

CALLS = {
    "concatenate": lambda f, x: f((x, x[::-1])),
    "convolve": lambda f, x: f(x[0], x[1, :9]),
    "corrcoef": lambda f, x: f(x),
    "correlate": lambda f, x: f(x[0], x[1, :9]),
    "cov": lambda f, x: f(x, bias=True),
    "cross": lambda f, x: f(x[:, :3], x[:, 3:6]),
    "gradient": lambda f, x: f(x, axis=1),
    "pad": lambda f, x: f(x, 3, mode="wrap"),
    "repeat": lambda f, x: f(x, 2, axis=0),
    "stack": lambda f, x: f((x, x), axis=1),
    "tile": lambda f, x: f(x, (2, 2)),
    "trapezoid": lambda f, x: f(x, dx=0.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_where_it_runs(engine, name):
    x = np.random.default_rng(0).standard_normal((100, 6000))
    got = CALLS[name](getattr(pk, name), x)
    assert (pk.last_call().function, pk.last_call().engine) == (name, engine)
    with pk.engine("numpy"):
        want = CALLS[name](getattr(pk, name), x)
    assert (pk.last_call().function, pk.last_call().engine) == (name, "numpy")
    assert np.allclose(got, want, 1e-12, 1e-12)
    with pk.engine("auto"):
        assert np.array_equal(
            CALLS[name](getattr(pk, name), x[:, :8]), CALLS[name](getattr(np, name), x[:, :8])
        )
        assert pk.last_call().engine == "numpy"


@pytest.mark.parametrize("name", CALLS)
def test_in_a_fused_function(engine, name):
    """The bits are those of a single call, by NumPy's name and by ours, without a graph break."""
    x = np.random.default_rng(0).standard_normal((100, 600))
    want = CALLS[name](getattr(pk, name), x * 2)
    for kit in (np, pk):
        fused = pk.fuse(lambda x, kit=kit: CALLS[name](getattr(kit, name), x * 2), strict=True)
        assert np.array_equal(fused(x), want)


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_only_numpy_supports(engine, name):
    x = np.random.default_rng(0).standard_normal((4, 6)) + 1j
    with pytest.raises(errors.Unsupported, match=f"{name}: not on the {engine} engine: it takes bool"):
        CALLS[name](getattr(pk, name), x)
    with pk.engine("auto"):
        assert np.array_equal(CALLS[name](getattr(pk, name), x), CALLS[name](getattr(np, name), x))


def test_lists_are_arrays(engine):
    assert np.array_equal(pk.gradient([1.0, 2.0, 4.0]), [1.0, 1.5, 2.0])
    assert pk.trapezoid([1, 2, 3], x=[4, 6, 8]) == 8.0
    assert np.array_equal(pk.concatenate(([1, 2], [3])), [1, 2, 3])
    assert np.array_equal(pk.cross([1, 2, 3], b=[4, 5, 6]), [-3, 6, -3])


@pytest.mark.parametrize("name", ["cov", "corrcoef", "gradient", "trapezoid"])
def test_arrays_that_could_have_a_mask(name):
    """NumPy handles them under `auto`."""
    masked = np.ma.array(np.arange(12.0).reshape(3, 4) ** 2)
    with pk.engine("auto"):
        got, want = (getattr(kit, name)(masked) for kit in (pk, np))
    assert type(got) is type(want)
    np.testing.assert_array_equal(got, want)
