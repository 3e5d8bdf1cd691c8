"""pandas' Series and DataFrames: their values as arrays, and arrays with their labels.

pandas is never imported here: its types are found by the module of an object's type.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Sequence
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


def is_index(value: Any) -> bool:
    """Return True for an object of exactly pandas' type `Index`."""
    kind: Any = type(value)
    return kind.__name__ == "Index" and kind is getattr(sys.modules.get("pandas"), "Index", None)


def arrays_of(frame: Any) -> list[Array] | None:
    """Return the memory of a DataFrame: one array whose rows are the columns, or one for each column.

    Return None if pandas computes differently from NumPy, or for a reason of `values_of`, or for labels that
    only pandas knows how to match.
    """
    columns = frame.columns
    if not frame.size or columns.nlevels != 1 or not columns.is_unique:
        return None
    if frame.attrs or not frame.flags.allows_duplicate_labels:
        return None
    dtypes = set(frame.dtypes)
    if not all(isinstance(each, np.dtype) and each in CODES and each.isnative for each in dtypes):
        return None
    if len(dtypes) == 1 and np.may_share_memory(frame.iloc[:1].to_numpy(), frame.iloc[:, 0].to_numpy()):
        return [frame.to_numpy().T]
    return [column.to_numpy() for _, column in frame.items()]


def new_frame(arrays: Sequence[Array], index: Any, columns: Any) -> Any:
    """Return a DataFrame on the memory of arrays as `arrays_of` returns them."""
    kind = sys.modules["pandas"].DataFrame
    if arrays[0].ndim == 2:
        return kind(arrays[0].T, index=index, columns=columns, copy=False)
    frame = kind(dict(enumerate(arrays)), index=index, copy=False)
    frame.columns = columns
    return frame


def have_same_labels(one: Any, other: Any, are_identical: bool = False) -> bool:
    """Return True if two DataFrames have equal labels, or ones with the same names and types, too."""
    pairs = (one.index, other.index), (one.columns, other.columns)
    return all(a is b or (a.identical(b) if are_identical else a.equals(b)) for a, b in pairs)


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


def warn_of_alignment(name: str, operands: str) -> None:
    """Warn that pandas aligns the operands of a call."""
    warn_of_performance(
        f"{name}: pandas aligns and computes {operands}; to compute by position, pass the values: .to_numpy()"
    )
