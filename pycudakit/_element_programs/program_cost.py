"""Cost model of elementwise programs: the time on each engine by measured rates, and `auto`'s choice."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from pycudakit._element_programs.measured_rates import NANOSECONDS
from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import engine_status
from pycudakit._native.calibration_file import CALIBRATION
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.cost_model import (
    CALL,
    CUDA_CALL,
    MIN_SECONDS_TO_WAKE_GPU,
    SINGLE_THREAD_BANDWIDTH,
    SINGLE_THREAD_CALL,
    cuda_seconds,
    may_pay_on_gpu,
    staging_seconds,
    threaded_seconds,
    threads,
)
from pycudakit._runtime.engine_choice import EngineChoice, preferred_choice

# Seconds of one NumPy call. An expression makes a call for each of its functions.
NUMPY_CALL = 1e-6

# The GPU is chosen if its time is below this fraction of the other engine's.
GPU_MARGIN = 0.9

# The CPU engine wakes threads for elementwise work if they save so many seconds (csrc/cpu/elementwise.cpp).
THREAD_WAKE_SECONDS = 60e-6

# A program of several functions takes this fraction of the sum of their times: values stay in registers.
FUSED_FACTOR = 0.7

# Threads speed up memory-bound work less than other work: as if this many threads were idle.
MEMORY_IDLE_THREADS = 0.85

# The assumed nanoseconds per element of an unmeasured instruction: NumPy's, and the CPU engine's.
UNMEASURED = (0.2, 0.2)


@functools.cache
def measured(name: str, code: int) -> tuple[float, float]:
    """Return nanoseconds per element of a function on a type: NumPy's, and the CPU engine's."""
    cells = (CALIBRATION.rates.get(name) or NANOSECONDS.get(name, "")).split()
    if len(cells) <= code or cells[code] == "-":
        return UNMEASURED
    numpy, cpu = cells[code].split("/")
    return float(numpy), float(cpu)


def _pairs_of(program: ElementProgram) -> list[tuple[float, float]]:
    """Return the rates of a program's functions.

    A measured function counts once, however many instructions it compiles to; an unmeasured instruction each
    time.
    """
    pairs, seen = [], set()
    for name, code, call in program.work:
        pair = measured(name, code)
        if pair is UNMEASURED or (name, call) not in seen:
            pairs.append(pair)
        seen.add((name, call))
    return pairs


@dataclass(frozen=True)
class Estimate:
    """Time estimates of a program that do not depend on the arrays' sizes."""

    numpy: float  # seconds per element in NumPy: the larger of computing and memory traffic
    cpu: float  # compute seconds per element on one thread, without memory traffic
    memory_bound: bool  # memory traffic takes longer than NumPy's computing
    parallel_from: float  # elements from which the CPU engine wakes threads
    numpy_below: float  # elements below which NumPy is fastest, if all arrays have the full shape
    cuda_from: float  # elements from which the GPU may be faster than the CPU engine


@functools.lru_cache(4096)
def estimate(program: ElementProgram) -> Estimate:
    """Estimate a program's time per element and its crossover sizes."""
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
    """Return the number of elements at which NumPy and the CPU engine take the same time.

    An element takes `numpy` or `cpu` seconds, and `moving` seconds to and from memory; a call of the CPU
    engine takes `start` seconds more than NumPy's.
    """
    if start <= 0:
        return 0
    one_thread = start / (numpy - cpu) if numpy > cpu else float("inf")
    if one_thread <= parallel_from:
        return one_thread
    gain = numpy - cpu / threads() if numpy > moving else moving * (1 - 1 / (threads() - MEMORY_IDLE_THREADS))
    return max(CALL / gain, parallel_from) if gain > 0 else float("inf")


def _cuda_from(cpu: float, moved: float, memory_bound: bool, parallel_from: float) -> float:
    """Return the number of elements from which the GPU is fastest, on a link that is fast enough."""
    one_thread = (CUDA_CALL / GPU_MARGIN - SINGLE_THREAD_CALL) / threaded_seconds(1, cpu, moved, memory_bound)
    if one_thread < parallel_from:
        return one_thread
    gain = GPU_MARGIN * threaded_seconds(threads(), cpu, moved, memory_bound) - staging_seconds(moved)
    return max((CUDA_CALL - GPU_MARGIN * CALL) / gain, parallel_from) if gain > 0 else float("inf")


def cpu_seconds(program: ElementProgram, size: int, moved: int) -> float:
    """Estimate the seconds of a call on the CPU engine."""
    estimated = estimate(program)
    call, workers = (CALL, threads()) if size >= estimated.parallel_from else (SINGLE_THREAD_CALL, 1)
    return call + threaded_seconds(workers, size * estimated.cpu, moved, estimated.memory_bound)


def choose(function: str, program: ElementProgram, size: int, up: int) -> EngineChoice:
    """Choose the engine that is fastest for a call, transfers included.

    Parameters
    ----------
    function
        The function's NumPy name.
    program
        The program that computes it.
    size
        The number of elements.
    up
        The bytes read.
    """
    estimated = estimate(program)
    small = size < estimated.numpy_below and program.numpy_agrees
    if (preferred := preferred_choice(function, small)) is not None:
        return preferred
    has_cpu, cuda_status = engine_status.status("cpu").available, engine_status.status("cuda")
    down = size * program.out_bytes
    on_cpu = cpu_seconds(program, size, up + down)
    on_numpy = size * estimated.numpy if program.numpy_agrees else None
    seconds = on_cpu if not small or on_numpy is None else on_numpy
    if not cuda_status or (not small and has_cpu and size < estimated.cuda_from):
        may_use_gpu = False
    elif small:
        may_use_gpu = seconds > MIN_SECONDS_TO_WAKE_GPU
    else:
        may_use_gpu = not has_cpu or may_pay_on_gpu(seconds, up, down)
    engine, on_cuda = "numpy" if small else "cpu", None
    if may_use_gpu:
        on_cuda = cuda_seconds(up, down)
        if on_cuda < GPU_MARGIN * seconds or not (small or has_cpu):
            engine = "cuda"
    estimates = Estimates(
        engine,
        numpy=on_numpy,
        cpu=on_cpu if has_cpu else None,
        cuda=on_cuda,
        cuda_status=cuda_status,
        numpy_below=estimated.numpy_below if program.numpy_agrees else 0.0,
        by_size=engine == "numpy",
    )
    return EngineChoice(function, engine, estimates, automatic=engine != "numpy")
