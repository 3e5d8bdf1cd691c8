"""Arrays on a GPU of which a call is only queued: where one lies, as its library tells it soonest."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pycudakit._native import engine_status
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime import context
from pycudakit._runtime.engine_choice import EngineChoice

_current_context = context.current_context

LEGACY_STREAM = 1  # as `__cuda_array_interface__` numbers them, and CUDA, too
_INTERFACE = 3  # version


class ArraySignature(NamedTuple):
    """What calls of arrays have in common, but for where these lie; without strides they are dense."""

    dtype: Any  # as its library says it
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    is_readonly: bool


# The fields of a Form, which takes longer to make, the address of an array's values, and their stream.
Inspected = tuple[tuple[Any, ...], int, int]


class ForeignLibrary(NamedTuple):
    """How a library tells of its arrays, and makes one beside another."""

    inspect: Callable[[Any], Inspected | None]
    empty: Callable[[tuple[int, ...], DType, Any], Any]
    address_of: Callable[[Any], int]
    is_on_device: Callable[[Any], bool]  # without a doubt
    device_index: Callable[[Any], int]


def device_engine() -> str | None:
    """Return the engine that is asked for, if calls of arrays on a GPU may be queued here; else None."""
    engine = _current_context.get().fast_path_engine or context.process_engine
    return engine if engine in ("auto", "cuda") and engine_status.status("cuda").available else None


@functools.cache
def has_one_device() -> bool:
    """Tell whether there is one GPU, so that nobody need ask which one an array lies on."""
    return engine_status.device_count() == 1


@functools.cache
def device_choice(function: str, engine: str) -> EngineChoice:
    """Return why a call of arrays on a GPU runs there."""
    reason = "auto: arrays on a GPU" if engine == "auto" else context.REASON_ENGINE_REQUESTED
    return EngineChoice(function, "cuda", reason)


F = TypeVar("F", bound=Callable[..., Any])


def has_device_fast_path(fast_path: Callable[..., Any]) -> Callable[[F], F]:
    """Say what computes a function of arrays on a GPU where they lie; it returns None for other arguments."""

    def mark(function: F) -> F:
        function.device_fast_path = fast_path  # type: ignore[attr-defined]
        return function

    return mark


# ---- Makers ------------------------------------------------------------------------------------------


def _empty_cupy(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
    cupy = sys.modules["cupy"]
    if like.device.id == cupy.cuda.runtime.getDevice():
        return cupy.ndarray(shape, dtype)  # as `cupy.empty` makes it
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


ALLOCATORS: dict[str, Callable[[tuple[int, ...], DType, Any], Any]] = {
    "cupy": _empty_cupy,
    "numba": _empty_numba,
    "pycuda": _empty_pycuda,
    "torch": _empty_torch,
}


def byte_extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return how far an array's elements lie before its first one, and behind it, in bytes."""
    ends = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)


# ---- Where arrays lie --------------------------------------------------------------------------------


def _inspect_interface(value: Any) -> Inspected | None:
    interface = value.__cuda_array_interface__
    address, is_readonly = interface["data"]
    if interface["version"] != _INTERFACE or interface.get("mask") is not None:
        return None
    form = interface["typestr"], interface["shape"], interface.get("strides"), is_readonly
    return form, address, interface.get("stream") or LEGACY_STREAM


def _inspect_cupy(value: Any) -> Inspected | None:
    """Return what the array's interface tells, without the parts of it that take microseconds."""
    strides = None if value.flags.c_contiguous else value.strides
    stream = sys.modules["cupy"].cuda.get_current_stream().ptr
    return (value.dtype, value.shape, strides, False), value.data.ptr, stream or LEGACY_STREAM


def torch_stream(value: Any) -> int:
    """Return the stream that PyTorch queues work on a tensor in, which its tensors do not tell."""
    torch, device_index = sys.modules.get("torch"), getattr(value, "get_device", None)
    if torch is None or device_index is None:
        return LEGACY_STREAM
    index = device_index()
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001  (the public way takes 4 us)
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
    """Return the library of a type of arrays that calls may be queued of."""
    try:
        return _by_type[kind]
    except KeyError:
        library = None
        if any(hasattr(kind, name) for name in ("__cuda_array_interface__", "__dlpack__")):
            library = _LIBRARIES.get(kind.__module__.partition(".")[0])
        _by_type[kind] = library
        return library


# What a look at an array may raise that is not on a GPU, or that what reads it with care has to explain.
INSPECT_ERRORS = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)


@functools.lru_cache(256)
def numpy_dtype(name: Any) -> DType | None:
    """Return the type of an array's elements, as its library says it, if the engines know it."""
    if not isinstance(name, (str, np.dtype)):
        name = str(name).removeprefix("torch.")
    try:
        dtype = np.dtype(np.dtype(name).str)  # of equal ones always the same
    except TypeError:
        return None
    return dtype if dtype in CODES and dtype.isnative else None
