"""Calls of pk_random: what to draw, where from, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._calls import cost
from pycudakit._calls.invocation import nothing, run
from pycudakit._calls.operands import allocate, describe
from pycudakit._calls.plan import Cost, Plan, plan_call
from pycudakit._library import abi
from pycudakit._library.types import Array, DType
from pycudakit.random.philox import Place, Stream, counter_of

_WORD = (1 << 64) - 1


class Kind(NamedTuple):
    """What is drawn, and what an element costs on a thread of the CPU engine, in nanoseconds."""

    name: str
    what: int
    each: float


BITS = Kind("bytes", abi.RANDOM_BITS, 2.5)
UNIFORM = Kind("random", abi.RANDOM_UNIFORM, 2.4)
NORMAL = Kind("normal", abi.RANDOM_NORMAL, 6.4)
EXPONENTIAL = Kind("exponential", abi.RANDOM_EXPONENTIAL, 3.5)
INTEGERS = Kind("integers", abi.RANDOM_INTEGERS, 3.0)
POISSON = Kind("poisson", abi.RANDOM_POISSON, 40.0)
BINOMIAL = Kind("binomial", abi.RANDOM_BINOMIAL, 60.0)
LOGNORMAL = Kind("lognormal", abi.RANDOM_LOGNORMAL, 7.0)
GAMMA = Kind("gamma", abi.RANDOM_GAMMA, 18.0)
BETA = Kind("beta", abi.RANDOM_BETA, 35.0)
GEOMETRIC = Kind("geometric", abi.RANDOM_GEOMETRIC, 9.0)

# NumPy's seconds for a call that has a generator made, and nanoseconds for 8 bytes.
_NUMPY_CALL, _NUMPY_EACH = 30e-6, 5.0


def _takes_halves(kind: Kind, dtype: DType) -> bool:
    """Tell whether an element is made of 32 bits, and not of a word."""
    return dtype.itemsize == 4 and kind.what <= abi.RANDOM_EXPONENTIAL


def plan_draws(name: str, kind: Kind, size: int, dtype: DType, parameters: Sequence[Array] = ()) -> Plan:
    """Choose an engine."""
    work = kind.each * 1e-9 * size * (0.5 if _takes_halves(kind, dtype) else 1.0)
    workers = cost.threads() if work > cost.SHARED_WORK else 1
    # NumPy has the same numbers for these two alone.
    same = kind.what in (abi.RANDOM_BITS, abi.RANDOM_UNIFORM) and not parameters
    numpy = _NUMPY_CALL + _NUMPY_EACH * 1e-9 * size * dtype.itemsize / 8 if same else None
    up = sum(p.nbytes for p in parameters if p.ndim)
    return plan_call(name, [], Cost(numpy, cost.CALL + work / workers, up, size * dtype.itemsize))


def draw(
    planned: Plan, kind: Kind, stream: Stream, out: Array | None, shape: Any, dtype: DType, *parameters: Any
) -> Array:
    """Draw an element for each of `shape`, to `out` if there is one."""
    if out is not None:
        target = out
    elif shape:
        target = allocate(dtype, shape, ())
    else:  # one number, which is read at once: it must not stay on a device, as arrays of fused functions do
        target = np.empty((), dtype)
    if target.size == 0:
        nothing(planned.function)
        return target
    place = (stream.take_halves if _takes_halves(kind, dtype) else stream.take_words)(target.size)
    spread = [np.broadcast_to(parameter, shape) for parameter in parameters]
    operands = np.zeros(1 + len(spread), abi.OPERAND)
    for row, array in zip(operands, [target, *spread], strict=True):
        describe(row, array, array.strides)
    run(
        *(planned, "pk_random", _draws_at(place, kind), operands, len(operands)),
        *(np.array(target.shape, np.int64), target.ndim),
        size=target.size,
    )
    return target


def _draws_at(place: Place, kind: Kind) -> Array:
    draws = np.zeros(1, abi.DRAWS)
    counter = counter_of(place.word)
    draws["key"] = place.key
    draws["counter"] = [counter >> 64 * i & _WORD for i in range(4)]
    draws["what"], draws["word"] = kind.what, place.word % 4
    draws["has_half"], draws["half"] = place.half is not None, place.half or 0
    return draws
