"""Which engine will answer first: one model, with measured constants."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycudakit import _engine, _loader, _machine, errors
from pycudakit._measured import NANOSECONDS

if TYPE_CHECKING:
    from pycudakit._program import Program

# Seconds
CALL = 75e-6  # of a call to a library, waking its threads and cold caches included
ALONE = 7e-6  # of one that wakes none, beyond NumPy's
NUMPY_CALL = 1e-6  # of NumPy's call for each function of an expression
SHARED_WORK = 80e-6  # below this, a second thread does not pay
CUDA_CALL = 150e-6  # of a call to the GPU
CLEARLY = 0.9  # of the time of others, for the GPU to be taken
WORTH_WAKING = 5e-3  # from this on, it is worth waking the GPU up, which takes longer

# What must be spared for the CPU engine to wake threads for elementwise work (csrc/cpu/elementwise.cpp).
WAKING = 45e-6

# Several functions take so much of their times one by one, since values stay in registers between them.
FUSED = 0.7

# Bytes a second of memory: for a thread that works alone, NumPy's too, beyond the first caches; beyond all
# caches for each of several threads, for all, and for all of them staging and un-staging. A streamed call
# takes the link's own time for its bytes so many times over, or longer for the latter.
ALONE_BANDWIDTH = 27e9
THREAD_BANDWIDTH, HOST_BANDWIDTH, STAGING_BANDWIDTH = 10e9, 65e9, 52e9
LINK_TIMES = 1.2

# Threads gain less where memory is waited for: as if so many did nothing.
IDLE_THREADS = 0.85

# Nanoseconds an element of an instruction that was not measured, NumPy's and ours.
UNKNOWN = (0.2, 0.2)

SMALL = "auto: NumPy answers first at this size"
CPU_FIRST = "auto: the CPU engine answers first"
ON_CPU = "cpu", CPU_FIRST


@functools.cache
def measured(name: str, code: int) -> tuple[float, float]:
    """Return nanoseconds an element for a function and a type, NumPy's and ours."""
    cells = NANOSECONDS.get(name, "").split()
    if len(cells) <= code or cells[code] == "-":
        return UNKNOWN
    numpy, ours = cells[code].split("/")
    return float(numpy), float(ours)


@functools.cache
def threads() -> int:
    """Return the threads of the CPU engine."""
    count = ctypes.c_int64()
    _loader.library("cpu").pk_thread_count(ctypes.byref(count))
    return count.value


@dataclass(frozen=True)
class Estimate:
    """What is known of a program before its arrays are."""

    numpy: float  # seconds an element in NumPy
    ours: float  # in the CPU engine, on one thread
    waits: bool  # for memory, longer than it computes
    shared_from: float  # elements for which that wakes others
    numpy_below: float  # elements below which NumPy answers first, where all arrays have as many
    cuda_from: float  # and from which the GPU may answer before the CPU engine


def estimate(program: Program) -> Estimate:
    """Return what is known of a program, made once."""
    if program.estimate is None:
        pairs = [measured(name, code) for name, code in program.work]
        numpy, ours = (1e-9 * sum(pair[i] for pair in pairs) for i in (0, 1))
        if len(pairs) > 1:
            ours *= FUSED
        moved = program.in_bytes + program.out_bytes
        moving = moved / ALONE_BANDWIDTH
        waits = moving > numpy
        spared = _on_threads(1, ours, moved, waits) * (1 - 1 / threads())
        shared_from = WAKING / spared if spared else float("inf")
        start = ALONE - NUMPY_CALL * (len(pairs) - 1)
        program.estimate = Estimate(
            numpy=max(numpy, moving),
            ours=ours,
            waits=waits,
            shared_from=shared_from,
            numpy_below=_numpy_below(numpy, ours, moving, shared_from, start),
            cuda_from=_cuda_from(ours, moved, waits, shared_from),
        )
    return program.estimate


def _numpy_below(numpy: float, ours: float, moving: float, shared_from: float, start: float) -> float:
    """Return how many elements make NumPy's time ours.

    An element takes `numpy` and `ours` seconds, and `moving` to and from memory; a call `start` more of ours.
    """
    if start <= 0:
        return 0
    alone = start / (numpy - ours) if numpy > ours else float("inf")
    if alone <= shared_from:
        return alone
    gain = numpy - ours / threads() if numpy > moving else moving * (1 - 1 / (threads() - IDLE_THREADS))
    return max(CALL / gain, shared_from) if gain > 0 else float("inf")


def _cuda_from(ours: float, moved: float, waits: bool, shared_from: float) -> float:
    """Return how many elements it takes for a GPU, on a link that is fast enough, to come first."""
    alone = (CUDA_CALL / CLEARLY - ALONE) / _on_threads(1, ours, moved, waits)
    if alone < shared_from:
        return alone
    gain = CLEARLY * _on_threads(threads(), ours, moved, waits) - _staging(moved)
    return max((CUDA_CALL - CLEARLY * CALL) / gain, shared_from) if gain > 0 else float("inf")


def _on_threads(workers: int, work: float, moved: float, waits: bool) -> float:
    """Return the seconds that threads of the CPU engine take for work, and for so many bytes."""
    several = min(workers * THREAD_BANDWIDTH, HOST_BANDWIDTH)
    moving = moved / (several if workers > 1 else ALONE_BANDWIDTH)
    return max(work / workers, moving) if waits else work / workers + moving


def _staging(moved: float) -> float:
    """Return the seconds that host threads take to bring so many bytes to the link, and from it."""
    return moved / min(threads() * THREAD_BANDWIDTH, STAGING_BANDWIDTH)


def cpu_seconds(program: Program, size: int, moved: int) -> float:
    """Return what a call takes on the CPU engine."""
    known = estimate(program)
    call, workers = (CALL, threads()) if size >= known.shared_from else (ALONE, 1)
    return call + _on_threads(workers, size * known.ours, moved, known.waits)


def cuda_seconds(up: int, down: int) -> float:
    """Return what a call takes on the CUDA engine, whose link is measured when first asked for."""
    try:
        link = _machine.link_speed(0)
    except errors.Error:  # which the call would meet, too
        return float("inf")
    return CUDA_CALL + max(_staging(up + down), LINK_TIMES * max(up / link.up, down / link.down))


def choose(program: Program, size: int, up: int) -> tuple[str, str]:
    """Return the engine that will answer first, and why.

    Parameters
    ----------
    program
        What is computed.
    size
        The number of elements.
    up
        The bytes read.
    """
    known = program.estimate or estimate(program)
    small = size < known.numpy_below and program.numpy_agrees
    if not small and size < known.cuda_from:
        return ON_CPU
    down = size * program.out_bytes
    seconds = size * known.numpy if small else cpu_seconds(program, size, up + down)
    worth_it = seconds > WORTH_WAKING or (not small and _machine.link_is_known())
    if worth_it and _engine.status("cuda"):
        on_cuda = cuda_seconds(up, down)
        if on_cuda < CLEARLY * seconds:
            other = "NumPy" if small else "the CPU"
            return "cuda", f"auto: about {on_cuda * 1e3:.3g} ms, against {seconds * 1e3:.3g} ms on {other}"
    return ("numpy", SMALL) if small else ON_CPU
