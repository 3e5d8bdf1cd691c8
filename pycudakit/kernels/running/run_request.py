"""A run of kernels, as Python describes it: arrays, names and numbers, which any process can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pycudakit._native.dtypes import Array
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running.device_arguments import DeviceArgument


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function in a binary: its symbol, and the name that messages have."""

    binary: Binary
    symbol: str
    label: str


@dataclass(slots=True)
class Buffer:
    """Memory that kernels see, for a run.

    Parameters
    ----------
    label
        Its name in messages.
    bytes
        How many.
    item
        Bytes of an element, for messages.
    array
        A dense array of as many bytes, on the host or on a GPU, or None: it neither goes up nor comes down.
    up, down
        Whether it begins as the array's, and whether it is the array's at the end.
    poison
        Without `up`, it begins as bytes of 0xA5 instead of zeros.
    constant
        No kernel writes it.
    """

    label: str
    bytes: int
    item: int = 1
    array: Array | DeviceArgument | None = None
    up: bool = False
    down: bool = False
    poison: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """An argument that is an address: of a buffer, by its index, and bytes from there."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel.

    Parameters
    ----------
    arguments
        A place in a buffer, the bytes of a value, or None for a null pointer, each.
    elements
        If not 0, the library chooses the block, and a grid of one dimension for so many threads; `grid` and
        `block` are not read.
    """

    kernel: Kernel
    arguments: tuple[Place | bytes | None, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    elements: int = 0


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps that are run so many times."""

    count: int
    steps: Sequence[Launch | Repeat]


@dataclass(slots=True)
class RunRequest:
    """All of a run.

    Parameters
    ----------
    function
        What `last_call` names.
    symbols
        Of a binary, the values of its variables, dense arrays, by their names in it.
    block_limit
        Milliseconds that a block may take on the CPU where it was compiled to be checked; 0: no limit.
    waits
        Whether a run of arrays on a GPU has ended when the call returns.
    limits_query
        The kernel whose limits are asked for; then nothing runs.
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
    """What a run told.

    Parameters
    ----------
    seconds
        The time of the steps.
    text
        What kernels printed.
    limits
        What was asked for, if that was limits.
    """

    seconds: float
    text: str
    limits: Any = None
