"""Calls whose results are wanted in `out`, an array on the device: without it, and what is copied there.

So `out` may lie in any steps, and be of another type, wherever a function leaves its results itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._library.types import CODES, DType
from pycudakit.fusing.stand_in import StandIn

# Functions that compute in the type of the array's and that of `out` together, if no other is asked for.
_NAMES = """cumprod cumsum cumulative_prod cumulative_sum exclusive_scan nancumprod nancumsum nanprod nansum
prod sum trace"""
_OF_BOTH = frozenset(_NAMES.split())
# And those that round once, to the type of `out`, if that is one of floats.
_ROUND_ONCE = frozenset(("mean", "nanmean", "nanstd", "nanvar", "std", "var"))
# And those that take any integers for others.
_WRAP = _OF_BOTH | {"amax", "amin", "max", "min", "nanmax", "nanmin"}
# And those that convert to no other type, or in other steps than all at the end.
_NAMES = """all any argmax argmin choose cummax cummin dot einsum median nanargmax nanargmin nanmedian
percentile ptp quantile"""
_EXACT = frozenset(_NAMES.split())


class Wanted(NamedTuple):
    """A call without its `out`."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    out: StandIn

    def takes(self, shape: tuple[int, ...], dtype: DType) -> bool:
        """Tell whether `out` takes results of a shape and a type, as NumPy has it take them."""
        own = self.out.dtype
        if shape != self.out.shape or own not in CODES:
            return False
        if self.name in _EXACT:
            return dtype == own and (self.name != "dot" or bool(self.out.flags.c_contiguous))
        wraps = self.name in _WRAP and dtype.kind in "iu" and own.kind in "iu"
        return wraps or np.can_cast(dtype, own, "same_kind")


def takes(out: Any, result: Any) -> bool:
    """Tell whether a result may be written to an array as elementwise functions have it."""
    are_both = type(out) is type(result) is StandIn and out.flags.writeable and out.shape == result.shape
    return bool(are_both and out.dtype in CODES and np.can_cast(result.dtype, out.dtype, "same_kind"))


@functools.lru_cache(1024)
def _place_of(name: str, function: Callable[..., Any]) -> int | None:
    """Return which argument a parameter is, if it need not be named."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    is_one = name in parameters and parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    return list(parameters).index(name) if is_one else None


def _replaced(
    name: str, new: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return what a parameter is, and the arguments and keywords with another value for it; None: without."""
    place = _place_of(name, function)
    if name not in keywords and place is not None and place < len(arguments):
        return arguments[place], (*arguments[:place], new, *arguments[place + 1 :]), keywords
    rest = {key: value for key, value in keywords.items() if key != name}
    return keywords.get(name), arguments, rest if new is None else {**rest, name: new}


def wanted(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Wanted | None:
    """Return a call without its `out`, if that may lie on the device; a ufunc's method is no function."""
    if function is None:
        return None
    out, arguments, keywords = _replaced("out", None, function, arguments, keywords)
    if type(out) is tuple and len(out) == 1:  # as ufuncs have it
        (out,) = out
    if type(out) is not StandIn or out.is_scalar or not out.flags.writeable:
        return None
    if function.__name__ == "ptp" and arguments and getattr(arguments[0], "dtype", None) != out.dtype:
        return None  # NumPy puts the greatest there first, and takes the least off
    dtype = _type_by(function.__name__, arguments, out.dtype)
    if dtype is not None:
        asked, of_type, named = _replaced("dtype", dtype, function, arguments, keywords)
        if asked is None:
            arguments, keywords = of_type, named
    return Wanted(function.__name__, arguments, keywords, out)


def _type_by(name: str, arguments: tuple[Any, ...], own: DType) -> DType | None:
    """Return the type that a function computes in for its `out`, if that may not be its usual one."""
    of = arguments[0] if arguments else None
    if type(of) is not StandIn or own == of.dtype:
        return None
    if name in _ROUND_ONCE:
        return own if own.kind == "f" else None
    return np.result_type(own, of.dtype) if name in _OF_BOTH else None
