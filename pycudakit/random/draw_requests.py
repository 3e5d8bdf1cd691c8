"""Calls of pk_random: what to draw, where from, and where to."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import cost_model
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine
from pycudakit._runtime.native_call import NativeCall, Pool, log_empty_call
from pycudakit._runtime.operands import allocate, code_for, strides_of
from pycudakit.random.philox import Stream, StreamPosition, counter_of

_WORD = (1 << 64) - 1


class DrawKind(NamedTuple):
    """What is drawn, and what an element costs on a thread of the CPU engine, in nanoseconds."""

    name: str
    code: int
    nanoseconds: float


BITS = DrawKind("bytes", abi.RANDOM_BITS, 2.5)
UNIFORM = DrawKind("random", abi.RANDOM_UNIFORM, 2.4)
NORMAL = DrawKind("normal", abi.RANDOM_NORMAL, 6.4)
EXPONENTIAL = DrawKind("exponential", abi.RANDOM_EXPONENTIAL, 3.5)
INTEGERS = DrawKind("integers", abi.RANDOM_INTEGERS, 3.0)
POISSON = DrawKind("poisson", abi.RANDOM_POISSON, 40.0)
BINOMIAL = DrawKind("binomial", abi.RANDOM_BINOMIAL, 60.0)
LOGNORMAL = DrawKind("lognormal", abi.RANDOM_LOGNORMAL, 7.0)
GAMMA = DrawKind("gamma", abi.RANDOM_GAMMA, 18.0)
BETA = DrawKind("beta", abi.RANDOM_BETA, 35.0)
GEOMETRIC = DrawKind("geometric", abi.RANDOM_GEOMETRIC, 9.0)

# NumPy's seconds for a call that has a generator made, and nanoseconds for 8 bytes.
_NUMPY_CALL, _NUMPY_EACH = 30e-6, 5.0
_CALL = 15e-6  # of the CPU engine's calls of a few elements, whose requests are kept


PREFETCH_ELEMENTS = 4096  # numbers of one call, at most, that are drawn before they are asked for


class DrawRequest(NamedTuple):
    """What is drawn, but for where from and how many."""

    choice: EngineChoice
    kind: DrawKind
    dtype: DType
    parameters: tuple[Any, ...]

    def can_prefetch(self, size: int) -> bool:
        """Tell whether so many are few, have a word each, and depend on their places alone."""
        choice = self.choice
        return (
            choice.engine == "cpu"
            and choice.automatic
            and 0 < size <= PREFETCH_ELEMENTS
            and not _uses_half_words(self.kind, self.dtype)
            and not any(p.ndim for p in self.parameters)
        )


def _uses_half_words(kind: DrawKind, dtype: DType) -> bool:
    """Tell whether an element is made of 32 bits, and not of a word."""
    return dtype.itemsize == 4 and kind.code <= abi.RANDOM_EXPONENTIAL


def plan_draws(
    name: str, kind: DrawKind, size: int, dtype: DType, parameters: Sequence[Array] = ()
) -> EngineChoice:
    """Choose an engine."""
    work = kind.nanoseconds * 1e-9 * size * (0.5 if _uses_half_words(kind, dtype) else 1.0)
    workers = cost_model.threads() if work > cost_model.SHARED_WORK else 1
    # NumPy has the same numbers for these two alone.
    same = kind.code in (abi.RANDOM_BITS, abi.RANDOM_UNIFORM) and not parameters
    numpy = _NUMPY_CALL + _NUMPY_EACH * 1e-9 * size * dtype.itemsize / 8 if same else None
    up = sum(p.nbytes for p in parameters if p.ndim)
    return choose_engine(
        name,
        [],
        Cost(numpy, (_CALL if workers == 1 else cost_model.CALL) + work / workers, up, size * dtype.itemsize),
    )


def draw(
    plan: EngineChoice,
    kind: DrawKind,
    stream: Stream,
    out: Array | None,
    shape: Any,
    dtype: DType,
    *parameters: Any,
) -> Array:
    """Draw an element for each of `shape`, to `out` if there is one."""
    if out is not None:
        target = out
    elif shape:
        target = allocate(dtype, shape, ())
    else:  # one number, which is read at once: it must not stay on a device, as arrays of fused functions do
        target = np.empty((), dtype)
    if target.size == 0:
        log_empty_call(plan.function)
        return target
    place = (stream.take_halves if _uses_half_words(kind, dtype) else stream.take_words)(target.size)
    works = _prepared_pool(1 + len(parameters))
    work = works.take()
    try:
        operands = [np.asarray(one) for one in parameters]  # a number of NumPy's has no address of its own
        work.bind_operands(place, kind, target, operands)
        work.run(plan, target.size)
    finally:
        works.give_back(work)
    return target


class _PreparedDraw(NativeCall):
    """What `pk_random` takes, for so many operands: the result, and parameters."""

    entry = "pk_random"

    def __init__(self, operands: int) -> None:
        super().__init__()
        self._draws, self._table = np.zeros(1, abi.DRAWS), np.zeros(operands, abi.OPERAND)
        self._shape, self._dimensions = np.empty(abi.MAX_DIMS, np.int64), ctypes.c_int64()
        self._key, self._counter = self._draws["key"][0], self._draws["counter"][0]
        self._addresses, self._types = self._table["address"], self._table["type"]
        self._flags, self._strides = self._table["flags"], self._table["strides"]

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        operands = ctypes.c_int64(len(self._table))
        entry_arguments = (
            self._draws,
            self._table,
            operands,
            self._shape,
            self._dimensions,
            self.options,
            self.report,
        )
        return abi.bound(library, self.entry, *entry_arguments)

    def bind_operands(
        self, place: StreamPosition, kind: DrawKind, target: Array, parameters: Sequence[Array]
    ) -> None:
        """Draw from a place to an array."""
        dimensions = self._dimensions.value = target.ndim
        self._shape[:dimensions] = target.shape
        for i, array in enumerate((target, *parameters)):
            self._addresses[i] = address_of(array)
            self._types[i] = code_for(array.dtype)
            self._flags[i] = 0 if array.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
            self._strides[i, :dimensions] = strides_of(array, target.shape) if i else target.strides
        counter = counter_of(place.word)
        self._key[:] = place.key
        self._counter[:] = [counter >> 64 * i & _WORD for i in range(4)]
        draws = self._draws
        draws["distribution"], draws["word"] = kind.code, place.word % 4
        draws["has_half"], draws["half"] = place.half is not None, place.half or 0


@functools.cache
def _prepared_pool(operands: int) -> Pool[_PreparedDraw]:
    return Pool(functools.partial(_PreparedDraw, operands))
