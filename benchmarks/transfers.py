"""Many small transfers against one large: the same bytes, in calls of 4 KB to 64 MB.

Every call costs some microseconds before its first byte moves, so that small calls leave the link idle.
Small enough calls copy nothing to the GPU: the kernel reads and writes the host's memory, unless that is
turned off, as in the last columns.
"""

import numpy as np
import report

import pycudakit as pk

ALL = 64 << 20


def main():
    options = report.experiment(__file__, __doc__)
    total, rounds = (ALL // 16, 2) if options.quick else (ALL, 5)
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
    usual = {piece: seconds(piece) for piece in pieces}
    with pk.tuned(in_place_bytes=0):
        copied = {piece: seconds(piece) for piece in pieces}

    print(f"-x of {total >> 20} MiB of float32 in pinned memory, in calls of equal size")
    report.table(
        ("bytes a call", "calls", "all calls", "one call", "each way", "always copied", "each way"),
        [
            (
                f"{piece:,}",
                f"{total // piece:,}",
                report.ms(usual[piece]),
                f"{usual[piece] * piece / total * 1e6:,.1f} us",
                f"{total / usual[piece] / 1e9:.1f} GB/s",
                report.ms(copied[piece]),
                f"{total / copied[piece] / 1e9:.1f} GB/s",
            )
            for piece in pieces
        ],
    )

    def draw(axes):
        for label, times in (("as usual", usual), ("always copied", copied)):
            axes[0].plot(pieces, [total / times[piece] / 1e9 for piece in pieces], "o-", label=label)
        axes[0].set_xscale("log", base=2)
        axes[0].set_yscale("log")
        axes[0].set(title="-x, pinned memory", xlabel="bytes a call", ylabel="GB/s each way")
        axes[0].grid(alpha=0.3)
        axes[0].legend()

    report.picture(options.png, draw)


if __name__ == "__main__":
    main()
