"""Objects that outlive a call of a fused function: arrays take the place of the stand-ins left in them.

A method keeps what it computed in an attribute, a closure appends it to a list. Both are looked through after
the call, but only where stand-ins are left, and not without end: one that is not found goes on as an array.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pycudakit.fusing.stand_in import StandIn

_MOST_LOOKED_AT = 10_000  # objects
_NUMBERS = (bool, int, float, complex, np.generic)
_WITHOUT_PARTS = (*_NUMBERS, type, ModuleType, StandIn, np.ndarray, str, bytes, type(None))


def replace_left(roots: Iterable[Any], array_of: Callable[[StandIn], Any]) -> None:
    """Put arrays in the place of stand-ins, in these objects and in what is found through them."""
    seen: set[int] = set()
    pending = deque(roots)
    while pending and len(seen) < _MOST_LOOKED_AT:
        holder = pending.popleft()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for value, put in _parts(holder):
            new = value if put is None else _replaced(value, array_of)
            if new is not value and put is not None:
                put(new)
            if not issubclass(type(new), _WITHOUT_PARTS):
                pending.append(new)


def _replaced(value: Any, array_of: Callable[[StandIn], Any]) -> Any:
    """Return an array for a stand-in, and a tuple with arrays for those that it has; else the value."""
    if type(value) is StandIn:
        return array_of(value)
    if not isinstance(value, tuple):
        return value
    parts = [_replaced(part, array_of) for part in value]
    if all(new is part for new, part in zip(parts, value, strict=True)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _parts(holder: Any) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """Yield what an object refers to, and what puts something else there."""
    if isinstance(holder, dict):
        for key, value in list(holder.items()):
            yield value, partial(dict.__setitem__, holder, key)
    elif isinstance(holder, (list, deque)):
        for place, value in enumerate(list(holder)):
            yield value, partial(holder.__setitem__, place)
    elif isinstance(holder, tuple):
        for value in holder:
            yield value, None
    elif isinstance(holder, CellType):
        try:
            yield holder.cell_contents, partial(setattr, holder, "cell_contents")
        except ValueError:  # nothing yet
            return
    elif isinstance(holder, FunctionType):
        yield from ((part, None) for part in (holder.__closure__, holder.__defaults__, holder.__kwdefaults__))
        for name in holder.__code__.co_names:
            if name in holder.__globals__:
                yield holder.__globals__[name], partial(dict.__setitem__, holder.__globals__, name)
    elif isinstance(holder, MethodType):
        yield from ((holder.__self__, None), (holder.__func__, None))
    elif isinstance(holder, partial):
        yield from ((part, None) for part in (holder.func, holder.args, holder.keywords))
    else:
        yield getattr(holder, "__dict__", None), None
        for kind in type(holder).__mro__:
            names = kind.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                if name not in ("__dict__", "__weakref__") and hasattr(holder, name):
                    yield getattr(holder, name), partial(object.__setattr__, holder, name)
