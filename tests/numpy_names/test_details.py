"""Details that must match NumPy: keywords, warnings, the sign of zero, memory layouts, and errors."""

import warnings

import numpy as np
import pytest
from helpers.numpy_versions import since

import pycudakit as pk

X = np.arange(24.0).reshape(2, 3, 4)
Y = X + 1
MASK = np.array([True, False, True])
INFINITIES = np.array([1.0, np.inf, -np.inf])
SWAPPED = np.array([1.0, 2.0, 4.0], ">f8")
LAYOUTS = {"C": X, "F": np.asfortranarray(X), "T": X.transpose(2, 0, 1)}


def fixed(array):
    array.flags.writeable = False
    return array


# ---- Keywords of matmul, vecdot, divmod, and of all ufuncs -------------------------------------------

KEYWORDS = {
    "matmul axes": lambda k: k.matmul(X, Y, axes=[(0, 1), (1, 0), (0, 1)]),
    "matmul axes of the result": lambda k: k.matmul(X, Y, axes=[(0, 1), (1, 0), (2, 0)]),
    "matmul axes, out": lambda k: k.matmul(X, Y, axes=[(0, 1), (1, 0), (0, 1)], out=np.zeros((2, 2, 4))),
    "matmul axes, dtype": lambda k: k.matmul(X, Y, axes=[(0, 1), (1, 0), (0, 1)], dtype=np.float32),
    "matmul an axis twice": lambda k: k.matmul(X, Y, axes=[(0, 1), (0, 1), (1, 1)]),
    "matmul axis": lambda k: k.matmul(X, Y, axis=0),
    "matmul keepdims": lambda k: k.matmul(X, Y, keepdims=True),
    "matmul order": lambda k: k.matmul(X, Y.swapaxes(1, 2), order="F"),
    "matmul out=...": lambda k: k.matmul([1], [2], out=...),
    "matmul larger out": lambda k: k.matmul(X, Y.swapaxes(1, 2), out=np.zeros((5, 2, 3, 3))),
    "vecdot axis": lambda k: k.vecdot(X, Y, axis=1),
    "vecdot axes": lambda k: k.vecdot(X, np.moveaxis(Y, 1, 0), axes=[1, 0]),
    "vecdot axes of three": lambda k: k.vecdot(X, Y, axes=[(1,), 1, ()]),
    "vecdot axes, kept": lambda k: k.vecdot(X, Y, axes=[1, 1, 0], keepdims=True),
    "vecdot axes, kept last": lambda k: k.vecdot(X, Y, axes=[1, 1], keepdims=True),
    "vecdot axis, kept": lambda k: k.vecdot(X, Y, axis=1, keepdims=True),
    "vecdot kept in out": lambda k: k.vecdot(X, Y, axis=1, keepdims=True, out=np.zeros((2, 1, 4))),
    "vecdot axis and axes": lambda k: k.vecdot(X, Y, axis=1, axes=[1, 1]),
    "vecdot axes of one": lambda k: k.vecdot(X, Y, axes=[1]),
    "vecdot an axis for no axis": lambda k: k.vecdot(X, Y, axes=[1, 1, 1]),
    "vecdot float axis": lambda k: k.vecdot(X, Y, axis=1.0),
    "vecdot dtype": lambda k: k.vecdot(X, Y, dtype=np.float32),
    "vecdot casting": lambda k: k.vecdot([1], [2], dtype=np.int8, casting="safe"),
    "vecdot order": lambda k: k.vecdot(X, Y, order="F"),
    "vecdot larger out": lambda k: k.vecdot(X, Y, out=np.zeros((5, 2, 3))),
    "divmod order": lambda k: k.divmod(X, Y, order="F"),
    "divmod signature": lambda k: k.divmod(X, Y, signature="ff->ff"),
    "divmod out=...": lambda k: k.divmod(5, 3, out=...),
    "divmod one out": lambda k: k.divmod([1, 2], 2, out=(None, np.zeros(2))),
    "divmod where": lambda k: k.divmod(MASK + 4, 2, where=np.array([True, True, True])),
    "larger out": lambda k: k.add(X[0], 1, out=np.zeros((2, 3, 4))),
    "where without out": lambda k: k.add(MASK, 1.0, where=np.array([True, True, True])),
    "where with out=None": lambda k: k.add(MASK, 1.0, out=None, where=np.array([True, True, True])),
    "where with out": lambda k: k.add(MASK, 1.0, out=np.zeros(3), where=MASK),
    "unary where without out": lambda k: k.exp(MASK + 0.5, where=np.array([True, True, True])),
    "sig and signature": lambda k: k.add(1, 2, sig="ii->i", signature="ii->i"),
    "astype device": lambda k: k.astype(X, np.float32, device="cpu"),
    "astype wrong device": lambda k: k.astype(X, np.float32, device="gpu"),
}

# ---- Former differences from NumPy --------------------------------------------------------------------

DETAILS = {
    "round, out of another shape": lambda k: k.round(X[0, 0], 1, out=np.zeros(3)),
    "round, out of no dimensions": lambda k: k.round(np.array([1.25]), 1, out=np.zeros(())),
    "round a number to an array": lambda k: k.round(np.array(1.25), 1, out=np.zeros(1)),
    "round a number": lambda k: k.round(np.array(1.25), 1, out=np.zeros(())),
    "round, read-only": lambda k: k.round(X[0, 0], 1, out=fixed(np.zeros(4))),
    "round, read-only of another shape": lambda k: k.round(X[0, 0], 1, out=fixed(np.zeros(3))),
    "round, out a list": lambda k: k.round(X[0, 0], 1, out=[0, 0, 0, 0]),
    "sum from -0.0": lambda k: k.sum(np.array([-0.0]), initial=-0.0),
    "sum of float32 from -0.0": lambda k: k.sum(np.float32([-0.0, -0.0]), initial=-0.0),
    "sum from -0.0 along": lambda k: k.sum(np.array([[-0.0, -0.0], [0.0, -0.0]]), axis=1, initial=-0.0),
    "sum from -0.0 of cancelling terms": lambda k: k.sum(np.array([1.0, -1.0]), initial=-0.0),
    "sum from -0.0, where": lambda k: k.sum(np.array([-0.0, 1]), initial=-0.0, where=MASK[:2]),
    "sum from -0.0 of nothing": lambda k: k.sum(np.array([1.0]), initial=-0.0, where=MASK[1:2]),
    "nansum from -0.0": lambda k: k.nansum(np.array([[-0.0, -0.0], [-0.0, np.nan]]), axis=1, initial=-0.0),
    "add.reduce from -0.0": lambda k: k.add.reduce(np.array([-0.0]), initial=-0.0),
    "nan_to_num in place": lambda k: k.nan_to_num(np.array([1.0, np.nan]), copy=False),
    "nan_to_num of a list in place": lambda k: k.nan_to_num([1.0, np.nan], copy=False),
    "nan_to_num of a number in place": lambda k: k.nan_to_num(np.nan, copy=False),
    "nan_to_num in place, read-only": lambda k: k.nan_to_num(fixed(np.zeros(3)), copy=False),
    "nanmean to integers": lambda k: k.nanmean(np.array([1.5, np.nan]), out=np.zeros((), int)),
    "nanmean of integers to integers": lambda k: k.nanmean(np.array([1, 4]), out=np.zeros((), int)),
    "var, where, of one": lambda k: k.var(np.array([1.0, 2.0, 3.0]), ddof=1, where=[True, False, False]),
    "var, where, of none": lambda k: k.var(np.array([1.0, 2.0, 3.0]), where=[False] * 3),
    "norm of float16": lambda k: k.linalg.norm(np.array([3, 4], np.float16)),
    "trace of float16": lambda k: k.trace(np.full((3, 3), 40000, np.float16)),
    "mean of infinities": lambda k: k.mean(INFINITIES),
    "var of infinities": lambda k: k.var(INFINITIES),
    "var of infinities along": lambda k: k.var(np.stack([INFINITIES, [0.0, 1.0, 2.0]]), axis=1),
    "std of an infinity": lambda k: k.std(INFINITIES[:2]),
    "nanvar of infinities": lambda k: k.nanvar(INFINITIES),
    "var beyond": lambda k: k.var(np.array([1e200, -1e200])),
    "mean beyond": lambda k: k.mean(np.array([1.7e308, 1.7e308])),
    "quantile, float axis": lambda k: k.quantile(X, 0.5, axis=1.0),
    "median, float axis": lambda k: k.median(X, axis=1.0),
    "mean, a bool as axis": lambda k: k.mean(X, axis=True),
    "mean of a vector, a bool as axis": lambda k: k.mean(X[0], axis=True),
    "var of a vector, a bool among axes": lambda k: k.var(X[0], axis=(0, True)),
    "mean, NumPy's bool as axis": lambda k: k.mean(X, axis=np.True_),
    "argmax, a bool as axis": lambda k: k.argmax(X, axis=True),
    "sum, a bool among axes": lambda k: k.sum(X, axis=(0, True)),
    "std, a bool among axes": lambda k: k.std(X, axis=(True, 0)),
    "argsort, a bool as axis": lambda k: k.argsort(X, axis=True),
    "argpartition, a bool as axis": lambda k: k.argpartition(X, 0, axis=True),
    "take, a bool as axis": lambda k: k.take(X, [0], axis=True),
    "equal to 2**64, casting no": lambda k: k.equal(np.arange(3), 2**64, casting="no"),
    "less than 2**64, casting equiv": lambda k: k.less(2**64, np.arange(3), casting="equiv"),
    "not equal to 300, casting no": lambda k: k.not_equal(np.arange(3, dtype=np.uint8), 300, casting="no"),
    "equal to 2**64, casting no, swapped": lambda k: k.equal(np.arange(3, dtype=">i8"), 2**64, casting="no"),
    "histogram, swapped weights": lambda k: k.histogram([1, 2, 2], [0, 2, 5], weights=SWAPPED),
    "histogram, swapped integers": lambda k: k.histogram([1, 2, 2], [0, 2, 5], weights=SWAPPED.astype(">i4")),
    "histogram of none, swapped weights": lambda k: k.histogram([], [0, 2, 5], weights=SWAPPED[:0]),
    "bincount, swapped weights": lambda k: k.bincount([1, 2, 2], weights=SWAPPED),
    "histogram2d, swapped weights": lambda k: k.histogram2d([1, 2, 2], [1, 2, 2], 2, weights=SWAPPED),
    "var, few of infinities": lambda k: k.var(np.full((2, 3), np.inf), axis=0, ddof=1, where=MASK[:2, None]),
    "var, few of NaN": lambda k: k.var(np.full((2, 3), np.nan), axis=0, ddof=1, where=MASK[:2, None]),
    "var, few degrees of freedom": lambda k: k.var(X, axis=0, ddof=2, where=X > 0),
    "std, few degrees of freedom": lambda k: k.std(X, axis=0, ddof=1, where=X > 0),
}
for _name, _array in LAYOUTS.items():
    DETAILS |= {
        f"sum, {_name}": lambda k, a=_array: k.sum(a, axis=1),
        f"max, {_name}": lambda k, a=_array: k.max(a, axis=0),
        f"var, {_name}": lambda k, a=_array: k.var(a, axis=2),
        f"norm, {_name}": lambda k, a=_array: k.linalg.norm(a, axis=1),
        f"norm of order 3, {_name}": lambda k, a=_array: k.linalg.norm(a, 3, axis=1),
        f"norm of matrices, {_name}": lambda k, a=_array: k.linalg.norm(a, axis=(0, 2)),
        f"tril, {_name}": lambda k, a=_array: k.tril(a),
        f"triu, {_name}": lambda k, a=_array: k.triu(a, 1),
    }


def outcome(call, kit):
    """Return a result and the warnings."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            result = call(kit)
        except (TypeError, ValueError) as error:
            result = error
    words = [
        str(each.message).replace("unitialized", "uninitialized") for each in met
    ]  # NumPy 2.4 misspells it
    return result, [(each.category, text) for each, text in zip(met, words, strict=True)]


def check(got, want):
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for ours, theirs in zip(got, want, strict=True):
            check(ours, theirs)
    elif isinstance(want, Exception):
        assert isinstance(got, type(want)) or isinstance(want, type(got)), got
        assert not isinstance(got, pk.errors.Error)
    else:
        assert type(got) is type(want)
        np.testing.assert_allclose(got, want, rtol=1e-6 if got.dtype == np.float32 else 1e-13, strict=True)
        assert got.strides == want.strides
        if got.dtype.kind == "f":
            assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


SINCE = {"matmul out=...": "2.3", "divmod out=...": "2.3", "astype device": "2.1", "var beyond": "2.4"}


@pytest.mark.parametrize("asked", ["auto", None])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=since(SINCE[n])) if n in SINCE else n for n in (*KEYWORDS, *DETAILS)],
)
def test_as_numpy(engine, asked, name):
    call = KEYWORDS.get(name) or DETAILS[name]
    want, met = outcome(call, np)
    with pk.engine(asked or engine):
        for _ in range(3 if asked == "auto" else 1):  # the third call takes the cached path
            got, ours = outcome(call, pk)
            check(got, want)
            assert sorted(map(str, ours)) == sorted(map(str, met))


@pytest.mark.parametrize(
    "name", ["matmul axes", "matmul larger out", "vecdot axes, kept", "vecdot larger out"]
)
def test_keywords_run_on_engines(engine, name):
    KEYWORDS[name](pk)
    assert pk.last_call().engine == engine


def test_a_mask_without_out_warns_of_the_callers_line(engine):
    if np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("NumPy warns since 2.4")
    with pytest.warns(UserWarning, match="'where' used without 'out'") as met:
        pk.add(X, 1, where=X > 2)
    assert met[0].filename == __file__


@pytest.mark.parametrize("fuse", [pk.fuse, lambda function: function], ids=["fused", "called"])
def test_composites_warn_of_the_callers_line(engine, fuse):
    """Python shows a DeprecationWarning only if the line is the user's."""
    bodies = {"Degrees of freedom": lambda x: pk.cov(x[:, :1])}
    if np.lib.NumpyVersion("2.0.0") <= np.lib.NumpyVersion(np.__version__) < "2.5.0":
        bodies["2-dimensional vectors"] = lambda x: pk.cross(x, x)
    for text, body in bodies.items():
        with np.errstate(all="ignore"), pytest.warns(Warning, match=text) as met:
            fuse(body)(np.ones((40, 2)))
        assert [one.filename for one in met if text in str(one.message)] == [__file__]


def test_nan_to_num_writes_to_its_argument(engine):
    x = np.array([1.0, np.nan, np.inf])[::2]
    assert pk.nan_to_num(x, copy=False, posinf=5.0) is x
    assert x.tolist() == [1.0, 5.0]
