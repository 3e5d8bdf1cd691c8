"""Blocks of rows on the CPU: each thread goes through all passes over a block, which stays in its cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import apart, done_for_several, run
from pycudakit.fusing.schedule.row_tiling import Ready, Step

_LINE = 64  # bytes


def run_by_threads(
    steps: Sequence[Step], ready: Sequence[Ready], between: Iterable[Array], blocks: int
) -> None:
    """Run passes over so many blocks; of what lies `between` them, each thread has one of its own."""
    places: dict[range, int] = {}
    scratch = 0
    for array in between:
        first = address_of(array)
        places[range(first, first + array.nbytes)] = scratch
        scratch += -(-array.nbytes // _LINE) * _LINE
    passes = np.zeros(len(ready), abi.PASS)
    tables = [each.describe(row, places) for each, row in zip(ready, passes, strict=True)]
    plan = replace(steps[0].plan, function=", ".join(step.plan.function for step in steps))
    with apart() as calls:
        run(plan, "pk_run_blocks", passes, len(passes), blocks, scratch, size=blocks)
    del tables  # whose addresses the passes have had
    for each in ready:
        each.add_met()
    done_for_several(calls[0], [step.plan.function for step in steps], passes["seconds"].tolist())
