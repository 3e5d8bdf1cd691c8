"""A program as data: instructions for `pk_evaluate`, and what they apply to."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit._native.dtypes import CODES, DType


@dataclass(frozen=True, slots=True)
class Operand:
    """Where one of a program's operands comes from, and its type in the program."""

    source: str  # "input", "scalar", "mask", "out" or "constant"
    position: int
    dtype: DType
    constant: np.ndarray[Any, Any] | None = None


class ElementProgram:
    """Instructions, and what they apply to."""

    def __init__(
        self,
        instructions: np.ndarray[Any, Any],
        names: tuple[str, ...],
        calls: tuple[int, ...],
        operands: tuple[Operand, ...],
        out_dtypes: tuple[DType, ...],
        may_raise: bool = False,
    ) -> None:
        self.instructions = instructions
        self.names = names  # the NumPy function that each instruction is part of, for its warnings
        self.operands = operands
        self.out_dtypes = out_dtypes
        # Read and written for an element, where all arrays have as many.
        self.in_bytes = sum(o.dtype.itemsize for o in operands if o.source in ("input", "mask"))
        self.out_bytes = sum(dtype.itemsize for dtype in out_dtypes)
        self.may_raise = may_raise  # an element, when others are written already
        # For the cost model: of each instruction the function, the type of its arguments, and which call of a
        # function it is a part of.
        self.work = tuple(
            (f"cast {abi.TYPES[to]}" if op == abi.OP_CAST else name, type_, call)
            for name, call, (op, type_, to, *_) in zip(names, calls, instructions.tolist(), strict=True)
            if op not in (abi.OP_LOAD, abi.OP_STORE)
        )
        # Where a float becomes an integer, NumPy disagrees with itself, and so with us, out of range, where
        # exponents never are.
        self.numpy_agrees = "frexp" in names or not any(
            op == abi.OP_CAST and abi.TYPES[type_].kind == "f" and abi.TYPES[to].kind in "iu"
            for op, type_, to, *_ in instructions.tolist()
        )

    @functools.cached_property
    def arrays(self) -> tuple[tuple[int, int], ...]:
        """Each operand that is a call's own array, and which one: of its outputs, its mask and its inputs."""
        first = {"out": 0, "mask": len(self.out_dtypes), "input": len(self.out_dtypes) + 1}
        return tuple(
            (i, first[o.source] + o.position) for i, o in enumerate(self.operands) if o.source in first
        )

    @functools.cached_property
    def numbers(self) -> tuple[tuple[int, int, DType], ...]:
        """Each operand that is a Python number, which one of those, and its type."""
        first = len(self.out_dtypes) + 1
        scalars = ((i, o) for i, o in enumerate(self.operands) if o.source == "scalar")
        return tuple((i, first + o.position, o.dtype) for i, o in scalars)

    @functools.cached_property
    def table(self) -> np.ndarray[Any, Any]:
        """What a call's operand table starts from, with the strides of arrays that are all dense."""
        table = np.zeros(len(self.operands), abi.OPERAND)
        for index, operand in enumerate(self.operands):
            table["type"][index] = CODES[operand.dtype]
            if operand.constant is not None:
                table["address"][index] = abi.address_of(operand.constant)
            elif operand.source != "scalar":
                table["strides"][index, 0] = operand.dtype.itemsize
        return table
