"""Shared parts of the image functions: argument checks, operand tables and engine choice by cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pycudakit import errors
from pycudakit._native import abi
from pycudakit._native.dtypes import FLOAT32, UINT8, Array
from pycudakit._runtime import cost_model
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine
from pycudakit._runtime.operands import as_array, fill_operand_row

UINT16 = np.dtype(np.uint16)
TYPES = (UINT8, UINT16, FLOAT32)

ChannelAxis = Literal["auto", -1] | None


def as_image(function: str, image: Any, types: Sequence[np.dtype[Any]] = TYPES) -> Array:
    """Return the image as an array of one of the types; raise `Unsupported`, as NumPy cannot help either."""
    array = as_array(image)
    if array is None or array.dtype.newbyteorder("=") not in types:
        listed = ", ".join(t.name for t in types[:-1]) + f" and {types[-1].name}"
        dtype = getattr(image if array is None else array, "dtype", None)
        got = type(image).__name__ if dtype is None or dtype in types else dtype
        raise errors.Unsupported(f"{function} takes arrays of {listed}, not {got}; convert it first")
    return array


def operands_of(source: Array, result: Array) -> Array:
    """Make the operand table of a source and a result."""
    operands = np.zeros(2, abi.OPERAND)
    fill_operand_row(operands[0], source, source.strides)
    fill_operand_row(operands[1], result, result.strides)
    return operands


def shape_of(array: Array) -> Array:
    """Return the shape as int64, as the ABI takes it."""
    return np.array(array.shape, np.int64)


def plan_image(
    function: str, nanoseconds: float, up: int, down: int, numpy: float | None = None, gpu: float = 0.0
) -> EngineChoice:
    """Choose the engine of a call that takes `nanoseconds` on one thread, and `numpy` seconds in NumPy."""
    chosen = choose_engine(function, (), _cost_of(nanoseconds, up, down, numpy, gpu))
    if chosen.engine == "numpy" and numpy is None:
        raise errors.Unsupported(f"{function}: NumPy has no such function; choose another engine")
    return chosen


def _cost_of(nanoseconds: float, up: int, down: int, numpy: float | None, gpu: float) -> Cost:
    work = 1e-9 * nanoseconds
    workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
    moving = (up + down) / min(workers * cost_model.THREAD_BANDWIDTH, cost_model.HOST_BANDWIDTH)
    return Cost(numpy, cost_model.CALL + max(work / workers, moving), up, down, gpu)
