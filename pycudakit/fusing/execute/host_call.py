"""Host calls: calls from Python that a replay makes after a segment, on arguments and computed arrays.

They are calls of functions that no plan can hold as requests, such as `interp` and `numpy.linalg.solve`, and,
on the CPU engine, draws from generators. They read arrays, numbers and constants. Most return new arrays. The
layouts of these may depend on values; they select the next segment, as the truth value of a condition does.
Others, such as `x[i] = y` with an array of indices, write to their first argument and return nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array, DType
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of
from pycudakit.fusing.memory.pytree import map_arguments


class ArrayOperand(NamedTuple):
    """An array that a host call reads or writes: an argument, a computed array, or a view of one."""

    argument: int  # the index of the argument, or -1 for a computed array
    serial: int  # of the computed array, or -1
    is_whole: bool  # no view
    offset: int  # bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    is_scalar: bool  # passed as NumPy's scalar
    is_weak: bool  # passed as Python's number

    def owner(self, arguments: Sequence[Array], arrays: Mapping[int, Array]) -> Array:
        """Return the argument or the computed array."""
        return arguments[self.argument] if self.argument >= 0 else arrays[self.serial]

    def value(self, arguments: Sequence[Array], arrays: Mapping[int, Array]) -> Any:
        """Return the array, or the number."""
        owner = self.owner(arguments, arrays)
        if not self.is_whole:
            buffer: Any = owner if owner.flags.c_contiguous else owner.T
            owner = np.ndarray(self.shape, self.dtype, buffer, self.offset, self.strides)
        if self.is_weak:
            return owner.item()
        return owner[()] if self.is_scalar else owner


class GeneratorOperand(NamedTuple):
    """A random generator that a host call draws from: an argument."""

    position: int  # among the generators of the call


def draw(generator: Any, distribution: str, *arguments: Any, **keywords: Any) -> Any:
    """Draw from a generator, by its method of this name."""
    return getattr(generator, distribution)(*arguments, **keywords)


class HostCall(NamedTuple):
    """A call of a function, with an operand in place of each generator and of each array but constants."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    writes: bool = False  # to its first argument, and returns nothing
    results: tuple[int, ...] = ()  # the serial numbers of the results

    @property
    def written(self) -> int:
        """The index of the argument of the fused function that it writes to, or -1."""
        return self.arguments[0].argument if self.writes else -1

    def reads(self) -> frozenset[int]:
        """Return the serial numbers of the computed arrays that it reads or writes."""
        return frozenset([each.serial for each in self.array_operands() if each.argument < 0])

    def array_operands(self) -> list[ArrayOperand]:
        """Return its operands that are arrays."""
        return [each for each in self._leaves() if type(each) is ArrayOperand]

    def operand_owners(self, arguments: Sequence[Array], computed: Mapping[int, Array]) -> list[Array]:
        """Return the arrays that its operands are, or are views of; if it writes, first the written one."""
        return [each.owner(arguments, computed) for each in self.array_operands()]

    def has_constant(self, array: Array) -> bool:
        """Return True if an array is one of its constants."""
        return any(array is each for each in self._leaves())

    def compute(
        self, arguments: Sequence[Array], generators: Sequence[Any], arrays: Mapping[int, Array]
    ) -> Any:
        """Call the function."""

        def bound(part: Any) -> Any:
            kind = type(part)
            if kind is GeneratorOperand:
                return generators[part.position]
            return part.value(arguments, arrays) if kind is ArrayOperand else part

        return self.function(*map_arguments(self.arguments, bound), **map_arguments(self.keywords, bound))

    def identity(self) -> str:
        """Return a text of all that makes calls equal: function, constants, layouts and serial numbers."""
        function: Any = self.function
        name = function.__module__, function.__qualname__, id(getattr(function, "__self__", None))
        return repr((name, map_arguments([self.arguments, self.keywords], _described)))

    def _leaves(self) -> list[Any]:
        leaves: list[Any] = []
        map_arguments([self.arguments, self.keywords], leaves.append)
        return leaves


def results_of(value: Any) -> list[Array] | None:
    """Return the arrays of a function's result.

    None means that a part is neither NumPy's scalar nor an array with elements in new, contiguous memory.
    `Capture.add_host_call` refuses views of operands.
    """
    if isinstance(value, (tuple, list)):
        parts = [results_of(part) for part in value]
        return None if None in parts else [array for part in parts if part is not None for array in part]
    if issubclass(type(value), np.generic):
        return [np.asarray(value)]
    if type(value) is not np.ndarray or not value.size:
        return None
    owner = owner_of(value)
    is_new = type(owner) is np.ndarray and owner.flags.owndata and owner.flags.forc
    return [value] if is_new else None


def layouts_of(arrays: Sequence[Array]) -> tuple[Any, ...]:
    """Return the layouts of results and of their memory: the outcome of the segment that their call ends."""
    return tuple(
        [
            (*_layout(array), address_of(array) - byte_bounds(owner)[0], *_layout(owner))
            for array, owner in [(array, owner_of(array)) for array in arrays]
        ]
    )


def _layout(array: Array) -> tuple[Any, ...]:
    return array.dtype.char, array.shape, array.strides


def operand_in(
    array: Array, owner: Array, argument: int, serial: int, *, is_scalar: bool, is_weak: bool
) -> ArrayOperand | None:
    """Return the operand for an array of an owner; None for a view of one that is not contiguous."""
    layout = array.shape, array.strides, array.dtype
    offset = address_of(array) - address_of(owner)
    is_whole = not offset and layout == (owner.shape, owner.strides, owner.dtype)
    if not is_whole and not owner.flags.forc:
        return None
    return ArrayOperand(argument, serial, is_whole, offset, *layout, is_scalar, is_weak)


def _described(part: Any) -> Any:
    if type(part) is np.ndarray:
        return part.dtype.str, part.shape, part.tobytes()
    return part if type(part) in (ArrayOperand, GeneratorOperand) else (type(part).__name__, part)
