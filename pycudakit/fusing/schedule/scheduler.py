"""What a fused function has put off, and the passes that compute it."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs import program_cost
from pycudakit._element_programs.device_launch import queue
from pycudakit._element_programs.prepared_program import works_of
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.engine_choice import asked_for
from pycudakit.fusing.errstate import Reporting
from pycudakit.fusing.graph_breaks import Break, where_asked
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.buffers import Memory
from pycudakit.fusing.memory.nodes import Node, Pass, Reduction, leaf, reads
from pycudakit.fusing.memory.pytree import mapped
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.cost import Costs
from pycudakit.fusing.schedule.explain import PlanPass

MOST_OUTPUTS = 32  # of a pass
_MOST_LIVE = 64


class Computing:
    """What is put off in a call of a fused function, and computed when it is needed.

    `run_reductions` computes nodes that are reductions of the same values along the same axes, and
    `run_in_blocks` what needs several passes over the same rows, if it can: it tells whether it did.

    Parameters
    ----------
    name
        The function's.
    strict
        Whether a look raises.
    """

    run_reductions: Callable[[Sequence[Node]], None]
    run_in_blocks: Callable[[Sequence[Node]], bool]

    def __init__(self, name: str, strict: bool) -> None:
        self.name = name
        self.strict = strict
        self.engine = context.checked_current()
        self.memory = Memory()
        self.is_over = False  # what a task that it began finds later on
        self.breaks: list[Break] = []
        self.passes: list[PlanPass] | None = None  # where somebody asks
        self.costs = Costs()
        self.is_left_to_numpy = False
        self._handlers = 0  # that run, of functions which are made of others
        self.reductions: list[weakref.ref[Node]] = []  # that wait
        self.held_up: list[weakref.ref[Node]] = []  # by them: what else is computed by itself
        self._live: list[weakref.ref[StandIn]] = []  # those that may be put off
        self._most_live = _MOST_LIVE  # until they are looked through
        self.reporting = Reporting()

    # ---- Stand-ins -----------------------------------------------------------------------------------

    def stand_in(self, array: Array) -> StandIn:
        """Return what stands for an array."""
        storage = None
        if not self.is_left_to_numpy:
            array, storage = self.memory.newest(array, self.memory.storage_for(array))
        return StandIn(self, leaf(array, storage))

    def wrap(self, result: Any) -> Any:
        """Return what stands for the result of a function that was called at once."""
        if self.is_left_to_numpy:  # where nothing is put off
            return result
        if type(result) is np.ndarray:
            return self.stand_in(result) if result.dtype in CODES else result
        if type(result) is StandIn:
            return result
        if isinstance(result, np.generic):
            return StandIn(self, leaf(np.asarray(result)), True) if result.dtype in CODES else result
        if isinstance(result, (tuple, list)):
            parts = [self.wrap(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if type(result) is dict:
            return {name: self.wrap(part) for name, part in result.items()}
        return result

    def store(self, stand_in: StandIn) -> Array:
        """Return the array that it stands for, computed, wherever its newest values are."""
        if stand_in.node.array is None:
            self.compute([stand_in])
        node = stand_in.node
        array = node.array
        assert array is not None  # noqa: S101
        if node.storage is None:
            node.storage = self.memory.storage_for(array)
        return array

    def read(self, stand_in: StandIn) -> Array:
        """Return the array that it stands for, with its values on the host."""
        array = self.store(stand_in)
        storage = stand_in.node.storage
        if storage is not None and storage.twin is not None:  # whoever reads it is to find the caller's
            array = self.in_one_memory(stand_in)
            storage = stand_in.node.storage
        if storage is not None:
            storage.fetch()
        return array

    def in_one_memory(self, stand_in: StandIn) -> Array:
        """Return the array that it stands for; of one that has two memories, in the caller's."""
        array = self.store(stand_in)
        storage = stand_in.node.storage
        if storage is not None and storage.twin is not None:
            storage.twin.come_home()
            array = self.store(stand_in)
        return array

    def at_hand(self, stand_in: StandIn) -> Array | None:
        """Return its values where the host has them already, and has all that was written to them."""
        storage = stand_in.node.storage
        is_away = storage is not None and (storage.is_kept or storage.twin is not None)
        return None if is_away else stand_in.node.array

    def look(self, stand_in: StandIn, what: str) -> Array:
        """Return its values for Python to look at."""
        if self.is_left_to_numpy:
            return self.read(stand_in)
        self.costs.look()
        self.note_break(what)
        return self.read(stand_in)

    def note_break(self, what: str, instead: str = "") -> None:
        """Tell that the function could not be put off as a whole."""
        at = where_asked(what, instead)
        self.breaks.append(at)
        if self.strict:
            raise errors.Unsupported(f"{self.name}: {at}")

    def own(self, values: Any) -> Any:
        """Return arguments with arrays for what stands for some in another call of a fused function."""
        if not _has_another_calls(values, self):
            return values

        def own(value: Any) -> Any:
            is_own = type(value) is not StandIn or value.recording is self
            return value if is_own else self.resolved(value)

        return mapped(values, own)

    def resolved(self, value: Any) -> Any:
        """Return a value with arrays for all that stands for some, on the host."""
        kind = type(value)
        if kind is StandIn:
            if value.recording is not self:  # which knows best, or goes on with it
                return value if self.is_over else value.recording.resolved(value)
            array = value.node.array if self.is_left_to_numpy else None
            if array is None:
                array = self.read(value)
            return array[()] if value.is_scalar else array
        if kind is tuple or kind is list:
            return kind(self.resolved(part) for part in value)
        if kind is dict:
            return {key: self.resolved(part) for key, part in value.items()}
        if kind is slice:
            return slice(*(self.resolved(part) for part in (value.start, value.stop, value.step)))
        return value

    # ---- Put off -------------------------------------------------------------------------------------

    def put_off(self, value: StandIn) -> StandIn:
        """Remember what is to be computed later."""
        self._live.append(weakref.ref(value))
        if len(self._live) > self._most_live:
            self._most_live = max(_MOST_LIVE, 2 * len(self.waiting()))
        return value

    def waiting(self) -> list[StandIn]:
        """Return what is put off and may still be asked for."""
        found, live = [], []
        for known in self._live:
            stand_in = known()
            if stand_in is not None and stand_in.node.array is None:
                found.append(stand_in)
                live.append(known)
        self._live = live
        return found

    def rest_is_numpys(self) -> bool:
        """Tell whether NumPy does the rest, since passes over such small parts take far longer.

        From then on, what it returns is itself, and not a stand-in's: but for a function's that has begun.
        """
        if self.is_left_to_numpy or self.engine != "auto" or self.strict or self.passes is not None:
            return self.is_left_to_numpy
        if self._handlers:
            return False
        if self.costs.are_far_from_numpys:
            self.is_left_to_numpy = True
            self.compute(self.waiting())
            self.memory.join_twins()
        return self.is_left_to_numpy

    def handled(self, handler: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call what is made of several functions, which are written down to the end."""
        self._handlers += 1
        try:
            return handler(*arguments, **keywords)
        finally:
            self._handlers -= 1

    def heed_errors(self) -> None:
        """Compute what was put off before errors, or warnings, were treated otherwise, as they were then."""
        if self.reporting.has_changed():
            with self.reporting.as_before():
                self._compute(self.waiting())

    def before_write(self, storage: Storage) -> None:
        """Compute what was put off and reads memory that is about to change, whatever is written there."""
        self.compute_readers(storage)
        if storage.twin is not None:
            storage.twin.note_all()
        self.memory.will_change(storage)

    def compute_readers(self, storage: Storage, besides: Node | None = None) -> None:
        """Compute what was put off and reads memory."""
        waiting = [stand_in for stand_in in self.waiting() if stand_in.node is not besides]
        if reads(storage, [stand_in.node for stand_in in waiting]):
            self.compute([w for w in waiting if reads(storage, [w.node])])

    def finish(self, values: Sequence[StandIn]) -> None:
        """Compute what a function returns, and what else outlives it; bring all of that to the host."""
        self.compute([*values, *self.waiting()], keep=False)
        self.memory.join_twins()
        for value in values:
            self.store(value)
        self.memory.bring_home()

    # ---- Passes --------------------------------------------------------------------------------------

    def compute(self, stand_ins: Iterable[StandIn], keep: bool = True) -> None:
        """Compute what was put off, what has the same shape in one pass; keep it on the device, or not."""
        self.heed_errors()
        self._compute(stand_ins, keep)

    def _compute(self, stand_ins: Iterable[StandIn], keep: bool = True) -> None:
        by_shape: dict[tuple[int, ...], dict[int, Node]] = {}
        wanted = dict.fromkeys([s.node for s in stand_ins if s.node.array is None])
        by_rows: dict[tuple[int, ...], list[Node]] = {}
        for node in wanted if self.reductions else ():
            by_rows.setdefault(node.shape[:1], []).append(node)
        for nodes in by_rows.values():
            self.run_in_blocks(nodes)
        for node in wanted:
            if node.reduction is not None or node.view is not None:
                self.compute_node(node)
            elif node.array is None:
                by_shape.setdefault(node.shape, {})[id(node)] = node
        passes = [
            nodes[first : first + MOST_OUTPUTS]
            for nodes in (list(found.values()) for found in by_shape.values())
            for first in range(0, len(nodes), MOST_OUTPUTS)
        ]
        for nodes in passes:
            self.run(nodes, keep=keep, is_last=not keep and nodes is passes[-1])

    def compute_node(self, node: Node) -> None:
        """Compute a node, if it is put off."""
        if node.array is not None or self.run_in_blocks([node]):
            return
        if node.reduction is not None:
            self._reduce_with_others(node)
        elif node.view is not None:
            self.compute_node(node.arguments[0])
        else:
            self.run([node])

    def settle(self, nodes: Iterable[Node]) -> None:
        """Compute the reductions that nodes need, and what these hold up, so that programs can take them."""
        while self.reductions or self.held_up:  # most functions have none that wait
            own = [node for node in nodes if node.is_repeated]  # which programs compute
            needed = [n for node in nodes for n in node.needed() if n.is_apart and n not in own]
            if not needed:
                return
            self.compute_node(needed[-1])  # what the others may need
            self.held_up = [known for known in self.held_up if _is_put_off(known())]

    def _reduce_with_others(self, node: Node) -> None:
        """Compute a reduction, and those that wait and go over the same values."""
        asked = node.reduction
        if asked is None:
            return
        waiting = [other for other in (known() for known in self.reductions) if other is not None]
        self.run_reductions([n for n in waiting if _same_values(n.reduction, asked)])
        self.reductions = [weakref.ref(n) for n in waiting if n.reduction is not None]

    def run(
        self,
        nodes: Sequence[Node],
        keep: bool = True,
        is_last: bool = False,
    ) -> None:
        """Compute nodes of one shape in one pass, into new arrays.

        What the last pass reads needs no home, if it has none.
        """
        self.settle(nodes)
        nodes = [node for node in nodes if node.array is None]  # what reductions needed is computed by now
        if not nodes:
            return
        together = Pass(nodes)
        if not is_last:
            self.memory.keep(together.arrays)
        new = [self._new_for(node) for node in nodes]
        storages = [self.storage_of_new(array) for array in new]
        for storage in storages if keep else ():
            if storage is not None:
                storage.keep(residency.TEMPORARY)
        self.evaluate(together, new)
        for node, array, own in zip(nodes, new, storages, strict=True):
            node.computed(array, own)

    def _new_for(self, node: Node) -> Array:
        """Return a new array for a node's values, which lies in memory as NumPy's."""
        if node.order == "C":
            return allocator.empty(node.shape, node.dtype)
        return operands.allocate(node.dtype, node.shape, node.laid_out_by())

    def compute_into(self, nodes: Sequence[Node], arrays: Sequence[Array]) -> None:
        """Compute nodes of one shape in one pass, into arrays that nothing reads."""
        self.heed_errors()
        self.settle(nodes)
        together = Pass(nodes)
        if arrays[0].size and not self.queued(together, arrays):
            self.memory.keep([*together.arrays, *arrays])
            self.evaluate(together, arrays)
        for node, array in zip(nodes, arrays, strict=True):
            node.computed(array, self.memory.storage_for(array))

    def copy_into(self, source: Array, target: Array) -> None:
        """Copy an array's elements to another array, which nothing reads."""
        together = Pass([leaf(source)])
        self.memory.keep([*together.arrays, target])
        self.evaluate(together, [target])

    def storage_of_new(self, array: Array) -> Storage | None:
        """Return the memory of a new array; None where that need not be known before others see it."""
        is_known = self.memory.scope.is_open or self.passes is not None
        return self.memory.storage_for(array) if is_known else None

    def queued(self, together: Pass, outs: Sequence[Array]) -> bool:
        """Queue a pass in the stream of arrays that all lie on a device; tell whether they do."""
        stream = self.memory.stream
        if not stream or self.engine != "cuda" or self.memory.scope.listener is not None:
            return False
        homes = [self.memory.home_of(array) for array in (*outs, *together.arrays)]
        if 0 in homes:
            return False
        program, values, layouts = together.into(outs)
        own = iter(homes)
        there = [next(own) if type(value) is np.ndarray else value for value in values]
        forms = tuple([None if layout is None else layout[1] for layout in layouts])
        queue(together.function.name, program, outs[0].shape, forms, there, stream)
        self.tell(together.function.name, outs[0].shape, together.arrays, outs)
        return True

    def evaluate(self, together: Pass, outs: Sequence[Array]) -> None:
        """Compute a pass into arrays of one shape that lie beside what it reads, or just where that does."""
        function, inputs = together.function, together.inputs
        program, values, layouts = together.into(outs)
        shape, size = outs[0].shape, outs[0].size
        if self.engine != "auto":
            plan = asked_for(function.name, self.engine)
        else:
            moved = sum(array.nbytes for array in together.arrays)
            self.costs.evaluated(program_cost.cpu_seconds(program, size, moved))
            plan = program_cost.choose(function.name, program, size, moved)
            if plan.engine == "numpy":
                out = outs[0] if len(outs) == 1 else tuple(outs)
                native_call.by_numpy(function.name, plan.reason, lambda: function.numpy(*inputs, out=out))
                self.tell(function.name, shape, together.arrays, outs)
                return
            plan = replace(plan, automatic=False) if plan.engine == "cuda" and self.memory.written else plan
        self.memory.lend([*together.arrays, *outs])
        works = works_of(program)
        work = works.take()
        try:
            work.aim_anywhere(shape, values, layouts)
            if work.run(plan, size):
                work.report_met()
        finally:
            works.give_back(work)
        self.memory.scope.note_pass()
        self.tell(function.name, shape, together.arrays, outs)

    @contextlib.contextmanager
    def keeping_results(
        self, kept: list[Storage], are_unseen: bool = False, is_left_home: bool = False
    ) -> Iterator[None]:
        """Have the device keep what calls in a block make, as long as `kept` is held.

        What they look at comes down. Results that `are_unseen` are no part of others. Calls that are NumPy's
        after all raise where they are `left_home`.
        """
        if not self.memory.scope.is_open:
            yield
            return

        def keep(array: Array) -> None:
            if array.dtype not in CODES:  # nothing will stand for it
                return
            storage = self.memory.storage_for(array)
            storage.keep(residency.TEMPORARY)
            kept.append(storage)

        def is_there(array: Array) -> bool:
            storage = self.memory.storage_of(array)
            return storage is not None and storage.is_kept

        hides = is_there if are_unseen else None
        with allocator.telling(keep, self._show, hides, is_left_home, not self.memory.scope.queues):
            yield

    def _show(self, array: Array, will_change: bool) -> None:
        """Bring the values of what is on the device to the host, where a function looks at them after all."""
        storage = self.memory.storage_of(array)
        if storage is not None:
            storage.fetch()
            if will_change:
                storage.changed()

    def tell(
        self,
        function: str,
        shape: tuple[int, ...],
        reads: Iterable[Array],
        writes: Iterable[Array],
        before: Any = None,
        blocks: int = 1,
    ) -> None:
        """Remember what the last call did, if somebody asks; NumPy did it, if that was the last `before`."""
        if self.passes is None:
            return
        call = native_call.last_call()
        read, wrote = (tuple(dict.fromkeys(map(self.memory.name_of, arrays))) for arrays in (reads, writes))
        if call is None or call is before:
            self.passes.append(PlanPass(function, "numpy", shape, read, wrote))
        else:
            took = call.seconds, call.bytes_up, call.bytes_down
            self.passes.append(PlanPass(function, call.engine, shape, read, wrote, *took, blocks))


def _is_put_off(node: Node | None) -> bool:
    return node is not None and node.array is None


def _same_values(one: Reduction | None, other: Reduction) -> bool:
    return one is not None and one.of is other.of and one.axes == other.axes


def _has_another_calls(values: Any, recording: Any) -> bool:
    for value in values.values() if type(values) is dict else values:
        kind = type(value)
        if kind is StandIn:
            if value.recording is not recording:
                return True
        elif kind in (tuple, list, dict) and value and _has_another_calls(value, recording):
            return True
    return False


def stand_ins_in(value: Any) -> Iterable[StandIn]:
    """Yield the stand-ins in tuples, lists and dicts."""
    kind = type(value)
    if kind is StandIn:
        yield value
    elif kind in (tuple, list):
        for part in value:
            yield from stand_ins_in(part)
    elif kind is dict:
        for part in value.values():
            yield from stand_ins_in(part)
