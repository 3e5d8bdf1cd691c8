"""The stages of one call: allocation, staging, upload, kernel, download, unstaging.

A stage's time is that in which at least one chunk was in it. Stages overlap, so that together they take
longer than the call. Allocation is the extra time of a call if all memory was released before it.
"""

import sys
from statistics import median

import numpy as np
import report

import pycudakit as pk

STAGES = {
    "stage": "operands into pinned memory",
    "upload": "to the GPU",
    "kernel": "computing",
    "download": "from the GPU",
    "unstage": "results out of pinned memory",
    "compute": "on the CPU, where they lie",
}
ENGINES = ("cuda", "cpu")


def measure(quick):
    size, rounds = (1_000_000, 3) if quick else (64_000_000, 9)
    rng = np.random.default_rng(0)
    a, b = (rng.random(size, np.float32) for _ in "ab")

    call = report.typical(lambda: pk.add(a, b), rounds)
    firsts = []
    for _ in range(3):
        pk.release()
        pk.add(a, b)
        firsts.append(pk.last_call().seconds)
    allocation = max(0.0, median(firsts) - call.seconds)

    seconds = {stage: call.stages[stage] for stage in STAGES if stage in call.stages}
    lines = {f"{stage}: {STAGES[stage]}": taken for stage, taken in seconds.items()}
    lines["together"] = sum(seconds.values())
    lines["the call"] = call.seconds
    lines["allocation, of a first call only"] = allocation
    return {
        "note": f"a + b of {size:,} float32, in {call.chunks} chunks by {call.threads} threads; two or more "
        f"stages were under way in {call.overlap:.0%} of the time",
        "titles": ["stage", "time", "of the call"],
        "rows": [[name, report.ms(taken), f"{taken / call.seconds:.0%}"] for name, taken in lines.items()],
        "points": {
            "size": size,
            "bars": {**seconds, "the call": call.seconds, "allocation\n(first call only)": allocation},
        },
    }


def draw(axis, points):
    axis.barh([*points["bars"]], [taken * 1e3 for taken in points["bars"].values()])
    axis.invert_yaxis()
    axis.set(title=f"a + b of {points['size']:,} float32", xlabel="ms")


if __name__ == "__main__":
    report.experiment(sys.modules[__name__], __file__)
