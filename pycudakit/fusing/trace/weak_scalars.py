"""Numbers of a traced call that stand for Python's floats.

A float among the arguments that the function only computes with is an operand of its plan: an array of no
dimension in place of a constant. So is one that the function makes of a number, as by `float(x.max())`. As in
NumPy, its type decides no result's: `x * t` of float32 stays float32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import DType
from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.tracer import Tracer

# Python's operators of floats that NumPy's functions compute alike. Python raises ZeroDivisionError where
# NumPy warns.
_PYTHON: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "absolute": abs,
}
# Comparisons, at which a call branches.
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
# Operators that Python computes at once.
_OTHERS: dict[str, Callable[..., Any]] = {
    "power": operator.pow,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "divmod": divmod,
    "positive": operator.pos,
    "invert": operator.invert,
    "matmul": operator.matmul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}
PYTHON_OPERATORS = {**_PYTHON, **_COMPARISONS, **_OTHERS}  # by the name of NumPy's function
_MAX_EXACT = 2**53  # integers up to here are floats without rounding


class WeakScalars:
    """The nodes of such numbers, with the floats that they are in this call."""

    def __init__(self, cast: Callable[[Node, DType], Node]) -> None:
        self._cast = cast
        self._values: dict[Node, float] = {}
        self._casts: dict[tuple[Node, DType], Node] = {}

    def __len__(self) -> int:
        """Return their number."""
        return len(self._values)

    def add(self, node: Node, value: float) -> None:
        """Note that a node stands for a float."""
        self._values[node] = value

    def get(self, node: Node) -> float | None:
        """Return the float that a node stands for; None for another node."""
        return self._values.get(node)

    def numbers(self, inputs: Iterable[Any]) -> list[Any] | None:
        """Return the operands as Python's numbers; None if one is an array or a NumPy scalar."""
        numbers = []
        for value in inputs:
            kind = type(value)
            if kind is Tracer:
                number: Any = self._values.get(value.node)
            else:
                number = value if kind is float or kind is int or kind is bool else None
            if number is None:
                return None
            numbers.append(number)
        return numbers

    @staticmethod
    def are_computed_as_by_numpy(name: str, numbers: list[Any]) -> bool:
        """Return True if NumPy's function has the result of Python's operator."""
        if name not in _PYTHON and name not in _COMPARISONS:
            return False
        return all(type(each) is float or abs(each) <= _MAX_EXACT for each in numbers)

    def value_of(self, name: str, arguments: list[Any]) -> float | None:
        """Return the result of Python's floats alone; None if an argument is an array or a NumPy scalar."""
        values = [self._values.get(each) if type(each) is Node else each for each in arguments]
        python = _PYTHON.get(name)
        return None if python is None or None in values else python(*values)

    def typed(self, arguments: list[Any], types: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arguments of an operation, cast as NumPy casts floats, and their types."""
        nodes = [each for each in arguments if type(each) is Node]
        weak = self._values.keys() & nodes
        if not weak:
            return arguments, types
        types = [float if each in weak else kind for each, kind in zip(arguments, types, strict=True)]
        dtypes = [node.dtype for node in nodes if node not in weak]
        if dtypes:
            dtype = np.result_type(*dtypes, 1.0)
            arguments = [self._as(each, dtype) if each in weak else each for each in arguments]
        return arguments, types

    def _as(self, node: Node, dtype: DType) -> Node:
        if dtype == node.dtype:
            return node
        if (node, dtype) not in self._casts:
            self._casts[node, dtype] = self._cast(node, dtype)
        return self._casts[node, dtype]
