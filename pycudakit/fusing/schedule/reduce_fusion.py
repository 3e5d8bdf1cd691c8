"""Reductions, fused with the kernel that produces their operand and with other reductions of it."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pycudakit._families.reduce.multi_output import reduce_multi_output
from pycudakit._families.reduce.reduce_kernel import as_keepdims, axes_of, reduced_shape
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, ReduceOp
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.schedule.fused_kernel import FusedKernel
from pycudakit.fusing.schedule.scheduler import Scheduler

_MAY_WARN = frozenset({"sum", "prod", "mean", "std", "var"})
TINY = 1024  # elements: smaller arrays are reduced immediately


@functools.lru_cache(1024)
def _result_type(name: str, dtype: DType) -> DType:
    return np.asarray(getattr(np, name)(np.zeros(1, dtype))).dtype


class ReduceScheduler(Scheduler):
    """A `Scheduler` that defers reductions and computes those of one operand in a single pass."""

    def reduce(
        self,
        name: str,
        function: Callable[..., Any],
        a: Tracer,
        axis: Any = None,
        keepdims: Any = False,
        ddof: Any = 0,
    ) -> Any:
        """Record a reduction; compute it immediately if it is small or needs NumPy."""
        self.flush_if_errstate_changed()
        keepdims = as_keepdims(keepdims, name)
        keywords = {"axis": axis, "keepdims": keepdims} if keepdims else {"axis": axis}
        if name.endswith(("std", "var")):
            keywords["ddof"] = ddof
        compute = functools.partial(_call, function, keywords)
        axes = axes_of(name, axis, a.ndim) if a.shape else ()
        length = math.prod(a.shape[d] for d in axes)
        buffer = a.node.buffer  # None for a deferred operand: it will be computed on the device of its inputs
        is_on_device = bool(self.buffers.stream) if buffer is None else buffer.is_resident
        is_simple = (
            (a.size > TINY or is_on_device or self.capture is not None)
            and (a.shape or axis is None)  # NumPy accepts axis 0 of a scalar
            and type(ddof) in (int, float)
            and ddof < length
            and not self.errstate.must_report_at_once
        )
        if not is_simple or (name.startswith("arg") and isinstance(axis, tuple)):
            array = self.to_host(a)
            result = compute(array)
            self.record_kernel(name, array.shape, [array], [])
            return self.wrap(result)
        shape = reduced_shape(a.shape, axes, keepdims)
        node = Node(None, (), DEFAULT_OPTIONS, _result_type(name, a.dtype), shape)
        node.reduction = ReduceOp(name, a.node, axes, compute)
        self.mark_unread(node, [a.node], name in _MAY_WARN and node.dtype.kind == "f")
        node.order = "C" if a.node.order == "C" else None
        self.reductions.append(weakref.ref(node))
        return self.defer(Tracer(self, node, shape == ()))

    def run_reductions(self, nodes: Sequence[Node], producer: FusedKernel | None) -> None:
        """Compute reductions of one operand along the same axes, and its kernel if any, in one pass."""
        reductions = [node.reduction for node in nodes if node.reduction is not None]
        source = reductions[0].operand
        operand = self._reduce_operand(source, producer)
        functions = [each.compute for each in reductions]
        held_buffers: list[Buffer] = []
        capture = self.capture
        if capture is not None:
            capture.add_memory([operand] if isinstance(operand, np.ndarray) else _arrays_of(operand))
        first = 0 if capture is None else capture.begin_reductions([each.name for each in reductions])
        with self.keeping_results_resident(held_buffers, results_stay_on_device=True):
            results = reduce_multi_output(functions, operand)
        arrays = [np.asarray(result) for result in results]
        if capture is not None:
            arrays = capture.reduced_arrays(first, arrays)
        self.mark_read(nodes)
        for node, array in zip(nodes, arrays, strict=True):
            node.set_result(array, self.buffer_of_result(array))
        self.reductions = [ref for ref in self.reductions if is_pending(ref())]
        if self.passes is not None:
            self._record_reductions(
                source, operand, reductions, [node.array for node in nodes if node.array is not None]
            )

    def _reduce_operand(self, node: Node, producer: FusedKernel | None) -> Array | FusedProducer:
        """Return the operand of reductions: an array, or a program for the reduction kernel to evaluate."""
        if producer is not None:
            self.mark_read(producer.nodes)
            self.buffers.make_resident(producer.arrays)
            return FusedProducer(producer.function, producer.inputs, node.dtype)
        assert node.array is not None  # noqa: S101
        self.buffers.make_resident([node.array])
        return node.array

    def _record_reductions(
        self, source: Node, operand: Any, reductions: Iterable[ReduceOp], results: Iterable[Any]
    ) -> None:
        names = ", ".join(reduction.name for reduction in reductions)
        if type(operand) is FusedProducer:
            reads = _arrays_of(operand)
            names = f"{operand.function.name}, {names}"
        else:
            reads = [operand]
        written = [array for array in results if isinstance(array, np.ndarray)]
        if self.passes is not None:
            for array in written:  # numbers, too, have the names by which later passes read them
                self.buffers.buffer_for(array)
        self.record_kernel(names, source.shape, reads, written)


def _arrays_of(operand: FusedProducer) -> list[Array]:
    return [each for each in operand.inputs if isinstance(each, np.ndarray)]


def _call(function: Callable[..., Any], keywords: dict[str, Any], operand: Any) -> Any:
    return function(operand, **keywords)


def is_pending(node: Node | None) -> bool:
    """Return True if a node is alive and a deferred reduction."""
    return node is not None and node.reduction is not None
