"""Programs prepared for `pk_evaluate`: arguments are bound once, and each call sets its operands."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.fp_errors import report_fp_flags
from pycudakit._runtime.native_call import NativeCall, Pool, fallback_choice
from pycudakit._runtime.operands import Layout, strides_of


class PreparedProgram(NativeCall):
    """One program with its prepared arguments for `pk_evaluate`; it serves one call at a time."""

    entry = "pk_evaluate"
    resumes = True

    def __init__(self, program: ElementProgram) -> None:
        super().__init__()
        self.program = program
        self.table = program.table.copy()
        self.addresses: Array = self.table["address"]
        self._strides = self.table["strides"]
        self._flags = self.table["flags"]
        self._arrays = program.arrays
        self._numbers: list[tuple[Array, int]] = []
        for index, position, dtype in program.numbers:
            number = np.empty((), dtype)
            self.addresses[index] = address_of(number)
            self._numbers.append((number, position))
        self.shape = np.empty(abi.MAX_DIMS, np.int64)
        self.dimensions = ctypes.c_int64(1)
        self._bound_layout: list[Any] | None = None  # the last call's shape and strides, if not dense
        self.fp_flags: Array = np.empty(len(program.instructions), np.uint8)  # per instruction, last call

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        instructions = self.program.instructions
        return abi.bound(
            *(library, self.entry),
            *(instructions, ctypes.c_int64(len(instructions))),
            *(self.table, ctypes.c_int64(len(self.table))),
            *(self.shape, self.dimensions),
            *(self.options, self.fp_flags, self.report),
        )

    def key(self) -> tuple[Any, ...]:
        """Return a key of the call that is bound: its program, its operands and its numbers."""
        numbers = [number.tobytes() for number, _ in self._numbers]
        shape = self.shape[: self.dimensions.value].tobytes()
        return id(self.program), self.table.tobytes(), shape, *numbers

    def bind_dense(self, size: int, *values: Any) -> None:
        """Bind dense operands: outputs, mask and inputs. The caller keeps them alive during the call.

        The arrays are dense, of native types, and all of one shape.
        """
        if self._bound_layout is not None:
            self._reset_layout()
        for number, position in self._numbers:
            number[()] = values[position]
        for index, position in self._arrays:
            self.addresses[index] = address_of(values[position])
        self.shape[0] = size

    def bind_strided(
        self, shape: tuple[int, ...], values: Sequence[Any], layouts: Sequence[Layout | None]
    ) -> None:
        """Bind operands of any layouts, which are broadcast to a shape."""
        array_layouts = [layouts[position] for _, position in self._arrays]
        layout_key = [shape, *[layout[1] for layout in array_layouts]]  # type: ignore[index]
        if layout_key != self._bound_layout:
            self._set_layout(shape, [values[position] for _, position in self._arrays])
            self._bound_layout = layout_key
        for number, position in self._numbers:
            number[()] = values[position]
        for (index, _), layout in zip(self._arrays, array_layouts, strict=True):
            self.addresses[index] = layout[0]  # type: ignore[index]

    def operands_of(self, values: Sequence[Any]) -> list[tuple[int, Any]]:
        """Return the operands that are arrays, each with its index in the operand table."""
        return [(index, values[position]) for index, position in self._arrays]

    def _set_layout(self, shape: tuple[int, ...], arrays: Sequence[Array]) -> None:
        if self._bound_layout is not None:
            self._reset_layout()
        if all(a.shape == shape and a.flags.c_contiguous and a.dtype.isnative for a in arrays):
            self.shape[0] = math.prod(shape)
            return
        self.shape[: len(shape)] = shape
        self.dimensions.value = len(shape)
        for (index, _), array in zip(self._arrays, arrays, strict=True):
            self._strides[index, : len(shape)] = strides_of(array, shape)
            if not array.dtype.isnative:
                self._flags[index] = abi.OPERAND_BYTE_SWAPPED

    def _reset_layout(self) -> None:
        self.dimensions.value = 1
        self._strides[...] = self.program.table["strides"]
        self._flags[...] = 0
        self._bound_layout = None

    def fall_back(self, choice: EngineChoice, call_context: context.CallContext, rest: Array | None) -> int:
        """Compute on the CPU engine the chunks that the CUDA engine has not delivered."""
        if rest is None:
            return super().fall_back(choice, call_context, rest)
        ranges = rest["ranges"][0, : rest["count"][0]]
        remaining, size = int(ranges["count"].sum()), int(np.prod(self.shape[: self.dimensions.value]))
        cuda_flags = self.fp_flags.copy() if remaining else np.zeros_like(self.fp_flags)
        progress = f", with {remaining:,} of {size:,} elements left" if remaining else ""
        fp_flags = self._run_with_options(fallback_choice(choice, progress), call_context, rest)
        self.fp_flags |= cuda_flags
        return fp_flags | int(cuda_flags.max())

    def report_fp_flags(self) -> None:
        """Raise or warn as NumPy does for the FP flags of the last call."""
        report_instruction_flags(self.program, self.fp_flags)


@functools.lru_cache(4096)
def prepared_programs(program: ElementProgram) -> Pool[PreparedProgram]:
    """Return the pool of prepared programs for a program."""
    return Pool(functools.partial(PreparedProgram, program))


def report_instruction_flags(program: ElementProgram, fp_flags: Array) -> None:
    """Report the FP flags of each instruction, by function, as `np.errstate` says."""
    by_function: dict[str, int] = {}
    for name, flags in zip(program.names, fp_flags.tolist(), strict=True):
        by_function[name] = by_function.get(name, 0) | flags
    if any(flags & abi.FPE_NEGATIVE_POWER for flags in by_function.values()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    by_function.pop("", None)  # of quiet instructions
    report_fp_flags(by_function)
