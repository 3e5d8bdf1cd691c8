"""The call of a fused function that runs here."""

from __future__ import annotations

from contextvars import ContextVar

from pycudakit.fusing.trace.trace import Trace

current_trace_var: ContextVar[Trace | None] = ContextVar("pycudakit_trace", default=None)


def current_trace() -> Trace | None:
    """Return the trace of the fused function that runs here: one that has ended counts no more."""
    trace = current_trace_var.get()
    return None if trace is None or trace.has_ended else trace


def trace_if_tracing() -> Trace | None:
    """Return the trace that captures what asks no tracer, if there is one."""
    trace = current_trace()
    return None if trace is None or trace.has_fallen_back else trace
