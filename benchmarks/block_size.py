"""How many threads a block of a vector add should have: the kernel's time for blocks of 32 to 1024.

A block of few threads leaves a multiprocessor part idle, since only so many blocks fit on one; a large block
waits as a whole for its slowest threads. Between them it hardly matters, as memory sets the pace.
"""

import sys

import numpy as np
import report

import pycudakit as pk

BLOCKS = (32, 64, 128, 256, 512, 1024)
# One large slot of the kind that pinned operands have: few kernels, and each alone on the GPU.
ALONE = {"threads": 1, "slots": 1, "direct_bytes": 64 << 20, "smallest_chunk": 64 << 20}
ENGINES = ("cuda",)


def measure(quick):
    size, rounds = (1_000_000, 3) if quick else (32_000_000, 15)
    rng = np.random.default_rng(0)
    a, b = (pk.pinned_copy(rng.random(size, np.float32)) for _ in "ab")
    out = pk.empty_pinned(size, np.float32)

    seconds = {}
    for block in BLOCKS:
        with pk.tuned(block=block, **ALONE):
            call = report.typical(lambda: pk.add(a, b, out=out), rounds, lambda call: call.stages["kernel"])
        seconds[block] = call.stages["kernel"]

    best = min(seconds.values())
    moved = a.nbytes + b.nbytes + out.nbytes
    return {
        "note": f"a + b of {size:,} float32, in {call.chunks} chunks",
        "titles": ["threads a block", "kernels", "GPU memory", "to the best"],
        "rows": [
            [f"{n}", report.ms(s), f"{moved / s / 1e9:,.0f} GB/s", f"{s / best:.2f}x"]
            for n, s in seconds.items()
        ],
        "points": {"size": size, "seconds": [*seconds.values()]},
    }


def draw(axis, points):
    axis.bar([str(block) for block in BLOCKS], [s * 1e3 for s in points["seconds"]])
    axis.set(
        title=f"a + b of {points['size']:,} float32", xlabel="threads a block", ylabel="ms in the kernel"
    )


if __name__ == "__main__":
    report.experiment(sys.modules[__name__], __file__)
