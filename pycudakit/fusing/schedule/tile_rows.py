"""Row tiling of several kernels: all kernels run on one tile of rows before the next tile starts.

Functions that reduce within rows, such as a softmax of each row, need several kernels over the same rows. If
all of them run on one tile first, each finds its input in the cache, and intermediate results need memory for
one tile only (loop tiling with producer-consumer fusion, as in Halide).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import report_instruction_flags
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, cost_model
from pycudakit._runtime.native_call import CallRecord, function_of, log_composite_call
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.nodes import Node, reads
from pycudakit.fusing.memory.residency import TO_THE_HOST
from pycudakit.fusing.schedule.executor import Executor
from pycudakit.fusing.schedule.row_shards import RowShard, run_shards
from pycudakit.fusing.schedule.row_tiling import ScheduledKernel, TiledGroup

_MIN_SIZE_RATIO = 16  # the operand of a reduction of rows has so many times the elements of a node, or more
# Bytes that a tile's kernels touch: about the size of a core's L2 cache. If that gives few tiles per thread,
# they are made smaller, for load balance.
_TILE_BYTES, _MIN_TILE_BYTES, _TILES_PER_THREAD, _MIN_TILES_PER_THREAD = 1 << 20, 256 << 10, 8, 2
# Bytes of all rows, in total and per thread, from which tiling is worth its overhead.
_MIN_BYTES, _MIN_BYTES_PER_THREAD, _MAX_THREADS = 12 << 20, 2 << 20, 16
# With so many threads and arrays of this size, memory bandwidth is the limit.
_MANY_THREADS, _LARGE_BYTES = 8, 256 << 20
# The largest tile on a device, in bytes.
_DEVICE_TILE_BYTES = 256 << 20


class RowTiler:
    """Runs kernels over the same rows tile by tile, for the executor of a call."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._buffers, self._deferred = executor.buffers, executor.deferred
        executor.run_tiled = self.run

    def depends_on_row_reductions(self, node: Node) -> bool:
        """Return True if a node depends on deferred reductions of much longer rows than its own."""
        deferred = self._deferred
        has_any = bool(deferred.reductions or deferred.waiting_on_reductions)
        if not has_any or not node.shape or node.shape[0] < 2:
            return False
        min_bytes = self._executor.min_reduced_bytes
        return any(
            n.reduction is not None
            and 0 not in n.reduction.axes
            and n.reduction.operand.shape[:1] == node.shape[:1]
            and n.reduction.operand.size >= _MIN_SIZE_RATIO * node.size
            and n.reduction.operand.nbytes >= min_bytes
            for n in node.ancestors()
        )

    def run(self, nodes: Sequence[Node]) -> bool:
        """Compute nodes by row tiles, if they need several kernels over the same rows; return True if so."""
        nodes = [node for node in nodes if node.array is None]
        return bool(nodes) and self._run(nodes)

    def write(self, array: Array, buffer: Buffer, value: Node) -> bool:
        """Write a deferred value to an array by row tiles, with the deferred readers of its old values."""
        is_simple = not value.is_fusion_barrier and value.shape == array.shape and value.dtype == array.dtype
        if not (self._deferred.reductions and is_simple and buffer.double_buffer is None):
            return False
        deferred = dict.fromkeys(self._deferred.nodes())
        readers = [node for node in deferred if node is not value and reads(buffer, [node])]
        return self._run([*readers, value], array, buffer)

    def _run(self, nodes: Sequence[Node], written: Array | None = None, buffer: Buffer | None = None) -> bool:
        if not self._may_tile():
            return False
        group = self._group_of(nodes, written)
        rows = 0 if group is None else self._rows_per_tile(group)
        full_kernels = None if group is None or not rows else group.kernels(0, group.rows)
        if group is None or full_kernels is None:
            return False
        if self._executor.engine != "cuda" and not _pays_off(group):
            return False
        if self._executor.engine == "auto" and any(
            _runs_on_other_engine(kernel, full_kernels) for kernel in full_kernels
        ):
            return False
        if buffer is not None:
            self._buffers.mark_written(buffer)
        return self._run_group(group, full_kernels, rows)

    def _may_tile(self) -> bool:
        min_bytes = self._executor.min_reduced_bytes
        reductions = [node.reduction for node in self._deferred.pending_reductions()]
        if not any(r and 0 not in r.axes and r.operand.nbytes >= min_bytes for r in reductions):
            return False
        if context.current_context.get().progress is not None:  # progress is reported kernel by kernel
            return False
        if self._executor.engine != "cuda":
            return True
        gpus, scope = context.current_devices(), self._buffers.scope  # the body may have chosen the devices
        return not self._buffers.stream and (gpus == (scope.device,) if scope.is_open else len(gpus) > 1)

    def _group_of(self, nodes: Sequence[Node], written: Array | None) -> TiledGroup | None:
        """Compute the untiled inputs of nodes, and return their tiled group; None if tiling is useless."""
        rows = nodes[0].shape[0] if nodes[0].shape else 0
        if rows < 2 or any(node.shape[:1] != (rows,) for node in nodes):
            return None
        last = nodes[-1]
        while last.array is None:
            group = TiledGroup([node for node in nodes if node.array is None], self._executor.engine, written)
            untiled = group.untiled_inputs()
            if not group.needs_several_kernels() or untiled is None or not group.may_write_in_place():
                return None
            if not untiled:
                return group
            if group.targets == [last] and last in untiled:  # it cannot be tiled itself
                return None
            for node in untiled:  # the remaining nodes may depend on it
                self._executor.compute_node(node)
        return None

    def _rows_per_tile(self, group: TiledGroup) -> int:
        """Return the rows of a tile; 0 if the whole group fits, or not even one row does."""
        row_bytes = group.bytes_per_row()
        if self._executor.engine == "cuda":
            budget, has_scope = residency.budget(), self._buffers.scope.is_open
            max_bytes = budget // 2 if budget or has_scope else _DEVICE_TILE_BYTES
            fitting, fits_whole = (
                min(max_bytes, _DEVICE_TILE_BYTES) // row_bytes,
                has_scope and budget >= row_bytes * group.rows,
            )
        else:
            size, threads = row_bytes * group.rows, cost_model.threads()
            fitting = (
                min(_TILE_BYTES, max(size // (_TILES_PER_THREAD * threads), _MIN_TILE_BYTES)) // row_bytes
            )
            min_bytes = _MIN_BYTES + _MIN_BYTES_PER_THREAD * min(threads, _MAX_THREADS)
            fits_whole = size < min_bytes or group.rows < _MIN_TILES_PER_THREAD * threads * fitting
        if fits_whole or not fitting:
            return 0
        blocks = -(-group.rows // fitting)
        equal_counts = (count for count in range(blocks, 2 * blocks) if group.rows % count == 0)
        return -(-group.rows // next(equal_counts, blocks))  # tiles of equal size, if possible

    def _run_group(self, group: TiledGroup, full_kernels: Sequence[ScheduledKernel], rows: int) -> bool:
        """Run the kernels over tiles of `rows` rows; return False if that is impossible."""
        is_on_gpus = self._executor.engine == "cuda" and not self._buffers.scope.is_open
        gpus = context.current_devices() if is_on_gpus else (0,)
        ends = [group.rows * i // len(gpus) for i in range(len(gpus) + 1)]
        shards = [RowShard(group, start, stop, rows) for start, stop in pairwise(ends) if start < stop]
        if not all(shard.can_run for shard in shards):
            return False
        results = [self._buffers.buffer_for(array) for array in group.results.values()]  # also names them
        for shard in shards:
            shard.find_tile_ranges(self._buffers, results)
        if len(shards) == 1:
            calls = [shards[0].run(self._buffers.scope)]
        else:
            calls, self._buffers.scope.peak_resident_bytes = run_shards(shards, gpus)
        self._record_tiles(group, full_kernels, shards, calls)
        self._deferred.mark_read(group.results)
        for node, result in group.results.items():
            if node.array is None and node.view is None and result is not group.output:
                node.set_result(result, self._buffers.buffer_for(result))
        self._deferred.forget_computed()
        return True

    def _record_tiles(
        self,
        group: TiledGroup,
        full_kernels: Sequence[ScheduledKernel],
        shards: Sequence[RowShard],
        calls: Sequence[Sequence[CallRecord]],
    ) -> None:
        """Log the tiles' calls as one call for each kernel, and report their floating-point flags."""
        to_the_host = [
            call for shard_calls in calls for call in shard_calls if function_of(call) == TO_THE_HOST
        ]
        parts = [[call for call in shard_calls if function_of(call) != TO_THE_HOST] for shard_calls in calls]
        if to_the_host:
            log_composite_call(TO_THE_HOST, to_the_host)
        reductions = {id(kernel.nodes[0]): kernel for kernel in full_kernels if kernel.requests}
        blocks, kernels = sum(shard.blocks for shard in shards), shards[0].kernels
        for index, kernel in enumerate(kernels):
            log_composite_call(
                kernel.choice.function,
                [call for shard_calls in parts for call in shard_calls[index :: len(kernels)]],
            )
            report_instruction_flags(
                kernel.program, np.bitwise_or.reduce([shard.fp_flags[index] for shard in shards])
            )
            if kernel.requests:
                full_kernel = reductions[id(kernel.nodes[0])]
                for reduction, out in zip(full_kernel.reductions, full_kernel.outs, strict=True):
                    reduction.finish(out)
            elif self._executor.engine == "auto":
                size = group.rows * math.prod(kernel.shape[1:])
                moved = sum(array.nbytes for array in kernel.reads) // len(kernel.outs[0]) * group.rows
                self._executor.costs.evaluated(program_cost.cpu_seconds(kernel.program, size, moved))
            shape = (group.rows, *kernel.shape[1:])
            self._executor.record_kernel(kernel.function, shape, kernel.reads, kernel.outs, blocks=blocks)


def _pays_off(group: TiledGroup) -> bool:
    """Return True if tiling is faster on the CPU: it saves a recomputation, or memory is the bottleneck."""
    if group.materialized:
        return True
    return cost_model.threads() >= _MANY_THREADS and group.bytes_per_row() * group.rows >= _LARGE_BYTES


def _runs_on_other_engine(kernel: ScheduledKernel, kernels: Sequence[ScheduledKernel]) -> bool:
    """Return True if `auto` would run a large kernel over all rows on another engine than the CPU."""
    size = math.prod(kernel.shape)
    if 2 * size < max(math.prod(each.shape) for each in kernels):
        return False
    if kernel.requests:
        return any(request.choice.engine != "cpu" for request in kernel.requests)
    moved = sum(array.nbytes for array in kernel.reads)
    return program_cost.choose(kernel.function, kernel.program, size, moved).engine != "cpu"
