"""The current trace, in a context variable."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pycudakit.fusing.trace.trace import Trace

_current_trace: ContextVar[Trace | None] = ContextVar("pycudakit_trace", default=None)


def current_trace() -> Trace | None:
    """Return the trace of the running fused function; None if there is none or it has ended."""
    trace = _current_trace.get()
    return None if trace is None or trace.has_ended else trace


def run_with_trace(trace: Trace, body: Callable[[], Any]) -> Any:
    """Run a body with a current trace, which ends with it."""
    outer = _current_trace.get()
    try:
        _current_trace.set(trace)
        return body()
    finally:
        trace.has_ended = True
        _current_trace.set(outer)


def trace_if_tracing() -> Trace | None:
    """Return the current trace, unless it has stopped deferring operations."""
    trace = current_trace()
    return None if trace is None or trace.has_stopped_deferring else trace
