"""Copies and fills: `memcpy_*`, `memset_*`, `Memcpy2D` and `Memcpy3D`."""

from __future__ import annotations

import operator
import struct
from typing import Any

import numpy as np

from pycudakit._native.abi_objects import COPY_FROM_DEVICE, COPY_TO_DEVICE
from pycudakit.pycuda import _engine
from pycudakit.pycuda._device import current_device
from pycudakit.pycuda._enums import memory_type
from pycudakit.pycuda._errors import LogicError, absent, raise_error
from pycudakit.pycuda._host_memory import host_span
from pycudakit.pycuda._memory import DeviceAllocation, address_of, mem_alloc
from pycudakit.pycuda._streams import handle_of

_COPY = struct.Struct("=QQ8q")  # a pk_copy


def _copy(destination: int, source: int, size: int, flags: int, stream: Any, *, waits: bool) -> None:
    engine = _engine.current()
    table = _COPY.pack(destination, source, 0, 0, 0, 0, size, 1, 1, flags)
    handle = 0 if stream is None else handle_of(stream)
    status = engine.copy(table, 1, current_device(), handle, waits)
    if status:
        raise_error(engine.library, status)
    if waits and engine.has_text:
        engine.print_texts()


def _to_device(name: str, dest: Any, src: Any, stream: Any, *, waits: bool) -> None:
    address, size, _kept = host_span(name, src)
    _copy(address_of(dest), address, size, COPY_TO_DEVICE, stream, waits=waits)


def _to_host(name: str, dest: Any, src: Any, stream: Any, *, waits: bool) -> None:
    address, size, _kept = host_span(name, dest, writes=True)
    _copy(address, address_of(src), size, COPY_FROM_DEVICE, stream, waits=waits)


def _on_device(dest: Any, src: Any, size: int, stream: Any) -> None:
    # As in CUDA, the host does not wait for a copy inside of a device.
    flags = COPY_FROM_DEVICE | COPY_TO_DEVICE
    _copy(address_of(dest), address_of(src), operator.index(size), flags, stream, waits=False)


def memcpy_htod(dest: Any, src: Any) -> None:
    """Copy host memory, an array or a buffer, to device memory, and wait for that."""
    _to_device("memcpy_htod", dest, src, None, waits=True)


def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Copy host memory to device memory in a stream; `src` is page-locked, and stays unchanged until then."""
    _to_device("memcpy_htod_async", dest, src, stream, waits=False)


def memcpy_dtoh(dest: Any, src: Any) -> None:
    """Copy device memory to host memory, as many bytes as `dest` has, and wait for that."""
    _to_host("memcpy_dtoh", dest, src, None, waits=True)


def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Copy device memory to page-locked host memory in a stream."""
    _to_host("memcpy_dtoh_async", dest, src, stream, waits=False)


def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    """Copy `size` bytes inside of device memory."""
    _on_device(dest, src, size, None)


def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Any = None) -> None:
    """Copy `size` bytes inside of device memory, in a stream."""
    _on_device(dest, src, size, stream)


def memcpy_peer(dest: Any, src: Any, size: int, dest_context: Any = None, src_context: Any = None) -> None:  # noqa: ARG001
    """Copy `size` bytes between the memories of two devices."""
    _on_device(dest, src, size, None)


def memcpy_peer_async(
    dest: Any,
    src: Any,
    size: int,
    dest_context: Any = None,  # noqa: ARG001
    src_context: Any = None,  # noqa: ARG001
    stream: Any = None,
) -> None:
    """Copy `size` bytes between the memories of two devices, in a stream."""
    _on_device(dest, src, size, stream)


# ---- Fills -----------------------------------------------------------------------------------------


def _fill(dest: Any, pitch: int, data: Any, item: int, width: int, height: int, stream: Any) -> None:
    value = operator.index(data)
    if not -(1 << (8 * item - 1)) <= value < 1 << 8 * item:
        raise OverflowError(f"a fill with {value}, which does not fit in {item} bytes")
    _engine.current().device_memory_fill(
        *(address_of(dest), operator.index(pitch), value & ((1 << 8 * item) - 1), item),
        *(operator.index(width), operator.index(height), current_device(), handle_of(stream)),
    )


def memset_d8(dest: Any, data: int, size: int) -> None:
    """Fill `size` bytes with a value."""
    _fill(dest, 0, data, 1, size, 1, None)


def memset_d16(dest: Any, data: int, size: int) -> None:
    """Fill `size` items of 2 bytes with a value."""
    _fill(dest, 0, data, 2, size, 1, None)


def memset_d32(dest: Any, data: int, size: int) -> None:
    """Fill `size` items of 4 bytes with a value."""
    _fill(dest, 0, data, 4, size, 1, None)


def memset_d8_async(dest: Any, data: int, size: int, stream: Any = None) -> None:
    """Fill `size` bytes with a value, in a stream."""
    _fill(dest, 0, data, 1, size, 1, stream)


def memset_d16_async(dest: Any, data: int, size: int, stream: Any = None) -> None:
    """Fill `size` items of 2 bytes with a value, in a stream."""
    _fill(dest, 0, data, 2, size, 1, stream)


def memset_d32_async(dest: Any, data: int, size: int, stream: Any = None) -> None:
    """Fill `size` items of 4 bytes with a value, in a stream."""
    _fill(dest, 0, data, 4, size, 1, stream)


def memset_d2d8(dest: Any, pitch: int, data: int, width: int, height: int) -> None:
    """Fill `height` rows of `width` bytes with a value."""
    _fill(dest, pitch, data, 1, width, height, None)


def memset_d2d16(dest: Any, pitch: int, data: int, width: int, height: int) -> None:
    """Fill `height` rows of `width` items of 2 bytes with a value."""
    _fill(dest, pitch, data, 2, width, height, None)


def memset_d2d32(dest: Any, pitch: int, data: int, width: int, height: int) -> None:
    """Fill `height` rows of `width` items of 4 bytes with a value."""
    _fill(dest, pitch, data, 4, width, height, None)


def memset_d2d8_async(dest: Any, pitch: int, data: int, width: int, height: int, stream: Any = None) -> None:
    """Fill `height` rows of `width` bytes with a value, in a stream."""
    _fill(dest, pitch, data, 1, width, height, stream)


def memset_d2d16_async(dest: Any, pitch: int, data: int, width: int, height: int, stream: Any = None) -> None:
    """Fill `height` rows of `width` items of 2 bytes with a value, in a stream."""
    _fill(dest, pitch, data, 2, width, height, stream)


def memset_d2d32_async(dest: Any, pitch: int, data: int, width: int, height: int, stream: Any = None) -> None:
    """Fill `height` rows of `width` items of 4 bytes with a value, in a stream."""
    _fill(dest, pitch, data, 4, width, height, stream)


# ---- Whole arrays ----------------------------------------------------------------------------------


def to_device(bf_obj: Any) -> DeviceAllocation:
    """Allocate device memory, and copy an array or a buffer to it."""
    data = memoryview(bf_obj).tobytes()  # an array in any order, in the order of its elements
    result = mem_alloc(len(data))
    memcpy_htod(result, data)
    return result


def from_device(devptr: Any, shape: Any, dtype: Any, order: Any = "C") -> np.ndarray[Any, Any]:
    """Return an array of a shape and dtype with the contents of device memory."""
    result: np.ndarray[Any, Any] = np.empty(shape, dtype, order)
    memcpy_dtoh(result, devptr)
    return result


def from_device_like(devptr: Any, other_ary: Any) -> np.ndarray[Any, Any]:
    """Return an array like another with the contents of device memory."""
    result: np.ndarray[Any, Any] = np.empty_like(other_ary)
    memcpy_dtoh(result, devptr)
    return result


# ---- Copies of rows and layers ---------------------------------------------------------------------

_ARRAYS = "CUDA arrays are for textures, which CUDA 12 has no references to: use device memory with a pitch"


class Memcpy2D:
    """A copy of rows, described by attributes and started by ``copy(aligned=True)`` or ``copy(stream)``.

    Pitches of 0 are the width of a row.
    """

    _has_layers = False

    def __init__(self) -> None:
        self.src_x_in_bytes = self.src_y = self.src_z = self.src_lod = 0
        self.dst_x_in_bytes = self.dst_y = self.dst_z = self.dst_lod = 0
        self.src_pitch = self.dst_pitch = self.src_height = self.dst_height = 0
        self.width_in_bytes = self.height = 0
        self.depth = 1
        self.src_memory_type = self.dst_memory_type = memory_type.DEVICE
        self.src_device: Any = 0
        self.dst_device: Any = 0
        self._src_host: Any = None
        self._dst_host: Any = None

    def set_src_host(self, buffer: Any) -> None:
        """Copy from host memory."""
        host_span("set_src_host", buffer)
        self._src_host, self.src_memory_type = buffer, memory_type.HOST

    def set_dst_host(self, buffer: Any) -> None:
        """Copy to host memory."""
        host_span("set_dst_host", buffer, writes=True)
        self._dst_host, self.dst_memory_type = buffer, memory_type.HOST

    def set_src_device(self, pointer: Any) -> None:
        """Copy from device memory."""
        self.src_device, self.src_memory_type = address_of(pointer), memory_type.DEVICE

    def set_dst_device(self, pointer: Any) -> None:
        """Copy to device memory."""
        self.dst_device, self.dst_memory_type = address_of(pointer), memory_type.DEVICE

    set_src_unified = set_src_device
    set_dst_unified = set_dst_device
    set_src_array = absent("set_src_array", _ARRAYS)
    set_dst_array = absent("set_dst_array", _ARRAYS)

    def __call__(self, aligned: Any = None) -> None:
        """Copy; a stream instead of `aligned` makes the copy asynchronous."""
        is_stream = getattr(aligned, "handle", None) is not None
        self._start(aligned if is_stream else None, waits=not is_stream)

    def _end(self, side: str) -> tuple[int, int, int, Any]:
        """Return the address, the pitch and the height of one end, and its host memory."""
        host = getattr(self, f"_{side}_host")
        pitch = operator.index(getattr(self, f"{side}_pitch")) or operator.index(self.width_in_bytes)
        height = operator.index(getattr(self, f"{side}_height")) or operator.index(self.height)
        rows = getattr(self, f"{side}_y") + getattr(self, f"{side}_z") * height * self._has_layers
        offset = getattr(self, f"{side}_x_in_bytes") + rows * pitch
        if getattr(self, f"{side}_memory_type") != memory_type.HOST:
            return address_of(getattr(self, f"{side}_device")) + offset, pitch, height, None
        if host is None:
            raise LogicError(f"no {side}_host was set")
        address, size, _kept = host_span(f"set_{side}_host", host, writes=side == "dst")
        last = (operator.index(self._layers) - 1) * height + operator.index(self.height) - 1
        needed = offset + last * pitch + self.width_in_bytes
        if self.width_in_bytes and self.height and self._layers and (offset < 0 or needed > size):
            raise LogicError(f"a copy takes bytes {offset} to {needed} of a {side}_host of {size} bytes")
        return address + offset, pitch, height, host

    @property
    def _layers(self) -> int:
        return self.depth if self._has_layers else 1

    def _start(self, stream: Any, *, waits: bool) -> None:
        source, source_pitch, source_height, from_host = self._end("src")
        destination, pitch, height, to_host = self._end("dst")
        flags = (COPY_FROM_DEVICE if from_host is None else 0) | (COPY_TO_DEVICE if to_host is None else 0)
        table = _COPY.pack(
            *(destination, source, pitch, source_pitch, height, source_height),
            *(self.width_in_bytes, self.height, self._layers, flags),
        )
        engine = _engine.current()
        engine.device_memory_copy(table, 1, current_device(), handle_of(stream), waits)
        if waits and engine.has_text:
            engine.print_texts()


class Memcpy3D(Memcpy2D):
    """A copy of layers, described by attributes and started by a call: ``copy()`` or ``copy(stream)``."""

    _has_layers = True


class Memcpy3DPeer(Memcpy3D):
    """A copy of layers between two devices."""

    def set_src_context(self, context: Any) -> None:
        """Do nothing: an address says on which device it is."""

    def set_dst_context(self, context: Any) -> None:
        """Do nothing."""
