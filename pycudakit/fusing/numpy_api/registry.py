"""NumPy's functions that a fused function may call, and who takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.fusing.device_impls.einsum import EINSUM, view_or
from pycudakit.fusing.device_impls.histogram import COUNTING
from pycudakit.fusing.device_impls.matmul import PRODUCTS, matrix_power
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
from pycudakit.fusing.numpy_api.library_calls import KIT, kit_function, kit_handler
from pycudakit.fusing.numpy_api.reductions import REDUCED
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import SHAPES, Handler

CAPTURED: dict[Any, Handler] = {
    **SHAPES,
    **TOGETHER,
    **CUT,
    **GRIDS,
    **CHOICES,
    **PUTTING,
    **KIT,
    **REDUCED,
    **ELEMENTWISE,
    **ALIASES,
}

# Those that are written for NumPy themselves, and run as a part of what calls them.
_COMPOSED = {
    "calculus": "cross diff ediff1d gradient trapezoid unwrap",
    "padding": "pad",
    "polynomials": "polyval vander",
    "signals": "convolve correlate",
    "statistics": "corrcoef cov",
}


def _at_home_or(by_others: Handler, elsewhere: Handler) -> Handler:
    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        if recording.memory.scope.is_open:
            taken = by_others(recording, *arguments, **keywords)
            if taken is not NotImplemented:
                return taken
        return elsewhere(recording, *arguments, **keywords)

    return handle


_STAYING = {**COUNTING, **EINSUM, **INTERPOLATED, **ORDERING, **PRODUCTS, **QUANTILES, **SETS}
for _function, _by_others in _STAYING.items():
    CAPTURED[_function] = _at_home_or(_by_others, CAPTURED[_function])
CAPTURED[np.einsum] = view_or(CAPTURED[np.einsum])
CAPTURED[np.linalg.matrix_power] = _at_home_or(matrix_power, kit_handler("pycudakit.linalg", "matrix_power"))


def _composed_handler(module: str, name: str) -> Handler:
    return lambda _, *arguments, **keywords: kit_function(module, name)(*arguments, **keywords)


for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        CAPTURED[getattr(np, _name)] = _composed_handler(f"pycudakit.fusing.composites.{_module}", _name)
