"""Double buffering for in-place stencils.

A write that reads other elements of the same array would need a copy of its input or output. So an argument
gets a second buffer after `MIN_OVERLAPPING_WRITES` such writes: each step reads one buffer, the front, writes
the other, and swaps them. Deferred operations still read the old buffer, and need not be computed first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.nodes import Node, leaf

MIN_OVERLAPPING_WRITES = 2  # writes that need a copy, before the second buffer is allocated
_MAX_STALE_REGIONS = 8  # tracked separately; above that, the whole array is stale
_MAX_CACHED = 128  # views and counterparts, of steps that are likely to repeat


class DoubleBuffer:
    """The caller's buffer and a second one; the front buffer of the two has the array's newest values.

    Parameters
    ----------
    original
        The caller's buffer.
    full_view
        An array of the whole buffer.
    before_write
        Computes the deferred nodes that read a buffer.
    copy
        Copies an array's elements to another array.
    """

    def __init__(
        self,
        original: Buffer,
        full_view: Array,
        before_write: Callable[[Buffer], None],
        copy: Callable[[Array, Array], None],
    ) -> None:
        self._before_write = before_write
        self._copy = copy
        self.original = original
        second_array = allocator.empty(full_view.shape, full_view.dtype)
        self.second = Buffer(second_array, original.scope)
        self.second.may_double_buffer, self.second.overlapping_writes = True, MIN_OVERLAPPING_WRITES
        self._full_views = {id(original): full_view, id(self.second): second_array}
        self._bytes = {key: array.reshape(-1).view(np.uint8) for key, array in self._full_views.items()}
        # The front buffer, the regions of it in which the back buffer has older values, and tracers that take
        # their new nodes. One attribute, since an interrupt may come between two assignments.
        self._state: tuple[Buffer, list[Array], list[tuple[Any, Node]]] = original, [full_view], []
        self._counterparts: dict[Node, Node] = {}  # nodes of the same region in both buffers
        self._views: dict[tuple[Any, ...], Node] = {}  # views of nodes, by node and index
        original.double_buffer = self.second.double_buffer = self

    @property
    def front(self) -> Buffer:
        """The buffer with the newest values."""
        return self._state[0]

    @property
    def _stale(self) -> list[Array]:
        return self._state[1]

    @property
    def back(self) -> Buffer:
        """The buffer that the next step writes to."""
        return self.original if self.front is self.second else self.second

    def counterpart_in(self, buffer: Buffer, array: Array) -> Array:
        """Return the view of `buffer` at the same offset as an array of the other buffer."""
        first = self.original.begin if buffer is self.second else self.second.begin
        offset = address_of(array) - first
        same: Array = np.ndarray(array.shape, array.dtype, self._bytes[id(buffer)], offset, array.strides)
        return same

    def latest(self, array: Array, buffer: Buffer) -> tuple[Array, Buffer]:
        """Return the array and the buffer that have the newest values of an array's elements."""
        if buffer is self.front or not buffer.contains(array):
            return array, buffer
        return self.counterpart_in(self.front, array), self.front

    def view(self, node: Node, index: Any) -> Node | None:
        """Return the node of the view of a node at a basic index, cached; None if the index makes no view."""
        parts = index if type(index) is tuple else (index,)
        key = (node, *[(p.start, p.stop, p.step) if type(p) is slice else p for p in parts])
        try:
            cached = self._views.get(key)
        except TypeError:  # an index that is not hashable
            return None
        if cached is None and node.array is not None:
            array = node.array[index]
            if type(array) is not np.ndarray:
                return None
            if len(self._views) >= _MAX_CACHED:
                self._views.clear()
            cached = self._views[key] = leaf(array, node.buffer)
        return cached

    # ---- Writes --------------------------------------------------------------------------------------

    def mark_written(self, array: Array) -> None:
        """Record a write to a region of the front buffer."""
        if not any(_are_same_region(array, region) for region in self._stale):
            self._stale.append(array)
        if len(self._stale) > _MAX_STALE_REGIONS:
            self.mark_all_written()

    def mark_all_written(self) -> None:
        """Record a write to an unknown region of the front buffer."""
        self._set_stale([self._full_views[id(self.front)]])

    def _set_stale(self, regions: list[Array]) -> None:
        self._state = self.front, regions, []

    def refresh_back(self, except_region: Array) -> None:
        """Copy the stale regions to the back buffer, except the one that is about to be written."""
        for region in self._stale:
            if not _are_same_region(region, except_region):
                self._copy(region, self.counterpart_in(self.back, region))
        self._set_stale([except_region])  # until it is written

    def swap(self, written: Array) -> None:
        """Make the back buffer, to which `written` was just written, the front buffer."""
        self._swap([written])

    def _swap(self, stale: list[Array]) -> None:
        before, after = self.front, self.back
        moves = []
        counterparts = self._counterparts if len(self._counterparts) < _MAX_CACHED else {}
        for ref in before.tracers:
            tracer = ref()
            node = None if tracer is None else tracer.node
            if tracer is None or node is None or node.array is None or node.buffer is not before:
                continue
            counterpart = self._counterparts.get(node)
            if counterpart is None:
                counterpart = leaf(self.counterpart_in(after, node.array), after)
            counterparts[node], counterparts[counterpart] = counterpart, node
            moves.append((tracer, counterpart))
        self._counterparts = counterparts
        after.tracers += before.tracers
        self._state = after, stale, moves
        before.tracers.clear()
        self._move_tracers()

    def _move_tracers(self) -> None:
        """Give the tracers their nodes in the front buffer."""
        front, stale, moves = self._state
        for tracer, node in moves:
            tracer.node = node
        self._state = front, stale, []

    def sync_to_caller(self) -> None:
        """Make the caller's buffer the front buffer, with the newest values."""
        if self._state[2]:  # an interrupt came between
            self._move_tracers()
        if self.front is self.original:
            return
        self._before_write(self.original)
        for region in self._stale:
            self._copy(region, self.counterpart_in(self.original, region))
        self._swap([])

    def end(self) -> None:
        """End double buffering; the array is in the caller's buffer."""
        self.sync_to_caller()
        self.original.double_buffer = self.second.double_buffer = None
        self.second.release()


def _are_same_region(one: Array, other: Array) -> bool:
    return one.strides == other.strides and one.shape == other.shape and address_of(one) == address_of(other)
