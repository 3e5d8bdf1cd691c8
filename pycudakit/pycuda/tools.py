"""`pycuda.tools`: contexts, caches, occupancy, memory pools, and the C names of dtypes."""

from __future__ import annotations

import functools
import gc
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pycudakit.pycuda import driver
from pycudakit.pycuda._pools import (
    DeviceMemoryPool,
    PageLockedAllocator,
    PageLockedMemoryPool,
    PooledDeviceAllocation,
    PooledHostAllocation,
    bitlog2,
)
from pycudakit.pycuda.compyte import dtypes
from pycudakit.pycuda.compyte.dtypes import get_or_register_dtype, register_dtype

__all__ = [
    "Argument",
    "DeviceData",
    "DeviceMemoryPool",
    "OccupancyRecord",
    "PageLockedAllocator",
    "PageLockedMemoryPool",
    "PooledDeviceAllocation",
    "PooledHostAllocation",
    "ScalarArg",
    "VectorArg",
    "bitlog2",
    "clear_context_caches",
    "context_dependent_memoize",
    "dtype_to_ctype",
    "get_arg_type",
    "get_default_device",
    "get_or_register_dtype",
    "init_cuda_context_fixture",
    "make_default_context",
    "mark_cuda_test",
    "parse_c_arg",
    "register_dtype",
]

F = TypeVar("F", bound=Callable[..., Any])

# ---- Contexts -----------------------------------------------------------------------------------------


def _named_device() -> int | None:
    named = os.environ.get("CUDA_DEVICE")
    if named is None:
        with suppress(OSError):
            named = (Path.home() / ".cuda_device").read_text()
    if named is None:
        return None
    if not named.strip().isdigit():
        raise TypeError(f"CUDA_DEVICE or ~/.cuda_device is {named!r}, not a device's number")
    return int(named)


def get_default_device(default: int = 0) -> Any:
    """Return the device of the variable CUDA_DEVICE or of ~/.cuda_device, else the one with this number."""
    warnings.warn(
        "get_default_device() is deprecated; use make_default_context() instead",
        DeprecationWarning,
        stacklevel=2,
    )
    named = _named_device()
    return driver.Device(default if named is None else named)


def make_default_context(ctx_maker: Callable[[Any], Any] | None = None) -> Any:
    """Make a context on the device of the variable CUDA_DEVICE or of ~/.cuda_device, else on the first one.

    Parameters
    ----------
    ctx_maker
        A function of a device that makes the context; by default its `make_context`.
    """
    make = ctx_maker or driver.Device.make_context
    named = _named_device()
    if named is not None:
        return make(driver.Device(named))
    failure: Exception | None = None
    for number in range(driver.Device.count()):
        try:
            return make(driver.Device(number))
        except driver.Error as error:
            failure = error
    raise RuntimeError("no device can be used") from failure


_memoized: list[dict[Any, Any]] = []


def context_dependent_memoize(func: F) -> F:
    """Decorate a function so that its results are kept, apart for each context.

    `clear_context_caches` forgets them. The arguments must be hashable.
    """
    results: dict[Any, Any] = {}
    _memoized.append(results)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        key = driver.Context.get_current(), args, frozenset(kwargs.items())
        try:
            return results[key]
        except KeyError:
            return results.setdefault(key, func(*args, **kwargs))

    return wrapper  # type: ignore[return-value]


def clear_context_caches() -> None:
    """Forget the results of all functions that `context_dependent_memoize` decorates."""
    for results in _memoized:
        results.clear()


def init_cuda_context_fixture() -> Iterator[None]:
    """Make a context for the time of a test: the body of a pytest fixture."""
    driver.init()
    context = make_default_context()
    try:
        yield
    finally:
        gc.collect()
        context.pop()
        clear_context_caches()
        gc.collect()


def mark_cuda_test(inner_f: F) -> F:
    """Decorate a test that needs a context, which is made before it and popped after it."""

    @functools.wraps(inner_f)
    def test(*args: Any, **kwargs: Any) -> None:
        for _ in init_cuda_context_fixture():
            inner_f(*args, **kwargs)

    return test  # type: ignore[return-value]


# ---- Occupancy ----------------------------------------------------------------------------------------


def _ceiling(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class DeviceData:
    """Limits of a device, for computations of occupancy.

    Parameters
    ----------
    dev
        The device; by default that of the current context.
    """

    def __init__(self, dev: Any = None) -> None:
        device = driver.Context.get_device() if dev is None else dev
        attribute = driver.device_attribute
        self.max_threads = device.get_attribute(attribute.MAX_THREADS_PER_BLOCK)
        self.warp_size = device.get_attribute(attribute.WARP_SIZE)
        self.warps_per_mp = device.get_attribute(attribute.MAX_THREADS_PER_MULTIPROCESSOR) // self.warp_size
        self.thread_blocks_per_mp = 8
        self.registers = device.get_attribute(attribute.MAX_REGISTERS_PER_BLOCK)
        self.shared_memory = device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK)
        self.smem_alloc_granularity = 128
        self.smem_granularity = 32
        self.register_allocation_unit = "warp"

    def align_bytes(self, word_size: int = 4) -> int:
        """Return the alignment in bytes at which accesses of words are coalesced."""
        alignments = {4: 64, 8: 128, 16: 128}
        if word_size not in alignments:
            raise ValueError(f"no alignment for words of {word_size} bytes; there are 4, 8 and 16")
        return alignments[word_size]

    def align(self, bytes: int, word_size: int = 4) -> int:
        """Return a number of bytes, rounded up to the alignment."""
        return _ceiling(bytes, self.align_bytes(word_size))

    def align_words(self, word_size: int) -> int:
        """Return the alignment in words."""
        return self.align_bytes(word_size) // word_size

    def align_dtype(self, elements: int, dtype_size: int) -> int:
        """Return a number of elements, rounded up to the alignment."""
        return _ceiling(elements, self.align_words(dtype_size))

    def coalesce(self, thread_count: int) -> int:
        """Return a number of threads, rounded up to half a warp."""
        return _ceiling(thread_count, 16)

    @staticmethod
    def make_valid_tex_channel_count(size: int) -> int:
        """Return the smallest number of channels of a texture that is not below `size`."""
        for count in (1, 2, 4):
            if size <= count:
                return count
        raise ValueError(f"no texture has {size} channels; it has at most 4")


class OccupancyRecord:
    """How many blocks of a kernel a multiprocessor runs at once.

    Parameters
    ----------
    devdata : DeviceData
        The device.
    threads
        The threads of a block.
    shared_mem
        The bytes of shared memory of a block.
    registers
        The registers of a thread.

    Attributes
    ----------
    tb_per_mp, warps_per_mp
        The blocks and the warps of a multiprocessor.
    limited_by
        The limit that is met: "device", "warps", "regs" or "smem".
    occupancy
        The share of the multiprocessor's warps that are used.
    """

    def __init__(self, devdata: DeviceData, threads: int, shared_mem: int = 0, registers: int = 0) -> None:
        if threads < 1:
            raise ValueError(f"too few threads: {threads}; a block has at least one")
        if threads > devdata.max_threads:
            raise ValueError(f"too many threads: {threads} of at most {devdata.max_threads}")
        warps = -(-threads // devdata.warp_size)
        shared = _ceiling(shared_mem, devdata.smem_alloc_granularity)
        taken = warps * devdata.warp_size * registers
        if taken > devdata.registers:
            raise ValueError(f"too many registers: {taken} of at most {devdata.registers}")
        if shared > devdata.shared_memory:
            raise ValueError(f"too much smem: {shared} bytes of at most {devdata.shared_memory}")
        limits = [
            (devdata.thread_blocks_per_mp, "device"),
            (devdata.warps_per_mp // warps, "warps"),
        ]
        if registers:
            limits.append((devdata.registers // taken, "regs"))
        if shared_mem:
            limits.append((devdata.shared_memory // shared, "smem"))
        self.tb_per_mp_limits = limits
        self.tb_per_mp, self.limited_by = min(limits)
        self.warps_per_mp = self.tb_per_mp * warps
        self.occupancy = self.warps_per_mp / devdata.warps_per_mp


# ---- The C names of dtypes ------------------------------------------------------------------------------


def dtype_to_ctype(dtype: Any, with_fp_tex_hack: bool = False) -> str:
    """Return the C name of a dtype: ``"float"`` for float32."""
    if with_fp_tex_hack:
        raise driver.LogicError("CUDA 12 has no texture references: pass an array to the kernel")
    return dtypes.dtype_to_ctype(dtype)


class Argument:
    """A parameter of a kernel.

    Parameters
    ----------
    dtype
        Its dtype, or that of an array's elements.
    name
        Its name in C.
    """

    def __init__(self, dtype: Any, name: str) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name = name

    @property
    def struct_char(self) -> str:
        """The code in `struct`'s notation."""
        return f"{self.dtype.itemsize}s" if self.dtype.char == "V" else self.dtype.char

    def declarator(self) -> str:
        """Return the declaration in C."""
        return f"{dtype_to_ctype(self.dtype)} {self.name}"

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"{type(self).__name__}({self.name!r}, {self.dtype})"


class VectorArg(Argument):
    """An array."""

    @property
    def struct_char(self) -> str:
        """The code of a pointer."""
        return "P"

    def declarator(self) -> str:
        """Return the declaration in C."""
        return f"{dtype_to_ctype(self.dtype)} *{self.name}"


class ScalarArg(Argument):
    """A number or a struct."""


def parse_c_arg(c_arg: str) -> Argument:
    """Return the parameter that C declares: ``"const float *x"`` is ``VectorArg(float32, "x")``."""
    text = re.sub(r"\b(const|volatile|__restrict__|restrict)\b", " ", c_arg)
    text = re.sub(r"(\w+)\s*\[[\s\d]*\]\s*$", r"*\1", text)
    found = re.fullmatch(r"\s*([^*]+?)(?:\s*(\*[\s*]*)|\s+)([A-Za-z_]\w*)\s*", text)
    if found is None:
        raise ValueError(f"{c_arg!r} is not a parameter such as 'float *x' or 'int n'")
    kind, stars = " ".join(found[1].split()), (found[2] or "").count("*")
    if stars > 1:
        raise ValueError(f"{c_arg!r}: a parameter has at most one *")
    if kind not in dtypes.NAME_TO_DTYPE:
        raise ValueError(f"{c_arg!r}: the type {kind} is unknown; register a struct by register_dtype")
    return (VectorArg if stars else ScalarArg)(dtypes.NAME_TO_DTYPE[kind], found[3])


def get_arg_type(c_arg: str) -> str:
    """Return the code of a parameter in `struct`'s notation."""
    return parse_c_arg(c_arg).struct_char
