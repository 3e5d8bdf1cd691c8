"""The analysis of bytecode: its table of opcodes, and which instructions it calls risky."""

import dis
import functools
import itertools
import os
import pathlib
import re
import sys

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.fusing.bytecode.opcodes import RULE_OF, Instruction
from pycudakit.fusing.bytecode.step import Step
from pycudakit.fusing.bytecode.value_kinds import Basic, join
from pycudakit.fusing.function_analysis import analyse

# Opcodes of Python 3.10 to 3.14, without those that only a running interpreter puts in place of others.
_OPCODES_3_14 = """BINARY_OP BINARY_SLICE BUILD_INTERPOLATION BUILD_LIST BUILD_MAP BUILD_SET BUILD_SLICE
BUILD_STRING BUILD_TEMPLATE BUILD_TUPLE CACHE CALL CALL_FUNCTION_EX CALL_INTRINSIC_1 CALL_INTRINSIC_2 CALL_KW
CHECK_EG_MATCH CHECK_EXC_MATCH CLEANUP_THROW COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY COPY_FREE_VARS
DELETE_ATTR DELETE_DEREF DELETE_FAST DELETE_GLOBAL DELETE_NAME DELETE_SUBSCR DICT_MERGE DICT_UPDATE
END_ASYNC_FOR END_FOR END_SEND ENTER_EXECUTOR EXIT_INIT_CHECK EXTENDED_ARG FORMAT_SIMPLE FORMAT_WITH_SPEC
FOR_ITER GET_AITER GET_ANEXT GET_AWAITABLE GET_ITER GET_LEN GET_YIELD_FROM_ITER IMPORT_FROM IMPORT_NAME
INTERPRETER_EXIT IS_OP JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD LIST_APPEND LIST_EXTEND
LOAD_ATTR LOAD_BUILD_CLASS LOAD_COMMON_CONSTANT LOAD_CONST LOAD_DEREF LOAD_FAST LOAD_FAST_AND_CLEAR
LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST
LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_GLOBAL LOAD_LOCALS LOAD_NAME LOAD_SMALL_INT
LOAD_SPECIAL LOAD_SUPER_ATTR MAKE_CELL MAKE_FUNCTION MAP_ADD MATCH_CLASS MATCH_KEYS MATCH_MAPPING
MATCH_SEQUENCE NOP NOT_TAKEN POP_EXCEPT POP_ITER POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
POP_JUMP_IF_TRUE POP_TOP PUSH_EXC_INFO PUSH_NULL RAISE_VARARGS RERAISE RESERVED RESUME RETURN_GENERATOR
RETURN_VALUE SEND SETUP_ANNOTATIONS SET_ADD SET_FUNCTION_ATTRIBUTE SET_UPDATE STORE_ATTR STORE_DEREF
STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_GLOBAL STORE_NAME STORE_SLICE STORE_SUBSCR SWAP
TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNPACK_EX UNPACK_SEQUENCE WITH_EXCEPT_START YIELD_VALUE"""


def test_the_order_of_joins_does_not_matter():
    for kinds in itertools.product([kind for kind in Basic if kind is not Basic.NULL], repeat=3):
        joined = {join(join(one, other), third) for one, other, third in itertools.permutations(kinds)}
        assert len(joined) == 1, kinds


class Deceiver:
    """An object that says what it is asked for, and counts."""

    asked = 0

    @property
    def __class__(self):
        Deceiver.asked += 1
        return np.float64


def test_objects_are_not_asked_for_their_class():
    assert analyse(lambda x, other: (x * 2, other), (np.ones(3), Deceiver()), {}).codes
    assert Deceiver.asked == 0


def test_every_opcode_has_a_rule():
    here = {name for name in dis.opmap if not name.startswith("INSTRUMENTED_")}
    assert not sorted((here | set(_OPCODES_3_14.split())) - RULE_OF.keys())


def test_every_rule_is_implemented():
    rules = set(RULE_OF.values()) - {"unanalysed"}
    assert not [rule for rule in rules if not hasattr(Step, f"_do_{rule}")]


def test_rotations_of_the_stack():  # of Python 3.10
    for names, moved in [("ROT_TWO", "acb"), ("ROT_THREE", "cab"), ("ROT_N", "cab")]:
        step = Step(None)
        step.stack = list("abc")
        step._do_rotate(Instruction("rotate", names, 3, None, 0, 2, 1, ""))
        assert "".join(step.stack) == moved


def pure_arithmetic(x):
    y = x * 2 + 1
    y[1:] -= np.sqrt(x)[:-1]
    for n in range(3):
        y = y + n * x.mean()
    return y if y.ndim == 1 else None


def local_containers(x):
    parts = [x * n for n in range(3)]
    named = {"a": x, "b": x + 1}
    parts.append(named["a"] * 2)
    for name, part in named.items():
        parts += [part, part * len(name)]
    first, *rest = parts
    rest[0] = first
    return sum(rest), f"{len(rest)}"


def closures(x):
    factor = 3.0

    def scaled(y, by=2):
        return y * by * factor

    minus_one = lambda z: z - 1  # noqa: E731
    return scaled(x) + scaled(x, by=4) + minus_one(x)


def handlers(x):
    try:
        with np.errstate(all="ignore"):
            y = np.log(x)
    except (ValueError, ZeroDivisionError) as error:
        raise RuntimeError("no logarithm") from error
    finally:
        x = x + 1
    while x.ndim > 1:
        x = x[0]
    return y if x is not y else x


def keywords(x):
    return np.sum(x, axis=0, keepdims=True) + helper(x, factor=2) + x.mean(axis=0)


def helper(x, *, factor=1):
    return x * factor


def methods_in_a_loop(x):
    x = x[:40].reshape(20, 2)
    for _ in range(3):
        distances = x[:, None] - x[None]
        weights = (distances**2).sum(-1) + np.eye(len(x))
        x = x + (weights[:, :, None] * distances).sum(1)
    return x


def bound_in_a_loop(x):
    for _ in range(3):
        y = np.ones(3) @ np.ones((3, 3))
        z = y * 2 + x[:3]
    return (y @ z) / (z @ z)


def lists_in_lists(x):
    first = [1.0]
    first.append(x[0])
    sums = np.cumsum(np.concatenate([first, x]))
    return np.concatenate([[0.0], sums[2:], [x.max()]])


@pytest.mark.parametrize(
    "function",
    [
        pure_arithmetic,
        local_containers,
        closures,
        handlers,
        keywords,
        methods_in_a_loop,
        lists_in_lists,
        bound_in_a_loop,
    ],
)
def test_functions_without_a_risky_instruction(function):
    fused = pk.fuse(function)
    x = np.linspace(1, 2, 20_000)
    with pk.engine("cpu"):
        fused(x)
    (analysis,) = fused._traced.analyses
    assert not analysis.unanalysed
    assert [risk.reason for risk in analysis.risks] == []


def blocks(x, count=3):
    for n in range(count):
        yield x * n


def all_blocks(x):
    yield x
    yield from blocks(x)


def generators(x):
    total = sum(x * n for n in range(3)) + sum(blocks(x, count=2))
    for block in all_blocks(x):
        total += block
    return total, [part - 1 for part in blocks(x)]


def partials(x):
    doubled = functools.partial(helper, factor=2)
    return doubled(x) + KEPT_PARTIAL(x) + np.add(x, 1)


def matched(x, shape=(2, 3)):
    options = {"scale": 2.0}
    match shape:
        case (2, rows) if rows > 1:
            x = x * rows
        case [first, *_]:
            x = x + first
        case _:
            pass
    match x:
        case np.ndarray(ndim=1):
            x = x - 1
    match options:
        case {"scale": float(scale), **rest} if not rest:
            x = x * scale
    return x


def counts_calls(x):
    global CALLS  # noqa: PLW0603
    CALLS += 1
    return x * 2 + CALLS


KEPT_PARTIAL = functools.partial(helper, factor=3)
CALLS = 0


@pytest.mark.parametrize("function", [generators, partials, matched, counts_calls])
def test_generators_partials_patterns_and_globals_are_analysed(function, monkeypatch):
    fused, x = pk.fuse(function), np.linspace(1, 2, 20_000)
    for _ in range(2):
        results = []
        for run in (fused, function):
            monkeypatch.setitem(globals(), "CALLS", 5)
            with pk.engine("cpu"):
                result = run(x)
            results.append((*result, CALLS) if type(result) is tuple else (result, CALLS))
        for mine, numpys in zip(*results, strict=True):
            np.testing.assert_array_equal(mine, numpys)
    (analysis,) = fused._traced.analyses
    assert not analysis.unanalysed
    assert [risk.reason for risk in analysis.risks] == []


def test_launches_of_kernels_are_not_risky():
    module = pk.SourceModule("__global__ void bump(float *x, int n) { x[n - 1] += 1; }")
    bump = module.get_function("bump")

    def launches():
        y = np.ones(3, np.float32)
        bump.launch(3, pk.InOut(y), 3)
        module.get_function("bump")(y, 3, block=(32, 1, 1), grid=(1, 1))
        module.get_function("bump").launch(3, y, 3)
        return y

    analysis = analyse(launches, (), {})
    assert not analysis.unanalysed
    assert [risk.reason for risk in analysis.risks] == []


def writes_between_its_values(thing):
    for n in range(3):
        yield n
        thing.u[:] = n


def iterates_over_writes(x, thing):
    total = x * 0
    for n in writes_between_its_values(thing):
        total = total + x * n
    return total


def sums_writes(x, thing):
    old = x * 2
    return old + sum(writes_between_its_values(thing))


def matches_a_property(x, thing):
    match thing:
        case Thing(first=first):
            return x * first
    return x


def calls_a_partial_that_writes(x, thing):
    old = x * 2
    functools.partial(stores_by_attribute, thing=thing)(x)
    return old


def reads_a_list_that_other_code_fills(x, thing):
    parts = []

    def keep(part):
        parts.append(part)

    thing.calls_with_u(keep)
    thing.calls_with_u(functools.partial(list.append, parts))
    for _ in range(5):  # from the third write on, with a second buffer
        x[1:-1] += x[2:] - x[:-2]
    return parts[0] * 2 + parts[1]


@pytest.mark.parametrize(
    "function",
    [
        iterates_over_writes,
        sums_writes,
        matches_a_property,
        calls_a_partial_that_writes,
    ],
)
def test_risks_in_generators_partials_and_patterns(function):
    fused, results = pk.fuse(function), []
    for run in (function, fused):
        x, thing = np.linspace(1, 2, 20_000), Thing()
        thing.u = x  # which is written through the object
        with pk.engine("cpu"):
            results.append((run(x, thing), x))
    np.testing.assert_array_equal(results[1], results[0])
    (analysis,) = fused._traced.analyses
    assert not analysis.unanalysed
    assert analysis.risks


def test_containers_that_leave_with_a_function(monkeypatch):
    fused, results = pk.fuse(reads_a_list_that_other_code_fills), []
    for run in (fused.__wrapped__, fused):
        x = np.linspace(1, 2, 20_000)
        monkeypatch.setattr(Thing, "kept", x)
        with pk.engine("cpu"):
            results.append(run(x, Thing()))
    np.testing.assert_array_equal(results[1], results[0])


def test_bytecode_is_read_in_one_package():
    package = pathlib.Path(pk.__file__).parent
    readers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) dis\b|\bdis\.|co_code\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert readers
    assert {path.rpartition(os.sep)[0] for path in readers} == {os.path.join("fusing", "bytecode")}


class Thing:
    kept = None

    @property
    def first(self):
        return self.u[0]

    @property
    def calls_with_u(self):
        return lambda function: function(Thing.kept)  # which no search of the arguments finds

    def __init__(self):
        self.u, self.items = np.ones(3), [np.ones(3)]


def stores_by_attribute(x, thing):
    thing.u[1:-1] *= 2
    return x


def stores_in_a_list(x, thing):
    thing.items[0][:] = 1
    return x


def calls_an_argument(x, thing):
    thing()
    return x


def writes_escaped_arrays(x, thing):
    del thing
    y = np.asarray(x)
    y += 1
    return x


def imports(x, thing):
    import math

    return x * math.pi, thing


def writes_by_a_list_in_a_list(x, thing):
    inner = [1.0]
    outer = [inner, x]
    old = x * 2
    inner.append(thing)
    outer[0][1].u[:] = 1
    return old


@pytest.mark.parametrize(
    "function",
    [
        *(stores_by_attribute, stores_in_a_list, calls_an_argument, writes_escaped_arrays, imports),
        writes_by_a_list_in_a_list,
    ],
)
def test_functions_with_a_risky_instruction(function):
    analysis = analyse(function, (np.ones(3), Thing()), {})
    assert not analysis.unanalysed
    assert {risk.line for risk in analysis.risks} <= set(range(function.__code__.co_firstlineno, 10**6))
    assert analysis.risks


def test_generators_and_other_callables_are_unanalysed():
    for function in (blocks, Thing, len, np.ones(3).sum, functools.partial(len)):
        assert analyse(function, (np.ones(3),), {}).unanalysed


def test_fused_partials_are_analysed():
    array, x = np.linspace(0, 1, 20_000), np.linspace(1, 2, 20_000)
    partial = functools.partial(functools.partial(np_where, array), limit=0.5)
    fused = pk.fuse(partial)
    with pk.engine("cpu"):
        np.testing.assert_array_equal(fused(x), partial(x))
        np.testing.assert_array_equal(fused(x, limit=0.25), partial(x, limit=0.25))
    assert not any(analysis.unanalysed for analysis in fused._traced.analyses)


def np_where(y, x, limit):
    return np.where(y > limit, x, y)


def test_bound_methods_and_callable_objects_are_analysed():
    class Own:
        def __init__(self):
            self.dt, self.u = 0.5, np.ones(3)

        def __call__(self, x):
            return x * self.dt

        def writes(self, x):
            self.u[1:] = 3
            return x * self.dt

    own, x = Own(), np.ones(20_000)
    for function, count in ((own, 0), (own.__call__, 0), (own.writes, 1)):
        fused = pk.fuse(function)
        with pk.engine("cpu"):
            for own.dt in (0.5, 2.5, np.float32(2)):
                np.testing.assert_array_equal(fused(x), x * own.dt)
        assert [len(analysis.risks) for analysis in fused._traced.analyses] == [count] * 2
        assert not any(analysis.unanalysed for analysis in fused._traced.analyses)


def test_an_unknown_opcode_makes_a_function_unanalysed(monkeypatch):
    monkeypatch.delitem(RULE_OF, "BINARY_OP" if sys.version_info >= (3, 11) else "BINARY_MULTIPLY")
    assert "BINARY" in analyse(lambda x: x * 2, (np.ones(3),), {}).unanalysed


def test_an_analysis_holds_for_calls_of_its_kind_only():
    def function(x, thing):
        return x * thing.u

    thing = Thing()
    analysis = analyse(function, (np.ones(3), thing), {})
    assert analysis.holds_for((np.zeros(4), Thing()), {})
    thing.u = [1, 2]
    assert not analysis.holds_for((np.ones(3), thing), {})
    assert not analysis.holds_for((np.ones(3), 2), {})


def test_an_analysis_does_not_hold_for_more_arguments():
    def function(x, *others, **named):
        old = x * 2
        for other in (*others, *named.values()):
            other.u[:] = 3
        return old

    fused = pk.fuse(function)
    with pk.engine("cpu"):
        for call in (lambda x, _: fused(x), fused, lambda x, thing: fused(x, thing=thing)):
            x, thing = np.ones(20_000), Thing()
            thing.u = x
            np.testing.assert_array_equal(call(x, thing), np.full(20_000, 2.0))
    assert len(fused._traced.analyses) == 3


def test_explain_lists_lines_that_prevent_fusing():
    thing = Thing()
    with pk.engine("cpu"):
        risky = pk.fuse(stores_by_attribute).explain(np.ones(20_000), thing)
        pure = pk.fuse(pure_arithmetic).explain(np.ones(20_000))
    (text,) = risky.risks
    assert "`thing.u[1:-1] *= 2`" in text
    assert f"computed before {text}" in str(risky)
    assert pure.risks == ()
