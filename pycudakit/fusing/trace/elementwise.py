"""Elementwise functions of stand-ins: written down, or computed at once where that is quicker."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.element_function import (
    ElementFunction,
    as_numpy_takes_numbers,
    compile_function,
)
from pycudakit._element_programs.values import OF_ANY_INTEGER
from pycudakit._families.elementwise import non_ufuncs, ufuncs
from pycudakit._families.elementwise.fast_path import call as call_elementwise
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.ufunc_arguments import as_argument, broadcast, needs_copy
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.double_buffer import OFTEN
from pycudakit.fusing.memory.nodes import MOST_STEPS, PLAIN, Node, Pass, leaf, lie_alike, reads
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.tile_rows import Rows

SMALL = 8192  # elements: `auto` computes with fewer at once
TINY = 1024  # elements: exact operations on so few are NumPy's, whose bits are the same
SNAPSHOT = 32 << 10  # bytes: arrays that are no arguments are copied if they have no more

_EXACT_NAMES = """absolute add divide equal greater greater_equal less less_equal logical_and logical_not
logical_or maximum minimum multiply negative not_equal sqrt square subtract"""
_EXACT = frozenset(_EXACT_NAMES.split())


@functools.lru_cache(1024)
def element_function(ufunc: np.ufunc) -> ElementFunction | None:
    """Return what a program computes as a ufunc of one result, if that is NumPy's and it can."""
    name = ufunc.__name__
    known = ufunc.nout == 1 and name in ufuncs.__dict__ and isinstance(getattr(np, name, None), np.ufunc)
    return _named(name) if known else None


@functools.cache
def _named(name: str) -> ElementFunction:
    return ElementFunction(name, getattr(np, name))


class _Result(NamedTuple):
    """What is known of a result by the types of the arguments."""

    dtype: DType
    may_refuse: bool  # an element
    seconds: float  # NumPy's, for an element
    integers: tuple[tuple[int, DType], ...]  # which arguments are Python's, and the types that they take


@functools.lru_cache(4096)
def _result_of(
    function: ElementFunction, types: tuple[Any, ...], out: DType | None, dtype: DType | None, casting: str
) -> _Result:
    if out is not None:  # NumPy's errors, where it cannot take the result
        compile_function(function, types, (out,), False, dtype, casting)
    program = compile_function(function, types, (None,), False, dtype, casting)
    first = len(program.out_dtypes) + 1  # of the arguments
    integers = tuple([(at - first, own) for _, at, own in program.numbers if own.kind in "iu"])
    return _Result(program.out_dtypes[0], program.may_refuse, program_cost.estimate(program).numpy, integers)


class Elements(Rows):
    """A call of a fused function, with what it computes element by element."""

    # Has NumPy compute a function, called as `apply` is, of what it alone takes.
    elsewhere: Callable[..., Any]

    def apply(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        *,
        out: StandIn | None = None,
        dtype: DType | None = None,
        casting: str = "same_kind",
    ) -> Any:
        """Write an elementwise function down."""
        if self.is_left_to_numpy:
            return self.elsewhere(function, inputs, out, dtype, casting)
        self.heed_errors()
        if function.name in OF_ANY_INTEGER:
            inputs = as_numpy_takes_numbers(function.name, inputs)
        arguments: list[Any] = []
        types: list[Any] = []
        nodes: list[Node] = []
        steps = 1
        must_read, is_known = self.reporting.is_at_once, True
        for value in inputs:
            kind = type(value)
            if kind is StandIn:
                if value.recording is not self:
                    return self.apply(function, self.own(inputs), out=out, dtype=dtype, casting=casting)
                node = value.node
                if node.array is None:
                    is_known = False
                    steps += node.steps
                elif node.storage is not None and node.storage.is_shared:
                    must_read = True
            elif kind is int or kind is float:
                arguments.append(value)
                types.append(kind)
                continue
            else:
                found, is_large = self.leaf_of(value)
                if found is None:
                    return self.elsewhere(function, inputs, out, dtype, casting)
                node = found
                must_read |= is_large
            nodes.append(node)
            arguments.append(node)
            types.append(node.dtype)
        result, may_refuse, seconds, integers = _result_of(
            function, tuple(types), None if out is None else out.dtype.newbyteorder("="), dtype, casting
        )
        for place, own in integers:
            own.type(arguments[place])  # raises for a number that the type has not
        is_at_once = may_refuse and nodes and self.memory.scope.is_open  # where the arrays are
        if may_refuse and not is_at_once:
            return self._at_once(function, inputs, out, dtype, casting)
        if out is not None and not _fits(out, nodes):
            target = _Target(out.shape, out.node.array is None or out.node.array.flags.writeable)
            broadcast([*nodes, *[_Target(())] * (len(arguments) - len(nodes))], [target])  # type: ignore[list-item]
        if not nodes:
            return self._at_once(function, inputs, out, dtype, casting)
        shape = nodes[0].shape
        is_repeated = False
        for node in nodes:
            if node.shape != shape:
                is_repeated = True
        if is_repeated:
            shape = broadcast(nodes, [])  # type: ignore[arg-type]
        if self.engine == "auto":
            self.costs.operation(math.prod(shape), seconds)
        is_written_though_it_raises = out is not None and self.reporting.is_at_once
        may_be_quick = is_known and not is_written_though_it_raises
        quick = self._quick(function, nodes, shape, dtype, casting) if may_be_quick else None
        if quick is not None:
            new = quick(*[a.array if type(a) is Node else a for a in arguments])
            is_array = type(new) is np.ndarray
            value = StandIn(self, leaf(new, self.storage_of_new(new))) if is_array else self.wrap(new)
            return value if out is None else self.put(out, value)
        for node in nodes if is_repeated else ():  # what is repeated is computed once
            if node.array is None and node.shape != shape and not node.is_apart:
                if self.is_small_beside_rows(node):
                    self.hold_up(node)
                else:
                    self.run([node])
        given = PLAIN if dtype is None and casting == "same_kind" else (dtype, casting)
        node = Node(function, tuple(arguments), given, result, shape, steps)
        value = StandIn(self, node, shape == ())
        if is_at_once:
            self.store(value)
        if out is not None:
            self.put(out, value)
            if must_read:
                self.store(out)
            return out
        self.put_off(value)
        if must_read or node.steps > MOST_STEPS:
            self.store(value)
        return value

    def leaf_of(self, value: Any) -> tuple[Node | None, bool]:
        """Return the node of what is no stand-in, None if it is NumPy's alone; and whether to read it now."""
        argument = as_argument(value)
        if argument is None:
            return None, False
        array = np.asarray(argument)
        if array is not value or not array.size:
            return leaf(array), False
        storage = self.memory.storage_of(array)
        if storage is not None and storage.holds(array) and not storage.is_shared:
            return leaf(*self.memory.newest(array, storage)), False
        self.memory.share(array)  # what overlaps it in part, or in a way that NumPy does not know of
        if array.nbytes <= SNAPSHOT:
            return leaf(array.copy("K")), False
        return leaf(array), True

    def taken(self, value: Any) -> Any:
        """Return what stands for a value; an array is shared with others, who may write to it unseen."""
        if type(value) is StandIn:
            return value
        array = np.asarray(value)
        storage = self.memory.storage_of(array)
        made = self.wrap(array)
        is_known = not isinstance(value, np.ndarray) or (storage is not None and storage.holds(array))
        if type(made) is StandIn and array.size and not is_known:
            self.memory.share(array)
            self.memory.storage_for(array).share()
        return made

    def _quick(
        self,
        function: ElementFunction,
        nodes: Sequence[Node],
        shape: tuple[int, ...],
        dtype: DType | None,
        casting: str,
    ) -> Callable[..., Any] | None:
        """Return what computes a small function at once, if it is one."""
        for node in nodes:
            if node.storage is not None and node.storage.is_kept:
                return None
            if math.prod(node.shape) > SMALL:
                return None
        size = math.prod(shape)
        if size <= TINY and function.name in _EXACT and dtype is None and casting == "same_kind":
            return function.numpy
        if size > SMALL or self.engine != "auto":
            return None
        return lambda *arrays: call_elementwise(function, arrays, None, True, dtype, casting)

    def _at_once(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: StandIn | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Compute what may be refused for an element's value."""
        given = [self.resolved(value) for value in inputs]
        value = self.wrap(call_elementwise(function, given, None, True, dtype, casting))
        return value if out is None else self.put(out, value)

    def put(self, target: StandIn, value: StandIn) -> StandIn:
        """Make a value that of a stand-in, which it fits, as `out=` and operators in place do."""
        node = value.node
        is_seen_in_part = target.node.view is not None or target.node.views
        is_free = target.node.array is None and target.shape == value.shape and not is_seen_in_part
        if is_free and lie_alike(target.node, node):
            dtype = target.node.dtype
            target.node = node if node.dtype == dtype else cast(node, dtype)
            if target.node.array is None:
                self.put_off(target)
            return target
        self.store(target)
        self.write(target, node)
        return target

    def write(self, target: StandIn, value: Node, is_seen: bool = False) -> None:
        """Write a value to the array of a stand-in, broadcast and cast.

        One that `is_seen` may be asked for later on: as it was, if it is read from what is written to.
        """
        array, storage = target.node.array, target.node.storage
        assert array is not None  # noqa: S101
        assert storage is not None  # noqa: S101
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if not array.size:
            return
        if value.array is None and self.write_in_blocks(array, storage, value):
            value.becomes(conversion(value.dtype), leaf(array, storage))
            return
        if storage.may_move and value.array is None:
            if storage.overlapped < OFTEN:
                storage.overlapped += needs_copy(array, value.leaves())
            elif self._write_beside(array, storage, value):
                return
        self.compute_readers(storage, value)
        self.memory.will_change(storage)
        if storage.twin is not None:
            storage.twin.note(array)
        is_read_there = is_seen and value.array is None and reads(storage, [value])
        if (
            value.reduction is not None
            or value.view is not None
            or value.shape != array.shape
            or (is_read_there and not (value.dtype == target.node.dtype and lie_alike(value, target.node)))
        ):
            self.compute_node(value)
        self.settle([value])
        together = Pass([value])
        if needs_copy(array, together.arrays):
            if value.array is not None:
                value = cast(value, value.dtype)
            self.compute_node(value)
            together = Pass([value])
        if not self.queued(together, [array]):
            self.memory.keep(together.arrays)
            storage.keep(residency.INPUT)
            self.evaluate(together, [array])
        if is_read_there and value.array is None:
            value.becomes(conversion(value.dtype), leaf(array, storage))

    def _write_beside(self, array: Array, storage: Storage, value: Node) -> bool:
        """Write to the memory beside an array's, if there can be one, and the value reads the array."""
        if value.reduction is not None or value.view is not None or value.shape != array.shape:
            return False
        if array.nbytes < (storage.last - storage.first) // 2:
            return False
        twin = self.memory.twin_of(storage, self.compute_readers, self.copy_into)
        if twin is None:
            return False
        self.settle([value])
        other = twin.other
        self.compute_readers(other)
        together = Pass([value])
        if not needs_copy(array, together.arrays) or reads(other, [value]):
            return False
        twin.bring_up(array)
        place = twin.same_in(other, array)
        self.memory.will_change(twin.own)
        self.memory.keep([*together.arrays, place])
        self.evaluate(together, [place])
        twin.move(place)
        return True


def _fits(out: StandIn, nodes: Sequence[Node]) -> bool:
    """Tell whether what has the nodes' one shape can be written to it."""
    array = out.node.array
    shape = out.node.shape
    for node in nodes:
        if node.shape != shape:
            return False
    return array is None or array.flags.writeable


class _Flags(NamedTuple):
    writeable: bool


class _Target:
    """Stands for an array of a shape, where shapes are compared."""

    def __init__(self, shape: tuple[int, ...], is_writeable: bool = True) -> None:
        self.shape = shape
        self.flags = _Flags(is_writeable)


def cast(node: Node, dtype: DType) -> Node:
    """Return the node converted to a type."""
    native = dtype.newbyteorder("=")
    return Node(conversion(native), (node,), PLAIN, native, node.shape, node.steps + 1)


@functools.cache
def conversion(wanted: DType) -> ElementFunction:
    """Return the function that converts to a type, or copies."""

    def astype(a: Any, **_: Any) -> Any:
        return np.asarray(a).astype(wanted)[()]

    return ElementFunction("astype", astype, non_ufuncs.astype_function(wanted).write)
