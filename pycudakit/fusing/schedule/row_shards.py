"""Row shards: consecutive row tiles that run on the CPU or on one GPU; several GPUs take a shard each."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.native_call import CallRecord, collect_calls
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer, byte_bounds
from pycudakit.fusing.memory.buffers import BufferTable
from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.residency import ResidencyScope
from pycudakit.fusing.schedule.cpu_tiles import run_tiles_by_threads
from pycudakit.fusing.schedule.row_tiling import PreparedKernel, ScheduledKernel, TiledGroup


class _TileRange(NamedTuple):
    """A buffer that is made resident for one tile: its host address, its size and the row stride."""

    first: int  # host address for the first tile
    size: int  # bytes per tile
    stride: int  # bytes from row to row
    is_new: bool
    copies_back: bool


class _TileRun(NamedTuple):
    """Consecutive tiles of equal size, with the kernels for the first of them."""

    kernels: list[ScheduledKernel]
    rows: int  # of each tile
    times: int  # the number of tiles


class RowShard:
    """A range of rows whose tiles run one after the other.

    Parameters
    ----------
    group
        The kernels to run.
    start, stop
        The range of rows.
    rows
        The rows of a tile.
    """

    def __init__(self, group: TiledGroup, start: int, stop: int, rows: int) -> None:
        self._group = group
        rows = min(rows, stop - start)
        times, rest = divmod(stop - start, rows)
        self.intermediates: dict[Node, Array] = {}  # arrays between the kernels, of one tile
        self.kernels = group.kernels(start, start + rows, self.intermediates) or []
        self._runs = [_TileRun(self.kernels, rows, times)]
        if rest:
            self._runs.append(_TileRun(group.kernels(stop - rest, stop, self.intermediates) or [], rest, 1))
        self._tile_ranges: list[list[_TileRange]] = []
        self._intermediate_buffers: list[Buffer] = []  # the buffers of `intermediates`
        self.fp_flags = [np.zeros(len(kernel.program.instructions), np.uint8) for kernel in self.kernels]

    @property
    def can_run(self) -> bool:
        """Whether all kernels could be prepared."""
        return all(run.kernels for run in self._runs)

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return sum(run.times for run in self._runs)

    def find_tile_ranges(self, buffers: BufferTable, results: Sequence[Buffer]) -> None:
        """Determine the buffers that are made resident for each tile."""
        self._intermediate_buffers = [buffers.buffer_for(array) for array in self.intermediates.values()]
        self._tile_ranges = [self._tile_ranges_of(run, buffers, results) for run in self._runs]

    def _tile_ranges_of(
        self, run: _TileRun, buffers: BufferTable, results: Sequence[Buffer]
    ) -> list[_TileRange]:
        """Return the parts of buffers that several kernels of a tile use and that are not yet resident.

        A new array counts as used once more, by its creation.
        """
        group = self._group
        output_buffer = None if group.output is None else buffers.buffer_of(group.output)
        intermediate_ids = set(map(id, self._intermediate_buffers))
        new = {id(buffer) for buffer in results if buffer is not output_buffer} | intermediate_ids
        used: dict[int, tuple[int, int, set[int], set[int]]] = {}
        for index, kernel in enumerate(run.kernels):
            for array in kernel.reads:
                buffer = buffers.buffer_of(array)
                if buffer is None or buffer.is_resident or not buffer.may_be_resident:
                    continue
                low, high = byte_bounds(array)
                entry = used.get(id(buffer), (low, high, set(), set()))
                kernel_indices = {index, -1} if id(buffer) in new else {index}
                passes, strides = entry[2] | kernel_indices, entry[3] | {group.strides.get(id(array), 0)}
                used[id(buffer)] = min(low, entry[0]), max(high, entry[1]), passes, strides
        output_range = used.get(id(output_buffer))
        if output_range is not None:  # the whole output tile must be in the range
            low, high = byte_bounds(run.kernels[-1].outs[-1])
            used[id(output_buffer)] = min(low, output_range[0]), max(high, output_range[1]), *output_range[2:]
        tile_ranges = []
        for key, (low, high, passes, strides) in used.items():
            stride, size, is_new = max(strides), high - low, -1 in passes
            is_compact = not stride or size <= 2 * run.rows * stride  # the rows are not far apart
            if len(passes) > 1 and len(strides) == 1 and is_compact:
                copies_back = (is_new or key == id(output_buffer)) and key not in intermediate_ids
                tile_ranges.append(_TileRange(low, size, stride, is_new, copies_back))
        return tile_ranges

    def run(
        self, scope: ResidencyScope, is_cancelled: Callable[[], bool] = lambda: False
    ) -> list[CallRecord]:
        """Run all tiles unless cancelled; return the records of the calls."""

        def run_all() -> None:
            for run, tile_ranges in zip(self._runs, self._tile_ranges, strict=True):
                self._run_tiles(run, tile_ranges, scope, is_cancelled)

        return collect_calls(run_all)[1]

    def _run_tiles(
        self,
        run: _TileRun,
        tile_ranges: Sequence[_TileRange],
        scope: ResidencyScope,
        is_cancelled: Callable[[], bool],
    ) -> None:
        prepared: list[PreparedKernel] = []
        try:
            prepared.extend(PreparedKernel(kernel, self._group.strides, run.rows) for kernel in run.kernels)
            if self._group.engine != "cuda" and run.times > 1:
                run_tiles_by_threads(run.kernels, prepared, self.intermediates.values(), run.times)
                run = run._replace(times=0)
            for block in range(run.times):
                if is_cancelled():
                    return
                addresses = [
                    tile_range.first + block * run.rows * tile_range.stride for tile_range in tile_ranges
                ]
                try:
                    for address, tile_range in zip(addresses, tile_ranges, strict=True):
                        scope.make_resident(
                            address,
                            tile_range.size,
                            residency.TEMPORARY if tile_range.is_new else residency.INPUT,
                        )
                    for each in prepared:
                        each.run()
                    for address, tile_range in zip(addresses, tile_ranges, strict=True):
                        if tile_range.copies_back:
                            scope.sync_to_host(address)
                finally:
                    for address in addresses:
                        scope.drop(address)
        finally:
            for each in prepared:
                each.give_back()
        for total_flags, each in zip(self.fp_flags, prepared, strict=True):
            np.bitwise_or(total_flags, each.fp_flags, out=total_flags)


def run_shards(shards: Sequence[RowShard], gpus: Sequence[int]) -> tuple[list[list[CallRecord]], int]:
    """Run each shard on its GPU, concurrently; return the call records of each and the resident bytes.

    The first shard runs on this thread, so that Ctrl-C ends it, and with it the others.
    """
    cancelled = threading.Event()
    scopes = [ResidencyScope() for _ in shards]

    def run(index: int) -> list[CallRecord]:
        scope, gpu = scopes[index], (gpus[index],)
        try:
            with context.override(devices=gpu):
                calls: list[CallRecord] = scope.run(
                    "cuda", lambda: shards[index].run(scope, cancelled.is_set), gpu
                )
                return calls
        except BaseException:
            cancelled.set()
            raise

    with ThreadPoolExecutor(max(1, len(shards) - 1)) as pool:
        others = [pool.submit(contextvars.copy_context().run, run, index) for index in range(1, len(shards))]
        calls = [run(0), *[other.result() for other in others]]
    return calls, sum(scope.peak_resident_bytes for scope in scopes)
