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
from pycudakit._runtime.native_call import Record, apart
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Storage, bounds
from pycudakit.fusing.memory.buffers import Memory
from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.residency import Scope
from pycudakit.fusing.schedule.cpu_tiles import run_by_threads
from pycudakit.fusing.schedule.row_tiling import Chain, Ready, Step


class _Home(NamedTuple):
    """What of a block has a home: where the first one is on the host, and how the others follow."""

    first: int
    size: int  # bytes
    stride: int  # from row to row
    is_new: bool
    comes_down: bool


class _Run(NamedTuple):
    """Blocks that follow each other, with the passes over the first of them."""

    steps: list[Step]
    rows: int  # of each
    times: int


class Share:
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

    def __init__(self, chain: Chain, start: int, stop: int, rows: int) -> None:
        self._chain = chain
        rows = min(rows, stop - start)
        times, rest = divmod(stop - start, rows)
        self.between: dict[Node, Array] = {}  # passes, for one block
        self.steps = chain.steps(start, start + rows, self.between) or []
        self._runs = [_Run(self.steps, rows, times)]
        if rest:
            self._runs.append(_Run(chain.steps(stop - rest, stop, self.between) or [], rest, 1))
        self._homes: list[list[_Home]] = []
        self._stay: list[Storage] = []  # what lies between passes
        self.met = [np.zeros(len(step.program.instructions), np.uint8) for step in self.steps]

    @property
    def can_run(self) -> bool:
        """Whether its passes could be written down."""
        return all(run.steps for run in self._runs)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return sum(run.times for run in self._runs)

    def find_homes(self, memory: Memory, results: Sequence[Storage]) -> None:
        """Find out what of its blocks is to have a home."""
        self._stay = [memory.storage_for(array) for array in self.between.values()]
        self._homes = [self._homes_of(run, memory, results) for run in self._runs]

    def _homes_of(self, run: _Run, memory: Memory, results: Sequence[Storage]) -> list[_Home]:
        """Return what of a block several passes need, and what is not there already.

        Those that compute new arrays need them first.
        """
        chain = self._chain
        into = None if chain.written is None else memory.storage_of(chain.written)
        stay = set(map(id, self._stay))
        new = {id(storage) for storage in results if storage is not into} | stay
        found: dict[int, tuple[int, int, set[int], set[int]]] = {}
        for place, step in enumerate(run.steps):
            for array in step.reads:
                storage = memory.storage_of(array)
                if storage is None or storage.is_kept or not storage.may_keep:
                    continue
                low, high = bounds(array)
                known = found.get(id(storage), (low, high, set(), set()))
                own = {place, -1} if id(storage) in new else {place}
                passes, strides = known[2] | own, known[3] | {chain.strides.get(id(array), 0)}
                found[id(storage)] = min(low, known[0]), max(high, known[1]), passes, strides
        written = found.get(id(into))
        if written is not None:  # all of what is written, or some of it would not be found there
            low, high = bounds(run.steps[-1].outs[-1])
            found[id(into)] = min(low, written[0]), max(high, written[1]), *written[2:]
        homes = []
        for key, (low, high, passes, strides) in found.items():
            stride, size, is_new = max(strides), high - low, -1 in passes
            is_block = not stride or size <= 2 * run.rows * stride  # and not rows far apart
            if len(passes) > 1 and len(strides) == 1 and is_block:
                comes_down = (is_new or key == id(into)) and key not in stay
                homes.append(_Home(low, size, stride, is_new, comes_down))
        return homes

    def run(self, scope: Scope, is_over: Callable[[], bool] = lambda: False) -> list[Record]:
        """Go over all blocks, until others end it, and return what was called."""
        with apart() as calls:
            for run, homes in zip(self._runs, self._homes, strict=True):
                self._run_blocks(run, homes, scope, is_over)
        return calls

    def _run_blocks(
        self, run: _Run, homes: Sequence[_Home], scope: Scope, is_over: Callable[[], bool]
    ) -> None:
        ready: list[Ready] = []
        try:
            ready.extend(Ready(step, self._chain.strides, run.rows) for step in run.steps)
            if self._chain.engine != "cuda" and run.times > 1:
                run_by_threads(run.steps, ready, self.between.values(), run.times)
                run = run._replace(times=0)
            for block in range(run.times):
                if is_over():
                    return
                places = [home.first + block * run.rows * home.stride for home in homes]
                try:
                    for place, home in zip(places, homes, strict=True):
                        scope.keep(place, home.size, residency.TEMPORARY if home.is_new else residency.INPUT)
                    for each in ready:
                        each.run()
                    for place, home in zip(places, homes, strict=True):
                        if home.comes_down:
                            scope.fetch(place)
                finally:
                    for place in places:
                        scope.drop(place)
        finally:
            for each in ready:
                each.give_back()
        for of_all, each in zip(self.met, ready, strict=True):
            np.bitwise_or(of_all, each.met, out=of_all)


def run_on(shares: Sequence[Share], gpus: Sequence[int]) -> tuple[list[list[Record]], int]:
    """Run each share on its GPU, all at once; return what each called, and the bytes that were kept.

    The first runs on this thread, where Ctrl-C ends it, and with it the others.
    """
    ended = threading.Event()
    scopes = [Scope() for _ in shares]

    def run(place: int) -> list[Record]:
        scope, gpu = scopes[place], (gpus[place],)
        try:
            with context.asking(devices=gpu):
                calls: list[Record] = scope.run("cuda", lambda: shares[place].run(scope, ended.is_set), gpu)
                return calls
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(max(1, len(shares) - 1)) as pool:
        others = [pool.submit(contextvars.copy_context().run, run, place) for place in range(1, len(shares))]
        calls = [run(0), *[other.result() for other in others]]
    return calls, sum(scope.bytes_kept for scope in scopes)
