"""Where a call runs, and why."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycudakit import errors
from pycudakit._native import engine_status, loader
from pycudakit._runtime import context
from pycudakit._runtime.cost_model import (
    REASON_CPU_FASTER,
    REASON_NUMPY_FASTER_FOR_LAYOUT,
    REASON_NUMPY_FASTER_FOR_SIZE,
    cuda_seconds,
    may_pay_on_gpu,
)


class Cost(NamedTuple):
    """What a call is guessed to take.

    Seconds in NumPy (None if it may not go there) and on the CPU engine; for the CUDA engine, the bytes that
    go up and down, and seconds of work that no transfer hides.
    """

    numpy: float | None
    cpu: float
    up: int
    down: int
    gpu: float = 0.0


NO_COST = Cost(0.0, 0.0, 0, 0)  # where the cost decides nothing


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Where a call runs, and why."""

    function: str
    engine: str  # "numpy", "cpu" or "cuda"
    reason: str
    automatic: bool = False


def choose_engine(
    function: str, values: Iterable[Any], cost: Cost, unsupported: str | None = None
) -> EngineChoice:
    """Choose the engine of a call.

    Parameters
    ----------
    function
        NumPy's name of what is computed.
    values
        What `as_array` made of the arguments: None stands for one that is NumPy's alone, which `auto` leaves
        to it and which raises `Unsupported` where an engine is forced.
    cost
        What `auto` decides by.
    foreign
        Why this call is NumPy's alone, if it is for another reason.
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
            unsupported = "it takes bool, integers and floats of up to 64 bits"
    if unsupported is not None:
        if forced is None:
            return EngineChoice(function, "numpy", f"auto: only NumPy takes this: {unsupported}")
        raise errors.Unsupported(
            f"{function}: not on the {engine} engine: {unsupported}; convert it, or use the engine 'auto'"
        )
    return _choose(function, cost) if forced is None else forced


@functools.lru_cache(4096)
def requested_engine(function: str, engine: str) -> EngineChoice:
    """Return the plan of a call whose engine is named, or raise `NoDevice` where there is none."""
    context.checked_engine(engine)
    if engine != "numpy":
        loader.library(engine)
    return EngineChoice(function, engine, context.REASON_ENGINE_REQUESTED)


@functools.lru_cache(4096)
def cpu_choice(function: str) -> EngineChoice:
    """Return the plan of a call that `auto` leaves to the CPU engine."""
    return EngineChoice(function, "cpu", REASON_CPU_FASTER, automatic=True)


@functools.lru_cache(4096)
def numpy_choice_for_size(function: str) -> EngineChoice:
    """Return the plan of a call that `auto` leaves to NumPy."""
    return EngineChoice(function, "numpy", REASON_NUMPY_FASTER_FOR_SIZE)


@functools.lru_cache(4096)
def numpy_choice_for_layout(function: str) -> EngineChoice:
    """Return the plan of a call that `auto` leaves to NumPy for how its array lies, and not for its size."""
    return EngineChoice(function, "numpy", REASON_NUMPY_FASTER_FOR_LAYOUT)


def _choose(function: str, cost: Cost) -> EngineChoice:
    if cost.numpy is not None and cost.numpy <= cost.cpu:
        return numpy_choice_for_size(function)
    has_cpu = engine_status.status("cpu").available
    if engine_status.status("cuda") and (
        not has_cpu or may_pay_on_gpu(cost.cpu, cost.up, cost.down, cost.gpu)
    ):
        on_cuda = cuda_seconds(cost.up, cost.down) + cost.gpu
        if on_cuda < cost.cpu or not has_cpu:
            reason = f"auto: about {on_cuda * 1e3:.3g} ms, against {cost.cpu * 1e3:.3g} ms on the CPU"
            return EngineChoice(function, "cuda", reason, automatic=True)
    return cpu_choice(function)
