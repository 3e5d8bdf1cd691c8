"""Sorting and order against NumPy: types, layouts, axes, special values, errors, threads, budgets."""

import os
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest
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
from helpers.versions import has_numpy
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._library import abi, loader

RNG = np.random.default_rng(0)
LONG = 70_001  # elements of a row that all threads sort


def stable(function, array, **keywords):
    """Return NumPy's stable answer, computed as float32 for float16, which NumPy 2.4 sorts wrongly."""
    return function(array, kind="stable", **keywords)


def draw_axis(data, array):
    return data.draw(st.sampled_from([None, *range(-array.ndim, array.ndim)]), "axis")


def mixed(dtype, size):
    """Return values with many equal ones and all special ones."""
    array = build(dtype, (size,), "special", 3)
    array[::3] = build(dtype, (len(array[::3]),), "ordinary", 4)
    return array


@given(data=st.data(), array=arrays())
def test_sort(engine, data, array):
    axis = draw_axis(data, array)
    with pk.engine(engine):
        ours = outcome(pk.sort, array, axis)
        assert_same_outcome(ours, outcome(stable, np.sort, array, axis=axis), context=describe(array, axis))


@given(data=st.data(), array=arrays())
def test_descending(engine, data, array):
    """NumPy has it since 2.5."""
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
def test_sizes_around_what_a_device_sorts_at_least(engine, dtype):
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
        assert_values(pk.sort(array), stable(np.sort, array))  # each zero with its sign, in its place
        assert_values(pk.argsort(array), stable(np.argsort, array))
        assert pk.unique(array).tolist()[:4] == [-np.inf, -1, 0, 1]
        assert len(pk.unique(array)) == 5
        assert len(pk.unique(array, equal_nan=False)) == 4 + np.isnan(array).sum()


@given(data=st.data(), array=arrays())
def test_unique(engine, data, array):
    flags = {f"return_{name}": data.draw(st.booleans(), name) for name in ("index", "inverse", "counts")}
    flags["equal_nan"] = data.draw(st.booleans(), "equal_nan")
    if flags["return_inverse"] and not flags["equal_nan"]:
        flags["return_index"] = True  # or NumPy's sort leaves NaN, of which each is its own, in no order
    with pk.engine(engine):
        ours, numpys = outcome(pk.unique, array, **flags), outcome(np.unique, array, **flags)
    assert_same_outcome(ours, numpys, free_zero=True, strides=False, context=describe(array, flags))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32"])
def test_unique_of_many(engine, dtype):
    array = mixed(dtype, 4 * LONG)
    wide = array.astype(np.float32) if dtype == "float16" else array
    for flags in ({}, {"return_counts": True}, {"return_index": True, "return_inverse": True}):
        got, want = pk.unique(array, **flags), np.unique(wide, **flags)
        if not flags:
            got, want = (got,), (want,)
        for mine, theirs in zip(got, want, strict=True):
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float32", "float64"])
def test_unique_of_runs(engine, dtype):
    size = 5 * LONG  # more than a thread takes at once
    for array in (
        np.full(size, 3),
        np.arange(size) // 1000,
        np.where(np.arange(size) < size // 2, 0, np.arange(size)),
    ):
        values = (array % 250).astype(dtype) if dtype in ("uint8", "float16") else array.astype(dtype)
        got = pk.unique(values, return_counts=True)
        want = np.unique(values, return_counts=True)
        assert_values(got[0], want[0])
        assert_values(got[1], want[1])
        assert_values(pk.unique(values), want[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [100, 9 * LONG])
def test_the_zero_of_unique_is_the_first(engine, dtype, size):
    for first, second in ((0.0, -0.0), (-0.0, 0.0), (0.0, 0.0), (-0.0, -0.0)):
        for places in ((0, 1), (5, size - 1), (size - 2, size - 1)):
            array = np.resize(np.array([1, -2, np.nan, 3, np.inf], dtype), size)
            array[list(places)] = first, second
            for got in (pk.unique(array), pk.unique(array, return_index=True)[0]):
                assert got.tolist()[:4] == [-2, 0, 1, 3]
                assert np.signbit(got[1]) == np.signbit(np.float64(first))
                assert len(got) == 6
    array = np.full(size, np.nan, dtype)
    assert len(pk.unique(array)) == 1
    assert len(pk.unique(array, equal_nan=False)) == size


def test_unique_along_an_axis():
    array = np.array([[1, 2], [1, 2], [0, 3]])
    assert np.array_equal(pk.unique(array, axis=0), np.unique(array, axis=0))
    assert pk.unique(np.array([2, 1, 2]), axis=0).tolist() == [1, 2]
    with pk.engine("cpu"):
        assert pk.unique(np.array([2, 1, 2]), axis=-1).tolist() == [1, 2]
        assert np.array_equal(pk.unique(array, axis=0), np.unique(array, axis=0))


@given(data=st.data(), array=arrays(shape=st.integers(0, 200).map(lambda n: (n,))), values=arrays())
def test_searchsorted(engine, data, array, values):
    side = data.draw(st.sampled_from(["left", "right"]))
    if data.draw(st.booleans(), "sorter"):
        sorter = np.argsort(array, kind="stable")
    else:
        array, sorter = np.sort(array, kind="stable"), None
    with pk.engine(engine):
        ours = outcome(pk.searchsorted, array, values, side, sorter)
    numpys = outcome(np.searchsorted, array, values, side, sorter)
    assert_same_outcome(ours, numpys, strides=False, context=describe(array, values, side, sorter))


def test_searchsorted_in_much(engine):
    array = np.sort(RNG.random(200_000))
    values = RNG.random((300, 500))
    assert np.array_equal(pk.searchsorted(array, values), np.searchsorted(array, values))
    assert pk.searchsorted(array, 0.5) == np.searchsorted(array, 0.5)
    assert type(pk.searchsorted(array, 0.5)) is np.int64
    assert pk.searchsorted(array[:0], values).max() == 0


EDGES = [0, 5, 127, 128, 255, 300, -1, -300, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]


@pytest.mark.parametrize("name", ["auto", "engine"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "uint64", ">i4", "float16", "float32"])
def test_searchsorted_of_a_number_of_another_type(engine, name, dtype):
    array = RNG.integers(0, 120, 5000).astype(dtype)
    if array.dtype.itemsize == 8:
        array[:7] = [2**53, 2**53 + 1, 2**53 + 1, 2**53 + 2, 2**63 - 1, 0, 5]
    array.sort()
    numbers = [*EDGES, True, 2.5, 5.0, 2.1, np.inf, np.nan, np.int64(5), np.float32(0.1), np.uint64(2**53)]
    with pk.engine("auto" if name == "auto" else engine):
        for number in numbers:
            for side in ("left", "right"):
                got, want = (kit.searchsorted(array, number, side) for kit in (pk, np))
                assert type(got) is type(want)
                assert got == want, (number, side)
                several = np.full((2, 3), number)
                assert np.array_equal(pk.searchsorted(array, several, side), np.full((2, 3), want))
        order = RNG.permutation(array.size)
        assert pk.searchsorted(array[order], 1, sorter=np.argsort(order)) == np.searchsorted(array, 1)


@pytest.mark.parametrize("name", ["auto", "engine"])
def test_searchsorted_of_a_number_converts_no_array(engine, name):
    array = np.zeros(4_000_000, np.uint8)
    with pk.engine("auto" if name == "auto" else engine):
        pk.searchsorted(array, 7)  # which may set up what is kept
        tracemalloc.start()
        try:
            for number in (7, np.int64(7), 7.0, np.int32([7, 8])):
                assert np.all(pk.searchsorted(array, number) == array.size)
            assert tracemalloc.get_traced_memory()[1] < array.nbytes / 4
        finally:
            tracemalloc.stop()


@given(data=st.data(), array=arrays())
def test_topk(engine, data, array):
    axis = draw_axis(data, array)
    if axis is None or array.ndim == 0:
        array, axis = array.ravel(), 0
    k = data.draw(st.integers(0, array.shape[axis]), "k")
    largest = data.draw(st.booleans(), "largest")
    with pk.engine(engine):
        values, indices = pk.topk(array, k, axis, largest)
    ranks = np.unique(array, return_inverse=True)[1].reshape(array.shape) * (-1 if largest else 1)
    if array.dtype.kind == "f":
        ranks[np.isnan(array)] = array.size
    wanted = np.take(np.argsort(ranks, axis, kind="stable"), range(k), axis)
    assert_values(indices, wanted)
    assert_values(values, np.take_along_axis(array, wanted, axis))


@pytest.mark.parametrize("k", [1, 10, 3000, LONG])
def test_topk_of_many(engine, k):
    array = mixed("float32", LONG)
    for largest in (True, False):
        for values in (array, array[:70_000].reshape(700, 100)):
            got = pk.topk(values, min(k, values.shape[-1]), largest=largest)
            keys = np.nan_to_num(-values if largest else values, posinf=np.inf, neginf=-np.inf)
            wanted = np.lexsort((keys, np.isnan(values)), axis=-1)[..., :k]
            assert np.array_equal(got.indices, wanted)
            assert_values(got.values, np.take_along_axis(values, wanted, -1))


@pytest.mark.parametrize("k", [200, 1000])
def test_topk_of_equals_takes_the_first_whichever_thread_is_the_first(engine, k):
    array = np.zeros(300_000, np.int32)
    array[:16_000] = np.arange(16_000, 0, -1)  # which takes the thread that has it longer than the zeros do
    for _ in range(20):
        assert np.array_equal(pk.topk(array, k, largest=False).indices, 16_000 + np.arange(k))


def test_topk_errors(engine):
    before = np.arange(3.0)
    for k in (-1, 4):
        with pytest.raises(ValueError, match="the length of the axis"):
            pk.topk(before, k)
    with pytest.raises(TypeError):
        pk.topk(before, 1.5)
    with pytest.raises(errors.Unsupported):
        pk.topk(before.astype(complex), 1)
    with pk.engine("numpy"), pytest.raises(errors.Unsupported, match="no such function"):
        pk.topk(before, 1)
    assert pk.topk([3, 1, 2], 2, largest=False).indices.tolist() == [1, 2]


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
def test_what_numpy_alone_takes(engine):
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
            for _ in range(2):  # the second one takes the short way
                keywords = {"kind": "stable"} if name == "argsort" else {}
                assert_values(ours(array), numpys(array, **keywords))
                record = pk.last_call()
                assert (record.function, record.engine) == (name, "numpy")
                assert record.reason == "auto: NumPy answers first at this size"
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
        assert (record.function, record.engine, record.reason) == (name, engine, "the engine asked for")
        assert 1 <= record.threads <= 16 * 4
        assert sum(record.stages.values()) > 0
        if engine == "cuda":
            assert record.bytes_up == array.nbytes
            # Of the distinct ones, no others come down.
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
        with pytest.raises(errors.InvalidArgument, match="kept"):
            library.pk_argsort_f64(a, order, 1, 6, kept, 0, *report)
    with pytest.raises(errors.InvalidArgument):
        library.pk_searchsorted_f64(a, -1, a, order, 6, 0, *report)
    with pytest.raises(errors.InvalidArgument, match="wanted"):
        library.pk_unique_f64(a, 6, 16, out, order, order, order, order[:1], *report)
    odd = np.zeros(49, np.uint8)[1:].view(np.float64)
    with pytest.raises(errors.InvalidArgument, match="aligned"):
        library.pk_sort_f64(a, odd, 1, 6, *report)
    assert (out == 7).all()
    assert (order == 7).all()
    library.pk_sort_f64(a, out, 2, 3, *report)
    assert out.tolist() == [3, 4, 5, 0, 1, 2]


def test_what_is_empty_may_lie_anywhere(engine):
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


# ---- Other processes --------------------------------------------------------------------------------

CHECK = """
import numpy as np, pycudakit as pk
pk.set_engine("ENGINE")
rng = np.random.default_rng(1)
for dtype in ("uint8", "float16", "int32", "float32", "float64"):
    a = (rng.standard_normal(SIZE) * 1000).astype("i4").astype(dtype)
    if dtype[0] == "f":
        a[::17] = np.nan
        a[1::19] = -0.0
    equal = dict(equal_nan=dtype[0] == "f")
    order = np.argsort(a, kind="stable")
    assert np.array_equal(pk.sort(a), a[order], **equal), dtype
    zeros = a[order] == 0
    assert np.array_equal(np.signbit(pk.sort(a)[zeros]), np.signbit(a[order][zeros])), dtype
    assert np.array_equal(pk.argsort(a), order), dtype
    assert np.array_equal(pk.topk(a, 1000, largest=False).indices, order[:1000]), dtype
    got = pk.unique(a, return_index=True, return_inverse=True, return_counts=True)
    want = np.unique(a.astype("f4") if dtype == "float16" else a, True, True, True)
    assert np.array_equal(got[0], want[0], **equal), dtype
    assert all(np.array_equal(x, y) for x, y in zip(got[1:], want[1:])), dtype
    rows = a[: SIZE // 1000 * 1000].reshape(-1, 1000)
    assert np.array_equal(pk.argsort(rows), np.argsort(rows, kind="stable")), dtype
    assert np.array_equal(pk.sort(rows), np.sort(rows, kind="stable"), **equal), dtype
    v = a[:5000]
    assert np.array_equal(pk.searchsorted(a[order], v), np.searchsorted(a[order], v)), dtype
constant = np.full(SIZE, 3.0)
constant[::1000] = 5
assert np.array_equal(pk.argsort(constant), np.argsort(constant, kind="stable"))
assert np.array_equal(pk.sort(constant), np.sort(constant))
if "ENGINE" == "cuda":
    assert pk.memory_info().device_bytes <= pk.memory_info().device_budget
"""


def check(engine, size, **variables):
    code = textwrap.dedent(CHECK).replace("ENGINE", engine).replace("SIZE", str(size))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_any_number_of_threads(engine, threads):
    check(engine, 150_000, PYCUDAKIT_THREADS=threads)


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
@pytest.mark.parametrize("budget", ["2M", "3M", "16M"])
def test_larger_than_the_budget(budget):
    check("cuda", 1_500_000, PYCUDAKIT_DEVICE_MEMORY=budget, PYCUDAKIT_PINNED_MEMORY="4M")
