"""Arrays on a GPU, which another library owns: where they lie, as they tell it themselves."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.cuda_libraries import LEGACY_STREAM, UNSEEN, dtype_of, library_of_type, torch_stream
from pycudakit._native.dtypes import DType, code_of

_NEWEST = 3  # version of __cuda_array_interface__
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
ON_DEVICE = (_CUDA, _CUDA_MANAGED)

_TYPES = "on a GPU, arrays have bool, integers or floats of up to 64 bits"

# What brings an array home, by the library that its type comes from.
_HOMEWARD = {
    "cupy": "x.get()",
    "jax": "numpy.asarray(x)",
    "jaxlib": "numpy.asarray(x)",
    "numba": "x.copy_to_host()",
    "pycuda": "x.get()",
    "rmm": "x.copy_to_host()",
    "torch": "x.cpu()",
}


@dataclass(eq=False)
class DeviceArray:
    """An array on a GPU.

    Parameters
    ----------
    owner
        The other library's object, which lives as long as the array is used.
    address
        Of the first element.
    strides
        In bytes.
    stream
        The address of the stream that its values come in; 0 if they are there.
    """

    owner: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    is_readonly: bool = False
    stream: int = 0
    keeps: Any = field(default=None, repr=False)  # what must live as long

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


def homeward(library: str) -> str:
    """Return what brings a library's array home, in words."""
    way = _HOMEWARD.get(library)
    return f"bring it home first, by {way}" if way else "copy it to the host first, as its library does that"


def is_device_array(value: Any) -> bool:
    """Tell whether a value says that it lies on a GPU."""
    library = library_of_type(type(value))
    if library is not None and library.is_there(value):
        return True
    return _interface(value) is not None or _dlpack_device(value)[0] in ON_DEVICE


def device_array(value: Any) -> DeviceArray | None:
    """Return where a value lies on a GPU, or None if it does not say so; refuse what cannot be used."""
    return _seen(value) or _told(value)


def check(value: Any) -> None:
    """Refuse what a value tells of itself that no engine can use."""
    try:
        device_array(value)
    except errors.Error:
        raise
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return  # without a GPU, its library cannot tell


def _seen(value: Any) -> DeviceArray | None:
    """Return where a library's array lies that tells it soon, and that nothing need be said against."""
    library = library_of_type(type(value))
    try:
        seen = library.see(value) if library is not None and library.is_there(value) else None
    except UNSEEN:
        return None
    if seen is None:
        return None
    (name, given, strides, is_readonly), address, stream = seen
    dtype, shape = dtype_of(name), tuple(given)
    if dtype is None or (address == 0 and 0 not in shape):
        return None
    return DeviceArray(
        value, address, shape, strides or strides_of_dense(shape, dtype), dtype, is_readonly, stream
    )


def _told(value: Any) -> DeviceArray | None:
    interface = _interface(value)
    if interface is not None:
        return _of_interface(value, interface)
    if _dlpack_device(value)[0] in ON_DEVICE:
        return _of_dlpack(value)
    return None


# ---- __cuda_array_interface__ -----------------------------------------------------------------------


def _interface(value: Any) -> Any:
    """Return the interface; None where there is none, as of PyTorch's tensors on the host."""
    try:
        return value.__cuda_array_interface__
    except AttributeError:
        return None


def _of_interface(value: Any, interface: Any) -> DeviceArray:
    def refused(what: str) -> errors.InvalidArgument:
        return errors.InvalidArgument(f"{type(value).__name__}.__cuda_array_interface__ {what}")

    if not isinstance(interface, dict):
        raise refused(f"is a {type(interface).__name__}, not a dict")
    missing = [name for name in ("shape", "typestr", "data", "version") if name not in interface]
    if missing:
        raise refused(f"has no {missing[0]!r}")
    version = interface["version"]
    if not isinstance(version, int) or not 0 <= version <= _NEWEST:
        raise refused(f"is of version {version!r}; pycudakit reads versions up to {_NEWEST}")
    shape = _sizes(interface["shape"])
    if shape is None or any(size < 0 for size in shape):
        raise refused(f"has the shape {interface['shape']!r}")
    try:
        dtype = np.dtype(str(interface["typestr"]))
    except TypeError:
        raise refused(f"has the typestr {interface['typestr']!r}, which NumPy does not know") from None
    _check_type(value, dtype)
    if interface.get("mask") is not None:
        raise errors.Unsupported(
            f"{type(value).__name__} has a mask, which would be lost: fill in what it masks first"
        )
    strides = interface.get("strides")
    strides = strides_of_dense(shape, dtype) if strides is None else _sizes(strides)
    if strides is None or len(strides) != len(shape):
        raise refused(f"has the strides {interface['strides']!r} for the shape {shape}")
    data = interface["data"]
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], (int, type(None)))):
        raise refused(f"has the data {data!r}, not a pair of an address and whether it is read-only")
    stream = interface.get("stream")
    if stream is None and type(value).__module__.partition(".")[0] == "torch":
        stream = torch_stream(value)
    elif stream is None and hasattr(value, "block_until_ready"):
        value.block_until_ready()  # JAX names no stream, and its values may be on their way
    if stream is not None and (not isinstance(stream, int) or stream < 1):
        raise refused(f"has the stream {stream!r}; it is None, 1, 2 or a stream's address")
    address = data[0] or 0
    _check_address(value, address, shape)
    return DeviceArray(value, address, shape, strides, dtype, bool(data[1]), stream or 0)


def _sizes(given: Any) -> tuple[int, ...] | None:
    if not isinstance(given, (tuple, list)) or not all(isinstance(size, int) for size in given):
        return None
    return tuple(int(size) for size in given)


def strides_of_dense(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Return the strides of an array whose elements lie one after the other."""
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _check_type(value: Any, dtype: DType) -> None:
    if code_of(dtype) is None:
        raise errors.Unsupported(f"{type(value).__name__} of {dtype}: {_TYPES}")


def _check_address(value: Any, address: int, shape: tuple[int, ...]) -> None:
    if address == 0 and 0 not in shape:
        raise errors.InvalidArgument(
            f"{type(value).__name__} of shape {shape} lies at a null pointer: has its memory been freed?"
        )


# ---- DLPack -----------------------------------------------------------------------------------------


def _dlpack_device(value: Any) -> tuple[int, int]:
    try:
        kind, index = value.__dlpack_device__()
    except (AttributeError, BufferError, TypeError, ValueError):  # as Arrow's arrays with nulls say
        return 0, 0
    return int(kind), int(index)


class _Tensor(ctypes.Structure):
    """A DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_TYPES_OF_DLPACK = {  # by code and bits
    **{(0, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{(1, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{(2, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)},
    (6, 8): np.dtype(bool),
}


def _of_dlpack(value: Any) -> DeviceArray:
    # The capsule deletes what it refers to when it dies unused, so it lives as long as the array is used.
    capsule = value.__dlpack__(stream=LEGACY_STREAM)
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    dtype = _TYPES_OF_DLPACK.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise errors.Unsupported(
            f"{type(value).__name__} of DLPack's type {tensor.code}, of {tensor.bits} bits: {_TYPES}"
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = strides_of_dense(shape, dtype)
    if tensor.strides:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset
    _check_address(value, address, shape)
    # What stream=1 asks for is queued before the legacy stream's next.
    return DeviceArray(value, address, shape, strides, dtype, False, LEGACY_STREAM, capsule)
