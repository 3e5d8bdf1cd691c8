"""Numbers of a traced call that stand for Python's floats.

A float among the arguments that the function only computes with is an operand of its plan: an array of no
dimension in place of a constant. As in NumPy, its type decides no result's: `x * t` of float32 stays float32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import DType
from pycudakit.fusing.memory.nodes import Node

# How Python computes with floats; it raises ZeroDivisionError where NumPy warns.
_PYTHON: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
}


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
