"""Coalesced against strided access: what every second, fourth, ... element of an array costs.

Memory comes in lines of 64 bytes, of which a stride of 16 float32 uses 4. The GPU itself always reads
neighbours: the host's threads gather the elements while they stage them. The last column gathers them before
the call, as users do, by np.ascontiguousarray.
"""

import numpy as np
import report

import pycudakit as pk

STRIDES = (1, 2, 4, 8, 16, 32)


def main():
    options = report.experiment(__file__, __doc__)
    size, rounds = (250_000, 3) if options.quick else (8_000_000, 9)
    base = np.random.default_rng(0).random(size * STRIDES[-1], np.float32)

    rows, seconds, gathered = [], {}, {}
    for stride in STRIDES:
        view = base[: size * stride : stride]
        seconds[stride] = report.wall(lambda view=view: pk.negative(view), rounds)
        gathered[stride] = report.wall(lambda view=view: pk.negative(np.ascontiguousarray(view)), rounds)
        call = report.typical(lambda view=view: pk.negative(view), rounds)
        rows.append(
            (
                f"{stride}",
                report.ms(seconds[stride]),
                f"{seconds[stride] / seconds[1]:.2f}x",
                f"{view.nbytes / seconds[stride] / 1e9:.1f} GB/s",
                report.ms(call.stages["stage"]),
                report.ms(call.stages["kernel"]),
                report.ms(gathered[stride]),
            )
        )

    print(f"-x[::stride] of {size:,} float32 each time")
    report.table(("stride", "call", "to stride 1", "elements", "staging", "kernels", "gathered first"), rows)

    def draw(axes):
        for label, times in (("the call gathers", seconds), ("gathered first", gathered)):
            axes[0].plot(STRIDES, [times[stride] * 1e3 for stride in STRIDES], "o-", label=label)
        axes[0].set_xscale("log", base=2)
        axes[0].set(title=f"-x[::stride], {size:,} float32", xlabel="stride", ylabel="ms", ylim=0)
        axes[0].legend()

    report.picture(options.png, draw)


if __name__ == "__main__":
    main()
