"""Calls of pk_random: what to draw, where from, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit import _abi, _cost, _execute
from pycudakit._family import Cost, Plan, describe, plan, run
from pycudakit._philox import Place, Stream, counter_of
from pycudakit._values import Array, DType

_WORD = (1 << 64) - 1


class Kind(NamedTuple):
    """What is drawn, and what an element costs on a thread of the CPU engine, in nanoseconds."""

    name: str
    what: int
    each: float


BITS = Kind("bytes", _abi.RANDOM_BITS, 2.5)
UNIFORM = Kind("random", _abi.RANDOM_UNIFORM, 2.4)
NORMAL = Kind("normal", _abi.RANDOM_NORMAL, 6.4)
EXPONENTIAL = Kind("exponential", _abi.RANDOM_EXPONENTIAL, 3.5)
INTEGERS = Kind("integers", _abi.RANDOM_INTEGERS, 3.0)
POISSON = Kind("poisson", _abi.RANDOM_POISSON, 40.0)
BINOMIAL = Kind("binomial", _abi.RANDOM_BINOMIAL, 60.0)

# NumPy's seconds for a call that has a generator made, and nanoseconds for 8 bytes.
_NUMPY_CALL, _NUMPY_EACH = 30e-6, 5.0


def _takes_halves(kind: Kind, dtype: DType) -> bool:
    """Tell whether an element is made of 32 bits, and not of a word."""
    return dtype.itemsize == 4 and kind.what != _abi.RANDOM_INTEGERS


def plan_draws(name: str, kind: Kind, size: int, dtype: DType, parameters: Sequence[Array] = ()) -> Plan:
    """Choose an engine."""
    work = kind.each * 1e-9 * size * (0.5 if _takes_halves(kind, dtype) else 1.0)
    workers = _cost.threads() if work > _cost.SHARED_WORK else 1
    # NumPy has the same numbers for these two alone.
    same = kind.what in (_abi.RANDOM_BITS, _abi.RANDOM_UNIFORM) and not parameters
    numpy = _NUMPY_CALL + _NUMPY_EACH * 1e-9 * size * dtype.itemsize / 8 if same else None
    up = sum(p.nbytes for p in parameters if p.ndim)
    return plan(name, [], Cost(numpy, _cost.CALL + work / workers, up, size * dtype.itemsize))


def draw(
    planned: Plan, kind: Kind, stream: Stream, out: Array | None, shape: Any, dtype: DType, *parameters: Any
) -> Array:
    """Draw an element for each of `shape`, to `out` if there is one."""
    target = _execute.allocate(dtype, shape, ()) if out is None else out
    if target.size == 0:
        return target
    place = (stream.take_halves if _takes_halves(kind, dtype) else stream.take_words)(target.size)
    spread = [np.broadcast_to(parameter, shape) for parameter in parameters]
    operands = np.zeros(1 + len(spread), _abi.OPERAND)
    for row, array in zip(operands, [target, *spread], strict=True):
        describe(row, array, array.strides)
    run(
        *(planned, "pk_random", _draws_at(place, kind), operands, len(operands)),
        *(np.array(target.shape, np.int64), target.ndim),
        size=target.size,
    )
    return target


def _draws_at(place: Place, kind: Kind) -> Array:
    draws = np.zeros(1, _abi.DRAWS)
    counter = counter_of(place.word)
    draws["key"] = place.key
    draws["counter"] = [counter >> 64 * i & _WORD for i in range(4)]
    draws["what"], draws["word"] = kind.what, place.word % 4
    draws["has_half"], draws["half"] = place.half is not None, place.half or 0
    return draws
