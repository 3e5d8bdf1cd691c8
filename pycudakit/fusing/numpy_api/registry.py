"""The table of `__array_function__` handlers: NumPy function -> implementation for tracers.

A device implementation is tried first if the scope is open, unless the call is being captured and may be a
host call; it returns NotImplemented to decline.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.fusing.device_impls.einsum import EINSUM, view_or
from pycudakit.fusing.device_impls.histogram import COUNTING
from pycudakit.fusing.device_impls.matmul import PRODUCTS, matrix_power_or
from pycudakit.fusing.device_impls.quantiles import QUANTILES
from pycudakit.fusing.device_impls.set_operations import SETS
from pycudakit.fusing.device_impls.sorting import ORDERING
from pycudakit.fusing.numpy_api.aliases import ALIASES
from pycudakit.fusing.numpy_api.broadcasting import GRIDS
from pycudakit.fusing.numpy_api.conditional import CHOICES
from pycudakit.fusing.numpy_api.elementwise import ELEMENTWISE
from pycudakit.fusing.numpy_api.indexed_writes import PUTTING
from pycudakit.fusing.numpy_api.insert_delete import CUT
from pycudakit.fusing.numpy_api.interp import INTERPOLATED
from pycudakit.fusing.numpy_api.joining import TOGETHER
from pycudakit.fusing.numpy_api.library_calls import LIBRARY_CALLS, library_function, library_handler
from pycudakit.fusing.numpy_api.reductions import REDUCED
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import SHAPES, Handler

HANDLERS: dict[Any, Handler] = {
    **SHAPES,
    **TOGETHER,
    **CUT,
    **GRIDS,
    **CHOICES,
    **PUTTING,
    **LIBRARY_CALLS,
    **REDUCED,
    **ELEMENTWISE,
    **ALIASES,
}

# Composites are written in terms of NumPy functions, so their bodies are traced like the caller's.
_COMPOSITES = {
    "calculus": "cross diff ediff1d gradient trapezoid unwrap",
    "padding": "pad",
    "polynomials": "polyval vander",
    "signals": "convolve correlate",
    "statistics": "corrcoef cov",
}


def _on_device_or(device_impl: Handler, fallback: Handler, is_host_call: bool) -> Handler:
    def handle(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        becomes_host_call = is_host_call and trace.may_call_on_host(arguments, keywords)
        if trace.buffers.scope.is_open and not becomes_host_call:
            result = device_impl(trace, *arguments, **keywords)
            if result is not NotImplemented:
                return result
        return fallback(trace, *arguments, **keywords)

    return handle


# Those that replays compute by requests, such as matrix products, or that call functions of the other kind;
# and those that download tables or the size of their result, so that replays compute them by host calls.
_REQUESTED = {**EINSUM, **PRODUCTS, **QUANTILES}
_CALLED_ON_HOST = {**COUNTING, **INTERPOLATED, **ORDERING, **SETS}
for _function, _device_impl in {**_REQUESTED, **_CALLED_ON_HOST}.items():
    _is_host_call = _function in _CALLED_ON_HOST
    HANDLERS[_function] = _on_device_or(_device_impl, HANDLERS[_function], _is_host_call)
HANDLERS[np.einsum] = view_or(HANDLERS[np.einsum])
HANDLERS[np.linalg.matrix_power] = matrix_power_or(library_handler("pycudakit.linalg", "matrix_power"))


def _composite_handler(module: str, name: str) -> Handler:
    return lambda _, *arguments, **keywords: library_function(module, name)(*arguments, **keywords)


for _module, _names in _COMPOSITES.items():
    for _name in _names.split():
        HANDLERS[getattr(np, _name)] = _composite_handler(f"pycudakit.fusing.composites.{_module}", _name)
