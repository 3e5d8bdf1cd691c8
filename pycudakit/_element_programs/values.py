"""The values and operations that elementwise programs are written in."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit._native.dtypes import DType

# Comparisons need not hold a Python integer in the type of the other operand: only how it compares matters.
ACCEPTS_ANY_INTEGER = frozenset(
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split()  # noqa: SIM905
)


def infinity_like(number: int) -> float:
    """Return the infinity that compares as an integer out of a type's range does.

    The integer may be out of float64's range, too.
    """
    return math.inf if number > 0 else -math.inf


def _library() -> ctypes.CDLL | None:
    for engine in ("cpu", "cuda"):
        with contextlib.suppress(errors.NoDevice):
            return loader.library(engine)
    return None


@functools.cache
def _listed() -> list[tuple[str, bool]]:
    """Return each operation of ops.def, as a library lists them, with whether its result is a bool."""
    library = _library()
    if library is None:
        return operations_from_numpy()
    count = ctypes.c_int64()
    library.pk_operation_count(ctypes.byref(count))
    info = np.zeros(count.value, abi.OPERATION)
    for index in range(count.value):
        library.pk_operation_info(index, info[index : index + 1])
    return [(row["name"].decode(), bool(row["returns_bool"])) for row in info]


def operations_from_numpy() -> list[tuple[str, bool]]:
    """Return the operations from NumPy's ufuncs, for programs that only infer types without a library."""
    ufuncs = [(name, ufunc) for name, ufunc in vars(np).items() if isinstance(ufunc, np.ufunc)]
    bool_operations = [
        (name, any(types.startswith("d") and types.endswith("?") for types in ufunc.types))
        for name, ufunc in ufuncs
    ]
    ours = ("where", "frexp_fraction", "frexp_exponent", "nextafter_half")
    return bool_operations + [(name, False) for name in ours]


@functools.cache
def operations() -> dict[str, int]:
    """Return the opcode of every operation."""
    return {name: abi.OP_FIRST + index for index, (name, _) in enumerate(_listed())}


@functools.cache
def bool_operations() -> frozenset[str]:
    """Return the operations whose result is a bool."""
    return frozenset(name for name, returns_bool in _listed() if returns_bool)


@dataclass(frozen=True, slots=True)
class Value:
    """The result of an instruction."""

    index: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class WeakScalar:
    """A weakly typed Python scalar (NEP 50): it takes the dtype of the other operands."""

    type: type
    position: int | None  # among the inputs of a call, or None for a literal
    value: Any = None
