"""The methods of a tracer that are NumPy's functions, such as `x.sum()`, or composed of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        trace = self.owning_trace
        result = trace.call(function, (self, *arguments), keywords)
        return result if trace.analysis is None else trace.returned(result)

    method.__name__ = name
    return method


# Methods that are NumPy's functions of an array, with the same arguments.
_FUNCTIONS = """all any argmax argmin argpartition argsort choose clip cumprod cumsum diagonal dot max
mean min nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var"""


def _flatten(self: Any, order: Any = "C") -> Any:
    raveled = self.owning_trace.call(np.ravel, (self,), {"order": order})
    return self.__array_function__(np.copy, (), (raveled,), {})


def astype(a: Any, *arguments: Any, **keywords: Any) -> Any:
    """Convert an array or a number: `np.astype` has fewer parameters, and takes arrays only."""
    return a.astype(*arguments, **keywords)


def _copy(self: Any, order: Any = "C") -> Any:
    if self.is_scalar:
        return self[()]
    return self.__array_function__(np.copy, (), (self,), {"order": order})


def _conj(self: Any) -> Any:
    return self


def _view(self: Any, *arguments: Any, **keywords: Any) -> Any:
    if self.is_scalar or keywords or not all(_is_type(argument) for argument in arguments):
        return self.__getattr__("view")(*arguments, **keywords)
    return self.owning_trace.view_as(self, *arguments)


def _is_type(value: Any) -> bool:
    """Return True if the argument names a supported dtype."""
    try:
        return np.dtype(value) in CODES
    except TypeError:  # a subclass of ndarray
        return False


def _compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return self.__array_function__(
        np.compress, (), (condition, self, axis), {} if out is None else {"out": out}
    )


def _reshape(self: Any, *shape: Any, **keywords: Any) -> Any:
    shape = shape[0] if len(shape) == 1 else shape
    return self.__array_function__(np.reshape, (), (self, shape), keywords)


def _transpose(self: Any, *axes: Any) -> Any:
    axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else (axes or None)  # type: ignore[assignment]
    return self.__array_function__(np.transpose, (), (self, axes), {})


def _in_place_by(name: str) -> Callable[..., None]:
    function = getattr(np, name)

    def method(self: Any, *arguments: Any, **keywords: Any) -> None:
        has_axis = None not in (*arguments, keywords.get("axis", -1))
        if not self.is_scalar and has_axis and self.flags.writeable:
            self[...] = self.owning_trace.call(function, (self, *arguments), keywords)
        else:
            self.__getattr__(name)(*arguments, **keywords)  # raises

    method.__name__ = f"_{name}"
    return method


def _fill(self: Any, value: Any) -> None:
    if self.is_scalar:
        self.__getattr__("fill")(value)
    elif type(value) in (list, tuple) or np.ndim(value) or not self.flags.writeable:
        self.owning_trace.write_by_numpy(
            np.ndarray.fill, self, (value,)
        )  # NumPy decides which of these it takes
    else:
        self[...] = value


def _put(self: Any, indices: Any, values: Any, mode: Any = "raise") -> None:
    self.__array_function__(np.put, (), (self, indices, values, mode), {})


def _item(self: Any, *arguments: Any) -> Any:
    deferred = None
    if not arguments and self.dtype.kind == "f":
        deferred = self.owning_trace.deferred_float(self, sys._getframe(1))  # noqa: SLF001
    return self.owning_trace.concretize(self, ".item()").item(*arguments) if deferred is None else deferred


def _tolist(self: Any) -> Any:
    return self.owning_trace.concretize(self, ".tolist()").tolist()


# By name; the other methods are those of Tracer itself.
METHODS: dict[str, Callable[..., Any]] = {
    **{name: _method(name, getattr(np, name)) for name in _FUNCTIONS.split()},
    "astype": _method("astype", astype),
    "compress": _compress,
    "conj": _conj,
    "conjugate": _conj,
    "copy": _copy,
    "fill": _fill,
    "flatten": _flatten,
    "item": _item,
    "partition": _in_place_by("partition"),
    "put": _put,
    "reshape": _reshape,
    "sort": _in_place_by("sort"),
    "tolist": _tolist,
    "transpose": _transpose,
    "view": _view,
}
