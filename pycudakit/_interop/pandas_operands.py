"""Operands of pandas' operators: which mean the same in NumPy, and which are left to pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, DType

ARITHMETIC = frozenset({"add", "divide", "floor_divide", "multiply", "power", "remainder", "subtract"})
COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
LOGICAL = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})
OPERATORS = ARITHMETIC | COMPARISONS | LOGICAL  # pandas computes these ufuncs by its operators
NAMES_COMPARED = (str, int, type(None))  # the types of names that are known to compare as pandas compares


def as_operand(number: Any, dtype: DType, name: str) -> Any:
    """Return a NumPy scalar as an operand; None if pandas must compute.

    In arithmetic, it is a Python number to pandas.
    """
    if dtype not in CODES:  # pandas' extension types are none of NumPy's
        return None
    if not isinstance(number, np.generic) or number.dtype not in CODES or number.dtype.kind == "b":
        return None
    if name in COMPARISONS:
        return number
    if name not in ARITHMETIC:
        return None
    value = number.item()
    is_same = np.result_type(dtype, number.dtype) == np.result_type(dtype, type(value)(0))
    return value if is_same else None


def numbers_for(value: Any, dtypes: Sequence[DType], name: str) -> list[Any] | None:
    """Return a number as the other operand for arrays of these types; None if pandas must compute."""
    kind = type(value)
    if name not in OPERATORS:  # pandas converts numbers to arrays
        return [np.asarray(value)[()]] * len(dtypes) if kind in (bool, int, float) else None
    if kind is bool:
        return [value] * len(dtypes) if name in LOGICAL else None
    if kind is int or kind is float:
        return [value] * len(dtypes)
    numbers = [as_operand(value, dtype, name) for dtype in dtypes]
    return None if any(number is None for number in numbers) else numbers


def is_as_numpy(name: str, dtype: DType, operand: Any, swapped: bool) -> bool:
    """Return True if an operator of a Series means the same in NumPy."""
    kind = type(operand)
    if kind is bool:
        return dtype.kind == "b"
    if kind is not int and kind is not float:
        is_bool = int(dtype.kind == "b") + int(operand.dtype.kind == "b")
        if name in LOGICAL:
            return is_bool == 2
        if name in COMPARISONS:
            return True
        if name == "power" and is_bool:
            return False
        return is_bool < 2 and name not in ("floor_divide", "remainder")
    if name in LOGICAL or dtype.kind == "b":
        return False
    if kind is int and dtype.kind == "f" and abs(operand) > float(np.finfo(dtype).max):
        return False
    if name in COMPARISONS:
        return True
    if name in ("floor_divide", "remainder") and (swapped or not operand or operand != operand):  # noqa: PLR0124
        return False  # pandas replaces the results of divisions by zero
    if kind is int and dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= operand <= np.iinfo(dtype).max)
    return True
