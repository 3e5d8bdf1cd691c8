"""The deferred nodes of one call: operations that are recorded, and not yet computed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.tracer import Tracer

_MIN_DEFERRED = 64


class Deferred:
    """The deferred nodes of one call.

    A node is live as long as a tracer of it is. Nodes that may warn are computed even if nothing uses their
    results, as NumPy does, so those that no other operation reads are kept, too.
    """

    def __init__(self) -> None:
        self.reductions: list[weakref.ref[Node]] = []
        self.waiting_on_reductions: list[weakref.ref[Node]] = []  # broadcasts and views of reductions
        self.unread: dict[Node, None] = {}  # nodes that may warn and that no other operation reads
        self.computes_unread = True  # unless nothing can warn
        self._tracers: list[weakref.ref[Tracer]] = []  # some of which may be computed or dead by now
        self._max_tracers = _MIN_DEFERRED  # above this length the list is cleaned

    def add(self, tracer: Tracer) -> Tracer:
        """Register the tracer of a deferred node."""
        self._tracers.append(weakref.ref(tracer))
        if len(self._tracers) > self._max_tracers:
            self._max_tracers = max(_MIN_DEFERRED, 2 * len(self.nodes()))
        return tracer

    def drop(self, tracer: Tracer) -> None:
        """Forget a tracer whose operation has raised."""
        self._tracers = [ref for ref in self._tracers if ref() is not tracer]
        self.unread.pop(tracer.node, None)

    def nodes(self) -> list[Node]:
        """Return the live nodes, and those that may warn and are not read."""
        nodes: list[Node] = []
        still_deferred = []
        for ref in self._tracers:
            tracer = ref()
            if tracer is not None and tracer.node.array is None:
                nodes.append(tracer.node)
                still_deferred.append(ref)
        self._tracers = still_deferred
        if self.unread:
            self.unread = {node: None for node in self.unread if node.array is None}
            known = {*nodes}
            nodes += [node for node in self.unread if node not in known]
        return nodes

    # ---- Nodes that no operation reads ---------------------------------------------------------------

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

    # ---- Reductions ----------------------------------------------------------------------------------

    def add_reduction(self, node: Node) -> None:
        """Register a deferred reduction."""
        self.reductions.append(weakref.ref(node))

    def wait_for_reductions(self, node: Node) -> None:
        """Defer a broadcast or view until the reductions that it depends on are computed."""
        node.is_broadcast = node.view is None
        self.waiting_on_reductions.append(weakref.ref(node))

    def pending_reductions(self) -> list[Node]:
        """Return the reductions that are alive and not computed."""
        nodes = (ref() for ref in self.reductions)
        return [node for node in nodes if node is not None and node.reduction is not None]

    def forget_computed(self) -> None:
        """Forget the reductions, and the nodes that wait for them, that are computed or dead."""
        if self.reductions:
            self.reductions = [weakref.ref(node) for node in self.pending_reductions()]
        if self.waiting_on_reductions:
            self.waiting_on_reductions = [ref for ref in self.waiting_on_reductions if _is_deferred(ref())]


def _is_deferred(node: Node | None) -> bool:
    return node is not None and node.array is None
