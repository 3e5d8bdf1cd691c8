"""Runs functions during a capture, so that their library calls become requests of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace


def captured_call(
    trace: Trace,
    capture: Capture,
    function: Callable[..., Any],
    arrays: Sequence[Array],
    positional: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
) -> Tracer:
    """Call a function of arrays and other arguments; its result, a new array, joins the capture."""

    def on_host_access(array: Array, will_change: bool) -> None:
        trace.executor.sync_for_host_read(array, will_change)
        capture.mark_not_replayable()  # a plan holds no values that Python reads

    capture.add_memory(arrays)
    with allocator.hooked(lambda new: capture.add_memory([new]), on_host_access):
        result = function(*arrays, *positional, **(keywords or {}))
    return Tracer(trace, leaf(result, trace.executor.buffer_of_result(result)))


def captured_reduction(
    trace: Trace, capture: Capture, name: str, arrays: list[Array], compute: Callable[[], Any]
) -> Tracer:
    """Compute a reduction, which `compute` makes of these arrays, in a call that is being captured."""
    capture.add_memory(arrays)
    first = capture.begin_reductions([name])
    (result,) = capture.reduced_arrays(first, [np.asarray(compute())])
    return Tracer(trace, leaf(result, trace.executor.buffer_of_result(result)), is_scalar=not result.ndim)
