"""Second memories of arrays that are written over and over from what is beside each element, as stencils are.

A write that reads other elements of its own array needs a copy of what it reads, or of what it writes. So an
argument that is written like that again and again gets a twin: what is new goes to the memory that is not
read, and that is the array from then on. What was deferred before still reads the other memory, and need not
be computed first.
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

MIN_OVERLAPPING_WRITES = 2  # such writes that come before a twin
_MAX_STALE_REGIONS = 8  # that are told apart
_MAX_CACHED = 128  # arrays, of steps that are likely to come again


class DoubleBuffer:
    """A caller's memory and the one beside it: of one of them is the array, as of now.

    Parameters
    ----------
    own
        The caller's.
    whole
        All of it.
    before_write
        Has what is deferred and reads some memory computed.
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
        self.front = original
        self._full_views = {id(original): full_view, id(self.second): second_array}
        self._bytes = {key: array.reshape(-1).view(np.uint8) for key, array in self._full_views.items()}
        self._stale = [full_view]  # places of the array that the other memory has older values of
        self._counterparts: dict[Node, Node] = {}  # of both memories, what is at the same places
        self._views: dict[tuple[Any, ...], Node] = {}  # by what they are of, and the index
        original.double_buffer = self.second.double_buffer = self

    @property
    def back(self) -> Buffer:
        """The memory that is not the array's now."""
        return self.original if self.front is self.second else self.second

    def counterpart_in(self, buffer: Buffer, array: Array) -> Array:
        """Return the elements of one memory that are at the places of an array of the other one."""
        first = self.original.begin if buffer is self.second else self.second.begin
        offset = address_of(array) - first
        same: Array = np.ndarray(array.shape, array.dtype, self._bytes[id(buffer)], offset, array.strides)
        return same

    def latest(self, array: Array, buffer: Buffer) -> tuple[Array, Buffer]:
        """Return an array's elements where they are now."""
        if buffer is self.front or not buffer.contains(array):
            return array, buffer
        return self.counterpart_in(self.front, array), self.front

    def view(self, node: Node, index: Any) -> Node | None:
        """Return the view at a plain index of what is in one of both, if it is one."""
        parts = index if type(index) is tuple else (index,)
        key = (node, *[(p.start, p.stop, p.step) if type(p) is slice else p for p in parts])
        try:
            cached = self._views.get(key)
        except TypeError:  # what has an index, and no hash
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
        """Learn that some of the array was written to, where it is."""
        if not any(_are_same_region(array, region) for region in self._stale):
            self._stale.append(array)
        if len(self._stale) > _MAX_STALE_REGIONS:
            self.mark_all_written()

    def mark_all_written(self) -> None:
        """Learn that whatever was written to."""
        self._stale = [self._full_views[id(self.front)]]

    def refresh_back(self, except_region: Array) -> None:
        """Have the other memory be as new as the array, but for what is about to be written."""
        for place in self._stale:
            if not _are_same_region(place, except_region):
                self._copy(place, self.counterpart_in(self.back, place))
        self._stale = []

    def swap(self, written: Array) -> None:
        """Have the array be in the other memory, of which some was just written."""
        before, after = self.front, self.back
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
            tracer.node = counterpart
            after.tracers.append(ref)
        before.tracers.clear()
        self.front, self._counterparts = after, counterparts
        self._stale = [written]

    def sync_to_caller(self) -> None:
        """Have the array be in the caller's memory."""
        if self.front is self.original:
            return
        self._before_write(self.original)
        stale = self._stale
        for place in stale:
            self._copy(place, self.counterpart_in(self.original, place))
        self.swap(stale[0])
        self._stale = []

    def end(self) -> None:
        """Leave the array to the caller's memory alone."""
        self.sync_to_caller()
        self.original.double_buffer = self.second.double_buffer = None
        self.second.release()


def _are_same_region(one: Array, other: Array) -> bool:
    return one.strides == other.strides and one.shape == other.shape and address_of(one) == address_of(other)
