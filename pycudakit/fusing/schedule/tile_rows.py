"""Passes over the same rows that run block by block: all of them over some rows, and then over the next.

What needs reductions along other axes than the first, of arrays that have the first in common, takes several
passes: softmax of rows, for one. Over a block of rows, what a pass reads is still in the caches where the one
before it has left it, and what lies between two of them need never be an array of all rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import report_of
from pycudakit._families.reduce.multi_output import answers_to
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, cost_model
from pycudakit._runtime.native_call import Record, done_in_parts, name_of
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.nodes import Node, reads
from pycudakit.fusing.memory.residency import TO_THE_HOST
from pycudakit.fusing.schedule.reduce_fusion import Reductions
from pycudakit.fusing.schedule.row_shards import Share, run_on
from pycudakit.fusing.schedule.row_tiling import Chain, Step

_LEAST = 1 << 20  # bytes that are reduced: of fewer, nothing is gained
_SMALL = 16  # times as many elements a reduction has, for what is small beside it
# Bytes that passes touch of a block, which one thread goes over: about what its second-level cache holds.
# Where that makes few of them, blocks are smaller, so that threads end together.
_BLOCK, _LEAST_BLOCK, _BLOCKS_A_THREAD, _FEWEST_A_THREAD = 1 << 20, 256 << 10, 8, 2
# Bytes of all rows, and for each thread, of which it is worth writing passes down once more, for a block.
_WORTH, _WORTH_A_THREAD, _MOST_THREADS = 12 << 20, 2 << 20, 16
# So many threads are ahead of the memory that they share, where arrays are that large.
_MANY_THREADS, _LARGE = 8, 256 << 20
# Bytes of a block on a device, where even that is not all of its memory.
_BLOCK_THERE = 256 << 20


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
        if context.here.get().progress is not None:  # which is told pass by pass
            return False
        if self.engine != "cuda":
            return True
        gpus, scope = context.devices_asked(), self.memory.scope  # which the body may have chosen by itself
        return not self.memory.stream and (gpus == (scope.device,) if scope.is_open else len(gpus) > 1)

    def _chain_of(self, nodes: Sequence[Node], written: Array | None) -> Chain | None:
        """Return the passes that nodes need, after what has other rows is computed; None without several."""
        rows = nodes[0].shape[0] if nodes[0].shape else 0
        if rows < 2 or any(node.shape[:1] != (rows,) for node in nodes):
            return None
        last = nodes[-1]
        while last.array is None:
            chain = Chain([node for node in nodes if node.array is None], self.engine, written)
            outside = chain.of_other_rows()
            if not chain.has_several_passes() or outside is None or not chain.is_read_before_it_is_written():
                return None
            if not outside:
                return chain
            if chain.targets == [last] and last in outside:  # it has other rows itself
                return None
            for node in outside:  # which may need some of the others
                self.compute_node(node)
        return None

    def _rows_at_once(self, chain: Chain) -> int:
        """Return how many rows make a block; none where the whole fits, or no row does."""
        each = chain.bytes_a_row()
        if self.engine == "cuda":
            budget, is_alone = residency.budget(), self.memory.scope.is_open
            most = budget // 2 if budget or is_alone else _BLOCK_THERE
            fitting, is_whole = min(most, _BLOCK_THERE) // each, is_alone and budget >= each * chain.rows
        else:
            size, threads = each * chain.rows, cost_model.threads()
            fitting = min(_BLOCK, max(size // (_BLOCKS_A_THREAD * threads), _LEAST_BLOCK)) // each
            worth = _WORTH + _WORTH_A_THREAD * min(threads, _MOST_THREADS)
            is_whole = size < worth or chain.rows < _FEWEST_A_THREAD * threads * fitting
        if is_whole or not fitting:
            return 0
        blocks = -(-chain.rows // fitting)
        even = (each for each in range(blocks, 2 * blocks) if chain.rows % each == 0)
        return -(-chain.rows // next(even, blocks))  # as many in each block, if that can be

    def _run_chain(self, chain: Chain, whole: Sequence[Step], rows: int) -> bool:
        """Run the passes over blocks of so many rows; tell whether that could be."""
        gpus = context.devices_asked() if self.engine == "cuda" and not self.memory.scope.is_open else (0,)
        ends = [chain.rows * i // len(gpus) for i in range(len(gpus) + 1)]
        shares = [Share(chain, start, stop, rows) for start, stop in pairwise(ends) if start < stop]
        if not all(share.can_run for share in shares):
            return False
        results = [self.memory.storage_for(array) for array in chain.results.values()]  # all have names, then
        for share in shares:
            share.find_homes(self.memory, results)
        if len(shares) == 1:
            calls = [shares[0].run(self.memory.scope)]
        else:
            calls, self.memory.scope.bytes_kept = run_on(shares, gpus)
        self._tell_of(chain, whole, shares, calls)
        for node, result in chain.results.items():
            if node.array is None and node.view is None and result is not chain.written:
                node.computed(result, self.memory.storage_for(result))
        self.reductions = [known for known in self.reductions if _waits(known())]
        return True

    def _tell_of(
        self, chain: Chain, whole: Sequence[Step], shares: Sequence[Share], calls: Sequence[Sequence[Record]]
    ) -> None:
        """Record what blocks have called, as a call for each pass, and report what they met."""
        to_the_host = [call for own in calls for call in own if name_of(call) == TO_THE_HOST]
        parts = [[call for call in own if name_of(call) != TO_THE_HOST] for own in calls]
        if to_the_host:
            done_in_parts(TO_THE_HOST, to_the_host)
        answers = {id(step.nodes[0]): step for step in whole if step.requests}
        blocks, steps = sum(share.blocks for share in shares), shares[0].steps
        for place, step in enumerate(steps):
            done_in_parts(step.plan.function, [call for own in parts for call in own[place :: len(steps)]])
            report_of(step.program, np.bitwise_or.reduce([share.met[place] for share in shares]))
            if step.requests:
                of_all = answers[id(step.nodes[0])]
                answers_to(of_all.calls, of_all.outs)
            elif self.engine == "auto":
                size = chain.rows * math.prod(step.shape[1:])
                moved = sum(array.nbytes for array in step.reads) // len(step.outs[0]) * chain.rows
                self.costs.evaluated(program_cost.cpu_seconds(step.program, size, moved))
            shape = (chain.rows, *step.shape[1:])
            self.tell(step.function, shape, step.reads, step.outs, blocks=blocks)


def _is_quicker(chain: Chain) -> bool:
    """Tell whether blocks are quicker on the CPU: if they keep what takes long, or many wait for memory."""
    if chain.kept:
        return True
    return cost_model.threads() >= _MANY_THREADS and chain.bytes_a_row() * chain.rows >= _LARGE


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
    return program_cost.choose(step.function, step.program, size, moved).engine != "cpu"
