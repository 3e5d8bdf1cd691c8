"""The description of a run of kernels: plain data, which this or a helper process can execute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pycudakit._interop.device_view import DeviceView
from pycudakit._native.dtypes import Array
from pycudakit.kernels.compiling.source import Binary


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in a binary: its symbol, and its name in messages."""

    binary: Binary
    symbol: str
    label: str


@dataclass(slots=True)
class Buffer:
    """A device buffer of one run.

    Parameters
    ----------
    label
        Its name in messages.
    bytes
        The size in bytes.
    item
        The size of an element in bytes, for messages.
    array
        A contiguous array of the same size, on the host or on a GPU, or None for a temporary buffer.
    up, down
        Whether the array is uploaded before the run, and whether it is downloaded after it.
    poison
        Whether, without `up`, the buffer is filled with bytes of 0xA5 instead of zeros.
    constant
        Whether no kernel writes the buffer.
    """

    label: str
    bytes: int
    item: int = 1
    array: Array | DeviceView | None = None
    up: bool = False
    down: bool = False
    poison: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A pointer argument: the index of a buffer, and an offset in bytes."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel.

    Parameters
    ----------
    arguments
        Each is a `Place`, the bytes of a value, or None for a null pointer.
    elements
        If not 0, the library chooses the block, and a one-dimensional grid for so many threads; `grid` and
        `block` are ignored.
    """

    kernel: Kernel
    arguments: tuple[Place | bytes | None, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    elements: int = 0


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps that are repeated."""

    count: int
    steps: Sequence[Launch | Repeat]


@dataclass(slots=True)
class RunRequest:
    """A run: its steps, buffers, symbols and settings.

    Parameters
    ----------
    function
        The function's name in `last_call`.
    symbols
        For each binary, the values of its variables, contiguous arrays, by their symbols.
    block_limit
        The time limit of a block in checked kernels on the CPU, in milliseconds; 0 for no limit.
    waits
        Whether a run on device arrays is synchronous.
    limits_query
        A kernel whose limits are queried; then nothing runs.
    """

    function: str
    buffers: list[Buffer]
    steps: Sequence[Launch | Repeat]
    symbols: Mapping[Binary, Mapping[str, Any]] = field(default_factory=dict)
    block_limit: int = 0
    waits: bool = False
    limits_query: Kernel | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Parameters
    ----------
    seconds
        The duration of the steps.
    text
        The output of the kernels.
    limits
        The limits of the kernel, if they were queried.
    """

    seconds: float
    text: str
    limits: Any = None
