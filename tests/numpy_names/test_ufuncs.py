"""Attributes and methods of ufuncs, on pycudakit functions that are ufuncs in NumPy."""

import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pycudakit as pk
from pycudakit import errors

UFUNCS = sorted(name for name in pk.__all__ if isinstance(getattr(np, name, None), np.ufunc))
BINARY = [name for name in UFUNCS if getattr(np, name).nin == 2 and getattr(np, name).nout == 1]
BINARY = [name for name in BINARY if getattr(np, name).signature is None]
ON_ENGINES = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
X = np.array([[3, 1, 2, 5], [6, 5, 4, 2], [1, 1, 3, 2]])


@pytest.mark.parametrize("name", UFUNCS)
def test_attributes(name):
    ours, ufunc = getattr(pk, name), getattr(np, name)
    for attribute in ("identity", "nargs", "nin", "nout", "ntypes", "signature", "types"):
        assert getattr(ours, attribute) == getattr(ufunc, attribute)
    types = (np.dtype("l"),) * ours.nin + (None,) * ours.nout
    assert ours.resolve_dtypes(types, casting="unsafe") == ufunc.resolve_dtypes(types, casting="unsafe")
    for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
        assert pickle.loads(pickle.dumps(getattr(ours, method))) == getattr(ours, method)


@pytest.mark.parametrize("name", UFUNCS)
def test_signatures(name):
    if not hasattr(np.add, "__signature__"):
        pytest.skip("NumPy's ufuncs have signatures since 2.4")
    ours, theirs = (inspect.signature(getattr(xp, name)).parameters for xp in (pk, np))
    listed = [[(p.name, p.default) for p in ps.values() if p.name != "precision"] for ps in (ours, theirs)]
    assert listed[0] == listed[1]


class Rows(np.ndarray):
    """A subclass of ndarray."""

    def __new__(cls, values):
        return np.asarray(values).view(cls)


def outcome(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error)


def check(got, want):
    assert got is not errors.Unsupported
    if isinstance(want, type):
        assert isinstance(got, type)
        assert issubclass(got, want) or issubclass(want, got)
        return
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    (assert_allclose if got.dtype.kind == "f" else assert_array_equal)(got, want)


REDUCTIONS = [
    {},
    {"axis": 1},
    {"axis": None},
    {"axis": (0, 1)},
    {"axis": -1, "keepdims": True},
    {"axis": 5},
    {"where": X > 2, "initial": 1},
    {"initial": 3, "axis": 1},
    {"initial": None},
    {"dtype": np.float32},
    {"out": (np.zeros(4, int),)},
    {"out": np.zeros(4, int)},
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("keywords", REDUCTIONS, ids="-".join)
@pytest.mark.parametrize("name", BINARY)
def test_reduce(name, keywords):
    for values in (X, X.tolist(), X.astype(np.float32), X > 2):
        got, want = (outcome(getattr(xp, name).reduce, values, **keywords) for xp in (pk, np))
        check(got, want)


@pytest.mark.parametrize("name", ON_ENGINES)
def test_reduce_runs_on_engines(engine, name):
    for axis in (0, 1, None, (0, 1)):
        assert_array_equal(getattr(pk, name).reduce(X, axis), getattr(np, name).reduce(X, axis), strict=True)
        assert pk.last_call().engine == engine
    assert getattr(pk, name).reduce(7.0) == getattr(np, name).reduce(7.0)
    assert_array_equal(getattr(pk, name).reduce([[1, 0]]), getattr(np, name).reduce([[1, 0]]), strict=True)


@pytest.mark.parametrize("name", ON_ENGINES[:4])
def test_accumulate_runs_on_engines(engine, name):
    for x in (X, X.astype(np.int8), X > 2, X.astype(np.float32)):
        for axis in (0, 1, -1):
            got, want = getattr(pk, name).accumulate(x, axis), getattr(np, name).accumulate(x, axis)
            assert_array_equal(got, want, strict=True)
            assert pk.last_call().engine == engine
    out = np.zeros(4)
    assert getattr(pk, name).accumulate(X[0], out=(out,)) is out
    assert_array_equal(out, getattr(np, name).accumulate(X[0]))
    with pytest.raises(TypeError, match="cannot accumulate on a scalar"):
        getattr(pk, name).accumulate(3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_accumulate_reduceat_outer_and_at(name):
    ours, ufunc = getattr(pk, name), getattr(np, name)
    for x in (X, X.astype(np.float64)):
        for method, *args in (("accumulate", x, 1), ("reduceat", x, [0, 2], 1), ("outer", x, x[0])):
            check(outcome(getattr(ours, method), *args), outcome(getattr(ufunc, method), *args))
        left, right = x.copy(), x.copy()
        assert outcome(ours.at, left, ([0, 0],), 2) == outcome(ufunc.at, right, ([0, 0],), 2)
        assert_allclose(left, right)


@pytest.mark.parametrize("name", ["add", "hypot", "less", "arctan2"])
def test_outer_runs_on_engines(engine, name):
    assert_allclose(getattr(pk, name).outer(X, [1, 2]), getattr(np, name).outer(X, [1, 2]), rtol=1e-14)
    assert pk.last_call().engine == engine
    assert_allclose(getattr(pk, name).outer(2, X[0]), getattr(np, name).outer(2, X[0]), rtol=1e-14)
    with pk.engine("auto"), pytest.raises(ValueError, match="maximum supported dimension"):
        getattr(pk, name).outer(np.ones((1,) * 33), np.ones((1,) * 33))


def test_methods_of_a_unary_ufunc():
    x = np.array([1.0, 4.0, 9.0])
    pk.sqrt.at(x, [1, 1])
    assert_allclose(x, [1.0, np.sqrt(2), 9.0])
    with pytest.raises(ValueError, match="only supported for binary functions"):
        pk.sqrt.reduce(x)


def test_methods_that_engines_lack(engine):
    with pytest.raises(errors.Unsupported, match=r"^add\.at: not on the .* only NumPy has this method"):
        pk.add.at(np.zeros(3), [0], 1)
    with pytest.raises(errors.Unsupported, match=r"^hypot\.reduce: not on the"):
        pk.hypot.reduce([3.0, 4.0])
    with pytest.raises(errors.Unsupported, match=r"maximum\.reduce: .* with dtype="):
        pk.maximum.reduce([1, 2], dtype=complex)
    with pytest.raises(errors.Unsupported, match=r"add\.reduce: .* 64 bits"):
        pk.add.reduce([1j, 2])


def test_arrays_that_override_numpy():
    masked = np.ma.masked_array(X, X > 4)
    assert pk.add.outer(masked, [1]).mask.sum() == 3
    assert type(pk.add.reduce(Rows(X))) is Rows


def test_in_fused_functions(engine):
    def sums(x):
        return pk.add.reduce(x * 2.0, axis=1), pk.add.outer(x, x[0]), pk.maximum.accumulate(x, axis=1)

    for got, want in zip(pk.fuse(sums)(X), sums(X), strict=True):
        assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("name", ["add", "less", "bitwise_and", "hypot"])
@pytest.mark.parametrize("number", [2, 2.5, 300, True, np.int8(3)])
def test_outer_does_not_treat_numbers_as_weakly_typed(engine, name, number):
    for dtype in ("int8", "uint64", "float32", "bool"):
        x = np.ones(6000, dtype)
        for arguments in ((number, x), (x, number), (number, number)):
            try:
                want = getattr(np, name).outer(*arguments)
            except TypeError:
                with pytest.raises(TypeError):
                    getattr(pk, name).outer(*arguments)
                continue
            got = getattr(pk, name).outer(*arguments)
            assert (np.shape(got), np.asarray(got).dtype) == (np.shape(want), np.asarray(want).dtype)


@pytest.mark.parametrize("dtype", [int, "int8", "float32", bool])
def test_extremes_with_dtype(engine, dtype):
    array = np.array([[1.5, -2.7, 3.2], [4.0, 5.5, 0.0]])
    for name in ("maximum", "minimum"):
        ours, numpys = (getattr(xp, name).reduce(array, dtype=dtype) for xp in (pk, np))
        assert ours.dtype == numpys.dtype
        assert_array_equal(ours, numpys)
        assert pk.last_call().engine == engine
