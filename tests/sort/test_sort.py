"""Sorting against NumPy: types, layouts, axes, special values, errors, threads and memory budgets."""

import re

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy
from helpers.sorting import LONG, draw_axis, mixed
from helpers.strategies import (
    DTYPES,
    FLOATS,
    arrays,
    assert_same_outcome,
    assert_values,
    build,
    describe,
    outcome,
)
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._families.elementwise import manipulation
from pycudakit._native import abi, loader

RNG = np.random.default_rng(0)


def stable(function, array, **keywords):
    """Return NumPy's stable result, computed in float32 for float16, which NumPy 2.4 sorts wrongly."""
    return function(array, kind="stable", **keywords)


@given(data=st.data(), array=arrays())
def test_sort(engine, data, array):
    axis = draw_axis(data, array)
    with pk.engine(engine):
        ours = outcome(pk.sort, array, axis)
        assert_same_outcome(ours, outcome(stable, np.sort, array, axis=axis), context=describe(array, axis))


@given(data=st.data(), array=arrays())
def test_descending(engine, data, array):
    """The keyword `descending` exists in NumPy since 2.5."""
    axis = draw_axis(data, array)
    flipped = -array if array.dtype.kind == "f" else ~array
    with pk.engine(engine):
        ours = outcome(pk.sort, array, axis, stable=True, descending=True)
        order = outcome(pk.argsort, array, axis, descending=True)
    context = describe(array, axis)
    assert_same_outcome(order, outcome(stable, np.argsort, flipped, axis=axis), context=context)
    if ours[0] == "ok":
        values, along = (array.ravel(), 0) if axis is None else (array, axis)
        assert_values(ours[1], np.take_along_axis(values, order[1], along), context=context)


def test_errors_of_descending(engine):
    with pytest.raises(ValueError, match="`kind` and keyword parameters"):
        pk.sort(RNG.random(9), kind="stable", descending=True)
    assert pk.sort(RNG.random(3000) < 0.5, descending=True)[0]
    words = np.array(["b", "a", "c"])
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        assert pk.sort(words, descending=True).tolist() == ["c", "b", "a"]
        assert pk.argsort(words, descending=True).tolist() == [2, 0, 1]
    else:
        with pytest.raises(TypeError, match="descending"):
            pk.sort(words, descending=True)


@pytest.mark.parametrize("dtype", ["uint16", "float32", "uint64", "float64"])
def test_sizes_around_the_least_that_a_device_sorts(engine, dtype):
    for rows, columns in [(27, 37), (1, 995), (31, 32), (3, 333), (2, 512), (33, 31), (7, 149), (10, 106)]:
        array = RNG.integers(0, 500, (rows, columns)).astype(dtype)
        assert_values(pk.argsort(array), np.argsort(array, kind="stable"), context=(rows, columns))
        assert_values(pk.sort(array), np.sort(array), context=(rows, columns))


@given(data=st.data(), array=arrays())
def test_argsort(engine, data, array):
    axis = draw_axis(data, array)
    with pk.engine(engine):
        ours = outcome(pk.argsort, array, axis)
        assert_same_outcome(
            ours, outcome(stable, np.argsort, array, axis=axis), context=describe(array, axis)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows(engine, dtype):
    array = mixed(dtype, 2 * LONG).reshape(2, LONG)
    assert_values(pk.sort(array), stable(np.sort, array))
    assert_values(pk.argsort(array), stable(np.argsort, array))
    assert_values(pk.sort(array, axis=None), stable(np.sort, array, axis=None))
    assert_values(pk.sort(array, axis=0), stable(np.sort, array, axis=0))
    assert_values(pk.argsort(array, axis=0), stable(np.argsort, array, axis=0))
    assert pk.last_call().engine == engine


@pytest.mark.parametrize("columns", [1, 2, 31, 33, 500, 513, 5000])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_short_rows(engine, dtype, columns):
    array = mixed(dtype, 30_000 // columns * columns).reshape(-1, columns)
    assert_values(pk.sort(array), stable(np.sort, array))
    assert_values(pk.argsort(array), stable(np.argsort, array))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "uint8"])
@pytest.mark.parametrize(
    "make",
    [
        np.zeros,
        np.arange,
        lambda n: -np.arange(n),
        lambda n: np.arange(n) % 2,
        lambda n: np.where(np.arange(n) % 50, 7, np.arange(n)),
        lambda n: np.repeat([3, 1, 2], -(-n // 3))[:n],
    ],
    ids=["equal", "rising", "falling", "two", "heavy", "blocks"],
)
def test_distributions(engine, dtype, make):
    with np.errstate(invalid="ignore"):
        array = make(LONG).astype(np.int64).astype(dtype)
    assert_values(pk.sort(array), stable(np.sort, array))
    assert_values(pk.argsort(array), stable(np.argsort, array))


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_and_nan(engine, dtype):
    for size in (9, LONG):
        array = np.resize(np.array([0.0, -0.0, np.nan, -0.0, 1, -1, -np.nan, 0.0, -np.inf], dtype), size)
        assert_values(pk.sort(array), stable(np.sort, array))  # zeros of both signs keep their order
        assert_values(pk.argsort(array), stable(np.argsort, array))
        assert pk.unique(array).tolist()[:4] == [-np.inf, -1, 0, 1]
        assert len(pk.unique(array)) == 5
        assert len(pk.unique(array, equal_nan=False)) == 4 + np.isnan(array).sum()


@given(data=st.data(), array=arrays())
def test_partition(engine, data, array):
    axis = draw_axis(data, array)
    line = array.ravel() if axis is None else array
    length = line.shape[axis or 0] if line.ndim else 0
    kth = data.draw(st.integers(-length - 1, length), "kth")
    with pk.engine(engine):
        ours, order = (outcome(f, array, kth, axis) for f in (pk.partition, pk.argpartition))
    numpys = outcome(np.partition, array, kth, axis)
    assert ours[0] == numpys[0], (ours, numpys)
    if ours[0] == "error":
        assert type(ours[1]) is type(numpys[1])
        return
    got, along = ours[1], 0 if axis is None else axis
    assert_values(got, stable(np.sort, array, axis=axis))
    if order[0] == "ok" and line.ndim:
        assert_values(np.take_along_axis(line, order[1], along), got, free_zero=True)


@given(array=arrays(), others=st.integers(0, 3), data=st.data())
def test_lexsort(engine, array, others, data):
    keys = [
        array,
        *(build(data.draw(st.sampled_from(DTYPES)), array.shape, "small", i) for i in range(others)),
    ]
    axis = data.draw(st.sampled_from([-1, *range(array.ndim)]), "axis")
    with pk.engine(engine):
        ours = outcome(pk.lexsort, keys, axis)
    assert_same_outcome(ours, outcome(np.lexsort, keys, axis), context=describe(*keys, axis))


@pytest.mark.parametrize("axis", [True, False])
def test_lexsort_along_bool_axis(engine, axis):
    """NumPy's `lexsort` accepts one, unlike its `argsort`."""
    a, b = np.random.default_rng(0).integers(0, 9, (2, 60, 80))
    np.testing.assert_array_equal(pk.lexsort((a, b), axis), np.lexsort((a, b), axis), strict=True)


@given(data=st.data(), array=arrays())
def test_flip_and_roll(engine, data, array):
    axis = draw_axis(data, array)
    shift = data.draw(st.integers(-7, 7), "shift")
    with pk.engine(data.draw(st.sampled_from([engine, "auto", "numpy"]))):
        results = outcome(pk.flip, array, axis), outcome(pk.roll, array, shift, axis)
    for ours, numpys in zip(
        results, (outcome(np.flip, array, axis), outcome(np.roll, array, shift, axis)), strict=True
    ):
        assert_same_outcome(ours, numpys, strides=False, context=describe(array, shift, axis))
        if ours[0] == "ok" and array.ndim:
            assert ours[1].flags.c_contiguous
            assert ours[1].flags.writeable
            assert not np.may_share_memory(ours[1], array)


def test_roll_of_several_axes(engine):
    array = RNG.random((4, 5, 6))
    for shift, axis in (((1, 2), (0, 2)), (3, (0, 1)), ((1, 2), (1, 1)), ((9, -9), (0, -1)), ((), ())):
        assert np.array_equal(pk.roll(array, shift, axis), np.roll(array, shift, axis))
    assert pk.last_call().function == "roll"
    assert np.array_equal(pk.flip(array, (0, 2)), np.flip(array, (0, 2)))
    assert (pk.last_call().function, pk.last_call().engine) == ("flip", engine)


BAD = [
    ("sort", ([1, 2], 1)),
    ("sort", (5,)),
    ("sort", ([1, 2], -1, "x")),
    ("sort", ([1, 2], -1, None, "field")),
    ("sort", ([1, 2], 1.5)),
    ("argsort", ([1, 2], 1)),
    ("argsort", ([1, 2], -1, "x")),
    ("partition", ([1, 2, 3], 3)),
    ("partition", ([1, 2, 3], -4)),
    ("partition", ([1, 2, 3], 1.5)),
    ("partition", ([1, 2, 3], [])),
    ("partition", ([1, 2, 3], [[1]])),
    ("partition", ([1, 2, 3], True)),
    ("partition", ([1, 2, 3], 1, 2)),
    ("partition", ([1, 2, 3], 1, -1, "x")),
    ("partition", (5, 0)),
    ("argpartition", ([1, 2, 3], 3)),
    ("searchsorted", ([[1]], 1)),
    ("searchsorted", (1, 1)),
    ("searchsorted", ([1, 2], 1, "x")),
    ("searchsorted", ([1, 2], 1, 1)),
    ("searchsorted", ([1, 2], 1, "left", [0])),
    ("searchsorted", ([1, 2], 1, "left", [0.0, 1.0])),
    ("searchsorted", ([1, 2], 1, "left", [0, 5])),
    ("searchsorted", ([1, 2], 1, "left", [-1, 0])),
    ("lexsort", ([],)),
    ("lexsort", (5,)),
    ("lexsort", ([[1, 2], [1]],)),
    ("lexsort", ([[1, 2], [1, 3]], 1)),
    ("unique", ([1, 2], False, False, False, 1)),
    ("flip", ([1, 2], 1)),
    ("roll", ([1, 2], 1, 1)),
    ("roll", ([[1, 2]], (1, 2, 3), (0, 1))),
]


@pytest.mark.parametrize(("name", "arguments"), BAD, ids=[f"{n}{a}" for n, a in BAD])
def test_numpys_errors(engine, name, arguments):
    if name == "partition" and arguments[1] is True and not has_numpy("2.3"):
        pytest.skip("NumPy refuses bools since 2.3")
    numpys, ours = (outcome(getattr(kit, name), *arguments) for kit in (np, pk))
    assert numpys[0] == "error"
    assert type(ours[1]) is type(numpys[1])
    assert str(ours[1]) == str(numpys[1])


def test_both_kind_and_stable(engine):
    for function in (pk.sort, pk.argsort):
        with pytest.raises(ValueError, match="at the same time"):
            function([1], kind="stable", stable=True)
        assert function([2, 1], kind="heapsort").tolist() == function([2, 1], stable=False).tolist()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_calls_that_only_numpy_supports(engine):
    for value in (np.array([2j, 1]), np.array(["b", "a"]), np.array([2, 1], object), np.matrix([[2, 1]])):
        for function in (pk.sort, pk.argsort, pk.unique, pk.flip, lambda a: pk.roll(a, 1)):
            with pytest.raises(errors.Unsupported):
                function(value)
        with pk.engine("auto"):
            assert pk.sort(value).tolist() == np.sort(value).tolist()
            assert pk.last_call().engine == "numpy"
            assert pk.flip(value).tolist() == np.flip(value).tolist()
            assert pk.roll(value, 1).tolist() == np.roll(value, 1).tolist()
            assert type(pk.sort(value)) is type(np.sort(value))


@pytest.mark.parametrize("size", [10, 3000, 300_000])
def test_auto(size):
    for dtype in ("float16", "float32", "int64"):
        array = mixed(dtype, size)
        with pk.engine("auto"):
            assert_values(pk.sort(array), stable(np.sort, array), free_zero=True)
            assert_values(pk.argsort(array), stable(np.argsort, array))
            assert_values(pk.argsort(array, kind="quicksort"), stable(np.argsort, array))
            assert len(pk.unique(array)) == len(np.unique(array.astype("f") if dtype == "float16" else array))
            assert pk.partition(array, 5)[5] == stable(np.sort, array)[5]
            assert pk.topk(array, 3)[0].shape == (3,)
    assert pk.last_call().function == "topk"


@pytest.mark.parametrize("name", ["sort", "argsort", "unique"])
def test_small_calls_are_numpys(name):
    ours, numpys = getattr(pk, name), getattr(np, name)
    with pk.engine("auto"):
        for dtype in ("float32", ">i4", "bool", "float64"):
            array = np.arange(10)[::-1].astype(dtype)
            for _ in range(2):  # the second call is cached
                keywords = {"kind": "stable"} if name == "argsort" else {}
                assert_values(ours(array), numpys(array, **keywords))
                record = pk.last_call()
                assert (record.function, record.engine) == (name, "numpy")
                assert re.match(r"auto: numpy [\w. ]+ ms, cpu [\d.]+ ms", record.reason)
        with pytest.raises(np.exceptions.AxisError):
            ours(array, axis=3)
        with pk.profile() as profile:
            ours(array)
        assert [call.function for call in profile.calls] == [name]
        with pk.engine("cpu"):
            ours(array)
            assert pk.last_call().engine == "cpu"


def test_the_call_is_recorded(engine):
    array = RNG.random(300_000, np.float32)
    for name in ("sort", "argsort", "unique"):
        getattr(pk, name)(array)
        record = pk.last_call()
        assert (record.function, record.engine, record.reason) == (name, engine, "the requested engine")
        assert 1 <= record.threads <= 16 * 4
        assert sum(record.stages.values()) > 0
        if engine == "cuda":
            assert record.bytes_up == array.nbytes
            # Only the distinct elements are downloaded.
            assert record.bytes_down >= (len(np.unique(array)) * 4 if name == "unique" else array.nbytes)
    seen = []
    with pk.engine(engine, progress=seen.append):
        pk.sort(array)


# ---- The entries ------------------------------------------------------------------------------------


def test_entries_check_their_arguments(engine):
    library = loader.library(engine)
    report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
    a, out, order = np.arange(6.0)[::-1].copy(), np.full(6, 7.0), np.full(6, 7)
    for rows, columns in ((-1, 3), (3, -1), (1 << 40, 1 << 40)):
        with pytest.raises(errors.InvalidArgument):
            library.pk_sort_f64(a, out, rows, columns, *report)
    for kept in (-1, 7):
        with pytest.raises(errors.InvalidArgument, match="limit"):
            library.pk_argsort_f64(a, order, 1, 6, kept, 0, *report)
    with pytest.raises(errors.InvalidArgument):
        library.pk_searchsorted_f64(a, -1, a, order, 6, 0, *report)
    with pytest.raises(errors.InvalidArgument, match="flags"):
        library.pk_unique_f64(a, 6, 16, out, order, order, order, order[:1], *report)
    odd = np.zeros(49, np.uint8)[1:].view(np.float64)
    with pytest.raises(errors.InvalidArgument, match="aligned"):
        library.pk_sort_f64(a, odd, 1, 6, *report)
    assert (out == 7).all()
    assert (order == 7).all()
    library.pk_sort_f64(a, out, 2, 3, *report)
    assert out.tolist() == [3, 4, 5, 0, 1, 2]


def test_empty_arrays_may_be_unaligned(engine):
    memory = np.zeros(8)

    def empty_at(start, dtype):
        return np.ndarray(0, dtype, memory, start)

    for dtype in DTYPES:
        for start in (1, 3):
            empty = empty_at(start, dtype)
            assert empty.ctypes.data % 2 == 1
            rows = empty.reshape(3, 0)
            for name in ("sort", "argsort", "unique"):
                assert getattr(pk, name)(empty).shape == (0,)
            assert pk.sort(rows).shape == pk.argsort(rows).shape == (3, 0)
            assert pk.sort(empty.reshape(0, 3), axis=0).shape == (0, 3)
            assert [len(part) for part in pk.unique(empty, True, True, True)] == [0] * 4
            assert pk.searchsorted(empty, empty).shape == (0,)
            assert pk.searchsorted(empty, np.ones(2, dtype)).tolist() == [0, 0]
            assert pk.topk(empty, 0).indices.shape == (0,)
            assert pk.partition(rows.T, 1).shape == (0, 3)
    library = loader.library(engine)
    report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
    odd, found = empty_at(1, np.int64), np.full(1, 7)
    library.pk_sort_i64(odd, odd, 0, 3, *report)
    library.pk_argsort_i64(odd, odd, 3, 0, 0, 0, *report)
    library.pk_searchsorted_i64(odd, 0, odd, odd, 0, 0, *report)
    library.pk_unique_i64(odd, 0, 7, odd, odd, odd, odd, found, *report)
    assert found[0] == 0
    library.pk_unique_i64(found, 1, 0, np.zeros(1, np.int64), odd, odd, odd, found.copy(), *report)


def test_the_bits_are_the_same(both_engines):
    for dtype in DTYPES:
        for shape in ((LONG,), (700, 100)):
            array = mixed(dtype, LONG)[: int(np.prod(shape))].reshape(shape)
            results = []
            for engine in ("cpu", "cuda"):
                with pk.engine(engine):
                    results.append((pk.sort(array), pk.argsort(array), *pk.topk(array, 50), pk.unique(array)))
            for ours, theirs in zip(*results, strict=True):
                assert_values(ours, theirs)


# ---- Rows along a strided axis ------------------------------------------------------------------------

LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "another order": lambda a: np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
    "every second": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1, :, ::-1],
    "other bytes": lambda a: a.astype(a.dtype.newbyteorder()),
}
ALONG = {
    "sort": lambda m, a, axis: stable(m.sort, a, axis=axis),
    "argsort": lambda m, a, axis: stable(m.argsort, a, axis=axis),
    "partition": lambda m, a, axis: m.sort(m.partition(a, 5, axis=axis), axis=axis),
    "argpartition": lambda m, a, axis: np.take(m.argpartition(a, 5, axis=axis), 5, axis),
    "median": lambda m, a, axis: m.median(a, axis=axis),
    "percentile": lambda m, a, axis: m.percentile(a, [10, 50, 90], axis=axis),
}


@pytest.fixture
def _rows_are_copied(monkeypatch):
    """The engine copies strided rows of small arrays, too."""
    monkeypatch.setattr(manipulation, "_MIN_BYTES", 0)
    monkeypatch.setattr(manipulation, "_MIN_BYTES_BY_PAGES", 0)


@pytest.mark.usefixtures("_rows_are_copied")
@pytest.mark.parametrize("function", ALONG)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8"])
def test_rows_along_any_axis(engine, function, layout, dtype):
    rng = np.random.default_rng(3)
    a = LAYOUTS[layout](rng.permutation(7 * 40 * 9).reshape(7, 40, 9).astype(dtype))
    before = a.copy()
    for axis in (0, 1, 2, -2):
        ours, numpys = ALONG[function](pk, a, axis), ALONG[function](np, a, axis)
        np.testing.assert_array_equal(ours, numpys)
        assert ours.dtype == numpys.dtype
        if function == "sort":
            assert ours.strides == numpys.strides
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("name", ["sort", "argsort", "partition", "argpartition"])
def test_columns_that_are_pages_apart(engine, name):
    """The rows are copied, sorted, and copied back, in one call."""
    a = np.random.default_rng(4).random((600, 512))
    arguments = () if name.endswith("sort") else (300,)
    ours = getattr(pk, name)(a, *arguments, axis=0)
    assert pk.last_call().function == name
    if name.startswith("arg"):
        ours = np.take_along_axis(a, ours, 0)
    at = slice(None) if name.endswith("sort") else 300
    np.testing.assert_array_equal(ours[at], np.sort(a, axis=0)[at])


@pytest.mark.parametrize("name", ["sort", "argsort", "partition", "argpartition"])
@pytest.mark.parametrize("axis", [2, -3, 0.5, "x", (0,), True])
def test_faults_of_an_axis(engine, name, axis):
    arguments = () if name.endswith("sort") else (3,)
    a = np.zeros((600, 512))
    ours, numpys = (outcome(getattr(module, name), a, *arguments, axis=axis) for module in (pk, np))
    assert_same_outcome(ours, numpys)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[us]", "complex128", "S3", "int64"])
def test_argsort_in_numpy_is_stable(dtype):
    """Types that no engine sorts are sorted stably, too, and so is everything on the engine `numpy`."""
    a = np.random.default_rng(5).integers(0, 50, 20_000).astype(dtype)
    want = np.argsort(a, kind="stable")
    with pk.engine("numpy" if dtype == "int64" else "auto"):
        np.testing.assert_array_equal(pk.argsort(a), want)
        np.testing.assert_array_equal(pk.argsort(a, kind="quicksort"), want)
