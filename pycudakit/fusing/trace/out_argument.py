"""Calls whose results are wanted in `out`, an array on the device: without it, and what is copied there.

So `out` may lie in any steps, and be of another type, wherever a function leaves its results itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.dtypes import CODES, DType
from pycudakit.fusing.memory.tracer import Tracer

# Functions that compute in the type of the array's and that of `out` together, if no other is asked for.
_NAMES = """cumprod cumsum cumulative_prod cumulative_sum exclusive_scan nancumprod nancumsum nanprod nansum
prod sum trace"""
_OF_BOTH = frozenset(_NAMES.split())
# And those that round once, to the type of `out`, if that is one of floats.
_ROUND_ONCE = frozenset(("mean", "nanmean", "nanstd", "nanvar", "std", "var"))
_EXTREMES = frozenset(("amax", "amin", "max", "min", "nanmax", "nanmin"))
# And those that take any integers for others.
_WRAP = _OF_BOTH | _EXTREMES
# And those that convert to no other type, or in other steps than all at the end.
_NAMES = """all any argmax argmin choose cummax cummin dot einsum median nanargmax nanargmin nanmedian
percentile ptp quantile"""
_EXACT = frozenset(_NAMES.split())
# And those that are no ufuncs, and take their `out` in a tuple as ufuncs do.
_LIKE_UFUNCS = frozenset(("clip", "cumulative_prod", "cumulative_sum", "nanmax", "nanmin"))


class CallWithoutOut(NamedTuple):
    """A call without its `out`."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    out: Tracer

    def accepts_result(self, result: Any) -> bool:
        """Tell whether `out` takes a result, as NumPy has it take that."""
        own = self.out.dtype
        if type(result) is not Tracer or result.shape != self.out.shape or own not in CODES:
            return False
        if self.name in _EXACT:
            return result.dtype == own and (self.name != "dot" or bool(self.out.flags.c_contiguous))
        wraps = self.name in _WRAP and result.dtype.kind in "iu" and own.kind in "iu"
        return wraps or accepts_result(self.out, result)


def unwrap_out(name: str, out: Any) -> Any:
    """Return the only array in a tuple, where NumPy's function of a name takes one; or what is given."""
    if type(out) is tuple and len(out) == 1:
        is_taken = name in _LIKE_UFUNCS or isinstance(vars(np).get(name), np.ufunc)
        return out[0] if is_taken else out
    return out


def accepts_result(out: Any, result: Any) -> bool:
    """Tell whether a result may be written to an array as elementwise functions have it."""
    are_both = type(out) is type(result) is Tracer and out.flags.writeable and out.shape == result.shape
    return bool(are_both and out.dtype in CODES and np.can_cast(result.dtype, out.dtype, "same_kind"))


@functools.lru_cache(1024)
def _positions(function: Callable[..., Any]) -> dict[str, int]:
    """Return which arguments the parameters are that need not be named."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return {each.name: place for place, each in enumerate(parameters) if each.kind is kind}


def with_out_as_keyword(
    function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments; of one with an `out`, that, `dtype` and what follows by their names."""
    count, places = len(arguments), _positions(function)
    place = places.get("out", count)
    if (arguments[place] if place < count else keywords.get("out")) is None:
        return arguments, keywords
    first = min(place, places.get("dtype", count))
    given = {name: arguments[at] for name, at in places.items() if first <= at < count}
    if len(given) < count - first or not given.keys().isdisjoint(keywords):  # which raises
        return arguments, keywords
    return arguments[:first], {**given, **keywords}


def split_out(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> CallWithoutOut | None:
    """Return a call without its `out`, which is named, if that may lie on the device."""
    out = unwrap_out(function.__name__, keywords.get("out"))
    rest = {key: value for key, value in keywords.items() if key != "out"}
    if type(out) is not Tracer or out.is_scalar or not out.flags.writeable:
        return None
    name = function.__name__
    if name == "ptp" and arguments and getattr(arguments[0], "dtype", None) != out.dtype:
        return None  # NumPy puts the greatest there first, and takes the least off
    if name in _EXTREMES and "initial" in rest and arguments and type(arguments[0]) is Tracer:
        of, *others = arguments
        common = np.result_type(of.dtype, out.dtype)  # which the initial value is of, too
        if common not in CODES:
            return None
        arguments = (of if of.dtype == common else of.astype(common), *others)
    dtype = _dtype_for_out(name, arguments, out.dtype)
    if dtype is not None and rest.get("dtype") is None:
        rest["dtype"] = dtype
    return CallWithoutOut(name, arguments, rest, out)


def _dtype_for_out(name: str, arguments: tuple[Any, ...], own: DType) -> DType | None:
    """Return the type that a function computes in for its `out`, if that may not be its usual one."""
    of = arguments[0] if arguments else None
    if type(of) is not Tracer or own == of.dtype:
        return None
    if name in _ROUND_ONCE:
        return own if own.kind == "f" else None
    return np.result_type(own, of.dtype) if name in _OF_BOTH else None
