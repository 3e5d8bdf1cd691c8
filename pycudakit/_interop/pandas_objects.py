"""pandas' Series and DataFrames: their values as arrays, and arrays with their labels.

pandas is never imported here: its types are found by the module of an object's type.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime.fp_errors import caller_stacklevel

# Types of objects that compute with the Series or DataFrame that they hold.
_NAMES = """CategoricalAccessor CombinedDatetimelikeProperties DataFrameGroupBy DatetimeIndexResampler
DatetimeIndexResamplerGroupby DatetimeProperties Expanding ExpandingGroupby ExponentialMovingWindow
ExponentialMovingWindowGroupby PeriodProperties Rolling RollingGroupby SeriesGroupBy StringMethods
TimedeltaProperties Window _AtIndexer _LocIndexer _iAtIndexer _iLocIndexer"""
_HOLDERS = frozenset(_NAMES.split())


def pandas_kind(value: Any) -> str:
    """Return "Series" or "DataFrame" for an object of exactly that type of pandas'.

    Return "other" for an object that holds one, and "" for any other value.
    """
    kind: Any = type(value)
    name: str = kind.__name__
    if name not in ("Series", "DataFrame") and name not in _HOLDERS:
        return ""
    if kind.__module__.partition(".")[0] != "pandas":
        return ""
    if name in _HOLDERS:
        return "other"
    return name if kind is getattr(sys.modules.get("pandas"), name, None) else ""


def is_series(value: Any) -> bool:
    """Return True for an object of exactly pandas' type `Series`."""
    return type(value).__name__ == "Series" and pandas_kind(value) == "Series"


def has_same_index(one: Any, other: Any) -> bool:
    """Return True if two Series have one index, or equal ones."""
    mine, theirs = one.index, other.index
    return mine is theirs or bool(mine.is_(theirs) or mine.equals(theirs))


def values_of(series: Any) -> Array | None:
    """Return the memory of a Series as an array; None if pandas computes differently from NumPy.

    So it does for extension types, and for an empty Series; attributes and flags would be lost.
    """
    dtype = series.dtype
    if not (isinstance(dtype, np.dtype) and dtype in CODES and dtype.isnative):
        return None
    if not len(series) or series.attrs or not series.flags.allows_duplicate_labels:
        return None
    values: Array = series.to_numpy()
    return values if type(values) is np.ndarray else None


def new_series(values: Array, index: Any, name: Hashable) -> Any:
    """Return a Series on the memory of an array."""
    return sys.modules["pandas"].Series(values, index=index, name=name, copy=False)


def copies_on_write() -> bool:
    """Return True if objects that share memory copy it before one of them is written to."""
    return int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3


def is_numeric_extension(dtype: DType | Any) -> bool:
    """Return True for an extension dtype of numbers, such as Int64."""
    return not isinstance(dtype, np.dtype) and bool(
        getattr(dtype, "_is_numeric", False) or getattr(dtype, "_is_boolean", False)
    )


def warn_of_performance(message: str) -> None:
    """Issue pandas' `PerformanceWarning` at the line of the caller."""
    warnings.warn(message, sys.modules["pandas"].errors.PerformanceWarning, stacklevel=caller_stacklevel())
