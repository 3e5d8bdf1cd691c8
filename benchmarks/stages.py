"""The stages of one call: allocation, staging, upload, kernel, download, unstaging.

A stage's time is that in which at least one chunk was in it. Stages overlap, so that together they take
longer than the call. Allocation is what a call takes longer when all memory was given back before it.
"""

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
}


def main():
    options = report.experiment(__file__, __doc__)
    size, rounds = (1_000_000, 3) if options.quick else (64_000_000, 9)
    rng = np.random.default_rng(0)
    a, b = (rng.random(size, np.float32) for _ in "ab")

    call = report.typical(lambda: pk.add(a, b), rounds)
    firsts = []
    for _ in range(3):
        pk.release()
        pk.add(a, b)
        firsts.append(pk.last_call().seconds)
    allocation = max(0.0, median(firsts) - call.seconds)

    print(f"a + b of {size:,} float32, in {call.chunks} chunks by {call.threads} threads")
    seconds = {stage: call.stages[stage] for stage in STAGES}
    lines = {f"{stage}: {STAGES[stage]}": taken for stage, taken in seconds.items()}
    lines["together"] = sum(seconds.values())
    lines["the call"] = call.seconds
    lines["allocation, of a first call only"] = allocation
    rows = [(name, report.ms(taken), f"{taken / call.seconds:.0%}") for name, taken in lines.items()]
    report.table(("stage", "time", "of the call"), rows)
    print(f"two or more stages were under way in {call.overlap:.0%} of the time")

    def draw(axes):
        bars = {**seconds, "the call": call.seconds, "allocation\n(first call only)": allocation}
        axes[0].barh([*bars], [taken * 1e3 for taken in bars.values()])
        axes[0].invert_yaxis()
        axes[0].set(title=f"a + b of {size:,} float32", xlabel="ms")

    report.picture(options.png, draw)


if __name__ == "__main__":
    main()
