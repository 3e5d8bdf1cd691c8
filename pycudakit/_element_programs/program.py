"""An elementwise program as data: instructions and operands for `pk_evaluate`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit._native.dtypes import CODES, DType


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a program: its source in the call, and its type in the program."""

    source: str  # "input", "scalar", "mask", "out" or "constant"
    position: int
    dtype: DType
    constant: np.ndarray[Any, Any] | None = None


class ElementProgram:
    """A program: a list of instructions for a register machine, and the operands that they load and store."""

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
        # Bytes read and written per element, if all arrays have the full shape.
        self.in_bytes = sum(o.dtype.itemsize for o in operands if o.source in ("input", "mask"))
        self.out_bytes = sum(dtype.itemsize for dtype in out_dtypes)
        self.may_raise = may_raise  # for one element's value, after others have been written
        # For the cost model: of each instruction, the function, the type of its arguments, and the call of a
        # function that it belongs to.
        self.work = tuple(
            (f"cast {abi.TYPES[to]}" if op == abi.OP_CAST else name, type_, call)
            for name, call, (op, type_, to, *_) in zip(names, calls, instructions.tolist(), strict=True)
            if op not in (abi.OP_LOAD, abi.OP_STORE)
        )
        # NumPy's own loops disagree with each other, and so with ours, where a float out of range becomes
        # an integer. Exponents from frexp are never out of range.
        self.numpy_agrees = "frexp" in names or not any(
            op == abi.OP_CAST and abi.TYPES[type_].kind == "f" and abi.TYPES[to].kind in "iu"
            for op, type_, to, *_ in instructions.tolist()
        )

    @functools.cached_property
    def arrays(self) -> tuple[tuple[int, int], ...]:
        """Operands that are arrays of the call, as (operand, position among outputs, mask and inputs)."""
        first = {"out": 0, "mask": len(self.out_dtypes), "input": len(self.out_dtypes) + 1}
        return tuple(
            (i, first[o.source] + o.position) for i, o in enumerate(self.operands) if o.source in first
        )

    @functools.cached_property
    def numbers(self) -> tuple[tuple[int, int, DType], ...]:
        """Operands that are Python numbers, as (operand, position in the call, type)."""
        first = len(self.out_dtypes) + 1
        scalars = ((i, o) for i, o in enumerate(self.operands) if o.source == "scalar")
        return tuple((i, first + o.position, o.dtype) for i, o in scalars)

    @functools.cached_property
    def table(self) -> np.ndarray[Any, Any]:
        """The operand table that a call starts from, with the strides of dense arrays."""
        table = np.zeros(len(self.operands), abi.OPERAND)
        for index, operand in enumerate(self.operands):
            table["type"][index] = CODES[operand.dtype]
            if operand.constant is not None:
                table["address"][index] = abi.address_of(operand.constant)
            elif operand.source != "scalar":
                table["strides"][index, 0] = operand.dtype.itemsize
        return table
