"""`Tracer`: the proxy of an array in a traced function, which records operations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime.lazy_array import LazyArray

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
        self.owning_trace.mark_escaped(self)  # the caller may write to the array
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return array.astype(dtype)  # type: ignore[no-any-return]
        return array.copy("K") if copy else array  # type: ignore[no-any-return]

    def _number(self, operation: str) -> Any:
        array = self.owning_trace.concretize(self, operation)
        return array[()] if array.ndim == 0 else array

    def __bool__(self) -> bool:
        """Compute, and return the truth value."""
        return bool(self._number("the truth value of an array, in `if` or `while`,"))

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
        return memoryview(trace.escaped_array(self))

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
        if name.startswith("__") or not hasattr(kind, name):
            raise AttributeError(f"'numpy.{kind.__name__}' object has no attribute '{name}'")
        return self.owning_trace.attribute(self, name)

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Record a ufunc (NEP 13)."""
        trace = self.owning_trace
        result = trace.ufunc(ufunc, method, inputs, keywords)
        return result if trace.analysis is None else trace.returned(result)

    def __array_function__(self, function: Any, _: Any, arguments: Any, keywords: Any) -> Any:
        """Record another NumPy function (NEP 18)."""
        trace = self.owning_trace
        result = trace.call(function, arguments, keywords)
        return result if trace.analysis is None else trace.returned(result)

    # ---- Indexing ------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        """Return a view, or the selected elements."""
        trace = self.owning_trace
        result = trace.get(self, index)
        return result if trace.analysis is None else trace.returned(result)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write to the selected elements."""
        if self.is_scalar:
            raise TypeError(f"'numpy.{self.dtype.type.__name__}' object does not support item assignment")
        trace = self.owning_trace
        trace.set(self, index, value)
        if trace.analysis is not None:
            trace.returned(None)


def _setter_of(name: str) -> Callable[[Any, Any], None]:
    def put(array: Any, value: Any) -> None:
        setattr(array, name, value)

    put.__name__ = name
    return put


_set_real, _set_imag, _set_flat = map(_setter_of, ("real", "imag", "flat"))


_OPERANDS_OF_NUMBERS = frozenset({bool, int, float, list, tuple, np.ndarray})


def _binary(
    name: str, python: Callable[[Any, Any], Any], swapped: bool = False
) -> Callable[[Tracer, Any], Any]:
    ufunc = getattr(np, name)

    def operate(self: Tracer, other: Any) -> Any:
        trace, kind = self.owning_trace, type(other)
        if getattr(kind, "__array_ufunc__", False) is None:
            trace.flush()  # the other object's method runs now
            return NotImplemented
        inputs = (other, self) if swapped else (self, other)
        if (
            self.is_scalar
            and kind is not Tracer
            and kind not in _OPERANDS_OF_NUMBERS
            and not _is_number(other)
        ):
            number = self._number("an operator of another object")  # whose type may decide, as `complex` does
            result = trace.wrap(python(*[number if each is self else other for each in inputs]))
        else:
            result = trace.operate(ufunc, inputs)
        return result if trace.analysis is None else trace.returned(result)

    return operate


def _is_number(value: Any) -> bool:
    return isinstance(value, np.generic) and value.dtype in CODES


def _times(swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    multiply = _binary("multiply", operator.mul, swapped)

    def operate(self: Tracer, other: Any) -> Any:
        if self.is_scalar and isinstance(other, (list, tuple)):  # sequence repetition
            trace = self.owning_trace
            result = other * self._number("the repetition of a sequence")
            return result if trace.analysis is None else trace.returned(result)
        return multiply(self, other)

    return operate


def _equality(name: str, operator_function: Callable[[Any, Any], Any]) -> Callable[[Tracer, Any], Any]:
    compare = _binary(name, operator_function)

    def operate(self: Tracer, other: Any) -> Any:
        try:
            return compare(self, other)
        except errors.Unsupported:
            raise
        except TypeError:  # NumPy's ufunc raises for strings, its operator returns unequal
            return self.owning_trace.on_host(operator_function, (self, other), {})

    return operate


def _in_place(name: str) -> Callable[[Tracer, Any], Any]:
    ufunc = getattr(np, name)

    def operate(self: Tracer, other: Any) -> Any:
        trace = self.owning_trace
        # Scalars are immutable: the name is bound to a new one.
        operate_in_place = trace.operate_in_place
        result = (
            trace.operate(ufunc, (self, other)) if self.is_scalar else operate_in_place(ufunc, self, other)
        )
        return result if trace.analysis is None else trace.returned(result)

    return operate


def _unary(name: str) -> Callable[[Tracer], Any]:
    ufunc = getattr(np, name)

    def operate(self: Tracer) -> Any:
        trace = self.owning_trace
        result = trace.operate(ufunc, (self,))
        return result if trace.analysis is None else trace.returned(result)

    return operate


_OPERATORS = {
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
for _name, (_ufunc, _python) in _OPERATORS.items():
    setattr(Tracer, f"__{_name}__", _binary(_ufunc, _python))
    setattr(Tracer, f"__r{_name}__", _binary(_ufunc, _python, swapped=True))
    if _name != "divmod":
        setattr(Tracer, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    setattr(Tracer, f"__{_name}__", _binary(_ufunc, getattr(operator, _name)))
setattr(Tracer, "__eq__", _equality("equal", operator.eq))  # noqa: B010
setattr(Tracer, "__ne__", _equality("not_equal", operator.ne))  # noqa: B010
setattr(Tracer, "__mul__", _times())  # noqa: B010
setattr(Tracer, "__rmul__", _times(swapped=True))  # noqa: B010
for _name, _ufunc in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
    setattr(Tracer, f"__{_name}__", _unary(_ufunc))


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Tracer, *arguments: Any, **keywords: Any) -> Any:
        trace = self.owning_trace
        result = trace.call(function, (self, *arguments), keywords)
        return result if trace.analysis is None else trace.returned(result)

    method.__name__ = name
    return method


# Methods that are NumPy's functions of an array, with the same arguments.
_METHODS = """all any argmax argmin argpartition argsort astype choose clip cumprod cumsum diagonal dot max
mean min nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var"""
for _name in _METHODS.split():
    setattr(Tracer, _name, _method(_name))


def _flatten(self: Tracer, order: Any = "C") -> Any:
    raveled = self.owning_trace.call(np.ravel, (self,), {"order": order})
    return self.__array_function__(np.copy, (), (raveled,), {})


def _copy(self: Tracer, order: Any = "C") -> Any:
    if self.is_scalar:
        return self[()]
    return self.__array_function__(np.copy, (), (self,), {"order": order})


def _conj(self: Tracer) -> Tracer:
    return self


def _view(self: Tracer, *arguments: Any, **keywords: Any) -> Any:
    if self.is_scalar or keywords or not all(_is_type(argument) for argument in arguments):
        return self.__getattr__("view")(*arguments, **keywords)
    return self.owning_trace.view_as(self, *arguments)


def _is_type(value: Any) -> bool:
    """Return True if the argument names a supported dtype."""
    try:
        return np.dtype(value) in CODES
    except TypeError:  # a subclass of ndarray
        return False


def _compress(self: Tracer, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return self.__array_function__(
        np.compress, (), (condition, self, axis), {} if out is None else {"out": out}
    )


def _reshape(self: Tracer, *shape: Any, **keywords: Any) -> Any:
    shape = shape[0] if len(shape) == 1 else shape
    return self.__array_function__(np.reshape, (), (self, shape), keywords)


def _transpose(self: Tracer, *axes: Any) -> Any:
    axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else (axes or None)  # type: ignore[assignment]
    return self.__array_function__(np.transpose, (), (self, axes), {})


def _in_place_by(name: str) -> Callable[..., None]:
    function = getattr(np, name)

    def method(self: Tracer, *arguments: Any, **keywords: Any) -> None:
        has_axis = None not in (*arguments, keywords.get("axis", -1))
        if not self.is_scalar and has_axis and self.flags.writeable:
            self[...] = self.owning_trace.call(function, (self, *arguments), keywords)
        else:
            self.__getattr__(name)(*arguments, **keywords)  # raises

    method.__name__ = f"_{name}"
    return method


def _fill(self: Tracer, value: Any) -> None:
    if self.is_scalar:
        self.__getattr__("fill")(value)
    elif type(value) in (list, tuple) or np.ndim(value) or not self.flags.writeable:
        self.owning_trace.write_by_numpy(
            np.ndarray.fill, self, (value,)
        )  # NumPy decides which of these it takes
    else:
        self[...] = value


def _put(self: Tracer, indices: Any, values: Any, mode: Any = "raise") -> None:
    self.__array_function__(np.put, (), (self, indices, values, mode), {})


def _item(self: Tracer, *arguments: Any) -> Any:
    return self.owning_trace.concretize(self, ".item()").item(*arguments)


def _tolist(self: Tracer) -> Any:
    return self.owning_trace.concretize(self, ".tolist()").tolist()


_OWN_METHODS = (_compress, _conj, _copy, _flatten, _reshape, _transpose, _view, _fill, _put, _item, _tolist)
setattr(Tracer, "conjugate", _conj)  # noqa: B010
for _own_method in (*_OWN_METHODS, _in_place_by("sort"), _in_place_by("partition")):
    setattr(Tracer, _own_method.__name__[1:], _own_method)
