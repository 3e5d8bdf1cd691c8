"""`pycuda.characterize`: the capabilities of the device and the compiler."""

from __future__ import annotations

import sys

import numpy as np

from pycudakit.pycuda._device import cached_per_device
from pycudakit.pycuda.compiler import SourceModule
from pycudakit.pycuda.driver import from_device, mem_alloc


def platform_bits() -> int:
    """Return the bits of an address."""
    return 64 if sys.maxsize > 2**32 else 32


def has_stack() -> bool:
    """Return True: every device that is supported has a stack."""
    return True


def has_double_support() -> bool:
    """Return True: every device that is supported has doubles."""
    return True


@cached_per_device
def _sizeof(type_name: str, preamble: str) -> int:
    source = f"""{preamble}
extern "C" __global__ void write_size(size_t *output) {{ *output = sizeof({type_name}); }}
"""
    output = mem_alloc(8)
    module = SourceModule(source, no_extern_c=True)
    module.get_function("write_size")(output, block=(1, 1, 1))
    return int(from_device(output, (), np.uint64))


def sizeof(type_name: str, preamble: str = "") -> int:
    """Return the bytes of a type of CUDA C.

    Parameters
    ----------
    type_name
        The type: ``"long"``.
    preamble
        Source text that declares it.
    """
    return _sizeof(type_name, preamble)
