"""Set operations against NumPy, for all types and layouts."""

import numpy as np
import pytest
from helpers.strategies import operands
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit._families.sort import set_operations
from pycudakit._runtime import composite

NAMES = ["union1d", "intersect1d", "setdiff1d", "setxor1d", "isin"]
SIZE = 20_000


@pytest.fixture(autouse=True)
def _nothing_is_few(monkeypatch):
    monkeypatch.setattr(composite, "_NUMPY_BELOW", 0)


def assert_same(ours, numpys):
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, numpys)), strict=True):
        assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_operands(engine, name, data):
    a, b = data.draw(operands(2, kind=st.sampled_from(["small", "ordinary"])))
    if {a.dtype.kind, b.dtype.kind} == {"i", "u"} and np.result_type(a, b).kind == "f":
        a, b = a.astype(np.int64), b.astype(np.int64)  # NumPy compares modulo 2**64, or as floats
    with np.errstate(all="ignore"):
        common = np.ravel(a)[: data.draw(st.integers(0, a.size))].astype(b.dtype)
    b = np.concatenate([np.ravel(b), common])
    for asked in (engine, "auto"):
        with pk.engine(asked):
            assert_same(getattr(pk, name)(a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("dtypes", [("int32", "int32"), ("float64", "float64"), ("int8", "float32")])
def test_large_ones(engine, dtypes):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, SIZE, SIZE).astype(dtype) for dtype in dtypes)
    for name in NAMES:
        assert_same(getattr(pk, name)(a, b), getattr(np, name)(a, b))
        call = pk.last_call()
        assert call.function == name
        assert call.engine == engine
    assert_same(pk.isin(a, b, invert=True), np.isin(a, b, invert=True))
    assert_same(pk.isin(a.reshape(100, -1), b, kind="sort"), np.isin(a.reshape(100, -1), b, kind="sort"))
    assert_same(pk.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True))
    assert_same(pk.unique_values(a), np.unique(a))


def test_arrays_known_to_be_distinct(engine):
    rng = np.random.default_rng(6)
    a, b = rng.permutation(SIZE)[:9000], rng.permutation(SIZE)[:9000]
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        assert_same(getattr(pk, name)(a, b, True), getattr(np, name)(a, b, True))
    got, want = (kit.intersect1d(a, b, assume_unique=True, return_indices=True) for kit in (pk, np))
    assert_same(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_nothing(engine, name):
    a, b = np.array([np.nan, 1.0, -0.0, np.inf, np.nan]), np.array([np.nan, 0.0, np.inf])
    for x, y in ((a, b), (a, b[:0]), (a[:0], b), (a[:0], b[:0]), (3.0, b), (a, 1.0)):
        assert_same(getattr(pk, name)(x, y), getattr(np, name)(x, y))


def test_few_are_numpys(monkeypatch):
    monkeypatch.setattr(composite, "_NUMPY_BELOW", 3000)
    pk.union1d([1, 2], [3])
    assert pk.last_call().engine == "numpy"
    assert pk.isin(["a"], ["a", "b"]).tolist() == [True]


def test_in_a_fused_function(engine):
    a, b = np.arange(SIZE) % 700, np.arange(300)
    assert_same(pk.fuse(lambda x, y: np.isin(x, y) * 2)(a, b), np.isin(a, b) * 2)


def test_64_bits_with_a_sign_and_without(engine):
    signed = np.array([-1, -(2**63), 2**63 - 1, 2**53 + 1, 5])
    unsigned = np.array([2**64 - 1, 2**63, 2**63 - 1, 2**53, 5], np.uint64)
    assert pk.isin(signed, unsigned).tolist() == [False, False, True, False, True]
    assert pk.isin(unsigned, signed).tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_isin_in_pieces(engine, monkeypatch, piece):
    """The temporary memory is that of one piece, however many elements there are."""
    monkeypatch.setattr(set_operations, "_PIECE", piece)
    x, known = np.arange(100, dtype=np.uint8).reshape(4, 25).T, [3, 99, 98, 256, -1]
    for invert in (False, True):
        assert_same(pk.isin(x, known, invert=invert), np.isin(x, known, invert=invert))


def test_kinds_of_isin(engine):
    for kind in (None, "sort", "table"):
        assert_array_equal(pk.isin([1, 2], [2, 3], kind=kind), [False, True])
    with pytest.raises(ValueError, match="Invalid kind: 'bad'"):
        pk.isin([1, 2], [2, 3], kind="bad")
    with pytest.raises(ValueError, match="The 'table' method is only supported"):
        pk.isin([1, 2], [2.0, 3.0], kind="table")


@pytest.mark.parametrize("count", [1, 2, 7, 64, 65])
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_isin_few(engine, dtype, count):
    """Each element is compared with up to 64 test elements; more are searched."""
    rng = np.random.default_rng(9)
    x, few = (rng.integers(0, 100, n).astype(dtype) for n in (3000, count))
    if x.dtype.kind == "f":
        x[::7], x[1::7], x[2::7] = np.nan, -0.0, np.inf
        few[:3] = [0.0, np.nan, np.inf][:count]
    for wanted in (x, x.reshape(50, 60).T, x[::-3], x.astype(x.dtype.newbyteorder())):
        for invert in (False, True):
            ours, numpys = pk.isin(wanted, few, invert=invert), np.isin(wanted, few, invert=invert)
            assert_array_equal(ours, numpys, strict=True)
            assert ours.flags.c_contiguous
    assert pk.last_call().function == "isin"
