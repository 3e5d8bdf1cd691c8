"""Reductions of tracers: recorded as nodes, or computed immediately if small."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._families.reduce.reduce_kernel import as_keepdims, axes_of, reduced_shape
from pycudakit._native.dtypes import DType
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, ReduceOp
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace

_MAY_WARN = frozenset({"sum", "prod", "mean", "std", "var"})
_TINY = 1024  # elements: smaller arrays are reduced immediately


@functools.lru_cache(1024)
def _result_type(name: str, dtype: DType) -> DType:
    return np.asarray(getattr(np, name)(np.zeros(1, dtype))).dtype


def reduce(
    trace: Trace,
    name: str,
    function: Callable[..., Any],
    a: Tracer,
    axis: Any = None,
    keepdims: Any = False,
    ddof: Any = 0,
) -> Any:
    """Record a reduction; compute it immediately if it is small or needs NumPy."""
    trace.executor.flush_if_errstate_changed()
    keepdims = as_keepdims(keepdims, name)
    keywords = {"axis": axis, "keepdims": keepdims} if keepdims else {"axis": axis}
    if name.endswith(("std", "var")):
        keywords["ddof"] = ddof
    compute = functools.partial(_call, function, keywords)
    axes = axes_of(name, axis, a.ndim) if a.shape else ()
    length = math.prod(a.shape[d] for d in axes)
    buffer = a.node.buffer  # None for a deferred operand: it will be computed on the device of its inputs
    is_on_device = bool(trace.buffers.stream) if buffer is None else buffer.is_resident
    is_simple = (
        (a.size > _TINY or is_on_device or trace.capture is not None)
        and (a.shape or axis is None)  # NumPy accepts axis 0 of a scalar
        and type(ddof) in (int, float)
        and ddof < length
        and not trace.errstate.must_report_at_once
    )
    if not is_simple or (name.startswith("arg") and isinstance(axis, tuple)):
        array = trace.to_host(a)
        result = compute(array)
        trace.executor.record_kernel(name, array.shape, [array], [])
        return trace.wrap(result)
    shape = reduced_shape(a.shape, axes, keepdims)
    node = Node(None, (), DEFAULT_OPTIONS, _result_type(name, a.dtype), shape)
    node.reduction = ReduceOp(name, a.node, axes, compute)
    trace.deferred.mark_unread(node, [a.node], name in _MAY_WARN and node.dtype.kind == "f")
    node.order = "C" if a.node.order == "C" else None
    trace.deferred.add_reduction(node)
    return trace.deferred.add(Tracer(trace, node, shape == ()))


def _call(function: Callable[..., Any], keywords: dict[str, Any], operand: Any) -> Any:
    return function(operand, **keywords)
