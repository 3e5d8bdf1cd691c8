"""One call of a fused function: what it asks of its arrays, as NumPy has it asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._calls.invocation import last_call
from pycudakit._families.elementwise import compound
from pycudakit._library import result_memory
from pycudakit._library.types import CODES, Array, DType
from pycudakit._programs.function import ElementFunction
from pycudakit.fusing import device
from pycudakit.fusing.computing import stand_ins_in
from pycudakit.fusing.elements import SMALL, Elements, cast, conversion, element_function
from pycudakit.fusing.indices import (
    WITH_STAND_IN,
    is_basic,
    is_mask,
    is_view_at,
    parts,
    picked_by,
    place_among,
)
from pycudakit.fusing.nodes import Node, leaf
from pycudakit.fusing.stand_in import StandIn
from pycudakit.fusing.storage import LentStorage, Storage

_MOST_PICKED = 16  # elements that come from the device by themselves: then all of their array does


class Recording(Elements):
    """What a fused function asks for while it runs.

    Parameters
    ----------
    name
        The function's.
    captured
        Of NumPy's functions, which are no ufuncs, who takes them: called with the recording first.
    strict
        Whether a look raises.
    """

    def __init__(self, name: str, captured: Mapping[Any, Callable[..., Any]], strict: bool) -> None:
        super().__init__(name, strict)
        self._captured = captured

    # ---- Indexing ------------------------------------------------------------------------------------

    def view(self, stand_in: StandIn, make: Callable[[Array], Any]) -> Any:
        """Return what stands for a view of it; of a number, for a copy."""
        if stand_in.is_scalar:
            return self.wrap(make(self.read(stand_in)[()]))
        array = self.store(stand_in)
        made = make(array)
        if type(made) is not np.ndarray:
            return self.wrap(make(self.read(stand_in)))
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        if made.size and not storage.overlaps(made):  # a copy: of the host's values
            storage.fetch()
            return self.stand_in(make(array))
        return StandIn(self, leaf(made, storage))

    def get(self, stand_in: StandIn, index: Any) -> Any:
        """Return a view, or the elements at some places."""
        if stand_in.is_scalar:
            return self.wrap(self.read(stand_in)[()][self.resolved(index)])
        basic = is_basic(index)
        if not basic:
            picked = self._picked(stand_in, index)
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
            kept = self._kept_by_mask(stand_in, index) if is_mask(index) else None
            if kept is not None:
                return kept
        return self.wrap(self.read(stand_in)[self.resolved(index)])

    def _picked(self, stand_in: StandIn, index: Any) -> Any:
        """Return the elements that arrays of integers pick, by the kit's `take`; None where NumPy does."""
        if self.rest_is_numpys():
            return None
        picked = picked_by(index, stand_in.shape)
        if picked is None or not self._is_worth_taking(stand_in, picked.arrays):
            return None
        array: Array = self.store(stand_in)[picked.view]
        if not (array.size and array.dtype.isnative and _is_in_order(array)):
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
            array = array.reshape(*array.shape[:axis], math.prod(lengths), *rest)
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
        self.heed_errors()
        basic = is_basic(index) if not self.rest_is_numpys() else False
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
            not self.is_left_to_numpy
            and is_mask(index)
            and index.ndim
            and index.shape == array.shape[: index.ndim]
            and np.ndim(value) <= array.ndim - index.ndim
        ):
            row = array if np.ndim(value) == 0 else array[(0,) * index.ndim] if array.size else None
            node = None if row is None else self._value_for(row, value)
            if node is not None:
                chosen = StandIn(self, node if node.dtype == array.dtype else cast(node, array.dtype))
                missing = array.ndim - index.ndim
                beside = (..., *(None,) * missing)
                mask = index[beside] if missing else index
                return self.write(stand_in, self._chosen(mask, chosen, stand_in).node)
        self._set_by_numpy(stand_in, array, index, value)
        return None

    def _part(self, array: Array, index: Any, is_plain: bool) -> Array:
        """Return the view at an index, which may be of one element."""
        part = array[index] if is_plain else None
        if type(part) is np.ndarray:
            return part
        given = tuple([self._plain_index(each) for each in parts(index)])
        view: Array = array[given if ... in given else (*given, ...)]
        return view

    def _plain_index(self, part: Any) -> Any:
        """Return a part of an index that makes views, of Python's numbers alone."""
        part = self.resolved(part)
        return int(part) if isinstance(part, (np.ndarray, np.generic)) else part  # of integers, by then

    def _chosen(self, mask: Any, yes: StandIn, no: StandIn) -> StandIn:
        chosen: StandIn = self.apply(compound.WHERE, (mask, yes, no))
        return chosen

    def _value_for(self, target: Array, value: Any) -> Node | None:
        """Return the node of what is to be written to an array; None for what NumPy alone takes."""
        if type(value) is StandIn:
            node = value.node
        elif type(value) in (int, float, bool):
            node = leaf(
                np.asarray(value).astype(target.dtype) if type(value) is not int else _int_as(value, target)
            )
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
        try:
            fits = np.broadcast_shapes(shape, target.shape) == target.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"could not broadcast input array from shape {_shown(node.shape)} "
                f"into shape {_shown(target.shape)}"
            )
        if shape != node.shape:
            self.compute_node(node)
            assert node.array is not None  # noqa: S101
            node = leaf(node.array.reshape(shape), node.storage)
        return node

    def _set_by_numpy(self, stand_in: StandIn, array: Array, index: Any, value: Any) -> None:
        """Write to the host's memory."""
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        index, value = self.resolved(index), self.resolved(value)
        self.before_write(storage)
        storage.fetch()
        array[index] = value
        storage.changed()

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def operate(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Write an operator down."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises(inputs)
        if self.rest_is_numpys():
            return self._rest(ufunc, inputs, {})
        function = element_function(ufunc)
        if function is None:
            return self.ufunc(ufunc, "__call__", inputs, {})
        return self.apply(function, inputs)

    def operate_in_place(self, ufunc: Any, target: StandIn, other: Any) -> StandIn:
        """Write an operator down that changes its left operand."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises((target, other))
        else:
            inputs = (target, other)
        if self.rest_is_numpys():
            return self._rest(ufunc, inputs, {"out": (target,)})  # type: ignore[no-any-return]
        function = element_function(ufunc)
        if function is None:
            result: StandIn = self.ufunc(ufunc, "__call__", inputs, {"out": (target,)})
            return result
        changed: StandIn = self.apply(function, inputs, out=target)
        return changed

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a ufunc down, or have NumPy compute it."""
        if self.rest_is_numpys():
            return self._rest(getattr(ufunc, method), inputs, keywords)
        function = element_function(ufunc)
        if function is not None and method == "__call__" and not keywords:
            return self.apply(function, inputs)
        if method == "__call__":
            taken = self._plain_ufunc(function, inputs, keywords)
            if taken is not NotImplemented:
                return taken
        captured = self._captured.get(ufunc if method == "__call__" else (ufunc, method))
        if captured is not None:
            taken = self._taken(captured, inputs, keywords)
            if taken is not NotImplemented:
                return taken
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self.by_numpy(getattr(ufunc, method), inputs, keywords, name)

    def _plain_ufunc(
        self, function: ElementFunction | None, inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if function is None or not keywords.keys() <= {"out", "dtype", "casting"}:
            return NotImplemented
        (out,) = keywords.get("out") or (None,)
        if out is not None and type(out) is not StandIn:
            if type(out) is not np.ndarray or out.dtype not in CODES:
                return NotImplemented
            result = self.apply(
                function, inputs, out=self.outside(out), **{k: v for k, v in keywords.items() if k != "out"}
            )
            self.share(result)
            return out
        dtype = keywords.get("dtype")
        return self.apply(
            function,
            inputs,
            out=out,
            dtype=None if dtype is None else np.dtype(dtype),
            casting=keywords.get("casting", "same_kind"),
        )

    def outside(self, array: Array) -> StandIn:
        """Return what stands for an array that is no argument, to be written to."""
        return StandIn(self, leaf(*self.memory.newest(array, self.memory.storage_for(array))))

    def share(self, stand_in: StandIn) -> None:
        """Bring it to the host, where others see it, and may write to it."""
        self.in_one_memory(stand_in)
        storage = stand_in.node.storage
        if storage is not None:
            self.compute_readers(storage)
            storage.share()

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a function of NumPy's down, or have NumPy compute it."""
        if self.rest_is_numpys():
            return self._rest(function, arguments, keywords)
        captured = self._captured.get(function)
        if captured is not None:
            taken = self._taken(captured, arguments, keywords)
            if taken is not NotImplemented:
                return taken
        return self.by_numpy(function, arguments, keywords)

    def _taken(
        self, captured: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """Call who takes a function; return NotImplemented for arguments that only NumPy has it take."""
        try:
            return captured(self, *arguments, **keywords)
        except errors.Unsupported:
            if self.strict and self.breaks:  # which told of itself
                raise
            return NotImplemented

    def _rest(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Have NumPy compute what comes after passes were given up: nothing is put off."""
        result = self.wrap(function(*self.resolved(arguments), **self.resolved(keywords)))
        out = keywords.get("out")
        if type(out) is tuple and len(out) == 1:
            (out,) = out
        return result if out is None else out

    def elsewhere(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: StandIn | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Have NumPy compute an elementwise function of what it alone takes."""
        keywords: dict[str, Any] = {} if out is None else {"out": out}
        if dtype is not None:
            keywords["dtype"] = dtype
        if casting != "same_kind":
            keywords["casting"] = casting
        return self.by_numpy(function.numpy, tuple(inputs), keywords)

    def by_numpy(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str = ""
    ) -> Any:
        """Have NumPy compute what the kit lacks; it may write to its arguments."""
        name = name or getattr(function, "__name__", str(function))
        self.note_break(f"numpy.{name}(), which pycudakit lacks,", "do that outside of the function")
        return self.on_host(function, arguments, keywords, may_write=True)

    def on_host(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], may_write: bool = False
    ) -> Any:
        """Call a function with arrays."""
        given = self.resolved(arguments), self.resolved(keywords)
        written = stand_ins_in((arguments, keywords)) if may_write else ()
        storages = [s.node.storage for s in written if s.node.storage is not None]
        for storage in storages:
            self.before_write(storage)
        for storage in storages:  # or some entries would write to the device, and others to the host
            storage.leave()
        before = None if self.passes is None else last_call()
        result = function(*given[0], **given[1])
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._tell_of_host(function, (arguments, keywords), wrapped, before)
        return wrapped

    def at_home(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], places: int = 1
    ) -> Any:
        """Call a function that finds its first `places` arguments on the device, and leaves results there."""
        out = keywords.get("out")
        if not self.memory.scope.is_open or not (out is None or self.is_there(out)):
            return self.on_host(function, arguments, keywords, may_write="out" in keywords)
        placed = [self._side_by_side(each) for each in arguments[:places]]
        given = [*map(self.where_it_is, placed), *self.resolved(arguments[places:])]
        named = self.resolved({key: value for key, value in keywords.items() if key != "out"})
        if out is not None:
            self.before_write(out.node.storage)
            self.memory.keep([out.node.array])
            named["out"] = out.node.array
        return self.leave_results(function, given, named, (arguments, keywords))

    def leave_results(self, function: Any, given: Sequence[Any], named: Mapping[str, Any], reads: Any) -> Any:
        """Call a function with arrays, some of which the host does not have, and leave its results, too."""
        kept: list[Storage] = []

        def keep(array: Array) -> None:
            storage = self.memory.storage_for(array)
            storage.keep(device.TEMPORARY)
            kept.append(storage)

        with result_memory.telling(keep, self._show):
            result = function(*given, **named)
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._tell_of_host(function, reads, wrapped, None)
        return wrapped

    def _dense(self, argument: StandIn) -> Array:
        """Return a copy that is dense, on the device."""
        array = result_memory.empty(argument.shape, argument.dtype)
        storage = self.memory.storage_for(array)
        storage.keep(device.TEMPORARY)
        self.write(StandIn(self, leaf(array, storage)), argument.node)
        return array

    def is_there(self, out: Any) -> bool:
        """Tell whether an entry may write to an array where it is."""
        if type(out) is not StandIn or out.is_scalar:
            return False
        flags = self.store(out).flags
        return bool(flags.c_contiguous and flags.writeable and out.dtype.isnative and out.size)

    def _show(self, array: Array) -> None:
        """Bring the values of what is on the device to the host, where a function looks at them after all."""
        storage = self.memory.storage_of(array)
        if storage is not None:
            storage.fetch()

    def _side_by_side(self, argument: Any) -> Any:
        """Return a copy of a view of one dimension, if it is on the device and entries do not find it."""
        if type(argument) is not StandIn or argument.ndim != 1:
            return argument
        array, storage = self.store(argument), argument.node.storage
        is_there = storage is not None and storage.is_kept and array.dtype.isnative
        return argument.copy() if is_there and not array.flags.c_contiguous else argument

    def where_it_is(self, argument: Any) -> Any:
        """Return what an entry finds on the device, if that can be, and else on the host."""
        if type(argument) is not StandIn:
            return self.resolved(argument)
        array = self.store(argument)
        if not array.dtype.isnative:
            return self.resolved(argument)
        if not array.flags.c_contiguous:
            if type(argument.node.storage) is not LentStorage:
                return self.resolved(argument)
            array = self._dense(argument)
        self.memory.keep([array])
        return array

    def _tell_of_host(self, function: Any, given: Any, result: Any, before: Any) -> None:
        reads = [s.node.array for s in stand_ins_in(given) if s.node.array is not None]
        writes = [s.node.array for s in stand_ins_in(result) if s.node.array is not None]
        shape = max((array.shape for array in reads), key=math.prod, default=())
        self.tell(getattr(function, "__name__", type(function).__name__), shape, reads, writes, before)

    def attribute(self, stand_in: StandIn, name: str) -> Any:
        """Return an attribute of the array, or a method that works on the host."""
        self.note_break(f".{name}")
        array = self.read(stand_in)
        found = getattr(array, name)
        if not callable(found):
            self.share(stand_in)  # it may be another way to the memory
            return self.wrap(found)

        def method(*arguments: Any, **keywords: Any) -> Any:
            return self.on_host(
                lambda own, *rest, **named: getattr(own, name)(*rest, **named),
                (stand_in, *arguments),
                keywords,
                may_write=True,
            )

        return method


def _is_in_order(array: Array) -> bool:
    """Tell whether its elements lie in C order, though perhaps not side by side."""
    strides = array.strides
    return array.flags.c_contiguous or all(
        outer >= inner > 0 for outer, inner in zip(strides, (*strides[1:], 1), strict=True)
    )


def _as_numpy_raises(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the ufunc that NumPy's operator takes for a power, and its inputs."""
    base, exponent = inputs
    if type(exponent) in (int, float) and (type(base) is StandIn or isinstance(base, np.ndarray)):
        if exponent == 2:
            return np.square, (base,)
        if base.dtype.kind == "f":
            fast = {1.0: np.positive, -1.0: np.reciprocal, 0.5: np.sqrt}.get(exponent)
            if fast is not None:
                return fast, (base,)
    return np.power, inputs


def _int_as(value: int, target: Array) -> Array:
    result = np.empty((), target.dtype)
    result[...] = value  # raises OverflowError, as NumPy does
    return result


def _shown(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")
