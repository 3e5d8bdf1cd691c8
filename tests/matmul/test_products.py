"""`dot`, `vdot` and `average` against NumPy and exact arithmetic."""

import helpers.strategies as gen
import numpy as np
import pytest
from helpers.exact_sums import INFINITY, agrees, inner, slack_of
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors

PRODUCTS = ["dot", "vdot"]


def compare(name, a, b, warnings=True):
    """Compare a product of vectors with NumPy's in type, and its value with the exact one."""
    ours, numpys = (gen.outcome(getattr(kit, name), a, b) for kit in (pk, np))
    context = f"{name}({gen.describe(a, b)})"
    kind = np.result_type(np.asarray(a), np.asarray(b))
    if "error" in (ours[0], numpys[0]) or kind.kind != "f":
        gen.assert_same_outcome(ours, numpys, strides=False, context=context)
        return
    got, want = ours[1], numpys[1]
    assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape), context
    x, y = (np.asarray(v).astype(kind).ravel() for v in (a, b))
    value, largest = inner(x, y)
    assert agrees(got, value, slack_of(kind, largest, x.size)), f"{context}: {got!r}, NumPy's {want!r}"
    if warnings and largest != INFINITY and np.isfinite(got) == np.isfinite(want):
        assert ours[2] == numpys[2], f"{context}: warned {ours[2]}, not {numpys[2]}"


@given(data=st.data())
@pytest.mark.parametrize("name", PRODUCTS)
def test_anything(engine, name, data):
    size = st.just((data.draw(st.sampled_from([0, 1, 5, *gen.EDGES])),))
    kinds = st.sampled_from(["ordinary", "small"])
    a, b = (data.draw(gen.arrays(shape=size, kind=kinds)) for _ in "ab")
    compare(name, a, b)


@pytest.mark.parametrize("of", gen.DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_pair_of_types(engine, name, of):
    for other in gen.DTYPES:
        compare(name, gen.build(of, (100,), "ordinary", 1), gen.build(other, (100,), "ordinary", 2))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 2049, 100_000])
def test_block_edges(engine, size, dtype):
    a, b = (gen.build(dtype, (size,), "ordinary", seed) for seed in (1, 2))
    if dtype == "float16":
        a, b = a / np.float16(64), b / np.float16(64)
    for x, y in ((a, b), (a[::-1], b), (np.broadcast_to(a[0], size), b), (np.repeat(a, 2)[::2], b[::-1])):
        compare("dot", x, y)


def test_shapes(engine):
    matrix = gen.build("float64", (6, 7), "ordinary", 1)
    for other in (matrix, matrix[::-1], matrix.copy("F"), matrix.reshape(7, 6), matrix.ravel(), matrix.T):
        compare("vdot", matrix, other)
    compare("vdot", 3.0, [4.0])
    compare("vdot", 3, 4)
    assert np.array_equal(pk.dot(3, [1, 2]), [3, 6])
    assert np.array_equal(pk.dot(matrix, 2.0), matrix * 2)
    assert pk.dot(3, 4) == 12
    compare("dot", matrix[:, 0], matrix[:, 1])
    compare("dot", np.array([]), np.array([]))
    compare("vdot", np.zeros((0, 3)), np.zeros((3, 0)))


def test_errors(engine):
    for kit in (pk, np):
        with pytest.raises(ValueError, match=r"shapes \(3,\) and \(4,\) not aligned: 3 \(dim 0\) != 4"):
            kit.dot(np.ones(3), np.ones(4))
        with pytest.raises(ValueError, match=r"size|same"):
            kit.vdot(np.ones(3), np.ones(4))
        with pytest.raises(ValueError, match="output array is not acceptable"):
            kit.dot(np.ones(3), np.ones(3), out=np.zeros((), np.float32))
    out = np.zeros(())
    assert pk.dot([1.0, 2.0], [3.0, 4.0], out) is out
    assert out == 11
    with pytest.raises(errors.Unsupported):
        pk.vdot([1j], [1j])


def test_special_values(engine):
    inf, nan = np.inf, np.nan
    for dtype in gen.FLOATS:
        for a, b in (
            ([inf, 1], [1, 1]),
            ([inf, 1], [-1, inf]),
            ([inf, 1], [0, 1]),
            ([nan, 1], [0, 1]),
            ([-0.0], [1]),
        ):
            x, y = np.array(a, dtype), np.array(b, dtype)
            with np.errstate(all="ignore"):
                gen.assert_values(np.asarray(pk.dot(x, y)), np.asarray(np.dot(x, y)), free_zero=True)
    with pytest.warns(RuntimeWarning, match="overflow encountered in dot"):
        assert pk.dot([1e200], [1e200]) == inf
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError, match="invalid value encountered in dot"):
            pk.dot(np.float32([inf]), np.float32([0]))
        assert pk.vdot(np.float32([3e38]), np.float32([2])) == inf  # np.vdot does not warn, either


def test_complex_numbers_are_numpys_under_auto():
    assert pk.vdot([1j], [1j]) == 1
    assert pk.last_call().engine == "numpy"


# ---- average ----------------------------------------------------------------------------------------


def averages(a, rtol=1e-12, **keywords):
    """Compare an average with NumPy's."""
    ours, numpys = (gen.outcome(kit.average, a, **keywords) for kit in (pk, np))
    context = f"average({gen.describe(a)}, {keywords}): {ours}, {numpys}"
    assert ours[0] == numpys[0], context
    if ours[0] == "error":
        assert type(ours[1]) is type(numpys[1]), context
        assert str(ours[1]) == str(numpys[1]), context
        return
    tuples = ((r if isinstance(r, tuple) else (r,)) for r in (ours[1], numpys[1]))
    for x, y in zip(*tuples, strict=True):
        assert (type(x), x.dtype, x.shape) == (type(y), y.dtype, y.shape), context
        np.testing.assert_allclose(x, y, rtol, rtol * 100, err_msg=context)
    assert ours[2] == numpys[2], context


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool", "float16"])
def test_average(engine, dtype):
    a = gen.build(dtype, (5, 6), "ordinary", 1)
    rtol = {"float32": 1e-5, "float16": 2e-2}.get(dtype, 1e-12)
    weights = np.abs(gen.build("float64", (5, 6), "ordinary", 2)) + 1
    for of in ("float64", "float32", "int32"):
        w = weights.astype(of)
        loose = max(rtol, 1e-5 if of == "float32" else 0)
        for keywords in (
            {},
            {"axis": 0},
            {"axis": 1, "returned": True},
            {"returned": True, "keepdims": True},
            {"weights": w},
            {"weights": w, "axis": 1},
            {"weights": w, "axis": (0, 1), "returned": True},
            {"weights": w[0], "axis": 1},
            {"weights": w[:, 0], "axis": 0, "returned": True},
            {"weights": w, "axis": 0, "keepdims": True},
            {"weights": w.T.copy(), "axis": (1, 0)},
        ):
            averages(a, loose, **keywords)


def test_errors_of_average(engine):
    a = np.ones((5, 6))
    for keywords in (
        {"weights": np.zeros((5, 6))},
        {"weights": np.zeros((5, 6)), "axis": 0},
        {"weights": np.ones(6)},
        {"weights": np.ones(5), "axis": 1},
        {"weights": np.ones((5, 6)), "axis": 3},
        {"axis": 3},
        {"axis": (0, 0)},
    ):
        averages(a, **keywords)
    averages(np.zeros(0))
    averages(np.zeros((3, 0)), axis=1)


@pytest.mark.parametrize("name", ["matmul", "vecdot"])
def test_out_in_a_tuple(engine, name):
    call = getattr(pk, name)
    x, out = np.ones((3, 3)), np.zeros(3 if name == "vecdot" else (3, 3))
    assert call(x, x, out=(out,)) is out
    np.testing.assert_array_equal(call(x, x, out=(None,)), out)
    for several in ((), (out, out)):
        with pytest.raises(ValueError, match="exactly one entry"):
            call(x, x, out=several)
    with pytest.raises(TypeError, match="ArrayType"):
        call(x, x, out=[out])


@pytest.mark.parametrize("number", [2, 2.5, True, 2**63, np.int8(3)])
@pytest.mark.parametrize("name", ["dot", "inner", "kron"])
def test_numbers_are_arrays_of_their_own_types(engine, name, number):
    """A Python number is an array of its own type, as in NumPy's functions; it is not weakly typed."""
    multiplied = getattr(pk, name)

    @pk.fuse
    def fused(a, b):
        return getattr(np, name)(a, b)

    for dtype in ("int8", "float16", "float32", "bool", "uint64"):
        for shape in ((), (3,), (2, 3), (6000,)):
            x = np.ones(shape, dtype)
            for arguments in ((number, x), (x, number)):
                want = np.asarray(getattr(np, name)(*arguments))
                for asked in (engine, "auto"):
                    with pk.engine(asked):
                        results = multiplied(*arguments), multiplied(*arguments), fused(*arguments)
                    for got in results:
                        np.testing.assert_array_equal(np.asarray(got), want, strict=True)


@pytest.mark.parametrize("keepdims", [False, True])
def test_matmul_takes_no_keepdims(engine, keepdims):
    for kit in (pk, np):
        with pytest.raises(TypeError, match="matmul does not support keepdims"):
            kit.matmul(np.ones((3, 3)), np.ones((3, 3)), keepdims=keepdims)


def test_orders(engine):
    a, b = np.ones((3, 4)), np.ones((4, 5))
    assert pk.matmul(a, b, order="F").flags.f_contiguous
    assert isinstance(pk.matmul(a[0], b[:, 0], order="C"), np.float64)
    for name in ("matmul", "vecdot"):
        with pytest.raises(ValueError, match="order must be one of 'C', 'F', 'A', or 'K'"):
            getattr(pk, name)(a[0], b[:, 0], order="Q")


def test_byte_orders_are_no_dtype(engine):
    for name in ("matmul", "vecdot"):
        with pytest.raises(TypeError, match="arguments to ufuncs only select the general DType"):
            getattr(pk, name)(np.ones(3), np.ones(3), dtype=">f8")


def test_trace_takes_any_byte_order(engine):
    array = np.arange(9, dtype=">i4").reshape(3, 3)
    for dtype in (">f4", ">i8"):
        ours, numpys = (kit.trace(array, dtype=dtype) for kit in (pk, np))
        assert (ours, ours.dtype) == (numpys, numpys.dtype)
