"""Graphs and their schedules: written by hand, without arrays and a library, and of traced functions."""

import json
import pickle

import numpy as np
import pytest
from helpers import processes

import pycudakit as pk
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit.fusing import host_replay
from pycudakit.fusing.schedule import fused_kernel
from pycudakit.fusing.schedule.graph import (
    BROADCAST,
    ELEMENTWISE,
    REDUCTION,
    VIEW,
    Extent,
    Graph,
    Input,
    Operation,
)
from pycudakit.fusing.schedule.passes import (
    MAX_OUTPUTS,
    Kernel,
    Reductions,
    Schedule,
    Tiles,
    pattern_of,
    schedule,
)

F64 = np.dtype("f8")
OPTIONS = None, "same_kind"


class Body:
    """Records operations as a function's body does."""

    def __init__(self):
        self.inputs, self.operations = [], []

    def array(self, *shape, dtype=F64):
        self.inputs.append(Input(np.dtype(dtype), shape, "C"))
        return -len(self.inputs)

    def number(self, name="float"):
        self.inputs.append(Input(name))
        return -len(self.inputs)

    def shape_of(self, index):
        return self.operations[index].shape if index >= 0 else self.inputs[~index].shape

    def _add(self, kind, function, options, arguments, dtype, shape, recomputations=0):
        steps = kind != REDUCTION and sum(self.operations[i].steps for i in arguments if i >= 0)
        fields = kind, function, options, arguments, dtype, shape, recomputations, steps + (kind != VIEW)
        self.operations.append(Operation(*fields))
        return len(self.operations) - 1

    def apply(self, function, *arguments, dtype=F64, kind=ELEMENTWISE, recomputations=0):
        shapes = [shape for shape in map(self.shape_of, arguments) if shape is not None]
        shape = np.broadcast_shapes(*shapes)
        return self._add(kind, function, OPTIONS, arguments, np.dtype(dtype), shape, recomputations)

    def chain(self, index, length, **keywords):
        """Apply a function again and again; return all results."""
        results = []
        for _ in range(length):
            index = self.apply("sin", index, **keywords)
            results.append(index)
        return results

    def reduce(self, function, operand, *axes, keepdims=False):
        shape = [
            1 if d in axes else size
            for d, size in enumerate(self.shape_of(operand))
            if keepdims or d not in axes
        ]
        return self._add(REDUCTION, function, axes, (operand,), F64, tuple(shape))

    def view(self, operand, *shape):
        return self._add(VIEW, "reshape", (), (operand,), F64, shape)

    def graph(self, *wanted, **fields):
        reductions = tuple(i for i, each in enumerate(self.operations) if each.kind == REDUCTION)
        return Graph(tuple(self.inputs), tuple(self.operations), wanted, reductions=reductions, **fields)

    def passes(self, *wanted, engine="cpu", **fields):
        return outline(schedule(self.graph(*wanted, **fields), engine).passes)


def outline(passes):
    """Return what passes compute: outputs, and operations or the reduced operand."""
    lines = []
    for each in passes:
        if isinstance(each, Kernel):
            lines.append(("kernel", each.outputs, each.operations))
        elif isinstance(each, Reductions):
            lines.append(
                ("reductions", each.outputs, () if each.producer is None else each.producer.operations)
            )
        else:
            lines.append(("tiles", each.outputs))
    return lines


def softmax(rows, columns):
    """Return a body, and its operations: the largest, powers, their sum, the result."""
    body = Body()
    x = body.array(rows, columns)
    largest = body.reduce("max", x, 1, keepdims=True)
    powers = body.apply("exp", body.apply("subtract", x, largest))
    total = body.reduce("sum", powers, 1, keepdims=True)
    result = body.apply("divide", powers, total)
    return body, largest, powers, total, result


def test_a_chain_is_one_kernel():
    body = Body()
    x, half = body.array(1000), body.number()
    product = body.apply("multiply", x, half)
    result = body.apply("add", product, x)
    (kernel,) = schedule(body.graph(result)).passes
    assert kernel == Kernel((result,), (product, result), ((-1, -2), (0, -1)), (x, half), (1,))


def test_a_diamond_computes_the_shared_value_once():
    body = Body()
    x = body.array(1000)
    shared = body.apply("exp", x)
    result = body.apply("add", body.apply("sin", shared), body.apply("cos", shared))
    assert body.passes(result) == [("kernel", (3,), (0, 1, 2, 3))]


def test_nothing_that_is_not_wanted_is_computed():
    body = Body()
    x = body.array(1000)
    body.apply("exp", x)
    wanted = body.apply("sin", x)
    assert body.passes(wanted) == [("kernel", (1,), (1,))]


def test_no_wanted_values():
    assert schedule(Body().graph()) == Schedule(())


def test_a_kernel_for_each_shape():
    body = Body()
    x, y = body.array(1000), body.array(30, 40)
    wanted = [body.apply(name, array) for name in ("sin", "cos") for array in (x, y)]
    assert body.passes(*wanted) == [("kernel", (0, 2), (0, 2)), ("kernel", (1, 3), (1, 3))]


def test_outputs_of_a_kernel_are_bounded():
    body = Body()
    x = body.array(1000)
    wanted = [body.apply("sin", x) for _ in range(2 * MAX_OUTPUTS + 3)]
    assert [len(outputs) for _, outputs, _ in body.passes(*wanted)] == [MAX_OUTPUTS, MAX_OUTPUTS, 3]


def test_a_reduction_is_fused_with_its_operand():
    body = Body()
    square = body.apply("square", body.array(1000))
    total = body.reduce("sum", square, 0)
    assert body.passes(total) == [("reductions", (total,), (square,))]


def test_reductions_of_one_operand_along_the_same_axes_are_one_pass():
    body = Body()
    square = body.apply("square", body.array(20, 50))
    by_row = [body.reduce(name, square, 1) for name in ("sum", "max")]
    by_column = body.reduce("sum", square, 0)
    first, second = body.passes(*by_row, by_column)
    assert first == ("reductions", tuple(by_row), (square,))
    assert second == ("reductions", (by_column,), (square,))


def test_a_reduction_takes_others_that_are_not_needed_yet():
    body = Body()
    x = body.array(1000)
    mean, largest = body.reduce("mean", x, 0), body.reduce("max", x, 0)
    result = body.apply("subtract", x, largest)
    assert body.passes(result) == [("reductions", (mean, largest), ()), ("kernel", (result,), (result,))]


@pytest.mark.parametrize(
    ("length", "on", "is_stored"), [(1, "cpu", False), (40, "cpu", True), (1, "cuda", True)]
)
def test_an_operand_is_stored_if_computing_it_again_costs_more(length, on, is_stored):
    body = Body()
    x = body.array(200, 500)
    *chain, operand = body.chain(x, length) if length > 1 else [body.apply("absolute", x)]
    rows, columns = body.reduce("sum", operand, 1), body.reduce("sum", operand, 0)
    again = [("kernel", (operand,), (*chain, operand))] if is_stored else []
    want = [("reductions", (rows,), (*chain, operand)), *again]
    want.append(("reductions", (columns,), () if is_stored else (*chain, operand)))
    assert body.passes(rows, columns, engine=on) == want


def test_an_operand_that_its_inputs_are_broadcast_to_is_stored():
    """A reduction's kernel takes the shape from its inputs."""
    body = Body()
    number = body.array()
    filled = body._add(ELEMENTWISE, "copy", OPTIONS, (number,), F64, (1000,))
    total = body.reduce("sum", filled, 0)
    assert body.passes(total) == [("kernel", (filled,), (filled,)), ("reductions", (total,), ())]


def test_softmax():
    body, largest, powers, total, result = softmax(20, 50)
    assert body.passes(result) == [
        ("reductions", (largest,), ()),
        ("reductions", (total,), (1, powers)),
        ("kernel", (result,), (1, powers, result)),
    ]


def test_large_rows_are_tried_in_tiles_first():
    body, largest, _, total, result = softmax(2000, 500)
    tiles, *others = body.passes(result)
    assert tiles == ("tiles", (result,))
    assert [each for each in others if each[0] != "tiles"] == [
        ("reductions", (largest,), ()),
        ("reductions", (total,), (1, 2)),
        ("kernel", (result,), (1, 2, result)),
    ]
    small = softmax(20, 50)[0].graph(result)
    assert not any(isinstance(each, Tiles) for each in schedule(small).passes)
    assert isinstance(schedule(small, min_reduced_bytes=0).passes[0], Tiles)


def test_no_tiles_of_reductions_over_rows():
    body = Body()
    x = body.array(2000, 500)
    result = body.apply("subtract", x, body.reduce("max", x, 0))
    assert not any(kind == "tiles" for kind, *_ in body.passes(result))


def test_standardise():
    """Means and deviations of rows are reduced together; their views need no pass."""
    body = Body()
    x = body.array(20, 50)
    mean, deviation = body.reduce("mean", x, 1), body.reduce("std", x, 1)
    centred = body.apply("subtract", x, body.view(mean, 20, 1))
    result = body.apply("divide", centred, body.view(deviation, 20, 1))
    assert body.passes(result) == [
        ("reductions", (mean, deviation), ()),
        ("kernel", (result,), (centred, result)),
    ]


def test_equal_views_are_one_input():
    body = Body()
    x = body.array(20, 50)
    mean = body.reduce("mean", x, 1)
    first, second = body.view(mean, 20, 1), body.view(mean, 20, 1)
    product = body.apply("multiply", body.apply("subtract", x, first), second)
    kernel = schedule(body.graph(product)).passes[-1]
    assert kernel.inputs == (x, first)


def test_a_view_alone_is_computed_with_its_operand():
    body = Body()
    mean = body.reduce("mean", body.array(20, 50), 1)
    assert body.passes(body.view(mean, 20, 1)) == [("reductions", (mean,), ())]


def test_barriers_are_computed_in_order():
    body = Body()
    x = body.array(20, 50)
    first = body.reduce("max", x, 1, keepdims=True)
    shifted = body.apply("subtract", x, first)
    second = body.reduce("sum", shifted, 1, keepdims=True)
    factor = body.apply("reciprocal", second, kind=BROADCAST)
    scaled = body.apply("multiply", shifted, factor)
    third = body.reduce("min", scaled, 1, keepdims=True)
    result = body.apply("subtract", scaled, third)
    assert body.passes(result) == [
        ("reductions", (first,), ()),
        ("reductions", (second,), (shifted,)),
        ("kernel", (factor,), (factor,)),
        ("reductions", (third,), (shifted, scaled)),
        ("kernel", (result,), (shifted, scaled, result)),
    ]


def test_long_kernels_of_few_elements_store_what_is_alive():
    body = Body()
    chain = body.chain(body.array(1000), 20)
    live = chain[4], chain[9]
    assert body.passes(chain[-1], live=live, extent=Extent.LIVE) == [
        ("kernel", (chain[-1], chain[9], chain[4]), tuple(chain))
    ]
    large = Body()
    chain = large.chain(large.array(1 << 20), 20)
    assert large.passes(chain[-1], live=live, extent=Extent.LIVE) == [("kernel", (chain[-1],), tuple(chain))]


def test_the_kernel_of_a_write_has_no_other_outputs():
    body = Body()
    chain = body.chain(body.array(1000), 20)
    assert body.passes(chain[-1], live=(chain[9],), is_written=True) == [
        ("kernel", (chain[9],), tuple(chain[:10])),
        ("kernel", (chain[-1],), tuple(chain[10:])),
    ]


def test_a_write_of_what_exists_is_a_copy():
    body = Body()
    x = body.array(1000)
    assert schedule(body.graph(x, is_written=True)).passes == (Kernel((x,), (), (), (x,), (-1,)),)


def test_operations_computed_again_are_counted():
    body = Body()
    x = body.array(20, 50)
    square = body.apply("square", x)
    total = body.reduce("sum", square, 0)
    result = body.apply("multiply", square, total)
    planned = schedule(body.graph(result))
    assert planned.recomputed == ((square,), (square,))


def test_what_later_values_need_is_stored_if_it_is_computed_again():
    """As in `while np.any(f(x)): x = g(x)`."""
    body = Body()
    chain = body.chain(body.array(1 << 20), 10, recomputations=1)
    looked_at = body.apply("greater", chain[-1], body.number(), dtype=bool)
    x = body.apply("cos", chain[-1])
    assert body.passes(looked_at, live=(x,)) == [("kernel", (looked_at, x), (*chain, looked_at, x))]
    assert body.passes(looked_at, live=()) == [("kernel", (looked_at,), (*chain, looked_at))]


def test_a_loop_that_looks_stores_its_state():
    """As in `while x.max() > 1: x = f(x)`."""
    body = Body()
    first = body.apply("sin", body.array(1 << 20))
    second = body.apply("sin", first)
    largest = body.reduce("max", second, 0)
    assert body.passes(largest, is_looked_at=True, live=(first, second)) == [
        ("kernel", (second,), (first, second)),
        ("reductions", (largest,), ()),
    ]


def test_a_loop_that_looks_at_a_function_of_its_state_stores_that_at_the_second_turn():
    """As in `while f(x).max() > 1: x = g(x)`."""
    body = Body()
    state = body.apply("sin", body.array(1 << 20))
    largest = body.reduce("max", body.apply("cos", state), 0)
    planned = schedule(body.graph(largest, is_looked_at=True, live=(state,)))
    assert outline(planned.passes) == [("reductions", (largest,), (state, state + 1))]
    assert planned.recomputed == ((state, state + 1),)
    body.operations[state] = body.operations[state]._replace(recomputations=1)
    assert body.passes(largest, is_looked_at=True, live=(state,)) == [
        ("kernel", (state,), (state,)),
        ("reductions", (largest,), (state + 1,)),
    ]


def test_values_are_released_after_their_last_use():
    body, largest, _, total, result = softmax(20, 50)
    planned = schedule(body.graph(result))
    released = [index for each in planned.released for index in each]
    assert sorted(released) == sorted({-1, largest, 1, 2, total, result})
    assert planned.released[:2] == ((), ())
    body = Body()
    exp = body.chain(body.array(200, 500), 40)[-1]
    passes = schedule(body.graph(body.reduce("sum", exp, 1), body.reduce("sum", exp, 0)))
    assert exp in passes.released[-1]
    assert -1 in passes.released[1]


@pytest.mark.parametrize("extent", [Extent.NEEDED, Extent.LIVE])
def test_a_schedule_asks_for_more_of_the_graph(extent):
    body = Body()
    chain = body.chain(body.array(1 << 20), 10, recomputations=1)
    asked = schedule(body.graph(chain[-1], extent=extent))
    assert asked == Schedule((), needs=Extent.LATER)
    long = Body()
    chain = long.chain(long.array(1000), 20)
    assert (schedule(long.graph(chain[-1], extent=extent)).needs == Extent.LIVE) == (extent < Extent.LIVE)


def test_a_pickled_graph_is_equal():
    graph = softmax(20, 50)[0].graph(4, live=(2,), extent=Extent.LIVE)
    again = pickle.loads(pickle.dumps(graph))
    assert (again, again.key, str(again)) == (graph, graph.key, str(graph))
    assert schedule(again) == schedule(graph)
    planned = schedule(graph._replace(extent=Extent.LATER))
    assert pickle.loads(pickle.dumps(planned)) == planned


SOFTMAX = """
import numpy as np
import pycudakit as pk
from pycudakit.fusing import host_replay
from pycudakit.fusing.schedule import fused_kernel
from pycudakit.fusing.schedule.passes import schedule
seen = []
fused_kernel.schedule = lambda graph, *rest: (seen.append(graph), schedule(graph, *rest))[1]
@pk.fuse
def softmax(x, factor):
    powers = np.exp((x - x.max(axis=1, keepdims=True)) * factor)
    return powers / powers.sum(axis=1, keepdims=True)
with pk.engine("cpu"):
    softmax(np.linspace(0, 1, 2000).reshape(40, 50), {factor})
print(json.dumps([[graph.key, str(graph), str(schedule(graph))] for graph in seen]))
"""


def test_keys_are_equal_across_processes():
    runs = [
        json.loads(processes.python(SOFTMAX.replace("{factor}", factor), env={"PYTHONHASHSEED": seed}))
        for factor, seed in (("2.5", "1"), ("0.5", "2"))
    ]
    assert runs[0] == runs[1]  # a constant's value is not in the key
    other = json.loads(processes.python(SOFTMAX.replace("{factor}", "3")))
    assert other[-1][0] != runs[0][-1][0]  # but its type is


@pytest.mark.parametrize(
    "change",
    [
        {"wanted": (2,)},
        {"live": (2,)},
        {"reductions": (0,)},
        {"extent": Extent.LIVE},
        {"is_written": True},
        {"is_looked_at": True},
        {"inputs": (Input(F64, (20, 50), "F"),)},
        {"inputs": (Input(np.dtype("f4"), (20, 50), "C"),)},
    ],
)
def test_keys_differ_in_each_field(change):
    graph = softmax(20, 50)[0].graph(4)
    assert graph._replace(**change).key != graph.key
    assert graph._replace(**change) != graph


def test_keys_differ_in_each_field_of_an_operation():
    graph = softmax(20, 50)[0].graph(4)
    changes = {
        "kind": BROADCAST, "function": "cos", "options": (np.dtype("f4"), "unsafe"), "arguments": (-1, -1),
        "dtype": np.dtype("f4"), "shape": (1, 2), "recomputations": 3, "steps": 9,
    }  # fmt: skip
    keys = {graph.key}
    for name, value in changes.items():
        operations = list(graph.operations)
        operations[1] = operations[1]._replace(**{name: value})
        keys.add(graph._replace(operations=tuple(operations)).key)
    assert len(keys) == len(changes) + 1


LISTING = """
x1: float64[20, 50], C
x2: float
%0: float64[20, 1] = max(x1, axes=(1,))
%1: float64[20, 50] = subtract(x1, %0)
%2: float64[20, 50] = multiply(%1, x2, dtype=float64, casting=unsafe)
return %2
live: %1
reductions: %0
extent: later
""".strip()


def test_a_graph_and_its_schedule_are_printed():
    body = Body()
    x, factor = body.array(20, 50), body.number()
    shifted = body.apply("subtract", x, body.reduce("max", x, 1, keepdims=True))
    result = body._add(ELEMENTWISE, "multiply", (F64, "unsafe"), (shifted, factor), F64, (20, 50))
    graph = body.graph(result, live=(shifted,))
    assert str(graph) == LISTING
    assert str(schedule(graph)) == "%0 = reductions(x1)\n%2 = kernel(%1, %2; reads x1, %0, x2)"


@pytest.fixture
def planned(monkeypatch):
    """Return a list of the graphs that are planned from now on, in traced calls on the engine `cpu`."""
    graphs = []

    def seen(graph, *rest):
        graphs.append(graph)
        return schedule(graph, *rest)

    monkeypatch.setattr(host_replay, "IS_ON", False)
    monkeypatch.setattr(fused_kernel, "schedule", seen)
    monkeypatch.setattr(fused_kernel, "_LOWERED", LRUCache(64))
    with pk.engine("cpu"):
        yield graphs


def test_the_graph_of_a_function(planned):
    pk.fuse(lambda x, factor: np.sin(x * factor) + 1)(np.linspace(0, 1, 2000), 2.5)
    (graph,) = planned
    assert str(graph).splitlines()[:-2] == [
        "x1: float64[2000], C",
        "x2: float",
        "x3: int",
        "%0: float64[2000] = multiply(x1, x2)",
        "%1: float64[2000] = sin(%0)",
        "%2: float64[2000] = add(%1, x3)",
    ]


def standardised(x, factor):
    shifted = (x - x.mean(axis=1)[:, None]) * factor
    return shifted / x.std(axis=1, keepdims=True), np.sin(x) + factor


@pytest.mark.parametrize(
    ("shape", "factor", "is_planned"),
    [((40, 50), 0.5, False), ((70, 90), 2.5, False), ((40, 50), 2, True), ((50, 50), 2.5, True)],
)
def test_a_function_that_is_traced_again_finds_its_schedule(planned, shape, factor, is_planned):
    """Of other sizes and numbers, but not of numbers of other types, nor if other sizes are equal."""
    fused = pk.fuse(standardised)
    fused(np.random.default_rng(0).standard_normal((40, 50)), 2.5)
    before = len(planned)
    x = np.random.default_rng(0).standard_normal(shape)
    for ours, numpys in zip(fused(x, factor), standardised(x, factor), strict=True):
        np.testing.assert_allclose(ours, numpys)
    assert before > 0
    assert (len(planned) > before) == is_planned


@pytest.mark.parametrize("sizes", [(30, 50), (2, 3), (30, 7000)])
@pytest.mark.parametrize("live", [(), (1, 2)])
def test_schedules_depend_on_the_pattern_of_shapes_alone(sizes, live):
    graphs = [softmax(*each)[0].graph(4, live=live) for each in ((20, 40), sizes)]
    shapes = [[each.shape for each in graph.operations] for graph in graphs]
    is_alike = pattern_of(shapes[0]) == pattern_of(shapes[1])
    assert is_alike == (sizes != (30, 7000))  # which has large arrays
    assert not is_alike or schedule(graphs[0]) == schedule(graphs[1])
