"""Views of stand-ins, elements at some places, and what is written to either."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._families.take import put_rows
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime.native_call import last_call
from pycudakit._runtime.ufunc_arguments import broadcasts_to
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import LentStorage, lies_in_order
from pycudakit.fusing.memory.nodes import Node, leaf, view_of
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.scheduler import stand_ins_in
from pycudakit.fusing.trace.elementwise import SMALL, Elements, cast, conversion
from pycudakit.fusing.trace.index_parsing import (
    WITH_STAND_IN,
    is_basic,
    is_mask,
    is_view_at,
    no_such_place,
    parts,
    picked_by,
    place_among,
)

_MOST_PICKED = 16  # elements that come from the device by themselves: then all of their array does


class Indexing(Elements):
    """A call of a fused function, with what it asks of parts of its arrays."""

    # Writes a function of NumPy's down, with its arguments and keywords.
    call: Callable[..., Any]

    def view(self, stand_in: StandIn, make: Callable[[Array], Any]) -> Any:
        """Return what stands for a view of it; of a number, for a copy."""
        if stand_in.is_scalar:
            return self.wrap(make(self.read(stand_in)[()]))
        if self.is_left_to_numpy:
            return self.wrap(make(self.read(stand_in)))
        if stand_in.node.array is None:
            put_off = self._view_put_off(stand_in.node, make)
            if put_off is not None:
                return put_off
        array = self.store(stand_in)
        made = make(array)
        if type(made) is not np.ndarray:
            return self.wrap(make(self.read(stand_in)))
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        if made.size and not storage.overlaps(made):  # a copy: of the host's values, unless one there will do
            if storage.is_kept and array.dtype.isnative and not array.flags.c_contiguous:
                return self.view(self.call(np.copy, (stand_in, "C"), {}), make)
            storage.fetch()
            return self.stand_in(make(array))
        return StandIn(self, leaf(made, storage))

    def see_as(self, stand_in: StandIn, attribute: str, value: Any) -> None:
        """Have a stand-in be another view of its memory: one that an array becomes with an attribute set."""
        array = self.in_one_memory(stand_in)
        seen: Any = array[()] if stand_in.is_scalar else array.view()
        setattr(seen, attribute, self.resolved(value))
        if seen.dtype not in CODES:
            raise errors.Unsupported(f"{self.name}: an array that it writes down cannot become {seen.dtype}")
        stand_in.node = leaf(seen, stand_in.node.storage)

    def seen_as(self, stand_in: StandIn, *dtype: Any) -> StandIn:
        """Return what stands for another view of its memory, of a type or of its own."""
        array = self.in_one_memory(stand_in)
        return StandIn(self, leaf(array.view(*dtype), stand_in.node.storage))

    def _view_put_off(self, node: Node, make: Callable[[Array], Any]) -> StandIn | None:
        """Return a view of what waits for a reduction, as `m[:, None]` is one, which has the same rows."""
        if not self.is_small_beside_rows(node):
            return None
        outline = np.empty(node.shape, np.bool_)
        made = make(outline)
        is_same = type(made) is np.ndarray and made.flags.c_contiguous and made.size == outline.size
        if not (is_same and address_of(made) == address_of(outline) and made.shape[:1] == node.shape[:1]):
            return None
        if not node.is_apart:
            self.hold_up(node)
        view = view_of(node, make, made.shape)
        self.hold_up(view)
        return self.put_off(StandIn(self, view))

    def get(self, stand_in: StandIn, index: Any) -> Any:
        """Return a view, or the elements at some places."""
        if self.is_left_to_numpy:
            return self.resolved(stand_in)[self._numpys_index(index)]
        if stand_in.is_scalar:
            return self.wrap(self.read(stand_in)[()][self.resolved(index)])
        basic = is_basic(index)
        if not basic:
            picked = None if self.rest_is_numpys() else self.handled(self._picked, stand_in, index)
            if picked is not None:
                return picked
        if basic:
            if basic is not WITH_STAND_IN:
                if self.engine == "auto":
                    self.costs.view()
                node = stand_in.node
                array = node.array
                if node.storage is not None and node.storage.twin is not None:
                    view = node.storage.twin.view(node, index)
                    if view is not None:
                        return StandIn(self, view)
                if array is None and (self.reductions or self.held_up):
                    put_off = self._view_put_off(node, lambda array: array[index])
                    if put_off is not None:
                        return put_off
                found = (self.store(stand_in) if array is None or node.storage is None else array)[index]
                if type(found) is np.ndarray:
                    return StandIn(self, leaf(found, stand_in.node.storage))
                storage = stand_in.node.storage
                if storage is not None and storage.is_kept:
                    if storage.picked < _MOST_PICKED or type(storage) is LentStorage:
                        storage.picked += 1
                        part = self._part(self.store(stand_in), index, False)
                        return self.apply(
                            conversion(stand_in.node.dtype), (StandIn(self, leaf(part, storage)),)
                        )
                    found = self.read(stand_in)[index]
                return StandIn(self, leaf(np.asarray(found)), True)
        elif any(is_mask(part) for part in parts(index)):
            self.note_break("the number of elements that a mask keeps", "use numpy.where() to keep the shape")
            kept = self.handled(self._kept_by_mask, stand_in, index) if is_mask(index) else None
            if kept is not None:
                return kept
        return self.wrap(self.read(stand_in)[self.resolved(index)])

    def _picked(self, stand_in: StandIn, index: Any) -> Any:
        """Return the elements that arrays of integers pick, by `take`; None where that is NumPy's."""
        picked = picked_by(index, stand_in.shape)
        if picked is None or not self._is_worth_taking(stand_in, picked.arrays):
            return None
        array: Array = self.store(stand_in)[picked.view]
        if not (array.size and array.dtype.isnative and lies_in_order(array)):
            return None
        if not array.flags.c_contiguous:
            if stand_in.node.storage is None or not stand_in.node.storage.is_kept:
                return None
            stand_in = StandIn(self, leaf(array, stand_in.node.storage)).copy()
            array = self.store(stand_in)
        axis, arrays = picked.axis, [self._as_index(each) for each in picked.arrays]
        lengths = array.shape[axis : axis + len(arrays)]
        rest = array.shape[axis + len(arrays) :]
        if len(arrays) > 1:
            array = array.reshape((*array.shape[:axis], math.prod(lengths), *rest))
        place = place_among(self, arrays, lengths, axis)
        found = self.call(np.take, (StandIn(self, leaf(array, stand_in.node.storage)), place, axis), {})
        if not axis:
            return found
        # NumPy has what is picked first in memory, and the rest within.
        behind = tuple(range(axis, axis + place.ndim))
        ahead = tuple(range(place.ndim))
        moved = self.call(np.copy, (self.view(found, lambda a: np.moveaxis(a, behind, ahead)), "C"), {})
        return self.view(moved, lambda a: np.moveaxis(a, ahead, behind))

    def _kept_by_mask(self, stand_in: StandIn, mask: Any) -> Any:
        """Return the elements that a mask keeps, where that can be on the device; else None."""
        if not self.memory.scope.is_open or type(mask) is not StandIn or not (mask.ndim and mask.size):
            return None
        array, shape = self.store(stand_in), mask.shape
        if shape != array.shape[: len(shape)] or not (array.flags.c_contiguous and array.dtype.isnative):
            return None
        merged = array.reshape(mask.size, *array.shape[len(shape) :])
        place = self.call(np.flatnonzero, (mask,), {})
        return self.call(np.take, (StandIn(self, leaf(merged, stand_in.node.storage)), place, 0), {})

    def _as_index(self, integers: Any) -> StandIn:
        """Return integers as the kit takes them for indices."""
        if type(integers) is not StandIn:
            node, _ = self.leaf_of(integers)
            assert node is not None  # noqa: S101
            integers = StandIn(self, node)
        result: StandIn = integers if integers.dtype == np.int64 else integers.astype(np.int64)
        return result

    def _is_worth_taking(self, stand_in: StandIn, indices: Sequence[Any]) -> bool:
        """Tell whether elements by indices are not better left to NumPy, whose bits are the same."""
        if max(each.size for each in indices) > SMALL or stand_in.size > SMALL:
            return True
        nodes = [each.node for each in (stand_in, *indices) if type(each) is StandIn]
        return any(node.storage is not None and node.storage.is_kept for node in nodes)

    def set(self, stand_in: StandIn, index: Any, value: Any) -> None:
        """Write to a view, or to the elements at some places."""
        if self.rest_is_numpys():
            self.resolved(stand_in)[self._numpys_index(index)] = self.resolved(value)
            return None
        self.heed_errors()
        basic = is_basic(index)
        # Of an index that has values, others are read on the way.
        array = self.store(stand_in) if basic is True else self.in_one_memory(stand_in)
        if type(value) is StandIn and is_view_at(array, index, value.node.array):
            return None  # what Python does after it changed a view in place
        if basic:
            part = self._part(array, index, basic is True)
            node = self._value_for(part, value)
            if node is not None:
                is_seen = type(value) is StandIn
                return self.write(StandIn(self, leaf(part, stand_in.node.storage)), node, is_seen)
        elif (
            is_mask(index)
            and index.ndim
            and index.shape == array.shape[: index.ndim]
            and np.ndim(value) <= array.ndim - index.ndim
        ):
            row = array if np.ndim(value) == 0 else array[(0,) * index.ndim] if array.size else None
            node = None if row is None else self._value_for(row, value)
            if node is not None:
                chosen = StandIn(self, node if node.dtype == array.dtype else cast(node, array.dtype))
                missing = array.ndim - index.ndim
                ahead = (..., *[None] * missing)
                mask = index[ahead] if missing else index
                return self.write(stand_in, self._chosen(mask, chosen, stand_in).node)
        if not basic and self._put_there(stand_in, index, value):
            return None
        self.write_by_numpy(operator.setitem, stand_in, (index, value))
        return None

    def lies_there(self, stand_in: StandIn) -> bool:
        """Tell whether an array lies side by side on the device, and may be written to."""
        array, storage = self.store(stand_in), stand_in.node.storage
        if storage is None or not storage.is_kept or not self.memory.scope.is_open:
            return False
        flags = array.flags
        return bool(flags.c_contiguous and flags.writeable and array.dtype.isnative and array.size)

    def _put_there(self, stand_in: StandIn, index: Any, value: Any) -> bool:
        """Write to rows by integers or by a mask on the device; tell whether that could be."""
        if not self.lies_there(stand_in):
            return False
        array, storage = self.store(stand_in), stand_in.node.storage
        assert storage is not None  # noqa: S101
        shape = np.shape(value)
        if type(index) is StandIn and is_mask(index) and index.ndim:
            ahead = index.ndim
            if index.shape != array.shape[:ahead] or shape[1:] != array.shape[ahead:] or not shape:
                return False
            places = self.call(np.flatnonzero, (index,), {})
            array = array.reshape(index.size, *array.shape[ahead:])
            if shape[0] != places.size or not places.size:
                return False
        else:
            picked = picked_by(index, array.shape) if len(parts(index)) == 1 else None
            if picked is None or len(picked.arrays) != 1 or picked.axis:
                return False
            places = self._as_index(picked.arrays[0])
        rest = array.shape[1:]
        wanted = rest if len(shape) <= len(rest) else (*places.shape, *rest)
        is_repeated_often = math.prod(wanted) > max(math.prod(shape), array.size)
        if is_repeated_often or not broadcasts_to(shape, wanted):
            return False
        values = np.empty(wanted, array.dtype)
        node = self._value_for(values, value)
        if node is None:
            return False
        self.before_write(storage)  # which what is written now may read
        values_there = self._left_there(values, node)
        indices = self.store(places)
        if not indices.flags.c_contiguous or storage.overlaps(indices):
            indices = np.empty(places.shape, np.int64)
            places = self._left_there(indices, places.node)
        self.memory.keep([array, indices, values])
        try:
            put_rows(array, indices, values, 1 if wanted == rest else indices.size)
        except IndexError:
            raise no_such_place(self.read(places), len(array), 0) from None
        self.tell("put", array.shape, [indices, values], [array])
        del values_there, places
        return True

    def _left_there(self, array: Array, node: Node) -> StandIn:
        """Return what stands for a new array, which has a value, on the device."""
        storage = self.memory.storage_for(array)
        storage.keep(residency.TEMPORARY)
        stand_in = StandIn(self, leaf(array, storage))
        self.write(stand_in, node)
        return stand_in

    def _part(self, array: Array, index: Any, is_plain: bool) -> Array:
        """Return the view at an index, which may be of one element."""
        part = array[index] if is_plain else None
        if type(part) is np.ndarray:
            return part
        given = tuple([self._plain_index(each) for each in parts(index)])
        view: Array = array[given if ... in given else (*given, ...)]
        return view

    def _numpys_index(self, index: Any) -> Any:
        """Return an index with arrays for all that stands for some; of numbers alone soon."""
        for part in index if type(index) is tuple else (index,):
            if type(part) is not int:
                return self.resolved(index)
        return index

    def _plain_index(self, part: Any) -> Any:
        """Return a part of an index that makes views, of Python's numbers alone."""
        part = self.resolved(part)
        return int(part) if isinstance(part, (np.ndarray, np.generic)) else part  # of integers, by then

    def _chosen(self, mask: Any, yes: StandIn, no: StandIn) -> StandIn:
        chosen: StandIn = self.apply(non_ufuncs.WHERE, (mask, yes, no))
        return chosen

    def _value_for(self, target: Array, value: Any) -> Node | None:
        """Return the node of what is to be written to an array; None for what NumPy alone takes."""
        (value,) = self.own((value,))
        if type(value) is StandIn:
            node = value.node
        elif type(value) in (int, float, bool):
            node = leaf(_number_as(value, target))
        else:
            found, _ = self.leaf_of(value)
            if found is None:
                return None
            node = found
        shape = node.shape
        if shape == target.shape:
            return node
        while len(shape) > target.ndim and shape[0] == 1:
            shape = shape[1:]
        if not broadcasts_to(shape, target.shape):
            raise ValueError(
                f"could not broadcast input array from shape {_shown(node.shape)} "
                f"into shape {_shown(target.shape)}"
            )
        if shape != node.shape:
            self.compute_node(node)
            assert node.array is not None  # noqa: S101
            node = leaf(node.array.reshape(shape), node.storage)
        return node

    def write_by_numpy(
        self, function: Any, stand_in: StandIn, rest: tuple[Any, ...], keywords: dict[str, Any] | None = None
    ) -> None:
        """Have a function write to an array in the host's memory, with the rest of its arguments."""
        array = self.in_one_memory(stand_in)
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        given, named = self.resolved(rest), self.resolved(keywords or {})
        self.before_write(storage)
        storage.fetch()
        before = None if self.passes is None else last_call()
        try:
            function(array, *given, **named)
        finally:  # some write before they raise
            storage.changed()
        reads = [s.node.array for s in stand_ins_in((rest, keywords)) if s.node.array is not None]
        self.tell(getattr(function, "__name__", "put"), array.shape, reads, [array], before)


def _number_as(value: float, target: Array) -> Array:
    result = np.empty((), target.dtype)
    result[...] = value  # raises for what the type has not, as NumPy does
    return result


def _shown(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")
