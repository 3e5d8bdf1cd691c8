"""Engine choice: on which engine a call runs, and the reason that `last_call()` reports.

A named engine is taken as it is. Under `auto`, estimated costs decide between NumPy, the CPU engine and CUDA.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycudakit import errors
from pycudakit._native import engine_status, hardware, loader
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Estimates, Reason
from pycudakit._runtime.cost_model import (
    CUDA_CALL,
    REASON_CPU_FASTER,
    REASON_NUMPY_FASTER_FOR_LAYOUT,
    REASON_NUMPY_FASTER_FOR_SIZE,
    cuda_seconds,
    may_pay_on_gpu,
)


class Cost(NamedTuple):
    """The estimated cost of a call on each engine.

    Attributes
    ----------
    numpy, cpu
        Seconds in NumPy and on the CPU engine. NumPy's are None if NumPy may not be chosen, and 0 if it is
        fastest, and not estimated.
    up, down
        Bytes to upload and download on the CUDA engine.
    gpu
        Seconds of work on the GPU that no transfer hides.
    of_values
        Whether NumPy's seconds depend on the values of the arrays, and not on their sizes alone.
    """

    numpy: float | None
    cpu: float
    up: int
    down: int
    gpu: float = 0.0
    of_values: bool = False


# The remedy for a call that a named engine does not support.
OTHER_ENGINE = "use the engine 'auto' or fallback='numpy'"
# Why only NumPy can compute a call.
UNSUPPORTED_DTYPE = "it takes bool, integers and floats of up to 64 bits"
LACKING = "pycudakit lacks it"

NO_COST = Cost(0.0, 0.0, 0, 0)  # for calls whose engine does not depend on the cost


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a call, and the reason for it."""

    function: str
    engine: str  # "numpy", "cpu" or "cuda"
    reason: Reason
    automatic: bool = False  # chosen by `auto`, so the call may fall back to another engine


def choose_engine(
    function: str, values: Iterable[Any], cost: Cost, unsupported: str | None = None
) -> EngineChoice:
    """Choose the engine of a call.

    Parameters
    ----------
    function
        NumPy's name of the function.
    values
        The results of `as_array` for the arguments. None means an argument that only NumPy supports: `auto`
        then chooses NumPy, and a named engine raises `Unsupported`.
    cost
        The estimate by which `auto` decides.
    unsupported
        Why only NumPy can compute this call, if the reason is not the arguments' types.
    """
    engine = context.current_context.get().engine or context.process_engine
    forced = None if engine == "auto" else requested_engine(function, engine)
    if forced is not None and engine == "numpy":
        return forced
    if forced is None and not (
        engine_status.status("cpu").available or engine_status.status("cuda").available
    ):
        return EngineChoice(function, "numpy", f"auto: {engine_status.status('cpu').reason}")
    for value in values:
        if value is None and unsupported is None:
            unsupported = UNSUPPORTED_DTYPE
    if unsupported is not None:
        if forced is None:
            return EngineChoice(function, "numpy", f"auto: only NumPy takes this: {unsupported}")
        return fallback_to_numpy(
            function,
            f"{function}: not on the {engine} engine: {unsupported}; convert it, or {OTHER_ENGINE}",
            unsupported,
        )
    return _choose(function, cost) if forced is None else forced


def fallback_to_numpy(function: str, refusal: str, unsupported: str) -> EngineChoice:
    """Return the choice of NumPy for a call that the named engine does not support, or refuse the call."""
    if not context.falls_back():
        raise errors.Unsupported(refusal)
    engine = context.current_engine()
    return EngineChoice(function, "numpy", f"fallback from the {engine} engine: {unsupported}")


@functools.lru_cache(4096)
def requested_engine(function: str, engine: str) -> EngineChoice:
    """Return the choice of a named engine, or raise `NoDevice` if that engine is missing."""
    context.checked_engine(engine)
    if engine != "numpy":
        loader.library(engine)
    return EngineChoice(function, engine, context.REASON_ENGINE_REQUESTED)


@functools.lru_cache(4096)
def cpu_choice(function: str) -> EngineChoice:
    """Return the choice of the CPU engine by `auto`."""
    return EngineChoice(function, "cpu", REASON_CPU_FASTER, automatic=True)


@functools.lru_cache(4096)
def numpy_choice_for_size(function: str) -> EngineChoice:
    """Return the choice of NumPy by `auto` because of the size of the arrays, without estimates."""
    return EngineChoice(function, "numpy", REASON_NUMPY_FASTER_FOR_SIZE)


@functools.lru_cache(4096)
def numpy_choice_for_layout(function: str) -> EngineChoice:
    """Return the choice of NumPy by `auto`, because of the memory layout of the array."""
    return EngineChoice(function, "numpy", REASON_NUMPY_FASTER_FOR_LAYOUT)


def choice_is_final() -> bool:
    """Return True if `auto` will choose the same for later calls: there is no GPU, or it is awake."""
    return not engine_status.status("cuda").available or hardware.link_is_known()


def preferred_choice(function: str, is_numpys: bool) -> EngineChoice | None:
    """Return the choice of the engine that the context prefers to the one with the least estimate.

    `is_numpys` says whether that is NumPy's. An engine that was lost meanwhile is not preferred.
    """
    preference = context.current_context.get().preference
    if preference is None or (is_numpys and not preference.over_numpy):
        return None
    if not engine_status.status(preference.engine).available:
        return None
    return _choice_of_preference(function, preference)


@functools.lru_cache(4096)
def _choice_of_preference(function: str, preference: context.Preference) -> EngineChoice:
    return EngineChoice(function, preference.engine, preference.reason, automatic=True)


_SHORT = 1e-4  # seconds of a call in NumPy


def numpys_estimates(cost: Cost) -> Estimates:
    """Return the estimates of a call for which `auto` chooses NumPy."""
    cpu = cost.cpu if engine_status.status("cpu").available else None
    cuda_status = engine_status.status("cuda")
    return Estimates("numpy", cost.numpy, cpu, None, cuda_status, by_size=_is_by_size(cost))


def _is_by_size(cost: Cost) -> bool:
    """Return True if the choice of NumPy holds for calls of a similar size."""
    return cost.numpy is not None and cost.numpy < _SHORT and not cost.of_values


def _choose(function: str, cost: Cost) -> EngineChoice:
    if cost.numpy == 0:
        return numpy_choice_for_size(function)
    is_numpys = cost.numpy is not None and cost.numpy <= cost.cpu
    if (preferred := preferred_choice(function, is_numpys)) is not None:
        return preferred
    has_cpu, cuda_status = engine_status.status("cpu").available, engine_status.status("cuda")
    engine, seconds = "cpu", cost.cpu
    if cost.numpy is not None and is_numpys:
        engine, seconds = "numpy", cost.numpy
    must_use_gpu = engine == "cpu" and not has_cpu
    on_cuda = math.inf if cost.gpu == math.inf else None
    is_long = engine == "cpu" or seconds > CUDA_CALL
    if cuda_status and (must_use_gpu or (is_long and may_pay_on_gpu(seconds, cost.up, cost.down, cost.gpu))):
        on_cuda = cuda_seconds(cost.up, cost.down) + cost.gpu
        if must_use_gpu or on_cuda < seconds:
            engine = "cuda"
    cpu = cost.cpu if has_cpu else None
    by_size = engine == "numpy" and _is_by_size(cost)
    estimates = Estimates(engine, cost.numpy, cpu, on_cuda, cuda_status, by_size=by_size)
    return EngineChoice(function, engine, estimates, automatic=engine != "numpy")
