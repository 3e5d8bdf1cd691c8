"""The cost model of `auto`: measured constants, and the overheads and transfer times that follow from them.

Constants that are read by `_constant` are those that `pycudakit tune` measured on this machine, if it has.
"""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import calibration_file, hardware, loader
from pycudakit._native.dtypes import Array, DType

_constant = calibration_file.CALIBRATION.constants.get

# Seconds
CALL = _constant("CALL", 75e-6)  # overhead of a library call that wakes threads, with cold caches
# Overhead of a library call that wakes no threads, beyond that of NumPy's call.
SINGLE_THREAD_CALL = _constant("SINGLE_THREAD_CALL", 7e-6)
MIN_SECONDS_FOR_THREADS = 80e-6  # less work than this does not pay for a second thread
CUDA_CALL = _constant("CUDA_CALL", 150e-6)  # overhead of a call on the GPU
MIN_SECONDS_TO_WAKE_GPU = 5e-3  # a call of this length justifies waking a sleeping GPU
GPU_WAKE_SECONDS = 0.3  # the time that waking takes
_FASTEST_LINK = hardware.Link(64e9, 64e9)  # an upper bound for most GPUs

# Memory bandwidth, in bytes a second.
SINGLE_THREAD_BANDWIDTH = _constant("SINGLE_THREAD_BANDWIDTH", 27e9)  # one thread, also NumPy's
THREAD_BANDWIDTH = _constant("THREAD_BANDWIDTH", 10e9)  # each of several threads, beyond all caches
HOST_BANDWIDTH = _constant("HOST_BANDWIDTH", 65e9)  # all threads together
STAGING_BANDWIDTH = _constant("STAGING_BANDWIDTH", 52e9)  # all threads, staging and unstaging
# A streamed call takes the link's transfer time times this factor, or the staging time if that is longer.
LINK_OVERHEAD_FACTOR = _constant("LINK_OVERHEAD_FACTOR", 1.2)

REASON_NUMPY_FASTER_FOR_SIZE = "auto: NumPy is fastest at this size"
REASON_NUMPY_FASTER = "auto: NumPy's function is fastest"
REASON_NUMPY_FASTER_FOR_LAYOUT = "auto: NumPy's function is fastest for this memory layout"
REASON_COMPARED = "auto: the engines are compared"
REASON_CPU_FASTER = "auto: the CPU engine is fastest"


def threads() -> int:
    """Return the number of threads of the CPU engine, or 1 if that engine is missing."""
    try:
        return _threads()
    except (errors.NoDevice, errors.InvalidArgument):  # a call on the engine raises it
        return 1


@functools.cache
def _threads() -> int:
    count = ctypes.c_int64()
    loader.library("cpu").pk_thread_count(ctypes.byref(count))
    return count.value


def threaded_seconds(workers: int, work: float, moved: float, memory_bound: bool) -> float:
    """Return the time of `workers` CPU threads for `work` seconds of computation and `moved` bytes.

    If the work is `memory_bound`, computation overlaps with memory traffic; else their times add up.
    """
    several = min(workers * THREAD_BANDWIDTH, HOST_BANDWIDTH)
    moving = moved / (several if workers > 1 else SINGLE_THREAD_BANDWIDTH)
    return max(work / workers, moving) if memory_bound else work / workers + moving


def staging_seconds(moved: float) -> float:
    """Return the time that host threads take to copy so many bytes to and from the staging slots."""
    return moved / min(threads() * THREAD_BANDWIDTH, STAGING_BANDWIDTH)


def may_pay_on_gpu(seconds: float, up: int, down: int, gpu: float = 0.0) -> bool:
    """Return True if a call that takes `seconds` elsewhere may be faster on a GPU.

    A sleeping GPU is worth waking for one long call, or once the savings that earlier short calls missed
    exceed the time that waking takes. A call while it sleeps is counted.
    """
    global _missed_savings  # noqa: PLW0603
    if seconds > MIN_SECONDS_TO_WAKE_GPU or hardware.link_is_known():
        return True
    _missed_savings += max(0.0, seconds - gpu - _streamed_seconds(up, down, _FASTEST_LINK))
    return _missed_savings > GPU_WAKE_SECONDS


_missed_savings = 0.0  # seconds, summed over calls while the GPU sleeps


def cuda_seconds(up: int, down: int) -> float:
    """Return the time of a call on the CUDA engine, on GPU 0; the first call measures the link's speed."""
    try:
        return _streamed_seconds(up, down, hardware.link_speed(0))
    except errors.Error:  # the call would fail in the same way
        return float("inf")


def _streamed_seconds(up: int, down: int, link: hardware.Link) -> float:
    return CUDA_CALL + max(
        staging_seconds(up + down), LINK_OVERHEAD_FACTOR * max(up / link.up, down / link.down)
    )


MEASURED_ELEMENTS = 4096  # the size of the array on which `measure_numpy` times NumPy


def _pseudorandom(seed: int) -> Array:
    """Return numbers below 2^16 by a hash of their indices."""
    mixed: Array = np.arange(MEASURED_ELEMENTS * seed, MEASURED_ELEMENTS * (seed + 1), dtype=np.uint32)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= np.uint32(factor)
    mixed >>= np.uint32(16)
    return mixed


def measure_numpy(compute: Callable[[Array], Any], dtype: DType) -> float:
    """Time a NumPy function on arrays of pseudorandom numbers; return nanoseconds per element.

    Each repetition has its own numbers, since branch predictors learn those of a repeated sort.
    """
    fastest = math.inf
    with np.errstate(all="ignore"):  # the caller did not ask for these calls
        for attempt in range(3):
            keys = _pseudorandom(attempt).astype(dtype)
            start = time.perf_counter()
            compute(keys)
            fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e9 / MEASURED_ELEMENTS


# NumPy's nanoseconds per element to partition and to argpartition, if they are not measured.
_PARTITIONS, _ARGPARTITIONS = 7.0, 11.0


@functools.cache
def numpy_partition_ns(dtype: DType, indices: bool = False) -> float:
    """Return nanoseconds per element of NumPy's `partition` at one index, or of its `argpartition`.

    They are measured, since some processors have vector instructions for it.
    """
    if not calibration_file.is_enabled():
        return _ARGPARTITIONS if indices else _PARTITIONS
    function = np.argpartition if indices else np.partition
    return measure_numpy(lambda keys: function(keys, keys.size // 2), dtype)
