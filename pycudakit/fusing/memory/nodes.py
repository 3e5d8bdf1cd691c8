"""Nodes of the traced graph: arrays, and deferred operations on them."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.operands import Layout, allocate
from pycudakit.fusing.memory.buffer import Buffer

# Memory order: "C", "F", or the axes from the outermost to the innermost.
Order = str | tuple[int, ...] | None
_BYTE = np.dtype(np.uint8)

MAX_STEPS = 256  # operations of a deferred node: longer programs gain nothing more


class Node:
    """A node of the traced graph: an array, or a deferred operation on other nodes.

    A node is deferred while `array` is None. Its value is then `function` of `arguments`, which are nodes and
    Python numbers, or the result of `reduction`, or the `view` of its only argument.
    """

    __slots__ = (
        *("__weakref__", "arguments", "array", "dtype", "function", "options", "is_broadcast", "layout"),
        *("order", "reduction", "shape", "steps", "buffer", "recomputations", "view", "views"),
        "unreachable_at",
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
        self.options = options  # the `dtype` and `casting` of the call
        self.dtype = dtype
        self.shape = shape
        self.array: Array | None = None
        self.layout: Layout | None = None  # of the array, once a kernel has used it
        self.buffer: Buffer | None = None  # of the array, if it is known to the buffer table
        self.reduction: ReduceOp | None = None  # the deferred reduction
        self.view: Callable[[Array], Array] | None = None  # makes the deferred view of the argument
        self.views: list[weakref.ref[Node]] = []  # the deferred views of this node
        self.is_broadcast = False  # its readers broadcast it
        # The memory order of the elements; None if it is not yet known.
        self.order = _common_order(arguments, shape)
        self.recomputations = 0  # evaluations that were not stored
        self.unreachable_at = -1  # the count of changes at which it was found to read no reachable memory
        self.steps = steps  # operations of the node and its deferred inputs; 0 for an array
        if steps > MAX_STEPS:  # shared inputs were counted several times: count exactly
            self.steps = sum(node.array is None for node in self.ancestors())

    def set_result(self, array: Array, buffer: Buffer | None = None) -> None:
        """Set the computed array; deferred views of the node become views of it."""
        self.array, self.layout = array, None
        self.set_buffer(buffer)
        self.order = order_of(array)
        self.function, self.arguments, self.steps, self.reduction, self.view = None, (), 0, None, None
        views, self.views = self.views, []
        for ref in views:
            node = ref()
            if node is not None and node.view is not None:
                view = node.view(array)
                is_in_buffer = buffer is not None and buffer.contains(view)
                node.set_result(view, buffer if is_in_buffer else None)

    def set_buffer(self, buffer: Buffer | None) -> None:
        """Set the buffer of the array."""
        self.buffer = buffer
        if buffer is not None and buffer.is_reachable:
            Buffer.reachability_changes += 1

    @property
    def is_fusion_barrier(self) -> bool:
        """Whether the node is deferred and cannot be fused into the kernels that read it."""
        is_other = self.reduction is not None or self.view is not None
        return is_other or (self.is_broadcast and self.array is None)

    @property
    def size(self) -> int:
        """The attribute of a NumPy array."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The attribute of a NumPy array."""
        return self.size * self.dtype.itemsize

    def redefine_as(self, function: ElementFunction, operand: Node) -> None:
        """Turn the node into a function of one operand."""
        self.function, self.arguments, self.options, self.steps = function, (operand,), DEFAULT_OPTIONS, 1
        self.order = operand.order

    def ancestors(self) -> Iterator[Node]:
        """Yield the node and all nodes that it depends on."""
        return _ancestors([self])

    def reads_reachable_memory(self) -> bool:
        """Return True if the node reads memory that code outside of the trace can reach."""
        changes, unreachable = Buffer.reachability_changes, list[Node]()
        for node in _ancestors([self], changes):
            if node.buffer is not None and node.buffer.is_reachable:
                return True
            unreachable.append(node)
        for node in unreachable:
            node.unreachable_at = changes
        return False

    def layout_arrays(self) -> list[Array]:
        """Return arrays whose memory order an array of the node's value takes."""
        return self.leaves() if self.order is None else [_layout_stub(self)]

    def result_layouts(self) -> list[Array]:
        """Return `layout_arrays()` for a reduction of the node's value; none for C order."""
        return [] if self.order == "C" else self.layout_arrays()

    def leaves(self) -> list[Array]:
        """Return the arrays that the node reads."""
        return [node.array for node in self.ancestors() if node.array is not None]


def _ancestors(nodes: Sequence[Node], unless_unreachable_at: int | None = None) -> Iterator[Node]:
    """Yield these nodes and all that they depend on, but none that had no reachable memory at a count."""
    seen, pending = set(nodes), [*nodes]
    while pending:
        node = pending.pop()
        if node.unreachable_at == unless_unreachable_at:
            continue
        yield node
        before = node.arguments if node.reduction is None else (node.reduction.operand,)
        for argument in before:
            if type(argument) is Node and argument not in seen:
                seen.add(argument)
                pending.append(argument)


def reads(buffer: Buffer, nodes: Sequence[Node]) -> bool:
    """Return True if one of these nodes reads a buffer."""
    return any(node.array is not None and buffer.overlaps_node(node) for node in _ancestors(nodes))


class ReduceOp(NamedTuple):
    """A deferred reduction; reductions of the same operand are computed together."""

    name: str
    operand: Node
    axes: tuple[int, ...]
    compute: Callable[[Any], Any]  # called with the operand's values


def view_of(node: Node, make: Callable[[Array], Array], shape: tuple[int, ...]) -> Node:
    """Return a node for a view of a deferred node."""
    view = Node(None, (node,), DEFAULT_OPTIONS, node.dtype, shape, node.steps)
    view.view = make
    node.views.append(weakref.ref(view))
    return view


def leaf(array: Array, buffer: Buffer | None = None) -> Node:
    """Return a node that holds an array."""
    dtype = array.dtype
    node = Node(
        None, (), DEFAULT_OPTIONS, dtype if dtype.isnative else dtype.newbyteorder("="), array.shape, 0
    )
    node.array, node.buffer = array, buffer
    node.order = order_of(array)
    return node


def order_of(array: Array) -> Order:
    """Return the memory order that NumPy gives a result of this array."""
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
    """Return the memory order that NumPy gives a function's result for these arguments."""
    order: Order = ""
    is_uniform = True
    for argument in arguments:
        if type(argument) is Node and argument.shape:
            # Broadcast arguments change NumPy's order, unless all are in C order.
            is_uniform = is_uniform and order in ("", argument.order)
            is_uniform = is_uniform and (argument.order == "C" or argument.shape == shape)
            order = argument.order
            if order is None:
                return None
    if is_uniform and order in ("", "C", "F"):
        return order or "C"
    return _order_by([_layout_stub(each) for each in arguments if type(each) is Node], shape)


def _order_by(arrays: list[Array], shape: tuple[int, ...]) -> Order:
    result = allocate(_BYTE, shape, arrays)
    if result.flags.c_contiguous:
        return "C"
    strides = result.strides
    return "F" if result.flags.f_contiguous else tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))


def _layout_stub(node: Node) -> Array:
    """Return an array with a node's memory order, for its layout only."""
    if node.array is not None:
        return node.array
    order = node.order
    if not isinstance(order, tuple):
        return np.empty(node.shape, _BYTE, "F" if order == "F" else "C")
    transposed = np.empty([node.shape[d] for d in order], _BYTE)
    outline: Array = transposed.transpose([order.index(d) for d in range(len(order))])
    return outline


def have_same_order(one: Node, other: Node) -> bool:
    """Return True if two nodes of one shape have the same known memory order."""
    return one.order is not None and one.order == other.order


DEFAULT_OPTIONS: tuple[None, str] = (None, "same_kind")  # the `dtype` and `casting` of a plain call
