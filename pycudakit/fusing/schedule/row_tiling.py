"""The passes that nodes need which have their rows in common, written down for any block of these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import works_of
from pycudakit._element_programs.program import ElementProgram
from pycudakit._families.reduce.multi_output import requests_of, works_of_requests
from pycudakit._families.reduce.reduce_kernel import ReduceWork, Request, set_numbers, shape_without
from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.engine_choice import Plan, asked_for, on_cpu
from pycudakit._runtime.lazy_array import Computed
from pycudakit._runtime.native_call import Pool
from pycudakit._runtime.operands import Layout, layout_of
from pycudakit._runtime.ufunc_arguments import broadcast_shapes, needs_copy
from pycudakit.fusing.memory.buffer import bounds, lies_in_order
from pycudakit.fusing.memory.nodes import Node, Pass, leaf
from pycudakit.fusing.schedule.scheduler import MOST_OUTPUTS

_WORTH_KEEPING = 0.3e-9  # seconds an element on one thread: what takes longer is not computed twice


@dataclass
class Step:
    """A pass over a block of rows."""

    function: str
    shape: tuple[int, ...]
    program: ElementProgram
    plan: Plan
    nodes: list[Node]  # that it computes
    outs: list[Array]
    values: list[Any]  # what it takes: a reduction its inputs, and a program outputs and a mask before
    layouts: Sequence[Layout | None] = ()  # of a program's
    calls: Sequence[Callable[[], Any]] = ()  # of reductions,
    requests: Sequence[Request] = ()  # and what they ask for

    @property
    def reads(self) -> list[Array]:
        """The arrays that it reads."""
        own = 0 if self.requests else len(self.outs)
        return [each for each in self.values[own:] if type(each) is np.ndarray]


class Ready:
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

    def __init__(self, step: Step, strides: dict[int, int], rows: int) -> None:
        self._plan, self._size = step.plan, math.prod(step.shape)
        self._work: Any
        self._pool: Pool[Any]
        if step.requests:
            first = step.requests[0]
            is_alone = len(step.requests) == 1
            self._pool = first.recipe.works if is_alone else works_of_requests(step.requests)
            self._work = self._pool.take()
            self._work.spread(step.shape, first.axes, step.outs, *first.values)
            for i, request in enumerate(step.requests):
                set_numbers(self._work.reduction[i : i + 1], request.initial, request.ddof)
            found = self._work.operands_of(step.outs, first.values)
        else:
            self._pool = works_of(step.program)
            self._work = self._pool.take()
            self._work.aim_anywhere(step.shape, step.values, step.layouts)
            found = self._work.operands_of(step.values)
        self._found = found
        self._addresses = self._work.addresses
        self._bytes = np.zeros_like(self._addresses)
        for index, array in found:
            self._bytes[index] = strides.get(id(array), 0) * rows
        self.met = np.zeros_like(self._work.met)

    def run(self) -> None:
        """Go over a block, and be ready for the next."""
        if self._work.run(self._plan, self._size):
            self.add_met()
        self._addresses += self._bytes

    def add_met(self) -> None:
        """Add what the last call met."""
        self.met |= self._work.met

    def describe(self, row: Any, places: Mapping[range, int]) -> Array:
        """Write down an `abi.PASS`; return the operands, which must live as long.

        An array whose address is in a range of `places` is in memory that each thread has of its own, there.
        """
        work = self._work
        table: Array = work.table.copy()
        for index, array in self._found:
            address = address_of(array)
            for place, offset in places.items():
                if address in place:
                    table[index]["address"] = offset + address - place.start
                    table[index]["flags"] |= abi.IN_SCRATCH
        instructions = work.program.instructions
        row["program"], row["instruction_count"] = address_of(instructions), len(instructions)
        row["operands"], row["operand_count"] = address_of(table), len(table)
        row["shape"], row["dimensions"] = address_of(work.shape), work.dimensions.value
        if isinstance(work, ReduceWork):
            row["reductions"], row["reduction_count"] = address_of(work.reduction), len(work.reduction)
        row["moves"], row["exceptions"] = address_of(self._bytes), address_of(work.met)
        return table

    def give_back(self) -> None:
        """Leave what is prepared to others."""
        if isinstance(self._work, ReduceWork):
            self._work.restore()
        self._pool.give_back(self._work)


class Chain:
    """What is to be computed for nodes that have their rows in common.

    Parameters
    ----------
    targets
        The nodes, which are put off.
    engine
        Where they are computed.
    written
        Where the last of them is to go, if that is an array that there is already.
    """

    def __init__(self, targets: Sequence[Node], engine: str, written: Array | None = None) -> None:
        self.targets = list(targets)
        self.engine = engine
        self.written = written
        self.rows = targets[0].shape[0]
        self.order = _in_order(targets)
        self.strides: dict[int, int] = {}  # from row to row, in bytes, by the identity of blocks' arrays
        self.kept: set[Node] = set()  # of what is reduced, what later passes read
        self._blocks: list[Array] = []  # that the identities are of

    @functools.cached_property
    def results(self) -> dict[Node, Array]:
        """New arrays, of all rows: of what is asked for, and of what is computed by itself."""
        results: dict[Node, Array] = {}
        for node in self.order:
            if node.view is not None:
                results[node] = node.view(results[node.arguments[0]])
            elif node is self.targets[-1] and self.written is not None:
                results[node] = self.written
            elif node.is_apart or node in self.targets:
                results[node] = allocator.empty(node.shape, node.dtype)
        return results

    def is_read_before_it_is_written(self) -> bool:
        """Tell whether a block reads only its own rows of what it writes in its last pass."""
        written, last = self.written, self.targets[-1]
        if written is None:
            return True
        first, end = bounds(written[:1])
        if not lies_in_order(written) or written.strides[0] < end - first:
            return False
        for node in self.order:
            of = None if node.reduction is None else node.reduction.of
            if of is last:  # which would be computed before
                return False
            for argument in node.arguments if of is None else (of,):
                array = argument.array if type(argument) is Node else None
                if array is None or not np.may_share_memory(array, written):
                    continue
                low, high = bounds(array[:1]) if array.ndim else (0, 0)
                is_in_row = first <= low and high <= end and array.strides[:1] == written.strides[:1]
                if not (is_in_row and (of is not None or self.is_cut(argument, len(node.shape)))):
                    return False
        return True

    def has_several_passes(self) -> bool:
        """Tell whether more than one pass goes over what is reduced along other axes than the first."""
        reduced = [values_of(n) for n in self.order if n.reduction is not None]
        if all(0 in axes for _, axes in reduced):
            return False
        widest = max(of.size for of, _ in reduced)
        wide = {(of, axes) for of, axes in reduced if 2 * of.size > widest}
        return len(wide) + any(2 * t.size > widest and t.reduction is None for t in self.targets) > 1

    def of_other_rows(self) -> list[Node] | None:
        """Return what is needed and is not cut, to be computed before; None if arrays do not lie in rows."""
        others: dict[Node, None] = {}
        for node in self.order:
            if node.reduction is not None:
                of, axes = values_of(node)
                if 0 in axes or of.shape[:1] != (self.rows,) or node.reduction.name.startswith("nan"):
                    others[node] = None  # those that leave NaN out look at their results
                elif of.array is not None and not lies_in_order(of.array):
                    return None
                continue
            for argument in node.arguments if node.view is None else ():
                if type(argument) is not Node:
                    continue
                is_cut = self.is_cut(argument, len(node.shape))
                if argument.array is None and not is_cut:
                    others[argument] = None
                elif is_cut and argument.array is not None and not lies_in_order(argument.array):
                    return None
        return list(others)

    def is_cut(self, node: Node, dimensions: int) -> bool:
        """Tell whether what needs a node, and has so many dimensions, needs only the same rows of it."""
        return len(node.shape) == dimensions and node.shape[0] == self.rows

    @functools.cached_property
    def _shared(self) -> set[Node]:
        """What is reduced, and what other passes need, too."""
        reduced = dict.fromkeys(values_of(n) for n in self.order if n.reduction is not None)
        own = {of for of, _ in reduced if of.array is None and not of.is_apart}
        passes = [[of] for of, _ in reduced] + [[n] for n in self.order if n.is_repeated]
        passes.append([target for target in self.targets if not target.is_apart])
        counts = dict.fromkeys(own, 0)
        for one in passes:
            for node in _inlined(one):
                if node in counts:
                    counts[node] += 1
        return {node for node, count in counts.items() if count > 1}

    def bytes_a_row(self) -> int:
        """Return how many bytes of arrays belong to a row, with what may be kept between passes."""
        arrays = {}
        for node in self.order:
            before = node.arguments if node.reduction is None else (node.reduction.of,)
            for each in before if node.view is None else ():
                if type(each) is Node and each.array is not None and each.shape[:1] == (self.rows,):
                    arrays[layout_of(each.array)] = each.nbytes
        made = {*self.targets, *self._shared}
        return max(1, (sum(arrays.values()) + sum(node.nbytes for node in made)) // self.rows)

    def consider_keeping(self, node: Node, together: Pass) -> None:
        """Find out whether what is reduced is better kept than computed again, by what computes it."""
        if node in self._shared:
            seconds = program_cost.estimate(together.program((None,))).ours
            if node in self.targets or self.engine == "cuda" or seconds > _WORTH_KEEPING:
                self.kept.add(node)

    # ---- Passes --------------------------------------------------------------------------------------

    def steps(self, start: int, stop: int, between: dict[Node, Array] | None = None) -> list[Step] | None:
        """Return the passes over some rows; None if there is a reduction that takes more than one.

        What later passes read is kept `between` them, in arrays of one block. Passes without any are written
        first: they tell what is worth it.
        """
        writing = _Writing(self, start, stop, between)
        return writing.steps if writing.write() else None

    def plan_of(self, function: str) -> Plan:
        """Return the plan of a pass."""
        return on_cpu(function) if self.engine == "auto" else asked_for(function, self.engine)

    def block_of(self, array: Array, start: int, stop: int) -> Array:
        """Return some rows of an array."""
        block: Array = array[start:stop]
        self.strides[id(block)] = array.strides[0]
        self._blocks.append(block)
        return block


class _Writing:
    """How the passes over some rows are written down; what is written to an array comes last."""

    def __init__(self, chain: Chain, start: int, stop: int, between: dict[Node, Array] | None) -> None:
        self._chain, self._start, self._stop = chain, start, stop
        self._between = {} if between is None else between
        self._keeps = between is not None
        self._made: dict[Node, Node] = {}  # of these rows
        self._written: set[Node] = set()
        self.steps: list[Step] = []

    def write(self) -> bool:
        """Write them down, and tell whether that could be."""
        for node in self._chain.order:
            if node in self._made:
                continue
            if node.view is not None:
                self._made[node] = leaf(self._block_of(self._chain.results[node]))
            elif node.reduction is not None:
                if not self._reduce(node):
                    return False
            else:
                self._made[node] = self._same_of_rows(node)
                if node.is_repeated:
                    self._evaluate([node])
        by_shape: dict[tuple[int, ...], list[Node]] = {}
        for node in self._chain.targets:
            if not node.is_apart and node not in self._written:
                by_shape.setdefault(node.shape, []).append(node)
        last = self._chain.targets[-1]
        if last.shape in by_shape:
            by_shape[last.shape] = by_shape.pop(last.shape)
        for alike in by_shape.values():
            for first in range(0, len(alike), MOST_OUTPUTS):
                self._evaluate(alike[first : first + MOST_OUTPUTS])
        into = self._chain.written
        return into is None or not needs_copy(self._block_of(into), self.steps[-1].reads)

    def _same_of_rows(self, node: Node) -> Node:
        dimensions = len(node.shape)
        arguments = [self._argument(a, dimensions) if type(a) is Node else a for a in node.arguments]
        shape = (self._stop - self._start, *node.shape[1:])
        return Node(node.function, tuple(arguments), node.given, node.dtype, shape)

    def _argument(self, node: Node, dimensions: int) -> Node:
        """Return what stands for a node in what has so many dimensions."""
        made = self._made.get(node)
        if made is not None or node.array is None:
            return made or node
        return leaf(self._block_of(node.array)) if self._chain.is_cut(node, dimensions) else node

    def _block_of(self, array: Array) -> Array:
        return self._chain.block_of(array, self._start, self._stop)

    def _place_for(self, node: Node) -> Array:
        """Return where some rows of what a node computes go."""
        whole = self._chain.results.get(node)
        if whole is not None:
            return self._block_of(whole)
        kept = self._between.get(node)
        if kept is None:
            kept = self._between[node] = np.empty((self._stop - self._start, *node.shape[1:]), node.dtype)
        return kept[: self._stop - self._start]

    def _evaluate(self, nodes: Sequence[Node]) -> None:
        made = [self._made[node] for node in nodes]
        together = Pass(made)
        outs = [self._place_for(node) for node in nodes]
        name = together.function.name
        program, values, layouts = together.into(outs)
        plan = self._chain.plan_of(name)
        self.steps.append(Step(name, made[0].shape, program, plan, list(nodes), outs, values, layouts))
        self._written.update(nodes)
        for each, out in zip(made, outs, strict=True):
            each.computed(out)

    def _reduce(self, node: Node) -> bool:
        """Write down a reduction, with those of the same values; tell whether that is one pass."""
        of, axes = values_of(node)
        group = [n for n in self._chain.order if n.reduction is not None and values_of(n) == (of, axes)]
        source = self._argument(of, len(of.shape))
        if source.array is None and self._keeps and of in self._chain.kept:
            self._evaluate([of])
        given: Any = source.array
        name = ""
        if given is None:
            together = Pass([source])
            if broadcast_shapes(*(array.shape for array in together.arrays)) != source.shape:
                return False
            self._chain.consider_keeping(of, together)
            given = Computed(together.function, together.inputs, source.dtype)
            name = f"{together.function.name}, "
        reductions = [n.reduction for n in group if n.reduction is not None]
        calls = [functools.partial(reduction.compute, given) for reduction in reductions]
        requests = requests_of(calls)
        if requests is None or [r.recipe.folded.result for r in requests] != [n.dtype for n in group]:
            return False
        outs = []
        for each in group:
            whole = self._chain.results[each]
            outs.append(self._block_of(whole.reshape(shape_without(of.shape, axes, False))))
            self._made[each] = leaf(self._block_of(whole))
        names = ", ".join(reduction.name for reduction in reductions)
        program, inputs = requests[0].recipe.program, given.inputs if type(given) is Computed else [given]
        plan = self._chain.plan_of(names)
        self.steps.append(
            Step(name + names, source.shape, program, plan, group, outs, inputs, (), calls, requests)
        )
        return True


def values_of(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return what a reduction is of, and along which axes."""
    assert node.reduction is not None  # noqa: S101
    return node.reduction.of, node.reduction.axes


def _inlined(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield what one pass computes that computes these nodes."""
    seen, pending = set(nodes), list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for argument in node.arguments:
            if type(argument) is Node and argument not in seen and argument.array is None:
                seen.add(argument)
                if not argument.is_apart:
                    pending.append(argument)


def _in_order(targets: Sequence[Node]) -> list[Node]:
    """Return what is put off and needed, each after what it needs."""
    order: dict[Node, None] = {}
    pending = list(reversed(targets))
    while pending:
        node = pending[-1]
        before = node.arguments if node.reduction is None else (node.reduction.of,)
        missing = [a for a in before if type(a) is Node and a.array is None and a not in order]
        if missing and node not in order:
            pending += reversed(missing)
        else:
            order[node] = None
            pending.pop()
    return list(order)
