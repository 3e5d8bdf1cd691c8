"""The intermediate representation of a `Program`: buffers, launches, loops, and their lowering."""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import Pool
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.function import Function, Module
from pycudakit.kernels.running.argument_binding import symbol
from pycudakit.kernels.running.execute import block_limit, run_request
from pycudakit.kernels.running.request_encoding import EncodedRequest, buffer_fields
from pycudakit.kernels.running.run_request import Buffer, Kernel, Launch, Outcome, Place, Repeat, RunRequest


@dataclass(frozen=True, slots=True)
class Handle:
    """A buffer of a program, or a part of it, as an argument of launches.

    An integer index or a slice without a step returns the part of the buffer that begins there: ``u[5:]``.
    """

    program: object = field(repr=False)
    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    offset: int = 0

    @property
    def label(self) -> str:
        """The name in a program's repr."""
        return f"{self.name} + {self.offset} bytes" if self.offset else self.name

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __getitem__(self, at: Any) -> Handle:
        """Return a part of the buffer, along its first dimension."""
        if not self.shape:
            raise IndexError(f"the buffer {self.name!r} has no dimensions to index")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        if isinstance(at, slice):
            first, end, step = at.indices(self.shape[0])
            if step != 1:
                raise IndexError(f"the buffer {self.name!r} can be sliced without a step alone, not by {at}")
            shape = (max(end - first, 0), *self.shape[1:])
        else:
            first = operator.index(at)
            first += self.shape[0] if first < 0 else 0
            if not 0 <= first < self.shape[0]:
                raise IndexError(f"index {at} is outside the buffer {self.name!r}, of shape {self.shape}")
            shape = self.shape[1:]
        return Handle(self.program, self.index, self.name, shape, self.dtype, self.offset + first * row)

    def view(self, dtype: Any) -> Handle:
        """Return the buffer as one of another dtype of the same item size, as `numpy.ndarray.view` does.

        Parameters
        ----------
        dtype : dtype
            The dtype that a kernel's pointer has, such as ``np.uint32`` for a buffer of int32.
        """
        other = np.dtype(dtype).newbyteorder("=")
        if other.hasobject or other.itemsize != self.dtype.itemsize:
            raise TypeError(
                f"the buffer {self.name!r} of {self.dtype} cannot be viewed as {other}: its elements have "
                f"{self.dtype.itemsize} bytes, and those of {other} have {other.itemsize}"
            )
        return Handle(self.program, self.index, self.name, self.shape, other, self.offset)

    def __len__(self) -> int:
        """Return the size of the first dimension."""
        if not self.shape:
            raise TypeError(f"the buffer {self.name!r} has no dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Handle]:
        """Yield the parts along the first dimension."""
        return (self[at] for at in range(len(self)))


@dataclass(slots=True)
class BufferDeclaration:
    """The declaration of a buffer in a program."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: DType
    poison: bool = False
    written: bool = False  # whether a kernel may write it

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """A launch, independent of the engine."""

    function: Function
    arguments: tuple[Place | bytes | None, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    threads: int
    label: str


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over steps, independent of the engine."""

    count: int
    steps: list[LaunchStep | Loop]


class Lowered:
    """The steps of a program, lowered for one engine."""

    def __init__(
        self,
        steps: Sequence[LaunchStep | Loop],
        engine: str,
        device: int,
        *,
        isolate: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._engine = engine
        self._device = device
        self._prepared = functools.partial(
            Function.prepared, engine=engine, device=device, isolate=isolate, timeout=timeout
        )
        self._binaries: dict[Module, dict[Binary, dict[str, str]]] = {}
        self._kernels: dict[Function, Kernel] = {}
        self._is_checked = False
        self._tables = Pool(EncodedRequest)
        self.fits = True  # whether each launch is inside its kernel's limits
        self._steps = self._lower(steps)

    def _lower(self, steps: Sequence[LaunchStep | Loop]) -> tuple[Launch | Repeat, ...]:
        lowered: list[Launch | Repeat] = []
        for step in steps:
            if isinstance(step, Loop):
                lowered.append(Repeat(step.count, self._lower(step.steps)))
            else:
                kernel = self._kernel(step.function)
                lowered.append(
                    Launch(kernel, step.arguments, step.grid, step.block, step.shared, step.threads)
                )
                self.fits &= self._fits(step)
        return tuple(lowered)

    def _kernel(self, function: Function) -> Kernel:
        kernel = self._kernels.get(function)
        if kernel is None:
            module = function.module
            prepared = self._prepared(function)
            kernel, names = prepared.kernel, prepared.names
            if prepared.is_stale():
                loaded = module.binary(function.signature, self._engine, self._device)
                kernel, names = (
                    Kernel(loaded.binary, loaded.symbols[function.name], function.name),
                    loaded.symbols,
                )
            self._kernels[function] = kernel
            self._binaries.setdefault(module, {})[kernel.binary] = names
            self._is_checked |= module.debug and self._engine == "cpu"
        return kernel

    def _fits(self, step: LaunchStep) -> bool:
        limits = self._prepared(step.function).limits
        if step.shared > limits["shared"]:
            return False
        return bool(step.threads) or (
            math.prod(step.block) <= limits["threads"]
            and bool(np.all(step.block <= limits["block"]) and np.all(step.grid <= limits["grid"]))
        )

    def is_stale(self) -> bool:
        """Return True if the file of a binary was removed."""
        kernels = self._kernels.values() if self._engine == "cpu" else ()
        return any(not os.path.exists(kernel.binary.data) for kernel in kernels)

    def request(self, name: str, buffers: list[Buffer], symbols: Mapping[Any, Any] | None) -> RunRequest:
        """Return the request of a run."""
        limit = block_limit() if self._is_checked else 0
        return RunRequest(name, buffers, self._steps, self._symbols(name, symbols or {}), limit)

    def run(self, request: RunRequest, choice: EngineChoice) -> Outcome:
        """Run a request in this process, by request tables that later runs reuse."""
        if request.symbols or self._is_checked:
            return run_request(request, choice)
        tables = self._tables.take(request, self._engine)
        for index, buffer in enumerate(request.buffers):
            tables.set_buffer(index, *buffer_fields(buffer))
        tables.set_blocking(request.waits)
        text = tables.run_and_print(choice)
        outcome = Outcome(tables.seconds, text)  # before another call has the tables
        self._tables.give_back(tables)
        return outcome

    def _symbols(self, name: str, symbols: Mapping[Any, Any]) -> dict[Binary, dict[str, Array]]:
        if any(isinstance(key, str) for key in symbols):
            if len(self._binaries) != 1:
                raise ValueError(
                    f"{name}: its kernels belong to {len(self._binaries)} modules: give "
                    "symbols={module: ...}"
                )
            symbols = {next(iter(self._binaries)): symbols}
        values: dict[Binary, dict[str, Array]] = {}
        for module, its in symbols.items():
            if module not in self._binaries:
                raise ValueError(f"{name}: symbols has {module!r}, to which none of its kernels belongs")
            for binary, names in self._binaries[module].items():
                values[binary] = {
                    names.get(key, key): symbol(name, module.variables.get(key), key, value)
                    for key, value in its.items()
                }
        return values


def repr_lines(steps: Sequence[LaunchStep | Loop], depth: int) -> Iterator[str]:
    """Yield the lines of a program's repr."""
    margin = "    " * depth
    for step in steps:
        if isinstance(step, Loop):
            yield f"{margin}repeat {step.count}:"
            yield from repr_lines(step.steps, depth + 1)
        else:
            yield margin + step.label
