"""What calls take beside their work: measured constants, and the times that they make.

`pycudakit tune` measures those that it names, for its machine.
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
CALL = _constant("CALL", 75e-6)  # of a call to a library, waking its threads and cold caches included
SHARED_WORK = 80e-6  # below this, a second thread does not pay
CUDA_CALL = _constant("CUDA_CALL", 150e-6)  # of a call to the GPU
MIN_SECONDS_TO_WAKE_GPU = 5e-3  # from this on, it is worth waking the GPU up, which takes longer
GPU_WAKE_SECONDS = 0.3  # so long
_FASTEST_LINK = hardware.Link(64e9, 64e9)  # of most GPUs

# Bytes a second of memory: for a thread that works alone, NumPy's too, beyond the first caches; beyond all
# caches for each of several threads, for all, and for all of them staging and un-staging. A streamed call
# takes the link's own time for its bytes so many times over, or longer for the latter.
SINGLE_THREAD_BANDWIDTH = _constant("SINGLE_THREAD_BANDWIDTH", 27e9)
THREAD_BANDWIDTH = _constant("THREAD_BANDWIDTH", 10e9)
HOST_BANDWIDTH = _constant("HOST_BANDWIDTH", 65e9)
STAGING_BANDWIDTH = _constant("STAGING_BANDWIDTH", 52e9)
LINK_OVERHEAD_FACTOR = _constant("LINK_OVERHEAD_FACTOR", 1.2)

REASON_NUMPY_FASTER_FOR_SIZE = "auto: NumPy is fastest at this size"
REASON_NUMPY_FASTER = "auto: NumPy's function is fastest"
REASON_NUMPY_FASTER_FOR_LAYOUT = "auto: NumPy's function is fastest for this memory layout"
REASON_CPU_FASTER = "auto: the CPU engine is fastest"


def threads() -> int:
    """Return the threads of the CPU engine, or 1 where there is none."""
    try:
        return _threads()
    except (errors.NoDevice, errors.InvalidArgument):  # which who calls the engine is told
        return 1


@functools.cache
def _threads() -> int:
    count = ctypes.c_int64()
    loader.library("cpu").pk_thread_count(ctypes.byref(count))
    return count.value


def threaded_seconds(workers: int, work: float, moved: float, memory_bound: bool) -> float:
    """Return the seconds that threads of the CPU engine take for work, and for so many bytes."""
    several = min(workers * THREAD_BANDWIDTH, HOST_BANDWIDTH)
    moving = moved / (several if workers > 1 else SINGLE_THREAD_BANDWIDTH)
    return max(work / workers, moving) if memory_bound else work / workers + moving


def staging_seconds(moved: float) -> float:
    """Return the seconds that host threads take to bring so many bytes to the link, and from it."""
    return moved / min(threads() * THREAD_BANDWIDTH, STAGING_BANDWIDTH)


def may_pay_on_gpu(seconds: float, up: int, down: int, gpu: float = 0.0) -> bool:
    """Tell whether it may pay to ask a GPU about a call that takes so long without it.

    One that sleeps is woken for a long call, or once it could have saved as much of short ones as waking
    takes.
    """
    global _missed_savings  # noqa: PLW0603
    if seconds > MIN_SECONDS_TO_WAKE_GPU or hardware.link_is_known():
        return True
    _missed_savings += max(0.0, seconds - gpu - _streamed_seconds(up, down, _FASTEST_LINK))
    return _missed_savings > GPU_WAKE_SECONDS


_missed_savings = 0.0  # seconds


def cuda_seconds(up: int, down: int) -> float:
    """Return what a call takes on the CUDA engine, whose link is measured when first asked for."""
    try:
        return _streamed_seconds(up, down, hardware.link_speed(0))
    except errors.Error:  # which the call would meet, too
        return float("inf")


def _streamed_seconds(up: int, down: int, link: hardware.Link) -> float:
    return CUDA_CALL + max(
        staging_seconds(up + down), LINK_OVERHEAD_FACTOR * max(up / link.up, down / link.down)
    )


MEASURED_ELEMENTS = 4096  # elements that NumPy is seen to take


def measure_numpy(compute: Callable[[Array], Any], dtype: DType) -> float:
    """Return the nanoseconds for an element in which NumPy computes something of mixed numbers of a type."""
    mixed = np.arange(MEASURED_ELEMENTS, dtype=np.uint32) * np.uint32(0x9E3779B1) >> np.uint32(16)
    keys, fastest = mixed.astype(dtype), math.inf
    for _ in range(3):
        start = time.perf_counter()
        compute(keys)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e9 / MEASURED_ELEMENTS
