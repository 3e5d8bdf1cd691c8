"""`FrameTracer`: the proxy of a DataFrame in a traced function, whose columns are traced Series."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from pycudakit._interop.pandas_objects import copies_on_write, is_numeric_extension, pandas_kind, values_of
from pycudakit.fusing.memory.pandas_tracer import (
    ObjectTracer,
    PandasTracer,
    add_special_methods,
    by_pandas_method,
    resolved_in,
    swapped,
)
from pycudakit.fusing.memory.series_tracer import SeriesTracer


class FrameTracer(PandasTracer):
    """A proxy of a DataFrame, whose columns are read as traced Series."""

    __slots__ = ("_frame", "_pending")
    own_attributes: ClassVar = PandasTracer.own_attributes.union(__slots__)

    def __init__(self, trace: Any, frame: Any) -> None:
        super().__init__(trace, type(frame))
        self._frame = frame
        self._pending: dict[str, SeriesTracer] = {}  # columns that were assigned, and are not yet stored

    def __getattr__(self, name: str) -> Any:
        """Return a column, or any other attribute of the DataFrame."""
        if not name.startswith("_") and not hasattr(self._own_class, name) and self._has_column(name):
            return self[name]
        return super().__getattr__(name)

    @property
    def index(self) -> Any:
        """The attribute of a DataFrame."""
        return self._frame.index

    def _has_column(self, key: Any) -> bool:
        if type(key) is not str:
            return False
        if key in self._pending:
            return True
        columns = self._frame.columns
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
            result = traced_series(trace, self._frame[key])
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

    def for_reading(self) -> Any:
        """Return the DataFrame with all assigned columns."""
        pending, self._pending = self._pending, {}
        for key, column in pending.items():
            self._frame[key] = column.resolved()
        return self._frame

    resolved = for_reading

    def write_back(self) -> None:
        """Store the columns that the body has assigned in the caller's DataFrame."""
        self.for_reading()


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
        return FrameTracer(trace, value)
    return ObjectTracer(trace, value) if kind else value


def _in_place(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: PandasTracer, other: Any) -> Any:
        own = self.resolved()
        result = self.by_pandas(f"{name} of pandas", function, (self, other), {})
        return self if resolved_in(result) is own else result

    return method


_OPERATORS = "add sub mul truediv floordiv mod pow and or xor"
_OTHERS = "lt le gt ge eq ne neg pos abs invert"
for _name in _OPERATORS.split():
    _python = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(FrameTracer, f"__{_name}__", by_pandas_method(_name, _python))
    setattr(FrameTracer, f"__r{_name}__", by_pandas_method(_name, swapped(_python)))
    setattr(FrameTracer, f"__i{_name}__", _in_place(_name, getattr(operator, f"i{_name}")))
for _name in _OTHERS.split():
    setattr(FrameTracer, f"__{_name}__", by_pandas_method(_name, getattr(operator, _name)))
add_special_methods(FrameTracer)
