"""Where a call runs, and why."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycudakit import errors
from pycudakit._native import engine_status, loader
from pycudakit._runtime import context
from pycudakit._runtime.cost_model import CPU_FIRST, QUICKER_AS_IT_LIES, SMALL, cuda_seconds, is_worth_asking


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


NOTHING = Cost(0.0, 0.0, 0, 0)  # where the cost decides nothing


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a call runs, and why."""

    function: str
    engine: str  # "numpy", "cpu" or "cuda"
    reason: str
    automatic: bool = False


def plan_call(function: str, values: Iterable[Any], cost: Cost, foreign: str | None = None) -> Plan:
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
    engine = context.here.get().engine or context.process
    forced = None if engine == "auto" else asked_for(function, engine)
    if forced is not None and engine == "numpy":
        return forced
    if forced is None and not (
        engine_status.status("cpu").available or engine_status.status("cuda").available
    ):
        return Plan(function, "numpy", f"auto: {engine_status.status('cpu').reason}")
    for value in values:
        if value is None and foreign is None:
            foreign = "it takes bool, integers and floats of up to 64 bits"
    if foreign is not None:
        if forced is None:
            return Plan(function, "numpy", f"auto: only NumPy takes this: {foreign}")
        raise errors.Unsupported(
            f"{function}: not on the {engine} engine: {foreign}; convert it, or use the engine 'auto'"
        )
    return _choose(function, cost) if forced is None else forced


@functools.lru_cache(4096)
def asked_for(function: str, engine: str) -> Plan:
    """Return the plan of a call whose engine is named, or raise `NoDevice` where there is none."""
    context.checked(engine)
    if engine != "numpy":
        loader.library(engine)
    return Plan(function, engine, context.ASKED_FOR)


@functools.lru_cache(4096)
def on_cpu(function: str) -> Plan:
    """Return the plan of a call that `auto` leaves to the CPU engine."""
    return Plan(function, "cpu", CPU_FIRST, automatic=True)


@functools.lru_cache(4096)
def small_call(function: str) -> Plan:
    """Return the plan of a call that `auto` leaves to NumPy."""
    return Plan(function, "numpy", SMALL)


@functools.lru_cache(4096)
def quicker_call(function: str) -> Plan:
    """Return the plan of a call that `auto` leaves to NumPy for how its array lies, and not for its size."""
    return Plan(function, "numpy", QUICKER_AS_IT_LIES)


def _choose(function: str, cost: Cost) -> Plan:
    if cost.numpy is not None and cost.numpy <= cost.cpu:
        return small_call(function)
    has_cpu = engine_status.status("cpu").available
    if engine_status.status("cuda") and (
        not has_cpu or is_worth_asking(cost.cpu, cost.up, cost.down, cost.gpu)
    ):
        on_cuda = cuda_seconds(cost.up, cost.down) + cost.gpu
        if on_cuda < cost.cpu or not has_cpu:
            reason = f"auto: about {on_cuda * 1e3:.3g} ms, against {cost.cpu * 1e3:.3g} ms on the CPU"
            return Plan(function, "cuda", reason, automatic=True)
    return on_cpu(function)
