"""Passes over the same rows that run block by block: all of them over some rows, and then over the next.

What needs reductions along other axes than the first, of arrays that have the first in common, takes several
passes: softmax of rows, for one. Over a block of rows, what a pass reads is still in the caches where the one
before it has left it, and what lies between two of them need never be an array of all rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._calls import asked, cost
from pycudakit._calls.invocation import apart, done_in_parts
from pycudakit._families.reduce.together import answers_to
from pycudakit._library.types import Array
from pycudakit._programs import estimate
from pycudakit._programs.work import report_of
from pycudakit.fusing.blocks import Chain, Ready, Step, values_of
from pycudakit.fusing.nodes import Node
from pycudakit.fusing.reductions import Reductions

_SMALL = 16  # times as many elements a reduction has, for what is small beside it
# Bytes that passes touch of a block, for all threads and for each: about what their second-level caches hold.
_BLOCK, _BLOCK_A_THREAD = 6 << 20, 1 << 20
# And of all rows, below which the caches that all share hold enough of them: there it is for those alone that
# keep between two passes what takes long to compute.
_MANY = 128 << 20


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
            for n in node.needed()
        )

    def run_in_blocks(self, nodes: Sequence[Node]) -> bool:
        """Compute nodes block of rows by block of rows, if they need several passes over the same rows."""
        nodes = [node for node in nodes if node.array is None]
        if not (self.reductions and nodes and self.engine in ("cpu", "auto")):
            return False
        if asked.here.get().progress is not None:  # which is told pass by pass
            return False
        chain = self._chain_of(nodes)
        whole = None if chain is None else chain.steps(0, chain.rows)
        if chain is None or whole is None:
            return False
        if self.engine == "auto" and any(_is_elsewhere(step, whole) for step in whole):
            return False
        rows = _rows_at_once(chain, whole)
        return bool(rows) and self._run_chain(chain, whole, rows)

    def _chain_of(self, nodes: Sequence[Node]) -> Chain | None:
        """Return the passes that nodes need, after what has other rows is computed; None without several."""
        rows = nodes[0].shape[0] if nodes[0].shape else 0
        if rows < 2 or any(node.shape[:1] != (rows,) for node in nodes):
            return None
        while True:
            chain = Chain(nodes, self.engine)
            outside = chain.of_other_rows()
            if not chain.has_several_passes() or outside is None:
                return None
            if not outside:
                return chain
            for node in outside:
                self.compute_node(node)

    def _run_chain(self, chain: Chain, whole: Sequence[Step], rows: int) -> bool:
        """Run the passes over blocks of so many rows; tell whether that could be."""
        times, rest = divmod(chain.rows, rows)
        steps = chain.steps(0, rows, keeps=True)
        last = chain.steps(chain.rows - rest, chain.rows, keeps=True) if rest else steps
        if steps is None or last is None:
            return False
        met = [np.zeros(len(step.program.instructions), np.uint8) for step in steps]
        with apart() as parts:
            _run_blocks(chain, steps, rows, times, met)
            if rest:
                _run_blocks(chain, last, rest, 1, met)
        known = [self.memory.storage_for(each) for each in (*chain.results.values(), *chain.temporaries.values())]
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
            if node.array is None and node.view is None:
                node.computed(result, self.memory.storage_for(result))
        del known
        self.reductions = [known for known in self.reductions if _waits(known())]
        return True


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


def _rows_at_once(chain: Chain, whole: Sequence[Step]) -> int:
    """Return how many rows make a block; none where the whole may stay in the caches, or no row does."""
    arrays = [array for step in whole for array in (*step.reads, *step.outs)]
    touched = {a.ctypes.data: a.nbytes // chain.rows for a in arrays if a.shape[:1] == (chain.rows,)}
    each = max(sum(touched.values()), 1)
    fitting = (_BLOCK + _BLOCK_A_THREAD * cost.threads()) // each
    is_worth_it = chain.rows * each >= _MANY or bool(chain.kept)
    if not fitting or chain.rows < 2 * fitting or not is_worth_it:
        return 0
    return -(-chain.rows // -(-chain.rows // fitting))  # about as many in each block


def _run_blocks(chain: Chain, steps: Sequence[Step], rows: int, times: int, met: Sequence[Array]) -> None:
    ready: list[Ready] = []
    try:
        for step in steps:
            ready.append(Ready(step, chain.strides, rows))
        for _ in range(times):
            for each in ready:
                each.run()
    finally:
        for each in ready:
            each.give_back()
    for of_all, each in zip(met, ready, strict=True):
        of_all |= each.met
