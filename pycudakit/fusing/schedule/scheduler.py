"""Scheduler of one fused call: runs the passes that compute deferred nodes.

Nodes, reductions among them, are deferred until a value is needed: by most views, by a write to an array
that they read, by Python, or by `return`. Then the graph of the needed nodes is scheduled (`passes.py`), and
the passes run one after the other.
"""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs import program_cost
from pycudakit._element_programs.device_launch import enqueue
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._interop.pandas_objects import warn_of_performance
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.engine_choice import requested_engine
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.errstate import ErrstateSnapshot
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.graph_breaks import Break, break_at_caller
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.buffers import BufferTable
from pycudakit.fusing.memory.frame_tracer import traced_pandas
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, leaf, reads
from pycudakit.fusing.memory.pytree import map_tuples, tree_map
from pycudakit.fusing.memory.tracer import Tracer, TracerLife
from pycudakit.fusing.schedule.cost import Costs
from pycudakit.fusing.schedule.explain import PlanPass
from pycudakit.fusing.schedule.fused_kernel import FusedKernel, LoweredSchedule, TracedGraph, copy_of
from pycudakit.fusing.schedule.graph import Extent
from pycudakit.fusing.schedule.passes import Reductions

_COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
_MIN_DEFERRED = 64


class Scheduler:
    """The deferred nodes of one call, and the kernels that compute them.

    Subclasses define `run_reductions`, which computes reductions of one operand along the same axes, by the
    kernel that computes the operand or None, and `run_tiled`, which computes nodes by row tiles and returns
    whether it did.

    Parameters
    ----------
    name
        The function's name.
    strict
        Whether a graph break raises.
    """

    run_reductions: Callable[[Sequence[Node], FusedKernel | None], None]
    weak_scalars: Any  # the numbers that stand for Python's floats
    run_tiled: Callable[[Sequence[Node]], bool]
    min_reduced_bytes: int  # of a reduction's operand, from which row tiles are tried

    def __init__(self, name: str, strict: bool) -> None:
        self.name = name
        self.strict = strict
        self.engine = context.checked_current_engine()
        self.buffers = BufferTable()
        self.begun_capture: Capture | None = None  # of a call that is to be replayed
        # The body has returned or raised; tasks that it started may still hold tracers.
        self.has_ended = False
        self.breaks: list[Break] = []
        self.passes: list[PlanPass] | None = None  # recorded for `explain`
        self.costs = Costs()
        # Operations run at once on plain arrays: the call fell back to NumPy in the middle of the body, or
        # the body has ended and its results are computed.
        self.has_stopped_deferring = False
        self.argument_tracers: dict[int, Tracer] = {}  # by the id of the argument's array
        self.memmaps: dict[int, np.memmap[Any, Any]] = {}  # among the arguments, by the id of their tracers
        self._numpy_seconds = 0.0  # of calls handed to NumPy
        self._last_numpy_seconds: float | None = None  # of the last call that was handed to NumPy
        self._fell_back_at: float | None = None  # since then, NumPy runs the body
        self._handler_depth = 0  # of nested composite handlers
        self._has_scalars = False  # whether the body has got NumPy's scalars in place of tracers
        self.reductions: list[weakref.ref[Node]] = []  # deferred reductions
        self.waiting_on_reductions: list[weakref.ref[Node]] = []  # deferred broadcasts and views of them
        self._deferred: list[
            weakref.ref[Tracer]
        ] = []  # all deferred tracers, and some that are computed or dead
        self._max_deferred = _MIN_DEFERRED  # above this length the list is cleaned
        # Deferred operations that may warn and that no other operation reads. They are computed even if
        # nothing uses their results, as NumPy does.
        self.unread: dict[Node, None] = {}
        self.computes_unread = True  # unless nothing can warn
        self.errstate = ErrstateSnapshot()
        self.life: TracerLife | None = TracerLife()
        # Of the function: which instructions may reach memory past the trace; None if none does.
        self.analysis: Any = None
        self.outermost_code: Any = None  # of the frame that calls the body
        # Whether the code of a frame only computes with the float that it makes of a number.
        self.defers_float: Callable[[FrameType], bool] = _never
        self.has_pandas = False  # objects of pandas' are traced
        self._equal_indexes: dict[tuple[int, int], tuple[Any, Any, bool]] = {}  # pandas' that were compared
        self._has_warned_of_pandas = False

    @property
    def capture(self) -> Capture | None:
        """The capture of the call, unless it has given up."""
        capture = self.begun_capture
        return capture if capture is not None and capture.is_valid else None

    # ---- Tracers -----------------------------------------------------------------------------------

    def tracer_for(self, array: Array) -> Tracer:
        """Return a tracer of an array."""
        buffer = None
        if not self.has_stopped_deferring:
            array, buffer = self.buffers.latest(array, self.buffers.buffer_for(array))
        return Tracer(self, leaf(array, buffer))

    def memmap_of(self, tracer: Tracer) -> np.memmap[Any, Any] | None:
        """Return the argument that a tracer's array is a view of, if it is a memmap."""
        return self.memmaps.get(id(tracer.owner)) if self.memmaps else None

    def wrap(self, result: Any) -> Any:
        """Replace the arrays in the result of a called function by tracers."""
        if self.has_stopped_deferring:
            return result
        return tree_map(result, self._wrap_leaf)

    def _wrap_leaf(self, result: Any) -> Any:
        if type(result) is np.ndarray:
            return self.tracer_for(result) if result.dtype in CODES else result
        if issubclass(type(result), np.generic) and result.dtype in CODES:
            return Tracer(self, leaf(np.asarray(result)), True)
        return traced_pandas(self, result)

    def materialize(self, tracer: Tracer) -> Array:
        """Compute a tracer and return its array; the newest values may be on the device."""
        if tracer.node.array is None:
            self.compute([tracer])
        node = tracer.node
        array = node.array
        assert array is not None  # noqa: S101
        if node.buffer is None and not (tracer.is_scalar and not self.buffers.scope.is_open):
            node.set_buffer(self.buffers.buffer_for(array))
        return array

    def to_host(self, tracer: Tracer) -> Array:
        """Compute a tracer and return its array, with the values on the host."""
        if (capture := self.capture) is not None:
            capture.on_host_read()
        array = self.materialize(tracer)
        buffer = tracer.node.buffer
        if buffer is not None and buffer.double_buffer is not None:  # others read the caller's memory
            array = self.in_caller_memory(tracer)
            buffer = tracer.node.buffer
        if buffer is not None:
            buffer.sync_to_host()
        return array

    def in_caller_memory(self, tracer: Tracer) -> Array:
        """Compute a tracer and return its array; a double-buffered one is synced to the caller's buffer."""
        array = self.materialize(tracer)
        buffer = tracer.node.buffer
        if buffer is not None and buffer.double_buffer is not None:
            buffer.double_buffer.sync_to_caller()
            array = self.materialize(tracer)
        return array

    def array_if_on_host(self, tracer: Tracer) -> Array | None:
        """Return a tracer's array if its newest values are on the host, else None."""
        buffer = tracer.node.buffer
        is_on_device = buffer is not None and (buffer.is_resident or buffer.double_buffer is not None)
        return None if is_on_device else tracer.node.array

    def concretize(self, tracer: Tracer, operation: str) -> Array:
        """Return a tracer's values for Python: a graph break."""
        if self.has_stopped_deferring:
            return self.to_host(tracer)
        self.costs.graph_break()
        self.note_graph_break(operation)
        self.flush_if_errstate_changed()
        self._compute_for_python(tracer.node)
        return self.to_host(tracer)

    def truth_value(self, tracer: Tracer) -> bool:
        """Return a tracer's truth value, on which Python branches: a graph break.

        In a captured call, it is one of the outcomes by which replays find their path. Such a call is not
        strict: its function was traced without a graph break.
        """
        operation = "the truth value of an array, in `if` or `while`,"
        if self.capture is None or self.has_stopped_deferring or tracer.node.shape:
            return bool(self.concretize(tracer, operation))
        value = self.branches_on(tracer)
        self.note_graph_break(operation, is_replayed=True)
        return value

    def branches_on(self, condition: Any) -> bool:
        """Return a truth value on which a handler branches: a branch of a captured call, no graph break."""
        if type(condition) is not Tracer or self.capture is None or condition.node.shape:
            return bool(self.resolved(condition))
        array = self.looked_at(condition)
        if (capture := self.capture) is not None:
            capture.add_branch(array)
        return bool(array)

    def looked_at(self, tracer: Tracer) -> Array:
        """Compute a number that decides how a captured call goes on; return it, on the host."""
        self.flush_if_errstate_changed()
        self._compute([tracer.node], is_looked_at=True)
        array = self.materialize(tracer)
        if tracer.node.buffer is not None:
            tracer.node.buffer.sync_to_host()
        return array

    def _compute_for_python(self, node: Node) -> None:
        """Compute a value that Python looks at; NumPy compares numbers on the host, without a kernel."""
        function = node.function
        is_comparison = function is not None and function.name in _COMPARISONS and not node.shape
        if function is None or not is_comparison or node.options is not DEFAULT_OPTIONS:
            self._compute([node], is_looked_at=True)
            return
        for each in node.arguments:
            if type(each) is Node:
                self._compute([each], is_looked_at=True)
                if each.buffer is not None and each.buffer.is_resident:
                    return
        values = [each.array if type(each) is Node else each for each in node.arguments]
        node.set_result(np.asarray(function.numpy(*values)))

    def note_graph_break(self, operation: str, instead: str = "", is_replayed: bool = False) -> None:
        """Record a graph break at the caller's line; raise under `strict`.

        If it `is_replayed`, it begins a segment of a captured call; else that call cannot be replayed.
        """
        graph_break = break_at_caller(operation, instead)
        self.breaks.append(graph_break)
        if is_replayed and self.capture is not None:
            self.capture.breaks.append(graph_break)
        else:
            self.mark_not_replayable()
        if self.strict:
            raise errors.Unsupported(f"{self.name}: {graph_break}")

    def mark_not_replayable(self) -> None:
        """Note that NumPy, or code outside of the trace, computes or writes."""
        if (capture := self.capture) is not None:
            capture.mark_not_replayable()

    def resolve_foreign_tracers(self, values: Any) -> Any:
        """Replace the tracers of other fused calls by their arrays."""
        if not _has_foreign_tracers(values, self):
            return values

        def resolve_foreign(value: Any) -> Any:
            is_own = type(value) is not Tracer or value.owning_trace is self
            return value if is_own else self.resolved(value)

        return tree_map(values, resolve_foreign)

    def resolved(self, value: Any) -> Any:
        """Replace all tracers in a value by their arrays, on the host."""
        kind = type(value)
        if kind is Tracer:
            if value.owning_trace is not self:  # the other trace resolves its own tracers
                return value if self.has_ended else value.owning_trace.resolved(value)
            array = value.node.array if self.has_stopped_deferring else None
            if array is None:
                array = self.to_host(value)
            if not value.is_scalar:
                return array
            number = self.weak_scalars.get(value.node)
            return array[()] if number is None else number
        if kind is tuple or kind is list:
            return kind(self.resolved(part) for part in value)
        if kind is dict:
            return {key: self.resolved(part) for key, part in value.items()}
        if kind is slice:
            return slice(*(self.resolved(part) for part in (value.start, value.stop, value.step)))
        if issubclass(kind, LazyPandas):
            return value.resolved()
        return map_tuples(value, self.resolved) if issubclass(kind, tuple) else value

    # ---- pandas ---------------------------------------------------------------------------------------

    def are_equal_indexes(self, one: Any, other: Any) -> bool:
        """Return True if two indexes of pandas' are equal; they are compared once a call."""
        key = id(one), id(other)
        if key not in self._equal_indexes:
            self._equal_indexes[key] = one, other, bool(one.equals(other))
        return self._equal_indexes[key][2]

    def warn_of_pandas(self, message: str) -> None:
        """Warn, once a call, that pandas computes an operation."""
        if not self._has_warned_of_pandas:
            self._has_warned_of_pandas = True
            warn_of_performance(
                f"{self.name}: {message}; to compute by position, pass the values: .to_numpy()"
            )

    # ---- Deferred ------------------------------------------------------------------------------------

    def defer(self, value: Tracer) -> Tracer:
        """Register a deferred tracer."""
        self._deferred.append(weakref.ref(value))
        if len(self._deferred) > self._max_deferred:
            self._max_deferred = max(_MIN_DEFERRED, 2 * len(self.deferred()))
        return value

    def drop(self, value: Tracer) -> None:
        """Forget a deferred tracer whose operation has raised."""
        self._deferred = [ref for ref in self._deferred if ref() is not value]
        self.unread.pop(value.node, None)

    def deferred(self) -> list[Tracer]:
        """Return the deferred tracers that are still alive, and new ones for operations that may warn."""
        tracers: list[Tracer] = []
        still_deferred = []
        for ref in self._deferred:
            tracer = ref()
            if tracer is not None and tracer.node.array is None:
                tracers.append(tracer)
                still_deferred.append(ref)
        self._deferred = still_deferred
        if self.unread:
            nodes = {tracer.node for tracer in tracers}
            self.unread = {node: None for node in self.unread if node.array is None}
            tracers += [Tracer(self, node, not node.shape) for node in self.unread if node not in nodes]
        return tracers

    def mark_unread(self, node: Node, operands: Iterable[Node], may_warn: bool) -> None:
        """Note that no operation reads a new node yet, and that this one reads its operands."""
        unread = self.unread
        if not self.computes_unread:
            return
        if unread:
            for operand in operands:
                if operand in unread:
                    del unread[operand]
                    may_warn = True  # the operand, which is computed together with the node
        if may_warn:
            unread[node] = None

    def mark_read(self, nodes: Iterable[Node]) -> None:
        """Note that a kernel reads or computes these nodes."""
        if self.unread:
            for node in nodes:
                self.unread.pop(node, None)

    def fall_back_if_slow(self) -> bool:
        """Fall back to NumPy for the rest of the call if tracing is far slower; return True if it has.

        From then on, results are plain arrays, not tracers. A composite handler that has begun is traced to
        its end.
        """
        is_late = self.begun_capture is not None and self.begun_capture.is_late
        is_automatic = self.engine == "auto" or is_late
        if self.has_stopped_deferring or not is_automatic or self.strict or self.passes is not None:
            return self.has_stopped_deferring
        if self._handler_depth:
            return False
        if is_late or self.costs.is_far_slower_than_numpy:
            self.has_stopped_deferring = True
            self._fell_back_at = time.perf_counter()
            self.compute(self.deferred())
            self.buffers.end_double_buffering()
        return self.has_stopped_deferring

    def add_numpy_seconds(self, began: float, before: Any) -> None:
        """Add the time since a host call began to NumPy's, unless the call log has grown since `before`."""
        if native_call.last_record() is before:
            self._last_numpy_seconds = time.perf_counter() - began
            self._numpy_seconds += self._last_numpy_seconds

    def numpy_seconds(self) -> float:
        """Return the time in NumPy until now: of calls handed to it, and of a body that it took over."""
        if self._fell_back_at is None:
            return self._numpy_seconds
        return self._numpy_seconds + time.perf_counter() - self._fell_back_at

    def run_handler(self, handler: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call a handler of a composite function, without falling back to NumPy inside it."""
        self._handler_depth += 1
        try:
            return handler(*arguments, **keywords)
        finally:
            self._handler_depth -= 1

    def flush_if_errstate_changed(self) -> None:
        """Compute all deferred nodes under the old error settings, if these have changed."""
        if self.errstate.has_changed():
            with self.errstate.previous_in_force():
                self._compute([tracer.node for tracer in self.deferred()])

    def before_write(self, buffer: Buffer) -> None:
        """Prepare a buffer for a write by NumPy: compute its deferred readers, and mark it as written."""
        self.mark_not_replayable()
        self.compute_readers(buffer)
        if buffer.double_buffer is not None:
            buffer.double_buffer.mark_all_written()
        self.buffers.mark_written(buffer)

    def compute_readers(self, buffer: Buffer, except_node: Node | None = None) -> None:
        """Compute the deferred nodes that read a buffer."""
        deferred = [tracer for tracer in self.deferred() if tracer.node is not except_node]
        if deferred and reads(buffer, [tracer.node for tracer in deferred]):
            self.compute([t for t in deferred if reads(buffer, [t.node])])

    def returned(self, result: Any) -> Any:
        """Return the result of an operation to the caller's code, which was analysed.

        Operations pending on reachable memory are computed if that code may now reach it past the trace, and
        a number that it may use otherwise than a tracer becomes NumPy's scalar.
        """
        if self._handler_depth or self.has_stopped_deferring or self.has_ended:
            return result
        analysis, frame = self.analysis, sys._getframe(2)  # noqa: SLF001
        self._flush_before_a_risk(frame)
        kind = type(result)
        if kind is Tracer:
            if not result.is_scalar:
                return result
        elif kind is not list and not issubclass(kind, tuple):
            return result
        why = analysis.why_concrete(frame, self.outermost_code)
        if not why:
            return result
        had_numbers, result = self._has_scalars, tree_map(result, lambda part: self._as_scalar(part, why))
        if self._has_scalars and not had_numbers:  # whose operations are not recorded
            self._flush_before_a_risk(frame)
        return result

    def _flush_before_a_risk(self, frame: FrameType) -> None:
        analysis = self.analysis
        if analysis.has_risks and analysis.is_risk_ahead(frame, self.outermost_code, self._has_scalars):
            self.flush()

    def _as_scalar(self, value: Any, why: str) -> Any:
        """Return NumPy's scalar for the tracer of a number."""
        if type(value) is not Tracer or not value.is_scalar:
            return value
        if self.array_if_on_host(value) is None:
            self.concretize(value, f"a number, since {why},")
        self._has_scalars = True
        return self.resolved(value)

    def flush(self) -> None:
        """Compute the operations pending on memory that outside code can reach, and let writes land."""
        pending = [tracer for tracer in self.deferred() if tracer.node.reads_reachable_memory()]
        if pending:
            self.compute(pending)
        self.buffers.sync_arguments()

    def forget_tracers(self) -> Callable[[], bool]:
        """Drop the trace's own references to tracers; return a function that tells whether any is alive."""
        life = weakref.ref(self.life) if self.life is not None else lambda: None
        self.life = None
        self.argument_tracers.clear()
        return lambda: life() is not None

    def finish(self, values: Sequence[Tracer]) -> None:
        """Compute the results of the call and all other live tracers; sync them to the caller's memory."""
        self.compute([*values, *self.deferred()], keep=False)
        self.buffers.end_double_buffering()
        for value in values:
            self.materialize(value)
        self.buffers.sync_all_to_caller()

    # ---- Kernels -------------------------------------------------------------------------------------

    def compute(self, tracers: Iterable[Tracer], keep: bool = True) -> None:
        """Compute deferred tracers; keep the results on the device, or not."""
        self.flush_if_errstate_changed()
        self._compute([tracer.node for tracer in tracers], keep)

    def compute_node(self, node: Node) -> None:
        """Compute a node, if it is deferred."""
        if node.array is None:
            self._compute([node])

    def _compute(self, nodes: Iterable[Node], keep: bool = True, is_looked_at: bool = False) -> None:
        """Compute deferred nodes by the passes of their schedule."""
        left = list(dict.fromkeys([node for node in nodes if node.array is None]))
        while left:
            values, lowered = self._lower(left, is_looked_at=is_looked_at)
            is_done = self._run(lowered, values, len(lowered.programs), () if keep else left)
            left = [] if is_done else [node for node in left if node.array is None]

    def kernel_into(self, nodes: Sequence[Node], stores_others: bool = True) -> FusedKernel:
        """Return the kernel that computes nodes of one shape into existing arrays; run the passes before it.

        These also store other live values, unless not `stores_others`.
        """
        if nodes[0].array is not None and len(nodes) == 1:
            return copy_of(nodes[0])
        while True:
            values, lowered = self._lower(nodes, is_written=True, stores_others=stores_others)
            count = len(lowered.programs) - 1
            program = lowered.programs[-1]
            assert program is not None  # noqa: S101
            if not count or self._run(lowered, values, count):
                return FusedKernel(program, values)

    def _lower(
        self,
        nodes: Sequence[Node],
        is_written: bool = False,
        is_looked_at: bool = False,
        stores_others: bool = True,
    ) -> tuple[list[Any], LoweredSchedule]:
        """Return the nodes and numbers at a graph's indices, and the schedule that computes the nodes."""
        reductions = [each for ref in self.reductions if (each := ref()) is not None]
        traced = TracedGraph(nodes, reductions)
        extent = traced.needed
        if not stores_others:
            traced.add_live((), Extent.LATER)
            extent = Extent.NEEDED
        while True:
            if extent:
                traced.add_live([tracer.node for tracer in self.deferred()], extent)
            lowered = traced.lower(self.engine, self.min_reduced_bytes, is_written, is_looked_at)
            extent = lowered.schedule.needs
            if not extent:
                return traced.values(), lowered

    def _run(
        self, lowered: LoweredSchedule, values: list[Any], count: int, wanted: Sequence[Node] = ()
    ) -> bool:
        """Run the first passes of a schedule; return False if row tiles have computed more than one of them.

        The `wanted` values are not kept on the device, and the inputs of the last kernel, if it computes some
        of them, are not made resident: nothing else will read them.
        """
        planned = lowered.schedule
        passes = zip(planned.passes, lowered.programs, planned.recomputed, planned.released, strict=True)
        for index, (one, program, recomputed, released) in zip(range(count), passes, strict=False):
            for each in recomputed:
                values[each].recomputations += 1
            nodes = [values[each] for each in one.outputs]
            kernel = None if program is None else FusedKernel(program, values)
            if isinstance(one, Reductions):
                self.run_reductions(nodes, kernel)
            elif kernel is not None:
                is_wanted = nodes[0] in wanted
                self._run_kernel(kernel, nodes, not is_wanted, is_wanted and index == count - 1)
            else:
                deferred = [each for each in values if type(each) is Node and each.array is None]
                if self.run_tiled(nodes) or any(each.array is not None for each in deferred):
                    return False
            for each in released if count > 1 else ():
                values[each] = None
        if self.waiting_on_reductions:
            self.waiting_on_reductions = [ref for ref in self.waiting_on_reductions if _is_deferred(ref())]
        return True

    def _run_kernel(self, kernel: FusedKernel, nodes: Sequence[Node], keep: bool, is_last: bool) -> None:
        """Run the kernel of nodes, into new arrays."""
        if not is_last:
            self.buffers.make_resident(kernel.arrays)
        new = [self._result_array(node) for node in nodes]
        buffers = [self.buffer_of_result(array) for array in new]
        for buffer in buffers if keep else ():
            if buffer is not None:
                buffer.make_resident(residency.TEMPORARY)
        self.evaluate(kernel, new)
        self.mark_read(nodes)
        for node, array, own in zip(nodes, new, buffers, strict=True):
            node.set_result(array, own)

    def _result_array(self, node: Node) -> Array:
        """Allocate an array for a node's values, in the memory order that NumPy would choose."""
        if node.order == "C":
            return allocator.empty(node.shape, node.dtype)
        return operands.allocate(node.dtype, node.shape, node.layout_arrays())

    def compute_into(self, nodes: Sequence[Node], arrays: Sequence[Array]) -> None:
        """Compute nodes of one shape by one kernel, into arrays that no deferred node reads."""
        self.flush_if_errstate_changed()
        kernel = self.kernel_into(nodes, stores_others=False)
        if arrays[0].size and not self.try_enqueue(kernel, arrays):
            self.buffers.make_resident([*kernel.arrays, *arrays])
            self.evaluate(kernel, arrays)
        for node, array in zip(nodes, arrays, strict=True):
            node.set_result(array, self.buffers.buffer_for(array))

    def copy_into(self, source: Array, target: Array) -> None:
        """Copy an array's elements to an array that no deferred node reads."""
        kernel = copy_of(leaf(source))
        self.buffers.make_resident([*kernel.arrays, target])
        self.evaluate(kernel, [target])

    def buffer_of_result(self, array: Array) -> Buffer | None:
        """Return the buffer of a new array; None if the table does not need it yet."""
        is_known = self.buffers.scope.is_open or self.passes is not None
        return self.buffers.buffer_for(array) if is_known else None

    def try_enqueue(self, kernel: FusedKernel, outs: Sequence[Array]) -> bool:
        """Enqueue a kernel in the stream of its arrays, if all are on the device; return True if so."""
        stream = self.buffers.stream
        if not stream or self.engine != "cuda" or self.buffers.scope.listener is not None:
            return False
        addresses = [self.buffers.device_address_of(array) for array in (*outs, *kernel.arrays)]
        if 0 in addresses:
            return False
        program, values, layouts = kernel.bind_outputs(outs)
        device_addresses = iter(addresses)
        operands_on_device = [
            next(device_addresses) if type(value) is np.ndarray else value for value in values
        ]
        forms = tuple([None if layout is None else layout[1] for layout in layouts])
        enqueue(kernel.function.name, program, outs[0].shape, forms, operands_on_device, stream)
        self.record_kernel(kernel.function.name, outs[0].shape, kernel.arrays, outs)
        return True

    def evaluate(self, kernel: FusedKernel, outs: Sequence[Array]) -> None:
        """Run one fused kernel. Each output either does not overlap the inputs, or is exactly one of them."""
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
            choice = (  # no fallback from CUDA once the caller's arrays were written to
                replace(choice, automatic=False)
                if choice.engine == "cuda" and self.buffers.written
                else choice
            )
        self.mark_read(kernel.nodes)
        self.buffers.register([*kernel.arrays, *outs])
        if (capture := self.capture) is not None:
            capture.add_memory([*kernel.arrays, *outs])
        pool = prepared_programs(program)
        work = pool.take()
        try:
            work.bind_strided(shape, values, layouts)
            if work.run(choice, size):
                work.report_fp_flags()
        finally:
            pool.give_back(work)
        self.buffers.scope.count_kernel()
        self.record_kernel(function.name, shape, kernel.arrays, outs)

    @contextlib.contextmanager
    def keeping_results_resident(
        self, held_buffers: list[Buffer], results_stay_on_device: bool = False, refuse_numpy: bool = False
    ) -> Iterator[None]:
        """Keep the results of the calls in a block on the device, as long as `held_buffers` is alive.

        Values that a call reads on the host are downloaded. With `results_stay_on_device`, results are not
        downloaded unless a call reads them explicitly. With `refuse_numpy`, calls raise instead of falling
        back to NumPy.
        """
        if not self.buffers.scope.is_open:
            yield
            return

        def keep(array: Array) -> None:
            if array.dtype not in CODES:  # it gets no tracer
                return
            buffer = self.buffers.buffer_for(array)
            buffer.make_resident(residency.TEMPORARY)
            held_buffers.append(buffer)

        def is_resident(array: Array) -> bool:
            buffer = self.buffers.buffer_of(array)
            return buffer is not None and buffer.is_resident

        may_stay_on_device = is_resident if results_stay_on_device else None
        with allocator.hooked(
            keep, self.sync_for_host_read, may_stay_on_device, refuse_numpy, not self.buffers.scope.is_async
        ):
            yield

    def sync_for_host_read(self, array: Array, will_change: bool) -> None:
        """Download an array's values for a function that reads them on the host."""
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
        """Record the last call as a pass for `explain`; NumPy made it if the call log ends with `before`."""
        if self.passes is None:
            return
        record = native_call.last_record()
        read, wrote = (tuple(dict.fromkeys(map(self.buffers.name_of, arrays))) for arrays in (reads, writes))
        if record is None or record is before:
            self.passes.append(PlanPass(function, "numpy", shape, read, wrote, self._last_numpy_seconds))
        else:
            call = native_call.as_call(record)
            figures = call.seconds, call.bytes_up, call.bytes_down
            self.passes.append(PlanPass(function, call.engine, shape, read, wrote, *figures, blocks))


def _never(_: Any) -> bool:
    return False


def _is_deferred(node: Node | None) -> bool:
    return node is not None and node.array is None


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
    elif kind is list or issubclass(kind, tuple):
        for part in value:
            yield from iter_tracers(part)
    elif kind is dict:
        for part in value.values():
            yield from iter_tracers(part)
