"""`SeriesTracer`: the proxy of a Series in a traced function.

The trace records arithmetic and comparisons of Series with one index, and elementwise ufuncs.

A Series of pandas' that other code may hold is *exposed*: its values are read anew for each operation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np

from pycudakit._interop.pandas_objects import copies_on_write, new_series, pandas_kind, values_of
from pycudakit._interop.pandas_operands import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    NAMES_COMPARED,
    as_operand,
    is_as_numpy,
)
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.pandas_tracer import PandasTracer, add_special_methods
from pycudakit.fusing.memory.tracer import Tracer


class SeriesTracer(PandasTracer):
    """A proxy of a Series.

    Parameters
    ----------
    trace
        The trace.
    series
        The Series, if there is one yet.
    tracer
        The tracer of its values.
    index, name
        The labels of a Series that is deferred.
    is_exposed
        Whether other code may hold the Series.
    """

    __slots__ = ("_index", "_is_exposed", "_name", "_series", "_tracer")
    own_attributes: ClassVar = PandasTracer.own_attributes.union(__slots__)

    def __init__(
        self,
        trace: Any,
        series: Any = None,
        tracer: Tracer | None = None,
        index: Any = None,
        name: Hashable = None,
        is_exposed: bool = False,
        own_class: type | None = None,
    ) -> None:
        super().__init__(trace, type(series) if own_class is None else own_class)
        self._series, self._tracer = series, tracer
        self._index, self._name = index, name
        self._is_exposed = is_exposed

    # ---- Labels and values ---------------------------------------------------------------------------

    @property
    def index(self) -> Any:
        """The attribute of a Series."""
        return self._index if self._series is None else self._series.index

    @property
    def name(self) -> Hashable:
        """The attribute of a Series."""
        return self._name if self._series is None else self._series.name

    @property
    def dtype(self) -> Any:
        """The attribute of a Series."""
        return self._series.dtype if self._series is not None else self._tracer.dtype  # type: ignore[union-attr]

    @property
    def shape(self) -> tuple[int, ...]:
        """The attribute of a Series."""
        return (len(self),)

    @property
    def ndim(self) -> int:
        """The attribute of a Series."""
        return 1

    @property
    def size(self) -> int:
        """The attribute of a Series."""
        return len(self)

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self.index)

    def values_tracer(self) -> Tracer | None:
        """Return the tracer of the values; None if pandas must compute with them."""
        if self._is_exposed or self._tracer is None:
            array = values_of(self._series)
            self._tracer = None if array is None else self.owning_trace.tracer_for(array)
            if self._tracer is not None and self._is_exposed and not self.owning_trace.has_stopped_deferring:
                self.owning_trace.mark_escaped(self._tracer)
        return self._tracer

    @property
    def is_deferred(self) -> bool:
        """Whether no Series of pandas' was made for it yet."""
        return self._series is None

    def copied(self) -> SeriesTracer:
        """Return a tracer of the same deferred values, which in-place operators do not change."""
        return self._like(self._tracer, self._index, self._name)  # type: ignore[arg-type]

    def for_reading(self) -> Any:
        """Return the Series, computing it if it is deferred, for code that only reads it."""
        if self._series is None:
            array = self.owning_trace.to_host(self._tracer)
            self._series = new_series(array, self._index, self._name)
        elif self._tracer is not None and not self._is_exposed:
            self.owning_trace.to_host(self._tracer)
        return self._series

    def resolved(self) -> Any:
        """Return the Series, computing it if it is deferred; other code may write to it from now on."""
        series, trace = self.for_reading(), self.owning_trace
        if not self._is_exposed and not trace.has_stopped_deferring:
            tracer = self.values_tracer()
            if tracer is not None:
                trace.escaped_array(tracer)
            self._is_exposed = True
        return series

    def to_numpy(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the values as an array."""
        call = operator.methodcaller("to_numpy", *arguments, **keywords)
        if arguments or keywords or self._is_exposed:
            return self.by_pandas("Series.to_numpy()", call, (self,), {})
        trace = self.owning_trace
        if self._series is None and not trace.has_stopped_deferring:
            trace.note_graph_break("Series.to_numpy()", "return the Series")
        return trace.wrap(call(self.for_reading()))

    @property
    def values(self) -> Any:
        """The attribute of a Series."""
        if self.values_tracer() is not None and not self._is_exposed:
            return self.to_numpy()
        return self.by_pandas("Series.values", operator.attrgetter("values"), (self,), {})

    # ---- Operations ----------------------------------------------------------------------------------

    def _recorded(self, ufunc: Any, other: Any, swapped: bool) -> Any:
        trace, name = self.owning_trace, ufunc.__name__
        if trace.has_stopped_deferring or trace.fall_back_if_slow():
            return NotImplemented
        values = self.values_tracer()
        operand = None if values is None else self._operand(other, name)
        if operand is None or values is None or not is_as_numpy(name, values.dtype, operand, swapped):
            return NotImplemented
        inputs = (operand, values) if swapped else (values, operand)
        result = trace.operate_quietly(ufunc, inputs)
        if type(result) is not Tracer:
            return NotImplemented
        labels = other if swapped and is_series(other) else self
        return self._like(result, labels.index, _common_name(self, other))

    def _operand(self, other: Any, name: str) -> Any:
        """Return the recorded form of the other operand; None if pandas must compute."""
        trace, kind = self.owning_trace, type(other)
        if kind is int or kind is float:
            return other
        if kind is SeriesTracer and other.owning_trace is not trace:
            other, kind = other.resolved(), other.__class__
        if kind is SeriesTracer or pandas_kind(other) == "Series":
            if not self._has_index_of(other):
                if name in ARITHMETIC:
                    trace.warn_of_pandas(
                        f"{name} of Series with different indexes is computed by pandas, which aligns them"
                    )
                return None
            if type(self.name) not in NAMES_COMPARED or type(other.name) not in NAMES_COMPARED:
                return None
            return other.values_tracer() if kind is SeriesTracer else values_of(other)
        if kind is Tracer and not (other.is_scalar or other.ndim == 0):
            return other if other.shape == self.shape and other.owning_trace is trace else None
        if kind is np.ndarray and other.ndim:
            return other if other.shape == self.shape and other.dtype in CODES else None
        if kind is bool:
            return other if name in LOGICAL else None
        if kind in (Tracer, np.ndarray) or issubclass(kind, np.generic):
            return as_operand(np.asarray(trace.resolved(other))[()], self.dtype, name)
        return None

    def _has_index_of(self, other: Any) -> bool:
        mine, theirs = self.index, other.index
        if mine is theirs or mine.is_(theirs):
            return True
        return bool(self.owning_trace.are_equal_indexes(mine, theirs))

    def _like(self, tracer: Tracer, index: Any, name: Hashable) -> SeriesTracer:
        return SeriesTracer(
            self.owning_trace, tracer=tracer, index=index, name=name, own_class=self._own_class
        )

    def operate_in_place(self, ufunc: Any, python: Callable[[Any, Any], Any], other: Any) -> Any:
        """Record an in-place operator of a Series that no other code holds, or leave it to pandas."""
        trace = self.owning_trace
        if not self._is_exposed and self._series is None:
            result = self._recorded(ufunc, other, swapped=False)
            is_same = type(result) is SeriesTracer and result.index is self.index
            if is_same and (result.dtype == self.dtype or copies_on_write()):
                self._tracer = result._tracer  # noqa: SLF001
                return self if trace.analysis is None else trace.returned(self)
        series = self.resolved()
        result = self.by_pandas(f"{ufunc.__name__} of pandas", python, (self, other), {})
        if trace.has_stopped_deferring:
            return result
        return self if self._series is series else result

    def unary(self, ufunc: Any, python: Callable[[Any], Any]) -> Any:
        """Record a sign, `abs()` or `~`, or leave it to pandas."""
        trace, name = self.owning_trace, ufunc.__name__
        if not trace.has_stopped_deferring and not trace.fall_back_if_slow():
            values = self.values_tracer()
            if values is not None and values.dtype.kind in ("biu" if name == "invert" else "iuf"):
                tracer = trace.operate_quietly(ufunc, (values,))
                if type(tracer) is Tracer:
                    result = self._like(tracer, self.index, self.name)
                    return result if trace.analysis is None else trace.returned(result)
        return self.by_pandas(f"{name} of pandas", python, (self,), {})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Record a ufunc, or leave it to pandas (NEP 13)."""
        if method == "__call__" and not keywords:
            if ufunc in SIGNS and inputs[0] is self:
                return self.unary(ufunc, ufunc)
            if ufunc in _BINARY:  # pandas calls the operator
                swapped = type(inputs[0]) is not SeriesTracer
                own, other = inputs[::-1] if swapped else inputs
                return own.operate(ufunc, ufunc, other, swapped)
            result = self._recorded_ufunc(ufunc, inputs)
            if result is not NotImplemented:
                trace = self.owning_trace
                return result if trace.analysis is None else trace.returned(result)
        return super().__array_ufunc__(ufunc, method, *inputs, **keywords)

    def _recorded_ufunc(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Record a ufunc of one or two operands that pandas computes by the values."""
        trace = self.owning_trace
        if trace.has_stopped_deferring or ufunc.nout != 1 or len(inputs) > 2 or not trace.records(ufunc):
            return NotImplemented
        values, tables = [], [each for each in inputs if is_series(each)]
        for each in inputs:
            kind, value = type(each), each
            if is_series(each):
                if each is not self and not self._has_index_of(each):
                    trace.warn_of_pandas(
                        f"{ufunc.__name__} of Series with different indexes is computed by pandas, "
                        "which aligns them"
                    )
                    return NotImplemented
                if not self.index.identical(each.index):  # the result's name depends on pandas' version
                    return NotImplemented
                value = each.values_tracer() if kind is SeriesTracer else values_of(each)
            elif kind not in (bool, int, float) and not isinstance(each, np.generic):
                is_array = kind in (Tracer, np.ndarray) and each.dtype in CODES
                value = each if is_array and each.shape in ((), self.shape) else None
            if value is None:
                return NotImplemented
            values.append(value)
        if len(tables) == 2 and not all(type(each.name) in NAMES_COMPARED for each in tables):
            return NotImplemented
        result = trace.ufunc(ufunc, "__call__", tuple(values), {})
        if type(result) is not Tracer:
            return NotImplemented
        return self._like(result, tables[0].index, _common_name(tables[0], tables[-1]))

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        """Record a NumPy function that takes the values of a Series, or leave it to pandas."""
        trace = self.owning_trace
        if function in _TAKE_VALUES and not trace.fall_back_if_slow():
            values = [_value_in(trace, each) for each in arguments]
            if all(each is not None for each in values) and not keywords:
                result = trace.call(function, tuple(values), keywords)
                return result if trace.analysis is None else trace.returned(result)
        return super().__array_function__(function, types, arguments, keywords)


def is_series(value: Any) -> bool:
    """Return True for a Series or its tracer."""
    return type(value) is SeriesTracer or pandas_kind(value) == "Series"


def _common_name(one: Any, other: Any) -> Hashable:
    """Return the name of the result of two operands, of which the first is a Series."""
    name: Hashable = one.name
    return name if other is one or not is_series(other) or name == other.name else None


def _value_in(trace: Any, value: Any) -> Any:
    """Return an argument of a NumPy function that takes a Series by its values; None for others."""
    kind = type(value)
    if kind is SeriesTracer and value.owning_trace is trace:
        return value.values_tracer()
    if kind in (bool, int, float, Tracer) or isinstance(value, np.generic):
        return value
    return value if kind is np.ndarray and value.dtype in CODES else None


# NumPy's functions that read the values of a Series, and whose results are arrays.
_TAKE_VALUES = frozenset({np.where})
_BINARY = frozenset(
    {getattr(np, name) for name in ARITHMETIC | COMPARISONS | LOGICAL} | {np.divmod, np.matmul}
)
SIGNS = frozenset({np.absolute, np.negative, np.positive})

_BINARY_OPERATORS: dict[str, tuple[Any, Any, Any]] = {
    "add": (np.add, operator.add, operator.iadd),
    "sub": (np.subtract, operator.sub, operator.isub),
    "mul": (np.multiply, operator.mul, operator.imul),
    "truediv": (np.divide, operator.truediv, operator.itruediv),
    "floordiv": (np.floor_divide, operator.floordiv, operator.ifloordiv),
    "mod": (np.remainder, operator.mod, operator.imod),
    "pow": (np.power, operator.pow, operator.ipow),
    "and": (np.bitwise_and, operator.and_, operator.iand),
    "or": (np.bitwise_or, operator.or_, operator.ior),
    "xor": (np.bitwise_xor, operator.xor, operator.ixor),
}
_COMPARISON_OPERATORS: dict[str, tuple[Any, Any]] = {
    "lt": (np.less, operator.lt),
    "le": (np.less_equal, operator.le),
    "gt": (np.greater, operator.gt),
    "ge": (np.greater_equal, operator.ge),
    "eq": (np.equal, operator.eq),
    "ne": (np.not_equal, operator.ne),
}
_SIGN_OPERATORS: dict[str, tuple[Any, Any]] = {
    "neg": (np.negative, operator.neg),
    "pos": (np.positive, operator.pos),
    "abs": (np.absolute, operator.abs),
    "invert": (np.invert, operator.invert),
}


def _binary(ufunc: Any, python: Any, swapped: bool = False) -> Callable[[SeriesTracer, Any], Any]:
    def operate(self: SeriesTracer, other: Any) -> Any:
        if other.__class__.__name__ == "DataFrame":  # whose reflected operator computes, as in pandas
            return NotImplemented
        return self.operate(ufunc, python, other, swapped)

    return operate


def _in_place(ufunc: Any, python: Any) -> Callable[[SeriesTracer, Any], Any]:
    def operate(self: SeriesTracer, other: Any) -> Any:
        return self.operate_in_place(ufunc, python, other)

    return operate


def _unary(ufunc: Any, python: Any) -> Callable[[Any], Any]:
    def operate(self: Any) -> Any:
        return self.unary(ufunc, python)

    return operate


def add_operators(
    kind: type, binary: Callable[..., Callable[..., Any]], in_place: Callable[..., Callable[..., Any]]
) -> None:
    """Add Python's operators to a tracer of pandas' objects.

    `binary` and `in_place` make the method for a ufunc and Python's function.
    """
    for name, (ufunc, python, in_place_python) in _BINARY_OPERATORS.items():
        setattr(kind, f"__{name}__", binary(ufunc, python))
        setattr(kind, f"__r{name}__", binary(ufunc, python, swapped=True))
        setattr(kind, f"__i{name}__", in_place(ufunc, in_place_python))
    for name, (ufunc, python) in _COMPARISON_OPERATORS.items():
        setattr(kind, f"__{name}__", binary(ufunc, python))
    for name, (ufunc, python) in _SIGN_OPERATORS.items():
        setattr(kind, f"__{name}__", _unary(ufunc, python))


add_operators(SeriesTracer, _binary, _in_place)
add_special_methods(SeriesTracer)
