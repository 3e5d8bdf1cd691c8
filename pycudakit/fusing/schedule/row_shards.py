"""Blocks of rows that run one after the other: on the CPU, on a GPU, or on several that share the rows."""

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
    """What of a block has a home: where the first one is on the host, and how the others follow."""

    first: int
    size: int  # bytes
    stride: int  # from row to row
    is_new: bool
    copies_back: bool


class _TileRun(NamedTuple):
    """Blocks that follow each other, with the passes over the first of them."""

    kernels: list[ScheduledKernel]
    rows: int  # of each
    times: int


class RowShard:
    """Rows whose blocks run one after the other.

    Parameters
    ----------
    chain
        The passes.
    start, stop
        The rows.
    rows
        Of a block.
    """

    def __init__(self, group: TiledGroup, start: int, stop: int, rows: int) -> None:
        self._group = group
        rows = min(rows, stop - start)
        times, rest = divmod(stop - start, rows)
        self.intermediates: dict[Node, Array] = {}  # passes, for one block
        self.kernels = group.kernels(start, start + rows, self.intermediates) or []
        self._runs = [_TileRun(self.kernels, rows, times)]
        if rest:
            self._runs.append(_TileRun(group.kernels(stop - rest, stop, self.intermediates) or [], rest, 1))
        self._tile_ranges: list[list[_TileRange]] = []
        self._intermediate_buffers: list[Buffer] = []  # what lies between passes
        self.fp_flags = [np.zeros(len(kernel.program.instructions), np.uint8) for kernel in self.kernels]

    @property
    def can_run(self) -> bool:
        """Whether its passes could be written down."""
        return all(run.kernels for run in self._runs)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return sum(run.times for run in self._runs)

    def find_tile_ranges(self, buffers: BufferTable, results: Sequence[Buffer]) -> None:
        """Find out what of its blocks is to have a home."""
        self._intermediate_buffers = [buffers.buffer_for(array) for array in self.intermediates.values()]
        self._tile_ranges = [self._tile_ranges_of(run, buffers, results) for run in self._runs]

    def _tile_ranges_of(
        self, run: _TileRun, buffers: BufferTable, results: Sequence[Buffer]
    ) -> list[_TileRange]:
        """Return what of a block several passes need, and what is not there already.

        Those that compute new arrays need them first.
        """
        group = self._group
        into = None if group.output is None else buffers.buffer_of(group.output)
        intermediate_ids = set(map(id, self._intermediate_buffers))
        new = {id(buffer) for buffer in results if buffer is not into} | intermediate_ids
        found: dict[int, tuple[int, int, set[int], set[int]]] = {}
        for place, kernel in enumerate(run.kernels):
            for array in kernel.reads:
                buffer = buffers.buffer_of(array)
                if buffer is None or buffer.is_resident or not buffer.may_be_resident:
                    continue
                low, high = byte_bounds(array)
                seen = found.get(id(buffer), (low, high, set(), set()))
                kernel_indices = {place, -1} if id(buffer) in new else {place}
                passes, strides = seen[2] | kernel_indices, seen[3] | {group.strides.get(id(array), 0)}
                found[id(buffer)] = min(low, seen[0]), max(high, seen[1]), passes, strides
        output_range = found.get(id(into))
        if output_range is not None:  # all of what is written, or some of it would not be found there
            low, high = byte_bounds(run.kernels[-1].outs[-1])
            found[id(into)] = min(low, output_range[0]), max(high, output_range[1]), *output_range[2:]
        tile_ranges = []
        for key, (low, high, passes, strides) in found.items():
            stride, size, is_new = max(strides), high - low, -1 in passes
            is_block = not stride or size <= 2 * run.rows * stride  # and not rows far apart
            if len(passes) > 1 and len(strides) == 1 and is_block:
                copies_back = (is_new or key == id(into)) and key not in intermediate_ids
                tile_ranges.append(_TileRange(low, size, stride, is_new, copies_back))
        return tile_ranges

    def run(
        self, scope: ResidencyScope, is_cancelled: Callable[[], bool] = lambda: False
    ) -> list[CallRecord]:
        """Go over all blocks, until others end it, and return what was called."""
        with collect_calls() as calls:
            for run, tile_ranges in zip(self._runs, self._tile_ranges, strict=True):
                self._run_tiles(run, tile_ranges, scope, is_cancelled)
        return calls

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
                    for place, tile_range in zip(addresses, tile_ranges, strict=True):
                        scope.make_resident(
                            place,
                            tile_range.size,
                            residency.TEMPORARY if tile_range.is_new else residency.INPUT,
                        )
                    for each in prepared:
                        each.run()
                    for place, tile_range in zip(addresses, tile_ranges, strict=True):
                        if tile_range.copies_back:
                            scope.sync_to_host(place)
                finally:
                    for place in addresses:
                        scope.drop(place)
        finally:
            for each in prepared:
                each.give_back()
        for of_all, each in zip(self.fp_flags, prepared, strict=True):
            np.bitwise_or(of_all, each.fp_flags, out=of_all)


def run_shards(shards: Sequence[RowShard], gpus: Sequence[int]) -> tuple[list[list[CallRecord]], int]:
    """Run each share on its GPU, all at once; return what each called, and the bytes that were kept.

    The first runs on this thread, where Ctrl-C ends it, and with it the others.
    """
    ended = threading.Event()
    scopes = [ResidencyScope() for _ in shards]

    def run(place: int) -> list[CallRecord]:
        scope, gpu = scopes[place], (gpus[place],)
        try:
            with context.override(devices=gpu):
                calls: list[CallRecord] = scope.run(
                    "cuda", lambda: shards[place].run(scope, ended.is_set), gpu
                )
                return calls
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(max(1, len(shards) - 1)) as pool:
        others = [pool.submit(contextvars.copy_context().run, run, place) for place in range(1, len(shards))]
        calls = [run(0), *[other.result() for other in others]]
    return calls, sum(scope.peak_resident_bytes for scope in scopes)
