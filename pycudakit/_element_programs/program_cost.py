"""What programs take on each engine, by measured rates, and so where `auto` runs them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from pycudakit._element_programs.measured_rates import NANOSECONDS
from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import engine_status
from pycudakit._native.calibration_file import HERE
from pycudakit._runtime.cost_model import (
    ALONE_BANDWIDTH,
    CALL,
    CUDA_CALL,
    WORTH_WAKING,
    cuda_seconds,
    is_worth_asking,
    on_threads,
    staging_seconds,
    threads,
)
from pycudakit._runtime.engine_choice import Plan, on_cpu, small_call

# Seconds
ALONE = HERE.constants.get("ALONE", 7e-6)  # of a call to a library that wakes no threads, beyond NumPy's
NUMPY_CALL = 1e-6  # of NumPy's call for each function of an expression

CLEARLY = 0.9  # of the time of others, for the GPU to be taken

# What must be spared for the CPU engine to wake threads for elementwise work (csrc/cpu/elementwise.cpp).
WAKING = 60e-6

# Several functions take so much of their times one by one, since values stay in registers between them.
FUSED = 0.7

# Threads gain less where memory is waited for: as if so many did nothing.
IDLE_THREADS = 0.85

# Nanoseconds an element of an instruction that was not measured, NumPy's and ours.
UNKNOWN = (0.2, 0.2)


@functools.cache
def measured(name: str, code: int) -> tuple[float, float]:
    """Return nanoseconds an element for a function and a type, NumPy's and ours."""
    cells = (HERE.rates.get(name) or NANOSECONDS.get(name, "")).split()
    if len(cells) <= code or cells[code] == "-":
        return UNKNOWN
    numpy, ours = cells[code].split("/")
    return float(numpy), float(ours)


def _pairs_of(program: ElementProgram) -> list[tuple[float, float]]:
    """Return what was measured of a program's functions, each once, however many instructions it became."""
    pairs, seen = [], set()
    for name, code, call in program.work:
        pair = measured(name, code)
        if pair is UNKNOWN or (name, call) not in seen:
            pairs.append(pair)
        seen.add((name, call))
    return pairs


@dataclass(frozen=True)
class Estimate:
    """What is known of a program before its arrays are."""

    numpy: float  # seconds an element in NumPy
    ours: float  # in the CPU engine, on one thread
    waits: bool  # for memory, longer than it computes
    shared_from: float  # elements for which that wakes others
    numpy_below: float  # elements below which NumPy answers first, where all arrays have as many
    cuda_from: float  # and from which the GPU may answer before the CPU engine


@functools.lru_cache(4096)
def estimate(program: ElementProgram) -> Estimate:
    """Return what is known of a program."""
    pairs = _pairs_of(program)
    numpy, ours = (1e-9 * sum(pair[i] for pair in pairs) for i in (0, 1))
    if len(pairs) > 1:
        ours *= FUSED
    moved = program.in_bytes + program.out_bytes
    moving = moved / ALONE_BANDWIDTH
    waits = moving > numpy
    spared = on_threads(1, ours, moved, waits) * (1 - 1 / threads())
    shared_from = WAKING / spared if spared else float("inf")
    start = ALONE - NUMPY_CALL * (len(pairs) - 1)
    return Estimate(
        numpy=max(numpy, moving),
        ours=ours,
        waits=waits,
        shared_from=shared_from,
        numpy_below=_numpy_below(numpy, ours, moving, shared_from, start),
        cuda_from=_cuda_from(ours, moved, waits, shared_from),
    )


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
    alone = (CUDA_CALL / CLEARLY - ALONE) / on_threads(1, ours, moved, waits)
    if alone < shared_from:
        return alone
    gain = CLEARLY * on_threads(threads(), ours, moved, waits) - staging_seconds(moved)
    return max((CUDA_CALL - CLEARLY * CALL) / gain, shared_from) if gain > 0 else float("inf")


def cpu_seconds(program: ElementProgram, size: int, moved: int) -> float:
    """Return what a call takes on the CPU engine."""
    known = estimate(program)
    call, workers = (CALL, threads()) if size >= known.shared_from else (ALONE, 1)
    return call + on_threads(workers, size * known.ours, moved, known.waits)


def choose(function: str, program: ElementProgram, size: int, up: int) -> Plan:
    """Return where a call runs, which is the engine that will answer first.

    Parameters
    ----------
    function
        What is computed, in NumPy's words.
    program
        What is computed.
    size
        The number of elements.
    up
        The bytes read.
    """
    known = estimate(program)
    small = size < known.numpy_below and program.numpy_agrees
    has_cpu = engine_status.status("cpu").available
    if not small and has_cpu and size < known.cuda_from:
        return on_cpu(function)
    down = size * program.out_bytes
    seconds = size * known.numpy if small else cpu_seconds(program, size, up + down)
    if not engine_status.status("cuda"):
        is_asked = False
    elif small:
        is_asked = seconds > WORTH_WAKING
    else:
        is_asked = not has_cpu or is_worth_asking(seconds, up, down)
    if is_asked:
        on_cuda = cuda_seconds(up, down)
        if on_cuda < CLEARLY * seconds or not (small or has_cpu):
            other = "NumPy" if small else "the CPU"
            reason = f"auto: about {on_cuda * 1e3:.3g} ms, against {seconds * 1e3:.3g} ms on {other}"
            return Plan(function, "cuda", reason, automatic=True)
    return small_call(function) if small else on_cpu(function)
