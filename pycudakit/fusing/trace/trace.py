"""`Trace`: one traced call of a fused function.

Tracers pass all operators, ufuncs (NEP 13) and NumPy functions (NEP 18) to their trace, which records them,
calls a handler, or runs NumPy on the host (a graph break).
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime import context
from pycudakit._runtime.native_call import last_record
from pycudakit.fusing.execute.capture import Capture, NotReplayableError, key_of_constant
from pycudakit.fusing.execute.host_call import ArrayOperand, HostCall, draw, results_of
from pycudakit.fusing.graph_breaks import LACKING, public_name
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.pytree import is_generator, map_arguments
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.elementwise import cast, element_function, quiet_function
from pycudakit.fusing.trace.indexing import IndexingTrace
from pycudakit.fusing.trace.out_argument import split_out, with_out_as_keyword
from pycudakit.fusing.trace.traced_values import iter_tracers
from pycudakit.fusing.trace.weak_scalars import PYTHON_OPERATORS
from pycudakit.fusing.trace.where_argument import is_mask_of, masked


class Trace(IndexingTrace):
    """The trace of one call.

    Parameters
    ----------
    name
        The function's name.
    handlers
        Mapping from a NumPy function, or a ufunc and its method, to its implementation, called as
        ``handler(trace, *args, **kwargs)``.
    strict
        Whether a graph break raises.
    """

    def __init__(self, name: str, handlers: Mapping[Any, Callable[..., Any]], strict: bool) -> None:
        super().__init__(name, strict)
        self._handlers = handlers
        self.traced_functions: dict[Any, Any] = {}  # functions that the body calls, with replaced names

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def operate(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Record an operator, or compute it if its operands are numbers."""
        if ufunc in _OPERATORS_OF_INTEGERS and all(map(_is_integer_number, inputs)):
            # NumPy's operators of numbers warn of overflow, which its ufuncs and programs don't.
            return self.wrap(_OPERATORS_OF_INTEGERS[ufunc](*self.resolved(inputs)))
        if self.weak_scalars and (numbers := self.weak_scalars.numbers(inputs)) is not None:
            return self._operate_on_floats(ufunc, inputs, numbers)
        if ufunc is np.power:
            ufunc, inputs = _power_as_numpy(inputs)
        if self.fall_back_if_slow():
            return self._call_numpy(ufunc, inputs, {})
        function = element_function(ufunc)
        if function is None:
            return self.ufunc(ufunc, "__call__", inputs, {})
        return self.apply(function, inputs)

    def _operate_on_floats(self, ufunc: Any, inputs: tuple[Any, ...], numbers: list[Any]) -> Any:
        """Record an operator of Python's floats; a comparison is a branch."""
        name, function = ufunc.__name__, element_function(ufunc)
        is_as_by_numpy = self.weak_scalars.are_computed_as_by_numpy(name, numbers)
        if function is None or self.capture is None or self.has_stopped_deferring or not is_as_by_numpy:
            self.mark_not_replayable()
            return PYTHON_OPERATORS[name](*numbers)
        result = self.apply(function, [int(each) if type(each) is bool else each for each in inputs])
        is_comparison = type(result) is Tracer and result.node.dtype.kind == "b"
        return self.truth_value(result) if is_comparison else result

    def deferred_float(self, number: Tracer, frame: FrameType) -> float | Tracer | None:
        """Return the result of ``float(number)`` in a captured call: a tracer, or a value that is not finite.

        None means that the code does more with it than arithmetic, so that the value is needed.
        """
        if self.weak_scalars.get(number.node) is not None:
            return number
        is_number = number.is_scalar and number.node.dtype.kind in "fiub"
        may_defer = self.capture is not None and not self.has_stopped_deferring and self.defers_float(frame)
        if not (is_number and may_defer):
            return None
        value = float(self.looked_at(number))
        if not math.isfinite(value):  # NumPy warns where Python does not
            self.mark_not_replayable()
            return value
        node = cast(number.node, np.dtype(np.float64))
        self.weak_scalars.add(node, value)
        return self.deferred.add(Tracer(self, node, is_scalar=True))

    def operate_in_place(self, ufunc: Any, target: Tracer, other: Any) -> Tracer:
        """Record an in-place operator."""
        if ufunc is np.power:
            ufunc, inputs = _power_as_numpy((target, other))
        else:
            inputs = (target, other)
        if self.fall_back_if_slow():
            return self._call_numpy(ufunc, inputs, {"out": (target,)})  # type: ignore[no-any-return]
        function = element_function(ufunc)
        if function is None:
            result: Tracer = self.ufunc(ufunc, "__call__", inputs, {"out": (target,)})
            return result
        changed: Tracer = self.apply(function, inputs, out=target)
        return changed

    def operate_quietly(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Record an operator that reports no floating-point errors, as pandas' do; or NotImplemented."""
        if ufunc is np.power:
            ufunc, inputs = _power_as_numpy(inputs)
        function = quiet_function(ufunc)
        return NotImplemented if function is None else self.apply(function, inputs)

    def records(self, ufunc: Any) -> bool:
        """Return True if an element program can compute a ufunc."""
        return element_function(ufunc) is not None

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Record a ufunc, call its handler, or compute it in NumPy."""
        inputs, keywords = self.resolve_foreign_tracers(inputs), self.resolve_foreign_tracers(keywords)
        if self.fall_back_if_slow():
            return self._call_numpy(getattr(ufunc, method), inputs, keywords)
        function = element_function(ufunc)
        if function is not None and method == "__call__" and not keywords:
            return self.apply(function, inputs)
        if any(type(out) is Tracer and out.is_scalar for out in keywords.get("out") or ()):
            raise TypeError("return arrays must be of ArrayType")
        if method == "__call__":
            result = self._plain_ufunc(function, inputs, keywords)
            if result is not NotImplemented:
                return result
        handler = self._handlers.get(ufunc if method == "__call__" else (ufunc, method))
        if handler is not None:
            result = self._try_handler(ufunc if method == "__call__" else None, handler, inputs, keywords)
            if result is not NotImplemented:
                return result
        if method == "__call__":
            return self.by_numpy(ufunc, inputs, keywords)
        return self.by_numpy(getattr(ufunc, method), inputs, keywords, f"{public_name(ufunc)}.{method}")

    def _plain_ufunc(
        self, function: ElementFunction | None, inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if function is None or not keywords.keys() <= {"out", "dtype", "casting", "where"}:
            return NotImplemented
        if keywords.get("dtype") is not None and np.dtype(keywords["dtype"]) not in CODES:
            return NotImplemented
        (out,) = keywords.get("out") or (None,)
        if keywords.get("where", True) is not True:
            return self._masked_ufunc(function, inputs, out, **keywords)
        if out is not None and type(out) is not Tracer:
            if type(out) is not np.ndarray or out.dtype not in CODES:
                return NotImplemented
            result = self.apply(
                function,
                inputs,
                out=self.external_tracer(out),
                **{k: v for k, v in keywords.items() if k != "out"},
            )
            self.mark_escaped(result)
            return out
        dtype = keywords.get("dtype")
        return self.apply(
            function,
            inputs,
            out=out,
            dtype=None if dtype is None else np.dtype(dtype),
            casting=keywords.get("casting", "same_kind"),
        )

    def _masked_ufunc(
        self,
        function: ElementFunction,
        inputs: tuple[Any, ...],
        target: Any,
        *,
        where: Any,
        out: Any = None,  # noqa: ARG002
        dtype: Any = None,
        casting: str = "same_kind",
    ) -> Any:
        """Record a ufunc with a mask."""
        if type(target) is not Tracer or not is_mask_of(where, target.shape):
            return NotImplemented
        if function.name == "power" and target.dtype.kind in "iu":  # NumPy's raises for negative exponents
            return NotImplemented
        masked_function = masked(function, None if dtype is None else np.dtype(dtype), casting)
        return self.apply(masked_function, (*inputs, where, target), out=target)

    def external_tracer(self, array: Array) -> Tracer:
        """Return a tracer of an array that is not an argument, to write to it."""
        self.mark_not_replayable()
        return Tracer(self, leaf(*self.buffers.latest(array, self.buffers.buffer_for(array))))

    def mark_escaped(self, tracer: Tracer) -> None:
        """Mark a tracer's buffer as escaped: code outside of the trace may read and write it."""
        self.mark_not_replayable()
        self.in_caller_memory(tracer)
        buffer = tracer.node.buffer
        if buffer is not None:
            self.compute_readers(buffer)
            buffer.mark_escaped()

    def escaped_array(self, tracer: Tracer) -> Any:
        """Return the array or number of a tracer, for code that may write to the array and keep it."""
        if not (tracer.is_scalar or self.has_stopped_deferring):
            self.mark_escaped(tracer)
            buffer = tracer.node.buffer
            assert buffer is not None  # noqa: S101
            self.before_write(buffer)
        return self.resolved(tracer)

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the handler of a NumPy function, or compute it in NumPy."""
        arguments, keywords = self.resolve_foreign_tracers(arguments), self.resolve_foreign_tracers(keywords)
        if self.fall_back_if_slow():
            return self._call_numpy(function, arguments, keywords)
        handler = self._handlers.get(function)
        if handler is not None:
            result = self._try_handler(function, handler, arguments, keywords)
            if result is not NotImplemented:
                return result
        return self.by_numpy(function, arguments, keywords)

    def _try_handler(
        self,
        function: Any,
        handler: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call a handler; return NotImplemented for arguments that it does not support."""
        try:
            with context.without_fallback():  # or the call would not be noted as a graph break
                if function is not None:
                    return self.run_with_out(function, handler, arguments, keywords)
                return self.run_handler(handler, self, *arguments, **keywords)
        except errors.Unsupported:
            if self.strict and self.breaks:  # the error of a graph break
                raise
            return NotImplemented

    def run_with_out(
        self,
        function: Any,
        handler: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call a handler; where arrays may be on the device, compute without `out` and copy, if possible."""
        if len(arguments) == 1 and not keywords:
            return self.run_handler(handler, self, *arguments)
        arguments, keywords = with_out_as_keyword(function, arguments, keywords)
        without_out = split_out(function, arguments, keywords) if self.buffers.scope.is_open else None
        if without_out is not None:
            result = self.run_handler(handler, self, *without_out.arguments, **without_out.keywords)
            result = NotImplemented if result is NotImplemented else self.wrap(result)
            if without_out.accepts_result(result):
                self.set(without_out.out, ..., result)
                return without_out.out
        result = self.run_handler(handler, self, *arguments, **keywords)
        return result if result is NotImplemented else _out_or_result(result, keywords)

    def _call_numpy(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call NumPy after the trace has fallen back: nothing is deferred."""
        result = self.wrap(function(*self.resolved(arguments), **self.resolved(keywords)))
        return _out_or_result(result, keywords)

    def apply_by_numpy(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: Tracer | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Compute an elementwise function in NumPy, for operands that pycudakit does not support."""
        keywords: dict[str, Any] = {} if out is None else {"out": out}
        if dtype is not None:
            keywords["dtype"] = dtype
        if casting != "same_kind":
            keywords["casting"] = casting
        return self.by_numpy(function.numpy, tuple(inputs), keywords)

    def by_numpy(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str = ""
    ) -> Any:
        """Call NumPy for a function that pycudakit lacks (a graph break); it may write to its arguments."""
        name = name or public_name(function)
        is_elementwise = isinstance(function, np.ufunc) and function.signature is None
        instead = "call it outside of the function" + ", or write its formula in NumPy" * is_elementwise
        if (capture := self.capture) is not None:
            call = self._host_call_for(capture, function, arguments, keywords)
            if call is not None:
                self.note_graph_break(f"{name}(){LACKING}", instead, is_replayed=True)
                return self._make_host_call(capture, call)
        self.note_graph_break(f"{name}(){LACKING}", instead)
        return self.on_host(function, arguments, keywords, may_write=True)

    def on_host(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], may_write: bool = False
    ) -> Any:
        """Call a function with host arrays in place of tracers."""
        if (captured := self._try_host_call(function, arguments, keywords)) is not NotImplemented:
            return captured
        self.mark_not_replayable()
        values = self.resolved(arguments), self.resolved(keywords)
        written = iter_tracers((arguments, keywords)) if may_write else ()
        buffers = [s.node.buffer for s in written if s.node.buffer is not None]
        for buffer in buffers:
            self.before_write(buffer)
        for buffer in buffers:  # so that all writes go to the host
            buffer.evict()
        before, began = last_record(), time.perf_counter()
        result = function(*values[0], **values[1])
        self.executor.add_numpy_seconds(began, before)
        wrapped = self.wrap(result)
        if not self.has_stopped_deferring:
            self._mark_escaped_with(wrapped, (arguments, keywords))
        if self.executor.passes is not None:
            self._record_pass(function, (arguments, keywords), wrapped, before)
        return wrapped

    def _host_call_for(
        self,
        capture: Capture,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        writes: bool = False,
    ) -> HostCall | None:
        """Return the host call that a replay makes for a call; None if it cannot be replayed."""
        is_known = _writes(function) if writes else _is_pure(function, keywords)
        if not is_known or not self.may_call_on_host(arguments, keywords) or self.has_stopped_deferring:
            return None
        try:
            operand = functools.partial(self._operand, capture)
            operands = map_arguments(arguments, operand), map_arguments(keywords, operand)
            call = HostCall(function, *operands, writes)
        except NotReplayableError:
            return None
        return call if capture.is_valid else None  # computing an operand may end the capture

    def may_call_on_host(self, arguments: Any, keywords: Any) -> bool:
        """Return True if a call with these arguments may be a host call of a replay.

        With a GPU, their base arrays are downloaded, and must be small.
        """
        if self.capture is None or not self.capture.takes_host_calls:
            return False
        if not self.buffers.scope.is_open:
            return True
        sizes = {}
        for node in [tracer.node for tracer in iter_tracers((arguments, keywords))]:
            buffer = node.buffer
            sizes[id(buffer or node)] = node.nbytes if buffer is None else buffer.end - buffer.begin
        return sum(sizes.values()) <= _MAX_HOST_CALL_BYTES

    def _operand(self, capture: Capture, value: Any) -> Any:
        """Return the operand of a host call for a tracer or an array; return constants as they are."""
        kind = type(value)
        if kind is Tracer:
            if value.owning_trace is not self:
                raise NotReplayableError
            array = self.materialize(value)
            buffer = value.node.buffer
            if buffer is not None and buffer.double_buffer is not None:
                raise NotReplayableError
            if buffer is not None:
                buffer.sync_to_host()  # where the host call reads it
            is_weak = value.is_scalar and self.weak_scalars.get(value.node) is not None
            return capture.operand_of(array, is_scalar=value.is_scalar, is_weak=is_weak)
        if kind is np.ndarray:
            node, is_large = self.leaf_of(value)
            if node is None or node.array is None or is_large:
                raise NotReplayableError
            if node.buffer is not None:
                node.buffer.sync_to_host()
            return capture.operand_of(node.array, is_scalar=False, is_weak=False)
        if is_generator(value):
            return capture.operand_of_generator(value)
        if value is not Ellipsis and key_of_constant(value) is None:
            raise NotReplayableError
        return value

    def write_in_capture(
        self, function: Any, tracer: Tracer, rest: tuple[Any, ...], keywords: dict[str, Any]
    ) -> bool:
        """Write to a tracer's array by a host call of a replay; return False if that is impossible."""
        capture, buffer = self.capture, tracer.node.buffer
        if capture is None or buffer is None:
            return False
        call = self._host_call_for(capture, function, (tracer, *rest), keywords, writes=True)
        if call is None or type(call.arguments[0]) is not ArrayOperand:
            return False
        self.compute_readers(buffer)
        if not capture.is_valid:
            return False
        self.buffers.mark_written(buffer)
        before, began = last_record(), time.perf_counter()
        try:
            capture.call_on_host(call)
        finally:  # it may write before it raises
            buffer.mark_host_dirty()
        self.executor.add_numpy_seconds(began, before)
        capture.add_host_call(call, [])
        return True

    def _try_host_call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Compute a call as a host call of a replay; return NotImplemented if it cannot be one."""
        if (capture := self.capture) is None:
            return NotImplemented
        call = self._host_call_for(capture, function, arguments, keywords)
        return NotImplemented if call is None else self._make_host_call(capture, call)

    def _make_host_call(self, capture: Capture, call: HostCall) -> Any:
        """Make a host call while it is captured; return its results as tracers."""
        before, began = last_record(), time.perf_counter()
        result = capture.call_on_host(call)
        self.executor.add_numpy_seconds(began, before)
        wrapped, results = self.wrap(result), results_of(result)
        arrays = [tracer.node.array for tracer in iter_tracers(wrapped)]
        if results is None or len(results) != len(arrays) or any(array is None for array in arrays):
            capture.mark_not_replayable()
        else:
            capture.add_host_call(call, [array for array in arrays if array is not None])
        return wrapped

    def _mark_escaped_with(self, result: Any, given: Any) -> None:
        """Mark the buffers of given tracers as escaped if a result other than a tracer may be a view."""
        kind: Any = type(result)
        if kind is Tracer or kind in _WITHOUT_MEMORY:
            return
        if kind in (tuple, list):
            for part in result:
                self._mark_escaped_with(part, given)
            return
        for tracer in iter_tracers(given):
            buffer = tracer.node.buffer
            if buffer is None or buffer.has_escaped:
                continue
            if not isinstance(result, np.ndarray) or result.dtype.hasobject or buffer.overlaps(result):
                self.mark_escaped(tracer)

    def on_device(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        num_device_args: int = 1,
        results_stay_on_device: bool = False,
    ) -> Any:
        """Call a function whose first `num_device_args` arguments and whose results may be device-resident.

        With `results_stay_on_device`, results are not downloaded unless the function reads them explicitly.
        During a capture, the call may become a host call of the plan.
        """
        out = keywords.get("out")
        if not self.buffers.scope.is_open or not (out is None or self.can_write_on_device(out)):
            return self.on_host(function, arguments, keywords, may_write="out" in keywords)
        if (captured := self._try_host_call(function, arguments, keywords)) is not NotImplemented:
            return captured
        self.mark_not_replayable()
        # Keeps the copies alive during the call: the device drops buffers without a reference.
        device_arguments = [self._contiguous_on_device(each) for each in arguments[:num_device_args]]
        values = [
            *map(self.device_or_host_array, device_arguments),
            *self.resolved(arguments[num_device_args:]),
        ]
        keyword_values = self.resolved({key: value for key, value in keywords.items() if key != "out"})
        if out is not None:
            self.before_write(out.node.buffer)
            self.buffers.make_resident([out.node.array])
            keyword_values["out"] = out.node.array
        try:
            return self.call_on_device(
                function,
                values,
                keyword_values,
                (arguments, keywords),
                results_stay_on_device,
                num_device_args > 0,
            )
        except allocator.NumPyRefusedError:
            return self.on_host(function, arguments, keywords, may_write=out is not None)

    def call_on_device(
        self,
        function: Any,
        values: Sequence[Any],
        keyword_values: Mapping[str, Any],
        reads: Any,
        results_stay_on_device: bool = False,
        refuse_numpy: bool = False,
    ) -> Any:
        """Call a function with device-resident arrays, and keep its results on the device.

        With `refuse_numpy`, it raises where it would be computed by NumPy.
        """
        held_buffers: list[Buffer] = []
        with self.executor.keeping_results_resident(held_buffers, results_stay_on_device, refuse_numpy):
            result = function(*values, **keyword_values)
        wrapped = self.wrap(result)
        if self.executor.passes is not None:
            self._record_pass(function, reads, wrapped, None)
        return wrapped

    def can_write_on_device(self, out: Any) -> bool:
        """Return True if a library entry may write to a tracer's array directly."""
        if type(out) is not Tracer or out.is_scalar:
            return False
        flags = self.materialize(out).flags
        return bool(flags.c_contiguous and flags.writeable and out.dtype.isnative and out.size)

    def _contiguous_on_device(self, argument: Any) -> Any:
        """Return a contiguous copy of a strided device-resident array; library entries need one."""
        if type(argument) is not Tracer:
            return argument
        array, buffer = self.materialize(argument), argument.node.buffer
        is_on_device = buffer is not None and buffer.is_resident and array.dtype.isnative
        if not is_on_device or array.flags.c_contiguous:
            return argument
        copy = self.tracer_for(allocator.empty(array.shape, array.dtype))
        assert copy.node.buffer is not None  # noqa: S101
        copy.node.buffer.make_resident(residency.TEMPORARY)
        self.write(copy, argument.node)
        return copy

    def device_or_host_array(self, argument: Any) -> Any:
        """Return an argument as a device-resident array if possible, else as a host array."""
        if type(argument) is not Tracer:
            return self.resolved(argument)
        array = self.materialize(argument)
        if not (array.dtype.isnative and array.flags.c_contiguous):
            return self.resolved(argument)
        self.buffers.make_resident([array])
        return array

    def _record_pass(self, function: Any, values: Any, result: Any, before: Any) -> None:
        reads = [s.node.array for s in iter_tracers(values) if s.node.array is not None]
        writes = [s.node.array for s in iter_tracers(result) if s.node.array is not None]
        shape = max((array.shape for array in reads), key=math.prod, default=())
        self.executor.record_kernel(
            getattr(function, "__name__", type(function).__name__), shape, reads, writes, before
        )

    def attribute(self, tracer: Tracer, name: str) -> Any:
        """Return an attribute of the array, or a method that runs on the host."""
        self.note_graph_break(f".{name}")
        array = self.to_host(tracer)
        value = getattr(array[()] if tracer.is_scalar else array, name)
        if not callable(value):
            self.mark_escaped(tracer)  # it may give access to the memory
            return self.wrap(value) if self.analysis is None else self.returned(self.wrap(value))

        def method(*arguments: Any, **keywords: Any) -> Any:
            result = self.on_host(
                lambda own, *rest, **keyword_values: getattr(own, name)(*rest, **keyword_values),
                (tracer, *arguments),
                keywords,
                may_write=True,
            )
            return result if self.analysis is None else self.returned(result)

        return method


_OPERATORS_OF_INTEGERS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.negative: operator.neg,
    np.absolute: operator.abs,
}


def _is_integer_number(value: Any) -> bool:
    if type(value) is Tracer:
        return value.is_scalar and value.node.dtype.kind in "iu"
    return isinstance(value, (int, np.integer))


_MAX_HOST_CALL_BYTES = 4 << 20  # that a host call downloads from a GPU
_WITHOUT_MEMORY = frozenset({type(None), bool, int, float, complex, str, bytes})


def _out_or_result(result: Any, keywords: Mapping[str, Any]) -> Any:
    """Return the `out` of a call if it has one, else its result."""
    out = keywords.get("out")
    if type(out) is tuple and len(out) == 1:
        (out,) = out
    elif type(out) is tuple:
        return tuple(one if target is None else target for one, target in zip(result, out, strict=True))
    return result if out is None else out


def _power_as_numpy(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the ufunc that NumPy uses for the operator `**`, such as `square`, and its inputs."""
    base, exponent = inputs
    if type(exponent) in (int, float) and (type(base) is Tracer or isinstance(base, np.ndarray)):
        is_number = type(base) is Tracer and base.is_scalar
        if exponent == 2 and (base.dtype.kind == "f" or (type(exponent) is int and not is_number)):
            return np.square, (base,)
        if base.dtype.kind == "f":
            fast = {1.0: np.positive, -1.0: np.reciprocal, 0.5: np.sqrt}.get(exponent)
            if fast is not None:
                return fast, (base,)
    return np.power, inputs


# Functions that compute new arrays of their arguments, and write to no array; `draw` advances a generator.
_LINALG = (
    "cholesky cond det eigh eigvalsh inv lstsq matrix_power matrix_rank multi_dot pinv qr slogdet solve svd"
)
_PURE = frozenset({draw, operator.getitem, *(getattr(np.linalg, name) for name in _LINALG.split())})
_FAMILIES = f"{__name__.partition('.')[0]}._families."


_WRITING = frozenset({operator.setitem, np.put, np.put_along_axis, np.putmask, np.fill_diagonal})


def _writes(function: Any) -> bool:
    """Return True if a function writes to its first argument, and only reads the others."""
    owner = getattr(function, "__self__", None)
    return function in _WRITING or (isinstance(owner, np.ufunc) and function.__name__ == "at")


def _is_pure(function: Any, keywords: dict[str, Any]) -> bool:
    """Return True if a function writes to no array."""
    module = getattr(function, "__module__", None) or ""
    is_known = module.startswith(_FAMILIES) or function in _PURE
    return is_known and keywords.get("out") is None
