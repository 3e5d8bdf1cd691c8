"""Copies between arrays of any layout, on the device and on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudakit.pycuda import _copies, _engine
from pycudakit.pycuda._array_layout import compact_strides, is_compact
from pycudakit.pycuda._device import cached_per_device
from pycudakit.pycuda._memory import DeviceAllocation, HostBytes, allocate
from pycudakit.pycuda.compiler import SourceModule

_MAX_AXES = 32
_STRIDED = """
struct Axes { long long length[%(axes)d], out[%(axes)d], in[%(axes)d]; };

__global__ void copy(char *out, const char *in, Axes axes, int count, int words, size_t n) {
    const size_t threads = size_t(gridDim.x) * blockDim.x;
    for (size_t k = size_t(blockIdx.x) * blockDim.x + threadIdx.x; k < n; k += threads) {
        long long rest = k, to = 0, from = 0;
        for (int axis = count - 1; axis >= 0; --axis) {
            const long long index = rest %% axes.length[axis];
            rest /= axes.length[axis];
            to += index * axes.out[axis];
            from += index * axes.in[axis];
        }
        for (int word = 0; word < words; ++word)
            ((%(word)s *)(out + to))[word] = ((const %(word)s *)(in + from))[word];
    }
}
"""
_WORDS = {8: "unsigned long long", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}


@cached_per_device
def _strided_kernel(word: int) -> Any:
    return SourceModule(_STRIDED % {"axes": _MAX_AXES, "word": _WORDS[word]}).get_function("copy")


_FIRST = 1 << 12  # an address below all memory
_ADDRESSES = np.asarray(HostBytes(_FIRST, 1 << 62))  # every byte of the process, of which arrays are views


def host_view(array: Any) -> np.ndarray[Any, Any]:
    """Return a view of an array on the engine `cpu`, whose device memory is host memory.

    It does not keep the memory alive.
    """
    if not array.size:
        return np.empty(array.shape, array.dtype)
    memory = array.gpudata
    if isinstance(memory, DeviceAllocation):
        memory.require_live()
    offset = int(memory) - _FIRST
    view: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, _ADDRESSES, offset, array.strides)
    return view


def owning_view(array: Any) -> np.ndarray[Any, Any]:
    """Return a view of an array on the engine `cpu`, which keeps the array alive."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    low = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s > 0)
    memory = np.asarray(HostBytes(array.ptr + low, high - low + array.itemsize, array))
    view: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, memory, -low, array.strides)
    return view


def copy_array(dst: Any, src: Any, stream: Any = None, *, async_: bool = False) -> None:
    """Copy `src` to `dst`, of the same shape and dtype; each is a GPUArray or an array of the host."""
    if src.shape != dst.shape:
        raise ValueError(f"src and dst must be same shape: {src.shape} and {dst.shape}")
    if src.dtype != dst.dtype:
        raise TypeError(f"src and dst must have same dtype: {src.dtype} and {dst.dtype}")
    if not src.size:
        return
    src_on_host, dst_on_host = isinstance(src, np.ndarray), isinstance(dst, np.ndarray)
    if src_on_host and dst_on_host:
        dst[...] = src
    elif _engine.current().is_cpu:
        np.copyto(dst if dst_on_host else host_view(dst), src if src_on_host else host_view(src))
    elif _have_one_layout(dst, src):
        _copy_flat(dst, src, stream, async_=async_)
    elif src_on_host:
        _from_host(dst, src, stream)
    elif dst_on_host:
        dst[...] = _to_host(src, stream)
    else:
        _on_device(dst.ptr, dst.strides, src, stream)


def _have_one_layout(dst: Any, src: Any) -> bool:
    axes = [axis for axis, length in enumerate(src.shape) if length > 1]
    return is_compact(src) and all(0 < src.strides[axis] == dst.strides[axis] for axis in axes)


def _flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))


def _copy_flat(dst: Any, src: Any, stream: Any, *, async_: bool) -> None:
    if isinstance(src, np.ndarray):
        if async_:
            _copies.memcpy_htod_async(dst.ptr, _flat(src), stream)
        else:
            _copies.memcpy_htod(dst.ptr, _flat(src))
    elif isinstance(dst, np.ndarray):
        if async_:
            _copies.memcpy_dtoh_async(_flat(dst), src.ptr, stream)
        else:
            _copies.memcpy_dtoh(_flat(dst), src.ptr)
    else:
        _copies.memcpy_dtod_async(dst.ptr, src.ptr, src.nbytes, stream)


def _wait(stream: Any) -> None:
    if stream is not None:
        stream.synchronize()


def _from_host(dst: Any, src: np.ndarray[Any, Any], stream: Any) -> None:
    _wait(stream)
    if is_compact(dst) and min(dst.strides, default=1) >= 0:
        packed = np.ndarray(dst.shape, dst.dtype, bytearray(dst.nbytes), strides=compact_strides(dst))
        packed[...] = src
        _copies.memcpy_htod(dst.ptr, _flat(packed))
        return
    packed = np.ascontiguousarray(src)
    memory = allocate(packed.nbytes, zeros=False)
    _copies.memcpy_htod(memory, packed)
    _copy_strided(dst.ptr, dst.strides, int(memory), packed.strides, dst, None)


def _to_host(src: Any, stream: Any) -> np.ndarray[Any, Any]:
    packed = np.empty(src.shape, src.dtype)
    memory = allocate(packed.nbytes, zeros=False)
    _on_device(int(memory), packed.strides, src, stream)
    _wait(stream)
    _copies.memcpy_dtoh(packed, memory)
    return packed


def _on_device(address: int, strides: tuple[int, ...], src: Any, stream: Any) -> None:
    _copy_strided(address, strides, src.ptr, src.strides, src, stream)


def repeat_item(dst: Any, item: np.ndarray[Any, Any], stream: Any) -> None:
    """Set all elements of an array on a GPU to an item, whose bytes are copied there."""
    memory = allocate(item.nbytes, zeros=False)
    _copies.memcpy_htod(memory, np.frombuffer(item.tobytes(), np.uint8))
    _copy_strided(dst.ptr, dst.strides, int(memory), (0,) * dst.ndim, dst, stream)


def _copy_strided(
    out: int, out_strides: tuple[int, ...], given: int, in_strides: tuple[int, ...], like: Any, stream: Any
) -> None:
    word = math.gcd(like.itemsize, 8, out, given, *out_strides, *in_strides)
    axes = np.zeros((3, _MAX_AXES), np.int64)
    for row, numbers in zip(axes, (like.shape, out_strides, in_strides), strict=True):
        row[: len(numbers)] = numbers
    blocks = min(-(-like.size // 128), 1 << 16)
    _strided_kernel(word).prepared_async_call(
        (blocks, 1), (128, 1, 1), stream,
        out, given, axes.tobytes(), len(like.shape), like.itemsize // word, like.size,
    )  # fmt: skip
