"""Functions that are made of the kit's others: whether those, or NumPy, answer a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.cost_model import SMALL

_FEW = 3000


def arrays_or_answer(
    name: str, numpy: Callable[[], Any], *arguments: Any, foreign: str | None = None, few: float | None = None
) -> tuple[list[Array], Any]:
    """Return the arguments as arrays; or none, and what NumPy answers.

    `foreign` says why the call is NumPy's alone, if it is for another reason than its arguments' types; with
    fewer elements than `few`, in all arguments, NumPy answers first under `auto`.
    """
    arrays = [array for array in map(operands.as_array, arguments) if array is not None]
    if foreign is not None or len(arrays) < len(arguments):
        return [], native_call.by_numpy_alone(name, numpy, foreign)
    if context.checked_current() == "numpy":
        return [], native_call.by_numpy(name, context.ASKED_FOR, numpy)
    if context.current() == "auto" and sum(array.size for array in arrays) < (_FEW if few is None else few):
        return [], native_call.by_numpy(name, SMALL, numpy)
    return arrays, None
