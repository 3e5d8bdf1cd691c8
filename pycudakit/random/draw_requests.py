"""Requests to `pk_random`: the distribution, the position in the stream, the parameters and the result."""

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
    """A distribution of `pk_random`, and its cost per element on one thread of the CPU engine, in ns."""

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

# Seconds of NumPy per call, including making a generator, and nanoseconds per 8 bytes.
_NUMPY_CALL, _NUMPY_EACH = 30e-6, 5.0
_CALL = 15e-6  # seconds of a CPU engine call for a few elements
_NO_UPLOAD = 90e-6  # seconds that a call on a GPU takes less if it uploads nothing


PREFETCH_ELEMENTS = 4096  # the most numbers of one call that are drawn ahead


class DrawRequest(NamedTuple):
    """A request without its position in the stream and its size."""

    choice: EngineChoice
    kind: DrawKind
    dtype: DType
    parameters: tuple[Any, ...]

    def can_prefetch(self, size: int) -> bool:
        """Return True if so many numbers are few, have one word each, and have scalar parameters."""
        choice = self.choice
        return (
            choice.engine == "cpu"
            and choice.automatic
            and 0 < size <= PREFETCH_ELEMENTS
            and not _uses_half_words(self.kind, self.dtype)
            and not any(p.ndim for p in self.parameters)
        )


def _uses_half_words(kind: DrawKind, dtype: DType) -> bool:
    """Return True if an element is made of 32 bits instead of a 64-bit word."""
    return dtype.itemsize == 4 and kind.code <= abi.RANDOM_EXPONENTIAL


def plan_draws(
    name: str, kind: DrawKind, size: int, dtype: DType, parameters: Sequence[Array] = ()
) -> EngineChoice:
    """Choose the engine of a draw."""
    work = kind.nanoseconds * 1e-9 * size * (0.5 if _uses_half_words(kind, dtype) else 1.0)
    workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
    # Only for these two distributions are our numbers NumPy's.
    same = kind.code in (abi.RANDOM_BITS, abi.RANDOM_UNIFORM) and not parameters
    numpy = _NUMPY_CALL + _NUMPY_EACH * 1e-9 * size * dtype.itemsize / 8 if same else None
    up = sum(p.nbytes for p in parameters if p.ndim)
    on_cpu = (_CALL if workers == 1 else cost_model.CALL) + work / workers
    on_gpu = 0.0 if up else -_NO_UPLOAD
    return choose_engine(name, [], Cost(numpy, on_cpu, up, size * dtype.itemsize, on_gpu))


def draw(
    choice: EngineChoice,
    kind: DrawKind,
    stream: Stream,
    out: Array | None,
    shape: Any,
    dtype: DType,
    *parameters: Any,
) -> Array:
    """Draw an array of a shape, into `out` if there is one."""
    if out is not None:
        target = out
    elif shape:
        target = allocate(dtype, shape, ())
    else:  # one number is read at once, so it must not be device-resident, as results in fused functions are
        target = np.empty((), dtype)
    if target.size == 0:
        log_empty_call(choice.function)
        return target
    position = (stream.take_halves if _uses_half_words(kind, dtype) else stream.take_words)(target.size)
    works = _prepared_pool(1 + len(parameters))
    work = works.take()
    try:
        operands = [np.asarray(one) for one in parameters]  # a NumPy scalar has no address
        work.bind_operands(position, kind, target, operands)
        work.run(choice, target.size)
    finally:
        works.give_back(work)
    return target


class _PreparedDraw(NativeCall):
    """Prepared arguments of `pk_random` for a number of operands: the result, and parameters."""

    entry = "pk_random"

    def __init__(self, operands: int) -> None:
        super().__init__()
        self._draws, self._table = np.zeros(1, abi.DRAWS), np.zeros(operands, abi.OPERAND)
        self._shape, self._dimensions = np.empty(abi.MAX_DIMS, np.int64), ctypes.c_int64()
        self._key, self._counter = self._draws["key"][0], self._draws["counter"][0]
        self._addresses, self._types = self._table["address"], self._table["type"]
        self._flags, self._strides = self._table["flags"], self._table["strides"]

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
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
        self, position: StreamPosition, kind: DrawKind, target: Array, parameters: Sequence[Array]
    ) -> None:
        """Bind a position in the stream, a distribution, a target array and parameters."""
        dimensions = self._dimensions.value = target.ndim
        self._shape[:dimensions] = target.shape
        for i, array in enumerate((target, *parameters)):
            self._addresses[i] = address_of(array)
            self._types[i] = code_for(array.dtype)
            self._flags[i] = 0 if array.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
            self._strides[i, :dimensions] = strides_of(array, target.shape) if i else target.strides
        counter = counter_of(position.word)
        self._key[:] = position.key
        self._counter[:] = [counter >> 64 * i & _WORD for i in range(4)]
        draws = self._draws
        draws["distribution"], draws["word"] = kind.code, position.word % 4
        draws["has_half"], draws["half"] = position.half is not None, position.half or 0


@functools.cache
def _prepared_pool(operands: int) -> Pool[_PreparedDraw]:
    return Pool(functools.partial(_PreparedDraw, operands))
