"""Proxies of pandas' objects in a traced function.

The trace records operations that mean the same in pandas as in NumPy (`SeriesTracer`, `FrameTracer`). For any
other, pandas gets the objects themselves (a graph break), and a Series in its result is traced again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.memory.tracer import Tracer

_INSTEAD = "pandas computes it: do it outside of the function, or pass the values, .to_numpy()"
# Methods that only read a Series, and whose results share no memory with it, or copy it on a write.
_NAMES = """abs all any argmax argmin between clip corr count cov cummax cummin cumprod cumsum diff dot equals
ewm expanding fillna groupby head idxmax idxmin isin isna isnull item kurt max mean median min nlargest notna
notnull nsmallest nunique pct_change prod quantile rank resample rolling round sem shift skew std sum tail
tolist var where"""
_READING_METHODS = frozenset(_NAMES.split())
_INDEXERS = frozenset({"at", "iat", "iloc", "loc"})


class PandasTracer(LazyPandas):
    """A proxy of an object of pandas' during tracing: it has the object's interface."""

    __slots__ = ("__weakref__", "_life", "_own_class", "owning_trace")
    own_attributes: ClassVar = frozenset(__slots__)  # of the tracer, not of the object
    _results_are_copies: ClassVar = False  # of operators that pandas computes: they only read the operands
    __array_priority__ = 2000.0
    __pandas_priority__ = 1_000_000  # operators of pandas' objects leave the operation to the tracer

    def __init__(self, trace: Any, own_class: type) -> None:
        self.owning_trace = trace
        trace.has_pandas = True
        trace.mark_not_replayable()  # a replay would not make the objects anew
        self._life = trace.life
        self._own_class = own_class

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """`Series` or `DataFrame`, for `isinstance`."""
        return self._own_class

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the object itself."""
        if name in self.own_attributes:
            object.__setattr__(self, name, value)
        else:
            setattr(self.resolved(), name, resolved_in(value))

    def for_reading(self) -> Any:
        """Return the object of pandas', for code that neither writes to it nor keeps its memory."""
        raise NotImplementedError

    def resolved(self) -> Any:
        """Return the object of pandas' itself, which other code may write to and keep."""
        raise NotImplementedError

    def by_pandas(
        self, name: str, function: Callable[..., Any], arguments: Any, keywords: Any, is_read: bool = False
    ) -> Any:
        """Call a function of pandas' objects in place of tracers: a graph break.

        If the objects are only read (`is_read`), deferred operations stay deferred.
        """
        return call_by_pandas(self.owning_trace, name, function, arguments, keywords, is_read)

    def operate(
        self, ufunc: Any, python: Callable[[Any, Any], Any], other: Any, swapped: bool = False
    ) -> Any:
        """Record a binary operator, or leave it to pandas."""
        trace = self.owning_trace
        result = self._recorded(ufunc, other, swapped)
        if result is NotImplemented:
            operands, is_read = (other, self) if swapped else (self, other), self._results_are_copies
            return self.by_pandas(f"{ufunc.__name__} of pandas", python, operands, {}, is_read)
        return result if trace.analysis is None else trace.returned(result)

    def _recorded(self, ufunc: Any, other: Any, swapped: bool) -> Any:  # noqa: ARG002
        """Return the tracer of an operator's result; NotImplemented if pandas must compute it."""
        return NotImplemented

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the object; its methods get objects of pandas'."""
        if name.startswith("_"):  # pandas' own code asks for it
            if name.startswith("__") and not hasattr(self._own_class, name):
                raise AttributeError(f"'{self._own_class.__name__}' object has no attribute '{name}'")
            return getattr(self.resolved(), name)
        if name in _INDEXERS:
            return ObjectTracer(self.owning_trace, getattr(self.for_reading(), name), self)
        is_read = name in _READING_METHODS or type(self) is ObjectTracer
        found = getattr(self.for_reading() if is_read else self.resolved(), name)
        if callable(found) and getattr(found, "__self__", None) is not None:

            def method(*arguments: Any, **keywords: Any) -> Any:
                def call(own: Any, *rest: Any, **named: Any) -> Any:
                    return getattr(own, name)(*rest, **named)

                is_reading = is_read and not keywords.get("inplace")
                kind = self.__class__.__name__
                return self.by_pandas(f"{kind}.{name}()", call, (self, *arguments), keywords, is_reading)

            return method
        trace = self.owning_trace
        if not trace.has_stopped_deferring:
            trace.note_graph_break(f".{name} of pandas", _INSTEAD)
        return trace.wrap(found)

    def __array_function__(self, function: Any, _: Any, arguments: Any, keywords: Any) -> Any:
        """Leave a NumPy function to pandas (NEP 18)."""
        return self.by_pandas(f"numpy.{function.__name__}()", function, arguments, keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Leave a ufunc to pandas (NEP 13)."""
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self.by_pandas(f"numpy.{ufunc.__name__}()", function, inputs, keywords)

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compute, and return a NumPy array."""
        trace = self.owning_trace
        if not trace.has_stopped_deferring:
            trace.note_graph_break(f"numpy.asarray() of a {self._own_class.__name__}", _INSTEAD)
        return self.resolved().__array__(*arguments, **keywords)

    def __hash__(self) -> int:
        """Raise pandas' error."""
        return hash(self.resolved())

    def __reduce__(self) -> Any:
        """Pickle the object itself."""
        return self.resolved().__reduce__()

    def __dir__(self) -> list[str]:
        """List the object's attributes."""
        return dir(self.resolved())


class ObjectTracer(PandasTracer):
    """A proxy of another object of pandas': an indexer, a window, a grouping, an accessor.

    pandas runs its methods; if they write to its `owner`, that is exposed.
    """

    __slots__ = ("_object", "_owner")
    own_attributes: ClassVar = PandasTracer.own_attributes.union(__slots__)

    def __init__(self, trace: Any, other: Any, owner: PandasTracer | None = None) -> None:
        super().__init__(trace, type(other))
        self._object, self._owner = other, owner

    def for_reading(self) -> Any:
        """Return the object."""
        if self._owner is not None:
            self._owner.for_reading()
        return self._object

    def resolved(self) -> Any:
        """Return the object, which may write to its owner."""
        if self._owner is not None:
            self._owner.resolved()
        return self._object


def resolved_in(value: Any) -> Any:
    """Return an object of pandas' for its tracer; any other value as it is."""
    return value.resolved() if issubclass(type(value), LazyPandas) else value


def call_by_pandas(
    trace: Any, name: str, function: Callable[..., Any], arguments: Any, keywords: Any, is_read: bool = False
) -> Any:
    """Call a function with objects of pandas' and arrays in place of tracers: a graph break."""
    if trace.has_stopped_deferring:
        return function(*trace.resolved(arguments), **trace.resolved(keywords))
    trace.note_graph_break(name, _INSTEAD)

    def plain(value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, LazyPandas):
            return value.for_reading() if is_read else value.resolved()
        if kind is Tracer:
            return trace.resolved(value) if is_read else trace.escaped_array(value)
        if kind in (list, tuple):
            return kind(map(plain, value))
        return {key: plain(part) for key, part in value.items()} if kind is dict else value

    plain_arguments, plain_keywords = plain(tuple(arguments)), plain(dict(keywords))
    if not is_read:
        trace.flush()
    result = trace.wrap(function(*plain_arguments, **plain_keywords))
    if type(result) is Tracer and not (is_read or result.is_scalar):
        trace.mark_escaped(result)
    return result if trace.analysis is None else trace.returned(result)


# ---- Operators ---------------------------------------------------------------------------------------


def by_pandas_method(name: str, function: Callable[..., Any], is_read: bool = True) -> Callable[..., Any]:
    """Return a special method that pandas computes."""

    def method(self: PandasTracer, *arguments: Any, **keywords: Any) -> Any:
        return self.by_pandas(f"{name} of pandas", function, (self, *arguments), keywords, is_read)

    return method


def swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of two operands in the other order."""

    def call(own: Any, other: Any) -> Any:
        return function(other, own)

    return call


_SPECIAL: dict[str, Callable[..., Any]] = {
    "bool": bool,
    "complex": complex,
    "contains": operator.contains,
    "copy": lambda own: own.__copy__(),
    "deepcopy": lambda own, memo: own.__deepcopy__(memo),
    "delitem": operator.delitem,
    "float": float,
    "format": format,
    "getitem": operator.getitem,
    "index": operator.index,
    "int": int,
    "iter": iter,
    "len": len,
    "repr": repr,
    "reversed": reversed,
    "round": round,
    "setitem": operator.setitem,
    "str": str,
}
_SPECIAL["call"] = lambda own, *arguments, **keywords: own(*arguments, **keywords)
_EXPOSING = frozenset({"delitem", "iter", "reversed", "setitem"})  # write to the object, or keep it


def add_special_methods(cls: type[PandasTracer]) -> None:
    """Add the special methods that a class lacks, which pandas computes."""
    for name, function in _SPECIAL.items():
        if f"__{name}__" not in cls.__dict__ and (name != "call" or cls is ObjectTracer):
            method = by_pandas_method(f"{name}()", function, name not in _EXPOSING)
            setattr(cls, f"__{name}__", method)


for _name, _python in {"matmul": operator.matmul, "divmod": divmod}.items():
    setattr(PandasTracer, f"__{_name}__", by_pandas_method(_name, _python))
    setattr(PandasTracer, f"__r{_name}__", by_pandas_method(_name, swapped(_python)))
add_special_methods(ObjectTracer)
