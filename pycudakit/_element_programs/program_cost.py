"""What programs take on each engine, by measured rates, and so where `auto` runs them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from pycudakit._element_programs.measured_rates import NANOSECONDS
from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import engine_status
from pycudakit._native.calibration_file import CALIBRATION
from pycudakit._runtime.cost_model import (
    CALL,
    CUDA_CALL,
    MIN_SECONDS_TO_WAKE_GPU,
    SINGLE_THREAD_BANDWIDTH,
    cuda_seconds,
    may_pay_on_gpu,
    staging_seconds,
    threaded_seconds,
    threads,
)
from pycudakit._runtime.engine_choice import EngineChoice, cpu_choice, numpy_choice_for_size

# Seconds
SINGLE_THREAD_CALL = CALIBRATION.constants.get(
    "SINGLE_THREAD_CALL", 7e-6
)  # of a call to a library that wakes no threads, beyond NumPy's
NUMPY_CALL = 1e-6  # of NumPy's call for each function of an expression

GPU_MARGIN = 0.9  # of the time of others, for the GPU to be taken

# What must be spared for the CPU engine to wake threads for elementwise work (csrc/cpu/elementwise.cpp).
THREAD_WAKE_SECONDS = 60e-6

# Several functions take so much of their times one by one, since values stay in registers between them.
FUSED_FACTOR = 0.7

# Threads gain less where memory is waited for: as if so many did nothing.
MEMORY_IDLE_THREADS = 0.85

# Nanoseconds an element of an instruction that was not measured, NumPy's and ours.
UNMEASURED = (0.2, 0.2)


@functools.cache
def measured(name: str, code: int) -> tuple[float, float]:
    """Return nanoseconds an element for a function and a type, NumPy's and ours."""
    cells = (CALIBRATION.rates.get(name) or NANOSECONDS.get(name, "")).split()
    if len(cells) <= code or cells[code] == "-":
        return UNMEASURED
    numpy, cpu = cells[code].split("/")
    return float(numpy), float(cpu)


def _pairs_of(program: ElementProgram) -> list[tuple[float, float]]:
    """Return what was measured of a program's functions, each once, however many instructions it became."""
    pairs, seen = [], set()
    for name, code, call in program.work:
        pair = measured(name, code)
        if pair is UNMEASURED or (name, call) not in seen:
            pairs.append(pair)
        seen.add((name, call))
    return pairs


@dataclass(frozen=True)
class Estimate:
    """What is known of a program before its arrays are."""

    numpy: float  # seconds an element in NumPy
    cpu: float  # in the CPU engine, on one thread
    memory_bound: bool  # for memory, longer than it computes
    parallel_from: float  # elements for which that wakes others
    numpy_below: float  # elements below which NumPy answers first, where all arrays have as many
    cuda_from: float  # and from which the GPU may answer before the CPU engine


@functools.lru_cache(4096)
def estimate(program: ElementProgram) -> Estimate:
    """Return what is known of a program."""
    pairs = _pairs_of(program)
    numpy, cpu = (1e-9 * sum(pair[i] for pair in pairs) for i in (0, 1))
    if len(pairs) > 1:
        cpu *= FUSED_FACTOR
    moved = program.in_bytes + program.out_bytes
    moving = moved / SINGLE_THREAD_BANDWIDTH
    memory_bound = moving > numpy
    spared = threaded_seconds(1, cpu, moved, memory_bound) * (1 - 1 / threads())
    parallel_from = THREAD_WAKE_SECONDS / spared if spared else float("inf")
    start = SINGLE_THREAD_CALL - NUMPY_CALL * (len(pairs) - 1)
    return Estimate(
        numpy=max(numpy, moving),
        cpu=cpu,
        memory_bound=memory_bound,
        parallel_from=parallel_from,
        numpy_below=_numpy_below(numpy, cpu, moving, parallel_from, start),
        cuda_from=_cuda_from(cpu, moved, memory_bound, parallel_from),
    )


def _numpy_below(numpy: float, cpu: float, moving: float, parallel_from: float, start: float) -> float:
    """Return how many elements make NumPy's time ours.

    An element takes `numpy` and `ours` seconds, and `moving` to and from memory; a call `start` more of ours.
    """
    if start <= 0:
        return 0
    one_thread = start / (numpy - cpu) if numpy > cpu else float("inf")
    if one_thread <= parallel_from:
        return one_thread
    gain = numpy - cpu / threads() if numpy > moving else moving * (1 - 1 / (threads() - MEMORY_IDLE_THREADS))
    return max(CALL / gain, parallel_from) if gain > 0 else float("inf")


def _cuda_from(cpu: float, moved: float, memory_bound: bool, parallel_from: float) -> float:
    """Return how many elements it takes for a GPU, on a link that is fast enough, to come first."""
    one_thread = (CUDA_CALL / GPU_MARGIN - SINGLE_THREAD_CALL) / threaded_seconds(1, cpu, moved, memory_bound)
    if one_thread < parallel_from:
        return one_thread
    gain = GPU_MARGIN * threaded_seconds(threads(), cpu, moved, memory_bound) - staging_seconds(moved)
    return max((CUDA_CALL - GPU_MARGIN * CALL) / gain, parallel_from) if gain > 0 else float("inf")


def cpu_seconds(program: ElementProgram, size: int, moved: int) -> float:
    """Return what a call takes on the CPU engine."""
    estimated = estimate(program)
    call, workers = (CALL, threads()) if size >= estimated.parallel_from else (SINGLE_THREAD_CALL, 1)
    return call + threaded_seconds(workers, size * estimated.cpu, moved, estimated.memory_bound)


def choose(function: str, program: ElementProgram, size: int, up: int) -> EngineChoice:
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
    estimated = estimate(program)
    small = size < estimated.numpy_below and program.numpy_agrees
    has_cpu = engine_status.status("cpu").available
    if not small and has_cpu and size < estimated.cuda_from:
        return cpu_choice(function)
    down = size * program.out_bytes
    seconds = size * estimated.numpy if small else cpu_seconds(program, size, up + down)
    if not engine_status.status("cuda"):
        may_use_gpu = False
    elif small:
        may_use_gpu = seconds > MIN_SECONDS_TO_WAKE_GPU
    else:
        may_use_gpu = not has_cpu or may_pay_on_gpu(seconds, up, down)
    if may_use_gpu:
        on_cuda = cuda_seconds(up, down)
        if on_cuda < GPU_MARGIN * seconds or not (small or has_cpu):
            other = "NumPy" if small else "the CPU"
            reason = f"auto: about {on_cuda * 1e3:.3g} ms, against {seconds * 1e3:.3g} ms on {other}"
            return EngineChoice(function, "cuda", reason, automatic=True)
    return numpy_choice_for_size(function) if small else cpu_choice(function)
