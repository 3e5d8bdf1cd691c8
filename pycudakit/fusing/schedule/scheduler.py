"""What a fused function has deferred, and the passes that compute it."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs import program_cost
from pycudakit._element_programs.device_launch import enqueue
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.engine_choice import requested_engine
from pycudakit.fusing.errstate import ErrstateSnapshot
from pycudakit.fusing.graph_breaks import Break, break_at_caller
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.buffers import BufferTable
from pycudakit.fusing.memory.nodes import FusedKernel, Node, ReduceOp, leaf, reads
from pycudakit.fusing.memory.pytree import tree_map
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.schedule.cost import Costs
from pycudakit.fusing.schedule.explain import PlanPass

MAX_OUTPUTS = 32  # of a pass
_MIN_DEFERRED = 64


class Scheduler:
    """What is deferred in a call of a fused function, and computed when it is needed.

    `run_reductions` computes nodes that are reductions of the same values along the same axes, and
    `run_tiled` what needs several passes over the same rows, if it can: it tells whether it did.

    Parameters
    ----------
    name
        The function's.
    strict
        Whether a look raises.
    """

    run_reductions: Callable[[Sequence[Node]], None]
    run_tiled: Callable[[Sequence[Node]], bool]

    def __init__(self, name: str, strict: bool) -> None:
        self.name = name
        self.strict = strict
        self.engine = context.checked_current_engine()
        self.buffers = BufferTable()
        self.has_ended = False  # what a task that it began finds later on
        self.breaks: list[Break] = []
        self.passes: list[PlanPass] | None = None  # where somebody asks
        self.costs = Costs()
        self.has_fallen_back = False
        self._handler_depth = 0  # that run, of functions which are made of others
        self.reductions: list[weakref.ref[Node]] = []  # that wait
        self.waiting_on_reductions: list[weakref.ref[Node]] = []  # by them: what else is computed by itself
        self._deferred: list[weakref.ref[Tracer]] = []  # those that may be deferred
        self._max_deferred = _MIN_DEFERRED  # until they are looked through
        self.errstate = ErrstateSnapshot()

    # ---- Tracers -----------------------------------------------------------------------------------

    def tracer_for(self, array: Array) -> Tracer:
        """Return what stands for an array."""
        buffer = None
        if not self.has_fallen_back:
            array, buffer = self.buffers.latest(array, self.buffers.buffer_for(array))
        return Tracer(self, leaf(array, buffer))

    def wrap(self, result: Any) -> Any:
        """Return what stands for the result of a function that was called at once."""
        if self.has_fallen_back:  # where nothing is deferred
            return result
        if type(result) is np.ndarray:
            return self.tracer_for(result) if result.dtype in CODES else result
        if type(result) is Tracer:
            return result
        if isinstance(result, np.generic):
            return Tracer(self, leaf(np.asarray(result)), True) if result.dtype in CODES else result
        if isinstance(result, (tuple, list)):
            parts = [self.wrap(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if type(result) is dict:
            return {name: self.wrap(part) for name, part in result.items()}
        return result

    def materialize(self, tracer: Tracer) -> Array:
        """Return the array that it stands for, computed, wherever its newest values are."""
        if tracer.node.array is None:
            self.compute([tracer])
        node = tracer.node
        array = node.array
        assert array is not None  # noqa: S101
        if node.buffer is None:
            node.buffer = self.buffers.buffer_for(array)
        return array

    def to_host(self, tracer: Tracer) -> Array:
        """Return the array that it stands for, with its values on the host."""
        array = self.materialize(tracer)
        buffer = tracer.node.buffer
        if (
            buffer is not None and buffer.double_buffer is not None
        ):  # whoever reads it is to find the caller's
            array = self.in_caller_memory(tracer)
            buffer = tracer.node.buffer
        if buffer is not None:
            buffer.sync_to_host()
        return array

    def in_caller_memory(self, tracer: Tracer) -> Array:
        """Return the array that it stands for; of one that has two memories, in the caller's."""
        array = self.materialize(tracer)
        buffer = tracer.node.buffer
        if buffer is not None and buffer.double_buffer is not None:
            buffer.double_buffer.sync_to_caller()
            array = self.materialize(tracer)
        return array

    def array_if_on_host(self, tracer: Tracer) -> Array | None:
        """Return its values where the host has them already, and has all that was written to them."""
        buffer = tracer.node.buffer
        is_on_device = buffer is not None and (buffer.is_resident or buffer.double_buffer is not None)
        return None if is_on_device else tracer.node.array

    def concretize(self, tracer: Tracer, operation: str) -> Array:
        """Return its values for Python to look at."""
        if self.has_fallen_back:
            return self.to_host(tracer)
        self.costs.concretization()
        self.note_graph_break(operation)
        return self.to_host(tracer)

    def note_graph_break(self, operation: str, instead: str = "") -> None:
        """Tell that the function could not be deferred as a whole."""
        at = break_at_caller(operation, instead)
        self.breaks.append(at)
        if self.strict:
            raise errors.Unsupported(f"{self.name}: {at}")

    def resolve_foreign_tracers(self, values: Any) -> Any:
        """Return arguments with arrays for what stands for some in another call of a fused function."""
        if not _has_foreign_tracers(values, self):
            return values

        def resolve_foreign(value: Any) -> Any:
            is_own = type(value) is not Tracer or value.owning_trace is self
            return value if is_own else self.resolved(value)

        return tree_map(values, resolve_foreign)

    def resolved(self, value: Any) -> Any:
        """Return a value with arrays for all that stands for some, on the host."""
        kind = type(value)
        if kind is Tracer:
            if value.owning_trace is not self:  # which knows best, or goes on with it
                return value if self.has_ended else value.owning_trace.resolved(value)
            array = value.node.array if self.has_fallen_back else None
            if array is None:
                array = self.to_host(value)
            return array[()] if value.is_scalar else array
        if kind is tuple or kind is list:
            return kind(self.resolved(part) for part in value)
        if kind is dict:
            return {key: self.resolved(part) for key, part in value.items()}
        if kind is slice:
            return slice(*(self.resolved(part) for part in (value.start, value.stop, value.step)))
        return value

    # ---- Put off -------------------------------------------------------------------------------------

    def defer(self, value: Tracer) -> Tracer:
        """Remember what is to be computed later."""
        self._deferred.append(weakref.ref(value))
        if len(self._deferred) > self._max_deferred:
            self._max_deferred = max(_MIN_DEFERRED, 2 * len(self.deferred()))
        return value

    def deferred(self) -> list[Tracer]:
        """Return what is deferred and may still be asked for."""
        found, still_deferred = [], []
        for ref in self._deferred:
            tracer = ref()
            if tracer is not None and tracer.node.array is None:
                found.append(tracer)
                still_deferred.append(ref)
        self._deferred = still_deferred
        return found

    def fall_back_if_slow(self) -> bool:
        """Tell whether NumPy does the rest, since passes over such small parts take far longer.

        From then on, what it returns is itself, and not a tracer's: but for a function's that has begun.
        """
        if self.has_fallen_back or self.engine != "auto" or self.strict or self.passes is not None:
            return self.has_fallen_back
        if self._handler_depth:
            return False
        if self.costs.is_far_slower_than_numpy:
            self.has_fallen_back = True
            self.compute(self.deferred())
            self.buffers.end_double_buffering()
        return self.has_fallen_back

    def run_handler(self, handler: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call what is made of several functions, which are written down to the end."""
        self._handler_depth += 1
        try:
            return handler(*arguments, **keywords)
        finally:
            self._handler_depth -= 1

    def flush_if_errstate_changed(self) -> None:
        """Compute what was deferred before errors, or warnings, were treated otherwise, as they were then."""
        if self.errstate.has_changed():
            with self.errstate.previous_in_force():
                self._compute(self.deferred())

    def before_write(self, buffer: Buffer) -> None:
        """Compute what was deferred and reads memory that is about to change, whatever is written there."""
        self.compute_readers(buffer)
        if buffer.double_buffer is not None:
            buffer.double_buffer.mark_all_written()
        self.buffers.mark_written(buffer)

    def compute_readers(self, buffer: Buffer, except_node: Node | None = None) -> None:
        """Compute what was deferred and reads memory."""
        deferred = [tracer for tracer in self.deferred() if tracer.node is not except_node]
        if reads(buffer, [tracer.node for tracer in deferred]):
            self.compute([w for w in deferred if reads(buffer, [w.node])])

    def finish(self, values: Sequence[Tracer]) -> None:
        """Compute what a function returns, and what else outlives it; bring all of that to the host."""
        self.compute([*values, *self.deferred()], keep=False)
        self.buffers.end_double_buffering()
        for value in values:
            self.materialize(value)
        self.buffers.sync_all_to_caller()

    # ---- Passes --------------------------------------------------------------------------------------

    def compute(self, tracers: Iterable[Tracer], keep: bool = True) -> None:
        """Compute what was deferred, what has the same shape in one pass; keep it on the device, or not."""
        self.flush_if_errstate_changed()
        self._compute(tracers, keep)

    def _compute(self, tracers: Iterable[Tracer], keep: bool = True) -> None:
        by_shape: dict[tuple[int, ...], dict[int, Node]] = {}
        to_compute = dict.fromkeys([s.node for s in tracers if s.node.array is None])
        by_rows: dict[tuple[int, ...], list[Node]] = {}
        for node in to_compute if self.reductions else ():
            by_rows.setdefault(node.shape[:1], []).append(node)
        for nodes in by_rows.values():
            self.run_tiled(nodes)
        for node in to_compute:
            if node.reduction is not None or node.view is not None:
                self.compute_node(node)
            elif node.array is None:
                by_shape.setdefault(node.shape, {})[id(node)] = node
        passes = [
            nodes[first : first + MAX_OUTPUTS]
            for nodes in (list(found.values()) for found in by_shape.values())
            for first in range(0, len(nodes), MAX_OUTPUTS)
        ]
        for nodes in passes:
            self.run_fused(nodes, keep=keep, is_last=not keep and nodes is passes[-1])

    def compute_node(self, node: Node) -> None:
        """Compute a node, if it is deferred."""
        if node.array is not None or self.run_tiled([node]):
            return
        if node.reduction is not None:
            self._run_reductions_of_same_values(node)
        elif node.view is not None:
            self.compute_node(node.arguments[0])
        else:
            self.run_fused([node])

    def resolve_barriers(self, nodes: Iterable[Node]) -> None:
        """Compute the reductions that nodes need, and what these hold up, so that programs can take them."""
        while self.reductions or self.waiting_on_reductions:  # most functions have none that wait
            own = [node for node in nodes if node.is_broadcast]  # which programs compute
            needed = [n for node in nodes for n in node.ancestors() if n.is_fusion_barrier and n not in own]
            if not needed:
                return
            self.compute_node(needed[-1])  # what the others may need
            self.waiting_on_reductions = [ref for ref in self.waiting_on_reductions if _is_deferred(ref())]

    def _run_reductions_of_same_values(self, node: Node) -> None:
        """Compute a reduction, and those that wait and go over the same values."""
        asked = node.reduction
        if asked is None:
            return
        deferred = [other for other in (ref() for ref in self.reductions) if other is not None]
        self.run_reductions([n for n in deferred if _reduce_same_values(n.reduction, asked)])
        self.reductions = [weakref.ref(n) for n in deferred if n.reduction is not None]

    def run_fused(
        self,
        nodes: Sequence[Node],
        keep: bool = True,
        is_last: bool = False,
    ) -> None:
        """Compute nodes of one shape in one pass, into new arrays.

        What the last pass reads needs no home, if it has none.
        """
        self.resolve_barriers(nodes)
        nodes = [node for node in nodes if node.array is None]  # what reductions needed is computed by now
        if not nodes:
            return
        kernel = FusedKernel(nodes)
        if not is_last:
            self.buffers.make_resident(kernel.arrays)
        new = [self._result_array(node) for node in nodes]
        buffers = [self.buffer_of_result(array) for array in new]
        for buffer in buffers if keep else ():
            if buffer is not None:
                buffer.make_resident(residency.TEMPORARY)
        self.evaluate(kernel, new)
        for node, array, own in zip(nodes, new, buffers, strict=True):
            node.set_result(array, own)

    def _result_array(self, node: Node) -> Array:
        """Return a new array for a node's values, which lies in memory as NumPy's."""
        if node.order == "C":
            return allocator.empty(node.shape, node.dtype)
        return operands.allocate(node.dtype, node.shape, node.layout_arrays())

    def compute_into(self, nodes: Sequence[Node], arrays: Sequence[Array]) -> None:
        """Compute nodes of one shape in one pass, into arrays that nothing reads."""
        self.flush_if_errstate_changed()
        self.resolve_barriers(nodes)
        kernel = FusedKernel(nodes)
        if arrays[0].size and not self.try_enqueue(kernel, arrays):
            self.buffers.make_resident([*kernel.arrays, *arrays])
            self.evaluate(kernel, arrays)
        for node, array in zip(nodes, arrays, strict=True):
            node.set_result(array, self.buffers.buffer_for(array))

    def copy_into(self, source: Array, target: Array) -> None:
        """Copy an array's elements to another array, which nothing reads."""
        kernel = FusedKernel([leaf(source)])
        self.buffers.make_resident([*kernel.arrays, target])
        self.evaluate(kernel, [target])

    def buffer_of_result(self, array: Array) -> Buffer | None:
        """Return the memory of a new array; None where that need not be known before others see it."""
        is_known = self.buffers.scope.is_open or self.passes is not None
        return self.buffers.buffer_for(array) if is_known else None

    def try_enqueue(self, kernel: FusedKernel, outs: Sequence[Array]) -> bool:
        """Queue a pass in the stream of arrays that all lie on a device; tell whether they do."""
        stream = self.buffers.stream
        if not stream or self.engine != "cuda" or self.buffers.scope.listener is not None:
            return False
        addresses = [self.buffers.device_address_of(array) for array in (*outs, *kernel.arrays)]
        if 0 in addresses:
            return False
        program, values, layouts = kernel.bind_outputs(outs)
        own = iter(addresses)
        operands_on_device = [next(own) if type(value) is np.ndarray else value for value in values]
        forms = tuple([None if layout is None else layout[1] for layout in layouts])
        enqueue(kernel.function.name, program, outs[0].shape, forms, operands_on_device, stream)
        self.record_kernel(kernel.function.name, outs[0].shape, kernel.arrays, outs)
        return True

    def evaluate(self, kernel: FusedKernel, outs: Sequence[Array]) -> None:
        """Compute a pass into arrays of one shape that lie beside what it reads, or just where that does."""
        function, inputs = kernel.function, kernel.inputs
        program, values, layouts = kernel.bind_outputs(outs)
        shape, size = outs[0].shape, outs[0].size
        if self.engine != "auto":
            choice = requested_engine(function.name, self.engine)
        else:
            moved = sum(array.nbytes for array in kernel.arrays)
            self.costs.evaluated(program_cost.cpu_seconds(program, size, moved))
            choice = program_cost.choose(function.name, program, size, moved)
            if choice.engine == "numpy":
                out = outs[0] if len(outs) == 1 else tuple(outs)
                native_call.run_numpy(function.name, choice.reason, lambda: function.numpy(*inputs, out=out))
                self.record_kernel(function.name, shape, kernel.arrays, outs)
                return
            choice = (
                replace(choice, automatic=False)
                if choice.engine == "cuda" and self.buffers.written
                else choice
            )
        self.buffers.register([*kernel.arrays, *outs])
        works = prepared_programs(program)
        work = works.take()
        try:
            work.bind_strided(shape, values, layouts)
            if work.run(choice, size):
                work.report_fp_flags()
        finally:
            works.give_back(work)
        self.buffers.scope.count_kernel()
        self.record_kernel(function.name, shape, kernel.arrays, outs)

    @contextlib.contextmanager
    def keeping_results_resident(
        self, held_buffers: list[Buffer], results_stay_on_device: bool = False, refuse_numpy: bool = False
    ) -> Iterator[None]:
        """Have the device keep what calls in a block make, as long as `kept` is held.

        What they look at comes down. Results that `results_stay_on_device` are no part of others. Calls that are NumPy's
        after all raise where they are `left_home`.
        """
        if not self.buffers.scope.is_open:
            yield
            return

        def keep(array: Array) -> None:
            if array.dtype not in CODES:  # nothing will stand for it
                return
            buffer = self.buffers.buffer_for(array)
            buffer.make_resident(residency.TEMPORARY)
            held_buffers.append(buffer)

        def is_resident(array: Array) -> bool:
            buffer = self.buffers.buffer_of(array)
            return buffer is not None and buffer.is_resident

        hides = is_resident if results_stay_on_device else None
        with allocator.hooked(
            keep, self._sync_for_host_read, hides, refuse_numpy, not self.buffers.scope.is_async
        ):
            yield

    def _sync_for_host_read(self, array: Array, will_change: bool) -> None:
        """Bring the values of what is on the device to the host, where a function looks at them after all."""
        buffer = self.buffers.buffer_of(array)
        if buffer is not None:
            buffer.sync_to_host()
            if will_change:
                buffer.mark_host_dirty()

    def record_kernel(
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
        read, wrote = (tuple(dict.fromkeys(map(self.buffers.name_of, arrays))) for arrays in (reads, writes))
        if call is None or call is before:
            self.passes.append(PlanPass(function, "numpy", shape, read, wrote))
        else:
            figures = call.seconds, call.bytes_up, call.bytes_down
            self.passes.append(PlanPass(function, call.engine, shape, read, wrote, *figures, blocks))


def _is_deferred(node: Node | None) -> bool:
    return node is not None and node.array is None


def _reduce_same_values(one: ReduceOp | None, other: ReduceOp) -> bool:
    return one is not None and one.operand is other.operand and one.axes == other.axes


def _has_foreign_tracers(values: Any, trace: Any) -> bool:
    for value in values.values() if type(values) is dict else values:
        kind = type(value)
        if kind is Tracer:
            if value.owning_trace is not trace:
                return True
        elif kind in (tuple, list, dict) and value and _has_foreign_tracers(value, trace):
            return True
    return False


def iter_tracers(value: Any) -> Iterable[Tracer]:
    """Yield the tracers in tuples, lists and dicts."""
    kind = type(value)
    if kind is Tracer:
        yield value
    elif kind in (tuple, list):
        for part in value:
            yield from iter_tracers(part)
    elif kind is dict:
        for part in value.values():
            yield from iter_tracers(part)
