"""Capture and replay of calls on host arrays, on the CPU engine.

The first call with a signature is traced as usual. The second is traced and captured as a plan. Later calls
run the plan, without tracing, if the signature is equal and no operation may have to warn.
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native import hardware
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context
from pycudakit.fusing.execute.capture import Capture, NotReplayableError
from pycudakit.fusing.execute.plan import Plan, PlanRun
from pycudakit.fusing.guards import Guards, ImpureError
from pycudakit.fusing.memory.buffer import byte_bounds

IS_ON = os.environ.get("PYCUDAKIT_REPLAY") != "0"
_MAX_SIGNATURES = 256
_MAX_ARRAY_BYTES = 64 << 20  # of all arguments: of longer calls, Python has a small share
_MAX_BYTES = 256 << 20  # of the runs that are idle
_MAX_FAILURES = 2  # replays that must be traced after all, before a plan is dropped
_MAX_LENGTH = 64  # of a tuple among the arguments
_KEYS = (bool, int, str, type(None), type)


class Signature(NamedTuple):
    """The signature of a call, as a hashable key, and the arrays of this call."""

    key: tuple[Any, ...]
    arrays: list[Array]
    addresses: list[int]


class _Entry:
    """The plan of one signature, and its runs that no thread is using."""

    def __init__(self) -> None:
        self.is_replayable = True
        self.failures = 0
        self.plan: Plan | None = None
        self.idle: list[PlanRun] = []


_entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
hardware.on_release.append(_entries.clear)


def signature_of(function: Any, args: Any, kwargs: Any) -> Signature | None:
    """Return the signature of a call of a fused function; None if it cannot be replayed."""
    guards: Guards | None = function.guards
    if guards is None or not IS_ON or context.fast_path_engine() != "cpu":
        return None
    arrays: list[Array] = []
    try:
        guard_values = guards.evaluate()
        positional = tuple([_key_of(value, arrays) for value in args])
        keyword = tuple([(name, _key_of(value, arrays)) for name, value in kwargs.items()])
    except (NotReplayableError, ImpureError):
        return None
    if not arrays or sum([array.nbytes for array in arrays]) > _MAX_ARRAY_BYTES:
        return None
    if len(arrays) > 1 and _overlap(arrays):
        return None
    return Signature((function, guard_values, positional, keyword), arrays, list(map(address_of, arrays)))


def _key_of(value: Any, arrays: list[Array]) -> Any:
    """Return the part of the key for one argument; append arrays to `arrays`."""
    kind = type(value)
    if kind is np.ndarray:
        for index, array in enumerate(arrays):
            if array is value:
                return index
        if value.dtype not in CODES or not value.size:
            raise NotReplayableError
        arrays.append(value)
        return value.dtype, value.shape, value.strides, value.flags.num
    if kind in _KEYS:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is tuple and len(value) <= _MAX_LENGTH:
        return kind, tuple([_key_of(part, arrays) for part in value])
    if issubclass(kind, np.generic):
        return kind, value.tobytes()
    if issubclass(kind, np.dtype):
        return kind, value
    raise NotReplayableError


def _overlap(arrays: list[Array]) -> bool:
    bounds = sorted(map(byte_bounds, arrays))
    return any(one[1] > other[0] for one, other in itertools.pairwise(bounds))


def replay(signature: Signature) -> Any:
    """Replay a call; return NotImplemented if it has no plan, or must be traced to warn."""
    entry = _entries.get(signature.key)
    if entry is None or entry.plan is None:
        return NotImplemented
    try:
        run = entry.idle.pop()
    except IndexError:  # other threads are using all of them
        run = PlanRun(entry.plan)
    result = run.run_with(signature.arrays, signature.addresses)
    entry.idle.append(run)
    if result is NotImplemented:
        entry.failures += 1
        if entry.failures >= _MAX_FAILURES:
            entry.plan, entry.is_replayable = None, False
            entry.idle.clear()
    return result


def call(signature: Signature, function: str, run: Callable[[Capture | None], Any]) -> Any:
    """Call `run`, with a capture if the signature was seen before, and is not known to be not replayable."""
    entry = _entries.get(signature.key)
    if entry is None:
        if len(_entries) >= _MAX_SIGNATURES:
            _entries.popitem(last=False)
        _entries[signature.key] = _Entry()
        return run(None)
    if not entry.is_replayable or entry.plan is not None:
        return run(None)
    shapes = [(array.dtype, array.shape, array.strides) for array in signature.arrays]
    capture = Capture(signature.arrays)
    result = run(capture)
    plan = capture.finish(function, result)
    if plan is None or shapes != [(array.dtype, array.shape, array.strides) for array in signature.arrays]:
        entry.is_replayable = False
        return result
    kept = PlanRun(plan)
    if kept.bytes + sum(run.bytes for each in _entries.values() for run in each.idle) > _MAX_BYTES:
        _entries.clear()
        return result
    entry.plan = plan
    entry.idle.append(kept)
    return result
