"""What stands for an array that is not computed yet, as the functions that are given it see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycudakit._native.dtypes import Array, DType


class LazyArray:
    """Stands for an array in a fused function."""

    __slots__ = ()

    def resolved(self) -> Array:
        """Return it as an array that functions can read."""
        raise TypeError(f"{type(self).__name__} does not tell what it stands for")

    def apply(self, function: Any, inputs: Sequence[Any]) -> Any:  # noqa: ARG002
        """Return what stands for an elementwise function of inputs, one of which it is."""
        raise TypeError(f"{type(self).__name__} does not tell what it stands for")


class FusedProducer:
    """The values of a program, as a reduction takes them in place of an array: in one pass with it."""

    __slots__ = ("dtype", "function", "inputs")

    def __init__(self, function: Any, inputs: list[Any], dtype: DType) -> None:
        self.function = function  # an ElementFunction
        self.inputs = inputs
        self.dtype = dtype
