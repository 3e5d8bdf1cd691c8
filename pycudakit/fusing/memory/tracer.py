"""`Tracer`: the proxy of an array in a traced function, which records operations."""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.lazy_array import LazyArray, LazyPandas
from pycudakit.fusing.memory.tracer_methods import METHODS
from pycudakit.fusing.memory.tracer_operators import OPERATORS

if TYPE_CHECKING:
    from pycudakit.fusing.memory.nodes import Node


class _NoLengthError(AttributeError, TypeError):
    """Raised for `len` of a number (a TypeError), and where `hasattr` looks for it (an AttributeError)."""


class _method_of_arrays:  # noqa: N801  (a decorator)
    """A method that a tracer of an array has, and a tracer of a number has not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, tracer: Tracer | None, owner: Any = None) -> Any:
        if tracer is not None and tracer.is_scalar:
            raise _NoLengthError(f"object of type 'numpy.{tracer.dtype.type.__name__}' has no len()")
        return self if tracer is None else MethodType(self._method, tracer)


class TracerLife:
    """An object that the tracers of a trace hold: it is alive as long as one of them is."""

    __slots__ = ("__weakref__",)


class Tracer(LazyArray):
    """A proxy of an array during tracing. It has the interface of `ndarray`, and defers its operations."""

    __slots__ = ("__weakref__", "_life", "base_tracer", "is_scalar", "node", "owning_trace")
    __array_priority__ = 1000.0

    def __init__(
        self, trace: Any, node: Node, is_scalar: bool = False, base_tracer: Tracer | None = None
    ) -> None:
        self.owning_trace = trace
        self._life = trace.life
        self.base_tracer = base_tracer  # of the array that this one is a view of
        self.node = node
        self.is_scalar = is_scalar  # NumPy would have a scalar here
        if node.buffer is not None:
            node.buffer.add_tracer(self)

    def apply(self, function: Any, inputs: Sequence[Any]) -> Any:
        """Record an elementwise function."""
        trace = self.owning_trace
        result = trace.apply(function, inputs)
        return result if trace.analysis is None else trace.returned(result)

    # ---- Attributes known without computing ----------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """`ndarray`, `memmap`, or the type of a NumPy scalar, for `isinstance`."""
        if self.is_scalar:
            return self.dtype.type
        return np.ndarray if self.owning_trace.memmap_of(self) is None else np.memmap

    @property
    def shape(self) -> tuple[int, ...]:
        """The attribute of `ndarray`."""
        return self.node.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.owning_trace.set_view_attribute(self, "shape", shape)

    @property
    def dtype(self) -> DType:
        """The attribute of `ndarray`."""
        array = self.node.array
        return self.node.dtype if array is None else array.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.owning_trace.set_view_attribute(self, "dtype", dtype)

    @property
    def ndim(self) -> int:
        """The attribute of `ndarray`."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """The attribute of `ndarray`."""
        size = 1
        for length in self.node.shape:
            size *= length
        return size

    @property
    def itemsize(self) -> int:
        """The attribute of `ndarray`."""
        return self.node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The attribute of `ndarray`."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The attribute of `ndarray`."""
        return self.owning_trace.materialize(self).strides  # type: ignore[no-any-return]

    @strides.setter
    def strides(self, strides: Any) -> None:
        self.owning_trace.set_view_attribute(self, "strides", strides)

    @property
    def flags(self) -> Any:
        """The attribute of `ndarray`."""
        return self.owning_trace.materialize(self).flags

    @property
    def T(self) -> Any:  # noqa: N802
        """The attribute of `ndarray`."""
        trace = self.owning_trace
        result = trace.view(self, np.transpose)
        return result if trace.analysis is None else trace.returned(result)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The attribute of `ndarray`."""
        trace = self.owning_trace
        result = trace.view(self, lambda array: array.mT)
        return result if trace.analysis is None else trace.returned(result)

    @property
    def real(self) -> Any:
        """The array itself: no supported dtype is complex."""
        return self

    @real.setter
    def real(self, value: Any) -> None:
        self.owning_trace.write_by_numpy(_set_real, self, (value,))

    @property
    def imag(self) -> Any:
        """The attribute of `ndarray`."""
        return self.owning_trace.attribute(self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        self.owning_trace.write_by_numpy(_set_imag, self, (value,))

    @property
    def owner(self) -> Tracer:
        """The tracer of the array that owns the memory, as far as it has one."""
        return self if self.base_tracer is None else self.base_tracer

    @property
    def base(self) -> Any:
        """The attribute of `ndarray`."""
        return self.owning_trace.base_of(self)

    @property
    def flat(self) -> Any:
        """The attribute of `ndarray`."""
        return self.owning_trace.attribute(self, "flat")

    @flat.setter
    def flat(self, values: Any) -> None:
        self.owning_trace.write_by_numpy(_set_flat, self, (values,))

    @_method_of_arrays
    def __len__(self) -> int:
        """Return the length of the first axis."""
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the first axis."""
        if self.is_scalar:
            raise TypeError(f"'numpy.{self.dtype.type.__name__}' object is not iterable")
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(self.shape[0]))

    # ---- Concretization: operations that need values on the host -------------------------------------

    def resolved(self) -> Array:
        """Return the computed array, on the host."""
        return self.owning_trace.to_host(self)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Compute, and return a NumPy array."""
        array = self.owning_trace.concretize(self, "numpy.asarray()")
        if copy is None and self._is_for_f2py(sys._getframe(1)):  # noqa: SLF001
            copy = True
        self.owning_trace.mark_escaped(self)  # the caller may write to the array
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return array.astype(dtype)  # type: ignore[no-any-return]
        return array.copy("K") if copy else array  # type: ignore[no-any-return]

    def _number(self, operation: str) -> Any:
        number = self.owning_trace.weak_scalars.get(self.node)
        array = self.owning_trace.concretize(self, operation)
        if number is not None:
            return number
        return array[()] if array.ndim == 0 else array

    def __bool__(self) -> bool:
        """Compute, and return the truth value."""
        return bool(self.owning_trace.truth_value(self))

    def __float__(self) -> float:
        """Compute, and convert the value."""
        return float(self._number("float()"))

    def __int__(self) -> int:
        """Compute, and convert the value."""
        return int(self._number("int()"))

    def __trunc__(self) -> Any:
        """Compute, and convert the value."""
        return math.trunc(self._number("int()"))

    def __complex__(self) -> complex:
        """Compute, and convert the value."""
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        """Compute, and convert the value."""
        return operator.index(self._number("an index"))

    def __round__(self, digits: int | None = None) -> Any:
        """Compute, and convert the value."""
        return round(self._number("round()"), *([] if digits is None else [digits]))

    def __repr__(self) -> str:
        """Compute, and format the elements."""
        return repr(self._number("repr()"))

    def __str__(self) -> str:
        """Compute, and format the elements."""
        return str(self._number("str(), as called by print(),"))

    def __format__(self, spec: str) -> str:
        """Compute, and format the elements."""
        return format(self._number("format()"), spec)

    def __bytes__(self) -> bytes:
        """Compute, and return the bytes of the elements."""
        return bytes(self._number("bytes()"))

    def __buffer__(self, _: int) -> memoryview:
        """Compute, and return the array's memory, which Python 3.12 and later ask for."""
        trace = self.owning_trace
        trace.concretize(self, "numpy.asarray(), or another reader of its memory,")
        array = trace.escaped_array(self)
        return memoryview(array.copy("K") if self._is_for_f2py(sys._getframe(1)) else array)  # noqa: SLF001

    def _is_for_f2py(self, frame: FrameType) -> bool:
        """Return True if a frame calls a function of f2py, which may write to the memory of tracers."""
        analysis = self.owning_trace.analysis
        return analysis is not None and analysis.calls_f2py(frame)

    def __hash__(self) -> int:
        """Compute, and hash a scalar."""
        if self.is_scalar:
            return hash(self._number("hash()"))
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __contains__(self, value: Any) -> bool:
        """Compute, and search for a value."""
        return value in self.owning_trace.concretize(self, "`in`")

    def __reduce__(self) -> Any:
        """Pickle the computed array."""
        value = self._number("pickling")
        return value.__reduce__()

    def __copy__(self) -> Any:
        """Return a copy."""
        return self.copy()

    def __deepcopy__(self, _: Any) -> Any:
        """Return a copy."""
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        """Compute, and return any other attribute of `ndarray`."""
        kind = self.__class__
        if kind is np.memmap and name in ("filename", "flush", "mode", "offset"):
            self.owning_trace.to_host(self)
            return getattr(self.owning_trace.memmap_of(self), name)
        # NumPy itself looks for `__array_interface__` and its like, too, but is to find `__array__`.
        analysis, frame = self.owning_trace.analysis, sys._getframe(1)  # noqa: SLF001
        is_for_numpy = name.startswith("__") and (analysis is None or not analysis.loads_attribute(frame))
        if is_for_numpy or not hasattr(kind, name):
            raise AttributeError(f"'numpy.{kind.__name__}' object has no attribute '{name}'")
        return self.owning_trace.attribute(self, name)

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Record a ufunc (NEP 13)."""
        if any(issubclass(type(value), LazyPandas) for value in inputs):
            return NotImplemented
        trace = self.owning_trace
        result = trace.ufunc(ufunc, method, inputs, keywords)
        return result if trace.analysis is None else trace.returned(result)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        """Record another NumPy function (NEP 18)."""
        if any(issubclass(kind, LazyPandas) for kind in types):
            return NotImplemented
        trace = self.owning_trace
        is_for_others = len(types) > 1 and any(map(_overrides_functions, types))
        result = (trace.by_numpy if is_for_others else trace.call)(function, arguments, keywords)
        return result if trace.analysis is None else trace.returned(result)

    # ---- Indexing ------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        """Return a view, or the selected elements."""
        trace = self.owning_trace
        index = _values_of_pandas(index)
        result = trace.get(self, index)
        return result if trace.analysis is None else trace.returned(result)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write to the selected elements."""
        if self.is_scalar:
            raise TypeError(f"'numpy.{self.dtype.type.__name__}' object does not support item assignment")
        trace = self.owning_trace
        trace.set(self, _values_of_pandas(index), _values_of_pandas(value))
        if trace.analysis is not None:
            trace.returned(None)


@functools.cache
def _overrides_functions(kind: type) -> bool:
    """Return True if a class of the user's has an `__array_function__` of its own, which NumPy is to call."""
    own = getattr(kind, "__array_function__", None)
    return own not in (np.ndarray.__array_function__, Tracer.__array_function__)


def _values_of_pandas(value: Any) -> Any:
    """Return the tracer of a Series' values, if it has one; any other value as it is."""
    if not issubclass(type(value), LazyPandas):
        return value
    tracer = value.values_tracer() if hasattr(type(value), "values_tracer") else None
    return value.resolved() if tracer is None else tracer


def _setter_of(name: str) -> Callable[[Any, Any], None]:
    def put(array: Any, value: Any) -> None:
        setattr(array, name, value)

    put.__name__ = name
    return put


_set_real, _set_imag, _set_flat = map(_setter_of, ("real", "imag", "flat"))


for _name, _function in (OPERATORS | METHODS).items():
    setattr(Tracer, _name, _function)
