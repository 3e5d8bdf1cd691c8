"""Random programs by hypothesis: fused, each gives NumPy's results, to the bit."""

import itertools

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.strategies import assert_values, build, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.fusing.memory import residency

LARGEST = 40_000  # elements
NAMES = [f"v{n}" for n in range(8)]
DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
SHAPES = [
    [(7,), (4, 7), (1, 7)],
    [(130, 100), (100,), (130, 1)],
    [(12_000,), (12_000,), (3, 12_000)],
    [(), (0, 5), (5,)],
]

dtypes = st.sampled_from(DTYPES)
kinds = st.sampled_from(["small", "special"])
layouts = st.sampled_from(["C", "C", "F", "step", "reversed", "swapped"])
numbers = st.sampled_from(
    ["0", "1", "2", "3", "-1", "7", "True", "2.5", "-0.5", "np.float32(1.5)", "np.int8(3)"]
)
variables = st.sampled_from(NAMES)
starts = st.sampled_from(["", "", "0", "1", "2", "-3", "5"])
steps = st.sampled_from(["", "", "", "2", "3", "-1", "-2"])
slices = st.builds("{}:{}:{}".format, starts, starts, steps)
parts = st.one_of(slices, slices, st.sampled_from(["...", "None", "0", "-1", ":"]))
places = st.lists(parts, min_size=1, max_size=3).map(", ".join)
views = st.one_of(
    st.builds("{}[{}]".format, variables, places),
    st.builds("{}.T".format, variables),
    st.builds("{}.reshape(-1)".format, variables),
    st.builds("{}.ravel()[{}]".format, variables, slices),
    st.builds("{}.swapaxes(0, -1)".format, variables),
    st.builds("np.flip({})".format, variables),
    st.builds("np.expand_dims({}, 0)".format, variables),
    st.builds("{}.squeeze()".format, variables),
)
operands = st.one_of(variables, variables, views, numbers)
comparisons = st.builds("({} {} {})".format, operands, st.sampled_from(["<", ">=", "==", "!="]), operands)
arithmetic = st.builds(
    "({} {} {})".format, operands, st.sampled_from(["+", "-", "*", "&", "|", "^"]), operands
)
unary = st.builds(
    "{}({})".format, st.sampled_from(["-", "abs", "+", "~", "np.square", "np.sign", "np.isnan"]), operands
)
elementwise = st.one_of(
    arithmetic,
    comparisons,
    unary,
    st.builds(
        "np.{}({}, {})".format,
        st.sampled_from(["maximum", "minimum", "fmax", "logical_or"]),
        operands,
        operands,
    ),
    st.builds("np.where({}, {}, {})".format, comparisons, operands, operands),
    st.builds("cast({}, '{}')".format, variables, dtypes),
    st.builds("np.clip({}, {}, {})".format, variables, operands, operands),
)
axes = st.sampled_from(["None", "0", "-1", "1", "(0, 1)"])
reductions = st.builds(
    "{}({}, axis={}, keepdims={})".format,
    st.sampled_from(["np.max", "np.min", "np.any", "np.all", "np.count_nonzero", "total", "total"]),
    st.one_of(elementwise, variables, views),
    axes,
    st.booleans(),
)
others = st.one_of(
    st.builds("np.concatenate([{}, {}])".format, operands, operands),
    st.builds("np.stack([{}, {}], axis=-1)".format, operands, elementwise),
    st.builds(
        "np.roll({}, {}, axis={})".format, variables, st.integers(-3, 3), st.sampled_from(["None", "0"])
    ),
    st.builds("running({})".format, variables),
    st.builds("np.argmax({}, axis={})".format, elementwise, st.sampled_from(["None", "0"])),
    st.builds("{}[[0, -1, 0]]".format, variables),
    st.builds("{}[..., [0, -1]]".format, variables),
    st.builds("in_order({})".format, st.one_of(elementwise, variables, views)),
    st.builds("rank({})".format, variables),
    st.builds("picked({}, {})".format, variables, variables),
    st.builds("np.take_along_axis({0}, rank({0}), -1)".format, variables),
    st.builds("{}[{}]".format, variables, comparisons),
    st.builds("np.{}_like({})".format, st.sampled_from(["zeros", "ones"]), operands),
    st.builds("np.zeros({}.shape, '{}')".format, variables, dtypes),
    st.builds("np.full({}.shape, {})".format, variables, numbers),
    st.builds("np.arange({}.size).reshape({}.shape)".format, variables, variables),
    st.builds("{}.copy()".format, views),
)
whole_numbers = st.integers(-3, 5).map(str)
some_places = st.sampled_from(
    ["0", "-1", "2", "[1, 1]", "[0, -2, 2]", "[]", "slice(1, 3)", "slice(None, None, -2)"]
)
few = st.sampled_from(["0", "-1", "None"])
put_together = st.one_of(
    st.builds(
        "np.{}.reduce([{}, {}])".format,
        st.sampled_from(["maximum", "fmin", "logical_and", "bitwise_or"]),
        elementwise,
        operands,
    ),
    st.builds(
        "np.{}([{}, {}], axis={})".format, st.sampled_from(["max", "any"]), variables, elementwise, few
    ),
    st.builds("total([{}, {}], axis=0)".format, variables, elementwise),
    st.builds("np.array([{}, {}])".format, variables, elementwise),
    st.builds("np.array([np.max({}), 1, {}.size])".format, variables, variables),
    st.builds("np.delete({}, {}, axis={})".format, views, some_places, few),
    st.builds(
        "np.insert({}, {}, fit({}, {}), axis={})".format, variables, some_places, variables, views, few
    ),
    st.builds("np.block([{}, {}])".format, operands, elementwise),
    st.builds("np.block([[{}], [{}]])".format, operands, views),
    st.builds("np.broadcast_arrays({}, {})[0] + 0".format, views, elementwise),
    st.builds("np.meshgrid({}.ravel()[:9], {}.ravel()[:7])[0]".format, variables, views),
    st.builds("np.choose({}, [{}, {}])".format, comparisons, operands, elementwise),
    st.builds("np.choose({}, [{}, {}], mode='wrap')".format, variables, operands, elementwise),
    st.builds("np.piecewise({0}, [{0} < 1, {0} == 2], [1, 2, 3])".format, variables),
    st.builds("np.resize({}, (3, {}))".format, views, whole_numbers),
    st.builds("np.roll({}, ({}, 1), axis=(0, -1))".format, views, whole_numbers),
    st.builds("np.polyval([1, {}], {})".format, numbers, views),
    st.builds("np.ediff1d({}, {})".format, variables, numbers),
    st.builds("np.unravel_index(np.argmax({0}), {0}.shape)[0]".format, variables),
    st.builds("{}.view()".format, views),
    st.builds("np.fft.fftshift({})".format, elementwise),
    st.builds("np.extract({}, {})".format, comparisons, variables),
)
chosen = st.one_of(
    st.sampled_from(["[0, -1, 0]", "[[1, 0], [-2, 1]]", "np.array([2, -1, 2], 'u1')"]),
    st.builds("np.argsort(_sortable({}).ravel()[:5], kind='stable') // 2".format, variables),
)
values = st.one_of(elementwise, elementwise, views, reductions, others, put_together)
statements = st.one_of(
    st.builds("{} = {}".format, variables, values),
    st.builds("{} = {}".format, variables, values),
    st.builds(
        "{} {}= {}".format,
        variables,
        st.sampled_from(["+", "-", "*", "|", "^"]),
        st.one_of(operands, elementwise),
    ),
    st.builds("{0}[{1}] = fit({0}, {2})".format, variables, places, st.one_of(operands, elementwise)),
    st.builds("{}[{}] {}= {}".format, variables, places, st.sampled_from(["+", "-", "*"]), operands),
    st.builds("{}[{}] = {}".format, variables, comparisons, numbers),
    st.builds("{0}[{1}] = fit({0}, {2})".format, variables, chosen, st.one_of(operands, elementwise)),
    st.builds("m = {1}; {0}[m] = {0}[m] {2} 1".format, variables, comparisons, st.sampled_from("+-*")),
    st.builds("{0}[{1}] += 1".format, variables, chosen),
    st.builds("v = {}; v[...] = fit(v, {})".format, views, operands),
    st.builds("{0}[{0}[..., 0] {1} 1] = {2}".format, variables, st.sampled_from(["<", "!="]), numbers),
    st.builds("put_in_order({})".format, variables),
    st.builds(
        "np.{}({}, {}, out={})".format, st.sampled_from(["add", "maximum"]), operands, operands, variables
    ),
    st.builds("if np.any({}): {} = {}".format, comparisons, variables, values),
)


# ---- Operations whose result is unique --------------------------------------------------------------------


def _kind(value):
    return value.dtype.kind if isinstance(value, (np.ndarray, np.generic)) else "b"


def cast(array, dtype):
    """Cast, except floats to integers, which may overflow."""
    return array.astype("float32" if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu" else dtype)


def fit(target, value):
    """Return a value to write to an array: no floats to integers."""
    return 1 if target.dtype.kind in "iu" and _kind(value) == "f" else value


def total(array, **keywords):
    """Sum values whose sum is the same in any order."""
    return (np.max if _kind(array) == "f" else np.sum)(array, **keywords)


def running(array):
    return np.cumsum(array if array.dtype.kind != "f" else array > 0, axis=0)


def _sortable(array):
    """Return an array to sort: not float16, which NumPy 2.4 sorts wrongly on some processors."""
    return array.astype("float32") if array.dtype == np.float16 else array


def in_order(array):
    return np.sort(_sortable(array), axis=-1)


def put_in_order(array):
    if array.dtype != np.float16:
        array.sort()


def rank(array):
    return np.argsort(_sortable(array), axis=-1, kind="stable")


def picked(array, other):
    return array.ravel()[np.argsort(_sortable(other), axis=None, kind="stable") % array.size]


SPACE = {
    "np": np,
    "cast": cast,
    "fit": fit,
    "total": total,
    "running": running,
    "in_order": in_order,
    "put_in_order": put_in_order,
    "rank": rank,
    "picked": picked,
    "_sortable": _sortable,
}


def fits(line, arrays):
    """Run a line in NumPy; return False if NumPy raises."""
    before = {name: value.copy() for name, value in arrays.items()}
    trial = dict(arrays)
    try:
        exec(line, SPACE, trial)
        if all(trial[name].size <= LARGEST for name in NAMES):
            arrays.update({name: trial[name] for name in NAMES})
            return True
    except (TypeError, ValueError, IndexError, OverflowError, AttributeError, ZeroDivisionError):
        pass
    for name, value in before.items():
        if isinstance(value, np.ndarray) and arrays[name].flags.writeable:
            arrays[name][...] = value
    return False


@st.composite
def programs(draw):
    """Draw a program's lines, and the dtype, shape, kind of values and layout of each argument."""
    shapes = st.sampled_from(draw(st.sampled_from(SHAPES)))
    arguments = draw(st.lists(st.tuples(dtypes, shapes, kinds, layouts), min_size=4, max_size=4))
    arrays = dict(zip(NAMES, made(arguments), strict=False))
    lines = ["v4 = v0 + v0", "v5 = v1[...]", "v6 = v2 * 2", "v7 = v3.copy()"]
    with np.errstate(all="ignore"):
        for line in lines:
            exec(line, SPACE, arrays)
        for line in draw(st.lists(statements, min_size=45, max_size=60)):
            if len(lines) < 30 and fits(line, arrays):
                lines.append(line)
    return lines, arguments


def made(arguments):
    """Return new argument arrays."""
    return [
        build(dtype, shape, kind, seed, [layout])
        for seed, (dtype, shape, kind, layout) in enumerate(arguments)
    ]


def check(lines, arguments):
    """Run a program in NumPy and fused; compare its results and its arguments."""
    space = dict(SPACE)
    exec("\n    ".join(["def program(v0, v1, v2, v3):", *lines, f"return {', '.join(NAMES)}"]), space)
    ours, numpys = made(arguments), made(arguments)
    with np.errstate(all="ignore"):
        got, want = pk.fuse(space["program"])(*ours), space["program"](*numpys)
    for mine, theirs in zip([*got, *ours], [*want, *numpys], strict=True):
        assert type(mine) is type(theirs)
        assert_values(np.asarray(mine), np.asarray(theirs), free_zero=True)
    for i, j in itertools.combinations(range(len(NAMES)), 2):
        shares = [np.may_share_memory(results[i], results[j]) for results in (got, want)]
        assert shares[0] == shares[1], f"v{i} and v{j} share memory: {shares[0]}, not {shares[1]}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(programs())
def test_random_programs(engine, program):
    check(*program)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(programs(), st.integers(1, 3))
def test_random_programs_of_defaults(engine, program, count):
    """Some of the arrays are defaults, which calls may write to: small ones are constants of plans."""
    lines, arguments = program
    text = "\n    ".join(["def program(v0, v1, v2, v3):", *lines, f"return {', '.join(NAMES)}"])
    spaces, functions, defaults = [dict(SPACE), dict(SPACE)], [], []
    for space in spaces:
        exec(text, space)
        defaults.append(made(arguments)[4 - count :])
        space["program"].__defaults__ = tuple(defaults[-1])
        functions.append(space["program"])
    functions[0] = pk.fuse(functions[0])
    for _ in range(4):
        ours, numpys = (made(arguments)[: 4 - count] for _ in range(2))
        with np.errstate(all="ignore"):
            status, got, _ = outcome(functions[0], *ours)
            wanted_status, want, _ = outcome(functions[1], *numpys)
        assert (status, type(got)) == (wanted_status, type(want))
        if status == "error":  # with values that an earlier call has written
            return
        for mine, theirs in zip([*got, *ours, *defaults[0]], [*want, *numpys, *defaults[1]], strict=True):
            assert type(mine) is type(theirs)
            assert_values(np.asarray(mine), np.asarray(theirs), free_zero=True)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(programs())
def test_random_programs_of_resident_arrays(program):
    """Run with a fake GPU that makes the smallest array resident, and hides stale host values."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    with pytest.MonkeyPatch.context() as patched, pk.engine("cuda"):
        fake_gpu.put(patched)
        patched.setattr(residency, "MIN_RESIDENT_BYTES", 1)
        check(*program)
