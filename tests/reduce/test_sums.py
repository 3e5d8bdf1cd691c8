"""Reductions against NumPy, with equality; sums and products of floats against exact arithmetic."""

import functools
import math
import operator
import warnings
from fractions import Fraction

import helpers.strategies as gen
import numpy as np
import pytest
from helpers.exact_sums import both
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors

SUMS = ["sum", "prod"]
MEANS = ["mean", "var", "std"]
EXTREMES = ["min", "max", "amin", "amax"]
PLACES = ["argmin", "argmax"]
TRUTHS = ["any", "all"]
REDUCTIONS = [*SUMS, *MEANS, *EXTREMES, *TRUTHS, *PLACES, "ptp", "count_nonzero"]
NO_WHERE = [*PLACES, "ptp", "count_nonzero"]
LANES, BLOCK = 16, 1024
EDGES = [1, 2, LANES - 1, LANES, LANES + 1, 63, 64, 65, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]

axes = st.sampled_from([None, 0, -1, 1, (), (0,), (0, 1), (-1, 0), (0, 2), (0, 0), 7])


def draw_keywords(data, name, shape, dtype):
    """Draw keywords that the function accepts."""
    keywords = {"axis": data.draw(axes)}
    if name in PLACES:
        keywords["axis"] = data.draw(st.sampled_from([None, 0, -1, 1, 7]))
    if data.draw(st.booleans()):
        keywords["keepdims"] = data.draw(st.booleans())
    if name not in NO_WHERE and data.draw(st.booleans()):
        keywords["where"] = data.draw(gen.arrays(dtype=st.just("bool"), shape=st.just(shape)))
    if name in SUMS + EXTREMES and ("where" in keywords or data.draw(st.booleans())):
        keywords["initial"] = data.draw(st.sampled_from([0, 1, 3]))
        if dtype.kind == "b":
            keywords["initial"] = bool(keywords["initial"] % 2)
    if name in ("var", "std"):
        keywords["ddof"] = data.draw(st.sampled_from([0, 1, 2, 0.5]))
    return keywords


@given(data=st.data())
@pytest.mark.parametrize("name", REDUCTIONS)
def test_anything(engine, name, data):
    kinds = st.sampled_from(["ordinary", "small"]) if name in MEANS else gen.kinds
    array = data.draw(gen.arrays(kind=kinds))
    keywords = draw_keywords(data, name, array.shape, array.dtype)
    both(name, array, warnings=name not in SUMS, **keywords)


@given(data=st.data())
@pytest.mark.parametrize("name", MEANS)
def test_means_of_special_values(engine, name, data):
    """Numbers whose squares float64 holds exactly."""
    array = data.draw(gen.arrays(dtype=st.sampled_from(["float16", "float32"])))
    both(name, array, warnings=False, axis=data.draw(axes))


@pytest.mark.parametrize(
    "dtype", [pytest.param(each, marks=[pytest.mark.smoke] * (each == "float32")) for each in gen.DTYPES]
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_type_and_axis(engine, name, dtype):
    for kind, shape in (("special", (3, 5, 7)), ("ordinary", (2, 17, 20)), ("small", (1, 1, 6))):
        array = gen.build(dtype, shape, kind, 3)
        if name in MEANS and array.dtype.kind == "f" and kind == "special":
            array = np.clip(array, -1000, 1000)
        for axis in (None, 0, 1, -1, (0, 1), (2, 0), ()):
            if name in PLACES and isinstance(axis, tuple):
                continue
            swapped = array.astype(array.dtype.newbyteorder()) if axis in (0, (2, 0)) else array
            both(name, swapped, axis=axis, warnings=kind != "special")
            if kind == "small":
                both(name, array, axis=axis, keepdims=True)


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_block_edges(engine, name, size):
    for dtype in ("float64", "float32", "int16", "uint64"):
        array = gen.build(dtype, (size,), "ordinary", size)
        array = array / array.dtype.type(8) if array.dtype.kind == "f" and name == "prod" else array
        both(name, array, warnings=False)
        both(name, np.resize(array, (size, 2)), axis=0, warnings=False)
        both(name, np.resize(array, (2, size)), axis=1, warnings=False)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *(((70_000, 2), a) for a in (0, 1)),
        *(((3, 70_001), a) for a in (0, 1)),
        *(((2000, 3, 2), a) for a in (0, 1, 2, (0, 2))),
        *(((130, 9, 65), a) for a in (0, 1, 2, (0, 1), (1, 2), (0, 2))),
        ((1, 100_000, 1), 1),
        ((5, 1025, 17), 1),
    ],
)
def test_long_and_wide(engine, shape, axis):
    array = gen.build("int32", shape, "bits", 5)
    floats = gen.build("float32", shape, "ordinary", 5)
    for name in ("sum", "prod", "max", "count_nonzero"):
        both(name, array, axis=axis)
    if not isinstance(axis, tuple):
        both("argmin", array, axis=axis)
        both("argmax", floats.round(), axis=axis)
    for name in ("sum", "mean", "std"):
        got = functools.partial(getattr(pk, name), floats, axis=axis)()
        np.testing.assert_allclose(got, getattr(np, name)(floats.astype(float), axis=axis), 1e-6, 1e-4)


@pytest.mark.parametrize("layout", gen.LAYOUTS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (2, 1), -3])
def test_layouts(engine, layout, axis):
    for dtype in ("float64", "float32", "int16", "bool"):
        array = gen.build(dtype, (4, 5, 33), "ordinary", 1, [layout])
        before = array.copy()
        for name in ("sum", "var", "max", "all", "ptp", "argmax"):
            if name == "argmax" and isinstance(axis, tuple):
                continue
            both(name, array, axis=axis, warnings=False)
        assert np.array_equal(array, before)


def test_views_of_views(engine):
    array = gen.build("float32", (6, 7, 36), "ordinary", 2)
    for view in (
        array[::2, ::-1, 3:],
        array.transpose(1, 2, 0),
        array.T[::-3, 1:, ::2],
        np.broadcast_to(array[:, :1], array.shape),
        np.broadcast_to(np.float32(0.1), (30, 40)),
        np.lib.stride_tricks.sliding_window_view(array, 5, axis=2),
        array[:, np.newaxis, :, ::5],
    ):
        for axis in (None, 0, -1, (0, -1)):
            for name in ("sum", "var", "min", "ptp"):
                both(name, view, axis=axis)
    both("argmin", array.T[::-3, 1:, ::2])


def test_memmap(engine, tmp_path):
    file = np.memmap(tmp_path / "a", np.float32, "w+", shape=(100, 30))
    file[:] = gen.build("float32", (100, 30), "ordinary", 1)
    file.flush()
    again = np.memmap(tmp_path / "a", np.float32, "r", shape=(100, 30))
    plain = np.array(again)
    for axis in (None, 0, 1):
        assert np.array_equal(pk.sum(again, axis=axis), pk.sum(plain, axis=axis))
        assert np.array_equal(pk.argmax(again, axis=axis), np.argmax(plain, axis=axis))
    assert type(pk.sum(again, axis=0)) is np.ndarray


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (1, 1), (2, 0, 3)])
def test_small_shapes(engine, name, shape):
    for dtype in ("float32", "int64", "bool"):
        array = np.ones(shape, dtype)
        for axis in (None, 0, -1, 1, (), 5):
            if name in PLACES and axis == ():
                continue
            for keywords in ({}, {"keepdims": True}):
                both(name, array, axis=axis, words=True, **keywords)


def test_arguments_of_other_kinds(engine):
    for argument in ([[1, 2], [3, 4]], (1.5, 2), 7, 2.5, True, np.float16(3), np.int8(-3), [[]], range(5)):
        for name in ("sum", "mean", "max", "any", "argmin"):
            both(name, argument)
    both("sum", [1, 2], 0, np.float32)
    both("mean", [[1, 2]], 1, None, None, True)
    assert pk.sum([1, 2, 3], initial=np.int8(4)) == 10
    assert pk.sum.__name__ == "sum"


# ---- dtype=, out=, initial=, where=, ddof=, mean= ---------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "uint64", "bool"])
@pytest.mark.parametrize("name", SUMS)
def test_dtype_of_sums(engine, name, dtype):
    for of in ("int32", "uint8", "bool"):
        array = gen.build(of, (4, 9), "small", 1)
        for axis in (None, 0, 1):
            ours, numpys = (getattr(kit, name)(array, axis=axis, dtype=dtype) for kit in (pk, np))
            assert ours.dtype == numpys.dtype
            if dtype != "float16":
                np.testing.assert_allclose(ours, numpys, 1e-6)
    floats = gen.build("float64", (4, 9), "small", 1) + 0.75
    ours, numpys = (getattr(kit, name)(floats, axis=1, dtype=dtype) for kit in (pk, np))
    assert ours.dtype == numpys.dtype
    if np.dtype(dtype).kind != "f":
        assert np.array_equal(ours, numpys)  # each element is converted, as NumPy does it


def test_dtype_is_the_results_alone(engine):
    array = np.array([1.0, 2**-30, -1.0])
    assert pk.sum(array, dtype=np.float32) == np.float32(2**-30)
    assert pk.mean(np.float16([2048, 1, -2048]), dtype=np.float64) == 1 / 3
    assert pk.var(np.float16([1, 2]), dtype="f8").dtype == np.float64


@pytest.mark.parametrize("name", ["sum", "mean", "std", "max", "any", "argmax", "nanargmin", "nansum", "ptp"])
def test_an_out_in_a_tuple_is_refused(engine, name):
    x = np.ones((3, 4))
    numpys = getattr(np, name)
    out = np.zeros(4, numpys(x, axis=0).dtype)
    for call in (numpys, getattr(pk, name), pk.fuse(lambda x, **given: numpys(x + 0, **given))):
        with pytest.raises(TypeError, match="must be"):
            call(x, axis=0, out=(out,))


def test_an_out_in_a_tuple_is_taken_where_it_is_a_ufuncs(engine):
    x, out, outs = np.ones((3, 4)), np.zeros(4), np.zeros((3, 4))
    assert pk.nanmax(x, axis=0, out=(out,)) is out
    assert pk.add.reduce(x, axis=0, out=(out,)) is out
    np.testing.assert_array_equal(out, 3)
    assert pk.fuse(lambda x, out: np.add.accumulate(x, axis=0, out=(out,)))(x, outs) is outs
    np.testing.assert_array_equal(outs[-1], 3)


@pytest.mark.parametrize("name", [*SUMS, *MEANS, "add.reduce", "multiply.accumulate", "cumulative_sum"])
@pytest.mark.parametrize("of", ["int32", "float32"])
def test_byte_orders_are_no_dtype(engine, name, of):
    array = gen.build(of, (5, 6), "small", 1)
    for kit in (pk, np):
        with pytest.raises(TypeError, match="arguments to ufuncs only select the general DType"):
            operator.attrgetter(name)(kit)(array, axis=0, dtype=">f8")


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("dtype", [int, bool, object])
def test_means_without_nan_are_of_floats(engine, name, dtype):
    with pytest.raises(TypeError, match="If a is inexact, then dtype must be inexact"):
        getattr(pk, name)([1.5, np.nan], dtype=dtype)


@pytest.mark.parametrize("name", [*SUMS, "mean", "var"])
def test_integers_that_overflow_a_float_warn(engine, name):
    large = np.array([2**60, 2**60, 2**60, 1])
    dtype = np.float32 if "prod" in name else np.float16
    for kit in (pk, np):
        with pytest.warns(RuntimeWarning, match="overflow encountered") as told:
            assert np.isinf(getattr(kit, name)(large, dtype=dtype))
        assert len(told) == 1


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_out_does_not_choose_the_dtype_of_complex_sums(name):
    array = np.array([[1 + 1j, 2 - 3j], [4j, 5.0]])
    ours, numpys = (getattr(kit, name)(array, axis=0, out=np.empty(2)) for kit in (pk, np))
    np.testing.assert_array_equal(ours, numpys)


KEEPDIMS = [0, 3, None, "a", [1], 1.5, np.True_, np.int64(1)]
TAKE_KEEPDIMS = [
    *SUMS,
    *MEANS,
    "max",
    *TRUTHS,
    "ptp",
    "count_nonzero",
    "argmax",
    "nansum",
    "nanvar",
    "nanargmin",
]


@pytest.mark.parametrize("name", TAKE_KEEPDIMS)
@pytest.mark.parametrize("keepdims", KEEPDIMS, ids=repr)
def test_types_of_keepdims(engine, name, keepdims):
    x = np.zeros((3, 4))
    for axis in (None, 1):
        ours, numpys = (gen.outcome(getattr(kit, name), x, axis=axis, keepdims=keepdims) for kit in (pk, np))
        gen.assert_same_outcome(ours, numpys)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("ddof", [None, "a"])
def test_degrees_of_freedom_that_are_no_number(engine, name, ddof):
    x = np.arange(12.0).reshape(3, 4)
    for axis in (None, 0):
        ours, numpys = (gen.outcome(getattr(kit, name), x, axis=axis, ddof=ddof) for kit in (pk, np))
        gen.assert_same_outcome(ours, numpys)


@pytest.mark.parametrize("name", [*REDUCTIONS, "nansum"])
def test_results_own_their_memory(engine, name):
    x = np.arange(60.0).reshape(3, 4, 5)
    results = [getattr(pk, name)(x, axis=axis) for axis in (0, 1, 2)]
    results += [getattr(pk, name)(x, axis=axis, keepdims=True) for axis in (0, 1, 2, None)]
    assert all(result.flags.owndata for result in results)


@pytest.mark.parametrize("axis", [[0, 1], (0, 0), (0, 1.5), 0.5, np.array([0]), "0"])
def test_invalid_axes(engine, axis):
    array = np.ones((2, 3))
    ours, numpys = (gen.outcome(kit.sum, array, axis=axis)[1] for kit in (pk, np))
    assert (type(ours), str(ours)) == (type(numpys), str(numpys))


@pytest.mark.parametrize("of", ["int16", "float64"])
@pytest.mark.parametrize("to", ["float32", "float64", ">f8", "int8", "int64", "bool"])
def test_ptp_to_another_type(engine, of, to):
    array = gen.build(of, (5, 6), "small", 1)
    outs = np.full(5, 9, to), np.full(5, 9, to)
    (status, ours, _), (numpys_status, numpys, _) = (
        gen.outcome(kit.ptp, array, axis=1, out=out) for kit, out in zip((pk, np), outs, strict=True)
    )
    assert status == numpys_status
    if status == "ok":
        np.testing.assert_array_equal(ours, numpys)
    else:
        assert (type(ours), str(ours)) == (type(numpys), str(numpys))
        np.testing.assert_array_equal(outs[0], np.full(5, 9, to))  # NumPy leaves the maximum


def test_read_only_outputs(engine):
    out = np.broadcast_to(np.float64(7), 3)
    for call in (
        lambda: pk.sum(np.ones((3, 2)), axis=1, out=out),
        lambda: pk.var(np.ones((3, 2)), axis=1, out=out),
        lambda: pk.all(np.ones((3, 2)), axis=1, out=out),
        lambda: pk.sqrt(np.ones(3, np.float32), out=out, dtype=int),
    ):
        with pytest.raises(ValueError, match="output array is read-only"):
            call()


@pytest.mark.parametrize("name", [*SUMS, *EXTREMES, *MEANS, *TRUTHS])
@pytest.mark.parametrize("of", ["int32", "float32"])
def test_out(engine, name, of):
    array = gen.build(of, (5, 6, 7), "small", 1)
    for dtype in ("float64", "float32", "int64", "int32", "bool"):
        for axis, shape in ((1, (5, 7)), ((0, 2), (6,)), (None, ())):
            outs = np.full(shape, 9, dtype), np.full(shape, 9, dtype)
            results = [
                gen.outcome(functools.partial(getattr(kit, name), array, axis=axis, out=out))
                for kit, out in zip((pk, np), outs, strict=True)
            ]
            assert results[0][0] == results[1][0], (dtype, results)
            if results[0][0] == "ok":
                assert results[0][1] is outs[0]
                np.testing.assert_allclose(*outs, 1e-5)
            else:
                assert isinstance(results[0][1], TypeError)
                assert (outs[0] == np.full(shape, 9, dtype)).all()
    reverse = np.zeros((5, 1, 7))[..., ::-1]
    both(name, array, axis=1, keepdims=True, out=reverse) if name in EXTREMES + TRUTHS else None


def test_out_may_be_the_array(engine):
    array = gen.build("float64", (4, 5), "ordinary", 1)
    want = pk.sum(array, axis=1, keepdims=True)
    pk.sum(array, axis=1, keepdims=True, out=array[:, :1])
    assert np.array_equal(array[:, :1], want)
    swapped = np.zeros(5, ">f8")
    assert np.array_equal(pk.max(array, axis=0, out=swapped), array.max(axis=0))


@pytest.mark.parametrize("name", PLACES)
def test_out_of_places(engine, name):
    array = gen.build("float32", (5, 6), "ordinary", 1)
    for dtype in ("int64", "int32", "float64"):
        outs = np.full(5, 9, dtype), np.full(5, 9, dtype)
        results = [
            gen.outcome(functools.partial(getattr(kit, name), array, axis=1, out=out))
            for kit, out in zip((pk, np), outs, strict=True)
        ]
        assert results[0][0] == results[1][0]
        assert np.array_equal(*outs)


@pytest.mark.parametrize("name", [*SUMS, *EXTREMES])
def test_initial(engine, name):
    for dtype, initials in (
        ("int8", [0, 5, -3, np.int64(7), True]),
        ("uint64", [2**63 + 1, 3]),
        ("int64", [-(2**63), 2**62 + 1]),
        ("float32", [0, 1.5, np.inf, np.nan, np.float64(0.1)]),
        ("float64", [2**53 + 1, -0.0]),
        ("bool", [True, False]),
    ):
        array = gen.build(dtype, (3, 70), "small", 1)
        for initial in initials:
            for axis in (None, 0, 1):
                both(name, array, axis=axis, initial=initial)
    both(name, np.zeros((0, 3)), axis=0, initial=2.0)


def test_where(engine):
    array = gen.build("float32", (7, 40), "special", 1)
    array[2, 5] = np.nan
    mask = np.isfinite(array) & (gen.build("float32", (7, 40), "ordinary", 2) > 0)
    for axis in (None, 0, 1):
        both("sum", array, axis=axis, where=mask, warnings=False)
        both("mean", array.clip(-9, 9), axis=axis, where=mask)
        both("any", array, axis=axis, where=mask[0])
        both("all", array, axis=axis, where=mask[:, :1])
        both("max", array, axis=axis, where=mask, initial=-1)
        both("std", array.clip(-9, 9), axis=axis, where=mask)
    both("sum", array, where=True, warnings=False)
    both("sum", array, where=False)
    both("sum", np.arange(3), where=np.ones((4, 3), bool), axis=0)
    with pytest.raises(TypeError, match="Cannot cast array data"):
        pk.sum(array, where=np.ones((7, 40)))


@pytest.mark.parametrize("where", [None, [None, True], object(), "yes", ["a", "b"], 1, 1.0, [0, 1], [0.0, 1]])
@pytest.mark.parametrize("name", [*MEANS, "nanmean", "nanvar", "sum", "any"])
def test_masks_that_are_not_bools(engine, name, where):
    """NumPy sums the mask of a mean, and of no other reduction: it refuses one without an integer sum."""
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    for axis in (None, 0):
        results = [gen.outcome(getattr(kit, name), x, axis, where=where) for kit in (pk, np)]
        gen.assert_same_outcome(*results)
        if results[1][0] == "error":
            assert str(results[0][1]) == str(results[1][1])


@pytest.mark.parametrize("mean", [1.5, np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int8(1)])
@pytest.mark.parametrize("name", ["var", "std"])
def test_dtypes_with_a_given_mean(engine, name, mean):
    for dtype in ("uint8", "int64", "bool", "float16", "float32", "float64"):
        for x in (np.ones(6, dtype), np.ones((0, 2), dtype)):
            with np.errstate(invalid="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                with pk.engine(engine, fallback="numpy"):  # for integers about an integer
                    got, want = (np.asarray(getattr(kit, name)(x, axis=0, mean=mean)) for kit in (pk, np))
            assert got.dtype == want.dtype, dtype


@pytest.mark.parametrize("name", ["var", "std"])
def test_integers_about_an_integer_wrap_around(engine, name):
    x = np.arange(200, dtype=np.uint8)
    for mean in (20, np.uint8(20), np.full(1, 20, np.int8)):
        with pytest.raises(errors.Unsupported, match="integers about a mean that is an integer"):
            getattr(pk, name)(x, mean=mean)
        for others in (pk.engine("auto"), pk.engine(engine, fallback="numpy")):
            with others:
                assert getattr(pk, name)(x, mean=mean) == getattr(np, name)(x, mean=mean)
                assert getattr(pk, name)(x, mean=mean, where=x > 9) == getattr(np, name)(
                    x, mean=mean, where=x > 9
                )


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_too_few_elements_about_a_given_mean(engine, name, dtype):
    x = np.array([[1, 2, 3], [4, 5, 7]], dtype)
    some, few = [[True, False, False], [False, False, False]], [[True, True, False], [True, True, False]]
    for axis in (None, 0, 1):
        for ddof in (0, 1, 2):
            for where in (False, some, few):
                for keepdims in (False, True):
                    keywords = {"ddof": ddof, "where": where, "keepdims": keepdims, "mean": np.array(0.25)}
                    results = [gen.outcome(getattr(kit, name), x, axis, **keywords) for kit in (pk, np)]
                    gen.assert_same_outcome(*results, ulp=2, strides=False, context=f"{axis} {keywords}")


@pytest.mark.parametrize("name", MEANS)
def test_a_mask_of_other_numbers_is_numpys(engine, name):
    for where in (2, [2, 0], [1, 0.5]):
        with pytest.raises(errors.Unsupported, match="other numbers than 0 and 1"):
            getattr(pk, name)([1.0, 2.0], where=where)
        with pk.engine("auto"):
            assert getattr(pk, name)([1.0, 2.0], where=where) == getattr(np, name)([1.0, 2.0], where=where)


@pytest.mark.parametrize("name", ["var", "std"])
def test_degrees_of_freedom(engine, name):
    array = gen.build("float64", (4, 9), "ordinary", 1)
    for ddof in (0, 1, 8, 9, 20, 0.5, -1):
        both(name, array, axis=1, ddof=ddof)
        both(name, array, axis=0, ddof=ddof, where=array > 0)
    ours = getattr(pk, name)
    assert np.array_equal(ours(array, axis=1, correction=1), ours(array, axis=1, ddof=1))
    with pytest.raises(ValueError, match="ddof and correction can't be provided simultaneously"):
        ours(array, ddof=1, correction=1)


@pytest.mark.parametrize("name", ["var", "std"])
def test_given_mean(engine, name):
    array = gen.build("float32", (4, 9), "ordinary", 1)
    for axis in (0, 1, None):
        mean = array.mean(axis=axis, keepdims=True)
        for keywords in ({}, {"ddof": 1}, {"where": array > -5}, {"correction": 1, "keepdims": True}):
            ours, numpys = (getattr(k, name)(array, axis=axis, mean=mean, **keywords) for k in (pk, np))
            assert (type(ours), ours.dtype) == (type(numpys), numpys.dtype)
            np.testing.assert_allclose(ours, numpys, 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_about_the_mean_itself(engine, name, dtype):
    """NumPy has the same bits with the mean as without; so do we, also if the mean is rounded far from it."""
    rng = np.random.default_rng(3)
    function = getattr(pk, name)
    average = pk.nanmean if name.startswith("nan") else pk.mean
    for offset in (0, 1e6):
        array = (rng.normal(0, 30, (7, 20, 5)) + offset).astype(dtype)
        where = rng.random(array.shape) < 0.7
        where[:2], where[:, :2], where[:, :, :2] = True, True, True  # at least two everywhere
        if name.startswith("nan") and dtype != "int32":
            array[2:, 2:, 2:][::2] = np.nan
        for axis in (0, 1, 2, (0, 2), None):
            for keywords in ({"where": where, "ddof": 1}, {"where": where}, {"ddof": 1}, {}):
                mask = {"where": where} if "where" in keywords else {}
                mean = average(array, axis=axis, keepdims=True, dtype="float64", **mask)
                got = function(array, axis=axis, dtype="float64", mean=mean, **keywords)
                wanted = function(array, axis=axis, dtype="float64", **keywords)
                np.testing.assert_array_equal(got, wanted, f"{offset} {axis} {list(keywords)}")


@pytest.mark.parametrize("name", ["var", "std"])
def test_accuracy_about_a_given_mean(engine, name):
    rng = np.random.default_rng(4)
    for offset, mean in [(0, 0.3), (1e8, 1e8), (1e8, 1e8 + 0.7), (1e8, 0.0), (0, 1e9)]:
        array = rng.normal(offset, 1, 1000)
        exact = math.fsum((Fraction(x) - Fraction(mean)) ** 2 for x in array.tolist()) / 999
        wanted = math.sqrt(exact) if name == "std" else exact
        assert getattr(pk, name)(array, mean=mean, ddof=1) == pytest.approx(wanted, rel=1e-15)


# ---- NaN, infinities, zeros, warnings, errors -------------------------------------------------------


@pytest.mark.parametrize("dtype", gen.FLOATS)
@pytest.mark.parametrize("at", [0, 1, 16, 1023, 1024, 2999])
def test_nan_anywhere(engine, dtype, at):
    array = gen.build(dtype, (3000,), "small", 1)
    array[at] = np.nan
    array[[at - 7, (at + 900) % 3000]] = np.inf, -np.inf
    for name in ("sum", "prod", "mean", "var", "min", "max", "ptp"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if name in ("var", "ptp") else "error")
            assert np.isnan(getattr(pk, name)(array))
            assert np.isnan(getattr(pk, name)(np.stack([array, array], 1), axis=0)).all()
    for name in PLACES:
        assert getattr(pk, name)(array) == at
        assert (getattr(pk, name)(np.stack([array, -array], 1), axis=0) == at).all()
    assert pk.any(array)
    assert pk.count_nonzero(array) == 3000


@pytest.mark.parametrize("dtype", gen.FLOATS)
def test_infinities_and_zeros(engine, dtype):
    inf = np.inf
    for values in (
        [inf, 1],
        [-inf, 1],
        [inf, -inf],
        [inf, 0],
        [-0.0],
        [-0.0, -0.0],
        [0.0, -0.0],
        [inf, np.nan],
    ):
        array = np.array(values, dtype)
        for name in ("sum", "prod", "mean", "var", "min", "max", "ptp", "argmin", "argmax", "any", "all"):
            warns = name != "var" or -inf not in values  # NumPy warns when it computes the mean
            both(name, array, warnings=warns)
            both(name, np.tile(array[:, np.newaxis], 3), axis=0, warnings=warns)
    assert not np.signbit(pk.sum(np.array([-0.0], dtype)))
    assert np.signbit(pk.prod(np.array([-0.0], dtype)))


def test_overflow(engine):
    largest = np.finfo(np.float32).max
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce") as caught:
        assert pk.sum(np.float32([largest, largest])) == np.inf
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pk.mean(np.float32([largest, largest])) == largest  # NumPy's mean overflows
        assert pk.prod([1e200, 1e200, 1e-300]) == 1e100  # NumPy's product overflows
        assert pk.sum(np.float16([65504, 65504, -65504])) == 65504
        assert pk.sum([np.inf, np.nan, 1.0]) != 0
        with np.errstate(over="ignore"):
            assert pk.prod([1e200, 1e200]) == np.inf
    with np.errstate(over="raise"):
        for call in (
            lambda: pk.sum([1e308, 1e308]),
            lambda: pk.prod([1e200, 1e200]),
            lambda: pk.sum(np.float16([65504, 65504])),
            lambda: pk.mean([[1e308, 1e308]], axis=1),
        ):
            with pytest.raises(FloatingPointError, match="overflow encountered in reduce"):
                call()
    with np.errstate(invalid="raise"):
        with pytest.raises(FloatingPointError, match="invalid value encountered in reduce"):
            pk.sum([np.inf, -np.inf])
        with pytest.raises(FloatingPointError, match="invalid value encountered in subtract"):
            pk.var([np.inf, 1.0])


def test_errors(engine):
    out = np.full(3, 7.0)
    for name, keywords, error in (
        ("sum", {"axis": 2}, np.exceptions.AxisError),
        ("sum", {"axis": (0, 0)}, ValueError),
        ("sum", {"axis": 1.5}, TypeError),
        ("sum", {"axis": 0}, ValueError),
        ("mean", {"axis": "x"}, TypeError),
        ("max", {"axis": 1, "where": [True, False, True]}, ValueError),
        ("max", {"axis": 0}, ValueError),
        ("var", {"axis": -3}, np.exceptions.AxisError),
        ("any", {"axis": (1, -1)}, ValueError),
        ("argmin", {"axis": 0}, ValueError),
        ("argmax", {"axis": 4}, np.exceptions.AxisError),
        ("ptp", {"axis": 0}, ValueError),
    ):
        for kit in (pk, np):
            with pytest.raises(error):
                getattr(kit, name)(np.ones((3, 4)), out=out, **keywords)
        assert (out == 7).all(), name
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        pk.sum([1.0], out=[0.0])
    with pytest.raises(TypeError, match="boolean subtract"):
        pk.ptp([True])
    read_only = np.zeros(())
    read_only.flags.writeable = False
    for kit in (pk, np):
        with pytest.raises(ValueError, match="read-only"):
            kit.sum([1.0, 2.0], out=read_only)


FOREIGN = {
    "complex": lambda kit: kit.sum(np.array([1j, 2])),
    "objects": lambda kit: kit.max(np.array([1, 2, 3], object)),
    "longdouble": lambda kit: kit.mean(np.longdouble([1, 2])),
    "masked": lambda kit: kit.sum(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])),
    "datetime": lambda kit: kit.min(np.array(["2020-01-01", "2020-01-03"], "M8[D]")),
    "complex result": lambda kit: kit.sum([1.0, 2.0], dtype=complex),
    "integer mean": lambda kit: kit.mean([1, 2, 4], dtype=int),
    "strings": lambda kit: kit.argmax(np.array([b"a", b"c", b"b"])),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_calls_that_only_numpy_supports(case):
    got, want = FOREIGN[case](pk), FOREIGN[case](np)
    assert got == want
    assert type(got) is type(want)
    assert pk.last_call().engine == "numpy"
    for name in ("cpu", "cuda"):
        if pk.engines()[name]:
            with pk.engine(name), pytest.raises(errors.Unsupported, match=f"not on the {name} engine"):
                FOREIGN[case](pk)


def test_auto_has_our_bits():
    array = np.array([1e16, 1.0, -1e16])
    assert pk.sum(array) == 1.0
    assert pk.last_call().engine != "numpy"
    with pk.engine("numpy"):
        assert pk.sum(array) == np.sum(array)
        assert pk.last_call().engine == "numpy"


def test_last_call(engine):
    pk.sum(np.arange(10.0))
    call = pk.last_call()
    assert (call.function, call.engine) == ("sum", engine)
    assert call.seconds > 0
    pk.var(np.ones((3, 4)), axis=0)
    assert (pk.last_call().function, pk.last_call().engine) == ("var", engine)
    pk.sum([])
    assert (pk.last_call().function, pk.last_call().engine) == ("sum", "numpy")


@pytest.mark.parametrize("name", ["var", "std"])
def test_about_a_mean_of_another_type_or_shape(engine, name):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for axis, mean in [
        (None, np.float64(5.5)),
        (None, 5.5),
        (0, x.mean(axis=0, dtype=np.float64)),
        (1, [[1], [5], [9]]),
    ]:
        got, want = (getattr(kit, name)(x, axis=axis, mean=mean) for kit in (pk, np))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    larger = np.ones((5, 1, 4))
    with pytest.raises(errors.Unsupported, match="a mean that is larger than the array"):
        getattr(pk, name)(x, axis=0, mean=larger)
    with pk.engine("auto"):
        np.testing.assert_allclose(getattr(pk, name)(x, mean=larger), getattr(np, name)(x, mean=larger))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "any", "count_nonzero", "nansum"])
@pytest.mark.parametrize("axis", [True, False, [0], [0, 1]])
def test_axes_that_are_none(engine, name, axis):
    for kit in (pk, np):
        with pytest.raises(TypeError, match="integer"):
            getattr(kit, name)(np.ones((2, 3)), axis=axis)
