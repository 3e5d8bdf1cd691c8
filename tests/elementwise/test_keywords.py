"""NumPy's rarer keywords, and calls of Python numbers alone."""

import inspect
import itertools
from fractions import Fraction

import numpy as np
import pytest
from helpers.numpy_versions import since
from helpers.strategies import assert_same_outcome, outcome
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors

A, B = np.array([[1, 2, 3], [4, 5, 6]], np.int32), np.array([7, 8, 9], np.int16)


@pytest.mark.parametrize("asked", ["auto", None])
@pytest.mark.parametrize(
    "keywords",
    [
        {"signature": "dd->d"},
        {"sig": "dd->d"},
        {"signature": (np.float32, np.float32, np.float32)},
        {"order": "F"},
        {"order": "C"},
        {"subok": False},
        pytest.param({"out": ...}, marks=since("2.3")),
        pytest.param({"signature": "ll->l", "out": ..., "order": "F"}, marks=since("2.3")),
    ],
    ids=str,
)
def test_keywords(engine, asked, keywords):
    with pk.engine(asked or engine):
        for inputs in ((A, B), (A.T, 2), (1, 2)):
            got, want = pk.add(*inputs, **keywords), np.add(*inputs, **keywords)
            assert_array_equal(got, want, strict=True)
            assert type(got) is type(want)
            if got.ndim == 2:
                assert got.flags.f_contiguous == want.flags.f_contiguous


def test_keywords_that_do_not_go_together(engine):
    for kit in (pk, np):
        with pytest.raises(TypeError, match="cannot specify both 'signature' and 'dtype'"):
            kit.add(A, B, dtype=float, signature="dd->d")
        with pytest.raises(TypeError, match=r"'same_kind'"):
            kit.add(A, B * 1.5, signature="ll->l")


@since("2.4")
def test_signatures_name_numpys_parameters():
    for name in ("add", "sqrt"):
        ours = set(inspect.signature(getattr(pk, name)).parameters)
        assert ours >= set(inspect.signature(getattr(np, name)).parameters)


# ---- Python's numbers alone --------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["auto", None])
@pytest.mark.parametrize(
    ("name", "inputs", "keywords"),
    [
        ("add", (1, 2), {"dtype": np.uint8}),
        ("add", (1, 300), {"dtype": np.int8}),
        ("add", (2**63, 1), {}),
        ("add", (2**63, 1.5), {}),
        ("multiply", (2**70, 1.5), {}),
        ("add", (1.5, 2), {"dtype": np.float32}),
        pytest.param("add", (1.5, 2), {"dtype": np.uint8}, marks=since("2.1")),
        ("less", (1, 300), {}),
        ("less", (2**200, -(2**200)), {}),
        ("equal", (2**200, 2**200), {}),
        ("not_equal", (0, 2**63), {}),
        ("sqrt", (4,), {"dtype": np.float32}),
        ("clip", (5, 0, np.uint8([3])), {}),
        ("clip", (True, 0, np.int8([3])), {}),
        ("where", (A > 3, np.int8(1), 300), {}),
        ("where", (A > 3, -1, A.astype(np.uint8)), {}),
    ],
)
def test_numbers(engine, asked, name, inputs, keywords):
    def outcome(kit):
        try:
            return getattr(kit, name)(*inputs, **keywords)
        except (TypeError, OverflowError) as error:
            return error

    want = outcome(np)
    with pk.engine(asked or engine):
        got = outcome(pk)
    assert type(got) is type(want)
    if isinstance(want, Exception):
        assert str(got) == str(want)
    else:
        assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("name", ["add", "power", "equal"])
def test_numbers_of_any_size_as_objects(engine, name):
    inputs = 1, 2**100
    with pk.engine("auto"):
        assert getattr(pk, name)(*inputs, dtype=object) == getattr(np, name)(*inputs, dtype=object)
    with pytest.raises(errors.Unsupported, match=f"{name}: .* object as dtype"):
        getattr(pk, name)(*inputs, dtype=object)


def test_none_is_a_value_of_where(engine):
    with pk.engine("auto"):
        assert pk.where(A > 3, None, None).tolist() == np.where(A > 3, None, None).tolist()
        assert pk.where(A > 3, None, 1).tolist() == np.where(A > 3, None, 1).tolist()
    with pytest.raises(errors.Unsupported, match="where"):
        pk.where(A > 3, None, None)
    with pytest.raises(ValueError, match="either both or neither"):
        pk.where(A > 3, 1)


@pytest.mark.parametrize(
    "signature",
    [
        "dd->d",
        "ff->f",
        "ll->l",
        "d",
        "bogus",
        "dd",
        ("d",),
        (None,),
        (None, None, "f"),
        ("d", "d"),
        3,
        np.float32,
    ],
)
def test_signatures(engine, signature):
    for arguments in ((A, A), (A, 2), (2.5, B), (np.int64(3), A)):
        ours, numpys = (outcome(kit.add, *arguments, signature=signature) for kit in (pk, np))
        assert_same_outcome(ours, numpys, context=f"{arguments}, {signature}")


@pytest.mark.parametrize("keywords", [{"signature": "dd->d"}, {"sig": "dd->d"}])
def test_signatures_do_not_hide_deciding_keywords(engine, keywords):
    class Tagged(np.ndarray):
        pass

    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for x in (masked, np.ones(2).view(Tagged)):
        for arguments in ((x, 1.0), (1.0, x)):
            with pytest.raises(errors.Unsupported, match=type(x).__name__):
                pk.add(*arguments, **keywords)
            with pk.engine("auto"):
                assert type(pk.add(*arguments, **keywords)) is type(x)


def test_averages_that_are_numpys():
    assert pk.average([Fraction(1, 2), Fraction(1, 3)]) == Fraction(5, 12)
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    assert type(pk.average(matrix, axis=0)) is np.matrix


def test_out_of_round(engine):
    out = np.zeros(2)
    for kit in (pk, np):
        with pytest.raises(ValueError, match="invalid output shape"):
            kit.round(np.array([2.567]), 2, out=out)
    assert (out == 0).all()
    assert pk.round(np.array(2.567), 2, out=np.zeros(())) == 2.57


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"])
def test_numbers_rounded_to_arrays(engine, dtype, shape):
    """NumPy writes each step to `out`, and refuses dtypes that `out` cannot hold."""
    numbers = [
        2.567,
        np.float64(2.567),
        np.float32(-2.567),
        np.float16(2.567),
        7,
        np.int64(-17),
        np.uint8(17),
    ]
    numbers += [True, np.array(2.567), np.full(shape, -17), np.full(shape, 2.567, np.float32)]
    for number, decimals in itertools.product(numbers, (0, 2, -1)):
        told = f"{number!r}, {decimals}"
        ours, numpys = np.ones(shape, dtype), np.ones(shape, dtype)
        got = outcome(pk.round, number, decimals, out=ours)
        want = outcome(np.round, number, decimals, out=numpys)
        assert (got[1] is ours) == (want[1] is numpys), told
        assert type(got[1]) is type(want[1]), told
        if isinstance(want[1], TypeError):
            assert str(got[1]).replace("array data", "scalar") == str(want[1]).replace("array data", "scalar")
        assert_array_equal(ours, numpys, strict=True, err_msg=told)


def test_arrays_rounded_to_other_types(engine):
    for dtype in ("float32", "int64", "bool"):
        x = np.random.default_rng(0).normal(0, 100, 5000).astype(dtype)
        for decimals in (0, 2, -1):
            ours, numpys = np.zeros(5000), np.zeros(5000)
            assert pk.round(x, decimals, ours) is ours
            assert_array_equal(ours, np.round(x, decimals, numpys))


def test_interp_of_unaligned_arrays(engine):
    x = np.ndarray(2, float, b"\0" + np.array([0.5, 1.5]).tobytes(), 1)
    assert not x.flags.aligned
    assert_array_equal(pk.interp(x, [0.0, 2.0], [0.0, 4.0]), [1.0, 3.0])
    assert_array_equal(pk.interp([0.5, 1.5], [0.0, 2.0], x), np.interp([0.5, 1.5], [0.0, 2.0], x))
    assert_array_equal(pk.interp([1.0], x, [0.0, 1.0]), [0.5])


@pytest.mark.parametrize("large", [2**63, 2**64, -(2**63) - 1])
@pytest.mark.parametrize("name", ["divide", "arctan2", "hypot", "logaddexp", "float_power"])
def test_integers_of_any_size_as_floats(engine, name, large):
    for inputs in ((large, 3), (3, abs(large))):
        with np.errstate(all="ignore"):
            got, want = (getattr(kit, name)(*inputs) for kit in (pk, np))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("name", ["divide", "arctan2", "logical_and"])
def test_a_dtype_that_a_function_does_not_have(engine, name):
    for kit in (pk, np):
        with pytest.raises(TypeError, match="No loop matching"):
            getattr(kit, name)(1, 300, dtype=np.int8)


@pytest.mark.parametrize("name", ["negative", "square", "sqrt", "isnan"])
def test_a_number_of_any_size(name):
    for number in (2**63, 2**64):
        outcomes = []
        for kit in (pk, np):
            try:
                outcomes.append(repr(getattr(kit, name)(number)))
            except TypeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_out_of_clip_may_be_dots(engine):
    got = pk.clip(np.array(5.0), 1, 3, out=...)
    assert type(got) is np.ndarray
    assert got == 3.0


def test_an_order_that_is_none(engine):
    with pytest.raises(ValueError, match="order must be one of"):
        pk.add(np.ones(3), 1, order="Q")
    assert pk.add(np.ones((2, 3)), 1, order="f").flags.f_contiguous
