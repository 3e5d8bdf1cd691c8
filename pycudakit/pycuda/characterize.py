"""`pycuda.characterize`: what the device and its compiler offer."""

from __future__ import annotations

import functools
import struct

from pycudakit.pycuda import _memory
from pycudakit.pycuda._copies import memcpy_dtoh
from pycudakit.pycuda.compiler import SourceModule


def platform_bits() -> int:
    """Return 64, the bits of an address."""
    return 8 * struct.calcsize("P")


def has_stack() -> bool:
    """Return True: kernels have a stack."""
    return True


def has_double_support() -> bool:
    """Return True: kernels compute in float64."""
    return True


@functools.lru_cache
def sizeof(type_name: str, preamble: str = "") -> int:
    """Return the bytes of a type in kernels.

    Parameters
    ----------
    type_name
        The type in CUDA C: ``"float4"``.
    preamble
        The source that declares it.
    """
    kernel = f'extern "C" __global__ void write_size(size_t *out) {{ *out = sizeof({type_name}); }}'
    function = SourceModule(f"{preamble}\n{kernel}", no_extern_c=True).get_function("write_size")
    out = _memory.mem_alloc(8)
    function(out, block=(1, 1, 1))
    size = bytearray(8)
    memcpy_dtoh(size, out)
    return int.from_bytes(size, "little")
