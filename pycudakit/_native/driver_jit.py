"""Detection of JIT compilation by the GPU's driver: the CUDA library may hold only PTX for a GPU.

Then the first call of an entry, for any dtype, takes seconds. `last_call()` and progress bars mention it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from pycudakit._native import hardware

JIT_PROGRESS = "the GPU driver is compiling the kernels (first call only)"
JIT_REASON = "first call of this function: the GPU's driver compiled its kernels or found them in its cache"

# Base names (without dtype suffix) of entries that were called. `pk_run_kernels` runs the caller's kernels.
_used_base_names = {"pk_run_kernels"}


@functools.cache
def has_native_code(device: int) -> bool:
    """Return True if the library holds machine code (SASS) for a GPU."""
    matching = [device_info for device_info in hardware.devices() if device_info.index == device]
    if not matching:  # the call itself will fail
        return True
    return runs_on(hardware.build_info()["cuda"]["architectures"], matching[0].compute_capability)


def runs_on(architectures: str, compute_capability: tuple[int, int]) -> bool:
    """Return True if machine code for one of these architectures, as "sm_90 compute_90", runs on a GPU.

    Machine code is compatible with the same major compute capability and an equal or larger minor one.
    """
    major, minor = compute_capability
    built = re.findall(r"\bsm_(\d+)(\d)\b", architectures)
    return any(int(m) == major and int(n) <= minor for m, n in built)


def is_first_use(entry: str, devices: Iterable[int]) -> bool:
    """Return True if an entry was not called yet and a GPU's driver has to compile its kernels."""
    return _base_name(entry) not in _used_base_names and not all(map(has_native_code, devices))


def note_use(entry: str) -> None:
    """Note that an entry was called."""
    _used_base_names.add(_base_name(entry))


def _base_name(entry: str) -> str:
    return re.sub(r"_[a-z]+\d+$", "", entry)
