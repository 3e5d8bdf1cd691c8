"""Programs as a library runs them: `pk_evaluate`, prepared once for calls one by one."""

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
from pycudakit._runtime.engine_choice import Plan
from pycudakit._runtime.fp_errors import report_met
from pycudakit._runtime.native_call import Invocation, Pool, failed_over
from pycudakit._runtime.operands import Layout, strides_of


class Work(Invocation):
    """A program, with what `pk_evaluate` takes for it."""

    entry = "pk_evaluate"
    takes_rest = True

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
        self._spread: list[Any] | None = None  # the last call's shape and forms, if they were described
        self.met: Array = np.empty(len(program.instructions), np.uint8)  # by each in the last call

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        instructions = self.program.instructions
        return abi.bound(
            *(library, self.entry),
            *(instructions, ctypes.c_int64(len(instructions))),
            *(self.table, ctypes.c_int64(len(self.table))),
            *(self.shape, self.dimensions),
            *(self.options, self.met, self.report),
        )

    def aim(self, size: int, *values: Any) -> None:
        """Say what a call reads and writes: its outputs, its mask and its inputs, which must live as long.

        The arrays are dense, of native types, and all of one shape.
        """
        if self._spread is not None:
            self._gather()
        for number, position in self._numbers:
            number[()] = values[position]
        for index, position in self._arrays:
            self.addresses[index] = address_of(values[position])
        self.shape[0] = size

    def aim_anywhere(
        self, shape: tuple[int, ...], values: Sequence[Any], layouts: Sequence[Layout | None]
    ) -> None:
        """Say the same of arrays of any layouts, which are broadcast to a shape."""
        own = [layouts[position] for _, position in self._arrays]
        spread = [shape, *[layout[1] for layout in own]]  # type: ignore[index]
        if spread != self._spread:
            self._lay_out(shape, [values[position] for _, position in self._arrays])
            self._spread = spread
        for number, position in self._numbers:
            number[()] = values[position]
        for (index, _), layout in zip(self._arrays, own, strict=True):
            self.addresses[index] = layout[0]  # type: ignore[index]

    def operands_of(self, values: Sequence[Any]) -> list[tuple[int, Any]]:
        """Return the places in its table of those values that are arrays."""
        return [(index, values[position]) for index, position in self._arrays]

    def _lay_out(self, shape: tuple[int, ...], arrays: Sequence[Array]) -> None:
        if self._spread is not None:
            self._gather()
        if all(a.shape == shape and a.flags.c_contiguous and a.dtype.isnative for a in arrays):
            self.shape[0] = math.prod(shape)
            return
        self.shape[: len(shape)] = shape
        self.dimensions.value = len(shape)
        for (index, _), array in zip(self._arrays, arrays, strict=True):
            self._strides[index, : len(shape)] = strides_of(array, shape)
            if not array.dtype.isnative:
                self._flags[index] = abi.BYTE_SWAPPED

    def _gather(self) -> None:
        self.dimensions.value = 1
        self._strides[...] = self.program.table["strides"]
        self._flags[...] = 0
        self._spread = None

    def take_over(self, plan: Plan, wanted: context.Asked, rest: Array | None) -> int:
        """Do on the CPU engine what the CUDA engine has left."""
        if rest is None:
            return super().take_over(plan, wanted, rest)
        ranges = rest["ranges"][0, : rest["count"][0]]
        left, size = int(ranges["count"].sum()), int(np.prod(self.shape[: self.dimensions.value]))
        delivered = self.met.copy() if left else np.zeros_like(self.met)
        what = f", with {left:,} of {size:,} elements left" if left else ""
        met = self._run_with_options(failed_over(plan, what), wanted, rest)
        self.met |= delivered
        return met | int(delivered.max())

    def report_met(self) -> None:
        """Raise or warn as NumPy would for what the calls met."""
        report_of(self.program, self.met)


@functools.lru_cache(4096)
def works_of(program: ElementProgram) -> Pool[Work]:
    """Return what is prepared for a program's calls."""
    return Pool(functools.partial(Work, program))


def report_of(program: ElementProgram, met: Array) -> None:
    """Raise, warn, print or stay silent for what each instruction met, function by function."""
    by_function: dict[str, int] = {}
    for name, flags in zip(program.names, met.tolist(), strict=True):
        by_function[name] = by_function.get(name, 0) | flags
    if any(flags & abi.NEGATIVE_POWER for flags in by_function.values()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    report_met(by_function)
