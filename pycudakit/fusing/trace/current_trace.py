"""The current trace, in a context variable."""

from __future__ import annotations

from contextvars import ContextVar

from pycudakit.fusing.trace.trace import Trace

current_trace_var: ContextVar[Trace | None] = ContextVar("pycudakit_trace", default=None)


def current_trace() -> Trace | None:
    """Return the trace of the running fused function; None if there is none or it has ended."""
    trace = current_trace_var.get()
    return None if trace is None or trace.has_ended else trace


def trace_if_tracing() -> Trace | None:
    """Return the current trace, unless it has stopped deferring operations."""
    trace = current_trace()
    return None if trace is None or trace.has_stopped_deferring else trace
