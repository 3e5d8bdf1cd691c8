"""Passes over the same rows that run block by block: all of them over some rows, and then over the next.

What needs reductions along other axes than the first, of arrays that have the first in common, takes several
passes: softmax of rows, for one. Over a block of rows, what a pass reads is still in the caches where the one
before it has left it, and what lies between two of them need never be an array of all rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pycudakit._calls import asked, cost
from pycudakit._calls.invocation import apart, done_in_parts, name_of
from pycudakit._families.reduce.together import answers_to
from pycudakit._library.types import Array
from pycudakit._programs import estimate
from pycudakit._programs.work import report_of
from pycudakit.fusing import device
from pycudakit.fusing.blocks import Chain, Ready, Step
from pycudakit.fusing.device import TO_THE_HOST
from pycudakit.fusing.nodes import Node, reads
from pycudakit.fusing.reductions import Reductions
from pycudakit.fusing.storage import Storage, bounds

_LEAST = 1 << 20  # bytes that are reduced: of fewer, nothing is gained
_SMALL = 16  # times as many elements a reduction has, for what is small beside it
# Bytes that passes touch of a block, for all threads and for each: about what second-level caches hold.
_BLOCK, _BLOCK_A_THREAD, _MOST_THREADS = 6 << 20, 1 << 20, 16
# Bytes of a block on a device, where even that is not all of its memory.
_BLOCK_THERE = 256 << 20


class _Home(NamedTuple):
    """What of a block has a home: where the first one is on the host, and how the others follow."""

    first: int
    size: int  # bytes
    stride: int  # from row to row
    is_new: bool
    is_written: bool


class Rows(Reductions):
    """A call of a fused function, with what of it runs block of rows by block of rows."""

    def hold_up(self, node: Node) -> None:
        """Have a node wait for reductions, and be computed by itself when they are."""
        node.is_repeated = node.view is None
        self.held_up.append(weakref.ref(node))

    def is_small_beside_rows(self, node: Node) -> bool:
        """Tell whether a node needs reductions that wait, of rows that are far longer than its own."""
        if not (self.reductions or self.held_up) or not node.shape or node.shape[0] < 2:
            return False
        return any(
            n.reduction is not None
            and 0 not in n.reduction.axes
            and n.reduction.of.shape[:1] == node.shape[:1]
            and n.reduction.of.size >= _SMALL * node.size
            and n.reduction.of.nbytes >= _LEAST
            for n in node.needed()
        )

    def run_in_blocks(self, nodes: Sequence[Node]) -> bool:
        """Compute nodes block of rows by block of rows, if they need several passes over the same rows."""
        nodes = [node for node in nodes if node.array is None]
        return bool(nodes) and self._run_in_blocks(nodes)

    def write_in_blocks(self, array: Array, storage: Storage, value: Node) -> bool:
        """Write a value, which is put off, to an array; compute what else needs what was there."""
        is_simple = not value.is_apart and value.shape == array.shape and value.dtype == array.dtype
        if not (self.reductions and is_simple and storage.twin is None):
            return False
        waiting = dict.fromkeys([stand_in.node for stand_in in self.waiting()])
        readers = [node for node in waiting if node is not value and reads(storage, [node])]
        return self._run_in_blocks([*readers, value], array, storage)

    def _run_in_blocks(
        self, nodes: Sequence[Node], written: Array | None = None, storage: Storage | None = None
    ) -> bool:
        if not self._may_be_cut():
            return False
        chain = self._chain_of(nodes, written)
        rows = 0 if chain is None else self._rows_at_once(chain)
        whole = None if chain is None or not rows else chain.steps(0, chain.rows)
        if chain is None or whole is None:
            return False
        if self.engine != "cuda" and not _is_quicker(chain):
            return False
        if self.engine == "auto" and any(_is_elsewhere(step, whole) for step in whole):
            return False
        if storage is not None:
            self.memory.will_change(storage)
        return self._run_chain(chain, whole, rows)

    def _may_be_cut(self) -> bool:
        waiting = [n.reduction for n in (known() for known in self.reductions) if n is not None]
        if not any(r is not None and 0 not in r.axes and r.of.nbytes >= _LEAST for r in waiting):
            return False
        if asked.here.get().progress is not None:  # which is told pass by pass
            return False
        is_alone = self.memory.scope.is_open and not self.memory.stream and asked.devices_asked() == (0,)
        return self.engine != "cuda" or is_alone

    def _chain_of(self, nodes: Sequence[Node], written: Array | None) -> Chain | None:
        """Return the passes that nodes need, after what has other rows is computed; None without several."""
        rows = nodes[0].shape[0] if nodes[0].shape else 0
        if rows < 2 or any(node.shape[:1] != (rows,) for node in nodes):
            return None
        while True:
            chain = Chain(nodes, self.engine, written)
            outside = chain.of_other_rows()
            if not chain.has_several_passes() or outside is None or not chain.is_read_before_it_is_written():
                return None
            if not outside:
                return chain
            for node in outside:
                self.compute_node(node)

    def _rows_at_once(self, chain: Chain) -> int:
        """Return how many rows make a block; none where the whole fits, or no row does."""
        each = chain.bytes_a_row()
        if self.engine == "cuda":
            budget = self.memory.scope.budget()
            fitting, is_whole = min(budget // 2, _BLOCK_THERE) // each, budget >= each * chain.rows
        else:
            fitting = (_BLOCK + _BLOCK_A_THREAD * min(cost.threads(), _MOST_THREADS)) // each
            is_whole = chain.rows < 2 * fitting
        if is_whole or not fitting:
            return 0
        return -(-chain.rows // -(-chain.rows // fitting))  # about as many in each block

    def _homes(self, chain: Chain, steps: Sequence[Step], new: Sequence[Storage]) -> list[_Home]:
        """Return what of a block is to have a home: what several passes need, and what is not there already.

        Those that compute new arrays need them first.
        """
        found: dict[int, tuple[int, int, set[int], set[int]]] = {}
        for place, step in enumerate(steps if self.memory.scope.is_open else ()):
            for array in step.reads:
                storage = self.memory.storage_of(array)
                if storage is None or storage.is_kept or not storage.may_keep:
                    continue
                low, high = bounds(array)
                known = found.get(id(storage), (low, high, set(), set()))
                own = {place, -1} if any(storage is each for each in new) else {place}
                passes, strides = known[2] | own, known[3] | {chain.strides.get(id(array), 0)}
                found[id(storage)] = min(low, known[0]), max(high, known[1]), passes, strides
        into = None if chain.written is None else self.memory.storage_of(chain.written)
        written = found.get(id(into))
        if written is not None:  # all of what is written, or some of it would not be found there
            low, high = bounds(steps[-1].outs[-1])
            found[id(into)] = min(low, written[0]), max(high, written[1]), *written[2:]
        return [
            _Home(low, high - low, strides.pop(), -1 in passes, -1 in passes or key == id(into))
            for key, (low, high, passes, strides) in found.items()
            if len(passes) > 1 and len(strides) == 1
        ]

    def _run_blocks(
        self,
        chain: Chain,
        steps: Sequence[Step],
        new: Sequence[Storage],
        rows: int,
        times: int,
        met: Sequence[Array],
    ) -> None:
        homes, scope = self._homes(chain, steps, new), self.memory.scope
        ready: list[Ready] = []
        try:
            ready.extend(Ready(step, chain.strides, rows) for step in steps)
            for block in range(times):
                places = [home.first + block * rows * home.stride for home in homes]
                try:
                    for place, home in zip(places, homes, strict=True):
                        scope.keep(place, home.size, device.TEMPORARY if home.is_new else device.INPUT)
                    for each in ready:
                        each.run()
                    for place, home in zip(places, homes, strict=True):
                        if home.is_written:
                            scope.fetch(place)
                finally:
                    for place in places:
                        scope.drop(place)
        finally:
            for each in ready:
                each.give_back()
        for of_all, each in zip(met, ready, strict=True):
            np.bitwise_or(of_all, each.met, out=of_all)

    def _run_chain(self, chain: Chain, whole: Sequence[Step], rows: int) -> bool:
        """Run the passes over blocks of so many rows; tell whether that could be."""
        times, rest = divmod(chain.rows, rows)
        steps = chain.steps(0, rows, keeps=True)
        last = chain.steps(chain.rows - rest, chain.rows, keeps=True) if rest else steps
        if steps is None or last is None:
            return False
        met = [np.zeros(len(step.program.instructions), np.uint8) for step in steps]
        between = [self.memory.storage_for(array) for array in chain.temporaries.values()]
        for storage in between:
            storage.keep(device.TEMPORARY)
        results = [self.memory.storage_for(array) for array in chain.results.values()]  # all have names, then
        into = None if chain.written is None else self.memory.storage_for(chain.written)
        new = [storage for storage in results if storage is not into]
        with apart() as calls:
            self._run_blocks(chain, steps, new, rows, times, met)
            if rest:
                self._run_blocks(chain, last, new, rest, 1, met)
        parts = [call for call in calls if name_of(call) != TO_THE_HOST]
        if len(parts) < len(calls):
            done_in_parts(TO_THE_HOST, [call for call in calls if name_of(call) == TO_THE_HOST])
        answers = {id(step.nodes[0]): step for step in whole if step.requests}
        for place, step in enumerate(steps):
            done_in_parts(step.plan.function, parts[place :: len(steps)])
            report_of(step.program, met[place])
            if step.requests:
                of_all = answers[id(step.nodes[0])]
                answers_to(of_all.calls, of_all.outs)
            elif self.engine == "auto":
                size = chain.rows * math.prod(step.shape[1:])
                moved = sum(array.nbytes for array in step.reads) // len(step.outs[0]) * chain.rows
                self.costs.evaluated(estimate.cpu_seconds(step.program, size, moved))
            shape = (chain.rows, *step.shape[1:])
            self.tell(step.function, shape, step.reads, step.outs, blocks=-(-chain.rows // rows))
        for node, result in chain.results.items():
            if node.array is None and node.view is None and result is not chain.written:
                node.computed(result, self.memory.storage_for(result))
        self.reductions = [known for known in self.reductions if _waits(known())]
        return True


def _is_quicker(chain: Chain) -> bool:
    """Tell whether blocks are quicker on the CPU: only where they keep what takes long to compute."""
    return bool(chain.kept)


def _waits(node: Node | None) -> bool:
    return node is not None and node.reduction is not None


def _is_elsewhere(step: Step, steps: Sequence[Step]) -> bool:
    """Tell whether `auto` has a pass over all rows run elsewhere than on the CPU; small ones do not count."""
    size = math.prod(step.shape)
    if 2 * size < max(math.prod(each.shape) for each in steps):
        return False
    if step.requests:
        return any(request.plan.engine != "cpu" for request in step.requests)
    moved = sum(array.nbytes for array in step.reads)
    return estimate.choose(step.function, step.program, size, moved).engine != "cpu"
