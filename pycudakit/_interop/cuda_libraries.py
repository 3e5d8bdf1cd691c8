"""Fast access to device arrays of CuPy, PyTorch and Numba: address, layout, stream, allocation.

The standard protocols take microseconds; the attributes read here take less. They serve the fast path of
calls on device arrays, which are enqueued on the arrays' stream. PyCUDA and other types use the protocols.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native import engine_status
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime import context
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import Pool

_current_context = context.current_context

LEGACY_STREAM = 1  # as `__cuda_array_interface__` numbers them, and CUDA, too
_INTERFACE = 3  # version


class ArraySignature(NamedTuple):
    """The signature of a device array: all but its address. `strides` is None if it is C-contiguous."""

    dtype: Any  # in the library's own notation
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    is_readonly: bool


# The fields of an `ArraySignature` as a plain tuple, which is faster to make; the address; the stream.
Inspected = tuple[tuple[Any, ...], int, int]


class ForeignLibrary(NamedTuple):
    """The functions that inspect and allocate arrays of one library."""

    inspect: Callable[[Any], Inspected | None]
    empty: Callable[[tuple[int, ...], DType, Any], Any]
    address_of: Callable[[Any], int]
    is_on_device: Callable[[Any], bool]  # False if that is not certain
    device_index: Callable[[Any], int]


def device_engine() -> str | None:
    """Return the engine in force if calls on device arrays may be enqueued, else None."""
    engine = _current_context.get().fast_path_engine or context.process_engine
    return engine if engine in ("auto", "cuda") and engine_status.status("cuda").available else None


@functools.cache
def has_one_device() -> bool:
    """Return True if there is one GPU only, so that an array's device need not be checked."""
    return engine_status.device_count() == 1


@functools.cache
def device_choice(function: str, engine: str) -> EngineChoice:
    """Return the engine choice of a call on device arrays."""
    reason = "auto: arrays on a GPU" if engine == "auto" else context.REASON_ENGINE_REQUESTED
    return EngineChoice(function, "cuda", reason)


class DeviceOperand(NamedTuple):
    """A device array for which a call may be enqueued, and the engine in force."""

    library: ForeignLibrary
    engine: str
    signature: Any  # the fields of an ArraySignature
    address: int
    stream: int

    @classmethod
    def of(cls, a: Any) -> DeviceOperand | None:
        """Return the operand; None if calls on it take the general path."""
        library, engine = library_of_type(type(a)), device_engine()
        if library is None or engine is None:
            return None
        try:
            inspected = library.inspect(a)
        except INSPECT_ERRORS:
            return None
        return None if inspected is None else cls(library, engine, *inspected)

    def run(self, name: str, pool: Pool[Any], address: int, result: int) -> int:
        """Run a prepared call of an array and its result in the operand's stream; return its FP flags."""
        work = pool.take()
        try:
            work.bind_device(address, result)
            fp_flags: int = work.run_on_stream(device_choice(name, self.engine), self.stream)
        finally:
            pool.give_back(work)
        return fp_flags


# ---- Allocation --------------------------------------------------------------------------------------


def _empty_cupy(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
    cupy = sys.modules["cupy"]
    if like.device.id == cupy.cuda.runtime.getDevice():
        return cupy.ndarray(shape, dtype)  # `cupy.empty` does the same
    with like.device:
        return cupy.ndarray(shape, dtype)


@functools.cache
def _torch_type(dtype: DType) -> Any:
    return getattr(sys.modules["torch"], dtype.name)


def _empty_torch(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
    return like.new_empty(shape, dtype=_torch_type(dtype))


def _empty_numba(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:  # noqa: ARG001
    return importlib.import_module("numba.cuda").device_array(shape, dtype)


def _empty_pycuda(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:  # noqa: ARG001
    return importlib.import_module("pycuda.gpuarray").empty(shape, dtype)


_ALLOCATORS: dict[str, Callable[[tuple[int, ...], DType, Any], Any]] = {
    "cupy": _empty_cupy,
    "numba": _empty_numba,
    "pycuda": _empty_pycuda,
    "torch": _empty_torch,
}


# ---- Inspection --------------------------------------------------------------------------------------


def _inspect_interface(value: Any) -> Inspected | None:
    interface = value.__cuda_array_interface__
    address, is_readonly = interface["data"]
    if interface["version"] != _INTERFACE or interface.get("mask") is not None:
        return None
    signature = interface["typestr"], interface["shape"], interface.get("strides"), is_readonly
    return signature, address, interface.get("stream") or LEGACY_STREAM


def _inspect_cupy(value: Any) -> Inspected | None:
    """Inspect a CuPy array by its attributes, since `__cuda_array_interface__` takes microseconds."""
    strides = None if value.flags.c_contiguous else value.strides
    stream = sys.modules["cupy"].cuda.get_current_stream().ptr
    return (value.dtype, value.shape, strides, False), value.data.ptr, stream or LEGACY_STREAM


def torch_stream(value: Any) -> int:
    """Return PyTorch's current stream on a tensor's device; its `__cuda_array_interface__` names none."""
    torch, device_index = sys.modules.get("torch"), getattr(value, "get_device", None)
    if torch is None or device_index is None:
        return LEGACY_STREAM
    index = device_index()
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001  (the public function takes 4 us)
    stream = torch.cuda.current_stream(index).cuda_stream if raw is None else raw(index)
    return int(stream) or LEGACY_STREAM


def _inspect_torch(value: Any) -> Inspected | None:
    if value.requires_grad or value.layout is not sys.modules["torch"].strided or value.is_neg():
        return None
    strides = None
    if not value.is_contiguous():
        item = value.element_size()
        strides = tuple(stride * item for stride in value.stride())
    return (value.dtype, value.shape, strides, False), value.data_ptr(), torch_stream(value)


_LIBRARIES = {
    "cupy": ForeignLibrary(
        _inspect_cupy,
        _empty_cupy,
        lambda array: int(array.data.ptr),
        lambda _: True,
        lambda array: int(array.data.device_id),
    ),
    "numba": ForeignLibrary(
        _inspect_interface,
        _empty_numba,
        lambda array: int(array.device_ctypes_pointer.value),
        lambda _: True,
        lambda array: int(array.gpu_data.context.device.id),
    ),
    "torch": ForeignLibrary(
        _inspect_torch,
        _empty_torch,
        lambda array: int(array.data_ptr()),
        lambda array: bool(array.is_cuda) and not array.requires_grad,
        lambda array: int(array.get_device()),
    ),
}
_by_type: dict[type, ForeignLibrary | None] = {}


def library_of_type(kind: type) -> ForeignLibrary | None:
    """Return the library of an array type if calls on its arrays may be enqueued, else None."""
    try:
        return _by_type[kind]
    except KeyError:
        library = None
        if any(hasattr(kind, name) for name in ("__cuda_array_interface__", "__dlpack__")):
            library = _LIBRARIES.get(kind.__module__.partition(".")[0])
        _by_type[kind] = library
        return library


def register(kind: type, library: ForeignLibrary) -> None:
    """Let calls on arrays of a class be enqueued."""
    _by_type[kind] = library


def allocator_for(value: Any) -> Callable[[tuple[int, ...], DType, Any], Any] | None:
    """Return the function that makes arrays of a value's library; None if its arrays are immutable."""
    kind = type(value)
    library = library_of_type(kind)
    return _ALLOCATORS.get(kind.__module__.partition(".")[0]) if library is None else library.empty


# Errors of `inspect` for an array that is not on a GPU, or that the slower protocols have to diagnose.
INSPECT_ERRORS = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)


@functools.lru_cache(256)
def numpy_dtype(name: Any) -> DType | None:
    """Return the NumPy dtype for a library's own notation, or None if the engines do not support it."""
    if not isinstance(name, (str, np.dtype)):
        name = str(name).removeprefix("torch.")
    try:
        dtype = np.dtype(np.dtype(name).str)  # equal dtypes become one object
    except TypeError:
        return None
    return dtype if dtype in CODES and dtype.isnative else None
