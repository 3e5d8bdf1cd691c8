"""Small calls: those that NumPy was seen to answer under `auto` go to it at once.

A function says by `answered_by` what of NumPy's it then is. The first call of a form goes the long way, where
the function decides; if that was for NumPy, since its arguments are small, later calls of that form are, too.
Where it was for an engine, the function may offer a short way to it, with its request kept ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pycudakit._runtime import context, native_call
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import QUICKER_AS_IT_LIES, SMALL

F = TypeVar("F", bound=Callable[..., Any])
Form = tuple[Any, ...]

_here = context.here
_array, _integer = np.ndarray, int
_MOST_FORMS = 1000  # that are kept of a function
_NEAR = 64  # integers nearer to 0 are forms of their own: axes, orders, and so on
_NUMBERS = frozenset({bool, float, int})
_SCALARS = frozenset({complex, float, *(t for t in np.sctypeDict.values() if issubclass(t, np.number))})
_WORDS = frozenset({bool, str, type, np.bool, NoneType, type(np._NoValue)})  # noqa: SLF001
_FEW = 32  # elements of a list, whose types are looked at: of more, NumPy makes an array first

# Stands for the form of arguments that hold longer lists.
LONG: Form = ("a long list",)


def answered_by(numpy: Callable[..., Any] | None) -> Callable[[F], F]:
    """Say which function of NumPy's, if any, a small call's answer is, called with the same arguments."""

    def mark(function: F) -> F:
        function.numpy_small = numpy  # type: ignore[attr-defined]
        return function

    return mark


def form_of(arguments: tuple[Any, ...], named: dict[str, Any] | None = None) -> Form | None:
    """Return what decides, of plain arguments, whether NumPy answers first; None of others.

    Of arrays these are type, dimensions, and about how many elements. LONG stands for lists that are to be
    arrays.
    """
    form: list[Any] = []
    if named:
        form += named
        arguments += (*named.values(),)
    for value in arguments:
        kind = type(value)
        if kind is _array:
            form += value.dtype, value.ndim, value.size.bit_length()
        elif kind is _integer:
            form.append(value if -_NEAR < value < _NEAR else (value.bit_length(),))
        elif kind in _SCALARS:
            form.append(kind)
        elif kind in _WORDS:
            form += kind, value
        elif kind is list or kind is tuple:
            inner = _form_within(value)
            if inner is None or inner is LONG:
                return inner
            form += kind, inner
        elif isinstance(value, np.dtype):
            form.append(value)
        else:
            return None
    return tuple(form)


def _form_within(values: list[Any] | tuple[Any, ...]) -> Form | None:
    """Return the form of a list of numbers, of arrays, or of such lists."""
    count = len(values)
    if count > _FEW and type(values[0]) in _NUMBERS:
        return LONG
    kinds = {*map(type, values)}
    if kinds <= _NUMBERS:
        short_of = tuple(values) if type(values) is tuple and kinds == {int} else ()  # axes, shapes
        return (count.bit_length(), frozenset(kinds), *short_of)
    return form_of(tuple(values)) if count < _NEAR else None


def _as_arrays(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with arrays in the place of long lists of numbers, as NumPy makes them."""
    return tuple(
        np.asarray(v) if type(v) is list and len(v) > _FEW and type(v[0]) in _NUMBERS else v
        for v in arguments
    )


# ---- Ways that were learned --------------------------------------------------------------------------

MOST = 1 << 18  # bytes of arrays whose calls are short


class Way(NamedTuple):
    """What computes a call of its arguments, or returns None: for those of the same shapes, or of any."""

    compute: Callable[[tuple[Any, ...]], Any]
    of_any_shape: bool = False


# What makes a way of a function's name and the arguments that it was learned from.
Prepare = Callable[[str, tuple[Any, ...]], "Way | None"]


class _Local(threading.local):
    is_learning = False
    offered: tuple[Any, Any] | None = None


_local = _Local()


def learned(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return a call's result, and what was offered meanwhile, if anything."""
    _local.is_learning, _local.offered = True, None
    try:
        result = function(*args, **kwargs)
    finally:
        offered, _local.is_learning, _local.offered = _local.offered, False, None
    return result, offered


def is_learning() -> bool:
    """Tell whether the call under way is one to learn from."""
    return _local.is_learning


def offer(result: Any, prepare: Any) -> None:
    """Offer a short way to what is computed, if the result is that of the whole call."""
    if _local.is_learning:
        _local.offered = result, prepare


def _has_shape(argument: Any) -> bool:
    """Tell whether an argument is no list, nor a tuple of other things than integers."""
    kind = type(argument)
    return kind is not list and (kind is not tuple or {*map(type, argument)} <= {int})


def _shapes_of(arguments: tuple[Any, ...]) -> Form:
    """Return what, with their form, makes arguments the same but for the elements of arrays."""
    # Zeros by how they are written: -0.0 is equal to 0.0.
    shapes = [(v.shape, v.strides) if type(v) is _array else v or repr(v) for v in arguments]
    return tuple(shapes)


class Short:
    """What was learned of a function's calls, by their forms."""

    def __init__(self, numpy: Callable[..., Any], function: Callable[..., Any]) -> None:
        self._numpy, self._function = numpy, function
        self.recorders: dict[Form, Callable[[], object]] = {}  # of those that NumPy answers
        self.ways: dict[Form, Callable[[tuple[Any, ...]], Any]] = {}  # of arrays of any shape
        self.ways_by_shape: dict[Form, dict[Form, Callable[[tuple[Any, ...]], Any]]] = {}
        self._recorders_by_shape: dict[Form, dict[Form, Callable[[], object]]] = {}

    def engines(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute what is not known to be NumPy's, nor to have a way for any shape."""
        arguments = (*args, *kwargs.values()) if kwargs else args
        ways = self.ways_by_shape.get(form)
        if ways is not None:
            way = ways.get(_shapes_of(arguments))
            if way is not None:
                result = way(arguments)
                if result is not None:
                    return result
        recorders = self._recorders_by_shape.get(form)
        record = None if recorders is None else recorders.get(_shapes_of(arguments))
        if record is not None:
            result = self._numpy(*args, **kwargs)
            record()
            return result
        before = native_call.last_record()
        result, offered = learned(self._function, *args, **kwargs)
        known = native_call.last_record()
        if known is None or known is before:
            return result
        if native_call.is_by_numpy(known, SMALL):
            _with_room(self.recorders)[form] = _recorder(known, SMALL)
        elif all(map(_has_shape, arguments)):
            if offered is not None and offered[0] is result:
                self._learn_way(form, arguments, native_call.name_of(known), offered[1])
            elif native_call.is_by_numpy(known, QUICKER_AS_IT_LIES):
                by_shape = _with_room(self._recorders_by_shape).setdefault(form, {})
                _with_room(by_shape)[_shapes_of(arguments)] = _recorder(known, QUICKER_AS_IT_LIES)
        return result

    def _learn_way(self, form: Form, arguments: tuple[Any, ...], name: str, prepare: Prepare) -> None:
        way = prepare(name, arguments)
        if way is None:
            return
        if way.of_any_shape:
            _with_room(self.ways)[form] = way.compute
        else:
            by_shape = _with_room(self.ways_by_shape).setdefault(form, {})
            _with_room(by_shape)[_shapes_of(arguments)] = way.compute


def _recorder(known: native_call.Record, reason: str) -> Callable[[], object]:
    return native_call.recorder(Call(native_call.name_of(known), "numpy", reason))


def _with_room(known: dict[Any, Any]) -> dict[Any, Any]:
    if len(known) >= _MOST_FORMS:
        known.clear()
    return known


def short_way(numpy: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that has NumPy, or an engine, at once answer the calls that it was seen to answer."""
    short = Short(numpy, function)
    recorders, ways = short.recorders, short.ways

    def of_long_lists(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arrays = _as_arrays(args)
        form = form_of(arrays, kwargs)
        if form is None or form is LONG:
            return function(*args, **kwargs)
        form = (*map(type, args), LONG, *form)
        record = recorders.get(form)
        if record is None:
            return short.engines(form, args, kwargs)
        result = numpy(*arrays, **kwargs)
        record()
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        if (_here.get().fast or context.process) != "auto" or (form := form_of(args, kwargs)) is None:
            return function(*args, **kwargs)
        if form is LONG:
            return of_long_lists(args, kwargs)
        record = recorders.get(form)
        if record is not None:
            result = numpy(*args, **kwargs)
            record()
            return result
        way = ways.get(form)
        if way is not None:
            result = way((*args, *kwargs.values()) if kwargs else args)
            if result is not None:
                return result
        return short.engines(form, args, kwargs)

    return call
