"""Other libraries' host arrays: read in place (zero-copy), and rejected if that would lose information."""

import array
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors

X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])


class Tensor:
    """An object with DLPack only."""

    def __init__(self, array):
        self.array = array
        self.times = 0

    def __dlpack__(self, **keywords):
        self.times += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """An object with `__array_interface__` only."""

    def __init__(self, array):
        self._array = array

    @property
    def __array_interface__(self):
        return self._array.__array_interface__


def buffer(x):
    return memoryview(array.array(x.dtype.char, x.ravel().tolist())).cast("B").cast(x.dtype.char, x.shape)


KINDS = {"dlpack": Tensor, "interface": Interface, "buffer": buffer}

# A call of each family, and each kind of array object.
CALLS = {
    "add": lambda kit, x: kit.add(x, 1.0),
    "where=": lambda kit, x: kit.add(X, x, where=X > 2, out=np.zeros(X.shape)),
    "clip": lambda kit, x: kit.clip(x, 1.5, 2.5),
    "where": lambda kit, x: kit.where(X > 2, x, 0.0),
    "sum": lambda kit, x: kit.sum(x, axis=0),
    "argmax": lambda kit, x: kit.argmax(x, 1),
    "nanmean": lambda kit, x: kit.nanmean(x),
    "cumsum": lambda kit, x: kit.cumsum(x, axis=1),
    "diff": lambda kit, x: kit.diff(x),
    "sort": lambda kit, x: kit.sort(x, axis=0),
    "unique": lambda kit, x: kit.unique(x),
    "searchsorted": lambda kit, x: kit.searchsorted(np.array([2.0, 4.0]), x),
    "median": lambda kit, x: kit.median(x, axis=1),
    "histogram": lambda kit, x: kit.histogram(x, 3, (0, 6))[0],
    "digitize": lambda kit, x: kit.digitize(x, [2.0, 4.0]),
    "matmul": lambda kit, x: kit.matmul(x, X.T),
    "einsum": lambda kit, x: kit.einsum("ij,kj->ik", x, X),
    "dot": lambda kit, x: kit.dot(X.T, x),
    "interp": lambda kit, x: kit.interp(x, [0.0, 9.0], [0.0, 1.0]),
    "norm": lambda kit, x: kit.linalg.norm(x),
    "roll": lambda kit, x: kit.roll(x, 1),
    "tril": lambda kit, x: kit.tril(x),
    "lexsort": lambda kit, x: kit.lexsort([np.zeros(X.shape), x]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_read_as_numpys(engine, name, kind):
    assert_array_equal(CALLS[name](pk, KINDS[kind](X)), CALLS[name](pk, X))


@pytest.mark.parametrize("kind", KINDS)
def test_several_put_together(kind):
    for name in ("auto", "cpu"):
        with pk.engine(name):
            assert_array_equal(pk.concatenate([KINDS[kind](X), KINDS[kind](X)]), np.concatenate([X, X]))
            assert_array_equal(pk.stack([X, KINDS[kind](X)]), np.stack([X, X]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_read_under_auto(name, kind):
    np.testing.assert_allclose(CALLS[name](pk, KINDS[kind](X)), CALLS[name](np, X), rtol=1e-14)


KERNEL = pk.ElementwiseKernel("const double *x, double *y", "y[i] = 2 * x[i]", "twice")


def run_kernel(x):
    out = np.zeros(X.shape)
    KERNEL(x, out)
    return out


# Functions that NumPy lacks or defines otherwise.
OWN = {
    "evaluate": lambda x: pk.evaluate("x * 2 + 1", {"x": x}),
    "evaluate_sum": lambda x: pk.evaluate("sum(x * 2)", {"x": x}),
    "cummax": pk.cummax,
    "topk": lambda x: pk.topk(x, 1)[0],
    "fuse": pk.fuse(lambda v: np.sqrt(v) + v),
    "fuse_nested": lambda x: pk.fuse(lambda vs: np.sqrt(vs[0]) + vs[1])([X, x]),
    "choice": lambda x: pk.random.default_rng(3).choice(x, 1),
    "normal": lambda x: pk.random.default_rng(3).normal(x),
    "poisson": lambda x: pk.random.default_rng(3).poisson(lam=x),
    "permutation": lambda x: pk.random.default_rng(3).permutation(x),
    "box_blur": lambda x: pk.image.box_blur(x, 3),
    "kernel": run_kernel,
    "in": lambda x: run_kernel(pk.In(x)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OWN)
def test_functions_that_numpy_lacks(engine, name, kind):
    x = X.astype(np.float32) if name == "box_blur" else X
    given = KINDS[kind](x)
    if name in ("kernel", "in") and kind == "buffer":
        given = np.asarray(given)  # a pointer argument takes no plain buffer
    assert_array_equal(OWN[name](given), OWN[name](x))


def test_nothing_is_copied(engine):
    x = np.zeros(100_000)
    given = Tensor(x)
    out = np.empty_like(x)
    pk.add(given, 1.0, out=out)
    x[5] = 7
    pk.add(given, 1.0, out=out)
    assert out[5] == 8
    assert given.times == 2
    assert pk.last_call().bytes_up in (0, x.nbytes)


def test_read_only_memory_is_read(engine, tmp_path):
    np.arange(10.0).tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", float, "r")
    assert_array_equal(pk.add(mapped, 1), np.arange(10.0) + 1)
    with pytest.raises(ValueError, match="read-only"):
        pk.add(1.0, 2.0, out=mapped)


# ---- Masks -------------------------------------------------------------------------------------------

MASKED = np.ma.masked_array(X, X > 4)
HEEDING = {
    "add",
    "where=",
    "clip",
    "sum",
    "argmax",
    "nanmean",
    "cumsum",
    "diff",
    "sort",
    "unique",
    "roll",
}  # by NumPy


@pytest.mark.parametrize("name", [*CALLS, *OWN])
def test_masks_are_not_lost(engine, name):
    call = OWN.get(name) or (lambda x: CALLS[name](pk, x))
    x = MASKED.astype(np.float32) if name == "box_blur" else MASKED
    if name in ("fuse", "fuse_nested"):  # as undecorated
        assert np.ma.count_masked(call(x)) == 2
        return
    with pytest.raises((errors.Unsupported, TypeError), match="mask"):
        call(x)


@pytest.mark.parametrize("name", CALLS)
def test_masks_are_not_lost_by_auto(name):
    if name not in HEEDING:
        with pytest.raises(errors.Unsupported, match=r"mask, which would be lost: \.filled"):
            CALLS[name](pk, MASKED)
        return
    got, want = CALLS[name](pk, MASKED), CALLS[name](np, MASKED)
    assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
    assert_array_equal(np.ma.filled(got, 0), np.ma.filled(want, 0))


PARTLY = np.ma.masked_array(np.arange(30_000) % 5.0, np.arange(30_000) % 7 == 0)
INDICES = np.array([7, 8, 0])
WITH_MASKS = {  # calls in which NumPy respects masks
    "isclose": lambda np, x: np.isclose(x, x.data % 2),
    "isclose, the second": lambda np, x: np.isclose(x.data % 2, x),
    "allclose": lambda np, x: np.allclose(x[:8], [9, 1, 2, 3, 4, 0, 1, 9]),
    "kron": lambda np, x: np.kron(x, [1.0, 2.0]),
    "kron, the second": lambda np, x: np.kron([[1.0], [2.0]], x),
    "argwhere": lambda np, x: np.argwhere(x.reshape(2, -1)),
    "nonzero": lambda np, x: np.nonzero(x.reshape(2, -1)),
    "flatnonzero": lambda np, x: np.flatnonzero(x),
    "take": lambda np, x: np.take(x, INDICES),
    "take_along_axis": lambda np, x: np.take_along_axis(x, INDICES, 0),
    "compress": lambda np, x: np.compress([True] * 8, x),
}


@pytest.mark.parametrize("size", [20, 30_000])
@pytest.mark.parametrize("name", WITH_MASKS)
def test_masks_that_numpy_heeds(name, size):
    for _ in range(2):  # the second call may use the dispatch cache
        got, want = (WITH_MASKS[name](module, PARTLY[:size]) for module in (pk, np))
        assert type(got) is type(want)
        pairs = zip(got, want, strict=True) if type(want) is tuple else [(got, want)]
        for one, other in pairs:
            assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(other))
            assert_array_equal(np.ma.filled(one, 9), np.ma.filled(other, 9))
    assert pk.last_call().engine == "numpy"


@pytest.mark.parametrize("name", WITH_MASKS)
def test_masks_that_no_engine_heeds(engine, name):
    told = f"^{name.partition(',')[0]}, .*: not on the {engine} engine: MaskedArray has a mask"
    with pytest.raises(errors.Unsupported, match=told):
        WITH_MASKS[name](pk, PARTLY[:20])


@pytest.mark.parametrize(
    ("parameter", "call"),
    [
        ("isin, element", lambda: pk.isin(MASKED, [1.0])),
        ("isin, test_elements", lambda: pk.isin([1.0], MASKED)),
        ("array_equal, a2", lambda: pk.array_equal(X, MASKED)),
        ("take, indices", lambda: pk.take(X, np.ma.masked_array([0, 1], [False, True]))),
        ("take_along_axis, indices", lambda: pk.take_along_axis(X, indices=np.ma.masked_array([0], [True]))),
        ("compress, condition", lambda: pk.compress(np.ma.masked_array([True, True], [False, True]), X)),
    ],
)
def test_masks_that_numpy_forgets(parameter, call):
    with pytest.raises(errors.Unsupported, match=f"^{parameter}: MaskedArray has a mask, which"):
        call()


def test_a_mask_that_masks_nothing_is_no_loss():
    assert pk.median(np.ma.masked_array([1.0, 2.0, 4.0])) == 2.0


# ---- Arrow and pandas --------------------------------------------------------------------------------


class Column:
    """A column with a null count, like those of Arrow and Polars."""

    def __init__(self, nulls, is_method=False):
        self.null_count = (lambda: nulls) if is_method else nulls

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0])


@pytest.mark.parametrize("is_method", [False, True])
def test_columns_with_nulls(engine, is_method):
    assert_array_equal(pk.add(Column(0, is_method), 1.0), np.array([2.0, 3.0]))
    out = np.array([5.0, 5.0])
    for call in (lambda c: pk.add(c, 1.0, out=out), pk.sort, lambda c: pk.matmul(c, b=c)):
        with pytest.raises(errors.Unsupported, match=r"Column has nulls.*\.fill_null\(\.\.\.\) or \."):
            call(Column(1, is_method))
    assert_array_equal(out, np.array([5.0, 5.0]))


def test_arrow(engine):
    pa = pytest.importorskip("pyarrow")
    column = pa.array(X.ravel())
    assert_array_equal(pk.cumsum(column), pk.cumsum(X.ravel()))
    assert_array_equal(pk.sum(pa.chunked_array([column, column])), pk.sum(np.tile(X.ravel(), 2)))
    with pytest.raises(errors.Unsupported, match=r"^sort, a: Int64Array has nulls.*\.drop_null\(\) first"):
        pk.sort(pa.array([1, None]))


@pytest.mark.parametrize("made", ["table", "record_batch"])
def test_tables_of_arrow(engine, made):
    pa = pytest.importorskip("pyarrow")
    make = getattr(pa, made)
    assert_array_equal(pk.add(make({"a": [1.0, 2.0]}), 1.0), [[2.0], [3.0]])
    for name in (engine, "auto"):
        with (
            pk.engine(name),
            pytest.raises(
                errors.Unsupported, match=r"has nulls, which arrays cannot have: \.drop_null\(\) first"
            ),
        ):
            pk.add(make({"a": [1.0, None]}), 1.0)


def test_frames_of_polars(engine):
    pl = pytest.importorskip("polars")
    assert_array_equal(pk.add(pl.DataFrame({"a": [1.0, 2.0]}), 1.0), [[2.0], [3.0]])
    for name in (engine, "auto"):
        with pk.engine(name), pytest.raises(errors.Unsupported, match=r"DataFrame has nulls.*drop_nulls\(\)"):
            pk.sort(pl.DataFrame({"a": [1.0, None]}))


class Frame(Column):
    """A data frame like those of Polars: several columns, each with its null count."""

    def __init__(self, nulls):
        super().__init__(np.array([[0, nulls]]), True)


def test_frames_with_nulls(engine):
    assert_array_equal(pk.add(Frame(0), 1.0), np.array([2.0, 3.0]))
    with pytest.raises(errors.Unsupported, match=r"sort, a: Frame has nulls"):
        pk.sort(Frame(1))


def test_pandas(engine):
    pd = pytest.importorskip("pandas")
    series = pd.Series(X.ravel(), index=list("abcdef"), name="x")
    pd.testing.assert_series_equal(pk.add(series, 1.0), series + 1)
    pd.testing.assert_series_equal(pk.cumsum(series), series.cumsum())
    pd.testing.assert_series_equal(pk.add(series, series.rename("y")), (series * 2).rename(None))
    assert_array_equal(pk.median(series), np.median(X))
    frame = pd.DataFrame(X, columns=list("abc"))
    pd.testing.assert_frame_equal(pk.multiply(frame, 2.0), frame * 2)
    with pytest.raises(errors.Unsupported, match="add: operands of pandas with different indices"):
        pk.add(series, series.reset_index(drop=True))
    whole = pd.Series([3, 1], dtype="Int64")
    assert_array_equal(pk.sort(whole), np.array([1, 3]))
    with pytest.raises(errors.Unsupported, match=r"sort, a: Series of Int64 has nulls.*\.fillna"):
        pk.sort(pd.Series([3, None], dtype="Int64"))


def test_pandas_decides_under_auto():
    pd = pytest.importorskip("pandas")
    series = pd.Series([1.0, 2.0], index=[3, 4])
    shifted = pd.Series([1.0, 2.0], index=[4, 5])
    pd.testing.assert_series_equal(pk.add(series, shifted), series + shifted)
    assert pk.topk(series, 1)[0] == [2.0]


def test_nulls_that_pandas_does_not_heed_are_refused_under_auto():
    pd = pytest.importorskip("pandas")
    column, whole = pd.Series([3, None, 1], dtype="Int64"), pd.Series([3, 2, 1], dtype="Int64")
    for call in (
        lambda kit, x: kit.add(x, 1),
        lambda kit, x: kit.clip(x, 0, 2),
    ):
        pd.testing.assert_series_equal(call(pk, column), call(np, column))
    for name in ("sum", "mean", "max", "nansum"):
        assert getattr(pk, name)(column) == getattr(np, name)(column)
    for name in ("sort", "median", "cumsum", "unique", "count_nonzero"):
        with pytest.raises(errors.Unsupported, match=rf"{name}, \w+: Series of Int64 has nulls.*\.fillna"):
            getattr(pk, name)(column)
        assert_array_equal(getattr(pk, name)(whole), getattr(np, name)(whole))
    with pytest.raises(errors.Unsupported, match=r"concatenate, arrays: Series of Int64 has nulls"):
        pk.concatenate([whole, column])
    with pytest.raises(errors.Unsupported, match=r"matmul, x2: DataFrame of Int64 has nulls"):
        pk.matmul(np.ones((1, 3)), column.to_frame())


# ---- Errors, names and methods -------------------------------------------------------------------------


def test_signatures_and_names_stay():
    import inspect
    import pickle

    assert list(inspect.signature(pk.sort).parameters)[:2] == ["a", "axis"]
    assert pickle.loads(pickle.dumps(pk.sort)) is pk.sort
    assert pk.median.__module__ == "pycudakit"
    assert pickle.loads(pickle.dumps(pk.linalg.norm)) is pk.linalg.norm


def test_errors_are_the_functions_own(engine):
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        pk.sort()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pk.sort([2, 1]).tolist() == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_methods_of_ufuncs(kind):
    array = np.arange(1.0, 13.0).reshape(3, 4)
    for method, arguments in (
        ("reduce", ()),
        ("accumulate", ()),
        ("reduceat", ([0, 2],)),
        ("outer", ([1, 2],)),
    ):
        for name in ("add", "minimum", "subtract"):
            ours = getattr(getattr(pk, name), method)(KINDS[kind](array), *arguments)
            assert type(ours) is np.ndarray
            np.testing.assert_array_equal(ours, getattr(getattr(np, name), method)(array, *arguments))
    np.testing.assert_array_equal(pk.add.outer([1, 2], KINDS[kind](array)), np.add.outer([1, 2], array))
