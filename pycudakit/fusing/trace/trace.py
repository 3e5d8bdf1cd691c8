"""One call of a fused function: what it asks of its arrays, as NumPy has it asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime.native_call import last_call
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.schedule.scheduler import iter_tracers
from pycudakit.fusing.trace.elementwise import element_function
from pycudakit.fusing.trace.indexing import IndexingTrace
from pycudakit.fusing.trace.out_argument import split_out, with_out_as_keyword
from pycudakit.fusing.trace.where_argument import is_mask_of, masked


class Trace(IndexingTrace):
    """What a fused function asks for while it runs.

    Parameters
    ----------
    name
        The function's.
    handlers
        Of NumPy's functions, which are no ufuncs, who takes them: called with the trace first.
    strict
        Whether a look raises.
    """

    def __init__(self, name: str, handlers: Mapping[Any, Callable[..., Any]], strict: bool) -> None:
        super().__init__(name, strict)
        self._handlers = handlers

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def operate(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Write an operator down."""
        if ufunc is np.power:
            ufunc, inputs = _power_as_numpy(inputs)
        if self.fall_back_if_slow():
            return self._call_numpy(ufunc, inputs, {})
        function = element_function(ufunc)
        if function is None:
            return self.ufunc(ufunc, "__call__", inputs, {})
        return self.apply(function, inputs)

    def operate_in_place(self, ufunc: Any, target: Tracer, other: Any) -> Tracer:
        """Write an operator down that changes its left operand."""
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

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a ufunc down, or have NumPy compute it."""
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
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self.by_numpy(getattr(ufunc, method), inputs, keywords, name)

    def _plain_ufunc(
        self, function: ElementFunction | None, inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if function is None or not keywords.keys() <= {"out", "dtype", "casting", "where"}:
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
        """Write a ufunc down that leaves elements as they are."""
        if type(target) is not Tracer or not is_mask_of(where, target.shape):
            return NotImplemented
        if function.name == "power" and target.dtype.kind in "iu":  # which may be refused for an element
            return NotImplemented
        of_mask = masked(function, None if dtype is None else np.dtype(dtype), casting)
        return self.apply(of_mask, (*inputs, where, target), out=target)

    def external_tracer(self, array: Array) -> Tracer:
        """Return what stands for an array that is no argument, to be written to."""
        return Tracer(self, leaf(*self.buffers.latest(array, self.buffers.buffer_for(array))))

    def mark_escaped(self, tracer: Tracer) -> None:
        """Bring it to the host, where others see it, and may write to it."""
        self.in_caller_memory(tracer)
        buffer = tracer.node.buffer
        if buffer is not None:
            self.compute_readers(buffer)
            buffer.mark_escaped()

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a function of NumPy's down, or have NumPy compute it."""
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
        """Call who takes a function; return NotImplemented for arguments that only NumPy has it take."""
        try:
            if function is not None:
                return self.run_with_out(function, handler, arguments, keywords)
            return self.run_handler(handler, self, *arguments, **keywords)
        except errors.Unsupported:
            if self.strict and self.breaks:  # which told of itself
                raise
            return NotImplemented

    def run_with_out(
        self,
        function: Any,
        handler: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call who takes a function, and copy the result to an `out` on the device, if that can be."""
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
        """Have NumPy compute what comes after passes were given up: nothing is deferred."""
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
        """Have NumPy compute an elementwise function of what it alone takes."""
        keywords: dict[str, Any] = {} if out is None else {"out": out}
        if dtype is not None:
            keywords["dtype"] = dtype
        if casting != "same_kind":
            keywords["casting"] = casting
        return self.by_numpy(function.numpy, tuple(inputs), keywords)

    def by_numpy(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str = ""
    ) -> Any:
        """Have NumPy compute what pycudakit lacks; it may write to its arguments."""
        name = name or getattr(function, "__name__", str(function))
        self.note_graph_break(f"numpy.{name}(), which pycudakit lacks,", "do that outside of the function")
        return self.on_host(function, arguments, keywords, may_write=True)

    def on_host(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], may_write: bool = False
    ) -> Any:
        """Call a function with arrays."""
        values = self.resolved(arguments), self.resolved(keywords)
        written = iter_tracers((arguments, keywords)) if may_write else ()
        buffers = [s.node.buffer for s in written if s.node.buffer is not None]
        for buffer in buffers:
            self.before_write(buffer)
        for buffer in buffers:  # or some entries would write to the device, and others to the host
            buffer.evict()
        before = None if self.passes is None else last_call()
        result = function(*values[0], **values[1])
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._record_host_call(function, (arguments, keywords), wrapped, before)
        return wrapped

    def on_device(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        num_device_args: int = 1,
        results_stay_on_device: bool = False,
    ) -> Any:
        """Call a function that finds its first `places` arguments on the device, and leaves results there.

        Results that `results_stay_on_device` it looks at only where it says so.
        """
        out = keywords.get("out")
        if not self.buffers.scope.is_open or not (out is None or self.can_write_on_device(out)):
            return self.on_host(function, arguments, keywords, may_write="out" in keywords)
        # Copies live as long as the call: what nobody holds, the device forgets.
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
            return self.keep_results_on_device(
                function,
                values,
                keyword_values,
                (arguments, keywords),
                results_stay_on_device,
                num_device_args > 0,
            )
        except allocator.NumPyRefusedError:
            return self.on_host(function, arguments, keywords, may_write=out is not None)

    def keep_results_on_device(
        self,
        function: Any,
        values: Sequence[Any],
        keyword_values: Mapping[str, Any],
        reads: Any,
        results_stay_on_device: bool = False,
        refuse_numpy: bool = False,
    ) -> Any:
        """Call a function with arrays, some of which are on the device, and leave its results there, too."""
        held_buffers: list[Buffer] = []
        with self.keeping_results_resident(held_buffers, results_stay_on_device, refuse_numpy):
            result = function(*values, **keyword_values)
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._record_host_call(function, reads, wrapped, None)
        return wrapped

    def can_write_on_device(self, out: Any) -> bool:
        """Tell whether an entry may write to an array where it is."""
        if type(out) is not Tracer or out.is_scalar:
            return False
        flags = self.materialize(out).flags
        return bool(flags.c_contiguous and flags.writeable and out.dtype.isnative and out.size)

    def _contiguous_on_device(self, argument: Any) -> Any:
        """Return a copy of what is on the device in steps, where entries do not find it."""
        if type(argument) is not Tracer:
            return argument
        array, buffer = self.materialize(argument), argument.node.buffer
        can_write_on_device = buffer is not None and buffer.is_resident and array.dtype.isnative
        if not can_write_on_device or array.flags.c_contiguous:
            return argument
        copy = self.tracer_for(allocator.empty(array.shape, array.dtype))
        assert copy.node.buffer is not None  # noqa: S101
        copy.node.buffer.make_resident(residency.TEMPORARY)
        self.write(copy, argument.node)
        return copy

    def device_or_host_array(self, argument: Any) -> Any:
        """Return what an entry finds on the device, if that can be, and else on the host."""
        if type(argument) is not Tracer:
            return self.resolved(argument)
        array = self.materialize(argument)
        if not (array.dtype.isnative and array.flags.c_contiguous):
            return self.resolved(argument)
        self.buffers.make_resident([array])
        return array

    def _record_host_call(self, function: Any, values: Any, result: Any, before: Any) -> None:
        reads = [s.node.array for s in iter_tracers(values) if s.node.array is not None]
        writes = [s.node.array for s in iter_tracers(result) if s.node.array is not None]
        shape = max((array.shape for array in reads), key=math.prod, default=())
        self.record_kernel(
            getattr(function, "__name__", type(function).__name__), shape, reads, writes, before
        )

    def attribute(self, tracer: Tracer, name: str) -> Any:
        """Return an attribute of the array, or a method that works on the host."""
        self.note_graph_break(f".{name}")
        array = self.to_host(tracer)
        found = getattr(array[()] if tracer.is_scalar else array, name)
        if not callable(found):
            self.mark_escaped(tracer)  # it may be another way to the memory
            return self.wrap(found)

        def method(*arguments: Any, **keywords: Any) -> Any:
            return self.on_host(
                lambda own, *rest, **keyword_values: getattr(own, name)(*rest, **keyword_values),
                (tracer, *arguments),
                keywords,
                may_write=True,
            )

        return method


def _out_or_result(result: Any, keywords: Mapping[str, Any]) -> Any:
    """Return where a call was to put its result, or that."""
    out = keywords.get("out")
    if type(out) is tuple and len(out) == 1:
        (out,) = out
    elif type(out) is tuple:
        return tuple(one if place is None else place for one, place in zip(result, out, strict=True))
    return result if out is None else out


def _power_as_numpy(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the ufunc that NumPy's operator takes for a power, and its inputs."""
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
