"""The values of a trace: tracers of arrays, and how Python gets at them.

Python reads a value by a graph break, which computes the nodes that it needs. Under `auto`, a trace that is
far slower than NumPy leaves the rest of the body to NumPy.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.pandas_objects import warn_of_performance
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.graph_breaks import Break, break_at_caller
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.frame_tracer import traced_pandas
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, leaf, reads
from pycudakit.fusing.memory.pytree import map_tuples, tree_map
from pycudakit.fusing.memory.tracer import Tracer, TracerLife
from pycudakit.fusing.schedule.executor import Executor
from pycudakit.fusing.schedule.tile_rows import RowTiler
from pycudakit.fusing.trace.loop_variables import LoopVariables, loop_variables

_COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})


class TracedValues:
    """The tracers of one call, whose deferred nodes an executor computes.

    Parameters
    ----------
    name
        The function's name.
    strict
        Whether a graph break raises.
    """

    weak_scalars: Any  # the numbers that stand for Python's floats

    def __init__(self, name: str, strict: bool) -> None:
        self.name = name
        self.strict = strict
        self.executor = executor = Executor()
        self.row_tiler = RowTiler(executor)
        self.engine, self.costs, self.errstate = executor.engine, executor.costs, executor.errstate
        self.buffers, self.deferred = executor.buffers, executor.deferred
        # The body has returned or raised; tasks that it started may still hold tracers.
        self.has_ended = False
        self.breaks: list[Break] = []
        # Operations run at once on plain arrays: the call fell back to NumPy in the middle of the body, or
        # the body has ended and its results are computed.
        self.has_stopped_deferring = False
        self.argument_tracers: dict[int, Tracer] = {}  # by the id of the argument's array
        self.memmaps: dict[int, np.memmap[Any, Any]] = {}  # among the arguments, by the id of their tracers
        self._fell_back_at: float | None = None  # since then, NumPy runs the body
        self._handler_depth = 0  # of nested composite handlers
        self._has_scalars = False  # whether the body has got NumPy's scalars in place of tracers
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
        return self.executor.capture

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
            self.executor.compute([tracer.node])
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
        self.executor.flush_if_errstate_changed()
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
        value = self.branches_on(tracer, loop_variables(self.outermost_code))
        self.note_graph_break(operation, is_replayed=True)
        return value

    def branches_on(self, condition: Any, variables: LoopVariables | None = None) -> bool:
        """Return a truth value on which a handler branches: a branch of a captured call, no graph break.

        The `variables` are the function's, if it is the function that branches.
        """
        if type(condition) is not Tracer or self.capture is None or condition.node.shape:
            return bool(self.resolved(condition))
        growing = [] if variables is None else variables.growing_nodes(self.capture.deferred_steps)
        array = self.looked_at(condition)
        if growing:
            self.executor.run(growing)
        if (capture := self.capture) is not None:
            capture.add_branch(array, None if variables is None else variables.state)
        return bool(array)

    def looked_at(self, tracer: Tracer) -> Array:
        """Compute a number that decides how a captured call goes on; return it, on the host."""
        self.executor.flush_if_errstate_changed()
        self.executor.run([tracer.node], is_looked_at=True)
        array = self.materialize(tracer)
        if tracer.node.buffer is not None:
            tracer.node.buffer.sync_to_host()
        return array

    def _compute_for_python(self, node: Node) -> None:
        """Compute a value that Python looks at; NumPy compares numbers on the host, without a kernel."""
        function = node.function
        is_comparison = function is not None and function.name in _COMPARISONS and not node.shape
        if function is None or not is_comparison or node.options is not DEFAULT_OPTIONS:
            self.executor.run([node], is_looked_at=True)
            return
        for each in node.arguments:
            if type(each) is Node:
                self.executor.run([each], is_looked_at=True)
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

    # ---- NumPy and code outside of the trace ---------------------------------------------------------

    def fall_back_if_slow(self) -> bool:
        """Fall back to NumPy for the rest of the call if tracing is far slower; return True if it fell back.

        From then on, results are plain arrays, not tracers. A composite handler that has begun is traced to
        its end.
        """
        capture = self.executor.begun_capture
        is_late = capture is not None and capture.is_out_of_time()
        is_automatic = self.engine == "auto" or is_late
        if self.has_stopped_deferring or not is_automatic or self.strict or self.executor.passes is not None:
            return self.has_stopped_deferring
        if self._handler_depth:
            return False
        if is_late or self.costs.is_far_slower_than_numpy:
            self.has_stopped_deferring = True
            self._fell_back_at = time.perf_counter()
            self.executor.compute(self.deferred.nodes())
            self.buffers.end_double_buffering()
        return self.has_stopped_deferring

    def numpy_seconds(self) -> float:
        """Return the time in NumPy until now: of calls handed to it, and of a body that it took over."""
        if self._fell_back_at is None:
            return self.executor.numpy_seconds
        return self.executor.numpy_seconds + time.perf_counter() - self._fell_back_at

    def run_handler(self, handler: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call a handler of a composite function, without falling back to NumPy inside it."""
        self._handler_depth += 1
        try:
            return handler(*arguments, **keywords)
        finally:
            self._handler_depth -= 1

    def before_write(self, buffer: Buffer) -> None:
        """Prepare a buffer for a write by NumPy: compute its deferred readers, and mark it as written."""
        self.mark_not_replayable()
        self.compute_readers(buffer)
        if buffer.double_buffer is not None:
            buffer.double_buffer.mark_all_written()
        self.buffers.mark_written(buffer)

    def compute_readers(self, buffer: Buffer, except_node: Node | None = None) -> None:
        """Compute the deferred nodes that read a buffer."""
        deferred = [node for node in self.deferred.nodes() if node is not except_node]
        if deferred and reads(buffer, deferred):
            self.executor.compute([node for node in deferred if reads(buffer, [node])])

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
        pending = [node for node in self.deferred.nodes() if node.reads_reachable_memory()]
        if pending:
            self.executor.compute(pending)
        self.buffers.sync_arguments()

    def forget_tracers(self) -> Callable[[], bool]:
        """Drop the trace's own references to tracers; return a function that tells whether any is alive."""
        life = weakref.ref(self.life) if self.life is not None else lambda: None
        self.life = None
        self.argument_tracers.clear()
        return lambda: life() is not None

    def finish(self, values: Sequence[Tracer]) -> None:
        """Compute the results of the call and all other live tracers; sync them to the caller's memory."""
        self.executor.compute([*(value.node for value in values), *self.deferred.nodes()], keep=False)
        self.buffers.end_double_buffering()
        for value in values:
            self.materialize(value)
        self.buffers.sync_all_to_caller()


def _never(_: Any) -> bool:
    return False


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
