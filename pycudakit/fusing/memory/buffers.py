"""The arrays of a fused function: the caller's, and those that it makes on the way."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import LentStorage, Storage, owner_of
from pycudakit.fusing.memory.double_buffer import Twin


class Memory:
    """What memory the arrays of a call lie in."""

    def __init__(self) -> None:
        self.scope = residency.Scope()
        self.written: list[Storage] = []  # the caller's that were written to
        self._storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        self._given: list[Storage] = []
        self.stream = 0  # of memory that stands for some on a device, if there is any
        self._labels: Mapping[int, str] = {}
        self._names: weakref.WeakKeyDictionary[Storage, str] = weakref.WeakKeyDictionary()
        self._unnamed = 0
        self._twins: list[Twin] = []
        # Looks for arrays that the function reads by other ways than its arguments, before these move.
        self.elsewhere: Callable[[], Iterable[Array]] | None = None

    def label(self, names: Mapping[int, str]) -> None:
        """Learn the arguments' names, by the identity of their arrays."""
        self._labels = names

    def given(self, arrays: Sequence[Array]) -> None:
        """Learn of the arguments."""
        for array in arrays:
            known = self.storage_of(array)
            if known is None:
                known = Storage(array, self.scope, is_given=True)
                self._storages[id(known.owner)] = known
                self._given.append(known)
                if id(array) in self._labels:
                    self._names[known] = self._labels[id(array)]
            known.extend(array)
        for i, one in enumerate(self._given):  # memory that NumPy does not know to be one
            for other in self._given[:i]:
                if one.first < other.last and other.first < one.last:
                    one.may_keep = other.may_keep = False

    def lent(self, storage: LentStorage) -> None:
        """Learn of memory that stands for some on a device."""
        self._storages[id(storage.owner)] = storage
        self.stream = self.stream or storage.stream

    def home_of(self, array: Array) -> int:
        """Return where an array lies on a device, if a call that is queued there may use it; else 0."""
        storage = self._storages.get(id(owner_of(array)))
        return storage.home_of(array, self.stream) if type(storage) is LentStorage else 0

    def lend(self, arrays: Iterable[Array]) -> None:
        """Let entries find what lies on a device."""
        for array in arrays if self.stream else ():
            storage = self.storage_of(array)
            if type(storage) is LentStorage:
                storage.lend()

    def twin_of(
        self,
        storage: Storage,
        before_write: Callable[[Storage], None],
        copy: Callable[[Array, Array], None],
    ) -> Twin | None:
        """Return what a memory has beside it from now on, if it can."""
        whole = storage.whole
        is_free = storage.may_keep and not storage.is_shared and type(storage) is Storage
        if storage.twin is None and whole is not None and is_free:
            self._share_elsewhere()
            if storage.is_shared or whole.nbytes != storage.last - storage.first:
                return None
            twin = Twin(storage, whole, before_write, copy)
            self._twins.append(twin)
            self._storages[id(twin.beside.owner)] = twin.beside
            twin.beside.keep(residency.TEMPORARY)
        found: Twin | None = storage.twin
        return None if found is None or found.own.is_shared else found

    def join_twins(self) -> None:
        """Have arrays that have two memories be in the caller's alone."""
        for twin in self._twins:
            twin.end()
        self._twins.clear()

    def newest(self, array: Array, storage: Storage) -> tuple[Array, Storage]:
        """Return an array's elements where they are now."""
        return (array, storage) if storage.twin is None else storage.twin.newest(array, storage)

    def storage_of(self, array: Array) -> Storage | None:
        """Return the known memory that an array lies in, as far as NumPy knows."""
        owner = owner_of(array)
        known = self._storages.get(id(owner))
        return known if known is not None and known.owner is owner else None

    def storage_for(self, array: Array) -> Storage:
        """Return the memory of an array, known from now on."""
        storage = self.storage_of(array)
        if storage is None:
            storage = Storage(array, self.scope)
            self._storages[id(storage.owner)] = storage
        return storage

    def share(self, array: Array) -> None:
        """Keep what overlaps an array on the host, where others read it, too."""
        for given in self._given:
            if given.overlaps(array):
                given.share()

    def keep(self, arrays: Iterable[Array]) -> None:
        """Let the device keep what a pass reads, for the next ones."""
        for array in arrays if self.scope.is_open else ():
            storage = self.storage_of(array)
            if storage is not None and storage.holds(array):
                storage.keep(residency.INPUT)

    def will_change(self, storage: Storage) -> None:
        """Note that the caller's memory is written to."""
        if storage.is_given and storage not in self.written:
            self.written.append(storage)
            if self.scope.is_open:
                self._share_elsewhere()

    def _share_elsewhere(self) -> None:
        """Keep on the host the arguments that the function reads there, too: as attributes, say."""
        elsewhere, self.elsewhere = self.elsewhere, None
        for array in () if elsewhere is None else elsewhere():
            self.share(array)

    def bring_home(self) -> None:
        """Bring to the host what the device alone has and somebody may still ask for."""
        for storage in [*self.written, *self._storages.values()]:
            storage.come_home()

    def name_of(self, array: Array) -> str:
        """Return what to call an array."""
        storage = self.storage_of(array)
        if storage is None:
            return "a number" if array.size == 1 else "an array"
        if storage.twin is not None:
            storage = storage.twin.own
        while storage not in self._names:
            self._unnamed += 1
            name = f"t{self._unnamed}"
            if name not in self._labels.values():
                self._names[storage] = name
        return self._names[storage]
