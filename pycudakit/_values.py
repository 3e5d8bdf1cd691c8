"""What programs are written in: types, values and operations."""

from __future__ import annotations

import ctypes
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit import _abi, _loader

DType = np.dtype[Any]
Array = np.ndarray[Any, Any]

CODES = {dtype: code for code, dtype in enumerate(_abi.TYPES)}
BOOL, INT64, UINT8, UINT64 = (np.dtype(name) for name in ("bool", "int64", "uint8", "uint64"))
FLOAT16, FLOAT32, FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))


def code_of(dtype: DType) -> int | None:
    """Return the pk_type of a dtype in either byte order, or None where there is none."""
    code = CODES.get(dtype)
    if code is None and dtype.kind in "biuf" and dtype.itemsize <= 8:
        code = CODES.get(np.dtype(f"{dtype.kind}{dtype.itemsize}"))  # long long, or the other byte order
    return code


# Functions that need not hold a Python integer in the type of its company: only how it compares.
OF_ANY_INTEGER = frozenset(
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split()  # noqa: SIM905
)


def beyond_all(number: int) -> float:
    """Return the infinity that compares as an integer beyond a type does; it may be beyond float64, too."""
    return math.inf if number > 0 else -math.inf


@functools.cache
def _listed() -> list[tuple[str, bool]]:
    """Return each operation of ops.def, as a library lists them, and whether its result is a bool."""
    library = _loader.library("cpu" if _loader.find("cpu") else "cuda")
    count = ctypes.c_int64()
    library.pk_operation_count(ctypes.byref(count))
    info = np.zeros(count.value, _abi.OPERATION)
    for index in range(count.value):
        library.pk_operation_info(index, info[index : index + 1])
    return [(row["name"].decode(), bool(row["returns_bool"])) for row in info]


@functools.cache
def operations() -> dict[str, int]:
    """Return the opcode of every operation."""
    return {name: _abi.FIRST_OPERATION + index for index, (name, _) in enumerate(_listed())}


@functools.cache
def truths() -> frozenset[str]:
    """Return the operations whose result is a bool."""
    return frozenset(name for name, is_truth in _listed() if is_truth)


@dataclass(frozen=True, slots=True)
class Value:
    """What an instruction defines."""

    index: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number: it takes the type of its company, as NumPy has it, and then becomes an operand."""

    type: type
    position: int | None  # among the inputs of a call, or None for a literal
    value: Any = None
