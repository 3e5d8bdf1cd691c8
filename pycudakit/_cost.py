"""Which engine will answer first: one model, with measured constants."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from pycudakit import _engine, _loader, _machine, errors
from pycudakit._measured import NANOSECONDS

if TYPE_CHECKING:
    from pycudakit._program import Program

# Seconds. What a call to a library costs, waking its threads and cold caches included; the work below which
# a second thread does not pay; what a call to the GPU costs at least; the work from which it is worth waking
# the GPU up, which takes longer.
CALL = 75e-6
SHARED_WORK = 80e-6
CUDA_CALL = 80e-6
WORTH_WAKING = 5e-3

# A function faster than this many nanoseconds an element waits for memory, where threads gain less: as if so
# many did nothing.
MEMORY_BOUND, IDLE_THREADS = 0.3, 0.8

# Bytes a second of host memory: for each thread, for all, and for all of them staging and un-staging. A
# streamed call takes the link's own time for its bytes so many times over, or longer for the latter.
THREAD_BANDWIDTH, HOST_BANDWIDTH, STAGING_BANDWIDTH = 10e9, 65e9, 45e9
LINK_TIMES = 1.2

# Nanoseconds an element of an instruction that was not measured, NumPy's and ours.
UNKNOWN = (0.2, 0.2)

SMALL = "auto: NumPy answers first at this size"
CPU_FIRST = "auto: the CPU engine answers first"


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


def nanoseconds(program: Program) -> tuple[float, float]:
    """Return what an element costs in NumPy and in the CPU engine on one thread."""
    if program.cost is None:
        pairs = [measured(name, code) for name, code in program.work]
        program.cost = (sum(p[0] for p in pairs), sum(p[1] for p in pairs))
    return program.cost


def cpu_seconds(program: Program, size: int, moved: int) -> float:
    """Return what a call takes on the CPU engine."""
    work = nanoseconds(program)[1] * 1e-9 * size
    workers = threads() if work > SHARED_WORK else 1
    return CALL + max(work / workers, moved / min(workers * THREAD_BANDWIDTH, HOST_BANDWIDTH))


def cuda_seconds(up: int, down: int) -> float:
    """Return what a call takes on the CUDA engine, whose link is measured when first asked for."""
    try:
        link = _machine.link_speed(0)
    except errors.Error:  # which the call would meet, too
        return float("inf")
    staging = (up + down) / min(threads() * THREAD_BANDWIDTH, STAGING_BANDWIDTH)
    return CUDA_CALL + max(staging, LINK_TIMES * max(up / link.up, down / link.down))


def numpy_below(program: Program) -> float:
    """Return the number of elements of its arrays below which NumPy answers a program first.

    In cache, that is: beyond it, NumPy's single thread is no faster at moving memory than ours.
    """
    numpy, ours = nanoseconds(program)
    alone = CALL * 1e9 / (numpy - ours) if numpy > ours else float("inf")
    if alone * ours <= SHARED_WORK * 1e9:
        return alone
    gain = numpy - ours / threads()
    if numpy < MEMORY_BOUND:
        gain = min(gain, numpy * (1 - 1 / max(1.0, threads() - IDLE_THREADS)))
    return max(CALL * 1e9 / gain, SHARED_WORK * 1e9 / ours) if gain > 0 else float("inf")


def choose(program: Program, size: int, up: int, down: int) -> tuple[str, str]:
    """Return the engine that will answer first, and why.

    Parameters
    ----------
    program
        What is computed.
    size
        The number of elements.
    up, down
        The bytes read and written.
    """
    if program.numpy_agrees and size < numpy_below(program):
        return "numpy", SMALL
    on_cpu = cpu_seconds(program, size, up + down)
    if (on_cpu > WORTH_WAKING or _machine.link_is_known()) and _engine.status("cuda"):
        on_cuda = cuda_seconds(up, down)
        if on_cuda < on_cpu:
            return "cuda", f"auto: about {on_cuda * 1e3:.3g} ms, against {on_cpu * 1e3:.3g} ms on the CPU"
    return "cpu", CPU_FIRST
