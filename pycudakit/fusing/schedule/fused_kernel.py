"""From deferred nodes to their graph, and from a pass of its schedule to the program of its kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction, compile_function
from pycudakit._element_programs.program import ElementProgram
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit._runtime.operands import Layout, layout_of
from pycudakit.fusing.memory.nodes import Node
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
    MIN_REDUCED_BYTES,
    MIN_STEPS_COMPUTED_AGAIN,
    Kernel,
    Reductions,
    Schedule,
    is_long_kernel,
    pattern_of,
    schedule,
)

# A function, its options, and its arguments as indices: from 0 up for earlier instructions, from -1 down for
# inputs.
_Instruction = tuple[ElementFunction, tuple[DType | None, str], tuple[int, ...]]
_TYPES: dict[Any, type] = {"int": int, "float": float}  # of numbers


class TracedGraph:
    """The graph of deferred nodes, and the nodes and numbers at its indices.

    Parameters
    ----------
    wanted
        The nodes to compute.
    reductions
        The deferred reductions, in the order in which they were recorded.
    """

    _is_long = False  # some operations need many others
    _is_recomputed = False  # some of these were computed, and not stored
    _live: tuple[int, ...] = ()
    _reductions: tuple[int, ...] = ()
    _extent = Extent.NEEDED

    def __init__(self, wanted: Sequence[Node], reductions: Sequence[Node] = ()) -> None:
        self._slots: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._operations: list[tuple[Any, ...]] = []  # as in the key of a schedule
        self._values: list[Any] = []  # arrays, as their nodes, and numbers
        self._inputs: list[tuple[Any, ...]] = []  # as in the key of a schedule
        self._by_key: dict[tuple[Any, ...], int] = {}  # inputs by layout or number
        self._shapes: dict[tuple[int, ...], int] = {}
        self._add(wanted)
        self._wanted = tuple([self._slots[node] for node in wanted])
        if reductions:
            self._reductions = self._add_reductions(reductions)

    @property
    def needed(self) -> Extent:
        """The extent that the schedule needs, as far as is known without planning."""
        if not self._is_long:
            return Extent.NEEDED
        if self._is_recomputed:
            return Extent.LATER
        wanted = [self._nodes[index] for index in self._wanted if index >= 0]
        is_long = [node for node in wanted if is_long_kernel(node.steps, node.shape)]
        return Extent.LIVE if is_long else Extent.NEEDED

    def add_live(self, nodes: Sequence[Node], extent: Extent) -> None:
        """Tell the graph which nodes are alive; `Extent.LATER` adds the operations that they need."""
        if extent == Extent.LATER:
            self._add(nodes)
        live = [self._slots[node] for node in nodes if node in self._slots]
        self._live, self._extent = tuple(dict.fromkeys(live)), extent

    def lower(
        self,
        engine: str = "cpu",
        min_reduced_bytes: int = MIN_REDUCED_BYTES,
        is_written: bool = False,
        is_looked_at: bool = False,
    ) -> LoweredSchedule:
        """Return the graph's schedule and its kernels' programs: those of an earlier graph, if it had them.

        The parameters are those of `schedule` and `Graph`.
        """
        reductions = self._reductions
        key = (
            tuple(self._inputs),
            tuple(self._operations),
            pattern_of(self._shapes),
            self._wanted,
            self._live,
            reductions and (reductions, self._are_large(min_reduced_bytes)),
            (self._extent, is_written, is_looked_at, engine),
        )
        lowered = _LOWERED[key]
        if lowered is None:
            graph = self.graph(is_written, is_looked_at)
            planned = schedule(graph, engine, min_reduced_bytes)
            functions = [node.function for node in self._nodes]
            lowered = _LOWERED[key] = LoweredSchedule(planned, _programs_of(planned, graph, functions))
        return lowered

    def graph(self, is_written: bool = False, is_looked_at: bool = False) -> Graph:
        """Return the graph."""
        inputs = [
            Input(each.dtype, each.shape, each.order) if type(each) is Node else Input(type(each).__name__)
            for each in self._values
        ]
        operations = []
        for node, (kind, function, options, arguments, *_) in zip(self._nodes, self._operations, strict=True):
            name = function if isinstance(function, str) else function.name
            result = node.dtype, node.shape, node.recomputations, node.steps
            operations.append(Operation(kind, name, options, arguments, *result))
        wanted = self._wanted, self._live, self._reductions, self._extent
        return Graph(tuple(inputs), tuple(operations), *wanted, is_written, is_looked_at)

    def values(self) -> list[Any]:
        """Return the nodes and numbers, at the graph's indices."""
        return [*self._nodes, *self._values[::-1]]

    def _are_large(self, min_reduced_bytes: int) -> tuple[bool, ...]:
        reductions = [self._nodes[index].reduction for index in self._reductions]
        return tuple([each is not None and each.operand.nbytes >= min_reduced_bytes for each in reductions])

    def _add_reductions(self, reductions: Sequence[Node]) -> tuple[int, ...]:
        """Add the reductions of the same operand and axes as one of the graph's; return them all in order."""
        slots = self._slots
        needed = [each.reduction for each in reductions if each in slots]
        alike = {(each.operand, each.axes) for each in needed if each is not None}
        found = []
        for node in reductions:
            reduction = node.reduction
            if reduction is not None and (reduction.operand, reduction.axes) in alike:
                self._add([node])
                found.append(slots[node])
        return tuple(found)

    def _add(self, roots: Sequence[Node]) -> None:
        """Add nodes and the deferred nodes that they need (postorder)."""
        slots, nodes, operations, shapes = self._slots, self._nodes, self._operations, self._shapes
        for root in roots:
            pending = [] if root in slots else [root]
            while pending:
                node = pending[-1]
                if node.array is not None:
                    slots[node] = self._add_input(node, node.array)
                    pending.pop()
                    continue
                arguments: list[int] = []
                reduction = node.reduction
                for argument in node.arguments if reduction is None else (reduction.operand,):
                    slot = slots.get(argument)
                    if slot is None:
                        if type(argument) is not Node:
                            slot = self._add_number(argument)
                        elif argument.array is None:
                            pending.append(argument)
                            break
                        else:
                            slot = slots[argument] = self._add_input(argument, argument.array)
                    arguments.append(slot)
                else:
                    pending.pop()
                    slots[node] = len(nodes)
                    nodes.append(node)
                    called: Any
                    options: tuple[Any, ...]
                    if node.function is not None:
                        kind = BROADCAST if node.is_broadcast else ELEMENTWISE
                        called, options = node.function, node.options
                    elif reduction is not None:
                        kind, called, options = REDUCTION, reduction.name, reduction.axes
                    else:
                        kind, called, options = VIEW, "reshape", ()
                    shape, recomputations, steps = node.shape, node.recomputations, node.steps
                    at = shapes.get(shape)
                    if at is None:
                        at = shapes[shape] = len(shapes)
                    operations.append(
                        (kind, called, options, tuple(arguments), node.dtype, at, recomputations, steps)
                    )
                    if steps >= MIN_STEPS_COMPUTED_AGAIN:
                        self._is_long = True
                        if recomputations:
                            self._is_recomputed = True

    def _add_input(self, node: Node, array: Array) -> int:
        layout = node.layout
        if layout is None:
            layout = node.layout = layout_of(array)
        slot = self._by_key.get(layout)
        if slot is None:
            self._values.append(node)
            self._inputs.append((node.dtype, self._shapes.setdefault(node.shape, len(self._shapes))))
            slot = self._by_key[layout] = -len(self._values)
        return slot

    def _add_number(self, number: Any) -> int:
        kind = type(number)
        key = (kind, number or str(number))  # 0.0 is not -0.0
        slot = self._by_key.get(key)
        if slot is None:
            self._values.append(number)
            self._inputs.append((kind,))
            slot = self._by_key[key] = -len(self._values)
        return slot


class KernelProgram:
    """A kernel as an `ElementFunction`, for any arrays and numbers of the graph's types."""

    def __init__(self, kernel: Kernel, graph: Graph, functions: Sequence[Any]) -> None:
        self.kernel = kernel
        called = zip(kernel.operations, kernel.arguments, strict=True)
        instructions = [(functions[i], graph.operations[i].options, arguments) for i, arguments in called]
        self.function = _function(tuple(instructions), kernel.results)
        values = [graph.operations[i] if i >= 0 else graph.inputs[~i] for i in kernel.inputs]
        self._types = tuple([_TYPES.get(each.dtype, each.dtype) for each in values])
        self._compiled: dict[tuple[DType | None, ...], ElementProgram] = {}

    def compiled(self, outs: tuple[DType | None, ...]) -> ElementProgram:
        """Return the compiled program for outputs of these dtypes."""
        program = self._compiled.get(outs)
        if program is None:
            program = compile_function(self.function, self._types, outs, False, None, "same_kind")
            self._compiled[outs] = program
        return program


class LoweredSchedule(NamedTuple):
    """A schedule, and the program of each pass that has one."""

    schedule: Schedule
    programs: tuple[KernelProgram | None, ...]


# The lowered schedules of graphs, by all that they depend on. The sizes of arrays are not among it.
_LOWERED = LRUCache[tuple[Any, ...], LoweredSchedule](512)


def _programs_of(
    planned: Schedule, graph: Graph, functions: Sequence[ElementFunction | None]
) -> tuple[KernelProgram | None, ...]:
    """Return the programs of a schedule's passes; `functions` are the graph's operations'."""
    kernels = [each.producer if isinstance(each, Reductions) else each for each in planned.passes]
    return tuple(
        [KernelProgram(each, graph, functions) if isinstance(each, Kernel) else None for each in kernels]
    )


class FusedKernel:
    """A kernel with its inputs.

    Parameters
    ----------
    program
        The kernel.
    values
        Nodes and numbers, at the graph's indices.
    """

    def __init__(self, program: KernelProgram, values: Sequence[Any]) -> None:
        self.function, self.program = program.function, program.compiled
        self.nodes: list[Node] = [values[index] for index in program.kernel.operations]  # that it computes
        self.inputs: list[Any] = []
        self.layouts: list[Layout | None] = []  # of the inputs that are arrays
        self.arrays: list[Array] = []  # the inputs that are arrays
        for index in program.kernel.inputs:
            value = values[index]
            layout = None
            if type(value) is Node:
                layout, value = value.layout, value.array
                assert value is not None  # noqa: S101
                if layout is None:
                    layout = values[index].layout = layout_of(value)
                self.arrays.append(value)
            self.inputs.append(value)
            self.layouts.append(layout)

    def bind_outputs(self, outs: Sequence[Array]) -> tuple[ElementProgram, list[Any], list[Layout | None]]:
        """Return the program for these output arrays, its operands, and the operands' layouts."""
        program = self.program(tuple([out.dtype.newbyteorder("=") for out in outs]))
        return program, [*outs, None, *self.inputs], [*map(layout_of, outs), None, *self.layouts]


def copy_of(node: Node) -> FusedKernel:
    """Return the kernel that copies a computed node."""
    return FusedKernel(_copy_of(node.dtype), [node])


@functools.lru_cache(64)
def _copy_of(dtype: DType) -> KernelProgram:
    return KernelProgram(Kernel((-1,), (), (), (-1,), (-1,)), Graph((Input(dtype, ()),), (), (-1,)), ())


def kernel_of(nodes: Sequence[Node]) -> FusedKernel:
    """Return the kernel of nodes that depend on no fusion barriers."""
    traced = TracedGraph(nodes)
    traced.add_live((), Extent.LATER)
    program = traced.lower(is_written=True).programs[-1]
    assert program is not None  # noqa: S101
    return FusedKernel(program, traced.values())


@functools.lru_cache(4096)
def _function(instructions: tuple[_Instruction, ...], results: tuple[int, ...]) -> ElementFunction:
    """Return the `ElementFunction` that runs these instructions."""

    def write(builder: Builder, *arguments: Value | WeakScalar, **_: Any) -> tuple[Value, ...]:
        values: list[Any] = []

        def value(slot: int) -> Any:
            return values[slot] if slot >= 0 else arguments[-slot - 1]

        for function, (dtype, casting), slots in instructions:
            operands = [value(slot) for slot in slots]
            (result,) = function.write(builder, *operands, out=(None,), dtype=dtype, casting=casting)
            values.append(result)
        return tuple(value(slot) for slot in results)

    names = dict.fromkeys(function.name for function, _, _ in instructions)
    name = ", ".join(names) if instructions else "copy"
    return ElementFunction(
        name, _by_numpy(instructions, results), write, outputs=len(results), types_python_scalars=False
    )


def _by_numpy(instructions: tuple[_Instruction, ...], results: tuple[int, ...]) -> Callable[..., Any]:
    """Return a NumPy implementation of these instructions. It is called `cast`, the name in cast warnings."""

    def computed(inputs: tuple[Any, ...]) -> list[Any]:
        values: list[Any] = []

        def value(slot: int) -> Any:
            return values[slot] if slot >= 0 else inputs[-slot - 1]

        for function, (dtype, rule), slots in instructions:
            keywords: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
            if rule != "same_kind":
                keywords["casting"] = rule
            values.append(function.numpy(*(value(slot) for slot in slots), **keywords))
        return [value(slot) for slot in results]

    def cast(*inputs: Any, out: Any = None) -> Any:
        outs = out if isinstance(out, tuple) else () if out is None else (out,)
        try:
            computed_values = computed(inputs)
        except FloatingPointError:
            if outs:  # a ufunc has written its outputs when it raises
                with np.errstate(all="ignore"):
                    _copy(computed(inputs), outs)
            raise
        if out is None:
            return computed_values[0] if len(computed_values) == 1 else tuple(computed_values)
        _copy(computed_values, outs)
        return out

    return cast


def _copy(values: Sequence[Any], targets: Sequence[Array]) -> None:
    for target, value in zip(targets, values, strict=True):
        np.copyto(target, value, casting="unsafe")
