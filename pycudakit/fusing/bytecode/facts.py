"""The facts about a call that its analysis has read, and the kinds that it has found on the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycudakit.fusing.bytecode.value_kinds import join, kind_of


class Facts:
    """The facts that the analysis of a call has read and found, shared by its frames.

    Parameters
    ----------
    read
        Returns the object of a source.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read
        self.kinds: dict[Any, Any] = {}  # by source; a later call must have the same
        self.heap: dict[Any, Any] = {}  # kinds in containers, cells and attributes, joined over the call
        self.has_changed = False  # the heap, since the analysis began
        self.runs_other_code = False  # then numbers and arrays in attributes may have been replaced

    def kind_at(self, source: Any) -> Any:
        """Return the kind of a source's object, and remember it."""
        kind = self.kinds.get(source)
        if kind is None:
            kind = self.kinds[source] = kind_of(self.read(source), source)
        return kind

    def store(self, site: Any, kind: Any) -> None:
        """Join a kind to those at a site of the heap."""
        before = self.heap.get(site)
        after = join(before, kind)
        if after != before:
            self.heap[site] = after
            self.has_changed = True
