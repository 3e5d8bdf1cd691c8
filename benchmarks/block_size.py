"""How many threads a block of a vector add should have: the kernel's time for blocks of 32 to 1024.

A block of few threads leaves a multiprocessor part idle, since only so many blocks fit on one; a large block
waits as a whole for its slowest threads. Between them it hardly matters, as memory sets the pace.
"""

import numpy as np
import report

import pycudakit as pk

BLOCKS = (32, 64, 128, 256, 512, 1024)
# One large slot of the kind that pinned operands have: few kernels, and each alone on the GPU.
ALONE = {"threads": 1, "slots": 1, "direct_bytes": 64 << 20, "smallest_chunk": 64 << 20}


def main():
    options = report.experiment(__file__, __doc__)
    size, rounds = (1_000_000, 3) if options.quick else (32_000_000, 15)
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
    print(f"a + b of {size:,} float32, in {call.chunks} chunks")
    report.table(
        ("threads a block", "kernels", "GPU memory", "to the best"),
        [
            (f"{n}", report.ms(s), f"{moved / s / 1e9:,.0f} GB/s", f"{s / best:.2f}x")
            for n, s in seconds.items()
        ],
    )

    def draw(axes):
        axes[0].bar([str(block) for block in seconds], [s * 1e3 for s in seconds.values()])
        axes[0].set(title=f"a + b of {size:,} float32", xlabel="threads a block", ylabel="ms in the kernel")

    report.picture(options.png, draw)


if __name__ == "__main__":
    main()
