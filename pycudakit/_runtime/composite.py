"""Functions that are made of the kit's others: whether those, or NumPy, answer a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_SIZE

_NUMPY_BELOW = 3000


def arrays_or_numpy_result(
    name: str,
    numpy: Callable[[], Any],
    *arguments: Any,
    unsupported: str | None = None,
    numpy_below: float | None = None,
) -> tuple[list[Array], Any]:
    """Return the arguments as arrays; or none, and what NumPy answers.

    `foreign` says why the call is NumPy's alone, if it is for another reason than its arguments' types; with
    fewer elements than `few`, in all arguments, NumPy answers first under `auto`.
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
