"""`DeviceView`: another library's device array, by `__cuda_array_interface__` or DLPack, without a copy."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    LEGACY_STREAM,
    library_of_type,
    numpy_dtype,
    torch_stream,
)
from pycudakit._interop.memory_layout import Extent, contiguous_strides, extent, overlap
from pycudakit._native.dtypes import DType, code_of

_MAX_INTERFACE_VERSION = 3  # version of __cuda_array_interface__
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
ON_DEVICE = (_CUDA, _CUDA_MANAGED)

_SUPPORTED_TYPES = "on a GPU, arrays have bool, integers or floats of up to 64 bits"

# The expression that copies an array to the host, by the library of its type.
_COPY_TO_HOST = {
    "cupy": "x.get()",
    "jax": "numpy.asarray(x)",
    "jaxlib": "numpy.asarray(x)",
    "numba": "x.copy_to_host()",
    "pycuda": "x.get()",
    "rmm": "x.copy_to_host()",
    "torch": "x.cpu()",
}


@dataclass(eq=False)
class DeviceView:
    """A view of a device array that another library owns.

    Parameters
    ----------
    owner
        The other library's object, which is kept alive while the array is used.
    address
        The device address of the first element.
    strides
        The strides in bytes.
    stream
        The stream on which the array's values are computed; 0 if they are complete.
    """

    owner: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    is_readonly: bool = False
    stream: int = 0
    keep_alive: Any = field(default=None, repr=False)  # lives as long as the view

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    def extent(self) -> Extent:
        """Return the address of the array's memory, and the address behind it; both are 0 if it is empty."""
        return extent(self.shape, self.strides, self.dtype.itemsize, self.address)

    def overlaps(self, other: DeviceView) -> bool:
        """Return True if two arrays may share memory."""
        return overlap(self.extent(), other.extent())


def copy_to_host_hint(library: str) -> str:
    """Return the advice how to copy a library's array to the host, for messages."""
    call = _COPY_TO_HOST.get(library)
    return f"copy it to the host first, by {call}" if call else "copy it to the host first, by its library"


def is_device_array(value: Any) -> bool:
    """Return True if a value is in device memory, by its own account."""
    library = library_of_type(type(value))
    if library is not None and library.is_on_device(value):
        return True
    return _cuda_array_interface(value) is not None or _dlpack_device(value)[0] in ON_DEVICE


def as_device_view(value: Any) -> DeviceView | None:
    """Return the view of a device array, or None if the value is no device array.

    Raises an error if the array says that it is on a device, but cannot be used.
    """
    return _from_fast_path(value) or _from_protocols(value)


def check(value: Any) -> None:
    """Raise if a value describes a device array that no engine can use."""
    try:
        as_device_view(value)
    except errors.Error:
        raise
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return  # without a GPU, the library itself fails


def _from_fast_path(value: Any) -> DeviceView | None:
    """Return the view by the library's fast inspection, or None if the protocols must be used."""
    library = library_of_type(type(value))
    try:
        inspected = library.inspect(value) if library is not None and library.is_on_device(value) else None
    except INSPECT_ERRORS:
        return None
    if inspected is None:
        return None
    (name, sizes, strides, is_readonly), address, stream = inspected
    dtype, shape = numpy_dtype(name), tuple(sizes)
    if dtype is None or (address == 0 and 0 not in shape):
        return None
    return DeviceView(
        value,
        address,
        shape,
        strides or contiguous_strides(shape, dtype.itemsize),
        dtype,
        is_readonly,
        stream,
    )


def _from_protocols(value: Any) -> DeviceView | None:
    interface = _cuda_array_interface(value)
    if interface is not None:
        return _from_cuda_array_interface(value, interface)
    if _dlpack_device(value)[0] in ON_DEVICE:
        return _from_dlpack(value)
    return None


# ---- __cuda_array_interface__ -----------------------------------------------------------------------


def _cuda_array_interface(value: Any) -> Any:
    """Return the interface, or None if there is none, as for PyTorch's tensors on the host."""
    try:
        return value.__cuda_array_interface__
    except AttributeError:
        return None


def _from_cuda_array_interface(value: Any, interface: Any) -> DeviceView:
    def refused(fault: str) -> errors.InvalidArgument:
        return errors.InvalidArgument(f"{type(value).__name__}.__cuda_array_interface__ {fault}")

    if not isinstance(interface, dict):
        raise refused(f"is a {type(interface).__name__}, not a dict")
    missing = [name for name in ("shape", "typestr", "data", "version") if name not in interface]
    if missing:
        raise refused(f"has no {missing[0]!r}")
    version = interface["version"]
    if not isinstance(version, int) or not 0 <= version <= _MAX_INTERFACE_VERSION:
        raise refused(f"is of version {version!r}; pycudakit reads versions up to {_MAX_INTERFACE_VERSION}")
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
            f"{type(value).__name__} has a mask, which would be lost: fill in the masked elements first"
        )
    strides = interface.get("strides")
    strides = contiguous_strides(shape, dtype.itemsize) if strides is None else _sizes(strides)
    if strides is None or len(strides) != len(shape):
        raise refused(f"has the strides {interface['strides']!r} for the shape {shape}")
    data = interface["data"]
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], (int, type(None)))):
        raise refused(f"has the data {data!r}, not a pair of an address and whether it is read-only")
    stream = interface.get("stream")
    if stream is None and type(value).__module__.partition(".")[0] == "torch":
        stream = torch_stream(value)
    elif stream is None and hasattr(value, "block_until_ready"):
        value.block_until_ready()  # JAX names no stream, and its values may not be complete
    if stream is not None and (not isinstance(stream, int) or stream < 1):
        raise refused(f"has the stream {stream!r}; it is None, 1, 2 or a stream's address")
    address = data[0] or 0
    _check_address(value, address, shape)
    return DeviceView(value, address, shape, strides, dtype, bool(data[1]), stream or 0)


def _sizes(sizes: Any) -> tuple[int, ...] | None:
    if not isinstance(sizes, (tuple, list)) or not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(int(size) for size in sizes)


def _check_type(value: Any, dtype: DType) -> None:
    if code_of(dtype) is None:
        raise errors.Unsupported(f"{type(value).__name__} of {dtype}: {_SUPPORTED_TYPES}")


def _check_address(value: Any, address: int, shape: tuple[int, ...]) -> None:
    if address == 0 and 0 not in shape:
        raise errors.InvalidArgument(
            f"{type(value).__name__} of shape {shape} is at a null pointer: has its memory been freed?"
        )


# ---- DLPack -----------------------------------------------------------------------------------------


def _dlpack_device(value: Any) -> tuple[int, int]:
    try:
        kind, index = value.__dlpack_device__()
    except (AttributeError, BufferError, TypeError, ValueError):  # e.g. Arrow's arrays with nulls
        return 0, 0
    return int(kind), int(index)


class _Tensor(ctypes.Structure):
    """The C struct `DLTensor` of DLPack."""

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


_DLPACK_TYPES = {  # by code and bits
    **{(0, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{(1, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{(2, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)},
    (6, 8): np.dtype(bool),
}


def _from_dlpack(value: Any) -> DeviceView:
    # A capsule that is not consumed frees its tensor when it dies, so the view keeps it alive.
    capsule = value.__dlpack__(stream=LEGACY_STREAM)
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    dtype = _DLPACK_TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise errors.Unsupported(
            f"{type(value).__name__} of DLPack's type {tensor.code}, of {tensor.bits} bits: "
            f"{_SUPPORTED_TYPES}"
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = contiguous_strides(shape, dtype.itemsize)
    if tensor.strides:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset
    _check_address(value, address, shape)
    # stream=1 orders the array's pending work before the next work of the legacy stream.
    return DeviceView(value, address, shape, strides, dtype, False, LEGACY_STREAM, capsule)
