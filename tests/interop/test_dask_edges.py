"""Edge cases of Dask arrays: empty, of unknown size, of many blocks, and unsupported calls."""

import time

import numpy as np
import pytest

import pycudakit as pk

da = pytest.importorskip("dask.array")
lazy_helpers = pytest.importorskip("helpers.dask_arrays")
cut, in_this_thread, same = lazy_helpers.cut, lazy_helpers.in_this_thread, lazy_helpers.same

RNG = np.random.default_rng(0)
X, T, V = RNG.normal(size=(12, 9)), RNG.normal(size=(4, 5, 6)), RNG.normal(size=50)
NOTHING = [X[:0], X[:, :0], T[:, :0], V[:0]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("array", NOTHING, ids=lambda array: "x".join(map(str, array.shape)))
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.pad(x, 2, constant_values=1.0),
        lambda m, x: m.pad(x, 2, "reflect"),
        lambda m, x: m.nanquantile(x, [0.5, 0.7], axis=-1, method="nearest"),
        lambda m, x: m.linalg.norm(x, np.inf, axis=0),
        lambda m, x: m.partition(x, 2, axis=0),
        lambda m, x: m.gradient(x, axis=-1),
        lambda m, x: m.repeat(x, 3, axis=-1),
        lambda m, x: m.roll(x, 3),
        lambda m, x: m.argmax(x, axis=0),
        lambda m, x: m.argwhere(x),
        lambda m, x: m.cumsum(x, axis=0),
    ],
)
def test_arrays_without_elements(engine, call, array):
    try:
        want = call(np, array)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            call(pk, da.from_array(array, chunks=3)).compute()
    else:
        same(call(pk, da.from_array(array, chunks=3)), want)


def test_blocks_of_nothing_and_of_unknown_sizes(engine):
    lazy = da.from_array(V, chunks=((0, 20, 0, 30, 0),))
    for name in ("cummax", "exclusive_scan"):
        np.testing.assert_allclose(getattr(pk, name)(lazy).compute(), getattr(pk, name)(V), rtol=1e-12)
    positive = cut(V, 2)[cut(V, 2) > 0]
    np.testing.assert_allclose(pk.cumsum(positive).compute(), np.cumsum(V[V > 0]), rtol=1e-12)
    same(pk.interp(positive, [0, 1], [0, 1]), np.interp(V[V > 0], [0, 1], [0, 1]))
    same(pk.unique(positive), np.unique(V[V > 0]))
    same(
        pk.histogramdd(positive[:, np.newaxis], [np.arange(3.0)])[0],
        np.histogram(V[V > 0], [0, 1, 2])[0] * 1.0,
    )
    for function in (pk.diff, pk.argmin, pk.flip, pk.tril, pk.nonzero, pk.argwhere, pk.gradient):
        with pytest.raises(pk.errors.Unsupported, match=r"x\.compute_chunk_sizes\(\) first"):
            function(positive)
    with pytest.raises(np.exceptions.AxisError):
        pk.flip(positive, 1)
    with pytest.raises(pk.errors.Unsupported, match=r"x\.compute_chunk_sizes\(\) first"):
        pk.matmul(positive, positive)
    with pytest.raises(pk.errors.Unsupported, match=r"x\.compute_chunk_sizes\(\) first"):
        pk.sort(cut(X, 3)[cut(X, 3)[:, 0] > 0], axis=0)


@pytest.mark.thorough
def test_many_blocks(engine):
    """There are no warnings, and a scan adds the block totals once."""
    row = da.from_array(np.arange(3000), chunks=5)
    same(pk.cumsum(row), np.cumsum(np.arange(3000)))
    same(pk.cumsum(row.astype("f4"))[:90], np.cumsum(np.arange(90), dtype="f4"))
    table = da.from_array(np.arange(900).reshape(30, 30), chunks=2)
    same(pk.matmul(table, table), np.arange(900).reshape(30, 30) @ np.arange(900).reshape(30, 30))


@pytest.mark.thorough
def test_neighbours_of_many_blocks(engine):
    """Neighbouring blocks are joined early, and the number of blocks stays."""
    lazy = da.from_array(np.arange(10_000.0) ** 2, chunks=10)
    start = time.perf_counter()
    slopes = pk.gradient(lazy)
    assert time.perf_counter() - start < 5
    assert slopes.chunks == lazy.chunks
    same(slopes, np.gradient(np.arange(10_000.0) ** 2))
    assert pk.diff(lazy, 2).npartitions == lazy.npartitions


def test_functions_written_for_numpy_on_any_engine():
    """pycudakit computes each by blocks; Dask's own function would compute at once or ignore an argument."""
    lazy = cut(V, 1)
    for name in ("auto", "numpy"):
        with pk.engine(name):
            for call in (
                lambda m, v: m.trapezoid(v, v),
                lambda m, v: m.stack([v, v], dtype=np.float32, casting="same_kind"),
            ):
                found = call(pk, lazy)
                np.testing.assert_allclose(found, call(np, V), rtol=1e-12)
                assert isinstance(found, da.Array)
            with pytest.raises(pk.errors.Unsupported, match="leave reflect_type out"):
                pk.pad(lazy, 2, "reflect", reflect_type="odd")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: pk.sort(x[0]), "sort of a Dask array needs all of it at once"),
        (lambda x: pk.image.resize(x, (3, 3)), "needs whole images: give a batch of them"),
        (lambda x: pk.lexsort((x, x)), "dask.array.map_blocks(pk.lexsort, x)"),
        (lambda x: pk.add(x, 1, out=np.empty((4, 4))), "neither `out` nor `where`"),
        (lambda x: pk.random.default_rng(1).normal(x), "normal: .compute() the Dask array first"),
        (lambda x: pk.random.default_rng(1).choice(x), "choice: .compute() the Dask array first"),
        (lambda x: pk.clip(x, min=np.ones(4)), "give arrays by position"),
        (pk.where, "or give two arrays to choose from"),
        (lambda x: pk.sum(x, where=True), "sum of a Dask array does not take where="),
        (lambda x: pk.sum(x, axis=()), "needs at least one axis"),
        (lambda x: pk.topk(x[0][x[0] > 0], 2), "its length is unknown: x.compute_chunk_sizes() first"),
        (lambda x: pk.histogram(x, 10), "their range=(low, high)"),
        (lambda x: pk.bincount(pk.astype(x[0], int)), "give minlength="),
    ],
)
def test_calls_that_need_the_whole_array_name_the_remedy(call, words):
    with pytest.raises(pk.errors.Unsupported) as caught:
        call(da.ones((4, 4), chunks=2))
    assert words in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_a_value_beyond_minlength(engine):
    with pytest.raises(pk.errors.InvalidArgument, match="minlength is 3, but the array contains 7"):
        pk.bincount(da.from_array(np.array([1, 7]), chunks=1), minlength=3).compute()


BESIDE = "choose axes that leave at least one other axis"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: pk.sort(x, axis=None),
            pk.errors.Unsupported,
            BESIDE,
        ),
        (pk.median, pk.errors.Unsupported, BESIDE),
        (lambda x: pk.sort(x[0], order="f"), pk.errors.Unsupported, "does not take order="),
        (pk.cumsum, pk.errors.Unsupported, BESIDE),
        (lambda x: pk.sort(x, axis=2), np.exceptions.AxisError, "axis 2 is out of bounds"),
        (lambda x: pk.partition(x, 4), ValueError, "4"),
        (lambda x: pk.quantile(x, 1.5, axis=0), ValueError, "range"),
        (lambda x: pk.quantile(x, x[0], axis=0), pk.errors.Unsupported, "q must be known"),
        (lambda x: pk.diff(x, prepend=0), pk.errors.Unsupported, "does not take prepend="),
        (lambda x: pk.interp(x, x[0], x[0]), pk.errors.Unsupported, "the others must be known"),
        (lambda x: pk.searchsorted(x[0], [1.0]), pk.errors.Unsupported, "the others must be known"),
        (lambda x: pk.take(x, [9], axis=0), IndexError, "out of bounds"),
        (lambda x: pk.take(x, [0], axis=True), TypeError, "an integer is required"),
        (lambda x: pk.repeat(x, 2, axis=True), TypeError, "an integer is required"),
        (lambda x: pk.trapezoid(x, axis=True), TypeError, "an integer is required"),
        (lambda x: pk.concatenate((x, x), axis=True), TypeError, "an integer is required"),
        (lambda x: pk.take(x, [1], mode="wrap"), pk.errors.Unsupported, "does not take mode="),
        (lambda x: pk.unique(x, axis=0), pk.errors.Unsupported, "does not take axis="),
        (lambda x: pk.pad(x, 5, "symmetric"), pk.errors.Unsupported, "a border narrower than the array"),
        (lambda x: pk.linalg.matrix_power(x, -1), pk.errors.Unsupported, "give a positive n"),
        (lambda x: pk.linalg.matrix_power(x[:3], 2), np.linalg.LinAlgError, "square"),
        (lambda x: pk.histogram2d(x[0], x[0], 3), pk.errors.Unsupported, "their range=(low, high)"),
        (lambda x: pk.take_along_axis(x[0], [1], 0), pk.errors.Unsupported, "x[indices] takes those"),
        (
            lambda x: pk.average(x, 0, np.ones(4)),
            pk.errors.Unsupported,
            "weights of the same shape as the array",
        ),
        (lambda x: pk.linalg.norm(x, 2), pk.errors.Unsupported, "ask for a vector's 1, 2 or inf"),
        (lambda x: pk.matmul(x, np.ones((3, 4))), ValueError, "matmul: axis lengths do not match: 4 and 3"),
        (lambda x: pk.matmul(x, 3.0), ValueError, "matmul"),
        (lambda x: pk.matmul(x, x, axes=[(0, 1)] * 3), pk.errors.Unsupported, "does not take axes="),
        (lambda x: pk.einsum("ii", x), pk.errors.Unsupported, "a letter of its own"),
        (lambda x: pk.einsum("ijk", x), ValueError, ""),
        (
            lambda x: pk.gradient(x, x[0], axis=0),
            pk.errors.Unsupported,
            "gradient of Dask arrays: coordinates must",
        ),
        (lambda x: pk.tile(x, pk.astype(x[0], int)), pk.errors.Unsupported, "reps must be known"),
        (lambda x: pk.cov(x, None, True, False, None, x[0]), pk.errors.Unsupported, "fweights must be known"),
        (lambda x: pk.concatenate([x, x], x[0, 0]), pk.errors.Unsupported, "axis must be known"),
        (lambda x: pk.concatenate([x[:, :0], x]), ValueError, "lengths of other axes differ: [(0,), (4,)]"),
        (lambda x: pk.stack([x, x], axis=x[0, 0]), pk.errors.Unsupported, "axis must be known"),
        (lambda x: pk.cumsum(2, x), pk.errors.Unsupported, "a must be one"),
        (
            lambda x: pk.add.reduce(x, initial=None),
            pk.errors.Unsupported,
            "add.reduce needs the whole Dask array",
        ),
        (pk.hypot.reduce, pk.errors.Unsupported, "hypot.reduce needs the whole Dask array"),
        (lambda x: pk.add.at(np.ones(4), x, 1), pk.errors.Unsupported, "add.at needs the whole Dask array"),
        (lambda x: pk.modf(x, x), pk.errors.Unsupported, "neither `out` nor `where`"),
        (pk.pinned_copy, pk.errors.Unsupported, "pinned_copy of a Dask array: .compute() it first"),
        (lambda x: pk.tensordot(x, x, axes=([0, 0], [0, 1])), ValueError, "repeated axis"),
    ],
)
def test_unsupported_calls_name_the_remedy(call, error, words):
    with pytest.raises(error) as caught:
        call(da.ones((4, 4), chunks=2))
    assert words in str(caught.value)
