"""Arguments and results of fused functions, nested in tuples, lists and dicts: what is in them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pycudakit._families.expression.evaluate import evaluate
from pycudakit._interop.foreign_arrays import accept_foreign_arrays, is_device_array, is_ordinary
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import Tracer

Copies = dict[int, tuple[Any, Any]]  # lists and dicts, by their identity, each with what takes its place


def tree_map(value: Any, replace: Callable[[Any], Any], copies: Copies | None = None) -> Any:
    """Return a value with the parts of tuples, lists and dicts replaced; itself, where nothing is.

    Lists and dicts go to `copies`; what is there already takes the place of one that comes again.
    """
    kind = type(value)
    if copies is not None and id(value) in copies:
        return copies[id(value)][1]
    if kind in (tuple, list):
        parts = [tree_map(part, replace, copies) for part in value]
        same = all(a is b for a, b in zip(parts, value, strict=True))
        new = value if same else kind(parts)
    elif kind is dict:
        values = {key: tree_map(part, replace, copies) for key, part in value.items()}
        new = value if all(values[key] is part for key, part in value.items()) else values
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(tree_map(part, replace, copies) for part in value))
    else:
        return replace(value)
    if copies is not None and kind is not tuple:
        copies[id(value)] = value, new
    return new


def all_tracers(value: Any) -> list[Tracer]:
    """Return the tracers in tuples, named ones too, lists and dicts."""
    found: list[Tracer] = []
    tree_map(value, lambda part: found.append(part) if type(part) is Tracer else part)
    return found


def arrays_in(parts: Iterable[Any]) -> list[Any]:
    """Return the arrays in tuples, lists and dicts."""
    found: list[Any] = []
    for part in parts:
        kind = type(part)
        if kind is np.ndarray or kind is np.memmap:
            if part.dtype in CODES:
                found.append(part)
        elif isinstance(part, (tuple, list)):
            found += arrays_in(part)
        elif kind is dict:
            found += arrays_in(part.values())
    return found


def copied(value: Any) -> Any:
    """Return a copy of an array or a generator, and anything else as it is."""
    if is_array(value):
        return value.copy()
    if is_on_device(value):
        return accept_foreign_arrays(evaluate)("x", {"x": value})
    return copy.deepcopy(value) if is_generator(value) else value


def as_plain_array(array: Any) -> Any:
    """Return an array as one of NumPy's own kind."""
    return array.view(np.ndarray) if type(array) is np.memmap else array


def is_on_device(value: Any) -> bool:
    """Tell whether a value lies on a GPU."""
    return not is_ordinary(value) and is_device_array(value)


def device_arrays_in(arguments: Any) -> list[Any]:
    """Return the arrays on a GPU in tuples, lists and dicts, each once."""
    found: dict[int, Any] = {}
    tree_map(arguments, lambda part: found.setdefault(id(part), part) if is_on_device(part) else part)
    return list(found.values())


def is_array(value: Any) -> bool:
    """Tell whether a value is an array that the engines take."""
    return type(value) in (np.ndarray, np.memmap) and value.dtype in CODES


def is_generator(value: Any) -> bool:
    """Tell whether a value is a generator of random numbers, NumPy's or pycudakit's."""
    if isinstance(value, np.random.Generator):
        return True
    kind = type(value)
    return kind.__name__ == "Generator" and kind.__module__.startswith(__name__.partition(".")[0])


def names_of(function: Any, args: Any, kwargs: Any) -> dict[int, str]:
    """Return the names of the arrays among the arguments, by their identity."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    names: dict[int, str] = {}
    for name, value in bound.items():
        for place, array in enumerate(arrays_in([value])):
            names.setdefault(id(array), name if array is value else f"{name}[{place}]")
    return names


def save_rng_state(arguments: list[Any]) -> Callable[[], None]:
    """Return what has the generators among arguments draw again what they draw from now on."""
    found: list[Any] = []
    tree_map(arguments, lambda part: found.append(part) if is_generator(part) else part)
    copies = [copy.deepcopy(each) for each in found]

    def restore_rng_state() -> None:
        for each, saved in zip(found, copies, strict=True):
            if isinstance(each, np.random.Generator):
                each.bit_generator.state = saved.bit_generator.state
            else:
                each.__setstate__(saved.__getstate__())

    return restore_rng_state
