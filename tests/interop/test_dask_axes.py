"""Dask arrays: functions along an axis, indexing, products; blocks give the results of whole arrays."""

import pickle

import numpy as np
import pytest
from helpers.thorough_cases import thorough

import pycudakit as pk

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
lazy_helpers = pytest.importorskip("helpers.dask_arrays")
cut, described, same = lazy_helpers.cut, lazy_helpers.described, lazy_helpers.same
in_this_thread = lazy_helpers.in_this_thread

RNG = np.random.default_rng(0)
X, T, V = RNG.normal(size=(12, 9)), RNG.normal(size=(4, 5, 6)), RNG.normal(size=50)
WHOLE, W = RNG.integers(0, 9, 50), RNG.random((12, 9))
HOLED = np.where(X > -1, X, np.nan)


# Each is a call by NumPy or pycudakit and its array; the result has the bits of one machine.
EXACT = {
    "interp": (V, lambda m, v: m.interp(v, [-1, 0, 1.0], [5, 6, 9.0])),
    "digitize": (V, lambda m, v: m.digitize(v, [-1, 0, 1.0], right=True)),
    "isin": (WHOLE, lambda m, i: m.isin(i, [1, 2, 3])),
    "isin of others": (WHOLE, lambda m, i: m.isin(i, [1, 2, 3], invert=True)),
    "searchsorted": (V, lambda m, v: m.searchsorted(np.array([-1, 0, 1.0]), v, side="right")),
    "flip": (X, lambda m, x: m.flip(x)),
    "flip of an axis": (X, lambda m, x: m.flip(x, axis=0)),
    "roll": (X, lambda m, x: m.roll(x, 3)),
    "roll of an axis": (X, lambda m, x: m.roll(x, -2, axis=1)),
    "tril": (X, lambda m, x: m.tril(x, 1)),
    "triu": (X, lambda m, x: m.triu(x)),
    "transpose": (T, lambda m, t: m.transpose(t)),
    "transpose by axes": (T, lambda m, t: m.transpose(t, (1, 0, 2))),
    "swapaxes": (T, lambda m, t: m.swapaxes(t, 0, 2)),
    "take": (X, lambda m, x: m.take(x, [1, -1, 3, 1], axis=0)),
    "take of one": (X, lambda m, x: m.take(x, 3, axis=1)),
    "take of a table": (X, lambda m, x: m.take(x, [[1, 2], [3, 4]], axis=1)),
    "take of all": (X, lambda m, x: m.take(x, [100, 7])),
    "compress": (X, lambda m, x: m.compress([True, False, True], x, axis=0)),
    "nonzero": (WHOLE, lambda m, i: m.nonzero(i)[0]),
    "flatnonzero": (WHOLE, lambda m, i: m.flatnonzero(i)),
    "argwhere": (X, lambda m, x: m.argwhere(m.greater(x, 0))),
    "unique": (WHOLE, lambda m, i: m.unique(i)),
    "unique's counts": (WHOLE, lambda m, i: m.unique(i, return_counts=True)[1]),
    "unique's inverse": (WHOLE, lambda m, i: m.unique(i, return_index=True, return_inverse=True)[2]),
    "sort": (X, lambda m, x: m.sort(x)),
    "sort of columns": (X, lambda m, x: m.sort(x, axis=0)),
    "sort of a short one": (V[:3], lambda m, v: m.sort(v)),
    "argsort": (T, lambda m, t: m.argsort(t, 1, stable=True)),
    "partition": (X, lambda m, x: m.partition(x, 3, axis=0)[3]),
    "median": (X, lambda m, x: m.median(x, axis=0)),
    "median of axes": (T, lambda m, t: m.median(t, axis=(0, 2), keepdims=True)),
    "median, overwriting": (X, lambda m, x: m.median(+x, axis=1, overwrite_input=True)),
    "nanmedian": (HOLED, lambda m, x: m.nanmedian(x, axis=0)),
    "quantile": (T, lambda m, t: m.quantile(t, [0.1, 0.5], axis=1)),
    "quantile by a method": (T, lambda m, t: m.quantile(t, 0.3, axis=(1, 2), method="lower")),
    "nanquantile": (HOLED, lambda m, x: m.nanquantile(x, 0.3, axis=-1)),
    "percentile": (X, lambda m, x: m.percentile(x, [[5, 10], [20, 30.0]], axis=1, keepdims=True)),
    "quantile with weights": (
        X,
        lambda m, x: m.quantile(x, 0.3, axis=1, weights=np.arange(1.0, 10), method="inverted_cdf"),
    ),
    "cumsum": (X, lambda m, x: m.cumsum(x, axis=0)),
    "cumsum of rows": (T, lambda m, t: m.cumsum(t, axis=1, dtype=np.float32)),
    "cumsum of integers": (WHOLE, lambda m, i: m.cumsum(i)),
    "cumsum that wraps": (WHOLE.astype("u1"), lambda m, i: m.cumsum(i, dtype=np.uint8)),
    "cumprod of integers": (WHOLE, lambda m, i: m.cumprod(i)),
    "nancumsum": (HOLED, lambda m, x: m.nancumsum(x, axis=1)),
    "diff": (V, lambda m, v: m.diff(v)),
    "diff of bools": (V > 0, lambda m, v: m.diff(v)),
    "diff of diff": (X, lambda m, x: m.diff(x, 2, axis=0)),
    "no diff": (X, lambda m, x: m.diff(+x, 0)),
    "trace": (X, lambda m, x: m.trace(x)),
    "trace of a stack": (T, lambda m, t: m.trace(t, 1, 0, 2)),
    "allclose": (X, lambda m, x: m.allclose(x, x)),
    "array_equal": (X, lambda m, x: m.array_equal(x, x)),
    "array_equal of others": (HOLED, lambda m, x: m.array_equal(x, x)),
    "array_equal with NaN": (HOLED, lambda m, x: m.array_equal(x, x, equal_nan=True)),
    "array_equal of shapes": (X, lambda m, x: m.array_equal(x, np.ones(9))),
    "outer": (V, lambda m, v: m.outer(v, [1.0, 2.0, 3.0])),
    "average": (X, lambda m, x: m.average(x, axis=0)),
    "average's count": (X, lambda m, x: m.average(x, axis=0, returned=True)[1]),
    "dot of a number": (X, lambda m, x: m.dot(x, 3.0)),
    "matmul of integers": (WHOLE.astype("i4"), lambda m, i: m.matmul(i, i)),
    "matmul of bools": (V > 0, lambda m, v: m.matmul(v, v)),
    "take_along_axis": (X, lambda m, x: m.take_along_axis(x, m.argsort(x, axis=1), axis=1)),
    "unique of a table": (WHOLE.reshape(5, 10), lambda m, i: m.unique(i, return_inverse=True)[1]),
    "union1d": (WHOLE, lambda m, i: m.union1d(i, [3, 30])),
    "intersect1d": (WHOLE, lambda m, i: m.intersect1d(i, [3, 30, 5])),
    "setdiff1d": (WHOLE, lambda m, i: m.setdiff1d(i, [3, 30])),
    "setxor1d": (WHOLE, lambda m, i: m.setxor1d([3, 30], i)),
    "kron": (X, lambda m, x: m.kron(x, [[1.0, 2.0], [3.0, 4.0]])),
    "repeat": (X, lambda m, x: m.repeat(x, 2, axis=1)),
    "repeat by counts": (X, lambda m, x: m.repeat(x, np.arange(12), axis=0)),
    "tile": (X, lambda m, x: m.tile(x, (2, 1))),
    "concatenate": (X, lambda m, x: m.concatenate([x, np.ones((1, 9)), x])),
    "stack": (X, lambda m, x: m.stack([x, x], axis=1)),
    "pad": (X, lambda m, x: m.pad(x, ((1, 2), (0, 3)), "reflect")),
    "pad with numbers": (X, lambda m, x: m.pad(x, 2, constant_values=7.0)),
    "convolve of integers": (WHOLE, lambda m, i: m.convolve(i, [1, 2, 3, 4], "same")),
    "correlate of integers": (WHOLE, lambda m, i: m.correlate([1, 2, 3, 4], i, "full")),
    "histogram2d": (V, lambda m, v: m.histogram2d(v, v[::-1], 4, [[-1, 1], [-2, 2]])[0]),
    "histogramdd": (X[:, :3], lambda m, x: m.histogramdd(x, [np.arange(-2.0, 3)] * 3)[0]),
    "a list of arrays": (V, lambda m, v: m.add([v, v + 1], 1)),
    "gradient": (X, lambda m, x: m.gradient(x, axis=0)),
    "gradient of two": (X[:, :2], lambda m, x: m.gradient(x, axis=1)),
    "gradient of axes": (T, lambda m, t: m.gradient(t, 0.5, 2.0, 3.0, edge_order=2)[1]),
    "gradient by places": (X.astype("f4"), lambda m, x: m.gradient(x, np.arange(9.0) ** 2, axis=1)),
    "add.reduce": (WHOLE.reshape(5, 10), lambda m, i: m.add.reduce(i)),
    "maximum.reduce": (X, lambda m, x: m.maximum.reduce(x, axis=(0, 1), keepdims=True)),
    "logical_and.reduce": (WHOLE.reshape(5, 10), lambda m, i: m.logical_and.reduce(i, -1)),
    "multiply.accumulate": (WHOLE.reshape(5, 10), lambda m, i: m.multiply.accumulate(i, 1)),
    "subtract.outer": (V, lambda m, v: m.subtract.outer(v, v[:5])),
    "kron with nothing": (X, lambda m, x: m.kron(x, np.ones((0, 2)))),
    "einsum of integers": (WHOLE.reshape(5, 10), lambda m, i: m.einsum("ij,kj", i, i)),
}


@pytest.mark.parametrize("which", [0, 2, *thorough(1, 3)])
@pytest.mark.parametrize("name", EXACT)
def test_bits_of_one_machine(engine, name, which):
    array, call = EXACT[name]
    lazy, whole = call(pk, cut(array, which)), np.asarray(call(pk, array))
    same(lazy, whole)
    described(lazy, whole)
    np.testing.assert_allclose(whole, call(np, array), rtol=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_bytes_in_the_other_order(engine, name):
    array, call = EXACT[name]
    array = array.astype(array.dtype.newbyteorder(">"))
    for which in range(2):
        lazy, whole = call(pk, cut(array, which)), np.asarray(call(pk, array))
        if name == "no diff":  # `+x` of Dask leaves the byte order
            whole = whole.astype(array.dtype)
        assert lazy.dtype == lazy.compute().dtype == whole.dtype
        same(lazy, whole)


# Calls whose results agree within rounding errors.
NEAR = {
    "cumsum": (V, lambda m, v: m.cumsum(v)),
    "cumulative_sum": (V, lambda m, v: m.cumulative_sum(v)),
    "cumsum of float32": (V.astype("f4"), lambda m, v: m.cumsum(v)),
    "cumsum to float32": (WHOLE, lambda m, i: m.cumsum(i, dtype=np.float32)),
    "cumprod": (V, lambda m, v: m.cumprod(v)),
    "nancumprod": (HOLED[0], lambda m, v: m.nancumprod(v)),
    "average with weights": (X, lambda m, x: m.average(x, weights=np.arange(9.0) * np.ones((12, 1)), axis=1)),
    "average's weights": (X, lambda m, x: m.average(x, 0, x, returned=True)[1]),
    "norm": (X, lambda m, x: m.linalg.norm(x)),
    "norm of float32": (X.astype("f4"), lambda m, x: m.linalg.norm(x, axis=1, keepdims=True)),
    "norm of a matrix": (X, lambda m, x: m.linalg.norm(x, "fro")),
    "norm by sizes": (X, lambda m, x: m.linalg.norm(x, 1, axis=0)),
    "norm by the greatest": (V, lambda m, v: m.linalg.norm(v, np.inf)),
    "matmul": (X, lambda m, x: m.matmul(x, m.transpose(x))),
    "matmul of columns": (X, lambda m, x: m.matmul(m.transpose(x), x)),
    "matmul of a stack": (T, lambda m, t: m.matmul(t, m.swapaxes(t, 1, 2))),
    "matmul of a stack and one": (T, lambda m, t: m.matmul(t, np.ones((6, 3)))),
    "matmul of one and a stack": (X, lambda m, x: m.matmul(x, np.ones((2, 1, 9, 3)))),
    "matmul by a vector": (X, lambda m, x: m.matmul(x, np.arange(9.0))),
    "matmul of a vector": (X, lambda m, x: m.matmul(np.arange(12.0), x)),
    "matmul of vectors": (V, lambda m, v: m.matmul(v, v)),
    "dot": (T, lambda m, t: m.dot(t, np.ones((2, 6, 3)))),
    "dot by a vector": (T, lambda m, t: m.dot(t, np.arange(6.0))),
    "inner": (X, lambda m, x: m.inner(x, x)),
    "vecdot": (T, lambda m, t: m.vecdot(t, t)),
    "vecdot by a vector": (T, lambda m, t: m.vecdot(t, np.arange(6.0))),
    "vdot": (X, lambda m, x: m.vdot(x, x)),
    "tensordot": (T, lambda m, t: m.tensordot(t, t, axes=([0, 2], [0, 2]))),
    "tensordot of an axis": (X, lambda m, x: m.tensordot(x, np.ones((9, 2)), axes=1)),
    "tensordot of none": (V, lambda m, v: m.tensordot(v, [1.0, 2.0], axes=0)),
    "matrix_power": (X[:9], lambda m, x: m.linalg.matrix_power(x, 5)),
    "convolve": (V, lambda m, v: m.convolve(v, v[:7])),
    "trapezoid": (X, lambda m, x: m.trapezoid(x, axis=1)),
    "cross": (X[:, :3], lambda m, x: m.cross(x, x[::-1])),
    "cov": (X, lambda m, x: m.cov(x)),
    "corrcoef": (X, lambda m, x: m.corrcoef(x)),
    "einsum": (T, lambda m, t: m.einsum("ijk,ljk->li", t, t)),
    "einsum of one": (X, lambda m, x: m.einsum("ij->j", x)),
    "einsum without an arrow": (X, lambda m, x: m.einsum("ij, kj", x, x)),
}


@pytest.mark.parametrize("which", [0, 2, *thorough(1, 3)])
@pytest.mark.parametrize("name", NEAR)
def test_within_rounding(engine, name, which):
    array, call = NEAR[name]
    lazy = call(pk, cut(array, which))
    found, want = lazy.compute(), np.asarray(call(np, array))
    described(lazy, found)
    assert found.dtype == want.dtype
    scale = np.abs(want).max()
    within = 64 * np.finfo(array.dtype if array.dtype.kind == "f" else want.dtype).eps
    np.testing.assert_allclose(found, want, rtol=within, atol=within * scale)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("name", ["cummax", "cummin", "exclusive_scan"])
def test_scans_that_numpy_lacks(engine, name, which):
    function = getattr(pk, name)
    zeros = np.where(V > 0, -0.0, 0.0)  # the first zero is kept
    for array in (WHOLE, WHOLE.astype("f4"), *([] if name == "exclusive_scan" else [V, HOLED[0], zeros])):
        lazy = function(cut(array, which))
        same(lazy, function(array))
        described(lazy, function(array))
    before = {"cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}.get(
        name, lambda a: np.concatenate([[0], np.cumsum(a)[:-1]])
    )
    np.testing.assert_array_equal(function(cut(WHOLE, which)).compute(), before(WHOLE))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("axis", [0, -1])
def test_the_best_of_lines(engine, which, axis):
    lazy, whole = pk.topk(cut(X, which), 2, axis=axis, largest=False), pk.topk(X, 2, axis=axis, largest=False)
    same(lazy.values, whole.values)
    same(lazy.indices, whole.indices)
    np.testing.assert_array_equal(whole.values, np.sort(X, axis=axis).take([0, 1], axis=axis))


@pytest.mark.parametrize("which", range(4))
def test_evaluate(engine, which):
    x, w = cut(X, which), cut(W, which + 1)
    same(
        pk.evaluate("where(x > 0, sqrt(w), x) * 2"),
        pk.evaluate("where(x > 0, sqrt(w), x) * 2", {"x": X, "w": W}),
    )
    same(pk.evaluate("x * w + row", {"x": x, "w": w, "row": X[0]}), X * W + X[0])
    same(pk.evaluate("sum(x*w, axis=0)"), pk.sum(X * W, axis=0))
    same(pk.evaluate("max(x - w, axis=1, keepdims=True)", {"x": x, "w": w}), np.max(X - W, 1, keepdims=True))
    np.testing.assert_allclose(pk.evaluate("std(x + w, ddof=1)").compute(), np.std(X + W, ddof=1), rtol=1e-12)
    with pytest.raises(pk.errors.Unsupported, match="neither `out`"):
        pk.evaluate("x + w", out=np.empty_like(X))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", ["argmin", "argmax", "nanargmin", "nanargmax"])
def test_the_first_of_equals(engine, name, which):
    """The first of all elements wins, whatever its block."""
    for table in (WHOLE[:48].reshape(6, 8), np.where(np.eye(6, 8), np.nan, WHOLE[:48].reshape(6, 8) % 3)):
        want = getattr(np, name)(table)
        same(getattr(pk, name)(cut(table, which)), want)
        same(getattr(pk, name)(cut(table, which), keepdims=True), np.full((1, 1), want))
    nothing = da.full((4, 4), np.nan, chunks=2)
    if name.startswith("nan"):
        with pytest.raises(ValueError, match="All-NaN slice encountered"):
            getattr(pk, name)(nothing).compute()
    else:
        assert getattr(pk, name)(nothing).compute() == 0


IMAGES = RNG.integers(0, 256, (5, 8, 9, 3), np.uint8)


@pytest.mark.parametrize("chunks", [(5, 8, 9, 3), (2, 8, 9, 3), (2, 3, 4, 2)])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: pk.image.resize(x, (4, 5)),
        pk.image.equalize_histogram,
        pk.image.rgb_to_gray,
        lambda x: pk.image.gray_to_rgb(x[..., 0]),
        lambda x: pk.image.threshold(x, 100),
        lambda x: pk.image.normalize(x, mean=(1.0, 2.0, 3.0), std=2.0),
        lambda x: pk.image.flip(x, 1),
        lambda x: pk.image.rotate90(x, 3),
        lambda x: pk.image.crop(x, 1, 2, 3, 4),
    ],
)
def test_images(engine, call, chunks):
    lazy, whole = call(da.from_array(IMAGES, chunks=chunks)), call(IMAGES)
    same(lazy, whole)
    described(lazy, whole)


def test_nothing_is_computed_before_it_is_asked_for(engine):
    def computed(*_):
        raise AssertionError("something was computed")

    with dask.callbacks.Callback(start=computed):
        for array, call in (*EXACT.values(), *NEAR.values()):
            call(pk, cut(array, 1))
        pk.image.resize(da.from_array(IMAGES, chunks=(2, 3, 4, 2)), (4, 5))


def test_arrays_by_their_names(engine):
    same(pk.sort(a=cut(X, 3), axis=0), np.sort(X, axis=0))
    np.testing.assert_allclose(pk.average(cut(X, 3), weights=cut(W, 1)).compute(), np.average(X, weights=W))


@pytest.mark.parametrize("name", ["sort", "median", "cumsum of integers", "matmul of integers", "interp"])
def test_they_pickle(name):
    array, call = EXACT[name]
    lazy = call(pk, cut(array, 1))
    same(pickle.loads(pickle.dumps(lazy)), lazy.compute())
