"""The way from the caller's objects to stand-ins, and back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pycudakit.fusing.escape import reached_elsewhere
from pycudakit.fusing.memory.imported_arrays import Lending
from pycudakit.fusing.memory.pytree import Copies, draws, is_array, mapped, plain
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.scheduler import MOST_OUTPUTS
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.traced_body import Generator


class Homeward:
    """The way from the caller's objects to stand-ins, and back."""

    def __init__(self, recording: Recording, lending: Lending | None) -> None:
        self._recording = recording
        self._lending = lending
        self._given: dict[int, tuple[StandIn, Any]] = {}  # the caller's arrays, by their identity
        self._originals: dict[int, Any] = {}  # and by the nodes that they became
        self._copies: Copies = {}  # of the caller's lists and dicts, and what the body sees
        self._by_seen: dict[int, Any] = {}
        self._made: dict[int, Any] = {}  # results beside device arrays, by their stand-ins

    def stand_ins(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return a function's arguments as its body sees them, in copies of lists and dicts.

        Those to which it has another way, too, are themselves: what is put there is seen both ways.
        """
        kept = reached_elsewhere(function, (*args, *kwargs.values()))
        self._copies.update({id(value): (value, value) for value in kept})
        args = tuple(mapped(value, self._stand_in, self._copies) for value in args)
        kwargs = {name: mapped(value, self._stand_in, self._copies) for name, value in kwargs.items()}
        self._by_seen = {id(seen): original for original, seen in self._copies.values()}
        return args, kwargs

    def _stand_in(self, value: Any) -> Any:
        is_lent = self._lending is not None and self._lending.has(value)
        if not (is_lent or is_array(value)):
            return Generator(value) if draws(value) else value
        if id(value) not in self._given:
            array = self._lending.array_of(value) if is_lent and self._lending is not None else plain(value)
            self._given[id(value)] = self._recording.stand_in(array), value
        return self._given[id(value)][0]

    def of(self, value: Any) -> Any:
        """Return a value as the caller is to have it."""
        if id(value) in self._by_seen:
            return self._by_seen[id(value)]
        kind = type(value)
        if kind is StandIn:
            return self._array(value)
        if kind in (tuple, list, dict, set, frozenset):
            return self._of_parts(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.of, value))
        return value._generator if type(value) is Generator else value  # noqa: SLF001

    def _of_parts(self, value: Any) -> Any:
        """Return a collection with its parts as the caller is to have them; what can change is itself."""
        kind = type(value)
        parts = [*value.items()] if kind is dict else [*value]
        new = [self.of(part) for part in parts]
        if all(a is b for a, b in zip(new, parts, strict=True)):
            return value
        if kind in (tuple, frozenset):
            return kind(new)
        value.clear()
        (value.extend if kind is list else value.update)(new)
        return value

    def iterator_of(self, value: Any) -> Any:
        """Return what yields as the caller is to have it, for an iterator of Python's; else the value."""
        is_pythons = isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools")
        return map(self.of, value) if is_pythons else value

    def _array(self, stand_in: StandIn) -> Any:
        if id(stand_in.node) in self._originals:
            return self._originals[id(stand_in.node)]
        if self._lending is not None:
            return self._on_device(stand_in, self._lending)
        array = self._recording.read(stand_in)
        return array[()] if stand_in.is_scalar else array

    def compute_on_device(self, stand_ins: Iterable[StandIn], lending: Lending) -> None:
        """Compute what was put off right into the results, those of one shape in one pass."""
        waiting = {
            id(s.node): s
            for s in stand_ins
            if s.node.array is None and s.node.reduction is None and s.node.view is None
        }
        by_shape: dict[tuple[int, ...], list[StandIn]] = {}
        for stand_in in waiting.values():
            by_shape.setdefault(stand_in.shape, []).append(stand_in)
        for alike in by_shape.values():
            for first in range(0, len(alike), MOST_OUTPUTS):
                group = alike[first : first + MOST_OUTPUTS]
                new = [made for s in group if (made := lending.new(s.shape, s.dtype)) is not None]
                if len(new) == len(group):
                    self._recording.compute_into([s.node for s in group], [array for _, array in new])
                    self._made.update({id(s): made for s, (made, _) in zip(group, new, strict=True)})

    def _on_device(self, stand_in: StandIn, lending: Lending) -> Any:
        """Return its values as a new array of the library that the arguments are of."""
        if id(stand_in) not in self._made:
            new = lending.new(stand_in.shape, stand_in.dtype)
            if new is None:
                array = self._recording.read(stand_in)
                return array[()] if stand_in.is_scalar else array
            self._recording.set(self._recording.stand_in(new[1]), ..., stand_in)
            self._made[id(stand_in)] = new[0]
        return self._made[id(stand_in)]

    def give_back(self) -> None:
        """Make the caller's arrays, lists and dicts what the body has made of them."""
        self._originals = {id(stood.node): value for stood, value in self._given.values()}
        for stood, value in self._given.values():
            if type(value) is np.ndarray and (stood.shape, stood.dtype) != (value.shape, value.dtype):
                with warnings.catch_warnings():  # that this is deprecated was said where the body did it
                    warnings.simplefilter("ignore", DeprecationWarning)
                    value.dtype, value.shape = stood.dtype, stood.shape  # type: ignore[misc]
        for original, seen in self._copies.values():
            if type(original) is list:
                parts = [self.of(part) for part in seen]
                if len(parts) != len(original) or any(
                    a is not b for a, b in zip(parts, original, strict=True)
                ):
                    original[:] = parts
            else:
                values = {key: self.of(part) for key, part in seen.items()}
                if values.keys() != original.keys() or any(
                    values[key] is not original[key] for key in values
                ):
                    original.clear()
                    original.update(values)
