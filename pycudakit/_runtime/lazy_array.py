"""Arrays that are not computed yet, as the functions that receive them see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycudakit._native.dtypes import Array, DType


class LazyArray:
    """Base class of tracers: a deferred array inside a fused function."""

    __slots__ = ()

    def resolved(self) -> Array:
        """Return the array itself, computing it if it is deferred."""
        raise TypeError(f"{type(self).__name__} cannot be computed as an array")

    def apply(self, function: Any, inputs: Sequence[Any]) -> Any:  # noqa: ARG002
        """Return the deferred result of an elementwise function; `self` is one of the inputs."""
        raise TypeError(f"{type(self).__name__} defers no elementwise functions")


class FusedProducer:
    """An elementwise program as the input of a reduction: both run as one fused kernel.

    `layouts` are arrays from whose layouts the values' would follow if they had memory, as NumPy's have; none
    for C order.
    """

    __slots__ = ("dtype", "function", "inputs", "layouts")

    def __init__(self, function: Any, inputs: list[Any], dtype: DType, layouts: list[Array]) -> None:
        self.function = function  # an ElementFunction
        self.inputs = inputs
        self.dtype = dtype
        self.layouts = layouts


class LazyPandas:
    """Base class of the tracers of pandas' objects: a deferred Series or a DataFrame."""

    __slots__ = ()

    def resolved(self) -> Any:
        """Return the object of pandas' itself, computing it if it is deferred."""
        raise TypeError(f"{type(self).__name__} cannot be computed as an object of pandas'")

    def write_back(self) -> None:
        """Store the body's assignments in the caller's object."""
