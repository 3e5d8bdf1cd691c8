"""The result of the static analysis of a function: flags of its instructions, which a trace reads.

An instruction is *risky* if it may read or write memory of the caller's arrays past the trace, so that the
operations that are pending on such memory must be computed before it.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pycudakit.fusing.bytecode.code_uses import callee_of
from pycudakit.fusing.bytecode.dispatched_calls import with_dispatched_calls
from pycudakit.fusing.bytecode.facts import Facts
from pycudakit.fusing.bytecode.number_flow import NumberFlow
from pycudakit.fusing.bytecode.opcodes import inner_codes, loads_attribute
from pycudakit.fusing.bytecode.sources import ArgumentSource
from pycudakit.fusing.bytecode.value_kinds import READS_ARRAY, Known, ObjectOf, kind_of
from pycudakit.fusing.memory.tracer import Tracer

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_KIND_IS_BY_TYPE = frozenset({Tracer, bool, int, float, str, bytes, complex, type(None), object})

# Flags of an instruction. The first three decide whether pending operations are computed at an operation, by
# the instructions that may run between it and the next operation that is surely recorded.
RISK_AHEAD = 1  # a risky instruction may run
MAY_RETURN = 2  # the function may return, so that the flags of the caller's instruction decide
RISK_ON_RAISE = 4  # a risky instruction of a handler may run, if this instruction raises
CONCRETE_NUMBER = 8  # the number that the instruction makes must be NumPy's scalar
DEFERRED_FLOAT = 16  # the float that the instruction makes of a number may stay deferred


class Risk(NamedTuple):
    """A risky instruction, for `explain`."""

    file: str
    line: int
    reason: str


class Analysis:
    """The analysis of a function for calls whose arguments have the same abstract types (kinds).

    Attributes
    ----------
    facts
        By source, the kinds that a call must have for the analysis to hold.
    bits
        By the id of a code object, the flags at each byte offset, as long as no number is concrete.
    bits_beside_concrete
        The same once some numbers are NumPy's scalars, whose operations run at once.
    risks
        The risky instructions.
    dispatched
        By code object, the indices of the calls that are redirected through a dispatcher, since the callee
        was not analysed, or has such calls.
    scalar_parameters
        The parameters that are used in arithmetic alone: their values are no part of a call's signature.
    """

    def __init__(self) -> None:
        self.facts: dict[Any, Any] = {}
        self._count, self._names = 0, set[str]()  # of the arguments
        self._types: list[tuple[int, type]] = []  # of arguments whose type settles their kind
        self._checks: list[tuple[Any, Any, type | None]] = []  # the facts; a type, if it settles the kind
        self.bits: dict[int, bytearray] = {}
        self.bits_beside_concrete: dict[int, bytearray] = {}
        self.codes: list[CodeType] = []  # keeps the ids valid
        self.dispatched: dict[CodeType, set[int]] = {}
        # Code whose calls are rewritten (`dispatched_calls`): the new code by the id of the original, and the
        # id of the original by the id of the new code.
        self._rewritten: dict[int, CodeType] = {}
        self._originals: dict[int, int] = {}
        self.risks: list[Risk] = []
        self.concrete_numbers: dict[
            tuple[int, int], str
        ] = {}  # why, by the id of a code object and an offset
        self.unanalysed = ""  # why the function could not be analysed
        self.scalar_parameters: frozenset[str] = frozenset()

    def holds_for(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Return True if a call has the kinds that the analysis has read."""
        if len(arguments) != self._count or keywords.keys() != self._names:
            return False
        for index, wanted in self._types:
            if type(arguments[index]) is not wanted:
                return False
        for source, kind, cls in self._checks:
            value = source.read(arguments, keywords)
            if cls is not None:
                if type(value) is not cls:
                    return False
            elif type(kind) is Known:
                if value is not kind.value:
                    return False
            elif kind_of(value, source) != kind:
                return False
        return True

    def set_facts(self, facts: Facts, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Set the facts that later calls are compared with."""
        self.facts, self._count, self._names = facts.kinds, len(arguments), set(keywords)
        for source, kind in facts.kinds.items():
            cls = type(source.read(arguments, keywords))
            is_by_type = cls in _KIND_IS_BY_TYPE or type(kind) is ObjectOf
            if is_by_type and type(source) is ArgumentSource and type(source.key) is int:
                self._types.append((source.key, cls))
            else:
                self._checks.append((source, kind, cls if is_by_type else None))

    def dispatching(self, code: CodeType, dispatch: Callable[..., Any], all_calls: bool = False) -> CodeType:
        """Return code that runs in place of a function's, and dispatches the calls that need it, or all."""
        found = self._rewritten.get(id(code))
        if found is None:
            is_analysed = id(code) in self.bits and not self.unanalysed
            calls = self.dispatched if is_analysed and not all_calls else None
            found = self._rewritten[id(code)] = with_dispatched_calls(code, calls, dispatch)
            self._copy_bits(code, found)
        return found

    def has_dispatched(self, code: CodeType) -> bool:
        """Return True for code that has calls to dispatch, or that was not analysed."""
        return code in self.dispatched or id(code) not in self.bits

    @staticmethod
    def loads_attribute(frame: FrameType) -> bool:
        """Return True if a frame runs an instruction that loads an attribute."""
        return loads_attribute(frame)

    @staticmethod
    def calls_f2py(frame: FrameType) -> bool:
        """Return True if a frame calls a function of f2py by the name of a variable or global."""
        return type(callee_of(frame)).__name__ == "fortran"

    def _copy_bits(self, code: CodeType, new: CodeType) -> None:
        if new is not code:
            self.codes += [code, new]
            self._originals[id(new)] = id(code)
            for bits in (self.bits, self.bits_beside_concrete):
                if id(code) in bits:
                    bits[id(new)] = bits[id(code)]
            for inner, new_inner in zip(inner_codes(code), inner_codes(new), strict=True):
                self._copy_bits(inner, new_inner)

    @property
    def is_pure(self) -> bool:
        """Whether there is no risky instruction, and every number may stay deferred."""
        return not (self.has_risks or self.concrete_numbers)

    @property
    def has_risks(self) -> bool:
        """Whether there is a risky instruction, or might be."""
        return bool(self.risks or self.unanalysed)

    @property
    def only_reads_arrays(self) -> bool:
        """Whether the risky instructions do no more than to read arrays that are not arguments."""
        return not self.unanalysed and all(risk.reason.endswith(READS_ARRAY) for risk in self.risks)

    def described(self) -> tuple[str, ...]:
        """Return a text for each line with a risky instruction, or one that says why there is no analysis."""
        if self.unanalysed:
            return (f"each line: the function is not analysed, since {self.unanalysed}",)
        by_line = {(risk.file, risk.line): risk.reason for risk in reversed(self.risks)}
        return tuple(
            f"line {line} of {os.path.basename(file)}, `{linecache.getline(file, line).strip()}`: {reason}"
            for (file, line), reason in sorted(by_line.items())
        )

    def set_concrete_numbers(self, flow: NumberFlow) -> None:
        """Mark the instructions whose numbers must be NumPy's scalars."""
        self.concrete_numbers = {}
        for (_, code, offset), reason in flow.concrete_numbers().items():
            if code in self.bits:
                self.concrete_numbers[code, offset] = reason
                for each in range(offset, flow.ends[code, offset]):
                    self.bits[code][each] |= CONCRETE_NUMBER
                    self.bits_beside_concrete[code][each] |= CONCRETE_NUMBER

    def set_deferred_floats(self, flow: NumberFlow) -> None:
        """Mark the instructions whose floats may stay deferred."""
        for code, offset in flow.deferred_floats():
            for each in range(offset, flow.ends[code, offset]):
                self.bits[code][each] |= DEFERRED_FLOAT

    def defers_float(self, frame: FrameType) -> bool:
        """Return True if the float that a frame's instruction makes of a number may stay deferred."""
        bits = self.bits.get(id(frame.f_code))
        return bits is not None and bool(bits[frame.f_lasti] & DEFERRED_FLOAT)

    def why_concrete(self, frame: FrameType | None, outermost: CodeType) -> str:
        """Return why a number that a frame makes must be NumPy's scalar; "" if it may stay deferred."""
        while frame is not None and (code := frame.f_code) is not outermost:
            bits = self.bits.get(id(code))
            if bits is None:
                if not code.co_filename.startswith(_PACKAGE):
                    return f"{code.co_name}() is not analysed"
            elif bits[frame.f_lasti] & CONCRETE_NUMBER:
                return self._reason_at(id(code), frame.f_lasti)
            frame = frame.f_back
        return ""

    def _reason_at(self, code: int, offset: int) -> str:
        code = self._originals.get(code, code)
        begins = [begin for of, begin in self.concrete_numbers if of == code and begin <= offset]
        return self.concrete_numbers[code, max(begins)]

    def is_risk_ahead(self, frame: FrameType | None, outermost: CodeType, beside_concrete: bool) -> bool:
        """Return True if a risky instruction may come before the next operation.

        The next one may also be in a caller of the frame, up to the frame of the code `outermost`. With
        `beside_concrete`, operations of numbers may not be recorded.
        """
        bits_of = self.bits_beside_concrete if beside_concrete else self.bits
        is_first, may_return = True, 0
        while frame is not None and (code := frame.f_code) is not outermost:
            bits = bits_of.get(id(code))
            if bits is None:
                if not code.co_filename.startswith(_PACKAGE):
                    return True  # it was not analysed
            else:
                here = bits[frame.f_lasti]
                if (is_first or may_return) and here & RISK_AHEAD:
                    return True
                # The innermost frame has just recorded an operation, which did not raise.
                if here & RISK_ON_RAISE and not is_first:
                    return True
                may_return = here & MAY_RETURN if is_first else may_return & here
                is_first = False
            frame = frame.f_back
        return False
