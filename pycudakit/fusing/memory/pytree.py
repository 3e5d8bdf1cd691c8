"""Pytrees: arguments and results of fused functions, nested in tuples, lists and dicts."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pycudakit._families.expression.evaluate import evaluate
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._interop.foreign_arrays import is_device_array, is_ordinary
from pycudakit._interop.pandas_objects import pandas_kind
from pycudakit._native.dtypes import CODES
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.memory.tracer import Tracer

Copies = dict[int, tuple[Any, Any]]  # by id: each list or dict, with its replacement

MAX_ITEMS = 1000  # of an argument's containers: the arrays in longer ones stay arrays


def tree_map(value: Any, replace: Callable[[Any], Any], copies: Copies | None = None) -> Any:
    """Apply `replace` to the leaves of nested tuples, lists and dicts; keep unchanged parts as they are.

    `copies` collects the replacements of lists and dicts, so that one that occurs twice is replaced once.
    With it, containers of more than `MAX_ITEMS` are leaves.
    """
    if copies is not None and id(value) in copies:
        return copies[id(value)][1]
    if not _is_container(value) or (copies is not None and len(value) > MAX_ITEMS):
        return replace(value)
    own = {} if copies is None else copies

    def is_leaf(part: Any) -> bool:
        return not _is_container(part) or id(part) in own or (copies is not None and len(part) > MAX_ITEMS)

    def new_of(part: Any) -> Any:
        return own[id(part)][1] if id(part) in own else replace(part)

    walk = _Walk(value, is_leaf, new_of, changes_in_place=False)
    if copies is not None:
        copies.update((key, pair) for key, pair in walk.results.items() if type(pair[0]) in (list, dict))
    return walk.result


def tree_map_in_place(value: Any, replace: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    """Apply `replace` to the leaves of nested containers, sets and the keys of dicts included.

    Lists, dicts and sets are changed in place; tuples and frozensets with changed parts are made anew.
    """
    if is_leaf(value) or _holds_no_tracers(value):
        return replace(value)
    return _Walk(
        value, lambda part: is_leaf(part) or _holds_no_tracers(part), replace, changes_in_place=True
    ).result


class _Walk:
    """The containers that a value consists of, each walked once, and those that replace them.

    It takes containers that contain themselves, and any depth.
    """

    def __init__(
        self,
        value: Any,
        is_leaf: Callable[[Any], bool],
        replace: Callable[[Any], Any],
        changes_in_place: bool,
    ) -> None:
        self._has_keys = self._in_place = changes_in_place
        self._old: dict[int, Any] = {}  # the containers, by their id, with inner ones first but for cycles
        self._parts: dict[int, list[Any]] = {}  # of each container: its new leaves and old containers
        self._changed: set[int] = set()
        parents: dict[int, list[int]] = {}
        pending = [(value, False)]
        while pending:
            container, is_walked = pending.pop()
            key = id(container)
            if is_walked:
                self._old[key] = container
                continue
            if key in self._parts:
                continue
            pending.append((container, True))
            self._parts[key] = parts = self._parts_of(container)
            for place, part in enumerate(parts):
                if is_leaf(part):
                    parts[place] = replace(part)
                    if parts[place] is not part:
                        self._changed.add(key)
                else:
                    parents.setdefault(id(part), []).append(key)
                    pending.append((part, False))
        self._spread_changes(parents)
        self.results = self._make_all()
        self.result = self.results[id(value)][1]

    def _parts_of(self, container: Any) -> list[Any]:
        if type(container) is not dict:
            return list(container)
        return [*container.values(), *container] if self._has_keys else list(container.values())

    def _spread_changes(self, parents: dict[int, list[int]]) -> None:
        """Mark the containers of changed ones, unless these are changed in place."""
        pending = list(self._changed)
        while pending:
            key = pending.pop()
            if self._in_place and type(self._old[key]) in (list, dict, set):
                continue
            for parent in parents.get(key, ()):
                if parent not in self._changed:
                    self._changed.add(parent)
                    pending.append(parent)

    def _make_all(self) -> dict[int, tuple[Any, Any]]:
        """Return each container with its replacement, by the container's id."""
        results = {key: (old, old) for key, old in self._old.items()}
        for key, (old, _) in results.items():
            if key in self._changed and type(old) in (list, dict) and not self._in_place:
                results[key] = old, type(old)()
        for key in self._old:
            old = self._old[key]
            if key in self._changed and type(old) not in (list, dict, set):
                results[key] = old, _like(old, [self._new(part, results) for part in self._parts[key]])
        for key, (old, new) in results.items():
            if key in self._changed and type(old) in (list, dict, set):
                _fill(new, old, [self._new(part, results) for part in self._parts[key]])
        return results

    def _new(self, part: Any, results: dict[int, tuple[Any, Any]]) -> Any:
        found = results.get(id(part))
        return part if found is None or found[0] is not part else found[1]


def _fill(new: Any, old: Any, parts: list[Any]) -> None:
    """Give a list, dict or set its parts."""
    if type(new) is list:
        new[:] = parts
    elif type(new) is set:
        new.clear()
        new.update(parts)
    else:
        keys = list(old)
        new_keys = parts[len(keys) :] or keys
        if any(a is not b for a, b in zip(new_keys, keys, strict=True)):
            new.clear()
        new.update(zip(new_keys, parts, strict=False))


def _like(value: Any, parts: list[Any]) -> Any:
    """Return a tuple or frozenset of the type of another, with its attributes and other parts."""
    kind = type(value)
    if kind in (tuple, frozenset):
        return kind(parts)
    new = tuple.__new__(kind, parts)  # the constructor may take other arguments
    if hasattr(value, "__dict__"):
        vars(new).update(vars(value))
    return new


def map_tuples(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Apply `replace` to the leaves of nested tuples; keep unchanged ones as they are."""
    if not issubclass(type(value), tuple):
        return replace(value)
    return _Walk(
        value, lambda part: not issubclass(type(part), tuple), replace, changes_in_place=False
    ).result


def map_arguments(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Apply `replace` to the leaves of a call's arguments: of nested tuples, lists, dicts and slices.

    The containers are made anew. Objects of subclasses of these types are leaves, and nothing is cyclic.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([map_arguments(part, replace) for part in value])
    if kind is dict:
        return {name: map_arguments(part, replace) for name, part in value.items()}
    if kind is slice:
        return slice(*[map_arguments(part, replace) for part in (value.start, value.stop, value.step)])
    return replace(value)


def _is_container(value: Any) -> bool:
    return type(value) in (list, dict) or issubclass(type(value), tuple)


def _holds_no_tracers(value: Any) -> bool:
    """Return True unless a value is a container with parts that may be tracers, or contain them."""
    kind: Any = type(value)
    if kind not in (list, dict, set, frozenset) and not issubclass(kind, tuple):
        return True
    if len(value) <= MAX_ITEMS:
        return False
    kinds = set(map(type, value.values() if kind is dict else value))
    return not any(issubclass(each, (Tracer, tuple, list, dict, set, frozenset)) for each in kinds)


def all_tracers(value: Any) -> list[Tracer]:
    """Return the tracers in nested tuples (named tuples too), lists and dicts."""
    return [leaf for leaf in _leaves([value], _holds_no_tracers) if type(leaf) is Tracer]


def arrays_in(parts: Iterable[Any]) -> list[Any]:
    """Return the NumPy arrays of supported dtypes in nested tuples, lists and dicts."""
    return [leaf for leaf in _leaves(parts, is_long) if is_array(leaf)]


def pandas_in(arguments: Any) -> list[Any]:
    """Return the Series and DataFrames of pandas, and their tracers, in nested tuples, lists and dicts."""
    return [
        leaf
        for leaf in _leaves([arguments], is_long)
        if pandas_kind(leaf) in ("Series", "DataFrame") or issubclass(type(leaf), LazyPandas)
    ]


def is_long(value: Any) -> bool:
    """Return True for a container of more than `MAX_ITEMS`."""
    return _is_container(value) and len(value) > MAX_ITEMS


def _leaves(values: Iterable[Any], is_skipped: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and dicts in their order, of each container once."""
    seen: set[int] = set()
    iterators = [iter(values)]
    while iterators:
        for value in iterators[-1]:
            if not _is_container(value):
                yield value
            elif id(value) not in seen and not is_skipped(value):
                seen.add(id(value))
                iterators.append(iter(value.values() if type(value) is dict else value))
                break
        else:
            iterators.pop()


def copied(value: Any) -> Any:
    """Return a copy of an array or a generator; return other values as they are."""
    if is_array(value) or pandas_kind(value) in ("Series", "DataFrame"):
        return value.copy()
    if is_on_device(value):
        return accept_foreign_arrays(evaluate)("x", {"x": value})  # makes a new device array
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
    for part in _leaves([arguments], is_long):
        if is_on_device(part):
            device_arrays[id(part)] = part
    return list(device_arrays.values())


def is_array(value: Any) -> bool:
    """Return True if a value is an array that the engines accept."""
    return type(value) in (np.ndarray, np.memmap) and value.dtype in CODES


def is_generator(value: Any) -> bool:
    """Return True if a value is a random generator of NumPy or pycudakit."""
    kind = type(value)
    if issubclass(kind, np.random.Generator):
        return True
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
    generators = list(filter(is_generator, _leaves(arguments, is_long)))
    copies = [copy.deepcopy(each) for each in generators]

    def restore_rng_state() -> None:
        for each, saved in zip(generators, copies, strict=True):
            if isinstance(each, np.random.Generator):
                each.bit_generator.state = saved.bit_generator.state
            else:
                each.__setstate__(saved.__getstate__())

    return restore_rng_state
