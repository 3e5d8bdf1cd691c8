"""What was asked of arrays and not computed yet, and the functions that compute it in one pass."""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction, compile_function
from pycudakit._element_programs.program import ElementProgram
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.operands import Layout, allocate, layout_of
from pycudakit.fusing.memory.buffer import Buffer

# "C", "F", or axes from the outermost.
Order = str | tuple[int, ...] | None
_BYTE = np.dtype(np.uint8)

MAX_STEPS = 256  # of a node that is still deferred: longer programs gain nothing more


class Node:
    """An element of each array that goes in, and what becomes of it.

    It is deferred while `array` is None: then `function` of the `arguments`, which are nodes and Python's
    numbers, will be its value.
    """

    __slots__ = (
        *("__weakref__", "arguments", "array", "dtype", "function", "options", "is_broadcast", "layout"),
        *("order", "reduction", "shape", "steps", "buffer", "recomputations", "view", "views"),
    )

    def __init__(
        self,
        function: ElementFunction | None,
        arguments: tuple[Any, ...],
        options: tuple[DType | None, str],
        dtype: DType,
        shape: tuple[int, ...],
        steps: int = 1,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.options = options  # the `dtype` and `casting` that it was called with
        self.dtype = dtype
        self.shape = shape
        self.array: Array | None = None
        self.layout: Layout | None = None  # of the array, if a pass asked for it
        self.buffer: Buffer | None = None  # of the array, if others may see it
        self.reduction: ReduceOp | None = None  # that its array will be the result of
        self.view: Callable[[Array], Array] | None = None  # that it will be, of its argument
        self.views: list[weakref.ref[Node]] = []  # of what will be its array
        self.is_broadcast = False  # by what needs it
        # How its elements lie in memory, or will; None, if nobody knows yet.
        self.order = _common_order(arguments, shape)
        self.recomputations = 0  # how often it was computed, and not kept
        self.steps = steps  # that it takes, with what it needs: none, for an array
        if steps > MAX_STEPS:  # what several steps share was counted for each
            self.steps = sum(node.array is None for node in self.ancestors())

    def set_result(self, array: Array, buffer: Buffer | None = None) -> None:
        """From now on, it is an array, and its views are views of that."""
        self.array, self.layout, self.buffer = array, None, buffer
        self.order = _order_of(array)
        self.function, self.arguments, self.steps, self.reduction, self.view = None, (), 0, None, None
        views, self.views = self.views, []
        for ref in views:
            node = ref()
            if node is not None and node.view is not None:
                made = node.view(array)
                is_same = buffer is not None and buffer.contains(made)
                node.set_result(made, buffer if is_same else None)

    @property
    def is_fusion_barrier(self) -> bool:
        """Whether it is deferred, and computed by itself before what needs it."""
        is_other = self.reduction is not None or self.view is not None
        return is_other or (self.is_broadcast and self.array is None)

    @property
    def size(self) -> int:
        """As of an array."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """As of an array."""
        return self.size * self.dtype.itemsize

    def redefine_as(self, function: ElementFunction, operand: Node) -> None:
        """From now on, it is a function of one argument."""
        self.function, self.arguments, self.options, self.steps = function, (operand,), DEFAULT_OPTIONS, 1
        self.order = operand.order

    def ancestors(self) -> Iterator[Node]:
        """Yield the nodes that it needs, and itself."""
        return _ancestors([self])

    def layout_arrays(self) -> list[Array]:
        """Return arrays that a new one for its value lies in memory as."""
        return self.leaves() if self.order is None else [_layout_stub(self)]

    def leaves(self) -> list[Array]:
        """Return the arrays that it reads."""
        return [node.array for node in self.ancestors() if node.array is not None]


def _ancestors(nodes: list[Node]) -> Iterator[Node]:
    """Yield these nodes, and those that they need."""
    seen, pending = set(nodes), nodes
    while pending:
        node = pending.pop()
        yield node
        before = node.arguments if node.reduction is None else (node.reduction.operand,)
        for argument in before:
            if type(argument) is Node and argument not in seen:
                seen.add(argument)
                pending.append(argument)


def reads(buffer: Buffer, nodes: list[Node]) -> bool:
    """Tell whether some of these nodes read memory."""
    return any(node.array is not None and buffer.overlaps_node(node) for node in _ancestors(nodes))


class ReduceOp(NamedTuple):
    """A reduction that is deferred, so that others of the same values go with it."""

    name: str
    operand: Node
    axes: tuple[int, ...]
    compute: Callable[[Any], Any]  # called with what it reduces


def view_of(node: Node, make: Callable[[Array], Array], shape: tuple[int, ...]) -> Node:
    """Return the node of a view of what a node, which is deferred, will be."""
    made = Node(None, (node,), DEFAULT_OPTIONS, node.dtype, shape, node.steps)
    made.view = make
    node.views.append(weakref.ref(made))
    return made


def leaf(array: Array, buffer: Buffer | None = None) -> Node:
    """Return the node of an array."""
    dtype = array.dtype
    node = Node(
        None, (), DEFAULT_OPTIONS, dtype if dtype.isnative else dtype.newbyteorder("="), array.shape, 0
    )
    node.array, node.buffer = array, buffer
    node.order = _order_of(array)
    return node


def _order_of(array: Array) -> Order:
    """Return the order in which a new array lies that is made of this one."""
    flags = array.flags
    if flags.c_contiguous or array.ndim < 2:
        return "C"
    if flags.f_contiguous:
        return "F"
    strides = array.strides
    if strides[-1] > 0 and all(a >= b for a, b in itertools.pairwise(strides)):
        return "C"
    return _order_by([array], array.shape)


def _common_order(arguments: tuple[Any, ...], shape: tuple[int, ...]) -> Order:
    """Return the order in which NumPy lays out what a function makes of arguments."""
    order: Order = ""
    is_one = True
    for argument in arguments:
        if type(argument) is Node and argument.shape:
            is_one = is_one and order in ("", argument.order)
            order = argument.order
            if order is None:
                return None
    if is_one and order in ("", "C", "F"):
        return order or "C"
    return _order_by([_layout_stub(each) for each in arguments if type(each) is Node], shape)


def _order_by(arrays: list[Array], shape: tuple[int, ...]) -> Order:
    made = allocate(_BYTE, shape, arrays)
    if made.flags.c_contiguous:
        return "C"
    strides = made.strides
    return "F" if made.flags.f_contiguous else tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))


def _layout_stub(node: Node) -> Array:
    """Return what lies in memory as a node whose order is known, and is not to be read."""
    if node.array is not None:
        return node.array
    order = node.order
    if not isinstance(order, tuple):
        return np.empty(node.shape, _BYTE, "F" if order == "F" else "C")
    transposed = np.empty([node.shape[d] for d in order], _BYTE)
    outline: Array = transposed.transpose([order.index(d) for d in range(len(order))])
    return outline


def have_same_order(one: Node, other: Node) -> bool:
    """Tell whether two nodes of one shape have, or will have, their elements in the same order in memory."""
    return one.order is not None and one.order == other.order


DEFAULT_OPTIONS: tuple[None, str] = (None, "same_kind")  # how functions are called unless they are told

# A step: the function with what it was called with, and the places of its arguments: of earlier steps from 0,
# of inputs from -1 down.
_Instruction = tuple[ElementFunction, tuple[DType | None, str], tuple[int, ...]]


class FusedKernel:
    """Nodes that are computed together: a function, and its inputs."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._slots: dict[Node, int] = {}
        self._instructions: list[_Instruction] = []
        self._inputs: dict[tuple[Any, ...], int] = {}
        self.inputs: list[Any] = []
        self.layouts: list[Layout | None] = []  # of those that are arrays
        self.arrays: list[Array] = []  # among them
        self._types: list[Any] = []
        results = tuple([self._slot_of(node) for node in nodes])
        self.function = _function(tuple(self._instructions), results)

    def program(self, outs: tuple[DType | None, ...]) -> ElementProgram:
        """Return what computes it, to arrays of these types."""
        return compile_function(self.function, tuple(self._types), outs, False, None, "same_kind")

    def bind_outputs(self, outs: Sequence[Array]) -> tuple[ElementProgram, list[Any], list[Layout | None]]:
        """Return what computes it into arrays: a program, its operands, and how those that are arrays lie."""
        program = self.program(tuple([out.dtype.newbyteorder("=") for out in outs]))
        return program, [*outs, None, *self.inputs], [*map(layout_of, outs), None, *self.layouts]

    def _slot_of(self, root: Node) -> int:
        """Return the place of a node, after those that it needs."""
        places = self._slots
        pending = [] if root in places else [root]
        while pending:
            node = pending[-1]
            if node.array is not None:
                places[node] = self._array(node, node.array)
                pending.pop()
                continue
            arguments: list[Any] = []
            for argument in node.arguments:
                place = places.get(argument)
                if place is None:
                    if type(argument) is not Node:
                        place = self._number(argument)
                    elif argument.array is None:
                        pending.append(argument)
                        break
                    else:
                        place = places[argument] = self._array(argument, argument.array)
                arguments.append(place)
            else:
                places[node] = len(self._instructions)
                self._instructions.append((node.function, node.options, tuple(arguments)))  # type: ignore[arg-type]
                pending.pop()
        return places[root]

    def _array(self, node: Node, array: Array) -> int:
        layout = node.layout
        if layout is None:
            layout = node.layout = layout_of(array)
        known = self._inputs.get(layout)
        if known is not None:
            return known
        self.arrays.append(array)
        return self._add(layout, array, node.dtype, layout)

    def _number(self, number: Any) -> int:
        kind = type(number)
        key = (kind, number or str(number))  # 0.0 is not -0.0
        known = self._inputs.get(key)
        return self._add(key, number, kind, None) if known is None else known

    def _add(self, key: Any, value: Any, type_: Any, layout: Layout | None) -> int:
        self.inputs.append(value)
        self.layouts.append(layout)
        self._types.append(type_)
        place = self._inputs[key] = -len(self.inputs)
        return place


@functools.lru_cache(4096)
def _function(steps: tuple[_Instruction, ...], results: tuple[int, ...]) -> ElementFunction:
    """Return the function that takes these steps."""

    def write(builder: Builder, *arguments: Value | WeakScalar, **_: Any) -> tuple[Value, ...]:
        values: list[Any] = []

        def value(place: int) -> Any:
            return values[place] if place >= 0 else arguments[-place - 1]

        for function, (dtype, casting), places in steps:
            operands = [value(place) for place in places]
            (result,) = function.write(builder, *operands, out=(None,), dtype=dtype, casting=casting)
            values.append(result)
        return tuple(value(place) for place in results)

    names = dict.fromkeys(function.name for function, _, _ in steps)
    name = ", ".join(names) if steps else "copy"
    return ElementFunction(
        name, _by_numpy(steps, results), write, outputs=len(results), types_python_scalars=False
    )


def _by_numpy(steps: tuple[_Instruction, ...], results: tuple[int, ...]) -> Callable[..., Any]:
    """Return what takes the steps in NumPy; named for what its outputs' casts may warn of."""

    def computed(inputs: tuple[Any, ...]) -> list[Any]:
        values: list[Any] = []

        def value(place: int) -> Any:
            return values[place] if place >= 0 else inputs[-place - 1]

        for function, (dtype, rule), places in steps:
            keywords: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
            if rule != "same_kind":
                keywords["casting"] = rule
            values.append(function.numpy(*(value(place) for place in places), **keywords))
        return [value(place) for place in results]

    def cast(*inputs: Any, out: Any = None) -> Any:
        outs = out if isinstance(out, tuple) else () if out is None else (out,)
        try:
            found = computed(inputs)
        except FloatingPointError:
            if outs:  # to which a ufunc has written by then
                with np.errstate(all="ignore"):
                    _copy(computed(inputs), outs)
            raise
        if out is None:
            return found[0] if len(found) == 1 else tuple(found)
        _copy(found, outs)
        return out

    return cast


def _copy(values: Sequence[Any], targets: Sequence[Array]) -> None:
    for target, value in zip(targets, values, strict=True):
        np.copyto(target, value, casting="unsafe")
