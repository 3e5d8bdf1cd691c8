"""Every elementwise function against NumPy: dtypes, shapes, layouts, values, warnings and errors."""

import warnings

import numpy as np
import pytest
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
    kinds,
    lay_out,
    operands,
    outcome,
    seeds,
    special_values,
)
from hypothesis import assume, given
from hypothesis import strategies as st

import pycudakit as pk

# fmt: off
UNARY = [
    "negative", "positive", "absolute", "abs", "fabs", "sign", "square", "sqrt", "cbrt", "reciprocal",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg", "floor",
    "ceil", "trunc", "rint", "logical_not", "invert", "isnan", "isinf", "isfinite", "signbit", "degrees",
    "radians", "frexp", "modf",
]
BINARY = [
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "mod", "divmod",
    "power", "float_power", "arctan2", "hypot", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "copysign", "nextafter",
    "heaviside", "fmod", "gcd", "lcm", "ldexp",
]
# A stated error of at most 4 ULP, in addition to NumPy's own; test_accuracy.py checks the exact bounds.
INEXACT = {
    "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "power", "float_power",
    "arctan2", "hypot",
}
# fmt: on
FREE_ZERO = {"maximum", "minimum", "fmax", "fmin"}


def compare(name, *arguments, strides=True, **keywords):
    ours = outcome(getattr(pk, name), *arguments, **keywords)
    numpys = outcome(getattr(np, name), *arguments, **keywords)
    ulp = 8 if name in INEXACT else 0
    context = f"{name}({describe(*arguments)})"
    free_zero = name in FREE_ZERO
    if name == "nextafter" and np.result_type(*arguments) == np.float16:
        free_zero = True  # of two float16 zeros, NumPy returns the first before 2.5, then the second, as C
    assert_same_outcome(ours, numpys, ulp, free_zero, strides, context)


@pytest.mark.smoke
@pytest.mark.parametrize("name", UNARY)
def test_unary_of_special_values(engine, name):
    for dtype in DTYPES:
        compare(name, np.tile(special_values(dtype), 3))


@pytest.mark.smoke
@pytest.mark.parametrize("name", BINARY)
def test_binary_of_special_values(engine, name):
    for dtype in DTYPES:
        special = special_values(dtype)
        if name == "power" and np.dtype(dtype).kind == "i":
            compare(name, special[:, None], special[special >= 0])
        compare(name, special[:, None], special)


@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_unary(engine, name, data):
    compare(name, data.draw(arrays()))


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_binary_of_one_type(engine, name, data):
    dtype = data.draw(dtypes)
    compare(name, *data.draw(operands(2, st.just(dtype))))


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_binary_of_two_types(engine, name, data):
    compare(name, *data.draw(operands(2)))


@pytest.mark.parametrize(
    "name", ["add", "floor_divide", "remainder", "power", "left_shift", "right_shift", "fmod", "gcd", "lcm"]
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_pairs_of_bytes(engine, name, dtype):
    every = np.arange(256, dtype=np.uint8).view(dtype)
    compare(name, every[:, None], every if name != "power" else every[every >= 0])


@pytest.mark.parametrize("name", [n for n in UNARY if n not in INEXACT])
def test_all_float16(engine, name):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    compare(name, np.where(np.isnan(every), np.float16(np.nan), every))


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "floor_divide", "remainder", "nextafter"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_over_many_bits(engine, name, dtype):
    a, b = build(dtype, (200_000,), "bits", 1), build(dtype, (200_000,), "bits", 2)
    with np.errstate(over="ignore"):
        near = np.where(np.arange(a.size) % 2 == 0, b, a * build(dtype, a.shape, "small", 3))
    compare(name, a, near)


@pytest.mark.parametrize("layout", ["C", "F", "step", "reversed", "broadcast", "swapped", "misaligned"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_many_elements(engine, dtype, layout):
    """Arrays for more than one thread or chunk, of every layout, with a broadcast operand and with `out`."""
    a = lay_out(build(dtype, (601, 1201), "ordinary", 1), layout)
    for b in (build(dtype, (1201,), "small", 2), build(dtype, (601, 1), "small", 3), a[::-1, ::-1]):
        compare("add", a, b)
        compare("floor_divide", b, a)
        compare("less_equal", a, b)
    mask = lay_out(build("bool", a.shape, "bits", 4), layout)
    compare_out("multiply", (a, a), lambda: lay_out(build(dtype, a.shape, "small", 5), "step"), where=mask)
    compare_out("subtract", (a, a[:1]), lambda: lay_out(build(dtype, a.shape, "small", 5), "transposed"))


def test_memory_maps(engine, tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(3000,))
    mapped[:] = build("float32", (3000,), "ordinary", 1)
    wanted = np.sqrt(np.abs(np.array(mapped)))
    assert_values(pk.sqrt(pk.absolute(mapped)), wanted)
    assert pk.absolute(mapped, out=mapped) is mapped
    assert_values(np.array(pk.sqrt(mapped, out=mapped)), wanted)


# ---- out, where, dtype, casting ---------------------------------------------------------------------

SOME = ["add", "multiply", "divide", "floor_divide", "maximum", "less", "power", "logical_or", "left_shift"]


def compare_out(name, arguments, make_out, ulp=0, **keywords):
    """Compare the contents of `out` after the call; after an error, that they did not change."""
    mine, theirs = make_out(), make_out()
    before = mine.copy()
    context = f"{name}({describe(*arguments)}, out={describe(mine)}, {keywords})"
    ours = outcome(getattr(pk, name), *arguments, out=mine, **keywords)
    numpys = outcome(getattr(np, name), *arguments, out=theirs, **keywords)
    if numpys[0] == "ok":
        assert ours[0] == "ok", f"{context}: {ours[1]!r}"
        assert ours[1] is mine, context
        assert ours[2] == numpys[2], context
        computed = np.result_type(*arguments)
        if ulp and computed.kind == "f" and computed.itemsize < mine.dtype.itemsize:
            mine, theirs = mine.astype(computed), theirs.astype(computed)  # in which the ULPs are counted
        assert_values(mine, theirs, ulp, name in FREE_ZERO, context)
    else:
        assert_same_outcome(ours, numpys, context=context)
        assert_values(mine, before, context=f"{context} after an error")


@pytest.mark.parametrize("name", SOME)
@given(data=st.data())
def test_out(engine, name, data):
    a, b = data.draw(operands(2, kind=st.just("small")))
    shape = np.broadcast_shapes(a.shape, b.shape)
    shape = data.draw(st.sampled_from([shape, (2, *shape), (1, *shape), shape[1:]]))
    layout = data.draw(
        st.lists(st.sampled_from(["F", "step", "reversed", "swapped", "misaligned"]), max_size=2)
    )
    # Most integer types cannot hold 10 to the 10, or 1 / 0.
    large = name in ("power", "divide") or (name == "floor_divide" and np.result_type(a, b).kind == "f")
    dtype = data.draw(st.sampled_from(FLOATS) if large else dtypes)
    casting = data.draw(st.sampled_from(["same_kind", "unsafe", "safe", "no"]))
    assume(len(shape) <= 5)
    compare_out(name, (a, b), lambda: build(dtype, shape, "small", 5, layout), ulp=8, casting=casting)


@pytest.mark.parametrize(
    "name", ["add", "divide", "sqrt", "log", "floor_divide", "arctanh", "reciprocal", "less"]
)
@given(data=st.data())
def test_where_with_out(engine, name, data):
    dtype = data.draw(st.sampled_from(INTEGERS + FLOATS))
    inputs = data.draw(operands(2, st.just(dtype), st.sampled_from(["special", "ordinary"])))
    inputs = inputs[: getattr(np, name).nin]
    full = np.broadcast_shapes(*(a.shape for a in inputs))
    shape = data.draw(st.sampled_from([full, full[1:], tuple(1 for _ in full)]))
    mask = build(
        "bool", shape, "bits", data.draw(seeds), data.draw(st.sampled_from([[], ["step"], ["reversed"]]))
    )
    assume(getattr(np, name).resolve_dtypes((*(a.dtype for a in inputs), None))[0].itemsize <= 8)
    out_dtype = getattr(np, name).resolve_dtypes((*(a.dtype.newbyteorder("=") for a in inputs), None))[-1]
    swapped = [["swapped"], [], ["step"]][data.draw(st.integers(0, 2))]
    compare_out(name, inputs, lambda: build(out_dtype, full, "small", 7, swapped), ulp=8, where=mask)


def test_masked_off_elements_report_nothing(engine):
    zeros, mask = np.zeros(5000), np.zeros(5000, bool)
    with np.errstate(all="raise"):
        for name in UNARY:
            if not name.startswith("invert") and getattr(np, name).nout == 1:
                out = np.full(zeros.shape, 3, getattr(np, name).resolve_dtypes((zeros.dtype, None))[-1])
                bad = np.tile(np.array([-1.0, 0.0, np.inf, 2.0, 1e300]), 1000)
                assert getattr(pk, name)(bad, out=out, where=mask) is out, name
                assert (out == out.dtype.type(3)).all(), name
        out = np.full(5000, 3.0)
        for name in ("divide", "power", "remainder", "floor_divide", "multiply", "subtract"):
            getattr(pk, name)(np.tile([0.0, np.inf, -1.0, 1e300, 0.0], 1000), 0.0, out=out, where=mask)
            assert (out == 3.0).all(), name
        counts = np.zeros(5000, np.int32)
        pk.floor_divide(counts, counts, out=counts, where=mask)
        pk.power(counts + 2, np.int32(-1), out=counts, where=mask)
    assert not counts.any()


def test_where_without_out(engine):
    a, mask = np.arange(5000.0), np.arange(5000) % 3 == 0
    got = pk.sqrt(a, where=mask)
    assert_values(got[mask], np.sqrt(a[mask]))
    assert pk.add(a, 1, where=np.array([[True], [False]])).shape == (2, 5000)


def test_where_of_objects_with_array_ufunc_is_their_own():
    class Own(np.ndarray):
        def __array_ufunc__(self, *given, **keywords):
            return "own"

    x, mask = np.ones(3), np.array([True, False, True])
    with pk.engine("auto"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in (x.view(Own), mask.view(Own)):
            for kit in (pk, np):
                assert kit.sqrt(own, where=mask) == kit.add(1, own, where=mask) == "own"
                assert kit.sqrt(x, where=mask.view(Own)) == kit.frexp(own, where=mask) == "own"


@pytest.mark.parametrize("name", ["add", "divide", "sqrt", "floor_divide", "power", "less", "invert", "exp"])
@given(data=st.data())
def test_dtype_and_casting(engine, name, data):
    inputs = data.draw(operands(getattr(np, name).nin, kind=st.just("small")))
    casting = data.draw(st.sampled_from(["same_kind", "unsafe", "safe", "equiv", "no"]))
    compare(name, *inputs, dtype=data.draw(dtypes), casting=casting)


@given(data=st.data())
def test_out_that_overlaps(engine, data):
    """Overlapping slices as inputs and output give the result as if the inputs were copied first."""
    size = data.draw(st.sampled_from([1, 2, 20, 300, 5000]))
    count = data.draw(st.integers(1, size))

    def a_slice():
        step = data.draw(st.sampled_from([1, 1, -1, 2, -2, 0]))
        span = (count - 1) * abs(step) + 1
        assume(span <= size)
        start = data.draw(st.integers(0, size - span)) + (span - 1 if step < 0 else 0)
        return start, step

    views = [a_slice(), a_slice(), a_slice()]
    assume(views[2][1] != 0)
    dtype = data.draw(st.sampled_from(["float32", "int64", "uint8", "float64"]))
    name = data.draw(st.sampled_from(["add", "subtract", "divide", "less", "sqrt", "floor_divide"]))
    cast = getattr(np, name).resolve_dtypes((*[np.dtype(dtype)] * getattr(np, name).nin, None))[-1] != dtype
    # If a masked `out` is cast, NumPy casts its masked-off elements back and forth.
    mask = build("bool", (count,), "bits", 9) if not cast and data.draw(st.booleans()) else True
    results = []
    for module in (pk, np):
        memory = build(dtype, (size,), "small", 3)
        a, b, out = (
            np.ndarray(count, dtype, memory.data, start * memory.itemsize, step * memory.itemsize)
            for start, step in views
        )
        inputs = (a, b)[: getattr(np, name).nin]
        getattr(module, name)(*inputs, out=out, where=mask, casting="unsafe")
        results.append(memory)
    assert_values(*results, context=f"{name} {views}")


@pytest.mark.parametrize("layout", ["transposed", "step", "reversed"])
def test_out_that_overlaps_in_two_dimensions(engine, layout):
    for module_out in ("same", "shifted", "transposed"):
        results = []
        for module in (pk, np):
            memory = lay_out(build("float64", (70, 70), "ordinary", 1), layout)
            other = {"same": memory, "shifted": memory[::-1], "transposed": memory.T}[module_out]
            module.add(memory, other, out=memory)
            module.subtract(memory[1:], memory[:-1], out=memory[:-1])
            results.append(np.array(memory))
        assert_values(*results, context=module_out)


def test_divmod_outs(engine):
    a, b = build("int32", (5000,), "ordinary", 1), build("int32", (5000,), "small", 2)
    for layout in ([], ["swapped"], ["step"]):
        outs = tuple(build("int64", (5000,), "small", 1, layout) for _ in range(2))
        got = pk.divmod(a, b, out=outs)
        assert got[0] is outs[0]
        assert got[1] is outs[1]
        for ours, numpys in zip(got, np.divmod(a, b, dtype="int64"), strict=True):
            assert (ours == numpys).all()
    quotient = np.empty(5000, np.int32)
    got = pk.divmod(a, b, out=(quotient, None))
    assert got[0] is quotient
    assert (got[1] == a % b).all()
    remainder = np.empty(5000, np.int32)
    assert all(
        x is y for x, y in zip(pk.divmod(a, b, quotient, remainder), (quotient, remainder), strict=True)
    )
    assert (remainder == a % b).all()
    for order in ((0, 1), (1, 0)):  # in place
        inputs = a.copy(), b.copy()
        pk.divmod(*inputs, out=tuple(inputs[i] for i in order))
        assert (inputs[order[0]] == a // b).all()
        assert (inputs[order[1]] == a % b).all()


# ---- Python's numbers, NumPy's scalars, lists -------------------------------------------------------

_NUMBERS = [
    *(0, 1, -1, 2, 127, 128, 255, 256, -128, -129, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1),
    *(0.0, -0.0, 1.5, 1e300, 70000.0, float("inf"), float("nan")),
    *(
        True,
        False,
        np.float32(1.5),
        np.float64(2.5),
        np.int8(-3),
        np.uint64(2**63),
        np.bool_(True),
        np.float16(2),
    ),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["add", "multiply", "divide", "less", "equal", "greater_equal", "not_equal", "maximum", "hypot"]
)
def test_numbers_with_arrays(engine, name, dtype):
    array = special_values(dtype)
    for number in _NUMBERS:
        compare(name, array, number)
        compare(name, number, array)
        compare(name, array[0], number)


@pytest.mark.parametrize("name", ["add", "divide", "power", "equal", "less", "bitwise_and", "left_shift"])
def test_numbers_alone(engine, name):
    for a in (0, 1, 5, 2.5, True, np.float32(2), np.uint8(200)):
        for b in (1, 3, 0.5, False, np.int16(7)):
            compare(name, a, b)
            compare(name, [a, a], ((b,), (b,)))
    compare(name, [], [])


@pytest.mark.parametrize("name", UNARY)
def test_unary_of_numbers(engine, name):
    for value in (1, 0, 0.5, True, [1, 0], [[0.25], [0.5]], np.float32(0.5), np.array(1)):
        compare(name, value)


def test_comparison_of_int64_with_uint64_is_exact(engine):
    signed, unsigned = special_values("int64"), special_values("uint64")
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        compare(name, signed[:, None], unsigned)
        compare(name, unsigned[:, None], signed)


@given(a=arrays(kind=kinds), b=arrays(kind=kinds))
def test_shapes_that_do_not_go_together(engine, a, b):
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        with pytest.raises(ValueError, match="could not be broadcast together with shapes"):
            pk.add(a, b)
    else:
        compare("add", a, b)
