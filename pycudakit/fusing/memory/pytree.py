"""Pytrees: arguments and results of fused functions, nested in tuples, lists and dicts."""

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

Copies = dict[int, tuple[Any, Any]]  # by id: each list or dict, with its replacement


def tree_map(value: Any, replace: Callable[[Any], Any], copies: Copies | None = None) -> Any:
    """Apply `replace` to the leaves of nested tuples, lists and dicts; keep unchanged parts as they are.

    `copies` collects the replacements of lists and dicts, so that one that occurs twice is replaced once.
    """
    kind = type(value)
    if copies is not None and id(value) in copies:
        return copies[id(value)][1]
    if kind in (tuple, list):
        parts = [tree_map(part, replace, copies) for part in value]
        is_unchanged = all(a is b for a, b in zip(parts, value, strict=True))
        new = value if is_unchanged else kind(parts)
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
    """Return the tracers in nested tuples (named tuples too), lists and dicts."""
    tracers: list[Tracer] = []
    tree_map(value, lambda part: tracers.append(part) if type(part) is Tracer else part)
    return tracers


def arrays_in(parts: Iterable[Any]) -> list[Any]:
    """Return the NumPy arrays of supported dtypes in nested tuples, lists and dicts."""
    arrays: list[Any] = []
    for part in parts:
        kind = type(part)
        if kind is np.ndarray or kind is np.memmap:
            if part.dtype in CODES:
                arrays.append(part)
        elif isinstance(part, (tuple, list)):
            arrays += arrays_in(part)
        elif kind is dict:
            arrays += arrays_in(part.values())
    return arrays


def copied(value: Any) -> Any:
    """Return a copy of an array or a generator; return other values as they are."""
    if is_array(value):
        return value.copy()
    if is_on_device(value):
        return accept_foreign_arrays(evaluate)("x", {"x": value})
    return copy.deepcopy(value) if is_generator(value) else value


def as_plain_array(array: Any) -> Any:
    """Return a memmap as a plain ndarray; return other arrays as they are."""
    return array.view(np.ndarray) if type(array) is np.memmap else array


def is_on_device(value: Any) -> bool:
    """Return True if a value is a device array."""
    return not is_ordinary(value) and is_device_array(value)


def device_arrays_in(arguments: Any) -> list[Any]:
    """Return the device arrays in nested tuples, lists and dicts, each once."""
    device_arrays: dict[int, Any] = {}
    tree_map(arguments, lambda part: device_arrays.setdefault(id(part), part) if is_on_device(part) else part)
    return list(device_arrays.values())


def is_array(value: Any) -> bool:
    """Return True if a value is an array that the engines accept."""
    return type(value) in (np.ndarray, np.memmap) and value.dtype in CODES


def is_generator(value: Any) -> bool:
    """Return True if a value is a random generator of NumPy or pycudakit."""
    if isinstance(value, np.random.Generator):
        return True
    kind = type(value)
    return kind.__name__ == "Generator" and kind.__module__.startswith(__name__.partition(".")[0])


def names_of(function: Any, args: Any, kwargs: Any) -> dict[int, str]:
    """Return the parameter names of the arrays among the arguments, by the arrays' ids."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    names: dict[int, str] = {}
    for name, value in bound.items():
        for index, array in enumerate(arrays_in([value])):
            names.setdefault(id(array), name if array is value else f"{name}[{index}]")
    return names


def save_rng_state(arguments: list[Any]) -> Callable[[], None]:
    """Snapshot the RNG states in the arguments; return a function that restores them."""
    generators: list[Any] = []
    tree_map(arguments, lambda part: generators.append(part) if is_generator(part) else part)
    copies = [copy.deepcopy(each) for each in generators]

    def restore_rng_state() -> None:
        for each, saved in zip(generators, copies, strict=True):
            if isinstance(each, np.random.Generator):
                each.bit_generator.state = saved.bit_generator.state
            else:
                each.__setstate__(saved.__getstate__())

    return restore_rng_state
