"""Maps a fused function's arguments to tracers, and its tracers back to arrays of the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pycudakit._interop.pandas_objects import pandas_kind
from pycudakit._native.dtypes import Array
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.escape import aliased_containers
from pycudakit.fusing.memory.frame_tracer import traced_pandas
from pycudakit.fusing.memory.imported_arrays import ImportedArrays
from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.pytree import (
    Copies,
    as_plain_array,
    is_array,
    is_generator,
    is_long,
    tree_map,
    tree_map_in_place,
)
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.schedule.passes import MAX_OUTPUTS
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.traced_generator import TracedGenerator


def _number_of(array: Array, is_float: bool) -> Any:
    return array.item() if is_float else array[()]


class ArgumentMap:
    """The tracers of one call, and the caller's objects that they replace."""

    def __init__(self, trace: Trace, imported: ImportedArrays | None) -> None:
        self._trace = trace
        self._imported = imported
        self._tracers_of_arrays: dict[int, tuple[Tracer, Any]] = {}  # by the id of the caller's array
        self._nodes: list[Node] = []  # of the caller's arrays, so that their ids stay valid
        self._originals: dict[int, Any] = {}  # the caller's arrays, by the id of their final node
        self._generators: dict[int, TracedGenerator] = {}  # by the id of the caller's generator
        self._pandas: dict[int, tuple[Any, Any]] = {}  # tracers of pandas' objects, by the ids of these
        self._copies: Copies = {}  # the caller's lists and dicts, and the copies that the body sees
        self._originals_of_copies: dict[int, Any] = {}
        self._results: dict[int, Any] = {}  # results on the device, by the id of their tracer
        self._numbers: dict[int, Any] = {}  # that were returned, by the id of their tracer
        self._number_of: Callable[[Array, bool], Any] = _number_of
        self._first_tracers: dict[int, int] = {}  # ids of tracers, by the id of the array that was returned

    def to_tracers(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Replace the arrays in a function's arguments by tracers, and lists and dicts by copies.

        A list or dict that the function can also reach otherwise, as a global for example, is not copied:
        values that the body stores in it must be visible both ways.
        """
        aliased = aliased_containers(function, (*args, *kwargs.values()))
        self._copies.update({id(value): (value, value) for value in aliased})
        args = tuple(tree_map(value, self._to_tracer, self._copies) for value in args)
        kwargs = {name: tree_map(value, self._to_tracer, self._copies) for name, value in kwargs.items()}
        self._originals_of_copies = {id(copy): original for original, copy in self._copies.values()}
        return args, kwargs

    def _to_tracer(self, value: Any) -> Any:
        is_imported = self._imported is not None and self._imported.has(value)
        if self._imported is None and pandas_kind(value):
            if id(value) not in self._pandas:
                self._pandas[id(value)] = traced_pandas(self._trace, value, is_argument=True), value
            return self._pandas[id(value)][0]
        if not (is_imported or is_array(value)):
            if not is_generator(value):
                return value
            return self._generators.setdefault(id(value), TracedGenerator(value, self._trace))
        if id(value) not in self._tracers_of_arrays:
            array = (
                self._imported.array_of(value)
                if is_imported and self._imported is not None
                else as_plain_array(value)
            )
            tracer = self._trace.argument_tracers[id(array)] = self._trace.tracer_for(array)
            self._tracers_of_arrays[id(value)] = tracer, value
            if type(value) is np.memmap:
                self._trace.memmaps[id(tracer)] = value
        return self._tracers_of_arrays[id(value)][0]

    def to_caller(self, value: Any, number_of: Callable[[Array, bool], Any] | None = None) -> Any:
        """Replace the tracers in a value by arrays, and copies of lists and dicts by the originals.

        `number_of` makes the numbers, of an array each, and of whether it stands for Python's float. They are
        that, and NumPy's scalars, by default.
        """
        if number_of is None:
            return tree_map_in_place(value, self.leaf_to_caller, self._is_copy)
        self._number_of = number_of
        try:
            return tree_map_in_place(value, self.leaf_to_caller, self._is_copy)
        finally:
            self._number_of = _number_of
            self._numbers.clear()

    def _part_to_caller(self, value: Any) -> Any:
        """Return a part of a list or dict; long containers are left to the search for escaped tracers."""
        return tree_map_in_place(
            value, self.leaf_to_caller, lambda part: self._is_copy(part) or is_long(part)
        )

    @property
    def has_copies(self) -> bool:
        """Whether the body saw copies of lists or dicts, which it may have kept."""
        return any(copy is not original for original, copy in self._copies.values())

    def _is_copy(self, value: Any) -> bool:
        return id(value) in self._originals_of_copies

    def leaf_to_caller(self, value: Any) -> Any:
        """Replace a tracer by its array or generator, and a copy of a list or dict by the original."""
        if self._is_copy(value):
            return self._originals_of_copies[id(value)]
        if type(value) is Tracer:
            return self._array_to_caller(value)
        if issubclass(type(value), LazyPandas):
            return value.resolved()
        return value.generator if type(value) is TracedGenerator else value

    def iterator_to_caller(self, value: Any) -> Any:
        """Wrap a built-in iterator so that it yields arrays for tracers; return other values unchanged."""
        is_pythons = isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools")
        return map(self.to_caller, value) if is_pythons else value

    def _array_to_caller(self, tracer: Tracer) -> Any:
        if id(tracer.node) in self._originals:
            return self._originals[id(tracer.node)]
        if self._imported is not None:
            return self._result_on_device(tracer, self._imported)
        array = self._trace.to_host(tracer)
        if tracer.is_scalar:
            is_float = self._trace.weak_scalars.get(tracer.node) is not None
            return self._numbers.setdefault(id(tracer), self._number_of(array, is_float))
        first = self._first_tracers.setdefault(id(array), id(tracer))
        memmap = self._trace.memmap_of(tracer)
        if memmap is not None:
            view = array.view(np.memmap)
            view.__array_finalize__(memmap)  # which knows the file
            return view
        return array if first == id(tracer) else array.view()  # equal slices may share an array

    def compute_on_device(self, tracers: Iterable[Tracer], imported: ImportedArrays) -> None:
        """Compute deferred nodes directly into the result arrays, one kernel for each shape."""
        deferred = {
            id(s.node): s
            for s in tracers
            if s.node.array is None and s.node.reduction is None and s.node.view is None
        }
        by_shape: dict[tuple[int, ...], list[Tracer]] = {}
        for tracer in deferred.values():
            by_shape.setdefault(tracer.shape, []).append(tracer)
        for alike in by_shape.values():
            for first in range(0, len(alike), MAX_OUTPUTS):
                group = alike[first : first + MAX_OUTPUTS]
                new = [result for s in group if (result := imported.new(s.shape, s.dtype)) is not None]
                if len(new) == len(group):
                    self._trace.executor.compute_into([s.node for s in group], [array for _, array in new])
                    self._results.update({id(s): result for s, (result, _) in zip(group, new, strict=True)})

    def _result_on_device(self, tracer: Tracer, imported: ImportedArrays) -> Any:
        """Return a tracer's values as a new array of the arguments' library (CuPy, PyTorch, ...)."""
        if id(tracer) not in self._results:
            new = imported.new(tracer.shape, tracer.dtype)
            if new is None:
                array = self._trace.to_host(tracer)
                return array[()] if tracer.is_scalar else array
            self._trace.set(self._trace.tracer_for(new[1]), ..., tracer)
            self._results[id(tracer)] = new[0]
        return self._results[id(tracer)]

    def forget_tracers(self) -> None:
        """Drop the references to tracers, once the body's changes are written back."""
        self._tracers_of_arrays.clear()
        self._pandas.clear()

    def write_back(self) -> None:
        """Apply the body's changes of dtypes, shapes, lists and dicts to the caller's objects."""
        for traced, _ in self._pandas.values():
            if issubclass(type(traced), LazyPandas):
                traced.write_back()
        self._nodes = [tracer.node for tracer, _ in self._tracers_of_arrays.values()]
        self._originals = {id(tracer.node): value for tracer, value in self._tracers_of_arrays.values()}
        for tracer, value in self._tracers_of_arrays.values():
            if type(value) is np.ndarray and (tracer.shape, tracer.dtype) != (value.shape, value.dtype):
                with warnings.catch_warnings():  # the body's own assignment has warned already
                    warnings.simplefilter("ignore", DeprecationWarning)
                    value.dtype, value.shape = tracer.dtype, tracer.shape  # type: ignore[misc]
        for original, copy in self._copies.values():
            if type(original) is list:
                parts = [self._part_to_caller(part) for part in copy]
                if len(parts) != len(original) or any(
                    a is not b for a, b in zip(parts, original, strict=True)
                ):
                    self._trace.mark_not_replayable()
                    original[:] = parts
            else:
                values = {key: self._part_to_caller(part) for key, part in copy.items()}
                if values.keys() != original.keys() or any(
                    values[key] is not original[key] for key in values
                ):
                    self._trace.mark_not_replayable()
                    original.clear()
                    original.update(values)
