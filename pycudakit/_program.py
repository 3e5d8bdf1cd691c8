"""Elementwise programs: NumPy's functions and types, as instructions for `pk_evaluate`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit import _abi
from pycudakit._lowering import LOWERED, as_named
from pycudakit._values import (
    BOOL,
    CODES,
    OF_ANY_INTEGER,
    DType,
    Scalar,
    Value,
    beyond_all,
    operations,
    truths,
)

if TYPE_CHECKING:
    from pycudakit._cost import Estimate
    from pycudakit._execute import Work


@dataclass(frozen=True, slots=True)
class Operand:
    """Where one of a program's operands comes from, and its type in the program."""

    source: str  # "input", "scalar", "mask", "out" or "constant"
    position: int
    dtype: DType
    constant: np.ndarray[Any, Any] | None = None


class Program:
    """Instructions, and what they apply to."""

    def __init__(
        self,
        instructions: np.ndarray[Any, Any],
        names: tuple[str, ...],
        operands: tuple[Operand, ...],
        out_dtypes: tuple[DType, ...],
        may_refuse: bool = False,
    ) -> None:
        self.instructions = instructions
        self.names = names  # the NumPy function that each instruction is part of, for its warnings
        self.operands = operands
        self.out_dtypes = out_dtypes
        # Read and written for an element, where all arrays have as many.
        self.in_bytes = sum(o.dtype.itemsize for o in operands if o.source in ("input", "mask"))
        self.out_bytes = sum(dtype.itemsize for dtype in out_dtypes)
        self.may_refuse = may_refuse  # an element, when others are written already
        self.idle: list[Work] = []  # that is prepared for calls, and which none is at
        # For the cost model: each function with the type of its arguments; and what it made of them.
        self.work = tuple(
            (f"cast {_abi.TYPES[to]}" if op == _abi.CAST else name, type_)
            for name, (op, type_, to, *_) in zip(names, instructions.tolist(), strict=True)
            if op not in (_abi.LOAD, _abi.STORE)
        )
        self.estimate: Estimate | None = None
        # Where a float becomes an integer, NumPy disagrees with itself out of range, and so with us.
        self.numpy_agrees = not any(
            op == _abi.CAST and _abi.TYPES[type_].kind == "f" and _abi.TYPES[to].kind in "iu"
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
        table = np.zeros(len(self.operands), _abi.OPERAND)
        for index, operand in enumerate(self.operands):
            table["type"][index] = CODES[operand.dtype]
            if operand.constant is not None:
                table["address"][index] = _abi.address_of(operand.constant)
            elif operand.source != "scalar":
                table["strides"][index, 0] = operand.dtype.itemsize
        return table


@functools.lru_cache(4096)
def resolve(
    name: str,
    types: tuple[DType | type, ...],
    out: tuple[DType | None, ...],
    dtype: DType | None,
    casting: str,
) -> tuple[DType, ...]:
    """Return the types of the loop that NumPy's ufunc would run; raise as NumPy does where it has none."""
    ufunc = getattr(np, name)
    keywords = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype,) * ufunc.nout}
    # NumPy's resolve_dtypes crashes on Python numbers under the rule "equiv"; "no" is the same rule here,
    # where byte orders are native, but takes such numbers as any type.
    equiv = casting == "equiv" and any(isinstance(t, type) for t in types)
    rule = "no" if equiv else casting
    loop: tuple[DType, ...] = ufunc.resolve_dtypes((*types, *out), casting=rule, **keywords)
    for given, taken in zip(types, loop, strict=False):
        exempt = name in OF_ANY_INTEGER and taken.kind in "iub"
        if equiv and isinstance(given, type) and taken != np.dtype(given) and not exempt:
            raise TypeError(f"cannot cast Python {given.__name__} to {taken} under the casting rule 'equiv'")
    return tuple(d.newbyteorder("=") for d in loop)


class Builder:
    """Writes a program, one function after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit._program import Builder
    >>> builder = Builder()
    >>> x = builder.load("input", 0, np.dtype("float32"))
    >>> (root,) = builder.call("sqrt", x)
    >>> builder.store(root, 0)
    >>> builder.finish().out_dtypes
    (dtype('float32'),)
    """

    def __init__(self) -> None:
        self._instructions: list[tuple[int, int, int, int, int, int]] = []
        self._names: list[str] = []
        self._operands: list[Operand] = []
        self._name = "cast"
        self._known: dict[tuple[int, ...], Value] = {}
        self._loaded: dict[tuple[Any, ...], Value] = {}
        self._out_dtypes: list[DType] = []
        self._may_refuse = False
        self.mask: Value | None = None
        self.harmless = 1

    def _add(self, dtype: DType, op: int, type_: DType, *arguments: int) -> Value:
        a, b, c = (*arguments, 0, 0, 0)[:3]
        instruction = (op, CODES[type_], CODES[dtype], a, b, c)
        known = self._known.get(instruction)  # the same operation on the same values is done once
        if known is None or op == _abi.STORE:
            known = self._known[instruction] = Value(len(self._instructions), dtype)
            self._instructions.append(instruction)
            self._names.append(self._name)
        return known

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Say which function the instructions written in the block are part of."""
        outer, self._name = self._name, name
        yield
        self._name = outer

    def load(
        self, source: str, position: int, dtype: DType, constant: np.ndarray[Any, Any] | None = None
    ) -> Value:
        """Load an operand; the same one twice is one operand."""
        key = (source, position, dtype, None if constant is None else constant.tobytes())
        if key not in self._loaded:
            self._operands.append(Operand(source, position, dtype, constant))
            self._loaded[key] = self._add(dtype, _abi.LOAD, dtype, len(self._operands) - 1)
        return self._loaded[key]

    def constant(self, value: Any, dtype: DType) -> Value:
        """Load a number; `OverflowError` if the type cannot hold it."""
        return self.load("constant", 0, dtype, np.asarray(value, dtype=dtype))

    def cast(self, value: Value | Scalar, dtype: DType) -> Value:
        """Convert a value to a type, or give a Python number its type."""
        if isinstance(value, Scalar):
            if value.position is None:
                return self.constant(value.value, dtype)
            return self.load("scalar", value.position, dtype)
        with self.naming("cast"):
            return self.convert(value, dtype)

    def convert(self, value: Value, dtype: DType) -> Value:
        """Convert a value as a part of the function being written, which is who warns."""
        return value if value.dtype == dtype else self._add(dtype, _abi.CAST, value.dtype, value.index)

    def apply(self, operation: str, *values: Value) -> Value:
        """Apply an operation of ops.def to values of one type, the first of three being a bool."""
        dtype = values[-1].dtype
        result = BOOL if operation in truths() else dtype
        return self._add(result, operations()[operation], dtype, *(value.index for value in values))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Take one of two values of one type."""
        return self.apply("where", condition, yes, no)

    def masked(self, value: Value) -> Value:
        """Replace a value where the call's mask is off, so that nothing is reported there."""
        if self.mask is None:
            return value
        return self.select(self.mask, value, self.constant(self.harmless, value.dtype))

    def call(
        self,
        name: str,
        *arguments: Value | Scalar,
        out: tuple[DType | None, ...] | None = None,
        dtype: DType | None = None,
        casting: str = "same_kind",
    ) -> tuple[Value, ...]:
        """Apply a NumPy ufunc, by name, with NumPy's promotion and errors."""
        types = tuple(a.type if isinstance(a, Scalar) else a.dtype for a in arguments)
        outputs = getattr(np, name).nout
        loop = resolve(name, types, out or (None,) * outputs, dtype, casting)
        if name in OF_ANY_INTEGER:
            held = tuple(_held(a, t) for a, t in zip(arguments, loop, strict=False))
            if held != arguments:
                return self.call(name, *held, out=out, dtype=dtype, casting=casting)
        unsupported = [d for d in loop if d not in CODES]
        if unsupported:
            raise TypeError(f"{name} has no loop for {unsupported[0]} but NumPy's own")
        with self.naming(getattr(np, name).__name__):  # warnings of mod speak of remainder
            if name == "power":
                product = self._multiplied(arguments[0], arguments[1], loop[0])
                if product is not None:
                    return (product,)
                self._may_refuse |= loop[0].kind == "i"
            values = []
            for argument, type_ in zip(arguments, loop, strict=False):
                value = self.cast(argument, type_)
                values.append(self.masked(value) if isinstance(argument, Scalar) else value)
            result = LOWERED.get(name, as_named(name))(self, *values)
        return result if isinstance(result, tuple) else (result,)

    def _multiplied(self, base: Value | Scalar, exponent: Value | Scalar, dtype: DType) -> Value | None:
        """Raise to a literal power by multiplication: integers exactly, floats within the error bound."""
        number = exponent.value if isinstance(exponent, Scalar) else None
        if number is None or isinstance(base, Scalar):
            return None
        if dtype.kind in "iu":
            np.asarray(number, dtype)  # raises OverflowError
            if number < 0:
                raise ValueError("Integers to negative integer powers are not allowed.")
        if number not in range(1, 65 if dtype.kind in "iu" else 5):
            return None
        rest, factor, product = int(number), self.cast(base, dtype), None
        while rest:
            if rest & 1:
                product = factor if product is None else self.apply("multiply", product, factor)
            rest >>= 1
            factor = self.apply("multiply", factor, factor) if rest else factor
        return product

    def store(self, value: Value, position: int) -> None:
        """Store a value to an output."""
        self._out_dtypes.append(value.dtype)
        known = next(
            (i for i, o in enumerate(self._operands) if o.source == "out" and o.position == position), None
        )
        if known is None:
            known = len(self._operands)
            self._operands.append(Operand("out", position, value.dtype))
        self._add(value.dtype, _abi.STORE, value.dtype, value.index, known)

    def finish(self) -> Program:
        """Return the program."""
        instructions = np.array(self._instructions, _abi.INSTRUCTION)
        instructions.flags.writeable = False
        return Program(
            instructions,
            tuple(self._names),
            tuple(self._operands),
            tuple(self._out_dtypes),
            self._may_refuse,
        )


def _held(argument: Value | Scalar, dtype: DType) -> Value | Scalar:
    """Replace a literal integer that a type cannot hold by an infinity."""
    number = argument.value if isinstance(argument, Scalar) else None
    if type(number) is not int or dtype.kind not in "iu":
        return argument
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max:
        return argument
    return Scalar(float, None, beyond_all(number))
