"""Row tiles on the CPU engine: each thread runs all kernels of a group on one tile in its cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import collect_calls, log_split_call, run
from pycudakit.fusing.schedule.row_tiling import PreparedKernel, ScheduledKernel

_CACHE_LINE = 64  # bytes


def run_tiles_by_threads(
    kernels: Sequence[ScheduledKernel],
    prepared: Sequence[PreparedKernel],
    intermediates: Iterable[Array],
    blocks: int,
) -> None:
    """Run the kernels over `blocks` row tiles; each thread has its own scratch memory for `intermediates`."""
    scratch_offsets: dict[range, int] = {}
    scratch = 0
    for array in intermediates:
        first = address_of(array)
        scratch_offsets[range(first, first + array.nbytes)] = scratch
        scratch += -(-array.nbytes // _CACHE_LINE) * _CACHE_LINE
    passes = np.zeros(len(prepared), abi.BLOCK_PROGRAM)
    tables = [each.describe(row, scratch_offsets) for each, row in zip(prepared, passes, strict=True)]
    choice = replace(kernels[0].choice, function=", ".join(kernel.choice.function for kernel in kernels))
    _, calls = collect_calls(
        lambda: run(choice, "pk_run_blocks", passes, len(passes), blocks, scratch, size=blocks)
    )
    del tables  # kept alive until here: the kernels have used its addresses
    for each in prepared:
        each.add_met()
    log_split_call(calls[0], [kernel.choice.function for kernel in kernels], passes["seconds"].tolist())
