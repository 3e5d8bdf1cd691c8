"""The passes that nodes need which have their rows in common, written down for any block of these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._element_programs.program import ElementProgram
from pycudakit._families.reduce.multi_output import capture_requests, multi_output_pool
from pycudakit._families.reduce.reduce_kernel import (
    PreparedReduce,
    ReduceRequest,
    reduced_shape,
    set_initial_and_ddof,
)
from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.engine_choice import EngineChoice, cpu_choice, requested_engine
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit._runtime.native_call import Pool
from pycudakit._runtime.operands import Layout, layout_of
from pycudakit._runtime.ufunc_arguments import broadcast_shapes, needs_copy
from pycudakit.fusing.memory.buffer import byte_bounds, is_c_ordered
from pycudakit.fusing.memory.nodes import FusedKernel, Node, leaf
from pycudakit.fusing.schedule.scheduler import MAX_OUTPUTS

_MIN_SECONDS_TO_MATERIALIZE = (
    0.3e-9  # seconds an element on one thread: what takes longer is not computed twice
)


@dataclass
class ScheduledKernel:
    """A pass over a block of rows."""

    function: str
    shape: tuple[int, ...]
    program: ElementProgram
    choice: EngineChoice
    nodes: list[Node]  # that it computes
    outs: list[Array]
    values: list[Any]  # what it takes: a reduction its inputs, and a program outputs and a mask before
    layouts: Sequence[Layout | None] = ()  # of a program's
    calls: Sequence[Callable[[], Any]] = ()  # of reductions,
    requests: Sequence[ReduceRequest] = ()  # and what they ask for

    @property
    def reads(self) -> list[Array]:
        """The arrays that it reads."""
        own = 0 if self.requests else len(self.outs)
        return [each for each in self.values[own:] if type(each) is np.ndarray]


class PreparedKernel:
    """A pass that is prepared for a block of rows, and for those that come after it.

    Parameters
    ----------
    step
        The pass.
    strides
        The bytes from row to row, by the identity of an array; none of those that are the same for all rows.
    rows
        Of a block.
    """

    def __init__(self, kernel: ScheduledKernel, strides: dict[int, int], rows: int) -> None:
        self._plan, self._size = kernel.choice, math.prod(kernel.shape)
        self._work: Any
        self._pool: Pool[Any]
        if kernel.requests:
            first = kernel.requests[0]
            is_alone = len(kernel.requests) == 1
            self._pool = first.kernel.pool if is_alone else multi_output_pool(kernel.requests)
            self._work = self._pool.take()
            self._work.bind_broadcast(kernel.shape, first.axes, kernel.outs, *first.values)
            for i, request in enumerate(kernel.requests):
                set_initial_and_ddof(self._work.reduction[i : i + 1], request.initial, request.ddof)
            array_operands = self._work.operands_of(kernel.outs, first.values)
        else:
            self._pool = prepared_programs(kernel.program)
            self._work = self._pool.take()
            self._work.bind_strided(kernel.shape, kernel.values, kernel.layouts)
            array_operands = self._work.operands_of(kernel.values)
        self._array_operands = array_operands
        self._addresses = self._work.addresses
        self._bytes = np.zeros_like(self._addresses)
        for index, array in array_operands:
            self._bytes[index] = strides.get(id(array), 0) * rows
        self.fp_flags = np.zeros_like(self._work.fp_flags)

    def run(self) -> None:
        """Go over a block, and be ready for the next."""
        if self._work.run(self._plan, self._size):
            self.add_met()
        self._addresses += self._bytes

    def add_met(self) -> None:
        """Add what the last call met."""
        self.fp_flags |= self._work.fp_flags

    def describe(self, row: Any, scratch_offsets: Mapping[range, int]) -> Array:
        """Write down an `abi.BLOCK_PROGRAM`; return the operands, which must live as long.

        An array whose address is in a range of `places` is in memory that each thread has of its own, there.
        """
        work = self._work
        table: Array = work.table.copy()
        for index, array in self._array_operands:
            address = address_of(array)
            for place, offset in scratch_offsets.items():
                if address in place:
                    table[index]["address"] = offset + address - place.start
                    table[index]["flags"] |= abi.OPERAND_IN_SCRATCH
        instructions = work.program.instructions
        row["program"], row["instruction_count"] = address_of(instructions), len(instructions)
        row["operands"], row["operand_count"] = address_of(table), len(table)
        row["shape"], row["dimensions"] = address_of(work.shape), work.dimensions.value
        if isinstance(work, PreparedReduce):
            row["reductions"], row["reduction_count"] = address_of(work.reduction), len(work.reduction)
        row["block_strides"], row["exceptions"] = address_of(self._bytes), address_of(work.fp_flags)
        return table

    def give_back(self) -> None:
        """Leave what is prepared to others."""
        if isinstance(self._work, PreparedReduce):
            self._work.reset_layout()
        self._pool.give_back(self._work)


class TiledGroup:
    """What is to be computed for nodes that have their rows in common.

    Parameters
    ----------
    targets
        The nodes, which are deferred.
    engine
        Where they are computed.
    written
        Where the last of them is to go, if that is an array that there is already.
    """

    def __init__(self, targets: Sequence[Node], engine: str, output: Array | None = None) -> None:
        self.targets = list(targets)
        self.engine = engine
        self.output = output
        self.rows = targets[0].shape[0]
        self.order = _topological_order(targets)
        self.strides: dict[int, int] = {}  # from row to row, in bytes, by the identity of blocks' arrays
        self.materialized: set[Node] = set()  # of what is reduced, what later passes read
        self._tiles: list[Array] = []  # that the identities are of

    @functools.cached_property
    def results(self) -> dict[Node, Array]:
        """New arrays, of all rows: of what is asked for, and of what is computed by itself."""
        results: dict[Node, Array] = {}
        for node in self.order:
            if node.view is not None:
                results[node] = node.view(results[node.arguments[0]])
            elif node is self.targets[-1] and self.output is not None:
                results[node] = self.output
            elif node.is_fusion_barrier or node in self.targets:
                results[node] = allocator.empty(node.shape, node.dtype)
        return results

    def may_write_in_place(self) -> bool:
        """Tell whether a block reads only its own rows of what it writes in its last pass."""
        output, last = self.output, self.targets[-1]
        if output is None:
            return True
        first, end = byte_bounds(output[:1])
        if not is_c_ordered(output) or output.strides[0] < end - first:
            return False
        for node in self.order:
            operand = None if node.reduction is None else node.reduction.operand
            if operand is last:  # which would be computed before
                return False
            for argument in node.arguments if operand is None else (operand,):
                array = argument.array if type(argument) is Node else None
                if array is None or not np.may_share_memory(array, output):
                    continue
                low, high = byte_bounds(array[:1]) if array.ndim else (0, 0)
                is_in_row = first <= low and high <= end and array.strides[:1] == output.strides[:1]
                if not (is_in_row and (operand is not None or self.is_tiled(argument, len(node.shape)))):
                    return False
        return True

    def needs_several_kernels(self) -> bool:
        """Tell whether more than one pass goes over what is reduced along other axes than the first."""
        reduced = [reduced_values(n) for n in self.order if n.reduction is not None]
        if all(0 in axes for _, axes in reduced):
            return False
        widest = max(operand.size for operand, _ in reduced)
        wide = {(operand, axes) for operand, axes in reduced if 2 * operand.size > widest}
        return len(wide) + any(2 * t.size > widest and t.reduction is None for t in self.targets) > 1

    def untiled_inputs(self) -> list[Node] | None:
        """Return what is needed and is not cut, to be computed before; None if arrays do not lie in rows."""
        others: dict[Node, None] = {}
        for node in self.order:
            if node.reduction is not None:
                operand, axes = reduced_values(node)
                if 0 in axes or operand.shape[:1] != (self.rows,) or node.reduction.name.startswith("nan"):
                    others[node] = None  # those that leave NaN out look at their results
                elif operand.array is not None and not is_c_ordered(operand.array):
                    return None
                continue
            for argument in node.arguments if node.view is None else ():
                if type(argument) is not Node:
                    continue
                is_tiled = self.is_tiled(argument, len(node.shape))
                if argument.array is None and not is_tiled:
                    others[argument] = None
                elif is_tiled and argument.array is not None and not is_c_ordered(argument.array):
                    return None
        return list(others)

    def is_tiled(self, node: Node, dimensions: int) -> bool:
        """Tell whether what needs a node, and has so many dimensions, needs only the same rows of it."""
        return len(node.shape) == dimensions and node.shape[0] == self.rows

    @functools.cached_property
    def _shared(self) -> set[Node]:
        """What is reduced, and what other passes need, too."""
        reduced = dict.fromkeys(reduced_values(n) for n in self.order if n.reduction is not None)
        own = {operand for operand, _ in reduced if operand.array is None and not operand.is_fusion_barrier}
        passes = [[operand] for operand, _ in reduced] + [[n] for n in self.order if n.is_broadcast]
        passes.append([target for target in self.targets if not target.is_fusion_barrier])
        counts = dict.fromkeys(own, 0)
        for one in passes:
            for node in _fused_nodes(one):
                if node in counts:
                    counts[node] += 1
        return {node for node, count in counts.items() if count > 1}

    def bytes_per_row(self) -> int:
        """Return how many bytes of arrays belong to a row, with what may be kept between passes."""
        arrays = {}
        for node in self.order:
            before = node.arguments if node.reduction is None else (node.reduction.operand,)
            for each in before if node.view is None else ():
                if type(each) is Node and each.array is not None and each.shape[:1] == (self.rows,):
                    arrays[layout_of(each.array)] = each.nbytes
        made = {*self.targets, *self._shared}
        return max(1, (sum(arrays.values()) + sum(node.nbytes for node in made)) // self.rows)

    def decide_materialization(self, node: Node, kernel: FusedKernel) -> None:
        """Find out whether what is reduced is better kept than computed again, by what computes it."""
        if node in self._shared:
            seconds = program_cost.estimate(kernel.program((None,))).cpu
            if node in self.targets or self.engine == "cuda" or seconds > _MIN_SECONDS_TO_MATERIALIZE:
                self.materialized.add(node)

    # ---- Passes --------------------------------------------------------------------------------------

    def kernels(
        self, start: int, stop: int, intermediates: dict[Node, Array] | None = None
    ) -> list[ScheduledKernel] | None:
        """Return the passes over some rows; None if there is a reduction that takes more than one.

        What later passes read is kept `between` them, in arrays of one block. Passes without any are written
        first: they tell what is worth it.
        """
        lowering = _Lowering(self, start, stop, intermediates)
        return lowering.kernels if lowering.lower() else None

    def plan_of(self, function: str) -> EngineChoice:
        """Return the plan of a pass."""
        return cpu_choice(function) if self.engine == "auto" else requested_engine(function, self.engine)

    def tile_of(self, array: Array, start: int, stop: int) -> Array:
        """Return some rows of an array."""
        block: Array = array[start:stop]
        self.strides[id(block)] = array.strides[0]
        self._tiles.append(block)
        return block


class _Lowering:
    """How the passes over some rows are written down; what is written to an array comes last."""

    def __init__(
        self, group: TiledGroup, start: int, stop: int, intermediates: dict[Node, Array] | None
    ) -> None:
        self._group, self._start, self._stop = group, start, stop
        self._intermediates = {} if intermediates is None else intermediates
        self._materializes = intermediates is not None
        self._tile_nodes: dict[Node, Node] = {}  # of these rows
        self._lowered: set[Node] = set()
        self.kernels: list[ScheduledKernel] = []

    def lower(self) -> bool:
        """Write them down, and tell whether that could be."""
        for node in self._group.order:
            if node in self._tile_nodes:
                continue
            if node.view is not None:
                self._tile_nodes[node] = leaf(self._tile_of(self._group.results[node]))
            elif node.reduction is not None:
                if not self._lower_reduction(node):
                    return False
            else:
                self._tile_nodes[node] = self._tile_node(node)
                if node.is_broadcast:
                    self._lower_elementwise([node])
        by_shape: dict[tuple[int, ...], list[Node]] = {}
        for node in self._group.targets:
            if not node.is_fusion_barrier and node not in self._lowered:
                by_shape.setdefault(node.shape, []).append(node)
        last = self._group.targets[-1]
        if last.shape in by_shape:
            by_shape[last.shape] = by_shape.pop(last.shape)
        for alike in by_shape.values():
            for first in range(0, len(alike), MAX_OUTPUTS):
                self._lower_elementwise(alike[first : first + MAX_OUTPUTS])
        into = self._group.output
        return into is None or not needs_copy(self._tile_of(into), self.kernels[-1].reads)

    def _tile_node(self, node: Node) -> Node:
        dimensions = len(node.shape)
        arguments = [self._argument(a, dimensions) if type(a) is Node else a for a in node.arguments]
        shape = (self._stop - self._start, *node.shape[1:])
        return Node(node.function, tuple(arguments), node.options, node.dtype, shape)

    def _argument(self, node: Node, dimensions: int) -> Node:
        """Return what stands for a node in what has so many dimensions."""
        made = self._tile_nodes.get(node)
        if made is not None or node.array is None:
            return made or node
        return leaf(self._tile_of(node.array)) if self._group.is_tiled(node, dimensions) else node

    def _tile_of(self, array: Array) -> Array:
        return self._group.tile_of(array, self._start, self._stop)

    def _output_for(self, node: Node) -> Array:
        """Return where some rows of what a node computes go."""
        whole = self._group.results.get(node)
        if whole is not None:
            return self._tile_of(whole)
        materialized = self._intermediates.get(node)
        if materialized is None:
            materialized = self._intermediates[node] = np.empty(
                (self._stop - self._start, *node.shape[1:]), node.dtype
            )
        return materialized[: self._stop - self._start]

    def _lower_elementwise(self, nodes: Sequence[Node]) -> None:
        made = [self._tile_nodes[node] for node in nodes]
        kernel = FusedKernel(made)
        outs = [self._output_for(node) for node in nodes]
        name = kernel.function.name
        program, values, layouts = kernel.bind_outputs(outs)
        choice = self._group.plan_of(name)
        self.kernels.append(
            ScheduledKernel(name, made[0].shape, program, choice, list(nodes), outs, values, layouts)
        )
        self._lowered.update(nodes)
        for each, out in zip(made, outs, strict=True):
            each.set_result(out)

    def _lower_reduction(self, node: Node) -> bool:
        """Write down a reduction, with those of the same values; tell whether that is one pass."""
        operand, axes = reduced_values(node)
        group = [
            n for n in self._group.order if n.reduction is not None and reduced_values(n) == (operand, axes)
        ]
        source = self._argument(operand, len(operand.shape))
        if source.array is None and self._materializes and operand in self._group.materialized:
            self._lower_elementwise([operand])
        given: Any = source.array
        name = ""
        if given is None:
            kernel = FusedKernel([source])
            if broadcast_shapes(*(array.shape for array in kernel.arrays)) != source.shape:
                return False
            self._group.decide_materialization(operand, kernel)
            given = FusedProducer(kernel.function, kernel.inputs, source.dtype)
            name = f"{kernel.function.name}, "
        reductions = [n.reduction for n in group if n.reduction is not None]
        calls = [functools.partial(reduction.compute, given) for reduction in reductions]
        requests = capture_requests(calls)
        if requests is None or [r.kernel.reducer.result for r in requests] != [n.dtype for n in group]:
            return False
        outs = []
        for each in group:
            whole = self._group.results[each]
            outs.append(self._tile_of(whole.reshape(reduced_shape(operand.shape, axes, False))))
            self._tile_nodes[each] = leaf(self._tile_of(whole))
        names = ", ".join(reduction.name for reduction in reductions)
        program, inputs = (
            requests[0].kernel.program,
            given.inputs if type(given) is FusedProducer else [given],
        )
        choice = self._group.plan_of(names)
        self.kernels.append(
            ScheduledKernel(
                name + names, source.shape, program, choice, group, outs, inputs, (), calls, requests
            )
        )
        return True


def reduced_values(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return what a reduction is of, and along which axes."""
    assert node.reduction is not None  # noqa: S101
    return node.reduction.operand, node.reduction.axes


def _fused_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield what one pass computes that computes these nodes."""
    seen, pending = set(nodes), list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for argument in node.arguments:
            if type(argument) is Node and argument not in seen and argument.array is None:
                seen.add(argument)
                if not argument.is_fusion_barrier:
                    pending.append(argument)


def _topological_order(targets: Sequence[Node]) -> list[Node]:
    """Return what is deferred and needed, each after what it needs."""
    order: dict[Node, None] = {}
    pending = list(reversed(targets))
    while pending:
        node = pending[-1]
        before = node.arguments if node.reduction is None else (node.reduction.operand,)
        missing = [a for a in before if type(a) is Node and a.array is None and a not in order]
        if missing and node not in order:
            pending += reversed(missing)
        else:
            order[node] = None
            pending.pop()
    return list(order)
