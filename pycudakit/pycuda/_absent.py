"""Names of PyCUDA that CUDA 12 lacks, or that are not offered: their use raises LogicError."""

from __future__ import annotations

from typing import Any

from pycudakit.pycuda._errors import LogicError, absent

_TEXTURES = (
    "CUDA 12 has no texture and surface references: pass device memory to the kernel, and index it there"
)
_LINKER = "compile the sources as one SourceModule"
_IPC = "share arrays of the host between processes, by multiprocessing.shared_memory"


class Absent:
    """The base of classes that cannot be made."""

    _remedy = ""

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        raise LogicError(f"{type(self).__name__} does not exist: {self._remedy}")


class Array(Absent):
    """An array of a texture."""

    _remedy = _TEXTURES


class TextureReference(Absent):
    """A reference to a texture."""

    _remedy = _TEXTURES


class SurfaceReference(Absent):
    """A reference to a surface."""

    _remedy = _TEXTURES


class Linker(Absent):
    """The linker of device code."""

    _remedy = _LINKER


class IPCMemoryHandle(Absent):
    """Memory of another process."""

    _remedy = _IPC


class ArrayDescriptor:
    """The size and the format of an array of a texture."""

    width = height = num_channels = 0
    format: Any = None


class ArrayDescriptor3D(ArrayDescriptor):
    """The size and the format of an array of a texture, with layers."""

    depth = flags = 0


mem_get_ipc_handle = absent("mem_get_ipc_handle", _IPC)
memcpy_dtoa = absent("memcpy_dtoa", _TEXTURES)
memcpy_atod = absent("memcpy_atod", _TEXTURES)
memcpy_htoa = absent("memcpy_htoa", _TEXTURES)
memcpy_atoh = absent("memcpy_atoh", _TEXTURES)
memcpy_atoa = absent("memcpy_atoa", _TEXTURES)
matrix_to_array = absent("matrix_to_array", _TEXTURES)
np_to_array = absent("np_to_array", _TEXTURES)
gpuarray_to_array = absent("gpuarray_to_array", _TEXTURES)
make_multichannel_2d_array = absent("make_multichannel_2d_array", _TEXTURES)
bind_array_to_texref = absent("bind_array_to_texref", _TEXTURES)
matrix_to_texref = absent("matrix_to_texref", _TEXTURES)
dtype_to_array_format = absent("dtype_to_array_format", _TEXTURES)
initialize_profiler = absent("initialize_profiler", "call start_profiler under Nsight Systems")


def start_profiler() -> None:
    """Do nothing: profilers of today record a process from outside."""


def stop_profiler() -> None:
    """Do nothing."""


def have_gl_ext() -> bool:
    """Return False: there is no graphics interoperability."""
    return False
