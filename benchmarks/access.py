"""Coalesced against strided access: the cost of every second, fourth, ... element of an array.

Memory comes in lines of 64 bytes, of which a stride of 16 float32 uses 4. The GPU itself always reads
neighbours: the host's threads gather the elements while they stage them. The last column gathers them before
the call, as users do, by np.ascontiguousarray.
"""

import sys

import numpy as np
import report

import pycudakit as pk

STRIDES = (1, 2, 4, 8, 16, 32)
ENGINES = ("cuda", "cpu")


def measure(quick):
    size, rounds = (250_000, 3) if quick else (8_000_000, 9)
    base = np.random.default_rng(0).random(size * STRIDES[-1], np.float32)

    rows, ways = [], {"the call gathers": [], "gathered first": []}
    for stride in STRIDES:
        view = base[: size * stride : stride]
        taken = report.wall(lambda view=view: pk.negative(view), rounds)
        before = report.wall(lambda view=view: pk.negative(np.ascontiguousarray(view)), rounds)
        call = report.typical(lambda view=view: pk.negative(view), rounds)
        for way, seconds in zip(ways.values(), (taken, before), strict=True):
            way.append(seconds)
        rows.append(
            [
                f"{stride}",
                report.ms(taken),
                f"{taken / ways['the call gathers'][0]:.2f}x",
                f"{view.nbytes / taken / 1e9:.1f} GB/s",
                report.ms(call.stages.get("stage")),
                report.ms(call.stages.get("kernel")),
                report.ms(before),
            ]
        )
    return {
        "note": f"-x[::stride] of {size:,} float32 each time",
        "titles": ["stride", "call", "to stride 1", "elements", "staging", "kernels", "gathered first"],
        "rows": rows,
        "points": {"size": size, "ways": ways},
    }


def draw(axis, points):
    for way, times in points["ways"].items():
        axis.plot(STRIDES, [s * 1e3 for s in times], "o-", label=way)
    axis.set_xscale("log", base=2)
    axis.set(title=f"-x[::stride], {points['size']:,} float32", xlabel="stride", ylabel="ms", ylim=0)
    axis.legend()


if __name__ == "__main__":
    report.experiment(sys.modules[__name__], __file__)
