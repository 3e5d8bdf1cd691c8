"""The traced graph as a value: deferred operations as data, without arrays and without numbers' values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from pycudakit._native.dtypes import DType

ELEMENTWISE, BROADCAST, REDUCTION, VIEW = "elementwise", "broadcast", "reduction", "view"


class Input(NamedTuple):
    """An array that exists, or a Python number, of which only the type is known.

    Attributes
    ----------
    dtype
        The dtype of an array; the name of a number's type.
    shape
        The shape; None for a number.
    order
        The memory order of an array: "C", "F", or its axes from the outermost to the innermost.
    """

    dtype: DType | str
    shape: tuple[int, ...] | None = None
    order: Any = None

    def __str__(self) -> str:
        """Return the type, as in a listing."""
        return str(self.dtype) if self.shape is None else f"{self.dtype}{[*self.shape]}, {self.order}"


class Operation(NamedTuple):
    """A deferred operation.

    Attributes
    ----------
    kind
        `ELEMENTWISE`; `BROADCAST`, an elementwise one whose readers broadcast it; `REDUCTION`; or `VIEW`.
    function
        NumPy's name of the function.
    options
        The `dtype` and `casting` of an elementwise function, the axes of a reduction.
    arguments
        Indices: of operations from 0 up, of inputs from -1 down.
    dtype, shape
        Those of the result.
    recomputations
        How often kernels have computed the result without storing it.
    steps
        The number of operations in the result's expression when it was recorded; some may be computed since.
    """

    kind: str
    function: str
    options: tuple[Any, ...]
    arguments: tuple[int, ...]
    dtype: DType
    shape: tuple[int, ...]
    recomputations: int = 0
    steps: int = 1

    @property
    def is_barrier(self) -> bool:
        """Whether the operation cannot be fused into the kernels that read it."""
        return self.kind != ELEMENTWISE

    def __str__(self) -> str:
        """Return the right-hand side of the operation's line in a listing."""
        call = f"{self.function}({', '.join(map(name_of, self.arguments))}"
        if self.kind == REDUCTION:
            call += f", axes={self.options}"
        elif self.kind != VIEW:
            dtype, casting = self.options
            call += f", dtype={dtype}" * (dtype is not None) + f", casting={casting}" * (
                casting != "same_kind"
            )
        notes = ", broadcast" * (self.kind == BROADCAST)
        notes += f", computed {self.recomputations} times" * bool(self.recomputations)
        return f"{call}){notes}"


class Extent(IntEnum):
    """How much of the trace a graph holds."""

    NEEDED = 0  # the operations that the wanted values need
    LIVE = 1  # the same, and which of them the body may still use
    LATER = 2  # also the operations that other values need that the body may still use


class Graph(NamedTuple):
    """Deferred operations and their inputs.

    Equal graphs have equal schedules: the arrays and the numbers that they read may differ.

    Attributes
    ----------
    inputs
        Arrays and numbers, at the indices -1, -2, ...
    operations
        The operations, at the indices 0, 1, ..., each after its arguments.
    wanted
        The indices of the values to compute.
    live
        The operations, in the order in which they were recorded, whose values the body may still use.
    reductions
        The reductions in the order in which they were recorded.
    extent
        How much of the trace the graph holds.
    is_written
        Whether the wanted values are written to existing arrays, by a last kernel with no other outputs.
    is_looked_at
        Whether the wanted value is for Python, as the condition of a `while` is. The body may then ask for
        the same expression of newer values.
    """

    inputs: tuple[Input, ...]
    operations: tuple[Operation, ...]
    wanted: tuple[int, ...]
    live: tuple[int, ...] = ()
    reductions: tuple[int, ...] = ()
    extent: Extent = Extent.LATER
    is_written: bool = False
    is_looked_at: bool = False

    @property
    def key(self) -> str:
        """A digest that is the same in all processes."""
        return hashlib.sha256(str(self).encode()).hexdigest()

    def __str__(self) -> str:
        """Return a listing in single assignment form."""
        lines = [f"{name_of(~index)}: {each}" for index, each in enumerate(self.inputs)]
        for index, each in enumerate(self.operations):
            before = sum(self.operations[i].steps for i in each.arguments if i >= 0)
            left = {REDUCTION: 1, VIEW: before}.get(each.kind, 1 + before)
            steps = f", {each.steps} steps" * (each.steps != left)
            lines.append(f"{name_of(index)}: {each.dtype}{[*each.shape]} = {each}{steps}")
        lines.append(f"{'write' if self.is_written else 'return'} {names_of(self.wanted)}")
        lines[-1] += " to Python" * self.is_looked_at
        if self.live:
            lines.append(f"live: {names_of(self.live)}")
        if self.reductions:
            lines.append(f"reductions: {names_of(self.reductions)}")
        return "\n".join([*lines, f"extent: {Extent(self.extent).name.lower()}"])


def name_of(index: int) -> str:
    """Return the name of an operation's or an input's value in listings."""
    return f"%{index}" if index >= 0 else f"x{-index}"


def names_of(indices: Sequence[int]) -> str:
    """Return the names of values in listings."""
    return ", ".join(map(name_of, indices))
