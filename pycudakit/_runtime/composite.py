"""Engine choice of composite functions, which call other pycudakit functions: those or NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_SIZE

_NUMPY_BELOW = 3000  # elements


def arrays_or_numpy_result(
    name: str,
    numpy: Callable[[], Any],
    *arguments: Any,
    unsupported: str | None = None,
    numpy_below: float | None = None,
) -> tuple[list[Array], Any]:
    """Return the arguments as arrays and None; or an empty list and NumPy's result.

    `unsupported` says why only NumPy can compute the call, if the reason is not its arguments' types. Under
    `auto`, NumPy computes calls whose arguments have fewer than `numpy_below` elements together.
    """
    arrays = [array for array in map(operands.as_array, arguments) if array is not None]
    if unsupported is not None or len(arrays) < len(arguments):
        return [], native_call.numpy_fallback(name, numpy, unsupported)
    if context.checked_current_engine() == "numpy":
        return [], native_call.run_numpy(name, context.REASON_ENGINE_REQUESTED, numpy)
    if context.current_engine() == "auto" and sum(array.size for array in arrays) < (
        _NUMPY_BELOW if numpy_below is None else numpy_below
    ):
        return [], native_call.run_numpy(name, REASON_NUMPY_FASTER_FOR_SIZE, numpy)
    return arrays, None
