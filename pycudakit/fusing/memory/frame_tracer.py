"""`FrameTracer`: the proxy of a DataFrame in a traced function, whose columns are traced Series.

The trace records arithmetic and comparisons of DataFrames with one index and the same columns, and
elementwise ufuncs: of a single array, if the columns have one type and share it, else of an array for each
column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from pycudakit._interop.pandas_objects import (
    arrays_of,
    copies_on_write,
    is_numeric_extension,
    new_frame,
    pandas_kind,
    values_of,
)
from pycudakit._interop.pandas_operands import COMPARISONS, OPERATORS, is_as_numpy, numbers_for
from pycudakit._native.dtypes import CODES
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.memory.pandas_tracer import (
    ObjectTracer,
    PandasTracer,
    add_special_methods,
    resolved_in,
)
from pycudakit.fusing.memory.series_tracer import (
    SIGNS,
    SeriesTracer,
    add_operators,
    is_series,
)
from pycudakit.fusing.memory.tracer import Tracer


class FrameTracer(PandasTracer):
    """A proxy of a DataFrame, whose columns are read as traced Series.

    Parameters
    ----------
    trace
        The trace.
    frame
        The DataFrame, if there is one yet.
    arrays
        The tracers of its values: one whose rows are the columns, or one for each column.
    index, columns
        The labels of a DataFrame that is deferred.
    is_exposed
        Whether other code may hold the DataFrame.
    """

    __slots__ = ("_arrays", "_columns", "_frame", "_index", "_is_exposed", "_pending", "_stored")
    own_attributes: ClassVar = PandasTracer.own_attributes.union(__slots__)
    _results_are_copies: ClassVar = True

    def __init__(
        self,
        trace: Any,
        frame: Any = None,
        arrays: list[Tracer] | None = None,
        index: Any = None,
        columns: Any = None,
        is_exposed: bool = False,
        own_class: type | None = None,
    ) -> None:
        super().__init__(trace, type(frame) if own_class is None else own_class)
        self._frame, self._arrays, self._is_exposed = frame, arrays, is_exposed
        self._index, self._columns = index, columns
        self._pending: dict[str, SeriesTracer] = {}  # columns that were assigned, and are not yet stored
        self._stored: list[Any] = []  # Series whose memory tracers may read: pandas copies it on a write

    def __getattr__(self, name: str) -> Any:
        """Return a column, or any other attribute of the DataFrame."""
        if not name.startswith("_") and not hasattr(self._own_class, name) and self._has_column(name):
            return self[name]
        return super().__getattr__(name)

    @property
    def index(self) -> Any:
        """The attribute of a DataFrame."""
        return self._index if self._frame is None else self._frame.index

    @property
    def columns(self) -> Any:
        """The attribute of a DataFrame."""
        return self._columns if self._frame is None else self.for_reading().columns

    @property
    def shape(self) -> tuple[int, int]:
        """The attribute of a DataFrame."""
        return len(self.index), len(self.columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.index)

    def _has_column(self, key: Any) -> bool:
        if type(key) is not str:
            return False
        if key in self._pending:
            return True
        columns = self._columns if self._frame is None else self._frame.columns
        return columns.nlevels == 1 and columns.is_unique and key in columns

    def __getitem__(self, key: Any) -> Any:
        """Return a column, or pandas' result for any other key."""
        trace = self.owning_trace
        if trace.has_stopped_deferring or not self._has_column(key):
            return self.by_pandas("DataFrame[...]", operator.getitem, (self, key), {}, is_read=True)
        if key in self._pending:
            own = self._pending[key]
            result = SeriesTracer(
                trace,
                tracer=own.values_tracer(),
                index=self._frame.index,
                name=key,
                own_class=own.__class__,
            )
        else:
            result = traced_series(trace, self.made()[key])
        return result if trace.analysis is None else trace.returned(result)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign a column, or leave it to pandas."""
        trace = self.owning_trace
        is_deferred = (
            type(key) is str
            and type(value) is SeriesTracer
            and value.owning_trace is trace
            and not trace.has_stopped_deferring
            and value.is_deferred
            and copies_on_write()
            and self.made() is not None
            and self._frame.columns.nlevels == 1
            and self._frame.columns.is_unique
            and self._frame.index.is_(value.index)
        )
        if not is_deferred:
            self.by_pandas("DataFrame[...] = ...", operator.setitem, (self, key, value), {})
        else:
            self._pending[key] = value.copied()
            if trace.analysis is not None:
                trace.returned(None)

    def made(self) -> Any:
        """Return the DataFrame without the assigned columns, computing it if it is deferred."""
        if self._frame is None:
            arrays = [self.owning_trace.to_host(each) for each in self._arrays or ()]
            self._frame = new_frame(arrays, self._index, self._columns)
        return self._frame

    def for_reading(self) -> Any:
        """Return the DataFrame with all assigned columns, for code that only reads it."""
        frame, pending = self.made(), self._pending
        if pending:
            self._arrays, self._pending = None, {}
        for key, column in pending.items():
            series = frame[key] = column.resolved()
            self._stored.append(series)
        return frame

    def resolved(self) -> Any:
        """Return the DataFrame with all assigned columns; other code may write to it from now on."""
        frame, trace = self.for_reading(), self.owning_trace
        if not trace.has_stopped_deferring:
            for tracer in self._arrays or ():
                trace.escaped_array(tracer)
            self._arrays, self._is_exposed = None, True
        return frame

    def arrays(self) -> list[Tracer] | None:
        """Return the tracers of the values; None if pandas must compute with them."""
        if self._frame is not None:
            frame, trace = self.for_reading(), self.owning_trace
            arrays = arrays_of(frame) if self._arrays is None else None
            if arrays is not None:
                self._arrays = _traced_arrays(trace, arrays)
                for tracer in self._arrays if self._is_exposed else ():
                    trace.mark_escaped(tracer)
        return self._arrays

    # ---- Operations ----------------------------------------------------------------------------------

    def _recorded(self, ufunc: Any, other: Any, swapped: bool) -> Any:
        trace, name = self.owning_trace, ufunc.__name__
        if trace.has_stopped_deferring or trace.fall_back_if_slow():
            return NotImplemented
        own = self.arrays()
        operands = None if own is None else self._operands(other, own, name)
        if own is None or operands is None:
            return NotImplemented
        if len(own) != len(operands):
            own, operands = _columns(own), _columns(operands)
        pairs = list(zip(own, operands, strict=True))
        if name in OPERATORS:
            if not all(is_as_numpy(name, each.dtype, operand, swapped) for each, operand in pairs):
                return NotImplemented
        elif any(len({each.dtype for each in some}) > 1 for some in (own, operands)):
            return NotImplemented  # pandas converts the columns to one type
        return self._like(
            self._recorded_ufunc(ufunc, pair[::-1] if swapped else pair, name in OPERATORS) for pair in pairs
        )

    def _recorded_ufunc(self, ufunc: Any, inputs: tuple[Any, ...], is_operator: bool) -> Any:
        trace = self.owning_trace
        if is_operator:
            return trace.operate_quietly(ufunc, inputs)
        return trace.ufunc(ufunc, "__call__", inputs, {})

    def _operands(self, other: Any, own: list[Tracer], name: str) -> list[Any] | None:
        """Return the recorded form of the other operand for each array; None if pandas must compute."""
        trace, kind = self.owning_trace, type(other)
        if issubclass(kind, LazyPandas) and other.owning_trace is not trace:
            other, kind = other.resolved(), other.__class__
        if kind is FrameTracer or pandas_kind(other) == "DataFrame":
            if not self._has_labels_of(other, name):
                return None
            if kind is FrameTracer:
                return own if other is self else other.arrays()
            arrays = arrays_of(other)
            return None if arrays is None else _traced_arrays(trace, arrays)
        if kind is SeriesTracer or pandas_kind(other) == "Series":  # of one number for each column
            return self._row(other, own, name)
        if kind is Tracer and not (other.is_scalar or other.ndim == 0):
            return [other.T] if other.shape == self.shape and other.owning_trace is trace else None
        if kind is np.ndarray and other.ndim:
            return [other.T] if other.shape == self.shape and other.dtype in CODES else None
        if kind in (Tracer, np.ndarray) and name in OPERATORS:  # a number
            other = np.asarray(trace.resolved(other))[()]
        return numbers_for(other, [each.dtype for each in own], name)

    def _has_labels_of(self, other: Any, name: str) -> bool:
        if other is self:
            return True
        pairs = (self.index, other.index), (self.columns, other.columns)
        if all(a is b or a.is_(b) or self.owning_trace.are_equal_indexes(a, b) for a, b in pairs):
            return name in OPERATORS or all(a.identical(b) for a, b in pairs)
        if name not in COMPARISONS:  # for which pandas raises
            self.owning_trace.warn_of_pandas(
                f"{name} of DataFrames with different labels is computed by pandas, which aligns them"
            )
        return False

    def _row(self, other: Any, own: list[Tracer], name: str) -> list[Any] | None:
        if name not in OPERATORS:
            return None
        if not self.owning_trace.are_equal_indexes(self.columns, other.index):
            if name not in COMPARISONS:
                self.owning_trace.warn_of_pandas(
                    f"{name} of a DataFrame and a Series with another index than its columns is computed by "
                    "pandas, which aligns them"
                )
            return None
        row = other.values_tracer() if type(other) is SeriesTracer else values_of(other)
        return None if row is None or len(own) > 1 or own[0].ndim == 1 else [row[:, None]]

    def _like(self, results: Iterable[Any]) -> Any:
        arrays = list(results)
        if not all(type(each) is Tracer for each in arrays):
            return NotImplemented
        return FrameTracer(
            self.owning_trace,
            arrays=arrays,
            index=self.index,
            columns=self.columns,
            own_class=self._own_class,
        )

    def unary(self, ufunc: Any, python: Callable[[Any], Any]) -> Any:
        """Record a ufunc of one operand, or leave it to pandas."""
        trace, name = self.owning_trace, ufunc.__name__
        is_sign = ufunc in SIGNS or name == "invert"
        if not trace.has_stopped_deferring and not trace.fall_back_if_slow():
            own = self.arrays()
            kinds = "biu" if name == "invert" else "iuf" if is_sign else "biuf"
            if own is not None and all(each.dtype.kind in kinds for each in own) and trace.records(ufunc):
                result = self._like(self._recorded_ufunc(ufunc, (each,), is_sign) for each in own)
                if result is not NotImplemented:
                    return result if trace.analysis is None else trace.returned(result)
        return self.by_pandas(f"{name} of pandas", python, (self,), {}, is_read=True)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Record a ufunc, or leave it to pandas (NEP 13)."""
        is_plain = method == "__call__" and not keywords and ufunc.nout == 1
        if is_plain and len(inputs) == 1:
            return self.unary(ufunc, ufunc)
        is_series_first = is_series(inputs[0])  # for which pandas raises
        if is_plain and len(inputs) == 2 and not is_series_first and self.owning_trace.records(ufunc):
            is_right = type(inputs[0]) is not FrameTracer
            own, other = inputs[::-1] if is_right else inputs
            return own.operate(ufunc, ufunc, other, is_right)
        return super().__array_ufunc__(ufunc, method, *inputs, **keywords)

    def write_back(self) -> None:
        """Store the columns that the body has assigned in the caller's DataFrame."""
        self.for_reading()


def _columns(arrays: list[Any]) -> list[Any]:
    return [array[i] for array in arrays for i in range(len(array))] if arrays[0].ndim == 2 else arrays


def _traced_arrays(trace: Any, arrays: list[Any]) -> list[Tracer]:
    trace.buffers.add_arguments(arrays)
    return [trace.tracer_for(array) for array in arrays]


def traced_series(trace: Any, series: Any, is_argument: bool = True) -> Any:
    """Return a tracer of a Series, which may be one that pandas must compute with."""
    values = values_of(series) if is_argument else None
    if values is not None:
        trace.buffers.add_arguments([values])
    elif is_argument and is_numeric_extension(series.dtype):
        trace.warn_of_pandas(f"pandas computes with Series of {series.dtype}")
    is_exposed = not (is_argument or copies_on_write())
    return SeriesTracer(trace, series, is_exposed=is_exposed)


def traced_pandas(trace: Any, value: Any, is_argument: bool = False) -> Any:
    """Return a tracer of an object of pandas' that computes with arrays; any other value as it is."""
    kind = pandas_kind(value)
    if kind == "Series":
        return traced_series(trace, value, is_argument)
    if kind == "DataFrame":
        return FrameTracer(trace, value, is_exposed=not (is_argument or copies_on_write()))
    return ObjectTracer(trace, value) if kind else value


def _in_place(ufunc: Any, python: Any) -> Callable[..., Any]:
    def method(self: PandasTracer, other: Any) -> Any:
        own = self.resolved()
        result = self.by_pandas(f"{ufunc.__name__} of pandas", python, (self, other), {})
        return self if resolved_in(result) is own else result

    return method


def _binary(ufunc: Any, python: Any, swapped: bool = False) -> Callable[[FrameTracer, Any], Any]:
    def operate(self: FrameTracer, other: Any) -> Any:
        return self.operate(ufunc, python, other, swapped)

    return operate


add_operators(FrameTracer, _binary, _in_place)
add_special_methods(FrameTracer)
