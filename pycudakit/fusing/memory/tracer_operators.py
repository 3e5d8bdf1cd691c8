"""The operators of a tracer: each records NumPy's ufunc in the trace."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import CODES
from pycudakit._runtime.lazy_array import LazyPandas

_OPERANDS_OF_TRACERS = frozenset({bool, int, float, list, tuple, np.ndarray, np.memmap})


def _binary(name: str, python: Callable[[Any, Any], Any], swapped: bool = False) -> Callable[[Any, Any], Any]:
    ufunc = getattr(np, name)

    def operate(self: Any, other: Any) -> Any:
        trace, kind = self.owning_trace, type(other)
        if getattr(kind, "__array_ufunc__", False) is None and not self.is_scalar:
            trace.flush()  # the other object's method runs now
            return NotImplemented
        if issubclass(kind, LazyPandas):
            return NotImplemented
        inputs = (other, self) if swapped else (self, other)
        if kind is type(self) or kind in _OPERANDS_OF_TRACERS:
            result = trace.operate(ufunc, inputs)
        elif issubclass(kind, np.ndarray):  # Python asks a subclass first, as it does beside a real array
            trace.flush()
            result = trace.on_host(python, inputs, {})
        elif self.is_scalar and not _is_number(other):
            number = self._number("an operator of another object")  # whose type may decide, as `complex` does
            trace.flush()  # the other object's method runs now
            result = trace.wrap(python(*[number if each is self else other for each in inputs]))
        else:
            result = trace.operate(ufunc, inputs)
        return result if trace.analysis is None else trace.returned(result)

    return operate


def _is_number(value: Any) -> bool:
    return isinstance(value, np.generic) and value.dtype in CODES


def _times(swapped: bool = False) -> Callable[[Any, Any], Any]:
    multiply = _binary("multiply", operator.mul, swapped)

    def operate(self: Any, other: Any) -> Any:
        if self.is_scalar and isinstance(other, (list, tuple)):  # sequence repetition
            trace = self.owning_trace
            result = other * self._number("the repetition of a sequence")
            return result if trace.analysis is None else trace.returned(result)
        return multiply(self, other)

    return operate


def _equality(name: str, operator_function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    compare = _binary(name, operator_function)

    def operate(self: Any, other: Any) -> Any:
        try:
            return compare(self, other)
        except errors.Unsupported:
            raise
        except TypeError:  # NumPy's ufunc raises for strings, its operator returns unequal
            return self.owning_trace.on_host(operator_function, (self, other), {})

    return operate


def _in_place(name: str, python: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    ufunc, operate_on_numbers = getattr(np, name), _binary(name, python)

    def operate(self: Any, other: Any) -> Any:
        if self.is_scalar:  # they are immutable: the name is bound to a new one
            return operate_on_numbers(self, other)
        trace = self.owning_trace
        if issubclass(type(other), LazyPandas):
            if self.shape != other.shape:  # which pandas refuses
                return trace.by_numpy(ufunc, (self, other), {"out": (self,)})
            self[...] = ufunc(self, other)
            return self
        result = trace.operate_in_place(ufunc, self, other)
        return result if trace.analysis is None else trace.returned(result)

    return operate


def _unary(name: str) -> Callable[[Any], Any]:
    ufunc = getattr(np, name)

    def operate(self: Any) -> Any:
        trace = self.owning_trace
        result = trace.operate(ufunc, (self,))
        return result if trace.analysis is None else trace.returned(result)

    return operate


_ARITHMETIC = {
    "add": ("add", operator.add),
    "sub": ("subtract", operator.sub),
    "mul": ("multiply", operator.mul),
    "truediv": ("divide", operator.truediv),
    "floordiv": ("floor_divide", operator.floordiv),
    "mod": ("remainder", operator.mod),
    "pow": ("power", operator.pow),
    "matmul": ("matmul", operator.matmul),
    "and": ("bitwise_and", operator.and_),
    "or": ("bitwise_or", operator.or_),
    "xor": ("bitwise_xor", operator.xor),
    "lshift": ("left_shift", operator.lshift),
    "rshift": ("right_shift", operator.rshift),
    "divmod": ("divmod", divmod),
}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_SIGNS = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}

# By the name of the special method, such as "__add__".
OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": _binary(ufunc, python) for name, (ufunc, python) in _ARITHMETIC.items()},
    **{f"__r{name}__": _binary(ufunc, python, swapped=True) for name, (ufunc, python) in _ARITHMETIC.items()},
    **{
        f"__i{name}__": _in_place(ufunc, python)
        for name, (ufunc, python) in _ARITHMETIC.items()
        if name != "divmod"
    },
    **{f"__{name}__": _binary(ufunc, getattr(operator, name)) for name, ufunc in _COMPARISONS.items()},
    **{f"__{name}__": _unary(ufunc) for name, ufunc in _SIGNS.items()},
    "__eq__": _equality("equal", operator.eq),
    "__ne__": _equality("not_equal", operator.ne),
    "__mul__": _times(),
    "__rmul__": _times(swapped=True),
}
