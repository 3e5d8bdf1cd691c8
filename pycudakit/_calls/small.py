"""Small calls: those that NumPy was seen to answer under `auto` go to it at once.

A function says by `answered_by` what of NumPy's it then is. The first call of a form goes the long way, where
the function decides; if that was for NumPy, since its arguments are small, later calls of that form are, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from pycudakit._calls import asked, invocation
from pycudakit._calls.cost import SMALL
from pycudakit._calls.record import Call

F = TypeVar("F", bound=Callable[..., Any])
Form = tuple[Any, ...]

_here = asked.here
_array, _integer = np.ndarray, int
_MOST_FORMS = 1000  # that are kept of a function
_NEAR = 64  # integers nearer to 0 are forms of their own: axes, orders, and so on
_NUMBERS = frozenset({bool, float, int})
_SCALARS = frozenset({complex, float, *(t for t in np.sctypeDict.values() if issubclass(t, np.number))})
_WORDS = frozenset({bool, str, type, np.bool, NoneType, type(np._NoValue)})  # noqa: SLF001
_FEW = 2000  # elements of a list, whose types are looked at


def answered_by(numpy: Callable[..., Any]) -> Callable[[F], F]:
    """Say which function of NumPy's, called with the same arguments, a small call's answer is."""

    def mark(function: F) -> F:
        function.numpy_small = numpy  # type: ignore[attr-defined]
        return function

    return mark


def form_of(arguments: tuple[Any, ...], named: dict[str, Any] | None = None) -> Form | None:
    """Return what decides, of plain arguments, whether NumPy answers first; None of others.

    Of arrays these are type, dimensions, and about how many elements.
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
            if inner is None:
                return None
            form += kind, inner
        elif isinstance(value, np.dtype):
            form.append(value)
        else:
            return None
    return tuple(form)


def _form_within(values: list[Any] | tuple[Any, ...]) -> Form | None:
    """Return the form of a list of numbers, of arrays, or of such lists."""
    count = len(values)
    if count > _FEW:
        return None
    kinds = {*map(type, values)}
    if kinds <= _NUMBERS:
        short_of = tuple(values) if type(values) is tuple and kinds == {int} else ()  # axes, shapes
        return (count.bit_length(), frozenset(kinds), *short_of)
    return form_of(tuple(values)) if count < _NEAR else None


def short_way(numpy: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that has NumPy answer the calls that it was seen to answer."""
    recorders: dict[Form, Callable[[], object]] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if (_here.get().fast or asked.process) != "auto" or (form := form_of(args, kwargs)) is None:
            return function(*args, **kwargs)
        record = recorders.get(form)
        if record is not None:
            result = numpy(*args, **kwargs)
            record()
            return result
        before = invocation.last_record()
        result = function(*args, **kwargs)
        known = invocation.last_record()
        if known is not None and known is not before and invocation.is_by_numpy(known, SMALL):
            if len(recorders) >= _MOST_FORMS:
                recorders.clear()
            recorders[form] = invocation.recorder(Call(invocation.name_of(known), "numpy", SMALL))
        return result

    return call
