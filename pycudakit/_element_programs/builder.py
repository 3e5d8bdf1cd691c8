"""Programs, written instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pycudakit._element_programs.program import ElementProgram, Operand
from pycudakit._element_programs.values import Value, WeakScalar, bool_operations, operations
from pycudakit._native import abi
from pycudakit._native.dtypes import BOOL, CODES, DType


class Builder:
    """Writes a program, one function after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit._element_programs.builder import Builder
    >>> builder = Builder()
    >>> x = builder.load("input", 0, np.dtype("float32"))
    >>> root = builder.apply("sqrt", x)
    >>> builder.store(root, 0)
    >>> builder.finish().out_dtypes
    (dtype('float32'),)
    """

    def __init__(self) -> None:
        self._instructions: list[tuple[int, int, int, int, int, int]] = []
        self._names: list[str] = []
        self._operands: list[Operand] = []
        self._name, self._call = "cast", 0
        self._calls: list[int] = []  # each instruction's
        self._namings = 0
        self._known: dict[tuple[int, ...], Value] = {}
        self._loaded: dict[tuple[Any, ...], Value] = {}
        self._out_dtypes: list[DType] = []
        self.may_raise = False
        self.mask: Value | None = None
        self.neutral_value = 1

    def _add(self, dtype: DType, op: int, type_: DType, *arguments: int) -> Value:
        a, b, c = (*arguments, 0, 0, 0)[:3]
        instruction = (op, CODES[type_], CODES[dtype], a, b, c)
        known = self._known.get(instruction)  # the same operation on the same values is done once
        if known is None or op == abi.OP_STORE:
            known = self._known[instruction] = Value(len(self._instructions), dtype)
            self._instructions.append(instruction)
            self._names.append(self._name)
            self._calls.append(self._call)
        return known

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Say which function the instructions written in the block are part of."""
        outer = self._name, self._call
        self._namings += 1
        self._name, self._call = name, self._namings
        yield
        self._name, self._call = outer

    def load(
        self, source: str, position: int, dtype: DType, constant: np.ndarray[Any, Any] | None = None
    ) -> Value:
        """Load an operand; the same one twice is one operand."""
        dtype = abi.TYPES[CODES[dtype]]  # the usual one of equal ones, such as ulonglong and uint64
        key = (source, position, dtype, None if constant is None else constant.tobytes())
        if key not in self._loaded:
            self._operands.append(Operand(source, position, dtype, constant))
            self._loaded[key] = self._add(dtype, abi.OP_LOAD, dtype, len(self._operands) - 1)
        return self._loaded[key]

    def constant(self, value: Any, dtype: DType) -> Value:
        """Load a number; `OverflowError` if the type cannot hold it."""
        return self.load("constant", 0, dtype, np.asarray(value, dtype=dtype))

    def cast(self, value: Value | WeakScalar, dtype: DType) -> Value:
        """Convert a value to a type, or give a Python number its type."""
        if isinstance(value, WeakScalar):
            if value.position is None:
                return self.constant(value.value, dtype)
            return self.load("scalar", value.position, dtype)
        with self.naming("cast"):
            return self.convert(value, dtype)

    def convert(self, value: Value, dtype: DType) -> Value:
        """Convert a value as a part of the function being written, which is who warns."""
        return value if value.dtype == dtype else self._add(dtype, abi.OP_CAST, value.dtype, value.index)

    def apply(self, operation: str, *values: Value) -> Value:
        """Apply an operation of ops.def to values of one type, the first of three being a bool."""
        dtype = values[-1].dtype
        result = BOOL if operation in bool_operations() else dtype
        return self._add(result, operations()[operation], dtype, *(value.index for value in values))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Take one of two values of one type."""
        return self.apply("where", condition, yes, no)

    def masked(self, value: Value) -> Value:
        """Replace a value where the call's mask is off, so that nothing is reported there."""
        if self.mask is None:
            return value
        return self.select(self.mask, value, self.constant(self.neutral_value, value.dtype))

    @contextmanager
    def masking(self, mask: Value, neutral_value: int) -> Iterator[None]:
        """Have the functions written in the block report nothing where a mask is off."""
        outer = self.mask, self.neutral_value
        self.mask, self.neutral_value = mask, neutral_value
        yield
        self.mask, self.neutral_value = outer

    def store(self, value: Value, position: int) -> None:
        """Store a value to an output."""
        self._out_dtypes.append(value.dtype)
        known = next(
            (i for i, o in enumerate(self._operands) if o.source == "out" and o.position == position), None
        )
        if known is None:
            known = len(self._operands)
            self._operands.append(Operand("out", position, value.dtype))
        self._add(value.dtype, abi.OP_STORE, value.dtype, value.index, known)

    def finish(self) -> ElementProgram:
        """Return the program."""
        instructions = np.array(self._instructions, abi.INSTRUCTION)
        instructions.flags.writeable = False
        return ElementProgram(
            instructions,
            tuple(self._names),
            tuple(self._calls),
            tuple(self._operands),
            tuple(self._out_dtypes),
            self.may_raise,
        )
