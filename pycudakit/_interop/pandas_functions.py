"""Functions of Series and DataFrames that are no ufuncs, computed by their values.

pandas skips NaN where NumPy does not: if a result is NaN, pandas computes the call anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit._interop.pandas_objects import arrays_of, new_frame, new_series, pandas_kind, values_of
from pycudakit._native.dtypes import Array, DType

SMALL = 4096  # elements up to which pandas computes
# Functions for which NumPy reads the values, without the labels, and returns arrays or numbers.
_NAMES = """allclose array_equal argpartition argwhere average compress count_nonzero diff digitize dot
einsum flatnonzero histogram histogram2d inner interp intersect1d isclose isin kron median nanargmax
nanargmin nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanquantile nanstd nansum nanvar nonzero
norm outer partition percentile quantile setdiff1d setxor1d sort tensordot union1d unique unique_values
vdot where"""
_TAKE_VALUES = frozenset(_NAMES.split())
# Without products, which are left to pandas: the order of the factors decides whether one overflows.
_REDUCTIONS = frozenset({"all", "amax", "amin", "any", "max", "mean", "min", "std", "sum", "var"})
_POSITIONS = frozenset({"argmax", "argmin"})
_EXACT = 2**24  # float32 has all integers below it
_KINDS = ("DataFrame", "Series")
_NAMES_BY_VALUES = _TAKE_VALUES | _REDUCTIONS | _POSITIONS | {"clip", "cumsum", "round"}


def call_by_values(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Return a function's result for large Series and DataFrames; NotImplemented if pandas must compute.

    `function` computes it for arrays.
    """
    if name not in _NAMES_BY_VALUES:
        return NotImplemented
    if max([value.size for value in args if pandas_kind(value) in _KINDS], default=0) <= SMALL:
        return NotImplemented
    if any(map(_has_pandas, kwargs.values())):
        return NotImplemented
    if name in _TAKE_VALUES:
        values = [_values(value) for value in args]
        return NotImplemented if any(value is None for value in values) else function(*values, **kwargs)
    array = _values(args[0]) if pandas_kind(args[0]) else None
    options = None if array is None else _options(name, array, args[1:], kwargs)
    if options is None or array is None or (array.dtype.kind == "f" and name in ("all", "any")):
        return NotImplemented
    with np.errstate(invalid="ignore"):  # as in pandas
        if name in ("clip", "round"):
            return _elementwise(function, args[0], array, options)
        return _along_the_index(name, function, args[0], array, options)


def _has_pandas(value: Any) -> bool:
    return any(map(_has_pandas, value)) if type(value) in (list, tuple) else bool(pandas_kind(value))


def _values(value: Any) -> Any:
    """Return the values of a Series or a DataFrame of one type; any other value as it is; None for pandas."""
    kind = pandas_kind(value)
    if not kind:
        return None if type(value) in (list, tuple) and _has_pandas(value) else value
    if kind == "Series":
        array = values_of(value)
    else:
        arrays = arrays_of(value) if kind == "DataFrame" else None
        array = arrays[0].T if arrays is not None and arrays[0].ndim == 2 else None
    return None if array is None or array.dtype == np.float16 else array


def _options(name: str, array: Array, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the keywords of a call of `name` without its first argument; None if pandas must compute."""
    names = {"clip": ("a_min", "a_max"), "round": ("decimals",)}.get(name, ("axis",))
    options = dict(zip(names, rest, strict=False)) | dict(kwargs)
    allowed = {*names, "ddof"} if name in ("std", "var") else set(names)
    if len(rest) > len(names) or not options.keys() <= allowed:
        return None
    if name == "clip":
        return options if _are_bounds(array.dtype, options.get("a_min"), options.get("a_max")) else None
    if name == "round" and array.dtype.kind != "f":
        return None
    numbers = [value for key, value in options.items() if not (key == "axis" and value is None)]
    return options if all(type(value) is int for value in numbers) else None


def _are_bounds(dtype: DType, low: Any, high: Any) -> bool:
    """Return True if pandas keeps the type, and the order of the bounds."""
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds or not all(type(bound) in (int, float) and bound == bound for bound in bounds):  # noqa: PLR0124
        return False
    if len(bounds) == 2 and low > high:  # which pandas swaps
        return False
    if dtype.kind == "f":
        return all(type(bound) is float or abs(bound) < _EXACT for bound in bounds)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    return limits is not None and all(type(b) is int and limits.min <= b <= limits.max for b in bounds)


def _elementwise(function: Callable[..., Any], value: Any, array: Array, options: Mapping[str, Any]) -> Any:
    result = function(array, **options)
    if array.ndim == 1:
        return new_series(result, value.index, value.name)
    return new_frame([result.T], value.index, value.columns)


def _along_the_index(
    name: str, function: Callable[..., Any], value: Any, array: Array, options: dict[str, Any]
) -> Any:
    axis = options.pop("axis", None)
    is_frame, is_scan = array.ndim == 2, name == "cumsum"
    if axis not in (None, 0) or (is_frame and (name in _POSITIONS or (axis is None and not is_scan))):
        return NotImplemented
    if options.get("ddof", 0) >= len(array):
        return NotImplemented
    result = function(array, axis=0, **options)
    last = result[-1] if is_scan else array[result] if name in _POSITIONS else result
    if np.isnan(last).any():
        return NotImplemented
    if not is_frame:
        return new_series(result, value.index, value.name) if is_scan else result
    if is_scan:
        return new_frame([result.T], value.index, value.columns)
    return new_series(result, value.columns, None)
