"""Passes over the same rows that run block of rows by block of rows: what comes out is what all rows give."""

import warnings

import numpy as np
import pytest
from helpers import stand_in_gpu
from helpers.processes import python
from helpers.sanitized import SANITIZED
from helpers.strategies import assert_values, build
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._calls import asked
from pycudakit.fusing import device, rows

REDUCTIONS = ["sum", "prod", "mean", "std", "var", "any", "all", "count_nonzero"]
REDUCTIONS += ["min", "max", "argmin", "argmax", "ptp"]
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut whatever can be cut, in blocks of some KiB."""
    cut(monkeypatch)


def cut(monkeypatch, size=1 << 14):
    for name, value in {"_BLOCK": size, "_BLOCK_A_THREAD": 0, "_LEAST": 0}.items():
        monkeypatch.setattr(rows, name, value)
    monkeypatch.setattr(rows, "_BLOCK_THERE", size)
    monkeypatch.setattr(rows, "_is_quicker", lambda _: True)


def whole(function, *arguments):
    """Return what a function gives where nothing is cut."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows.Rows, "_run_in_blocks", lambda *_: False)
        patched.setattr(rows.Rows, "is_small_beside_rows", lambda *_: False)
        return pk.fuse(function)(*arguments)


def same(ours, theirs):
    """Compare values to the bit, NaN for NaN; under `auto`, small passes may be NumPy's, to other bits."""
    assert type(ours) is type(theirs)
    if isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif asked.current() == "auto" and ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-3 if ours.dtype == np.float16 else 1e-5)
    else:
        assert ours.strides == theirs.strides
        assert_values(np.asarray(ours), np.asarray(theirs))


def blocks(function, *arguments):
    return [each.blocks for each in pk.fuse(function).explain(*arguments).passes]


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * 1.5 + 0.5


def standardise(x):
    return (x - x.mean(axis=1)[:, None]) / x.std(axis=1)[:, None]


def unit(x):
    return x / np.sqrt((x * x).sum(axis=1))[:, None]


def most_likely(x):
    return softmax(x).argmax(axis=1)


def several(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    total = powers.sum(axis=1)
    return powers, powers / total[:, None], total, np.log(total)


def of_others(x):
    y = (x - x.mean()) / (x.std() + np.arange(x.shape[1], dtype=x.dtype))
    return y - y.min(axis=1, keepdims=True) * y.max(axis=1, keepdims=True)


def nan_left_out(x):
    return (x - np.nanmean(x, axis=1, keepdims=True)) / np.nanstd(x, axis=1, keepdims=True)


def expanded(x):
    least, length = np.expand_dims(x.min(axis=1), 1), x.max(axis=1).reshape(-1, 1)
    return (x - least) / (length - least)


def two_arguments(x, y):
    z = x * np.cos(y)
    return z - z.mean(axis=1, keepdims=True), (z * z).sum(axis=1)


BODIES = [softmax, layer_norm, standardise, unit, most_likely, several, of_others, expanded]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("body", BODIES)
def test_bodies(engine, small_blocks, body, dtype):
    x = build(dtype, (203, 130), "small", 0, ["C"])
    same(pk.fuse(body)(x), whole(body, x))
    if engine == "cpu":
        assert max(blocks(body, x)) > 1


LENGTHS = [1, 3, 64, 1000, 4097, 40_000]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_how_many_there_are(engine, monkeypatch, dtype, length):
    """Each reduction, of rows of whatever length, alone and of what is computed on the way."""
    if SANITIZED and (DTYPES.index(dtype) + LENGTHS.index(length)) % 3:
        pytest.skip("sanitizers take long for each length of each type")
    cut(monkeypatch, 1000 + 12 * length * np.dtype(dtype).itemsize)
    x = build(dtype, (max(29, 12_000 // length), length), "small", 1, ["C"])
    for name in REDUCTIONS:
        if name == "ptp" and dtype == "bool":
            continue

        def body(x, name=name):
            of = getattr(np, name)(x, axis=1, keepdims=True)
            y = x * of if x.dtype.kind == "b" else x - of
            return of, y, getattr(np, name)(y, axis=1)

        if dtype == "bool" and name not in ("any", "all", "min", "max"):
            body = lambda x, name=name: x + getattr(np, name)(x, axis=1, keepdims=True)  # noqa: E731
        with np.errstate(all="ignore"):
            same(pk.fuse(body)(x), whole(body, x))
            assert engine != "cpu" or max(blocks(body, x)) > 1


@pytest.mark.parametrize("layout", ["C", "F", "step", "reversed", "swapped"])
@pytest.mark.parametrize("body", [softmax, standardise, several])
def test_layouts(engine, small_blocks, body, layout):
    x = build("float32", (150, 120), "small", 2, [layout])
    same(pk.fuse(body)(x), whole(body, x))


@pytest.mark.parametrize("body", [softmax, layer_norm, standardise, several, nan_left_out, expanded])
def test_warnings(engine, small_blocks, body):
    x = build("float32", (150, 120), "special", 3, ["C"])
    outcomes = []
    for run in (pk.fuse(body), lambda x: whole(body, x)):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            outcomes.append((run(x), sorted({str(each.message) for each in met})))
    same(outcomes[0][0], outcomes[1][0])
    assert outcomes[0][1] == outcomes[1][1] != []


def test_a_pass_warns_once_of_all_blocks(small_blocks):
    x = np.zeros((200, 120), np.float32)
    x[::7] = np.inf
    with pk.engine("cpu"), warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        pk.fuse(softmax)(x)
    assert [str(each.message) for each in met] == ["invalid value encountered in subtract"] * len(met)
    assert len(met) == 2  # of the pass that subtracts, and of the sum's


@pytest.mark.parametrize("body", [softmax, standardise])
def test_errors_are_raised_as_asked(engine, small_blocks, body):
    x = np.full((200, 120), np.inf, np.float32)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="subtract"):
        pk.fuse(body)(x)


def test_three_dimensions(engine, small_blocks):
    def body(x, weights):
        y = x * weights
        y = y - y.mean(axis=(1, 2), keepdims=True)
        return y / np.abs(y).max(axis=2)[:, :, None], y.sum(axis=-1)

    x, weights = (
        build("float32", (40, 30, 21), "small", 4, ["C"]),
        build("float32", (30, 21), "small", 5, ["F"]),
    )
    with np.errstate(all="ignore"):
        same(pk.fuse(body)(x, weights), whole(body, x, weights))


def test_two_arguments(engine, small_blocks):
    x, y = (build("float64", (150, 120), "small", seed, ["C"]) for seed in (6, 7))
    same(pk.fuse(two_arguments)(x, y), whole(two_arguments, x, y))
    same(pk.fuse(two_arguments)(x[::2], y[75:]), whole(two_arguments, x[::2], y[75:]))
    same(pk.fuse(two_arguments)(x[:, 1:], x[:, :-1]), whole(two_arguments, x[:, 1:], x[:, :-1]))


def test_views_of_what_waits_are_views(engine, small_blocks):
    def body(x):
        mean = x.mean(axis=1)
        column = mean[:, None]
        least = x.min(axis=1)
        line = least.reshape(-1, 1)
        line += 1
        mean *= 2
        y = x - column + line
        mean[...] = 0
        return y, mean, column, least, line

    x = build("float32", (150, 120), "small", 8, ["C"])
    same(pk.fuse(body)(x), whole(body, x))
    results = pk.fuse(body)(x)
    assert np.shares_memory(results[1], results[2])
    assert np.shares_memory(results[3], results[4])


def test_arguments_that_are_written_later(engine, small_blocks):
    def body(x):
        scaled = x / x.max(axis=1)[:, None]
        x[...] = 0
        x[:, 0] = scaled.sum(axis=1)
        return scaled

    ours, theirs = (build("float64", (150, 120), "small", 9, ["C"]) for _ in range(2))
    with np.errstate(all="ignore"):
        same(pk.fuse(body)(ours), whole(body, theirs))
    same(ours, theirs)


def test_explain_tells(small_blocks):
    x = build("float32", (203, 130), "small", 0, ["C"])
    with pk.engine("cpu"):
        plan = pk.fuse(softmax).explain(x)
    lines = str(plan).splitlines()[1:]
    assert [line.split(" (")[0].split(". ")[1] for line in lines] == [
        *("t1 <- max of x", "t2 <- subtract, exp of x, t1"),
        *("t3 <- sum of t2", "t4 <- divide of t2, t3"),
    ]
    assert all(line.endswith(f", in {plan.passes[0].blocks} blocks of rows)") for line in lines)
    assert [each.shape for each in plan.passes] == [(203, 130)] * 4


def test_one_record(engine, small_blocks):
    x = build("float32", (203, 130), "small", 0, ["C"])
    with pk.profile() as profile:
        pk.fuse(softmax)(x)
    (call,) = profile.calls
    assert call == pk.last_call()
    assert call.function == "softmax"
    if engine == "cpu":
        names = [each.function for each in call.passes]
        assert names == ["max", "subtract, exp", "sum", "divide"]
        assert call.seconds == pytest.approx(sum(each.seconds for each in call.passes))
        assert call.chunks == sum(each.chunks for each in call.passes)


def test_progress_is_of_whole_passes(small_blocks):
    x = build("float32", (203, 130), "small", 0, ["C"])
    with pk.engine("cpu", progress=lambda *_: None):
        assert set(blocks(softmax, x)) == {1}


def test_interrupted(engine, small_blocks, monkeypatch):
    x, calls = build("float32", (203, 130), "small", 0, ["C"]), []
    run = rows.Ready.run

    def interrupted(self):
        calls.append(self)
        if len(calls) == 7:
            raise KeyboardInterrupt
        run(self)

    monkeypatch.setattr(rows.Ready, "run", interrupted)
    before = x.copy()
    if engine != "cuda":
        with pytest.raises(KeyboardInterrupt):
            pk.fuse(softmax)(x)
    same(x, before)
    same(pk.fuse(softmax)(x), whole(softmax, x))


def test_small_or_long_rows_are_not_cut():
    with pk.engine("cpu"):
        assert set(blocks(softmax, np.ones((300, 200), np.float32))) == {1}
        assert set(blocks(softmax, np.ones((3, 4_000_000), np.float32))) == {1}
        assert min(blocks(softmax, np.ones((4000, 4000), np.float32))) > 1


# ---- On a device, where the whole does not fit ---------------------------------------------------------


@pytest.fixture
def small_gpu(monkeypatch):
    """A GPU that is none, with little memory."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    gpu = stand_in_gpu.put(monkeypatch)
    monkeypatch.setattr(device, "LEAST", 1)
    monkeypatch.setattr(device.Scope, "budget", lambda _: 40_000)
    cut(monkeypatch)
    with pk.engine("cuda"):
        yield gpu


@pytest.mark.parametrize("body", [*BODIES, nan_left_out])
def test_what_does_not_fit_a_device(small_gpu, body):
    x = build("float32", (203, 130), "small", 0, ["C"])
    want = whole(body, x)
    plan = pk.fuse(body).explain(x)
    same(pk.fuse(body)(x), want)
    assert max(each.blocks for each in plan.passes) > 1 or body is nan_left_out
    small = build("float32", (20, 130), "small", 0, ["C"])
    assert {each.blocks for each in pk.fuse(body).explain(small).passes} == {1}


def test_views_of_one_array_on_a_device(small_gpu):
    x = build("float64", (150, 120), "small", 6, ["C"])
    for a, b in ((x[:, 1:], x[:, :-1]), (x[:75], x[75:]), (x[::2], x[1::2]), (x[:-1], x[1:])):
        same(pk.fuse(two_arguments)(a, b), whole(two_arguments, a, b))


BUDGET = """
import numpy as np
import pycudakit as pk
def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
x = np.random.default_rng(0).standard_normal((6000, 5000)).astype(np.float32)
pk.set_engine("cuda")
pk.fuse(softmax)(x[:100])  # from here on the budget is known
ours = pk.fuse(softmax)(x)
call = pk.last_call()
print(call.bytes_up <= 1.1 * x.nbytes, call.bytes_down <= 1.1 * x.nbytes)
print(max(each.blocks for each in pk.fuse(softmax).explain(x).passes) > 1)
powers = pk.exp(pk.subtract(x, pk.max(x, axis=1, keepdims=True)))
theirs = pk.divide(powers, pk.sum(powers, axis=1, keepdims=True))
print(ours.tobytes() == theirs.tobytes(), pk.memory_info().plan_bytes <= 64 << 20)
"""


def test_a_gpu_with_64_mib_for_plans(engine):
    if engine != "cuda":
        pytest.skip("nothing is kept")
    printed = python(BUDGET, env={"PYCUDAKIT_PLAN_MEMORY": "64M"}, timeout=120)
    assert printed.split() == ["True"] * 5


WRITTEN_THERE = """
import numpy as np
import pycudakit as pk
def powers(x):
    return np.exp(x - x.max(axis=1, keepdims=True))
def into_itself(x, out):
    of_x = powers(x)
    x[...] = of_x / of_x.sum(axis=1, keepdims=True)
def into_another(x, out):
    of_x = powers(x)
    np.divide(of_x, of_x.sum(axis=1, keepdims=True), out=out)
pk.set_engine("cuda")
x = np.random.default_rng(0).standard_normal((6000, 5000)).astype(np.float32)
theirs = pk.exp(pk.subtract(x, pk.max(x, axis=1, keepdims=True)))
theirs = pk.divide(theirs, pk.sum(theirs, axis=1, keepdims=True))
for function in (into_itself, into_another):
    pk.fuse(function)(x[:100].copy(), x[:100].copy())  # from here on the budget is known
    ours, out = x.copy(), np.zeros_like(x)
    pk.fuse(function)(ours, out)
    call = pk.last_call()
    print((ours if function is into_itself else out).tobytes() == theirs.tobytes())
    print(max(each.blocks for each in pk.fuse(function).explain(x, out).passes) > 1)
    print(call.bytes_up <= 1.2 * x.nbytes, pk.memory_info().plan_bytes <= 64 << 20)
"""


def test_writes_on_a_gpu_with_64_mib_for_plans(engine):
    if engine != "cuda":
        pytest.skip("nothing is kept")
    printed = python(WRITTEN_THERE, env={"PYCUDAKIT_PLAN_MEMORY": "64M"}, timeout=120)
    assert printed.split() == ["True"] * 8


# ---- Programs that hypothesis writes ---------------------------------------------------------------------

NAMES = [f"v{n}" for n in range(6)]
variables = st.sampled_from(NAMES)
reduced = st.builds(
    "np.{}({}, axis={}, keepdims=True)".format,
    st.sampled_from(["max", "min", "sum", "mean", "std", "argmax", "any", "nanmax"]),
    variables,
    st.sampled_from(["1", "-1", "1", "0", "None"]),
)
columns = st.builds(
    "np.{}({}, axis=1){}".format,
    st.sampled_from(["max", "min", "sum", "mean", "var", "count_nonzero"]),
    variables,
    st.sampled_from(["[:, None]", ".reshape(-1, 1)", "[..., np.newaxis]"]),
)
rooted = st.builds(
    "np.{}({})".format, st.sampled_from(["sqrt", "abs", "exp", "square"]), st.one_of(reduced, columns)
)
operands = st.one_of(variables, variables, reduced, columns, rooted, st.sampled_from(["2", "0.5"]))
lines = st.one_of(
    st.builds("{} = {} {} {}".format, variables, variables, st.sampled_from(["+", "-", "*", "/"]), operands),
    st.builds("{} = np.exp({} - {})".format, variables, variables, operands),
    st.builds("{} = np.where({} > {}, {}, {})".format, variables, variables, operands, variables, operands),
    st.builds("{} -= {}".format, variables, operands),
    st.builds("{}[:, 1:] = {}[:, :-1]".format, variables, variables),
    st.builds("{}[...] = np.exp({} - {}) / {}".format, variables, variables, operands, operands),
    st.builds("np.divide({}, {}, out={})".format, variables, operands, variables),
    st.builds("{}[3:] = {}[3:] - {}[3:].mean(axis=1)[:, None]".format, variables, variables, variables),
    st.builds(
        "m = {}; {} = {} - m; m += 1; {} = {} * m".format, columns, variables, variables, variables, variables
    ),
    st.builds("{} = {} + ({}).sum(axis=1)[:, None].T[0][:, None]".format, variables, variables, variables),
)


def check_program(program, shape, put_in_place):
    space = {"np": np}
    returned = "return v0, v1, v2, v3, v4, v5"
    given_names = "v3, v4, v5 = v0 + 1.0, v1 * 2.0, v2 - v0"
    exec("\n    ".join(["def program(v0, v1, v2):", given_names, *program, returned]), space)

    def arguments():
        return [build("float64", shape, "small", seed, ["C"]) for seed in range(3)]

    ours, theirs = arguments(), arguments()
    with pytest.MonkeyPatch.context() as patched, np.errstate(all="ignore"):
        want = whole(space["program"], *theirs)
        put_in_place(patched)
        got = pk.fuse(space["program"])(*ours)
    same(got, want)
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


programs = st.lists(lines, min_size=3, max_size=12)
shapes = st.sampled_from([(40, 30), (25, 1), (2, 70), (1, 9)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(programs, shapes)
def test_random_programs(engine, program, shape):
    check_program(program, shape, lambda patched: cut(patched, 1 << 10))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(programs, shapes)
def test_random_programs_on_a_device(program, shape):
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")

    def put_in_place(patched):
        stand_in_gpu.put(patched)
        patched.setattr(device, "LEAST", 1)
        patched.setattr(device.Scope, "budget", lambda _: 10_000)
        cut(patched, 1 << 10)

    with pytest.MonkeyPatch.context() as patched, pk.engine("cuda"):
        stand_in_gpu.put(patched)  # before, too, since who computes the whole is asked for by name
        check_program(program, shape, put_in_place)


# ---- What is written into arrays that there are ----------------------------------------------------------


def into_itself(x, y):
    x[...] = softmax(x)


def into_another(x, y):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.divide(powers, powers.sum(axis=1, keepdims=True), out=y)


def in_place(x, y):
    x -= x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x * x).sum(axis=1))[:, None] + 1


def some_columns(x, y):
    x[:, 10:] = softmax(x[:, 10:])
    y[:, :50] = softmax(x)[:, :50] + y[:, 50:100]


def some_rows(x, y):
    x[20:] = softmax(x[20:]) * y[20:, :1]


def of_what_was_there(x, y):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    total = powers.sum(axis=1)
    x[...] = powers / total[:, None]
    y[:, 0] = total
    return powers, total, x * 2


def of_a_view_beside(x, y):
    least = x[:, 1:].min(axis=1, keepdims=True)
    x[:, 1:] = np.exp(x[:, :-1] - least) / np.exp(x[:, 1:] - least).sum(axis=1, keepdims=True)


def of_other_rows_of_it(x, y):
    x[...] = softmax(x - x[::-1])
    y[1:] = softmax(y[:-1])


def of_one_row_of_it(x, y):
    x[...] = softmax(x * x[3])


def written_twice(x, y):
    z = softmax(x)
    x[...] = z
    x[...] = softmax(x + z)
    y[...] = z
    return z


def summed_later(x, y):
    z = softmax(x)
    total = z.sum(axis=1)
    x[...] = z
    return total


def of_another_type(x, y):
    x[...] = softmax(x.astype(np.float64 if x.dtype == np.float32 else np.float32))


WRITTEN = [into_itself, into_another, in_place, some_columns, some_rows, of_what_was_there, of_a_view_beside]
WRITTEN += [of_other_rows_of_it, of_one_row_of_it, written_twice, summed_later, of_another_type]
CUT = [into_itself, into_another, in_place, some_columns, some_rows, of_what_was_there, written_twice]


def two(dtype="float32", layout="C"):
    return [build(dtype, (203, 130), "small", seed, [layout]) for seed in (10, 11)]


def same_as_whole(body, layout="C", dtype="float32"):
    ours, theirs, numpys = two(dtype, layout), two(dtype, layout), two(dtype, layout)
    got, want, right = pk.fuse(body)(*ours), whole(body, *theirs), body(*numpys)
    got, want, right = (each if type(each) is tuple else (each,) for each in (got, want, right))
    for one, other, third in zip((*got, *ours), (*want, *theirs), (*right, *numpys), strict=True):
        if third is not None:
            same(one, other)
            np.testing.assert_allclose(one, third, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["C", "F", "step", "reversed"])
@pytest.mark.parametrize("body", WRITTEN)
def test_writes(engine, small_blocks, body, layout):
    same_as_whole(body, layout)


@pytest.mark.parametrize("body", WRITTEN)
def test_what_is_cut_of_writes(small_blocks, body):
    with pk.engine("cpu"):
        plan = pk.fuse(body).explain(*two())
    last = [each for each in plan.passes if set(each.writes) & {"x", "y"}]
    assert (max(each.blocks for each in last) > 1) == (body in CUT), str(plan)


def test_a_view_of_two_arguments(engine, small_blocks):
    """One memory, in which the rows of both do not lie alike."""
    base = build("float32", (300, 130), "small", 12, ["C"])
    for places in (
        (slice(0, 203), slice(1, 204)),
        (slice(0, 150), slice(150, None)),
        (slice(None), slice(None)),
    ):
        ours, theirs = base.copy(), base.copy()

        def body(x, y):
            y[...] = softmax(x)

        pk.fuse(body)(*(ours[place] for place in places))
        whole(body, *(theirs[place] for place in places))
        same(ours, theirs)


@pytest.mark.parametrize("body", WRITTEN)
def test_writes_on_a_device(small_gpu, body):
    same_as_whole(body)


@pytest.mark.parametrize("body", [into_itself, into_another])
def test_what_is_written_comes_down_once(small_gpu, body):
    """From its blocks' homes, if it is read; else with the pass."""
    x, y = two()
    pk.fuse(body)(x, y)
    expected = x.nbytes if body is into_itself else 0
    assert small_gpu.bytes_down == pytest.approx(expected, abs=0.05 * x.nbytes)
    plan = pk.fuse(body).explain(x, y)
    assert max(each.blocks for each in plan.passes) > 1


def test_what_a_reduction_had_computed_is_read_where_it_is(small_gpu):
    """It was computed again with what it was asked for with, and read where it had been."""

    def body(x):
        y = x + 1.0
        ones, total = np.exp(x - x), x + y.sum(axis=1)[:, None]
        most = x + np.max(y, axis=1, keepdims=True)
        x -= y
        return y, ones, total, most

    ours, theirs = (build("float64", (40, 30), "small", 13, ["C"]) for _ in range(2))
    same(pk.fuse(body)(ours), body(theirs))
    same(ours, theirs)


@pytest.mark.parametrize("body", [into_itself, into_another])
def test_a_failure_halfway(small_gpu, monkeypatch, body):
    """What was written is told of, and only whole rows were."""
    ours, theirs, before = two(), two(), two()
    whole(body, *theirs)
    run, calls = rows.Ready.run, []

    def fail(self):
        calls.append(self)
        if len(calls) == 11:
            raise pk.errors.DeviceError("it fell off the bus")
        run(self)

    monkeypatch.setattr(rows.Ready, "run", fail)
    text = f"it fell off the bus; {body.__name__} had begun to write to its arguments"
    with pytest.raises(pk.errors.DeviceError, match=text):
        pk.fuse(body)(*ours)
    written = 0
    for mine, done, old in zip(ours, theirs, before, strict=True):
        for row, new_row, old_row in zip(mine, done, old, strict=True):
            assert np.array_equal(row, new_row) or np.array_equal(row, old_row)
            written += not np.array_equal(row, old_row)
    assert 0 < written < len(ours[0])


def test_a_failure_before_anything_is_written(small_gpu, monkeypatch):
    def fail(_):
        raise pk.errors.DeviceError("it fell off the bus")

    monkeypatch.setattr(rows.Ready, "run", fail)
    with pytest.raises(pk.errors.DeviceError, match=r"bus$"):
        pk.fuse(softmax)(two()[0])
