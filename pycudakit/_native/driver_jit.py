"""Whether the CUDA library has code for a GPU, or the GPU's driver compiles what calls first use."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from pycudakit._native import hardware

JIT_PROGRESS = "the GPU's driver compiles this once, which takes seconds"
JIT_REASON = "the first call of its kind, for which the GPU's driver compiled kernels or looked them up"

_used_families = {"pk_run_kernels"}  # entries without their types; this one's kernels are its caller's


@functools.cache
def has_native_code(device: int) -> bool:
    """Tell whether the library has code that a GPU runs as it is."""
    matching = [device_info for device_info in hardware.devices() if device_info.index == device]
    if not matching:  # which others tell
        return True
    return runs_on(hardware.build_info()["cuda"]["architectures"], matching[0].compute_capability)


def runs_on(architectures: str, compute_capability: tuple[int, int]) -> bool:
    """Tell whether code for one of these architectures, as "sm_90 compute_90", runs on a GPU as it is.

    A GPU runs what was compiled for the earlier ones of its generation, too.
    """
    major, minor = compute_capability
    built = re.findall(r"\bsm_(\d+)(\d)\b", architectures)
    return any(int(m) == major and int(n) <= minor for m, n in built)


def is_first_use(entry: str, devices: Iterable[int]) -> bool:
    """Tell whether the first call of an entry is to come, on GPUs whose driver compiles its kernels."""
    return _family(entry) not in _used_families and not all(map(has_native_code, devices))


def note_use(entry: str) -> None:
    """Note that an entry is called."""
    _used_families.add(_family(entry))


def _family(entry: str) -> str:
    return re.sub(r"_[a-z]+\d+$", "", entry)
