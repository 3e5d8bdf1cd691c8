"""The graph along which numbers flow through analysed code, and which of them must be NumPy's scalars.

Its nodes are sites (instructions that make numbers, or floats of them), containers, cells, and the arguments
and results of frames. A number is *concrete*, so that it must be NumPy's scalar, if its site reaches a use
that takes no tracer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Node = tuple[Any, ...]
Origins = frozenset[Node]  # of the numbers that a value may be, or contain
NONE: Origins = frozenset()


class NumberFlow:
    """The graph of one analysis: an edge leads from a node to a node that its numbers may reach."""

    def __init__(self) -> None:
        self._sources: dict[Node, set[Node]] = {}  # edges, by the nodes that they lead to
        self._escapes: dict[Node, str] = {}  # nodes whose numbers other code may see, with the reason
        self._forced: dict[Node, str] = {}  # instructions that run other code, which may make numbers
        self._floats: set[Node] = set()  # instructions that make Python's floats of numbers
        self._float_sources: dict[Node, Origins] = {}  # edges along which floats flow, and numbers do not
        self._escaped_floats: set[Node] = set()
        self.ends: dict[tuple[int, int], int] = {}  # of instructions, by the code's id and the begin

    def add(self, origins: Origins, targets: Iterable[Node]) -> None:
        """Note that these numbers may reach nodes."""
        for target in targets if origins else ():
            self._sources.setdefault(target, set()).update(origins)

    def escape(self, origins: Origins, reason: str) -> None:
        """Note that other code may see these numbers."""
        for node in origins:
            self._escapes.setdefault(node, reason)

    def force(self, site: Node, reason: str) -> None:
        """Note that an instruction runs other code: the numbers that this makes must be NumPy's scalars."""
        self._forced.setdefault(site, reason)

    def add_float(self, node: Node) -> None:
        """Note that an instruction makes a float of a number."""
        self._floats.add(node)

    def add_arithmetic(self, node: Node, origins: Origins) -> None:
        """Note that an instruction's result may be a deferred float if one of these numbers is."""
        self._float_sources[node] = origins

    def escape_floats(self, origins: Origins) -> None:
        """Note a use in which a deferred float would behave in another way than Python's."""
        self._escaped_floats |= origins

    def concrete_numbers(self) -> dict[Node, str]:
        """Return the sites whose numbers must be scalars, with the reasons."""
        reasons = {**self._forced, **self._escapes}
        pending = list(reasons)
        while pending:
            node = pending.pop()
            for source in self._sources.get(node, ()):
                if source not in reasons:
                    reasons[source] = reasons[node]
                    pending.append(source)
        return {node: reason for node, reason in reasons.items() if node[0] == "site"}

    def deferred_floats(self) -> set[tuple[int, int]]:
        """Return the instructions whose floats may stay deferred: ids of code objects, and offsets."""
        escaped = {*self._forced, *self._escapes, *self._escaped_floats} if self._floats else set()
        pending = list(escaped)
        while pending:
            node = pending.pop()
            sources = self._float_sources.get(node, NONE).union(self._sources.get(node, ())) - escaped
            escaped |= sources
            pending += sources
        return {(code, offset) for _, code, offset in self._floats - escaped}

    def concrete_sites(self) -> set[tuple[int, int]]:
        """Return the sites of such numbers, each as the id of a code object and an offset."""
        return {(code, offset) for _, code, offset in self.concrete_numbers()}


def arguments_of(frame: int) -> Node:
    """Return the node of a frame's arguments."""
    return "arguments", frame


def result_of(frame: int) -> Node:
    """Return the node of a frame's result."""
    return "result", frame
