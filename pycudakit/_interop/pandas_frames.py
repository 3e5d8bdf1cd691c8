"""Ufuncs of DataFrames, computed by their values and labelled as pandas labels them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._interop.pandas_objects import (
    arrays_of,
    have_same_labels,
    new_frame,
    pandas_kind,
    values_of,
    warn_of_alignment,
)
from pycudakit._interop.pandas_operands import COMPARISONS, OPERATORS, is_as_numpy, numbers_for
from pycudakit._native.dtypes import CODES, Array

MIN_ROWS = 4096  # pandas computes columns of different types that are not longer


def of_frames(name: str, inputs: Sequence[Any], compute: Callable[[Sequence[Any]], Any]) -> Any:
    """Return a ufunc of two operands, of which one is a DataFrame; NotImplemented if pandas must compute."""
    frames = [value for value in inputs if pandas_kind(value) == "DataFrame"]
    first, last = frames[0], frames[-1]
    if not _has_labels_of(name, first, last, inputs):
        return NotImplemented
    own = arrays_of(first)
    if own is None or (own[0].ndim == 1 and len(first) <= MIN_ROWS):
        return NotImplemented
    is_right = inputs[1] is first and inputs[0] is not first
    operands = _operands(inputs[0 if is_right else 1], first, own, name)
    if operands is None:
        return NotImplemented
    if name not in OPERATORS and any(
        len({each.dtype for each in some}) > 1 for some in (own, operands)
    ):  # which pandas converts to one type
        return NotImplemented
    if len(own) != len(operands):  # one is a single array
        own, operands = _columns(own), _columns(operands)
    pairs = list(zip(own, operands, strict=True))
    if name in OPERATORS and not all(is_as_numpy(name, each.dtype, other, is_right) for each, other in pairs):
        return NotImplemented
    results = [compute(pair[::-1] if is_right else pair) for pair in pairs]
    return new_frame(results, first.index, first.columns)


def _columns(arrays: Sequence[Any]) -> list[Any]:
    return [column for array in arrays for column in (array if array.ndim == 2 else [array])]


def _has_labels_of(name: str, first: Any, last: Any, inputs: Sequence[Any]) -> bool:
    """Return True if no operand must be aligned; warn if pandas aligns one."""
    is_operator = name in OPERATORS
    series = [value for value in inputs if pandas_kind(value) == "Series"]
    if series:
        if series[0] is inputs[0]:  # for which pandas raises
            return False
        is_same = series[0].index.equals(first.columns)
    else:
        is_same = first is last or have_same_labels(first, last)
    if not is_same:
        if name not in COMPARISONS and (is_operator or not series):  # for others pandas raises
            warn_of_alignment(name, "DataFrames with different labels")
        return False
    return is_operator or (not series and have_same_labels(first, last, are_identical=True))


def _operands(other: Any, frame: Any, own: Sequence[Array], name: str) -> list[Any] | None:
    """Return the other operand for each array of a DataFrame; None if pandas must compute."""
    kind = type(other)
    if pandas_kind(other) == "DataFrame":
        return list(own) if other is frame else arrays_of(other)
    if pandas_kind(other) == "Series":  # of one number for each column
        row = values_of(other)
        return None if row is None or own[0].ndim == 1 else [row[:, None]]
    if kind is np.ndarray:
        return [other.T] if other.shape == frame.shape and other.dtype in CODES else None
    return numbers_for(other, [each.dtype for each in own], name)
