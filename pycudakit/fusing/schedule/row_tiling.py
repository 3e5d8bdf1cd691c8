"""Row tiling: lower the nodes of a group to kernels over a range of rows.

A group is a set of nodes with the same number of rows (the length of the first axis). If reductions go along
other axes only, each kernel can run on a tile of rows, and intermediate results need memory for one tile
only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._element_programs.program import ElementProgram
from pycudakit._families.reduce.multi_output import multi_output_pool, prepare_reductions
from pycudakit._families.reduce.reduce_kernel import (
    PreparedReduce,
    ReduceRequest,
    reduced_shape,
    set_initial_and_ddof,
)
from pycudakit._families.reduce.reduction import PendingReduction
from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.engine_choice import EngineChoice, cpu_choice, requested_engine
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit._runtime.native_call import Pool
from pycudakit._runtime.operands import Layout, layout_of
from pycudakit._runtime.ufunc_arguments import broadcast_shapes, needs_copy
from pycudakit.fusing.memory.buffer import byte_bounds, is_c_ordered
from pycudakit.fusing.memory.nodes import Node, leaf
from pycudakit.fusing.schedule.fused_kernel import FusedKernel, kernel_of
from pycudakit.fusing.schedule.passes import MAX_OUTPUTS

# Seconds for an element on one thread: an intermediate that takes longer is stored, not computed twice.
_MIN_SECONDS_TO_MATERIALIZE = 0.3e-9


@dataclass
class ScheduledKernel:
    """A kernel over one tile of rows: an elementwise program, or reductions of one operand."""

    function: str
    shape: tuple[int, ...]
    program: ElementProgram
    choice: EngineChoice
    nodes: list[Node]  # the computed nodes
    outs: list[Array]
    values: list[Any]  # operands: inputs of a reduction; outputs, a mask and inputs of a program
    layouts: Sequence[Layout | None] = ()  # of a program's operands
    reductions: Sequence[PendingReduction] = ()

    @property
    def requests(self) -> list[ReduceRequest]:
        """The requests of the reductions."""
        return [each.request for each in self.reductions]

    @property
    def reads(self) -> list[Array]:
        """The arrays that the kernel reads."""
        num_outputs = 0 if self.reductions else len(self.outs)
        return [each for each in self.values[num_outputs:] if type(each) is np.ndarray]


class PreparedKernel:
    """A kernel prepared for consecutive tiles: each run advances its operands' addresses by one tile.

    Parameters
    ----------
    kernel
        The kernel.
    strides
        The bytes from row to row, by the id of an array, except for arrays without rows.
    rows
        The rows of a tile.
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
        """Run the kernel on the current tile, and advance to the next."""
        if self._work.run(self._plan, self._size):
            self.add_met()
        self._addresses += self._bytes

    def add_met(self) -> None:
        """Add the floating-point flags of the last run."""
        self.fp_flags |= self._work.fp_flags

    def describe(self, row: Any, scratch_offsets: Mapping[range, int]) -> Array:
        """Fill an `abi.BLOCK_PROGRAM`; return its operand table, which must stay alive.

        An array whose address is in a range of `scratch_offsets` is in each thread's scratch memory, at that
        offset.
        """
        work = self._work
        table: Array = work.table.copy()
        for index, array in self._array_operands:
            address = address_of(array)
            for addresses, offset in scratch_offsets.items():
                if address in addresses:
                    table[index]["address"] = offset + address - addresses.start
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
        """Return the prepared request to its pool."""
        if isinstance(self._work, PreparedReduce):
            self._work.reset_layout()
        self._pool.give_back(self._work)


class TiledGroup:
    """Deferred nodes with the same number of rows, and all that they need, computed tile by tile.

    Parameters
    ----------
    targets
        The deferred nodes to compute.
    engine
        The engine that computes them.
    output
        An existing array that the last target is written to, or None.
    """

    def __init__(self, targets: Sequence[Node], engine: str, output: Array | None = None) -> None:
        self.targets = list(targets)
        self.engine = engine
        self.output = output
        self.rows = targets[0].shape[0]
        self.order = _topological_order(targets)
        self.strides: dict[int, int] = {}  # bytes from row to row, by the id of a tile's array
        self.materialized: set[Node] = set()  # reduction operands that are stored for later kernels
        self._tiles: list[Array] = []  # keeps the arrays alive whose ids are keys of `strides`

    @functools.cached_property
    def results(self) -> dict[Node, Array]:
        """The new arrays of all rows: for the targets and for fusion barriers such as reductions."""
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
        """Return True if each tile reads only its own rows of `output`, which its last kernel writes."""
        output, last = self.output, self.targets[-1]
        if output is None:
            return True
        first, end = byte_bounds(output[:1])
        if not is_c_ordered(output) or output.strides[0] < end - first:
            return False
        for node in self.order:
            operand = None if node.reduction is None else node.reduction.operand
            if operand is last:  # it would be computed before the write
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
        """Return True if several kernels iterate over the operands of reductions within rows."""
        reduced = [reduced_values(n) for n in self.order if n.reduction is not None]
        if all(0 in axes for _, axes in reduced):
            return False
        widest = max(operand.size for operand, _ in reduced)
        wide = {(operand, axes) for operand, axes in reduced if 2 * operand.size > widest}
        return len(wide) + any(2 * t.size > widest and t.reduction is None for t in self.targets) > 1

    def untiled_inputs(self) -> list[Node] | None:
        """Return the nodes to compute before, which cannot be tiled; None if an array is not C-ordered."""
        untiled: dict[Node, None] = {}
        for node in self.order:
            if node.reduction is not None:
                operand, axes = reduced_values(node)
                if 0 in axes or operand.shape[:1] != (self.rows,) or node.reduction.name.startswith("nan"):
                    untiled[node] = None  # NaN reductions check their results on the host
                elif operand.array is not None and not is_c_ordered(operand.array):
                    return None
                continue
            for argument in node.arguments if node.view is None else ():
                if type(argument) is not Node:
                    continue
                is_tiled = self.is_tiled(argument, len(node.shape))
                if argument.array is None and not is_tiled:
                    untiled[argument] = None
                elif is_tiled and argument.array is not None and not is_c_ordered(argument.array):
                    return None
        return list(untiled)

    def is_tiled(self, node: Node, dimensions: int) -> bool:
        """Return True if a reader with `dimensions` axes needs only the corresponding rows of a node."""
        return len(node.shape) == dimensions and node.shape[0] == self.rows

    @functools.cached_property
    def _shared(self) -> set[Node]:
        """The operands of reductions that other kernels need, too."""
        reduced = dict.fromkeys(reduced_values(n) for n in self.order if n.reduction is not None)
        deferred_operands = {
            operand for operand, _ in reduced if operand.array is None and not operand.is_fusion_barrier
        }
        passes = [[operand] for operand, _ in reduced] + [[n] for n in self.order if n.is_broadcast]
        passes.append([target for target in self.targets if not target.is_fusion_barrier])
        counts = dict.fromkeys(deferred_operands, 0)
        for kernel_nodes in passes:
            for node in _fused_nodes(kernel_nodes):
                if node in counts:
                    counts[node] += 1
        return {node for node, count in counts.items() if count > 1}

    def bytes_per_row(self) -> int:
        """Return the bytes per row of all arrays, including intermediates between kernels."""
        arrays = {}
        for node in self.order:
            before = node.arguments if node.reduction is None else (node.reduction.operand,)
            for each in before if node.view is None else ():
                if type(each) is Node and each.array is not None and each.shape[:1] == (self.rows,):
                    arrays[layout_of(each.array)] = each.nbytes
        results = {*self.targets, *self._shared}
        return max(1, (sum(arrays.values()) + sum(node.nbytes for node in results)) // self.rows)

    def decide_materialization(self, node: Node, kernel: FusedKernel) -> None:
        """Decide whether a reduction operand is stored or computed again, by its kernel's cost."""
        if node in self._shared:
            seconds = program_cost.estimate(kernel.program((None,))).cpu
            if node in self.targets or self.engine == "cuda" or seconds > _MIN_SECONDS_TO_MATERIALIZE:
                self.materialized.add(node)

    # ---- Kernels -------------------------------------------------------------------------------------

    def kernels(
        self, start: int, stop: int, intermediates: dict[Node, Array] | None = None
    ) -> list[ScheduledKernel] | None:
        """Lower the group for some rows; return its kernels, or None if a reduction needs several passes.

        `intermediates` gets the arrays between kernels, of one tile. A first lowering without it decides
        which operands are worth storing.
        """
        lowering = _Lowering(self, start, stop, intermediates)
        return lowering.kernels if lowering.lower() else None

    def plan_of(self, function: str) -> EngineChoice:
        """Return the engine choice of a kernel."""
        return cpu_choice(function) if self.engine == "auto" else requested_engine(function, self.engine)

    def tile_of(self, array: Array, start: int, stop: int) -> Array:
        """Return some rows of an array, and remember their stride."""
        tile: Array = array[start:stop]
        self.strides[id(tile)] = array.strides[0]
        self._tiles.append(tile)
        return tile


class _Lowering:
    """Lowers a group to kernels over some rows; the kernel that writes `output` comes last."""

    def __init__(
        self, group: TiledGroup, start: int, stop: int, intermediates: dict[Node, Array] | None
    ) -> None:
        self._group, self._start, self._stop = group, start, stop
        self._intermediates = {} if intermediates is None else intermediates
        self._materializes = intermediates is not None
        self._tile_nodes: dict[Node, Node] = {}  # nodes of these rows, by the group's nodes
        self._lowered: set[Node] = set()
        self.kernels: list[ScheduledKernel] = []

    def lower(self) -> bool:
        """Lower all nodes; return False if that is impossible."""
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
        output = self._group.output
        return output is None or not needs_copy(self._tile_of(output), self.kernels[-1].reads)

    def _tile_node(self, node: Node) -> Node:
        dimensions = len(node.shape)
        arguments = [self._argument(a, dimensions) if type(a) is Node else a for a in node.arguments]
        shape = (self._stop - self._start, *node.shape[1:])
        return Node(node.function, tuple(arguments), node.options, node.dtype, shape)

    def _argument(self, node: Node, dimensions: int) -> Node:
        """Return the node of these rows for a reader with `dimensions` axes."""
        tile_node = self._tile_nodes.get(node)
        if tile_node is not None or node.array is None:
            return tile_node or node
        return leaf(self._tile_of(node.array)) if self._group.is_tiled(node, dimensions) else node

    def _tile_of(self, array: Array) -> Array:
        return self._group.tile_of(array, self._start, self._stop)

    def _output_for(self, node: Node) -> Array:
        """Return the array for these rows of a node's values."""
        full_array = self._group.results.get(node)
        if full_array is not None:
            return self._tile_of(full_array)
        materialized = self._intermediates.get(node)
        if materialized is None:
            materialized = self._intermediates[node] = np.empty(
                (self._stop - self._start, *node.shape[1:]), node.dtype
            )
        return materialized[: self._stop - self._start]

    def _lower_elementwise(self, nodes: Sequence[Node]) -> None:
        tile_nodes = [self._tile_nodes[node] for node in nodes]
        kernel = kernel_of(tile_nodes)
        outs = [self._output_for(node) for node in nodes]
        name = kernel.function.name
        program, values, layouts = kernel.bind_outputs(outs)
        choice = self._group.plan_of(name)
        self.kernels.append(
            ScheduledKernel(name, tile_nodes[0].shape, program, choice, list(nodes), outs, values, layouts)
        )
        self._lowered.update(nodes)
        for each, out in zip(tile_nodes, outs, strict=True):
            each.set_result(out)

    def _lower_reduction(self, node: Node) -> bool:
        """Lower a reduction, with the others of its operand; return False if it needs several passes."""
        operand, axes = reduced_values(node)
        group = [
            n for n in self._group.order if n.reduction is not None and reduced_values(n) == (operand, axes)
        ]
        source = self._argument(operand, len(operand.shape))
        if source.array is None and self._materializes and operand in self._group.materialized:
            self._lower_elementwise([operand])
        reduce_operand: Any = source.array
        name = ""
        if reduce_operand is None:
            kernel = kernel_of([source])
            if broadcast_shapes(*(array.shape for array in kernel.arrays)) != source.shape:
                return False
            self._group.decide_materialization(operand, kernel)
            layouts = source.result_layouts()
            reduce_operand = FusedProducer(kernel.function, kernel.inputs, source.dtype, layouts)
            name = f"{kernel.function.name}, "
        reductions = [n.reduction for n in group if n.reduction is not None]
        prepared = prepare_reductions([reduction.compute for reduction in reductions], reduce_operand)
        if prepared is None:
            return False
        requests = [each.request for each in prepared]
        if [request.kernel.reducer.result for request in requests] != [n.dtype for n in group]:
            return False
        outs = []
        for each in group:
            full_array = self._group.results[each]
            outs.append(self._tile_of(full_array.reshape(reduced_shape(operand.shape, axes, False))))
            self._tile_nodes[each] = leaf(self._tile_of(full_array))
        names = ", ".join(reduction.name for reduction in reductions)
        program, inputs = (
            requests[0].kernel.program,
            reduce_operand.inputs if type(reduce_operand) is FusedProducer else [reduce_operand],
        )
        choice = self._group.plan_of(names)
        self.kernels.append(
            ScheduledKernel(name + names, source.shape, program, choice, group, outs, inputs, (), prepared)
        )
        return True


def reduced_values(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return a reduction's operand and axes."""
    assert node.reduction is not None  # noqa: S101
    return node.reduction.operand, node.reduction.axes


def _fused_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield these nodes and the deferred nodes that are fused into their kernel."""
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
    """Return the needed deferred nodes in topological order."""
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
