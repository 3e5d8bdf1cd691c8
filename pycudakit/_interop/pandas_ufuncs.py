"""Ufuncs of pandas' objects with one index, computed by their values and labelled as pandas labels them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._interop.pandas_frames import MIN_ROWS, of_frames
from pycudakit._interop.pandas_objects import (
    arrays_of,
    has_same_index,
    is_index,
    new_frame,
    new_series,
    pandas_kind,
    values_of,
    warn_of_alignment,
)
from pycudakit._interop.pandas_operands import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    NAMES_COMPARED,
    OPERATORS,
    as_operand,
    is_as_numpy,
)
from pycudakit._native.dtypes import CODES

SMALL = 4096  # elements up to which pandas computes: its own share of the time is larger
_SIGNS = frozenset({"absolute", "negative", "positive"})
_INDEX_TYPES = frozenset({np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.float64)})


def call_by_values(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    """Return a ufunc's result for Series, DataFrames or an Index; NotImplemented if pandas must compute.

    `compute` computes the ufunc of arrays and numbers. Operands with different labels are left to pandas,
    which aligns them, with a `PerformanceWarning`.
    """
    if len(inputs) > 2 or max([value.size for value in inputs if _kind(value)], default=0) <= SMALL:
        return NotImplemented
    is_quiet = name in (OPERATORS if len(inputs) == 2 else (*_SIGNS, "invert"))
    calculate = functools.partial(_quietly, compute) if is_quiet else compute
    if len(inputs) == 1:
        return _unary(name, inputs[0], calculate)
    kinds = set(map(_kind, inputs))
    if "DataFrame" in kinds:
        return of_frames(name, inputs, calculate)
    if "Series" in kinds:
        return _of_series(name, inputs, calculate)
    return _of_indexes(name, inputs, calculate) if "Index" in kinds else NotImplemented


def _kind(value: Any) -> str:
    kind = pandas_kind(value)
    if kind in ("Series", "DataFrame"):
        return kind
    return "Index" if is_index(value) else ""


def _unary(name: str, value: Any, compute: Callable[[Sequence[Any]], Any]) -> Any:
    kind = _kind(value)
    arrays: list[Any] | None
    if kind == "DataFrame":
        arrays = arrays_of(value)
        if arrays is not None and arrays[0].ndim == 1 and len(value) <= MIN_ROWS:
            return NotImplemented
    elif kind == "Series":
        arrays = [values_of(value)]
    else:
        is_left = value.dtype not in _INDEX_TYPES or name in (*_SIGNS, "invert")
        arrays = None if is_left else [value.to_numpy()]
    if arrays is None or any(
        array is None or (name in _SIGNS and array.dtype.kind not in "iuf") for array in arrays
    ):
        return NotImplemented
    results = [compute([array]) for array in arrays]
    if kind == "DataFrame":
        return new_frame(results, value.index, value.columns)
    if kind == "Series":
        return new_series(results[0], value.index, value.name)
    return value.__array_wrap__(results[0])


def _of_indexes(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    """Return an operator of an Index and another one, an array or a number."""
    indexes = [value for value in inputs if is_index(value)]
    first, last = indexes[0], indexes[-1]
    if not all(each.dtype in _INDEX_TYPES and type(each.name) in NAMES_COMPARED for each in indexes):
        return NotImplemented
    if name not in ARITHMETIC | COMPARISONS or first.shape != last.shape:
        return NotImplemented
    values = [each.to_numpy() if is_index(each) else _plain(each, first, name) for each in inputs]
    swapped = not is_index(inputs[0])
    own, operand = values[::-1] if swapped else values
    if operand is None or not is_as_numpy(name, own.dtype, operand, swapped):
        return NotImplemented
    result = compute(values)
    if name in COMPARISONS:
        return result
    return type(first)(result, name=first.name if first.name == last.name else None, copy=False)


def _quietly(compute: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    """Compute as pandas' operators do, which report no floating-point errors."""
    with np.errstate(all="ignore"):
        return compute(values)


def _of_series(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    all_series = [value for value in inputs if pandas_kind(value) == "Series"]
    first, last = all_series[0], all_series[-1]
    if not has_same_index(first, last):
        if name not in COMPARISONS:  # for which pandas raises
            warn_of_alignment(name, "Series with different indexes")
        return NotImplemented
    if not all(type(series.name) in NAMES_COMPARED for series in all_series):
        return NotImplemented
    is_operator = name in OPERATORS
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
    return new_series(compute(values), first.index, first.name if first.name == last.name else None)


def _plain(value: Any, series: Any, name: str) -> Any:
    """Return an operand that is not pandas': a number, or an array of its shape; None for others."""
    kind = type(value)
    if kind is np.ndarray:
        return value if value.shape == series.shape and value.dtype in CODES else None
    if kind is bool:
        return value if name in LOGICAL else None
    if kind is int or kind is float:
        return value
    return as_operand(value, series.dtype, name) if name in OPERATORS else None
