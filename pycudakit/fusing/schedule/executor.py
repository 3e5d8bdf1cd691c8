"""The executor of one fused call: runs the passes that compute deferred nodes.

Nodes, reductions among them, are deferred until a value is needed: by most views, by a write to an array
that they read, by Python, or by `return`. Then the graph of the needed nodes is scheduled (`passes.py`), and
the passes run one after the other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.device_launch import enqueue
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._families.reduce.multi_output import reduce_multi_output
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.engine_choice import requested_engine
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit.fusing.errstate import ErrstateSnapshot
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.buffers import BufferTable
from pycudakit.fusing.memory.nodes import Node, ReduceOp, leaf
from pycudakit.fusing.schedule.cost import Costs
from pycudakit.fusing.schedule.deferred import Deferred
from pycudakit.fusing.schedule.explain import PlanPass
from pycudakit.fusing.schedule.fused_kernel import FusedKernel, LoweredSchedule, TracedGraph, copy_of
from pycudakit.fusing.schedule.graph import Extent
from pycudakit.fusing.schedule.passes import MIN_REDUCED_BYTES, Reductions


class Executor:
    """Computes the deferred nodes of one call on the engine in force."""

    min_reduced_bytes = MIN_REDUCED_BYTES  # row tiles are tried if a reduction's operand has so many

    def __init__(self) -> None:
        self.engine = context.checked_current_engine()
        self.buffers = BufferTable()
        self.deferred = Deferred()
        self.costs = Costs()
        self.errstate = ErrstateSnapshot()
        self.begun_capture: Capture | None = None  # of a call that is to be replayed
        self.passes: list[PlanPass] | None = None  # recorded for `explain`
        self.numpy_seconds = 0.0  # of calls handed to NumPy
        self._last_numpy_seconds: float | None = None  # of the last call that was handed to NumPy
        # Computes nodes by row tiles, and returns whether it did.
        self.run_tiled: Callable[[Sequence[Node]], bool] = _cannot_tile

    @property
    def capture(self) -> Capture | None:
        """The capture of the call, unless it has given up."""
        capture = self.begun_capture
        return capture if capture is not None and capture.is_valid else None

    # ---- Nodes ---------------------------------------------------------------------------------------

    def flush_if_errstate_changed(self) -> None:
        """Compute all deferred nodes under the old error settings, if these have changed."""
        if self.errstate.has_changed():
            with self.errstate.previous_in_force():
                self.run(self.deferred.nodes())

    def compute(self, nodes: Iterable[Node], keep: bool = True) -> None:
        """Compute deferred nodes; keep the results on the device, or not."""
        self.flush_if_errstate_changed()
        self.run(nodes, keep)

    def compute_node(self, node: Node) -> None:
        """Compute a node, if it is deferred."""
        if node.array is None:
            self.run([node])

    def run(self, nodes: Iterable[Node], keep: bool = True, is_looked_at: bool = False) -> None:
        """Compute deferred nodes by the passes of their schedule, under the error settings of now."""
        left = list(dict.fromkeys([node for node in nodes if node.array is None]))
        while left:
            values, lowered = self._lower(left, is_looked_at=is_looked_at)
            is_done = self._run_passes(lowered, values, len(lowered.programs), () if keep else left)
            left = [] if is_done else [node for node in left if node.array is None]

    def kernel_into(self, nodes: Sequence[Node], stores_others: bool = True) -> FusedKernel:
        """Return the kernel that computes nodes of one shape into existing arrays.

        The passes that it depends on run now. These also store other live values, unless not `stores_others`.
        """
        if nodes[0].array is not None and len(nodes) == 1:
            return copy_of(nodes[0])
        while True:
            values, lowered = self._lower(nodes, is_written=True, stores_others=stores_others)
            count = len(lowered.programs) - 1
            program = lowered.programs[-1]
            assert program is not None  # noqa: S101
            if not count or self._run_passes(lowered, values, count):
                return FusedKernel(program, values)

    def _lower(
        self,
        nodes: Sequence[Node],
        is_written: bool = False,
        is_looked_at: bool = False,
        stores_others: bool = True,
    ) -> tuple[list[Any], LoweredSchedule]:
        """Return the nodes and numbers at a graph's indices, and the schedule that computes the nodes."""
        traced = TracedGraph(nodes, self.deferred.pending_reductions())
        extent = traced.needed
        if not stores_others:
            traced.add_live((), Extent.LATER)
            extent = Extent.NEEDED
        while True:
            if extent:
                traced.add_live(self.deferred.nodes(), extent)
            lowered = traced.lower(self.engine, self.min_reduced_bytes, is_written, is_looked_at)
            extent = lowered.schedule.needs
            if not extent:
                return traced.values(), lowered

    def _run_passes(
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
                self._run_reductions(nodes, kernel)
            elif kernel is not None:
                is_wanted = nodes[0] in wanted
                self._run_kernel(kernel, nodes, not is_wanted, is_wanted and index == count - 1)
            else:
                deferred = [each for each in values if type(each) is Node and each.array is None]
                if self.run_tiled(nodes) or any(each.array is not None for each in deferred):
                    return False
            for each in released if count > 1 else ():
                values[each] = None
        self.deferred.forget_computed()
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
        self.deferred.mark_read(nodes)
        for node, array, own in zip(nodes, new, buffers, strict=True):
            node.set_result(array, own)

    def _result_array(self, node: Node) -> Array:
        """Allocate an array for a node's values, in the memory order that NumPy would choose."""
        if node.order == "C":
            return allocator.empty(node.shape, node.dtype)
        return operands.allocate(node.dtype, node.shape, node.layout_arrays())

    # ---- Reductions ----------------------------------------------------------------------------------

    def _run_reductions(self, nodes: Sequence[Node], producer: FusedKernel | None) -> None:
        """Compute reductions of one operand along the same axes, and its kernel if any, in one pass."""
        reductions = [node.reduction for node in nodes if node.reduction is not None]
        source = reductions[0].operand
        operand = self._reduce_operand(source, producer)
        functions = [each.compute for each in reductions]
        held_buffers: list[Buffer] = []
        capture = self.capture
        if capture is not None:
            capture.add_memory([operand] if isinstance(operand, np.ndarray) else _arrays_of(operand))
        first = 0 if capture is None else capture.begin_reductions([each.name for each in reductions])
        with self.keeping_results_resident(held_buffers, results_stay_on_device=True):
            results = reduce_multi_output(functions, operand)
        arrays = [np.asarray(result) for result in results]
        if capture is not None:
            arrays = capture.reduced_arrays(first, arrays)
        self.deferred.mark_read(nodes)
        for node, array in zip(nodes, arrays, strict=True):
            node.set_result(array, self.buffer_of_result(array))
        self.deferred.forget_computed()
        if self.passes is not None:
            self._record_reductions(
                source, operand, reductions, [node.array for node in nodes if node.array is not None]
            )

    def _reduce_operand(self, node: Node, producer: FusedKernel | None) -> Array | FusedProducer:
        """Return the operand of reductions: an array, or a program for the reduction kernel to evaluate."""
        if producer is not None:
            self.deferred.mark_read(producer.nodes)
            self.buffers.make_resident(producer.arrays)
            return FusedProducer(producer.function, producer.inputs, node.dtype, node.result_layouts())
        assert node.array is not None  # noqa: S101
        self.buffers.make_resident([node.array])
        return node.array

    def _record_reductions(
        self, source: Node, operand: Any, reductions: Iterable[ReduceOp], results: Iterable[Any]
    ) -> None:
        names = ", ".join(reduction.name for reduction in reductions)
        if type(operand) is FusedProducer:
            reads = _arrays_of(operand)
            names = f"{operand.function.name}, {names}"
        else:
            reads = [operand]
        written = [array for array in results if isinstance(array, np.ndarray)]
        if self.passes is not None:
            for array in written:  # numbers, too, have the names by which later passes read them
                self.buffers.buffer_for(array)
        self.record_kernel(names, source.shape, reads, written)

    # ---- Kernels -------------------------------------------------------------------------------------

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
        self.deferred.mark_read(kernel.nodes)
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

    # ---- Records -------------------------------------------------------------------------------------

    def add_numpy_seconds(self, began: float, before: Any) -> None:
        """Add the time since a host call began to NumPy's, unless the call log has grown since `before`."""
        if native_call.last_record() is before:
            self._last_numpy_seconds = time.perf_counter() - began
            self.numpy_seconds += self._last_numpy_seconds

    def record_kernel(
        self,
        function: str,
        shape: tuple[int, ...],
        reads: Iterable[Array],
        writes: Iterable[Array],
        before: Any = None,
        blocks: int = 1,
    ) -> None:
        """Record the last call as a pass for `explain`.

        NumPy computed it if no library call was logged since `before`.
        """
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


def _cannot_tile(_: Sequence[Node]) -> bool:
    return False


def _arrays_of(operand: FusedProducer) -> list[Array]:
    return [each for each in operand.inputs if isinstance(each, np.ndarray)]
