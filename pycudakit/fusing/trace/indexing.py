"""Indexing of tracers: views, selected elements, and writes to both."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._families.take import put_rows
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime.native_call import last_record
from pycudakit._runtime.ufunc_arguments import broadcasts_to
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import ImportedBuffer, is_c_ordered
from pycudakit.fusing.memory.nodes import Node, leaf, view_of
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.elementwise import SMALL, ElementwiseTrace, cast, conversion
from pycudakit.fusing.trace.index_parsing import (
    WITH_TRACER,
    flat_index,
    index_error_of,
    is_basic,
    is_mask,
    is_view_at,
    parse_integer_index,
    parts,
)
from pycudakit.fusing.trace.traced_values import iter_tracers

_MAX_SCALAR_READS = 16  # reads of single elements of a resident array, before all of it is downloaded


class IndexingTrace(ElementwiseTrace):
    """An `ElementwiseTrace` that records indexing and writes."""

    # A subclass defines these. `call` records a NumPy function with its arguments and keywords.
    call: Callable[..., Any]
    on_host: Callable[..., Any]
    may_call_on_host: Callable[[Any, Any], bool]  # of positional arguments, and those by name
    write_in_capture: Callable[..., bool]
    mark_escaped: Callable[[Tracer], None]

    def view(self, tracer: Tracer, make: Callable[[Array], Any]) -> Any:
        """Return a tracer of a view of an array; for a scalar, a copy."""
        if tracer.is_scalar:
            return self.wrap(make(self.to_host(tracer)[()]))
        if self.has_stopped_deferring:
            return self.wrap(make(self.to_host(tracer)))
        if tracer.node.array is None:
            deferred = self._deferred_view(tracer, make)
            if deferred is not None:
                return deferred
        array = self.materialize(tracer)
        result = make(array)
        if result is array:
            return tracer
        if type(result) is not np.ndarray:
            return self.wrap(make(self.to_host(tracer)))
        buffer = tracer.node.buffer
        assert buffer is not None  # noqa: S101
        if result.size and not buffer.overlaps(
            result
        ):  # a copy, made on the host unless a contiguous one is made on the device
            if buffer.is_resident and array.dtype.isnative and not array.flags.c_contiguous:
                return self.view(self.call(np.copy, (tracer, "C"), {}), make)
            buffer.sync_to_host()
            return self.tracer_for(make(array))
        return self._view_tracer(tracer, leaf(result, buffer))

    def _view_tracer(self, tracer: Tracer, node: Node) -> Tracer:
        """Return a tracer of a view of another tracer's array."""
        return Tracer(self, node, False, tracer.owner)

    def base_of(self, tracer: Tracer) -> Any:
        """Return the `base` of a tracer's array: a tracer, or an array outside of the trace."""
        owner = tracer.owner
        if owner.node.array is None:
            return None if owner is tracer else owner
        base = self.in_caller_memory(owner).base
        is_argument = any(owner is each for each in self.argument_tracers.values())
        if base is None or not (owner is tracer or is_argument):
            return None if owner is tracer else owner
        if id(base) not in self.argument_tracers:
            self.mark_escaped(tracer)
        return self.argument_tracers.get(id(base), base)

    def set_view_attribute(self, tracer: Tracer, attribute: str, value: Any) -> None:
        """Set `shape`, `dtype` or `strides` of a tracer: it becomes another view of its memory."""
        array = self.in_caller_memory(tracer)
        view: Any = array[()] if tracer.is_scalar else array.view()
        setattr(view, attribute, self.resolved(value))
        if view.dtype not in CODES:
            raise errors.Unsupported(f"{self.name}: a traced array cannot become {view.dtype}")
        tracer.node = leaf(view, tracer.node.buffer)

    def view_as(self, tracer: Tracer, *dtype: Any) -> Tracer:
        """Return a tracer of `array.view(*dtype)`."""
        array = self.in_caller_memory(tracer)
        return self._view_tracer(tracer, leaf(array.view(*dtype), tracer.node.buffer))

    def _deferred_view(self, tracer: Tracer, make: Callable[[Array], Any]) -> Tracer | None:
        """Return a deferred view, such as `m[:, None]`, of an array that depends on a reduction."""
        node = tracer.node
        if not self.row_tiler.depends_on_row_reductions(node):
            return None
        layout_stub = np.empty(node.shape, np.bool_)
        stub_view = make(layout_stub)
        if stub_view is layout_stub:
            return tracer
        has_same_elements = (
            type(stub_view) is np.ndarray
            and stub_view.flags.c_contiguous
            and stub_view.size == layout_stub.size
        )
        if not (
            has_same_elements
            and address_of(stub_view) == address_of(layout_stub)
            and stub_view.shape[:1] == node.shape[:1]
        ):
            return None
        if not node.is_fusion_barrier:
            self.deferred.wait_for_reductions(node)
        view = view_of(node, make, stub_view.shape)
        self.deferred.wait_for_reductions(view)
        return self.deferred.add(self._view_tracer(tracer, view))

    def get(self, tracer: Tracer, index: Any) -> Any:
        """Return a tracer of a view or of the selected elements."""
        if self.has_stopped_deferring:
            return self.resolved(tracer)[self._host_index(index)]
        if tracer.is_scalar:
            return self.wrap(self.to_host(tracer)[()][self.resolved(index)])
        basic = is_basic(index)
        if not basic:
            taken = None if self.fall_back_if_slow() else self.run_handler(self._take_by_index, tracer, index)
            if taken is not None:
                return taken
        if basic:
            if basic is not WITH_TRACER:
                if self.engine == "auto":
                    self.costs.view()
                node = tracer.node
                array = node.array
                if node.buffer is not None and node.buffer.double_buffer is not None:
                    view = node.buffer.double_buffer.view(node, index)
                    if view is not None:
                        return self._view_tracer(tracer, view)
                if array is None and (self.deferred.reductions or self.deferred.waiting_on_reductions):
                    deferred = self._deferred_view(tracer, lambda array: array[index])
                    if deferred is not None:
                        return deferred
                selected = (self.materialize(tracer) if array is None or node.buffer is None else array)[
                    index
                ]
                if type(selected) is np.ndarray:
                    return self._view_tracer(tracer, leaf(selected, tracer.node.buffer))
                buffer = tracer.node.buffer
                if buffer is not None and (buffer.is_resident or self.capture is not None):
                    is_rare = buffer.scalar_reads < _MAX_SCALAR_READS or type(buffer) is ImportedBuffer
                    if is_rare or self.capture is not None:
                        buffer.scalar_reads += 1
                        part = self._part(self.materialize(tracer), index, False)
                        return self.apply(conversion(tracer.node.dtype), (Tracer(self, leaf(part, buffer)),))
                    selected = self.to_host(tracer)[index]
                return Tracer(self, leaf(np.asarray(selected)), True)
        elif any(is_mask(part) for part in parts(index)):
            is_replayed = self.may_call_on_host((tracer, index), {})
            self.note_graph_break(
                "the number of elements that a mask keeps",
                "use numpy.where() to keep the shape",
                is_replayed=is_replayed,
            )
            tries_device = is_mask(index) and not is_replayed
            compressed = self.run_handler(self._compress_by_mask, tracer, index) if tries_device else None
            if compressed is not None:
                return compressed
        return self.on_host(operator.getitem, (tracer, index), {})

    def _take_by_index(self, tracer: Tracer, index: Any) -> Any:
        """Select elements by integer arrays, with `take`; return None for an index that is left to NumPy."""
        parsed = parse_integer_index(index, tracer.shape)
        if parsed is None or not self._is_worth_taking(tracer, parsed.arrays):
            return None
        array: Array = self.materialize(tracer)[parsed.view]
        if not (array.size and array.dtype.isnative and is_c_ordered(array)):
            return None
        if not array.flags.c_contiguous:
            if tracer.node.buffer is None or not tracer.node.buffer.is_resident:
                return None
            tracer = Tracer(self, leaf(array, tracer.node.buffer)).copy()
            array = self.materialize(tracer)
        axis, arrays = parsed.axis, [self._as_index(each) for each in parsed.arrays]
        lengths = array.shape[axis : axis + len(arrays)]
        rest = array.shape[axis + len(arrays) :]
        if len(arrays) > 1:
            array = array.reshape((*array.shape[:axis], math.prod(lengths), *rest))
        indices = flat_index(self, arrays, lengths, axis)
        taken = self.call(np.take, (Tracer(self, leaf(array, tracer.node.buffer)), indices, axis), {})
        if not axis:
            return taken
        # In NumPy's result, the indexed axes come first in memory.
        behind = tuple(range(axis, axis + indices.ndim))
        ahead = tuple(range(indices.ndim))
        moved = self.call(np.copy, (self.view(taken, lambda a: np.moveaxis(a, behind, ahead)), "C"), {})
        return self.view(moved, lambda a: np.moveaxis(a, ahead, behind))

    def _compress_by_mask(self, tracer: Tracer, mask: Any) -> Any:
        """Select elements by a mask on the device; return None if that is impossible."""
        if not self.buffers.scope.is_open or type(mask) is not Tracer or not (mask.ndim and mask.size):
            return None
        array, shape = self.materialize(tracer), mask.shape
        if shape != array.shape[: len(shape)] or not (array.flags.c_contiguous and array.dtype.isnative):
            return None
        merged = array.reshape(mask.size, *array.shape[len(shape) :])
        indices = self.call(np.flatnonzero, (mask,), {})
        return self.call(np.take, (Tracer(self, leaf(merged, tracer.node.buffer)), indices, 0), {})

    def _as_index(self, integers: Any) -> Tracer:
        """Return integers as an int64 tracer, as pycudakit takes indices."""
        if type(integers) is not Tracer:
            node, _ = self.leaf_of(integers)
            assert node is not None  # noqa: S101
            integers = Tracer(self, node)
        result: Tracer = integers if integers.dtype == np.int64 else integers.astype(np.int64)
        return result

    def _is_worth_taking(self, tracer: Tracer, indices: Sequence[Any]) -> bool:
        """Return True if `take` on the engine pays: for large or device-resident arrays, and in a replay."""
        if self.capture is not None and len(indices) == 1 and type(indices[0]) in (Tracer, np.ndarray):
            return True
        if max(each.size for each in indices) > SMALL or tracer.size > SMALL:
            return True
        nodes = [each.node for each in (tracer, *indices) if type(each) is Tracer]
        return any(node.buffer is not None and node.buffer.is_resident for node in nodes)

    def set(self, tracer: Tracer, index: Any, value: Any) -> None:
        """Write to a view or to the selected elements."""
        if self.fall_back_if_slow():
            self.resolved(tracer)[self._host_index(index)] = self.resolved(value)
            return None
        self.executor.flush_if_errstate_changed()
        basic = is_basic(index)
        # An index with tracers reads their values, which may change the buffer.
        array = self.materialize(tracer) if basic is True else self.in_caller_memory(tracer)
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if type(value) is Tracer and is_view_at(array, index, value.node.array):
            return None  # `a[i] += b` assigns the view that it has changed
        if basic:
            part = self._part(array, index, basic is True)
            node = self._value_for(part, value)
            if node is not None:
                may_be_read_later = type(value) is Tracer
                return self.write(Tracer(self, leaf(part, tracer.node.buffer)), node, may_be_read_later)
        elif (
            is_mask(index)
            and index.ndim
            and index.shape == array.shape[: index.ndim]
            and np.ndim(value) <= array.ndim - index.ndim
        ):
            row = array if np.ndim(value) == 0 else array[(0,) * index.ndim] if array.size else None
            node = None if row is None else self._value_for(row, value)
            if node is not None:
                chosen = Tracer(self, node if node.dtype == array.dtype else cast(node, array.dtype))
                missing = array.ndim - index.ndim
                ahead = (..., *[None] * missing)
                mask = index[ahead] if missing else index
                return self.write(tracer, self._chosen(mask, chosen, tracer).node)
        if not basic and self._put_on_device(tracer, index, value):
            return None
        self.write_by_numpy(operator.setitem, tracer, (index, value))
        return None

    def is_writable_on_device(self, tracer: Tracer) -> bool:
        """Return True if a tracer's array is device-resident, contiguous and writeable.

        If the call is being captured and a host call may write to the array, return False.
        """
        if self.may_call_on_host(tracer, {}):
            return False
        array, buffer = self.materialize(tracer), tracer.node.buffer
        if buffer is None or not buffer.is_resident or not self.buffers.scope.is_open:
            return False
        flags = array.flags
        return bool(flags.c_contiguous and flags.writeable and array.dtype.isnative and array.size)

    def _put_on_device(self, tracer: Tracer, index: Any, value: Any) -> bool:
        """Write to rows selected by integers or by a mask, on the device; return True if it did."""
        if not self.is_writable_on_device(tracer):
            return False
        array, buffer = self.materialize(tracer), tracer.node.buffer
        assert buffer is not None  # noqa: S101
        shape = np.shape(value)
        if type(index) is Tracer and is_mask(index) and index.ndim:
            ahead = index.ndim
            if index.shape != array.shape[:ahead] or shape[1:] != array.shape[ahead:] or not shape:
                return False
            row_indices = self.call(np.flatnonzero, (index,), {})
            array = array.reshape(index.size, *array.shape[ahead:])
            if shape[0] != row_indices.size or not row_indices.size:
                return False
        else:
            parsed = parse_integer_index(index, array.shape) if len(parts(index)) == 1 else None
            if parsed is None or len(parsed.arrays) != 1 or parsed.axis:
                return False
            row_indices = self._as_index(parsed.arrays[0])
        rest = array.shape[1:]
        values_shape = rest if len(shape) <= len(rest) else (*row_indices.shape, *rest)
        is_repeated_often = math.prod(values_shape) > max(math.prod(shape), array.size)
        if is_repeated_often or not broadcasts_to(shape, values_shape):
            return False
        values = np.empty(values_shape, array.dtype)
        node = self._value_for(values, value)
        if node is None:
            return False
        self.before_write(buffer)  # the written value may read the buffer
        values_on_device = self._write_on_device(values, node)
        indices = self.materialize(row_indices)
        if not indices.flags.c_contiguous or buffer.overlaps(indices):
            indices = np.empty(row_indices.shape, np.int64)
            row_indices = self._write_on_device(indices, row_indices.node)
        self.buffers.make_resident([array, indices, values])
        try:
            put_rows(array, indices, values, 1 if values_shape == rest else indices.size)
        except IndexError:
            raise index_error_of(self.to_host(row_indices), len(array), 0) from None
        self.executor.record_kernel("put", array.shape, [indices, values], [array])
        del values_on_device, row_indices
        return True

    def _write_on_device(self, array: Array, node: Node) -> Tracer:
        """Write a value to a new device-resident array; return its tracer."""
        buffer = self.buffers.buffer_for(array)
        buffer.make_resident(residency.TEMPORARY)
        tracer = Tracer(self, leaf(array, buffer))
        self.write(tracer, node)
        return tracer

    def _part(self, array: Array, index: Any, is_plain: bool) -> Array:
        """Return the view at a basic index; for one element, a 0-d view."""
        part = array[index] if is_plain else None
        if type(part) is np.ndarray:
            return part
        plain_index = tuple([self._plain_index(each) for each in parts(index)])
        view: Array = array[plain_index if ... in plain_index else (*plain_index, ...)]
        return view

    def _host_index(self, index: Any) -> Any:
        """Return an index with arrays in place of tracers; fast for an index of integers."""
        for part in index if type(index) is tuple else (index,):
            if type(part) is not int:
                return self.resolved(index)
        return index

    def _plain_index(self, part: Any) -> Any:
        """Return a part of a basic index with Python integers in place of tracers."""
        part = self.resolved(part)
        return int(part) if isinstance(part, (np.ndarray, np.generic)) else part  # only integers are left

    def _chosen(self, mask: Any, yes: Tracer, no: Tracer) -> Tracer:
        chosen: Tracer = self.apply(non_ufuncs.WHERE, (mask, yes, no))
        return chosen

    def _value_for(self, target: Array, value: Any) -> Node | None:
        """Return the node of a value to write to `target`; None for a value that is left to NumPy."""
        (value,) = self.resolve_foreign_tracers((value,))
        if type(value) is Tracer:
            node = value.node
        elif type(value) in (int, float, bool):
            number = _number_as(value, target)
            if (capture := self.capture) is not None:
                capture.add_constant(number)
            node = leaf(number)
        else:
            leaf_node, _ = self.leaf_of(value)
            if leaf_node is None:
                return None
            node = leaf_node
        shape = node.shape
        if shape == target.shape:
            return node
        while len(shape) > target.ndim and shape[0] == 1:
            shape = shape[1:]
        if not broadcasts_to(shape, target.shape):
            raise ValueError(
                f"could not broadcast input array from shape {_shown(node.shape)} "
                f"into shape {_shown(target.shape)}"
            )
        if shape != node.shape:
            self.executor.compute_node(node)
            assert node.array is not None  # noqa: S101
            node = leaf(node.array.reshape(shape), node.buffer)
        return node

    def write_by_numpy(
        self, function: Any, tracer: Tracer, rest: tuple[Any, ...], keywords: dict[str, Any] | None = None
    ) -> None:
        """Call a function that writes to a tracer's array on the host."""
        if self.capture is not None and self.write_in_capture(function, tracer, rest, keywords or {}):
            return
        array = self.in_caller_memory(tracer)
        buffer = tracer.node.buffer
        assert buffer is not None  # noqa: S101
        arguments, keyword_values = self.resolved(rest), self.resolved(keywords or {})
        self.before_write(buffer)
        buffer.sync_to_host()
        before, began = last_record(), time.perf_counter()
        try:
            function(array, *arguments, **keyword_values)
            self.executor.add_numpy_seconds(began, before)
        finally:  # the function may write before it raises
            buffer.mark_host_dirty()
        reads = [s.node.array for s in iter_tracers((rest, keywords)) if s.node.array is not None]
        self.executor.record_kernel(getattr(function, "__name__", "put"), array.shape, reads, [array], before)


def _number_as(value: float, target: Array) -> Array:
    result = np.empty((), target.dtype)
    result[...] = value  # raises as NumPy does if the dtype cannot hold the value
    return result


def _shown(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")
