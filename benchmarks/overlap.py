"""Overlap on and off: one chunk after the other, against chunks in different stages at once.

With one thread and one slot, each chunk is staged, uploaded, computed, downloaded and unstaged before the
next begins. With more slots, the GPU works on one while the thread copies the next; with more threads, there
are more of the copies at once, on which most of the time goes.
"""

import sys

import numpy as np
import report

import pycudakit as pk

SETTINGS = {
    "off: 1 thread, 1 slot": {"threads": 1, "slots": 1},
    "1 thread, usual slots": {"threads": 1},
    "usual threads, 1 slot": {"slots": 1},
    "as usual": {},
}
ENGINES = ("cuda",)


def measure(quick):
    size, rounds = (1_000_000, 3) if quick else (64_000_000, 7)
    rng = np.random.default_rng(0)
    a, b = (rng.random(size, np.float32) for _ in "ab")

    calls = {}
    for name, values in SETTINGS.items():
        with pk.tuned(**values):
            calls[name] = report.typical(lambda: pk.add(a, b), rounds)

    off = calls["off: 1 thread, 1 slot"].seconds
    return {
        "note": f"a + b of {size:,} float32",
        "titles": ["setting", "call", "to off", "stages together", "two or more at once", "of the link"],
        "rows": [
            [
                name,
                report.ms(call.seconds),
                f"{off / call.seconds:.2f}x",
                report.ms(sum(call.stages.values())),
                f"{call.overlap:.0%}",
                f"{call.link_share:.0%}",
            ]
            for name, call in calls.items()
        ],
        "points": {
            "size": size,
            "calls": {name: call.seconds for name, call in calls.items()},
            "stages": {
                stage: [call.stages[stage] for call in calls.values()] for stage in calls["as usual"].stages
            },
        },
    }


def draw(axis, points):
    left = np.zeros(len(points["calls"]))
    for stage, seconds in points["stages"].items():
        taken = np.array(seconds) * 1e3
        axis.barh([*points["calls"]], taken, left=left, label=stage)
        left += taken
    axis.plot([s * 1e3 for s in points["calls"].values()], [*points["calls"]], "kD", label="the call")
    axis.invert_yaxis()
    axis.set(title=f"a + b of {points['size']:,} float32", xlabel="ms")
    axis.legend(fontsize="small")


if __name__ == "__main__":
    report.experiment(sys.modules[__name__], __file__)
