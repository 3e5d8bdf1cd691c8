"""`np.errstate`, the elementwise functions that are not ufuncs, signatures, casts, and bad input."""

import inspect
import io
import itertools
import math
import warnings

import numpy as np
import pytest
from elementwise.test_functions import BINARY, UNARY, compare
from helpers.numpy_versions import has_numpy
from helpers.strategies import (
    DTYPES,
    FLOATS,
    INTEGERS,
    arrays,
    assert_same_outcome,
    assert_values,
    build,
    describe,
    dtypes,
    operands,
    outcome,
    special_values,
)
from hypothesis import assume, given
from hypothesis import strategies as st

import pycudakit as pk

# ---- np.errstate ------------------------------------------------------------------------------------

_MET = [
    ("divide", "divide", (np.ones(3000), np.zeros(3000))),
    ("log", "divide", (np.zeros(3000),)),
    ("floor_divide", "divide", (np.ones(3000, np.int32), 0)),
    ("multiply", "over", (np.full(3000, 1e300), 1e300)),
    ("exp", "over", (np.full(3000, 100, np.float32),)),
    ("floor_divide", "over", (np.full(3000, -128, np.int8), np.int8(-1))),
    ("sqrt", "invalid", (np.full(3000, -1.0),)),
    ("subtract", "invalid", (np.full(3000, np.inf), np.inf)),
    ("add", "over", (np.full(3000, 60000, np.float16), np.float16(60000))),
]


def said(module, name, arguments, mode, handler, capfd):
    with np.errstate(all=mode, under="ignore", call=handler), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(module, name)(*arguments)
        except Exception as error:  # noqa: BLE001
            result = error
    return result, [(w.category, str(w.message)) for w in caught], tuple(capfd.readouterr())


@pytest.mark.parametrize("mode", ["ignore", "warn", "raise", "call", "print", "log"])
@pytest.mark.parametrize(
    ("name", "kind", "arguments"), _MET, ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(_MET)]
)
def test_errstate_modes(engine, name, kind, arguments, mode, capfd):
    calls = {pk: [], np: []}
    logs = {pk: io.StringIO(), np: io.StringIO()}
    results = {}
    for module in (pk, np):
        handler = {"call": lambda *a, m=module: calls[m].append(a), "log": logs[module]}.get(mode)
        results[module] = said(module, name, arguments, mode, handler, capfd)
    (ours, *our_words), (numpys, *numpy_words) = results[pk], results[np]
    assert our_words == numpy_words
    assert type(ours) is type(numpys)
    assert mode != "raise" or str(ours) == str(numpys)
    # NumPy passes all flags of the call, 8 | 2 if both occurred; the first argument names the error.
    assert [c[0] for c in calls[pk]] == [c[0] for c in calls[np]]
    assert calls[pk] == calls[np]
    assert logs[pk].getvalue() == logs[np].getvalue()


def test_errstate_is_per_kind(engine):
    both = np.array([1.0, 0.0]), np.zeros(2)
    with (
        np.errstate(divide="ignore", invalid="raise"),
        pytest.raises(FloatingPointError, match="invalid value"),
    ):
        pk.divide(*both)
    with (
        np.errstate(divide="raise", invalid="ignore"),
        pytest.raises(FloatingPointError, match="divide by zero"),
    ):
        pk.divide(*both)
    with np.errstate(call=None, all="call"), pytest.raises(NameError):
        pk.divide(1.0, np.zeros(3))


def test_warning_points_at_the_caller(engine):
    with pytest.warns(RuntimeWarning) as caught:
        pk.divide(np.ones(3000), 0.0)
    with pytest.warns(RuntimeWarning) as caught_in_round:
        pk.round(np.full(3000, 1e308), 5)
    assert {w.filename for w in [*caught, *caught_in_round]} == {__file__}


def test_a_warning_made_an_error(engine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
            pk.log(np.zeros(3000))


# ---- Functions of their own -------------------------------------------------------------------------


@given(data=st.data())
def test_where(engine, data):
    compare("where", *data.draw(operands(3)))
    a, b = data.draw(operands(2, st.sampled_from(INTEGERS + FLOATS)))
    compare("where", a, b, 3)
    compare("where", pk.less(a, b), 2.5, b)


def test_where_of_numbers_and_nothing(engine):
    mask = build("bool", (3, 700), "bits", 1)
    for branches in ((1, 2), (1.5, 2), (True, 0), (np.float32(1), 2.0), ([[1], [2], [3]], 4)):
        compare("where", mask, *branches)
        compare("where", True, *branches)
    for ours, numpys in zip(pk.where(mask), np.where(mask), strict=True):
        assert_values(ours, numpys)
    with pytest.raises(ValueError, match="either both or neither of x and y should be given"):
        pk.where(mask, 1)
    with pytest.raises(ValueError, match="could not be broadcast"):
        pk.where(mask, np.zeros(3), np.zeros(2))


@given(data=st.data())
def test_clip(engine, data):
    a, low, high = data.draw(operands(3, st.sampled_from(INTEGERS + FLOATS)))
    for bounds in ((low, high), (low, None), (None, high)):
        ours, numpys = outcome(pk.clip, a, *bounds), outcome(np.clip, a, *bounds)
        assert_same_outcome(ours, numpys, free_zero=True, context=f"clip({describe(a, *bounds)})")
    numbers = data.draw(st.sampled_from([(1, 5), (0, None), (None, 3), (2.5, 7), (5, 1), (0, 200), (-3, 3)]))
    if a.dtype.kind in "iu" and not has_numpy("2.1"):  # before, limits are of a's type
        numbers = tuple(n if type(n) is not int else max(0, min(n, 127)) for n in numbers)
    ours, numpys = outcome(pk.clip, a, *numbers), outcome(np.clip, a, *numbers)
    assert_same_outcome(ours, numpys, free_zero=True, context=f"clip({describe(a, *numbers)})")


def test_clip_keywords(engine):
    a = np.arange(-1000, 1000).reshape(40, 50)
    out, mask = np.zeros((40, 50)), a % 2 == 0
    limits = {"min": -5, "max": 5} if has_numpy("2.1") else {"a_min": -5, "a_max": 5}
    assert np.clip(a, **limits, out=out, where=mask) is out
    ours = np.zeros((40, 50))
    assert pk.clip(a, min=-5, max=5, out=ours, where=mask) is ours
    assert_values(ours, out)
    if has_numpy("2.1"):  # earlier versions have no such keywords
        compare("clip", a, None, None)
        compare("clip", a, min=3)
        compare("clip", a, max=3)
        compare("clip", a)
    compare("clip", a, 1, 2, dtype="float32")
    compare("clip", a, 1.5, 2.5, out=np.zeros(a.shape, np.int64))
    compare("clip", a, 1, 2, dtype=np.dtype("int64").newbyteorder())
    if has_numpy("2.1"):
        compare("clip", a, 1, 2, min=3)
    compare("clip", a, 1)
    compare("clip", np.array([True, False]), 0, 1)
    compare("clip", [1, 2, 3], [2, 2, 2], 2)
    compare("clip", 5, 1, 3)


@given(array=arrays(), decimals=st.integers(-3, 5))
def test_round(engine, array, decimals):
    if array.dtype.kind in "iu" and array.itemsize > 2 and decimals < 0:  # may exceed its type
        assume(np.max(np.abs(array.astype(float)), initial=0) <= np.iinfo(array.dtype).max // 2)
    compare("round", array, decimals, strides=0 not in array.strides)  # see astype, below


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", ">i2"])
def test_short_integers_that_are_rounded_beyond_their_type_wrap(engine, dtype):
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    for decimals in (-1, -2, -3, -4, -5, -300):
        compare("round", every, decimals)
        expected = np.round(every, decimals)
        assert_values(pk.fuse(lambda x, decimals=decimals: np.round(x, decimals))(every), expected)
        np.testing.assert_array_equal(pk.evaluate(f"round(every, {decimals})"), expected)
    compare("round", every[-1], -1)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "float64"])
@pytest.mark.parametrize("decimals", [30, -30, 308, -308, 309, -309, 2000, -2000])
def test_rounded_to_decimals_that_no_float_has(engine, dtype, decimals):
    compare("round", build(dtype, (3000,), "ordinary", 1), decimals)


def test_round_out_and_numbers(engine):
    a = build("float64", (3000,), "ordinary", 1)
    for order in "<>":
        for kind in ("i2", "f2", "f8"):
            swapped = a.astype(order + kind)
            for decimals in (-1, 0, 2):
                compare("round", swapped, decimals)
    out = np.zeros(3000, np.float32)
    for decimals in (0, 2, -1):
        assert pk.round(a, decimals, out) is out
        assert_values(out, np.round(a, decimals, np.zeros(3000, np.float32)))
    for value in (2.5, 7, True, [0.5, 1.5], np.float32(2.25), np.int8(17)):
        compare("round", value)
        compare("round", value, decimals=1)
    compare("round", a, 1.5)


@given(array=arrays(), copy=st.booleans())
def test_nan_to_num(engine, array, copy):
    for keywords in ({}, {"nan": 7.0, "posinf": 100.0, "neginf": -100.0}, {"posinf": 3}):
        first, second = array.copy(order="K"), array.copy(order="K")
        ours = outcome(pk.nan_to_num, first, copy, **keywords)
        numpys = outcome(np.nan_to_num, second, copy, **keywords)
        assert_same_outcome(ours, numpys, strides=False, context=f"nan_to_num({describe(array)}, {keywords})")
        if not copy:
            assert_values(first, second)
            assert ours[1] is first or not array.ndim


def test_nan_to_num_of_integers_looks_at_no_replacement(engine):
    """Inputs may be read-only: calls do not write to them."""
    for dtype in ("int8", "uint64", "bool"):
        for shape in ((3000,), ()):
            x = np.ones(shape, dtype)
            x.flags.writeable = False
            assert np.array_equal(pk.nan_to_num(x, copy=False), x)
            if shape:
                assert pk.nan_to_num(x, copy=False) is x
            for replacement in ("a", None, 1j):
                compare("nan_to_num", x, nan=replacement, strides=False)
    for replacement in ("a", 1j):
        with pytest.raises(TypeError):
            pk.nan_to_num([1.0, 2.0], nan=replacement)


def test_nan_to_num_by_arrays(engine):
    x = np.full((2, 3), np.nan)
    for of, nan in [
        (x, [1, 2, 3]),
        (x[0], [[1, 2, 3]]),
        (np.nan, [1.0]),
        (2.0, np.arange(5.0)),
        (x[0], x + 1),
    ]:
        compare("nan_to_num", of, nan=nan, strides=False)


def test_nan_to_num_of_numbers(engine):
    for value in (float("nan"), 1, [1, float("inf")], np.float32("nan"), True):
        compare("nan_to_num", value, strides=False)


# ---- Casts ------------------------------------------------------------------------------------------


def saturated(array, dtype):
    """The documented rule, computed with Python's integers."""
    info = np.iinfo(dtype)
    flat = [
        0 if math.isnan(v) else max(info.min, min(info.max, int(min(max(v, -1e300), 1e300))))
        for v in array.tolist()
    ]
    return np.array(flat, dtype)


@pytest.mark.smoke
@pytest.mark.parametrize("of", DTYPES)
def test_astype_of_special_values(engine, of):
    arrays_of_it = special_values(of), build(of, (3000,), "bits", 3), build(of, (3000,), "special", 4)
    for array, to in itertools.product(arrays_of_it, DTYPES):
        ours, numpys = outcome(pk.astype, array, to), outcome(np.astype, array, np.dtype(to))
        if np.dtype(of).kind == "f" and np.dtype(to).kind in "iu":
            assert_values(ours[1], saturated(array, to))
            fits = np.isfinite(array) & (
                np.trunc(array.astype(np.longdouble)) == ours[1].astype(np.longdouble)
            )
            assert ours[2] == (set() if fits.all() else {"invalid value encountered in cast"})
            assert_values(ours[1][fits], array[fits].astype(to))
        else:
            assert_same_outcome(ours, numpys, context=f"{of} to {to}")


@given(array=arrays(kind=st.sampled_from(["small", "ordinary"])), to=dtypes, swap=st.booleans())
def test_astype(engine, array, to, swap):
    if array.dtype.kind == "f" and np.dtype(to).kind == "u":
        array = np.asarray(np.abs(array))
    wanted = np.dtype(to).newbyteorder() if swap else np.dtype(to)
    # NumPy uses its own layout for a copy of an array with zero strides.
    compare("astype", array, wanted, strides=wanted.isnative and 0 not in array.strides)


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("of", FLOATS)
def test_astype_at_the_edges_of_range(engine, of, to):
    info = np.iinfo(to)
    edges = np.array([float(e) for e in (info.min, info.max) if abs(e) < float(np.finfo(of).max)], of)
    around = [edges]
    for direction in (-np.inf, np.inf):
        step = edges
        for _ in range(3):
            step = np.nextafter(step, np.array(direction, of))
            around.append(step)
    around += [np.trunc(edges) + d for d in np.array([-1.5, -1, -0.5, 0.5, 1, 1.5], of)]
    around.append(np.array([-0.99, -0.5, -0.0, 0.99, np.inf, -np.inf, np.nan], of))
    array = np.concatenate(around).astype(of)
    ours = outcome(pk.astype, np.tile(array, 9), to)
    assert_values(ours[1], np.tile(saturated(array, to), 9))


def test_astype_copy(engine):
    a = np.arange(5.0)
    assert pk.astype(a, np.float64, copy=False) is a
    assert not np.shares_memory(pk.astype(a, np.float64), a)
    assert pk.astype(a, "i4", copy=False).dtype == np.int32
    if has_numpy("2.1"):  # earlier versions do not take numbers
        compare("astype", np.float16(9), np.dtype("u1"))
    assert_values(pk.astype([1.5, 2.5], "f4"), np.array([1.5, 2.5], "f4"))


# ---- Signatures and bad input -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["where", "clip", "round", "nan_to_num", "astype"])
def test_parameters_are_numpys(name):
    ours = inspect.signature(getattr(pk, name)).parameters.values()
    known = {p.name: p.kind for p in ours}
    if name == "where":  # NumPy's function has no signature
        assert list(known) == ["condition", "x", "y"]
        return
    theirs = inspect.signature(getattr(np, name)).parameters.values()
    # Apart from device= and the ufunc keywords of clip, which only NumPy supports.
    wanted = {p.name: p.kind for p in theirs if p.name not in ("kwargs", "device")}
    assert {n: known[n] for n in wanted} == wanted


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_public_functions_have_names_and_docstrings(name):
    function = getattr(pk, name)
    assert function.__name__ == name
    assert ">>> pk." in function.__doc__
    parameters = inspect.signature(function).parameters
    assert {"out", "where", "dtype", "casting"} <= set(parameters)
    assert name in pk.__all__


@pytest.mark.parametrize("name", ["add", "sqrt", "divmod", "clip", "where", "round"])
def test_bad_input(engine, name):
    out = np.full(3, 7.0)
    arguments = {"sqrt": (np.ones(3),), "round": (np.ones(3), 1), "clip": (np.ones(3), 0, 1)}.get(
        name, (np.ones(3), np.ones(3))
    )
    if name == "where":
        arguments = (*arguments, np.ones(3))
    text = ("a", *arguments[1:])
    for bad in (
        text,
        (None, *arguments[1:]),
        (np.ones(3, complex), *arguments[1:]),
        (object(), *arguments[1:]),
    ):
        with pytest.raises(TypeError):
            getattr(pk, name)(*bad)
    if name in ("add", "sqrt"):
        getattr(pk, name)(*arguments, out=out)
        assert not (out == 7.0).any()


@pytest.mark.parametrize("name", ["add", "sqrt", "divmod"])
def test_bad_outputs(engine, name):
    function, ufunc = getattr(pk, name), getattr(np, name)
    inputs = (np.ones((2, 3)), np.full((2, 3), 2.0))[: ufunc.nin]
    sentinel = 7.0
    shapes_and_types = [
        ((3,), "f8"), ((2, 4), "f8"), ((1, 3), "f8"), ((2, 3), "i4"), ((2, 3), "u1"), ((2, 2, 4), "f8"),
    ]  # fmt: skip
    for shape, dtype in shapes_and_types:
        outs = tuple(np.full(shape, sentinel, dtype) for _ in range(ufunc.nout))
        before = outs[0].copy()
        compare_errors(function, ufunc, inputs, out=outs)
        assert_values(outs[0], before)
    readonly = np.full((2, 3), sentinel)
    readonly.flags.writeable = False
    compare_errors(function, ufunc, inputs, out=(readonly,) * ufunc.nout)
    assert (readonly == sentinel).all()
    repeated = np.broadcast_to(np.zeros(3), (2, 3))
    compare_errors(function, ufunc, inputs, out=(repeated,) * ufunc.nout)
    for out in ([1.0, 2.0], "text", 5, (np.zeros((2, 3)),) * 3, ()):
        compare_errors(function, ufunc, inputs, out=out)


def compare_errors(function, ufunc, inputs, **keywords):
    ours, numpys = outcome(function, *inputs, **keywords), outcome(ufunc, *inputs, **keywords)
    assert numpys[0] == "error"
    assert_same_outcome(ours, numpys, context=str(keywords))


@pytest.mark.parametrize("name", ["add", "sqrt", "power", "divmod"])
def test_bad_keywords(engine, name):
    function, ufunc = getattr(pk, name), getattr(np, name)
    inputs = (np.ones(3), np.full(3, 2.0))[: ufunc.nin]
    for keywords in (
        {"casting": "sideways"}, {"dtype": "nonsense"}, {"dtype": "i4"}, {"where": np.ones(4, bool)},
        {"where": np.ones(3)}, {"unknown": 1},
    ):  # fmt: skip
        compare_errors(function, ufunc, inputs, **keywords)
    for where in (1, 0, None, [True, False, True], [1, 0, 2], np.array([True, False, False])):
        outs, numpys = ([np.full(3, 7.0) for _ in range(ufunc.nout)] for _ in range(2))
        function(*inputs, out=tuple(outs), where=where)
        ufunc(*inputs, out=tuple(numpys), where=where)
        assert_values(outs[0], numpys[0])
    compare_errors(function, ufunc, (*inputs, np.ones(3), np.ones(3), np.ones(3)))
    compare_errors(function, ufunc, (*inputs, np.ones(3)), out=(np.ones(3),) * ufunc.nout)
    compare_errors(function, ufunc, ())


def test_error_messages_are_numpys(engine):
    cases = [
        (lambda m: m.add(np.ones((2, 3)), np.ones((4, 5)))),
        (lambda m: m.add(np.ones(3), np.ones(3), out=np.ones((1, 4)))),
        (lambda m: m.add(np.ones(3), np.ones(3), out=np.ones(3, "i4"))),
        (lambda m: m.add(np.ones(3, "u1"), 300)),
        (lambda m: m.subtract(np.ones(3, bool), np.ones(3, bool))),
        (lambda m: m.negative(np.ones(3, bool))),
        (lambda m: m.bitwise_and(np.ones(3), 1)),
        (lambda m: m.left_shift(np.ones(3, "i8"), np.ones(3, "u8"))),
        (lambda m: m.power(np.ones(3, "i8"), -1)),
        (lambda m: m.power(np.full(3, 2), np.array([1, -1, 1]))),
        (lambda m: m.sqrt(np.ones(3), dtype="i4")),
        (lambda m: m.add(np.ones(3), 1, out=(np.ones(3), np.ones(3)))),
        (lambda m: m.add(np.ones(3), 1, out=[1])),
        (lambda m: m.add(np.ones(3), 1, where=np.ones(3))),
        (lambda m: m.add(np.broadcast_to(1.0, (2**40, 2**40)), 1.0)),
    ]
    for case in cases:
        ours, numpys = outcome(case, pk), outcome(case, np)
        assert numpys[0] == "error"
        assert_same_outcome(ours, numpys)
        assert str(ours[1]) == str(numpys[1]), (str(ours[1]), str(numpys[1]))


def test_negative_power_leaves_out_untouched(engine):
    base, out = np.full(5000, 2), np.full(5000, 7)
    exponents = np.ones(5000, int)
    exponents[4321] = -1
    with pytest.raises(ValueError, match="negative integer powers"):
        pk.power(base, exponents, out=out)
    assert (out == 7).all()
    for base_shape, exponent in (((0,), -1), ((0,), np.array([-1])), ((0, 3), np.array([-1, 1, 1]))):
        compare("power", np.ones(base_shape, int), exponent)
    mask = exponents > 0
    pk.power(base, exponents, out=out, where=mask)
    assert (out[mask] == 2).all()
    assert out[4321] == 7


def test_no_size_leaves_floats_to_numpys_casts():
    """NumPy's casts out of range are inconsistent, so under `auto` even small calls use an engine."""
    far = np.array([300, -np.inf, np.nan])
    saturated = np.array([127, -128, 0], np.int8)
    with pk.engine("auto"), np.errstate(invalid="ignore"):
        for repeats in (1, 500_000):
            x, wanted = np.tile(far, repeats), np.tile(saturated, repeats)
            assert_values(pk.astype(x, np.int8), wanted)
            assert_values(pk.add(x, 0.0, out=np.empty(x.shape, np.int8), casting="unsafe"), wanted)
            assert_values(pk.evaluate("astype(x, int8)", {"x": x}), wanted)
        word = np.array([25, 2**32 - 1], np.uint32)
        assert_values(pk.round(word, -1), np.array([20, 2**32 - 1], np.uint32))
        assert_values(pk.evaluate("round(word, -1)"), np.array([20, 2**32 - 1], np.uint32))


@pytest.mark.parametrize("name", ["add", "less", "power", "divmod", "arctan2", "logical_and"])
@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_casting_of_python_numbers(engine, name, casting):
    """NumPy's resolve_dtypes crashes for some of these."""
    for dtype, number in itertools.product(["int8", "int64", "uint8", "float32", "float64"], [1, 1.5]):
        compare(name, np.ones(3, dtype), number, casting=casting)
        compare(name, number, np.ones(3, dtype), casting=casting)


def test_many_dimensions(engine):
    a = build("float64", (2,) * 5 + (1,) * 59, "ordinary", 1)
    b = build("float32", (1,) * 31 + (3, 1), "ordinary", 2)
    flipped = np.moveaxis(a, 0, 4)
    for first, second in ((a, b), (flipped, b), (b, flipped), (a.T, 2.0)):
        compare("add", first, second)
        compare("divide", first, second, out=np.zeros((first * second).shape, "f4"))
        compare("where", first > 0, second, 1.0)
    assert_values(pk.evaluate("a * b"), a * b)
    compare("add", a, np.ones((3,) * 9 + (1,) * 40))
    with pytest.raises(ValueError, match="could not be broadcast"):
        pk.evaluate("a + b", {"a": a, "b": np.ones((3,) + (1,) * 59)})


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_comparisons_with_integers_beyond_floats(engine, dtype):
    a = np.arange(3, dtype=dtype)
    for name, number in itertools.product(("equal", "less", "greater_equal"), (10**400, -(10**400))):
        compare(name, a, number)
        compare(name, number, a)
    assert pk.evaluate(f"a < {10**400}").all()
    assert not pk.evaluate("a < n", {"a": a, "n": -(10**400)}).any()


class _Wrapping:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 4.0])

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return "wrapped", array.tolist()


def test_results_that_only_numpy_computes_keep_their_type():
    """Under `auto` the result is NumPy's, including subclasses and wrappers."""
    masked = np.ma.array([1.5, 2.5], mask=[False, True])
    assert pk.sqrt(_Wrapping()) == ("wrapped", [1.0, 2.0])
    assert pk.astype(masked, "f4").mask.tolist() == [False, True]
    for scalar in (np.int8(3), np.float64(1.5), np.bool_(True)):
        assert type(pk.astype(scalar, "f4")) is np.float32
    for value in (2**70, None, {}, "text"):
        assert pk.nan_to_num(value) == value


def test_outs_that_cannot_be_written_come_first(engine):
    out = np.broadcast_to(np.int8(7), (2, 3))
    for kit in (pk, np):
        with pytest.raises(ValueError, match="output array is read-only"):
            kit.add(np.ones(4), 0.5, out=out)


def test_subok_is_a_bool(engine):
    for kit in (pk, np):
        for function, count in ((kit.sqrt, 1), (kit.add, 2), (kit.modf, 1), (kit.divmod, 2)):
            with pytest.raises(TypeError, match="'subok' must be a boolean"):
                function(*[np.ones(3)] * count, subok=1)


@pytest.mark.parametrize("kind", ["auto", "cpu"])
def test_an_out_in_a_tuple_is_taken_again_and_again(kind):
    x = np.array([1.0, 4.0])
    with pk.engine(kind):
        for _ in range(4):  # the first calls fill the dispatch cache
            for name, arguments in (("sqrt", (x,)), ("add", (x, x)), ("maximum", (x, 2))):
                out = np.empty(2)
                assert getattr(pk, name)(*arguments, out=(out,)) is out
                np.testing.assert_array_equal(out, getattr(np, name)(*arguments))


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), ((3, 4), (3, 4)), ((2, 1, 1), (4,)), ((4,), (3, 4))])
def test_order_a(engine, shapes):
    for turn in (np.asarray, np.asfortranarray):
        a, b = (turn(np.arange(np.prod(shape, dtype=float)).reshape(shape)) for shape in shapes)
        ours, numpys = (kit.add(a, b, order="A") for kit in (pk, np))
        assert ours.strides == numpys.strides
