"""The facts about a call that its analysis has read, and the kinds that it has found on the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycudakit.fusing.bytecode.value_kinds import PLAIN, VALUE, VALUES, Container, join, kind_of


class Facts:
    """The facts that the analysis of a call has read and found, shared by its frames.

    A *source* is the way to an object from the arguments, globals and closures. A *site* is a container, cell
    or attribute of the heap, named by the instruction that makes it, or by its source.

    Parameters
    ----------
    read
        Returns the object of a source.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read
        self.kinds: dict[Any, Any] = {}  # by source; a later call must have the same
        self.heap: dict[Any, Any] = {}  # kinds in containers, cells and attributes, joined over the call
        self.has_changed = False  # the heap, in this round
        self.runs_other_code = False  # then numbers and arrays in attributes may have been replaced
        # The sites of containers that are values as far as is known, and those that were until another object
        # was stored there. A site moves from one to the other once, so the rounds end.
        self._values: set[Any] = set()
        self._others: set[Any] = set()

    def kind_at(self, source: Any) -> Any:
        """Return the kind of a source's object, and remember it."""
        kind = self.kinds.get(source)
        if kind is None:
            kind = self.kinds[source] = kind_of(self.read(source), source)
        return kind

    def store(self, site: Any, kind: Any) -> None:
        """Join a kind to those at a site of the heap."""
        before = self.heap.get(site)
        if before is not None and before != kind:  # as in `[[0.0], x]`
            before, kind = self._as_value(before), self._as_value(kind)
        after = join(before, kind)
        if after != self.heap.get(site):
            self.heap[site] = after
            self.has_changed = True
        if site in self._values and not _is_value(after):
            self._values.remove(site)
            self._others.add(site)
            self.has_changed = True

    def _as_value(self, kind: Any) -> Any:
        """Return VALUE for a container of values, unless another object was stored there; else the kind.

        So a list of lists and arrays has one kind of items. If another object is stored in the inner list
        later, the next round of the analysis does without.
        """
        if type(kind) is not Container or kind.site in self._others:
            return kind
        if not _is_value(self.heap.get(kind.site)):
            return kind
        self._values.add(kind.site)
        return VALUE


def _is_value(kind: Any) -> bool:
    return kind is None or kind is PLAIN or kind in VALUES
