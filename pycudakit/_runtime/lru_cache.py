"""`LRUCache`, a dictionary that is bounded by entries; `release_least_recent` frees memory above a limit."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")

next_use = itertools.count(1).__next__  # a number for each use, in order


class Releasable(Protocol):
    """Objects that keep memory for later calls."""

    last_use: int  # by `next_use()`

    @property
    def bytes(self) -> int:
        """The memory that `release` frees."""

    def release(self) -> None:
        """Free the memory; a later call allocates it again."""


def release_least_recent(users: Iterable[Releasable], max_bytes: int) -> None:
    """Release the objects that were used least recently, until the others have at most `max_bytes`.

    The one that was used last stays in any case.
    """
    in_order = sorted(users, key=operator.attrgetter("last_use"))
    excess = sum([each.bytes for each in in_order]) - max_bytes
    for each in in_order[:-1]:
        if excess <= 0:
            break
        excess -= each.bytes
        each.release()


class LRUCache(dict[K, V | None], Generic[K, V]):
    """A dictionary of at most `max_entries` entries, two or more; a key without an entry has the value None.

    The entries have two generations. Reads and writes move an entry to the recent one. When that has half of
    the entries, it becomes the older one, whose entries are dropped. So the half that was used last stays,
    and a read of a recent entry is a read of a dict, and costs nothing more. `in`, `get` and `len` know the
    recent generation alone.
    """

    __slots__ = ("_half", "_older")

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._half = max_entries // 2
        self._older: dict[K, V | None] = {}

    def __missing__(self, key: K) -> V | None:
        """Return the entry of the older generation, which becomes recent, or None."""
        value = self._older.get(key)
        if value is not None:
            self[key] = value
        return value

    def __setitem__(self, key: K, value: V | None) -> None:
        """Set an entry; drop the older generation if the recent one is full."""
        if len(self) >= self._half and key not in self:
            self.age()
        super().__setitem__(key, value)

    def age(self) -> None:
        """Drop the entries that were not used since the last call of this."""
        self._older = dict(self)
        super().clear()

    def clear(self) -> None:
        """Drop all entries."""
        self._older = {}
        super().clear()

    def live_values(self) -> Iterator[V]:
        """Return the values of both generations."""
        entries = {**self._older, **self}
        return iter([value for value in entries.values() if value is not None])
