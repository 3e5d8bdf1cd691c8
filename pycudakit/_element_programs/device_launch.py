"""Launches of elementwise programs on device arrays: asynchronous, in the arrays' own stream.

A launch is prepared once for a function and its arguments' signatures, and cached; a call binds addresses and
enqueues. A call that no prepared launch supports takes the general path, `late_bound.call_on_device`: `call`
then returns None.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction, plain_program
from pycudakit._element_programs.prepared_program import PreparedProgram
from pycudakit._element_programs.program import ElementProgram
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    ArraySignature,
    ForeignLibrary,
    library_of_type,
    numpy_dtype,
)
from pycudakit._interop.memory_layout import Extent, contiguous_strides, extent, overlap
from pycudakit._native import abi, engine_status, loader
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime import context, late_bound
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit._runtime.native_call import Pool

_current_context = context.current_context
_MAX_PREPARED = 4096  # call signatures
# After this many enqueued operations, programs that were run often enough are compiled by NVRTC.
_COMPILE_CHECK_OPERATIONS = 1 << 27


class _DeviceProgram(PreparedProgram):
    """A program prepared for device arrays of given signatures; a call sets addresses and numbers."""

    def __init__(self, program: ElementProgram, shape: tuple[int, ...], signatures: Sequence[Any]) -> None:
        super().__init__(program)
        # Contiguous arrays of the program's whole shape are viewed as one dimension.
        if all(
            signatures[position].strides is None and signatures[position].shape == shape
            for _, position in self._arrays
        ):
            self.shape[0] = math.prod(shape)
        else:
            self.shape[: len(shape)] = shape
            self.dimensions.value = len(shape)
        for index, position in self._arrays:
            self._flags[index] = abi.ON_DEVICE
            if self.dimensions.value != 1 or len(shape) == 1:
                self._strides[index, : len(shape)] = _broadcast_strides(signatures[position], shape)
        self._stream, self._asynchronous = self.options["stream"], self.options["asynchronous"]

    def bind_device(self, values: Sequence[Any], stream: int, waits: bool) -> None:
        """Bind a call's operands: the addresses of device arrays, and Python numbers."""
        for number, position in self._numbers:
            number[()] = values[position]
        for index, position in self._arrays:
            self.addresses[index] = values[position]
        self._stream[0] = stream
        self._asynchronous[0] = not waits


class _CachedLaunch:
    """The cached parts of a call's signature: the result's shape and dtype, and a pool of prepared programs.

    `is_supported` is False if calls of this signature take the general path.
    """

    def __init__(self, function: ElementFunction, inputs: Sequence[Any], out: ArraySignature | None) -> None:
        inputs = [
            signature if isinstance(signature, type) else ArraySignature(*signature) for signature in inputs
        ]
        signatures = [signature for signature in (*inputs, out) if isinstance(signature, ArraySignature)]
        self.shape = np.broadcast_shapes(*(signature.shape for signature in signatures))
        dtypes = {signature: numpy_dtype(signature.dtype) for signature in signatures}
        self.is_supported = (
            # By `is`, because np.dtype(np.float64) == None is true.
            all(dtype is not None for dtype in dtypes.values())
            and 0 not in self.shape
            and len(self.shape) <= abi.MAX_DIMS
            and (out is None or (out.shape == self.shape and not out.is_readonly))
        )
        if not self.is_supported:
            return
        types = tuple(
            CODES[dtypes[signature]] if isinstance(signature, ArraySignature) else signature  # type: ignore[index]
            for signature in inputs
        )
        program = plain_program(function, types, None if out is None else CODES[dtypes[out]])  # type: ignore[index]
        if program is None or function.outputs != 1:
            self.is_supported = False
            return
        self.dtype: DType = program.out_dtypes[0]
        self.size = math.prod(self.shape)
        self.work = self.size * len(program.instructions)
        # The byte extent of each input and of `out`, relative to the first element; None for a Python number.
        self.extents = [
            _extent(signature) if isinstance(signature, ArraySignature) else None
            for signature in (*inputs, out)
        ]
        result_signature = out or ArraySignature(self.dtype.str, self.shape, None, False)
        # A program's operands are numbered: the result, the mask (here None), and the inputs.
        self.pool = Pool(
            functools.partial(_DeviceProgram, program, self.shape, (result_signature, None, *inputs))
        )
        self.choice_requested = EngineChoice(function.name, "cuda", context.REASON_ENGINE_REQUESTED)
        self.choice_automatic = EngineChoice(function.name, "cuda", "auto: arrays on a GPU")

    def overlaps(self, signatures: Sequence[Any], values: Sequence[Any]) -> bool:
        """Return True if `out` overlaps an argument, and is not that very array.

        `values` are the operands of the program; the last of `signatures` is that of `out`.
        """
        out_address = values[0]
        written = _moved(self.extents[-1], out_address)  # type: ignore[arg-type]
        for signature, address, read in zip(signatures, values[2:], self.extents, strict=False):
            if read is None or (address == out_address and signature == signatures[-1]):
                continue
            if overlap(written, _moved(read, address)):
                return True
        return False


_prepared_launches: LRUCache[tuple[Any, ...], _CachedLaunch] = LRUCache(_MAX_PREPARED)
_operations_since_check = 0  # operations enqueued since programs were last checked for compilation


def call(function: ElementFunction, inputs: Sequence[Any], out: Any = None) -> Any:
    """Enqueue a function whose arguments are arrays of one library and Python numbers.

    Return the result, or None if the call takes the general path.
    """
    context_now = _current_context.get()
    engine = context_now.fast_path_engine or context.process_engine
    if engine not in ("auto", "cuda"):
        return None
    library: ForeignLibrary | None = None
    first, stream = None, 0
    values: list[Any] = [0, None]
    signatures: list[Any] = []
    for value in inputs if out is None else (*inputs, out):
        kind = type(value)
        if kind is int or kind is float:
            signatures.append(kind)
            values.append(value)
            continue
        foreign_library = library_of_type(kind)
        if foreign_library is None or (library is not None and foreign_library is not library):
            return None
        try:
            array = foreign_library.inspect(value)
        except INSPECT_ERRORS:
            return None
        if array is None:
            return None
        signature, address, own_stream = array
        if library is None:
            library, first, stream = foreign_library, value, own_stream
        elif own_stream != stream:
            return None
        signatures.append(signature)
        values.append(address)
    if library is None or (out is not None and type(out) in (int, float)):
        return None
    key = (function, out is None, *signatures)
    launch = _prepared_launches[key]
    if launch is None and engine_status.status("cuda").available:
        launch = _prepare(key, function, signatures, out)
    if launch is None or not launch.is_supported:
        return None
    if out is None:
        result = library.empty(launch.shape, launch.dtype, first)
        values[0] = library.address_of(result)
    else:
        result, values[0] = out, values.pop()
        if launch.overlaps(signatures, values):
            return None
    pool = launch.pool
    work = pool.take()
    try:
        work.bind_device(values, stream, context_now.wait)
        fp_flags = work.run_unobserved(
            launch.choice_automatic if engine == "auto" else launch.choice_requested
        )
        if fp_flags and context_now.wait:
            work.report_fp_flags()
    except OverflowError:  # a Python integer that the other operands' type cannot hold
        return None
    finally:
        pool.give_back(work)
    _count_operations(launch.work)
    return result


@functools.lru_cache(1024)
def _pool(
    program: ElementProgram, shape: tuple[int, ...], signatures: tuple[Any, ...]
) -> Pool[_DeviceProgram]:
    return Pool(
        functools.partial(
            _DeviceProgram, program, shape, [signature and _signature(*signature) for signature in signatures]
        )
    )


def _signature(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> ArraySignature:
    signature = ArraySignature(dtype.str, shape, None, False)
    return signature if strides == _contiguous_strides(signature) else signature._replace(strides=strides)


def enqueue(
    name: str,
    program: ElementProgram,
    shape: tuple[int, ...],
    signatures: tuple[Any, ...],
    values: Sequence[Any],
    stream: int,
) -> None:
    """Enqueue a program in a stream.

    `values` are its outputs, its mask and its inputs: addresses of arrays, and Python numbers. `signatures`
    has the arrays' shapes, strides and types.
    """
    pool = _pool(program, shape, signatures)
    work = pool.take()
    try:
        waits = _current_context.get().wait
        work.bind_device(values, stream, waits)
        fp_flags = work.run_unobserved(EngineChoice(name, "cuda", context.REASON_ENGINE_REQUESTED))
        if fp_flags and waits:
            work.report_fp_flags()
    finally:
        pool.give_back(work)
    _count_operations(math.prod(shape) * len(program.instructions))


_COPY = ElementFunction("copy", np.copy, lambda _, x, **__: (x,))


def enqueue_copy(
    dtype: DType,
    shape: tuple[int, ...],
    to: tuple[int, tuple[int, ...]],
    source: tuple[int, tuple[int, ...]],
    stream: int,
) -> None:
    """Enqueue a copy from one array to another, each given by its address and its strides."""
    program = plain_program(_COPY, (CODES[dtype],), None)
    assert program is not None  # noqa: S101
    signatures = (shape, to[1], dtype), None, (shape, source[1], dtype)
    enqueue("copy", program, shape, signatures, (to[0], None, source[0]), stream)


def _prepare(
    key: tuple[Any, ...], function: ElementFunction, signatures: list[Any], out: Any
) -> _CachedLaunch | None:
    try:
        launch = (
            _CachedLaunch(function, signatures, None)
            if out is None
            else _CachedLaunch(function, signatures[:-1], ArraySignature(*signatures[-1]))
        )
    except (TypeError, ValueError):  # the general path raises the exception, with its own message
        return None
    _prepared_launches[key] = launch
    return launch


def _count_operations(operations: int) -> None:
    """Count enqueued operations; after enough of them, compile the programs that have run often.

    A small launch counts as 1/256 of the operations between two checks, as it costs more than its operations
    do.
    """
    global _operations_since_check  # noqa: PLW0603
    _operations_since_check += max(operations, _COMPILE_CHECK_OPERATIONS // 256)
    if _operations_since_check >= _COMPILE_CHECK_OPERATIONS:
        _operations_since_check = 0
        late_bound.compile_requested(loader.library("cuda"))


def _contiguous_strides(signature: ArraySignature) -> tuple[int, ...]:
    return contiguous_strides(signature.shape, _itemsize(signature))


def _itemsize(signature: ArraySignature) -> int:
    dtype = numpy_dtype(signature.dtype)
    return 0 if dtype is None else dtype.itemsize


def _broadcast_strides(signature: ArraySignature, shape: tuple[int, ...]) -> list[int]:
    """Return an array's strides, broadcast to a shape."""
    strides = _contiguous_strides(signature) if signature.strides is None else signature.strides
    own_strides = [0 if n == 1 else stride for n, stride in zip(signature.shape, strides, strict=True)]
    return [0] * (len(shape) - len(own_strides)) + own_strides


def _extent(signature: ArraySignature) -> Extent:
    """Return the extent of an array, relative to its first element."""
    strides = _contiguous_strides(signature) if signature.strides is None else signature.strides
    return extent(signature.shape, strides, _itemsize(signature))


def _moved(memory: Extent, address: int) -> Extent:
    """Return the extent of an array whose first element is at an address."""
    return memory[0] + address, memory[1] + address
