"""Ufuncs of pandas' objects with one index, computed by their values and labelled as pandas labels them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._interop.pandas_objects import (
    has_same_index,
    new_series,
    pandas_kind,
    values_of,
    warn_of_performance,
)
from pycudakit._interop.pandas_operands import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    NAMES_COMPARED,
    as_operand,
    is_as_numpy,
)
from pycudakit._native.dtypes import CODES, Array

SMALL = 4096  # elements up to which pandas computes: its own share of the time is larger
_OPERATORS = ARITHMETIC | COMPARISONS | LOGICAL  # pandas computes these by its operators
_SIGNS = frozenset({"absolute", "negative", "positive"})
_INDEX_TYPES = frozenset({np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.float64)})


def call_by_values(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    """Return a ufunc's result for Series, DataFrames or an Index; NotImplemented if pandas must compute.

    `compute` computes the ufunc of arrays and numbers. Series with different indexes are left to pandas,
    which aligns them, with a `PerformanceWarning`.
    """
    if len(inputs) == 1:
        return _unary(name, inputs[0], compute)
    if len(inputs) != 2:
        return NotImplemented
    if any(pandas_kind(value) == "Series" for value in inputs):
        return _of_series(name, inputs, compute)
    return NotImplemented


def _unary(name: str, value: Any, compute: Callable[[Sequence[Any]], Any]) -> Any:
    kind = pandas_kind(value) or _kind_of_index(value)
    if kind not in ("Series", "DataFrame", "Index") or value.size <= SMALL:
        return NotImplemented
    if kind == "Series":
        array = values_of(value)
    elif kind == "DataFrame":
        array = _values_of_frame(value)
    else:
        array = value.to_numpy() if value.dtype in _INDEX_TYPES else None
    if array is None or (name in _SIGNS and array.dtype.kind not in "iuf"):
        return NotImplemented
    if kind == "Index" and name in (*_SIGNS, "invert"):
        return NotImplemented
    result = _quietly(compute, [array]) if name in (*_SIGNS, "invert") else compute([array])
    if kind == "Series":
        return new_series(result, value.index, value.name)
    if kind == "DataFrame":
        return type(value)(result, index=value.index, columns=value.columns, copy=False)
    return value.__array_wrap__(result)


def _kind_of_index(value: Any) -> str:
    """Return "Index" for an object of exactly that type of pandas'."""
    is_index = type(value).__name__ == "Index" and type(value) is getattr(
        sys.modules.get("pandas"), "Index", None
    )
    return "Index" if is_index else ""


def _values_of_frame(frame: Any) -> Array | None:
    """Return the values of a DataFrame whose columns have one native dtype; None for others."""
    dtypes = set(frame.dtypes)
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if not (isinstance(dtype, np.dtype) and dtype in CODES and dtype.isnative):
        return None
    if frame.attrs or not frame.flags.allows_duplicate_labels:
        return None
    values: Array = frame.to_numpy()
    return values


def _quietly(compute: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    """Compute as pandas' operators do, which report no floating-point errors."""
    with np.errstate(all="ignore"):
        return compute(values)


def _of_series(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    all_series = [value for value in inputs if pandas_kind(value) == "Series"]
    first, last = all_series[0], all_series[-1]
    if max(len(first), len(last)) <= SMALL:
        return NotImplemented
    if not has_same_index(first, last):
        if name not in COMPARISONS:  # for which pandas raises
            warn_of_performance(
                f"{name}: pandas aligns and computes Series with different indexes; to compute by position, "
                "pass the values: .to_numpy()"
            )
        return NotImplemented
    if not all(type(series.name) in NAMES_COMPARED for series in all_series):
        return NotImplemented
    is_operator = name in _OPERATORS
    if not is_operator and not first.index.identical(last.index):  # the labels depend on pandas' version
        return NotImplemented
    values: list[Any] = []
    for value in inputs:
        array = values_of(value) if pandas_kind(value) == "Series" else _plain(value, first, name)
        if array is None:
            return NotImplemented
        values.append(array)
    swapped = not isinstance(values[0], np.ndarray)
    own, operand = values[::-1] if swapped else values
    if is_operator and not is_as_numpy(name, own.dtype, operand, swapped):
        return NotImplemented
    result = _quietly(compute, values) if is_operator else compute(values)
    return new_series(result, first.index, first.name if first.name == last.name else None)


def _plain(value: Any, series: Any, name: str) -> Any:
    """Return an operand that is no Series: a number, or an array of its shape; None for others."""
    kind = type(value)
    if kind is np.ndarray:
        return value if value.shape == series.shape and value.dtype in CODES else None
    if kind is bool:
        return value if name in LOGICAL else None
    if kind is int or kind is float:
        return value
    return as_operand(value, series.dtype, name) if name in _OPERATORS else None
