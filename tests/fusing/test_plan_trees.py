"""Calls that branch on computed numbers, and are replayed by the segments of a tree of plans."""

import warnings

import numpy as np
import pytest
from helpers.nested import assert_parts
from helpers.threads import run_in_threads
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.fusing import host_replay
from pycudakit.fusing.execute import plan_tree
from pycudakit.fusing.memory import residency

pytestmark = pytest.mark.usefixtures("really_replayed")
NAMED = ("cpu", "cuda")  # under `auto`, NumPy may be faster


def numbers(size=6000, seed=0):
    return np.random.default_rng(seed).integers(0, 100, size).astype("f8")


def is_replayed():
    return "replayed" in pk.last_call().reason


def tree_of(fused):
    (tree,) = fused._traced.plans.trees()
    return tree


def halved(x):
    turns = 0
    while np.max(x) > 1:
        x = x * 0.5
        turns += 1
    return x, turns


def early(x, y):
    if x[0] > y[0]:
        return x - y, None
    total = x.sum()
    if total > y.sum():
        return y - x, total
    return total, x


def in_place(x, y):
    x[1:-1] = (x[:-2] + x[2:]) % 64
    if np.any(x > 60):
        x += y
        y[::2] = 3
    elif np.all(y > 1):
        y[0] = x[1]
    else:
        x[:] = 0
    return x.max()


def keeps_arrays(x, y):
    first = x * 2
    second = first + y
    if second.max() > 250:
        return first, second[10:20], second
    third = second - x
    if third[0] > third[1]:
        return third, first[::-1].copy()
    return [second, third, second], first.sum()


def bisection(x, y):
    low, high = 0.0, 128.0
    for _ in range(7):
        middle = (low + high) / 2
        if np.mean(x > middle) > np.mean(y > middle):
            low = middle
        else:
            high = middle
    return x * low, high


def clipped(x, y):
    for _ in range(3):
        if not (x.min() < 10 and y.max() > 90):
            break
        x, y = y + 1, x - 1
    return x, y


BODIES = [early, in_place, keeps_arrays, bisection, clipped]


def assert_equal(one, other):
    assert type(one) is type(other)
    np.testing.assert_array_equal(one, other, strict=True)


def assert_same(one, other):
    assert_parts(one, other, assert_equal)


@pytest.mark.parametrize("size", [6000, 40_000])  # a GPU keeps the larger ones between segments
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_each_call_has_numpys_result(engine, body, size):
    check_calls(engine, body, size)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_each_call_on_a_fake_gpu_has_numpys_result(small_gpu, body):
    check_calls("cuda", body, 500)
    assert small_gpu.bytes_down


def check_calls(engine, body, size):
    fused = pk.fuse(body)
    replayed = 0
    for seed in [*range(12), *range(12)]:
        x, y = numbers(size, seed), numbers(size, seed + 50)
        others = x.copy(), y.copy()
        assert_same(fused(x, y), body(*others))
        assert_same((x, y), others)
        replayed += is_replayed()
    if engine in NAMED:
        assert replayed


def scaled_by_turns(x):
    """Halve numbers until they are small. The result depends on the number of turns: each has a path."""
    turns = 0
    while np.max(x) > 1:
        x = x * 0.5
        turns += 1
    return x * turns, turns


def test_loops_of_known_lengths_are_replayed(engine):
    fused = pk.fuse(scaled_by_turns)
    lengths = [3, 7, 5, 7, 1]
    for turn in range(3):
        for length in lengths:
            x = numbers() / 99 * 2.0**length
            assert_same(fused(x), scaled_by_turns(x))
            if turn == 2 and engine in NAMED:
                assert is_replayed()
                assert pk.last_call().breaks[0].text == "while np.max(x) > 1:"
    if engine in NAMED:
        tree = tree_of(fused)
        assert tree.paths == len(set(lengths))
        assert len(list(tree.nodes())) == max(lengths) + 1 + len(set(lengths))
        x = numbers() / 99 * 2.0**4
        assert_same(fused(x), scaled_by_turns(x))
        assert not is_replayed()
        assert_same(fused(x), scaled_by_turns(x))
        assert is_replayed()


def test_the_third_call_with_a_tolerance_is_replayed(engine):
    """The tolerance is an operand: the calls with all tolerances have one tree."""

    def body(x, tolerance):
        while np.max(x) > tolerance:
            x = x * 0.5
        return x

    fused = pk.fuse(body)
    for tolerance in (1.0, 1.5, 1.25, 40.0, 1.1):
        x = numbers()
        assert_same(fused(x, tolerance), body(x, tolerance))
        if tolerance in (1.25, 1.1) and engine in NAMED:
            assert is_replayed()
    if engine in NAMED:
        assert tree_of(fused).paths == 1


def escapes(c, turns):
    z, count = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(turns):
        z = z * z * 0.5 - z * 0.25 + c
        inside = np.abs(z) <= 2
        count += inside
        z = np.where(inside, z, 2.0)
        if not inside.any():
            break
    return count, z


def test_turns_of_a_loop_that_looks_are_not_computed_again(engine):
    """Also if the loop looks at another array than the one that it goes on with."""
    c = numbers(10_000) / 25 - 2
    fused = pk.fuse(escapes)
    lengths = []
    for turns in (4, 4, 20, 20):
        assert_same(fused(c, turns), escapes(c, turns))
        if engine in NAMED and turns == 20:
            plans = fused._traced.plans.plans()
            lengths.append(max(len(each.arguments[0]) for plan in plans for each in plan.requests))
    assert all(length < 60 for length in lengths)


def test_equal_segments_share_their_runs(engine):
    fused = pk.fuse(halved)
    for _ in range(3):
        fused(numbers() * 2.0**30)
    if engine in NAMED:
        nodes = list(tree_of(fused).nodes())
        assert len(nodes) > 30
        assert len({id(node.runs) for node in nodes}) < 8
        assert len({id(node.lowered.plan) for node in nodes}) < 8


def test_memory_is_that_of_one_turn(engine):
    fused = pk.fuse(halved)
    x = numbers(50_000)
    for _ in range(4):
        fused(x * 2.0**30)
    if engine in NAMED:
        assert tree_of(fused).bytes < 6 * x.nbytes


def test_arrays_stay_on_the_device(small_gpu):
    fused = pk.fuse(halved)
    x = numbers(500) * 2.0**20
    for _ in range(3):
        downloaded = small_gpu.bytes_down
        assert_same(fused(x), halved(x))
    assert is_replayed()
    assert small_gpu.bytes_down - downloaded == x.nbytes  # the result


def test_an_unknown_path_leaves_the_arguments(engine):
    """The arguments have their old values when the call is traced after all."""

    def body(x, y):
        x += 1
        y[:5] = 0
        if x.max() > 50:
            x *= 2
        return x.sum()

    fused = pk.fuse(body)
    for limit in (10, 10, 10, 90, 90, 10, 90):
        x, y = np.full(5000, float(limit)), numbers(5000)
        others = x.copy(), y.copy()
        assert_same(fused(x, y), body(*others))
        assert_same((x, y), others)


def test_a_path_that_raises(engine):
    def body(x):
        y = x * 2
        if y.max() > 150:
            raise ValueError("too large")
        return y

    fused = pk.fuse(body)
    small, large = np.full(3000, 1.0), np.full(3000, 99.0)
    for _ in range(5):
        np.testing.assert_array_equal(fused(small), small * 2)
        with pytest.raises(ValueError, match="too large"):
            fused(large)


def test_a_path_that_warns(engine):
    def body(x):
        if x[0] > 50:
            return 1 / (x - x)
        return x + 1

    fused = pk.fuse(body)
    small, large = np.full(3000, 1.0), np.full(3000, 99.0)
    for _ in range(5):
        np.testing.assert_array_equal(fused(small), small + 1)
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            result = fused(large)
        assert np.isinf(result).all()


def test_a_path_that_reads_a_number(engine):
    """That path is traced, and the other one replayed."""

    def body(x):
        if x[0] > 50:
            return x * int(x.max())
        return x + 1

    fused = pk.fuse(body)
    for turn in range(5):
        for value in (1.0, 99.0):
            x = np.full(3000, value)
            np.testing.assert_array_equal(fused(x), body(x))
            if turn > 2 and engine in NAMED:
                assert is_replayed() == (value == 1)


def test_nan_is_not_greater(engine):
    fused = pk.fuse(halved)
    for _ in range(4):
        x = numbers()
        assert_same(fused(x), halved(x))
        x[5] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(fused(x), halved(x))


def test_constants_are_no_branches(engine):
    def body(x):
        offsets = np.arange(4.0)
        return x + 1 if offsets[2] > 1 else x

    fused = pk.fuse(body)
    for _ in range(3):
        np.testing.assert_array_equal(fused(numbers()), numbers() + 1)
    if engine in NAMED:
        assert is_replayed()


def test_generator_expressions_are_replayed(engine):
    def body(x):
        return sum(np.roll(x, shift) * weight for shift, weight in enumerate((3.0, 2.0, 1.0)) if weight)

    fused = pk.fuse(body)
    for seed in range(4):
        np.testing.assert_array_equal(fused(numbers(seed=seed)), body(numbers(seed=seed)))
    if engine in NAMED:
        assert is_replayed()


def test_other_uses_of_numbers_are_not_replayed(engine):
    def body(x):
        if int(x.max()) > 50:
            return x + 1
        return x

    fused = pk.fuse(body)
    for seed in range(4):
        x = numbers(seed=seed)
        np.testing.assert_array_equal(fused(x), body(x))
        assert not is_replayed()


def test_few_paths_are_kept(engine, monkeypatch):
    monkeypatch.setattr(host_replay, "_MAX_PATHS", 3)
    fused = pk.fuse(halved)
    for _ in range(3):
        for length in range(6):
            x = numbers() / 99 * 2.0**length
            assert_same(fused(x), halved(x))
    if engine in NAMED:
        assert tree_of(fused).paths == 3


def test_calls_that_never_repeat_a_path(engine):
    """They are captured less and less often."""

    def body(x, y):
        bits = 0
        for i in range(20):
            bits = 2 * bits + (1 if x[i] > y[i] else 0)
        return x + y, bits

    fused = pk.fuse(body)
    for seed in range(20):
        x, y = numbers(2000, seed), numbers(2000, seed + 99)
        assert_same(fused(x, y), body(x, y))
    assert fused._traced.plans.captured <= 6


def test_a_path_that_does_not_agree_replaces_the_others():
    with pk.engine("cpu"):
        trees = []
        for body in (halved, lambda x: halved(x + 1)):
            fused = pk.fuse(body)
            for _ in range(2):
                fused(numbers())
            trees.append(tree_of(fused))
        tree, other = trees
        path, node = [], other.root
        while node is not None:
            path.append(node.lowered)
            node = node.following.get(node.lowered.outcome)
        tree.add(path, ())
        assert tree.paths == 1
        x = numbers()
        assert_same(tree.replay([x], [x.ctypes.data], ""), halved(x + 1))


def test_unknown_paths_are_tried_less_and_less(engine, monkeypatch):
    """A replay that leaves the tree takes time, and so does a capture."""
    fused, tries = pk.fuse(scaled_by_turns), []
    replay = plan_tree.PlanTree.replay

    def counted(*arguments):
        tries.append(turn)
        return replay(*arguments)

    monkeypatch.setattr(plan_tree.PlanTree, "replay", counted)
    for turn in range(70):
        x = np.full(100, 2.0**turn)
        assert_same(fused(x), scaled_by_turns(x))
    if engine in NAMED:
        assert len(tries) < 16
    x = np.full(100, 2.0)
    for _ in range(70):  # a known one is found again
        assert_same(fused(x), scaled_by_turns(x))
    assert is_replayed() or engine not in NAMED


def test_threads_share_a_tree(engine):
    fused = pk.fuse(halved)

    def work(seed):
        with pk.engine(engine):
            for turn in range(30):
                x = numbers(3000, seed) / 99 * 2.0 ** ((turn * seed) % 5)
                assert_same(fused(x), halved(x))

    run_in_threads(work, range(4))


def test_auto_replays_solvers(monkeypatch):
    """`auto` measures replays beside NumPy, and takes the faster one."""
    from pycudakit._runtime import autotuner as tuning

    monkeypatch.setattr(tuning, "MAX_CAPTURE_SECONDS", 20.0)  # other processes may have the processors
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 10_000)

    def body(u, tolerance):
        change = u.max()
        while change > tolerance:
            new = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]) - 0.01 * np.sin(u[1:-1]) * np.cos(u[1:-1])
            change = np.max(np.abs(new - u[1:-1]))
            u[1:-1] = new
        return u

    fused = pk.fuse(body)
    with pk.engine("auto"):
        for _ in range(12):
            u = numbers(30_000) / 100
            expected = body(u.copy(), 0.01)
            np.testing.assert_allclose(fused(u, 0.01), expected, rtol=1e-9)
    if pk.engines()["cpu"]:
        assert fused._traced.plans.captured


# ---- Random programs -----------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]
variables = st.sampled_from(NAMES)
values = st.one_of(
    st.builds("({} * 3 + {}) % 17".format, variables, variables),
    st.builds("np.where({} > {}, {}, 5.0)".format, variables, variables, variables),
    st.builds("np.minimum({}, {}) + 1".format, variables, variables),
    st.builds("{}.copy()".format, variables),
    st.builds("np.abs({} - {}.max())".format, variables, variables),
    st.builds("np.sort({})[::-1] % 13".format, variables),
    st.builds("{}[picked]".format, variables),
    st.builds("np.median({}) + {}".format, variables, variables),
)
conditions = st.one_of(
    st.builds("{}.max() > {}".format, variables, st.integers(3, 20)),
    st.builds("{}.sum() % 2 == 0".format, variables),
    st.builds("{}[{}] > {}[{}]".format, variables, st.integers(0, 9), variables, st.integers(0, 9)),
    st.builds("np.any({} == {})".format, variables, st.integers(0, 20)),
    st.builds("not {}.min() < 2".format, variables),
)
assignments = st.one_of(
    st.builds("{} = {}".format, variables, values),
    st.builds("{}[1:-1] = {}[2:] + 1".format, variables, variables),
    st.builds("{} += {}[0]".format, variables, variables),
    st.builds("{}[3] = 7".format, variables),
    st.builds("{}[picked[:9]] = {}[:9]".format, variables, variables),
    st.builds("np.add.at({}, picked, 1.0)".format, variables),
).map(lambda text: [text])
returns = st.builds("return {}, {}.sum(), {}[2:7]".format, variables, variables, variables).map(
    lambda text: [text]
)


def _indented(lines):
    return [f"    {line}" for line in lines]


def _compound(blocks):
    branches = st.builds(
        lambda condition, one, other: [f"if {condition}:", *_indented(one), "else:", *_indented(other)],
        conditions,
        blocks,
        blocks,
    )
    loops = st.builds(
        lambda condition, block, count: [
            f"for _ in range({count}):",
            *_indented([f"if {condition}:", "    break", *block]),
        ],
        conditions,
        blocks,
        st.integers(1, 4),
    )
    return st.one_of(branches, loops).flatmap(lambda one: blocks.map(lambda other: [*one, *other]))


simple = st.lists(assignments, min_size=1, max_size=3).map(
    lambda parts: [line for part in parts for line in part]
)
blocks = st.recursive(st.one_of(simple, simple, returns), _compound, max_leaves=8)


START = "c, picked = a + b, np.arange(len(a)) * 7 % len(a)"
programs = given(blocks, st.lists(st.integers(0, 5), min_size=5, max_size=9))


@programs
def test_random_programs(engine, lines, seeds):
    check_program(lines, seeds, 1500)


@pytest.mark.thorough
@pytest.mark.ci
@programs
def test_random_programs_of_large_arrays(engine, lines, seeds):
    check_program(lines, seeds, 9000)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@programs
def test_random_programs_on_a_fake_gpu(small_gpu, lines, seeds):
    """Arrays stay on the GPU from segment to segment, or are copied with each."""
    for min_resident_bytes in (1, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(residency, "MIN_RESIDENT_BYTES", min_resident_bytes)
            check_program(lines, seeds, 500)


def check_program(lines, seeds, size):
    scope = {"np": np}
    text = "\n".join(["def body(a, b):", *_indented([START, *lines, "return a, b, c, c.max()"])])
    exec(text, scope)
    body = scope["body"]
    fused = pk.fuse(body)
    for seed in seeds:
        a, b = (numbers(size, each) % 13 for each in (seed, seed + 6))
        others = a.copy(), b.copy()
        assert_same(fused(a, b), body(*others))
        assert_same((a, b), others)


def test_a_tree_is_bounded_by_its_free_arrays():
    with pk.engine("cpu"):
        fused = pk.fuse(halved)
        for _ in range(5):
            fused(numbers() * 1e6)
        free = [len(arrays) for arrays in tree_of(fused)._free.values()]
        assert free
        assert max(free) <= plan_tree._MAX_FREE
