"""Overlap on and off: one chunk after the other, against chunks in different stages at once.

With one thread and one slot, each chunk is staged, uploaded, computed, downloaded and unstaged before the
next begins. With more slots, the GPU works on one while the thread copies the next; with more threads, there
are more of the copies at once, on which most of the time goes.
"""

import numpy as np
import report

import pycudakit as pk

SETTINGS = {
    "off: 1 thread, 1 slot": {"threads": 1, "slots": 1},
    "1 thread, usual slots": {"threads": 1},
    "usual threads, 1 slot": {"slots": 1},
    "as usual": {},
}


def main():
    options = report.experiment(__file__, __doc__)
    size, rounds = (1_000_000, 3) if options.quick else (64_000_000, 7)
    rng = np.random.default_rng(0)
    a, b = (rng.random(size, np.float32) for _ in "ab")

    calls = {}
    for name, values in SETTINGS.items():
        with pk.tuned(**values):
            calls[name] = report.typical(lambda: pk.add(a, b), rounds)

    off = calls["off: 1 thread, 1 slot"].seconds
    print(f"a + b of {size:,} float32")
    report.table(
        ("setting", "call", "to off", "stages together", "two or more at once", "of the link"),
        [
            (
                name,
                report.ms(call.seconds),
                f"{off / call.seconds:.2f}x",
                report.ms(sum(call.stages.values())),
                f"{call.overlap:.0%}",
                f"{call.link_share:.0%}",
            )
            for name, call in calls.items()
        ],
    )

    def draw(axes):
        left = np.zeros(len(calls))
        for stage in calls["as usual"].stages:
            taken = np.array([call.stages[stage] * 1e3 for call in calls.values()])
            axes[0].barh([*calls], taken, left=left, label=stage)
            left += taken
        times = [call.seconds * 1e3 for call in calls.values()]
        axes[0].plot(times, [*calls], "kD", label="the call")
        axes[0].invert_yaxis()
        axes[0].set(title=f"a + b of {size:,} float32", xlabel="ms")
        axes[0].legend(fontsize="small")

    report.picture(options.png, draw)


if __name__ == "__main__":
    main()
