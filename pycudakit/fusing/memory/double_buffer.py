"""Second memories of arrays that are written over and over from what is beside each element, as stencils are.

A write that reads other elements of its own array needs a copy of what it reads, or of what it writes. So an
argument that is written like that again and again gets a twin: what is new goes to the memory that is not
read, and that is the array from then on. What was put off before still reads the other memory, and need not
be computed first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.nodes import Node, leaf

OFTEN = 2  # such writes that come before a twin
_MOST_PLACES = 8  # that are told apart
_MOST_KNOWN = 128  # arrays, of steps that are likely to come again


class Twin:
    """A caller's memory and the one beside it: of one of them is the array, as of now.

    Parameters
    ----------
    own
        The caller's.
    whole
        All of it.
    before_write
        Has what is put off and reads some memory computed.
    copy
        Copies an array's elements to another array.
    """

    def __init__(
        self,
        own: Storage,
        whole: Array,
        before_write: Callable[[Storage], None],
        copy: Callable[[Array, Array], None],
    ) -> None:
        self._before_write = before_write
        self._copy = copy
        self.own = own
        made = allocator.empty(whole.shape, whole.dtype)
        self.beside = Storage(made, own.scope)
        self.beside.may_move, self.beside.overlapped = True, OFTEN
        self.now = own
        self._wholes = {id(own): whole, id(self.beside): made}
        self._bytes = {key: array.reshape(-1).view(np.uint8) for key, array in self._wholes.items()}
        self._older = [whole]  # places of the array that the other memory has older values of
        self._pairs: dict[Node, Node] = {}  # of both memories, what is at the same places
        self._views: dict[tuple[Any, ...], Node] = {}  # by what they are of, and the index
        own.twin = self.beside.twin = self

    @property
    def other(self) -> Storage:
        """The memory that is not the array's now."""
        return self.own if self.now is self.beside else self.beside

    def same_in(self, storage: Storage, array: Array) -> Array:
        """Return the elements of one memory that are at the places of an array of the other one."""
        first = self.own.first if storage is self.beside else self.beside.first
        offset = address_of(array) - first
        same: Array = np.ndarray(array.shape, array.dtype, self._bytes[id(storage)], offset, array.strides)
        return same

    def newest(self, array: Array, storage: Storage) -> tuple[Array, Storage]:
        """Return an array's elements where they are now."""
        if storage is self.now or not storage.holds(array):
            return array, storage
        return self.same_in(self.now, array), self.now

    def view(self, node: Node, index: Any) -> Node | None:
        """Return the view at a plain index of what is in one of both, if it is one."""
        parts = index if type(index) is tuple else (index,)
        key = (node, *[(p.start, p.stop, p.step) if type(p) is slice else p for p in parts])
        try:
            known = self._views.get(key)
        except TypeError:  # what has an index, and no hash
            return None
        if known is None and node.array is not None:
            array = node.array[index]
            if type(array) is not np.ndarray:
                return None
            if len(self._views) >= _MOST_KNOWN:
                self._views.clear()
            known = self._views[key] = leaf(array, node.storage)
        return known

    # ---- Writes --------------------------------------------------------------------------------------

    def note(self, array: Array) -> None:
        """Learn that some of the array was written to, where it is."""
        if not any(_are_same(array, known) for known in self._older):
            self._older.append(array)
        if len(self._older) > _MOST_PLACES:
            self.note_all()

    def note_all(self) -> None:
        """Learn that whatever was written to."""
        self._older = [self._wholes[id(self.now)]]

    def bring_up(self, besides: Array) -> None:
        """Have the other memory be as new as the array, but for what is about to be written."""
        for place in self._older:
            if not _are_same(place, besides):
                self._copy(place, self.same_in(self.other, place))
        self._older = []

    def move(self, written: Array) -> None:
        """Have the array be in the other memory, of which some was just written."""
        before, after = self.now, self.other
        pairs = self._pairs if len(self._pairs) < _MOST_KNOWN else {}
        for known in before.seen:
            stand_in = known()
            node = None if stand_in is None else stand_in.node
            if stand_in is None or node is None or node.array is None or node.storage is not before:
                continue
            there = self._pairs.get(node)
            if there is None:
                there = leaf(self.same_in(after, node.array), after)
            pairs[node], pairs[there] = there, node
            stand_in.node = there
            after.seen.append(known)
        before.seen.clear()
        self.now, self._pairs = after, pairs
        self._older = [written]

    def come_home(self) -> None:
        """Have the array be in the caller's memory."""
        if self.now is self.own:
            return
        self._before_write(self.own)
        older = self._older
        for place in older:
            self._copy(place, self.same_in(self.own, place))
        self.move(older[0])
        self._older = []

    def end(self) -> None:
        """Leave the array to the caller's memory alone."""
        self.come_home()
        self.own.twin = self.beside.twin = None
        self.beside.forget()


def _are_same(one: Array, other: Array) -> bool:
    return one.strides == other.strides and one.shape == other.shape and address_of(one) == address_of(other)
