"""What was asked of arrays and not computed yet, and the functions that compute it in one pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._library.abi import address_of
from pycudakit._library.types import Array, DType
from pycudakit._programs.builder import Builder
from pycudakit._programs.function import ElementFunction
from pycudakit._programs.values import Scalar, Value
from pycudakit.fusing.storage import Storage

MOST_STEPS = 256  # of a node that is still put off: longer programs gain nothing more


class Node:
    """An element of each array that goes in, and what becomes of it.

    It is put off while `array` is None: then `function` of the `arguments`, which are nodes and Python's
    numbers, will be its value.
    """

    __slots__ = (
        *("__weakref__", "arguments", "array", "dtype", "function", "given", "reduction", "shape", "steps"),
        *("storage", "uses"),
    )

    def __init__(
        self,
        function: ElementFunction | None,
        arguments: tuple[Any, ...],
        given: tuple[DType | None, str],
        dtype: DType,
        shape: tuple[int, ...],
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.given = given  # the `dtype` and `casting` that it was called with
        self.dtype = dtype
        self.shape = shape
        self.array: Array | None = None
        self.storage: Storage | None = None  # of the array, if others may see it
        self.reduction: Reduction | None = None  # that its array will be the result of
        self.uses = 0  # how often it was computed, and not kept
        self.steps = 1
        for argument in arguments:
            if type(argument) is Node and argument.array is None:
                self.steps += argument.steps
        if self.steps > MOST_STEPS:  # what several steps share was counted for each
            self.steps = sum(node.array is None for node in self.needed())

    def computed(self, array: Array, storage: Storage | None = None) -> None:
        """From now on, it is an array."""
        self.array, self.storage = array, storage
        self.function, self.arguments, self.steps, self.reduction = None, (), 0, None

    def needed(self) -> Iterator[Node]:
        """Yield the nodes that it needs, and itself."""
        seen, pending = {id(self)}, [self]
        while pending:
            node = pending.pop()
            yield node
            before = node.arguments if node.reduction is None else (node.reduction.of,)
            for argument in before:
                if type(argument) is Node and id(argument) not in seen:
                    seen.add(id(argument))
                    pending.append(argument)

    def leaves(self) -> list[Array]:
        """Return the arrays that it reads."""
        return [node.array for node in self.needed() if node.array is not None]


class Reduction(NamedTuple):
    """A reduction that is put off, so that others of the same values go with it."""

    name: str
    of: Node
    axes: tuple[int, ...]
    compute: Callable[[Any], Any]  # called with what it reduces


def leaf(array: Array, storage: Storage | None = None) -> Node:
    """Return the node of an array."""
    node = Node(None, (), PLAIN, array.dtype.newbyteorder("="), array.shape)
    node.computed(array, storage)
    return node


PLAIN: tuple[None, str] = (None, "same_kind")  # how functions are called unless they are told

# A step: the function with what it was called with, and its arguments. Those are the places of earlier steps
# (from 0), of arrays (from -1 down), or a type of Python's with the place of a number.
_Step = tuple[ElementFunction, tuple[DType | None, str], tuple[Any, ...]]


class Pass:
    """Nodes that are computed together: a function, and its inputs."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._places: dict[int, int] = {}
        self._steps: list[_Step] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._arrays: dict[tuple[Any, ...], int] = {}
        self._types: list[Any] = []
        self.inputs: list[Any] = []
        results = tuple(self._place(node) for node in nodes)
        self.function = _function(tuple(self._steps), results)

    @property
    def arrays(self) -> list[Array]:
        """The inputs that are arrays."""
        return [value for value in self.inputs if isinstance(value, np.ndarray)]

    def _place(self, root: Node) -> int:
        """Return the place of a node, after those that it needs."""
        places, pending = self._places, [root]
        while pending:
            node = pending[-1]
            if id(node) in places:
                pending.pop()
                continue
            if node.array is not None:
                places[id(node)] = self._array(node.array)
                pending.pop()
                continue
            missing = [a for a in node.arguments if type(a) is Node and id(a) not in places]
            if missing:
                pending.extend(reversed(missing))
                continue
            arguments = tuple(
                places[id(a)] if type(a) is Node else (type(a), self._number(a)) for a in node.arguments
            )
            step = (node.function, node.given, arguments)
            known = self._known.get(step)
            if known is None:
                known = self._known[step] = len(self._steps)
                self._steps.append(step)  # type: ignore[arg-type]
            places[id(node)] = known
            pending.pop()
        return places[id(root)]

    def _array(self, array: Array) -> int:
        key = (address_of(array), array.strides, array.shape, array.dtype)
        known = self._arrays.get(key)
        if known is None:
            self.inputs.append(array)
            known = self._arrays[key] = -len(self.inputs)
        return known

    def _number(self, number: Any) -> int:
        # Numbers are told apart by their bits: 0.0 is not -0.0.
        key = (type(number), number if type(number) is int else np.float64(number).tobytes())
        known = self._arrays.get(key)
        if known is None:
            self.inputs.append(number)
            known = self._arrays[key] = -len(self.inputs)
        return known


@functools.lru_cache(4096)
def _function(steps: tuple[_Step, ...], results: tuple[int, ...]) -> ElementFunction:
    """Return the function that takes these steps."""

    def write(builder: Builder, *arguments: Value | Scalar, **_: Any) -> tuple[Value, ...]:
        values: list[Any] = []

        def value(place: Any) -> Any:
            if type(place) is tuple:
                return arguments[-place[1] - 1]
            return values[place] if place >= 0 else arguments[-place - 1]

        for function, (dtype, casting), places in steps:
            operands = [value(place) for place in places]
            (result,) = function.write(builder, *operands, out=(None,), dtype=dtype, casting=casting)
            values.append(result)
        return tuple(value(place) for place in results)

    names = dict.fromkeys(function.name for function, _, _ in steps)
    name = ", ".join(names) if steps else "copy"
    return ElementFunction(name, _by_numpy(steps, results), write, outputs=len(results), types_numbers=False)


def _by_numpy(steps: tuple[_Step, ...], results: tuple[int, ...]) -> Callable[..., Any]:
    """Return what takes the steps in NumPy; named for what its outputs' casts may warn of."""

    def cast(*inputs: Any, out: Any = None) -> Any:
        values: list[Any] = []

        def value(place: Any) -> Any:
            if type(place) is tuple:
                return inputs[-place[1] - 1]
            return values[place] if place >= 0 else inputs[-place - 1]

        for function, (dtype, rule), places in steps:
            keywords: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
            if rule != "same_kind":
                keywords["casting"] = rule
            values.append(function.numpy(*(value(place) for place in places), **keywords))
        found = [value(place) for place in results]
        if out is None:
            return found[0] if len(found) == 1 else tuple(found)
        outs = out if isinstance(out, tuple) else (out,)
        for target, result in zip(outs, found, strict=True):
            np.copyto(target, result, casting="unsafe")
        return out

    return cast
