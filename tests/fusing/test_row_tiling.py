"""Row tiling gives the results of kernels over all rows."""

import warnings

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.processes import python
from helpers.row_tiles import (
    BODIES,
    blocks,
    cut,
    expanded,
    layer_norm,
    nan_left_out,
    nan_of_shares,
    put_gpus,
    same,
    several,
    softmax,
    standardise,
    sums_of_columns,
    two_arguments,
    whole,
)
from helpers.sanitizers import SANITIZED
from helpers.strategies import build
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.fusing.schedule import cpu_tiles

REDUCTIONS = ["sum", "prod", "mean", "std", "var", "any", "all", "count_nonzero"]
REDUCTIONS += ["min", "max", "argmin", "argmax", "ptp"]
DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("body", BODIES)
def test_bodies(engine, small_blocks, body, dtype):
    x = build(dtype, (203, 130), "small", 0, ["C"])
    same(pk.fuse(body)(x), whole(body, x))
    if engine == "cpu":
        assert max(blocks(body, x)) > 1


LENGTHS = [1, 3, 64, 1000, 4097, 40_000]


@pytest.mark.parametrize("length", [1, 64, 4097, *thorough(3, 1000, 40_000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_the_number_of_rows(engine, monkeypatch, dtype, length):
    """Each reduction, of rows of many lengths, of an array and of a fused expression."""
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
    assert len(met) == 1


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


def test_views_of_deferred_arrays_are_views(engine, small_blocks):
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


def test_a_number_of_all_rows_needs_deferred_nodes(engine, small_blocks):
    """A kernel that runs before the tiles, for a scalar that they need, is not tiled."""

    def body(x, y):
        means = y.mean(axis=1).reshape(-1, 1)
        scaled = x / means
        wide = scaled * scaled.mean() * y
        least = wide.min(axis=1, keepdims=True)
        y[:5] = 3
        return least, y

    x, y = (build("float64", (203, 130), "small", seed, ["C"]) + 1 for seed in (0, 1))
    for got, want in zip(pk.fuse(body)(x, y.copy()), body(x, y.copy()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("body", [nan_of_shares, sums_of_columns])
def test_reductions_that_need_other_rows(engine, small_blocks, body):
    """For square arrays, reductions along the first axis have as many elements as there are rows."""
    x = build("float32", (130, 130), "small", 0, ["C"])
    same(pk.fuse(body)(x), whole(body, x))
    for got, want in zip(pk.fuse(body)(x), body(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


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
    lines = str(plan).splitlines()[1:-2]
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
        assert call.seconds == pytest.approx(sum(each.seconds for each in (*call.passes, *call.rest)))
        assert call.chunks == sum(each.chunks for each in call.passes)


def test_progress_is_of_whole_passes(small_blocks):
    x = build("float32", (203, 130), "small", 0, ["C"])
    with pk.engine("cpu", progress=lambda *_: None):
        assert set(blocks(softmax, x)) == {1}


def test_interrupted(engine, small_blocks, monkeypatch):
    x, run = build("float32", (203, 130), "small", 0, ["C"]), cpu_tiles.run

    def interrupted(*arguments, **named):
        run(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(cpu_tiles, "run", interrupted)
    before = x.copy()
    if engine != "cuda":
        with pytest.raises(KeyboardInterrupt):
            pk.fuse(softmax)(x)
    monkeypatch.undo()
    same(x, before)
    same(pk.fuse(softmax)(x), whole(softmax, x))


SIGNAL = """
import signal, time
import numpy as np
import pycudakit as pk

@pk.fuse
def long(x):
    powers = x
    for _ in range(400):
        powers = np.exp(-powers)
    return powers / powers.sum(axis=1, keepdims=True)

def alarm(*_):
    raise TimeoutError("enough")

x = np.ones((2000, 2000), np.float32)
pk.set_engine("cpu")
began = time.perf_counter()
want = long(x)
all = time.perf_counter() - began
print(max(each.blocks for each in long.explain(x).passes) > 1)
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, all / 10)
began = time.perf_counter()
try:
    long(x)
except TimeoutError:
    print(time.perf_counter() - began < all / 2 + 0.1)
print(bool((long(x) == want).all()))
"""


@pytest.mark.thorough
@pytest.mark.alone
def test_a_signal_ends_the_blocks():
    assert python(SIGNAL).split() == ["True"] * 3


def test_small_or_long_rows_are_not_cut():
    with pk.engine("cpu"):
        assert set(blocks(softmax, np.ones((300, 200), np.float32))) == {1}
        assert set(blocks(softmax, np.ones((3, 4_000_000), np.float32))) == {1}
        assert min(blocks(softmax, np.ones((4000, 4000), np.float32))) > 1


# ---- On a device that cannot hold the arrays -----------------------------------------------------------


@pytest.mark.parametrize("body", [nan_of_shares, sums_of_columns])
def test_reductions_that_need_other_rows_on_a_device(small_gpu, body):
    x = build("float32", (130, 130), "small", 0, ["C"])
    same(pk.fuse(body)(x), whole(body, x))


@pytest.mark.parametrize("body", [*BODIES, nan_left_out])
def test_arrays_that_do_not_fit_a_device(small_gpu, body):
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
    printed = python(BUDGET, env={"PYCUDAKIT_PLAN_MEMORY": "64M"})
    assert printed.split() == ["True"] * 5


# ---- Random programs ---------------------------------------------------------------------------------------

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

    with pytest.MonkeyPatch.context() as patched, pk.engine("cuda"):
        fake_gpu.put(patched)  # first, since the untiled run names its engine
        check_program(program, shape, lambda patched: put_gpus(patched, size=1 << 10, budget=10_000))
