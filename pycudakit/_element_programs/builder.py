"""A builder that appends instructions to an elementwise program, one operation after the other."""

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
    """Builds a program instruction by instruction, with common subexpressions computed once.

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
        self._is_quiet = self._is_whole = False
        self._calls: list[int] = []  # for each instruction, the function call that it belongs to
        self._namings = 0
        self._known: dict[tuple[Any, ...], Value] = {}
        self._loaded: dict[tuple[Any, ...], Value] = {}
        self._out_dtypes: list[DType] = []
        self.may_raise = False
        self.mask: Value | None = None
        self.neutral_value = 1

    def _add(self, dtype: DType, op: int, type_: DType, *arguments: int) -> Value:
        a, b, c = (*arguments, 0, 0, 0)[:3]
        instruction = (op, CODES[type_], CODES[dtype], a, b, c)
        key = (*instruction, self._is_quiet)
        value = self._known.get(key)  # the same operation on the same values is done once
        if value is None or op == abi.OP_STORE:
            value = self._known[key] = Value(len(self._instructions), dtype)
            self._instructions.append(instruction)
            self._names.append("" if self._is_quiet else self._name)
            self._calls.append(self._call)
        return value

    @contextmanager
    def naming(self, name: str, whole: bool = False) -> Iterator[None]:
        """Attribute the instructions written in the block to a function, for its warnings and its cost.

        With `whole`, those of the functions that it is made of, too.
        """
        outer = self._name, self._call, self._is_whole
        if not self._is_whole:
            self._namings += 1
            self._name, self._call, self._is_whole = name, self._namings, whole
        yield
        self._name, self._call, self._is_whole = outer

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Report no floating-point errors of the instructions written in the block."""
        outer, self._is_quiet = self._is_quiet, True
        yield
        self._is_quiet = outer

    def load(
        self, source: str, position: int, dtype: DType, constant: np.ndarray[Any, Any] | None = None
    ) -> Value:
        """Load an operand; loading the same one twice adds it once."""
        dtype = abi.TYPES[CODES[dtype]]  # one representative of equal dtypes, such as ulonglong and uint64
        key = (source, position, dtype, None if constant is None else constant.tobytes())
        if key not in self._loaded:
            self._operands.append(Operand(source, position, dtype, constant))
            self._loaded[key] = self._add(dtype, abi.OP_LOAD, dtype, len(self._operands) - 1)
        return self._loaded[key]

    def constant(self, value: Any, dtype: DType) -> Value:
        """Load a constant; raise `OverflowError` if the type cannot hold it."""
        return self.load("constant", 0, dtype, np.asarray(value, dtype=dtype))

    def cast(self, value: Value | WeakScalar, dtype: DType) -> Value:
        """Convert a value to a type, or give a weakly typed Python number its type."""
        if isinstance(value, WeakScalar):
            if value.position is None:
                return self.constant(value.value, dtype)
            return self.load("scalar", value.position, dtype)
        with self.naming("cast"):
            return self.convert(value, dtype)

    def convert(self, value: Value, dtype: DType) -> Value:
        """Convert a value within the function being written, which then reports the conversion's errors."""
        return value if value.dtype == dtype else self._add(dtype, abi.OP_CAST, value.dtype, value.index)

    def apply(self, operation: str, *values: Value) -> Value:
        """Apply an operation of ops.def to values of one type; the first of three values is a bool."""
        dtype = values[-1].dtype
        result = BOOL if operation in bool_operations() else dtype
        return self._add(result, operations()[operation], dtype, *(value.index for value in values))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Select one of two values of one type by a condition."""
        return self.apply("where", condition, yes, no)

    def masked(self, value: Value) -> Value:
        """Replace a value by a neutral one where the call's mask is off, so that it raises no FP flags."""
        if self.mask is None:
            return value
        return self.select(self.mask, value, self.constant(self.neutral_value, value.dtype))

    @contextmanager
    def masking(self, mask: Value, neutral_value: int) -> Iterator[None]:
        """Suppress FP flags where a mask is off, for the functions written in the block."""
        outer = self.mask, self.neutral_value
        self.mask, self.neutral_value = mask, neutral_value
        yield
        self.mask, self.neutral_value = outer

    def store(self, value: Value, position: int) -> None:
        """Store a value to an output."""
        self._out_dtypes.append(value.dtype)
        operand = next(
            (i for i, o in enumerate(self._operands) if o.source == "out" and o.position == position), None
        )
        if operand is None:
            operand = len(self._operands)
            self._operands.append(Operand("out", position, value.dtype))
        self._add(value.dtype, abi.OP_STORE, value.dtype, value.index, operand)

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
