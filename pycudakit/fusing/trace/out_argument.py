"""`out=` on device arrays: compute without `out`, then cast and copy the result into it.

NumPy's casting rules decide whether that is allowed. So `out` may have any strides and another dtype, even if
the function itself writes contiguous arrays only.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.dtypes import CODES, DType
from pycudakit.fusing.memory.tracer import Tracer

# Functions that compute in the common dtype of the array and `out`, unless `dtype` is given.
_NAMES = """cumprod cumsum cumulative_prod cumulative_sum exclusive_scan nancumprod nancumsum nanprod nansum
prod sum trace"""
_OF_BOTH = frozenset(_NAMES.split())
# Functions that round once, to the dtype of `out`, if that is a float.
_ROUND_ONCE = frozenset(("mean", "nanmean", "nanstd", "nanvar", "std", "var"))
_EXTREMES = frozenset(("amax", "amin", "max", "min", "nanmax", "nanmin"))
# Functions that cast between any integers.
_WRAP = _OF_BOTH | _EXTREMES
# Functions that need an `out` of the result's dtype, or that cast before their last step.
_NAMES = """all any argmax argmin choose cummax cummin dot einsum median nanargmax nanargmin nanmedian
percentile ptp quantile"""
_EXACT = frozenset(_NAMES.split())
# Functions that accept `out` in a tuple, as ufuncs do.
_LIKE_UFUNCS = frozenset(("clip", "cumulative_prod", "cumulative_sum", "nanmax", "nanmin"))


class CallWithoutOut(NamedTuple):
    """A call without its `out` argument, and the `out` that takes the result."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    out: Tracer

    def accepts_result(self, result: Any) -> bool:
        """Return True if NumPy would let `out` take a result."""
        own = self.out.dtype
        if type(result) is not Tracer or result.shape != self.out.shape or own not in CODES:
            return False
        if self.name in _EXACT:
            return result.dtype == own and (self.name != "dot" or bool(self.out.flags.c_contiguous))
        wraps = self.name in _WRAP and result.dtype.kind in "iu" and own.kind in "iu"
        return wraps or accepts_result(self.out, result)


def unwrap_out(name: str, out: Any) -> Any:
    """Unwrap `out` from a tuple of one, for functions that accept this; else return it unchanged."""
    if type(out) is tuple and len(out) == 1:
        accepts_tuple = name in _LIKE_UFUNCS or isinstance(vars(np).get(name), np.ufunc)
        return out[0] if accepts_tuple else out
    return out


def accepts_result(out: Any, result: Any) -> bool:
    """Return True if a result may be written to `out` under the casting rules of ufuncs."""
    are_both = type(out) is type(result) is Tracer and out.flags.writeable and out.shape == result.shape
    return bool(are_both and out.dtype in CODES and np.can_cast(result.dtype, out.dtype, "same_kind"))


@functools.lru_cache(1024)
def _positions(function: Callable[..., Any]) -> dict[str, int]:
    """Return the positions of the parameters that may be positional or keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return {each.name: index for index, each in enumerate(parameters) if each.kind is kind}


def with_out_as_keyword(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Pass `out`, `dtype` and the arguments after them as keywords, if a call has an `out`."""
    count, positions = len(arguments), _positions(function)
    out_position = positions.get("out", count)
    if (arguments[out_position] if out_position < count else keywords.get("out")) is None:
        return arguments, keywords
    first = min(out_position, positions.get("dtype", count))
    named = {name: arguments[index] for name, index in positions.items() if first <= index < count}
    if len(named) < count - first or not named.keys().isdisjoint(keywords):  # NumPy raises
        return arguments, keywords
    return arguments[:first], {**named, **keywords}


def split_out(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> CallWithoutOut | None:
    """Split a call whose keyword `out` is a writeable tracer; return None for other calls."""
    out = unwrap_out(function.__name__, keywords.get("out"))
    rest = {key: value for key, value in keywords.items() if key != "out"}
    if type(out) is not Tracer or out.is_scalar or not out.flags.writeable:
        return None
    name = function.__name__
    if name == "ptp" and arguments and getattr(arguments[0], "dtype", None) != out.dtype:
        return None  # NumPy stores the maximum in `out`, then subtracts the minimum
    if name in _EXTREMES and "initial" in rest and arguments and type(arguments[0]) is Tracer:
        operand, *others = arguments
        common = np.result_type(operand.dtype, out.dtype)  # also the dtype of the initial value
        if common not in CODES:
            return None
        arguments = (operand if operand.dtype == common else operand.astype(common), *others)
    dtype = _dtype_for_out(name, arguments, out.dtype)
    if dtype is not None and rest.get("dtype") is None:
        rest["dtype"] = dtype
    return CallWithoutOut(name, arguments, rest, out)


def _dtype_for_out(name: str, arguments: tuple[Any, ...], out_dtype: DType) -> DType | None:
    """Return the dtype in which a function computes for its `out`; None for its default."""
    operand = arguments[0] if arguments else None
    if type(operand) is not Tracer or out_dtype == operand.dtype:
        return None
    if name in _ROUND_ONCE:
        return out_dtype if out_dtype.kind == "f" else None
    return np.result_type(out_dtype, operand.dtype) if name in _OF_BOTH else None
