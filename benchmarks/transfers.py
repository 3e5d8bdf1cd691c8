"""Many small transfers against one large: the same bytes, in calls of 4 KB to 64 MB.

Every call costs some microseconds before its first byte moves, so that small calls leave the link idle.
Small enough calls copy nothing to the GPU: the kernel reads and writes the host's memory, unless that is
turned off, as in the last columns (of a GPU alone).
"""

import sys

import numpy as np
import report

import pycudakit as pk

ALL = 64 << 20
ENGINES = ("cuda", "cpu")


def measure(quick):
    total, rounds = (ALL // 16, 2) if quick else (ALL, 5)
    x = pk.pinned_copy(np.random.default_rng(0).random(total // 4, np.float32))
    out = pk.empty_pinned(x.shape, x.dtype)

    def seconds(piece):
        """Return the time of all calls when each has so many bytes."""
        pairs = list(zip(x.reshape(-1, piece // 4), out.reshape(-1, piece // 4), strict=True))

        def calls():
            for operand, result in pairs:
                pk.negative(operand, out=result)

        return report.wall(calls, rounds)

    pieces = [piece for piece in (4096 * 4**n for n in range(8)) if piece <= total]
    ways = {"as usual": [seconds(piece) for piece in pieces]}
    if pk.last_call().engine == "cuda":
        with pk.tuned(in_place_bytes=0):
            ways["always copied"] = [seconds(piece) for piece in pieces]

    def cells(n):
        piece, calls = pieces[n], total // pieces[n]
        yield from (f"{piece:,}", f"{calls:,}", f"{ways['as usual'][n] / calls * 1e6:,.1f} us")
        for times in ways.values():
            yield from (report.ms(times[n]), f"{total / times[n] / 1e9:.1f} GB/s")

    titles = [title for way in ways for title in (way, "each way")]
    return {
        "note": f"-x of {total >> 20} MiB of float32 in pinned memory, in calls of equal size",
        "titles": ["bytes a call", "calls", "one call", *titles],
        "rows": [[*cells(n)] for n in range(len(pieces))],
        "points": {"total": total, "pieces": pieces, "ways": ways},
    }


def draw(axis, points):
    for way, times in points["ways"].items():
        axis.plot(points["pieces"], [points["total"] / s / 1e9 for s in times], "o-", label=way)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set(title="-x, in calls of equal size", xlabel="bytes a call", ylabel="GB/s each way")
    axis.grid(alpha=0.3)
    axis.legend()


if __name__ == "__main__":
    report.experiment(sys.modules[__name__], __file__)
