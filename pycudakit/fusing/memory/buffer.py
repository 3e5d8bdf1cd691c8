"""The memory of arrays while a function is fused: whose it is, and where its newest values are."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from pycudakit._native.abi import LENT_DEVICE, LENT_HOST, address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.residency import Scope

_SEEN = 64  # stand-ins, of which those that are no more are then forgotten


class Storage:
    """Memory that arrays are views of.

    Parameters
    ----------
    array
        One that lies in it.
    scope
        What knows of it on the device.
    is_given
        Whether it is the caller's.
    """

    __slots__ = (
        "__weakref__",
        "first",
        "is_given",
        "is_kept",
        "is_shared",
        "last",
        "may_keep",
        "may_move",
        "most_seen",
        "overlapped",
        "owner",
        "picked",
        "scope",
        "seen",
        "twin",
        "whole",
    )

    def __init__(self, array: Array, scope: Scope, is_given: bool = False) -> None:
        self.owner = owner_of(array)
        self.scope = scope
        self.is_given = is_given
        self.may_keep = True
        self.is_kept = False  # on the device
        self.picked = 0  # elements that were asked for one by one
        self.is_shared = False  # with others, who may write to it unseen
        self.overlapped = 0  # writes that read other elements of it
        self.twin: Any = None  # its Twin
        self.may_move = is_given  # to a twin: what stands for its arrays is remembered
        self.seen: list[weakref.ref[Any]] = []
        self.most_seen = _SEEN
        self.whole: Array | None = None  # what is all of it, side by side
        self.first, self.last = bounds(array)

    def __del__(self) -> None:
        """Let the device forget it."""
        if self.is_kept:
            self.scope.drop(self.first)

    def extend(self, array: Array) -> None:
        """Learn of another array that lies in it."""
        first, last = bounds(array)
        if self.first == self.last:
            self.first, self.last = first, last
        elif first < last:
            self.first, self.last = min(first, self.first), max(last, self.last)
        if array.flags.c_contiguous and (first, last) == (self.first, self.last):
            self.whole = array

    def see(self, stand_in: Any) -> None:
        """Learn of what stands for an array in it."""
        seen = self.seen
        if self.may_move:
            if len(seen) >= self.most_seen:
                seen[:] = [known for known in seen if known() is not None]
                self.most_seen = max(_SEEN, 2 * len(seen))
            seen.append(weakref.ref(stand_in))

    def keep(self, what: int) -> None:
        """Let the device keep it, if it has room."""
        if not self.is_kept and self.may_keep:
            self.is_kept = self.scope.keep(self.first, self.last - self.first, what)
            if self.is_kept and self.scope.listener is not None:
                self.scope.listener.owns(self.owner)

    def fetch(self) -> None:
        """Bring what the device alone has to the host."""
        if self.is_kept:
            self.scope.fetch(self.first)

    def come_home(self) -> None:
        """Bring it to where the caller has it."""
        if self.twin is not None:
            self.twin.come_home()
        self.fetch()

    def changed(self) -> None:
        """Say that the host's memory was written to, by others than the engine."""
        if self.is_kept:
            self.scope.changed(self.first)

    def leave(self) -> None:
        """Bring it to the host, and let the device forget it."""
        self.fetch()
        self.forget()

    def forget(self) -> None:
        """Let the device forget it."""
        if self.is_kept:
            self.scope.drop(self.first)
        self.is_kept = False

    def share(self) -> None:
        """Keep it on the host from now on, where others read it, too."""
        if self.twin is not None:
            self.twin.come_home()
        self.leave()
        self.may_keep = False
        self.is_shared = True

    def has(self, node: Any) -> bool:
        """Tell whether some of a node's array lies in this memory."""
        storage = node.storage
        if storage is self:
            return True
        if storage is not None and storage.twin is not None and storage.twin is self.twin:
            return False
        return self.overlaps(node.array)

    def overlaps(self, array: Array) -> bool:
        """Tell whether some of an array lies in this memory."""
        first, last = bounds(array)
        return first < self.last and self.first < last

    def holds(self, array: Array) -> bool:
        """Tell whether all of an array lies in this memory."""
        first, last = bounds(array)
        return self.first <= first and last <= self.last


class LentStorage(Storage):
    """Memory that stands for the caller's own on a device: its pages are touched only on the way of copies.

    The device is told of it when an entry is to find it, or somebody looks at it. Until then its newest
    values are where the caller has them, and calls may be queued there.

    Parameters
    ----------
    array
        All of it.
    home
        The device's memory.
    streams
        Those that the home's values come in.
    """

    __slots__ = ("_home", "_is_lent", "is_untouched", "streams")

    def __init__(self, array: Array, scope: Scope, home: int, streams: Iterable[int]) -> None:
        super().__init__(array, scope, is_given=True)
        self._home, self.streams = home, tuple(streams)
        self._is_lent = False
        self.is_untouched = True  # as long as no entry was told of it
        self.is_kept = True  # but for what is lost on the way

    def __del__(self) -> None:
        """Let the device forget it."""
        if self._is_lent:
            self.scope.drop(self.first)

    @property
    def stream(self) -> int:
        """One of its streams."""
        return self.streams[0]

    def home_of(self, array: Array, stream: int) -> int:
        """Return where an array's values are on the device, for a kernel in a stream; else 0."""
        if self._is_lent or not self.is_kept or any(each != stream for each in self.streams):
            return 0
        home, item = self._home + address_of(array) - self.first, array.itemsize
        is_aligned = home % item == 0 and all(stride % item == 0 for stride in array.strides)
        return home if is_aligned and array.dtype.isnative else 0

    def device(self) -> int:
        """Return which device it lies on; nothing waits for that."""
        device = self.scope.lend(self.first, self.last - self.first, self._home, 0, LENT_DEVICE)
        self.scope.drop(self.first)
        return device

    def lend(self) -> None:
        """Let entries find it, with what its streams are to do before."""
        streams = (0,) if self.scope.queues else self.streams
        for stream in streams if self.is_kept and not self._is_lent else ():
            if self._is_lent:
                self.scope.drop(self.first)
            self._lend(stream, LENT_DEVICE)

    def _lend(self, stream: int, valid: int) -> None:
        self._is_lent, self.is_untouched = True, False
        self.scope.lend(self.first, self.last - self.first, self._home, stream, valid)

    def keep(self, what: int) -> None:  # noqa: ARG002
        """Let entries find it."""
        self.lend()

    def fetch(self) -> None:
        """Bring what the device alone has to the host."""
        self.lend()
        super().fetch()

    def changed(self) -> None:
        """Say that the host's memory was written to, by others than the engine."""
        self.lend()
        super().changed()

    def leave(self) -> None:
        """Bring it to the host, and let the device forget it until the end."""
        super().leave()
        self._is_lent = False

    def come_home(self) -> None:
        """Stay: its home is the device."""

    def give_back(self) -> None:
        """Leave the device's memory to the caller, with the newest values."""
        if not self.is_kept:
            self._lend(0, LENT_HOST)
        if self._is_lent:
            self.scope.send(self.first)
            self.scope.drop(self.first)
        self._is_lent = self.is_kept = False


def bounds(array: Array) -> tuple[int, int]:
    """Return the first byte's address and the one after the last; (0, 0) of no elements."""
    if not array.size:
        return (0, 0)
    first = last = address_of(array)
    if array.flags.c_contiguous:
        return first, first + array.nbytes
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            first += (length - 1) * stride
        else:
            last += (length - 1) * stride
    return first, last + array.itemsize


def lies_in_order(array: Array) -> bool:
    """Tell whether its elements lie in C order, though perhaps not side by side."""
    strides = array.strides
    return array.flags.c_contiguous or all(
        outer >= inner > 0 for outer, inner in zip(strides, (*strides[1:], 1), strict=True)
    )


def owner_of(array: Any) -> Array:
    """Return an array of the whole memory that an array is a view of, as far as that is NumPy's."""
    owner: Any = array
    while type(owner.base) is np.ndarray:
        owner = owner.base
    return owner  # type: ignore[no-any-return]
