"""Dask with 1 to N processes on this machine, and what more of them would take, by Amdahl's law.

    python benchmarks/many_machines.py --png many_machines.png

What is timed is work as that of `examples/dask_pipeline.py`: random numbers, arithmetic, a mean, block
by block. Beyond the processors that are here, times are not measured but simulated, and drawn as such:
the part that does not shrink, the scheduler's, is the one that fits the measured times best. Let the
machine do nothing else.
"""

import os
import time
from statistics import median

import dask
import numpy as np
from dask.distributed import Client, LocalCluster
from report import parser, picture, table

import pycudakit as pk

SIMULATED = (4, 8, 16, 32, 64)


def work(rows, blocks):
    noise = pk.random.on_dask(pk.random.default_rng(7), "standard_normal", size=rows, chunks=rows // blocks)
    return pk.mean(pk.sqrt(pk.exp(pk.subtract(pk.multiply(noise, 0.2), 0.02))))


def measured(processes, rows, blocks, rounds):
    """Return the median seconds of some runs on so many processes, of one thread each."""
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": {"PYCUDAKIT_THREADS": "1"}}),
        LocalCluster(processes, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(processes)
        work(rows // 100, blocks).compute()  # imports
        return median(seconds(work(rows, blocks)) for _ in range(rounds))


def seconds(lazy):
    begin = time.perf_counter()
    lazy.compute()
    return time.perf_counter() - begin


def amdahl(times):
    """Return what does not shrink and what does: seconds(p) = fixed + shared / p, by least squares."""
    counts = np.array(sorted(times))
    matrix = np.stack([np.ones(len(counts)), 1 / counts], axis=1)
    fixed, shared = np.linalg.lstsq(matrix, np.array([times[p] for p in counts]), rcond=None)[0]
    return max(float(fixed), 0.0), max(float(shared), 0.0)


def main():
    options = parser(__file__, __doc__).parse_args()
    rows, blocks, rounds = (400_000, 8, 1) if options.quick else (64_000_000, 64, 3)
    here = [p for p in (1, 2, 4, 8, 16) if p <= (os.cpu_count() or 1)]
    times = {p: measured(p, rows, blocks, rounds) for p in here}
    fixed, shared = amdahl(times) if len(times) > 1 else (0.0, times[1])
    beyond = {p: fixed + shared / p for p in SIMULATED if p > here[-1]}
    rows_of = [(p, s, "measured") for p, s in times.items()] + [
        (p, s, "simulated") for p, s in beyond.items()
    ]
    table(
        ["processes", "seconds", "speed-up", "by"],
        [[str(p), f"{s:.2f}", f"{times[1] / s:.2f}x", by] for p, s, by in rows_of],
    )

    def draw(axes):
        (axis,) = axes
        joined = {here[-1]: fixed + shared / here[-1], **beyond}
        for line, style, label in (
            (times, "o-", "measured"),
            (joined, "o--", "simulated, not measured"),
            ({p: times[1] / p for p in (1, SIMULATED[-1])}, ":", "ideal"),
        ):
            axis.plot(list(line), [times[1] / s for s in line.values()], style, label=label)
        axis.set(
            xscale="log", yscale="log", xlabel="processes, of one thread each", ylabel="times as fast as one"
        )
        axis.set_title(f"{rows:,} elements in {blocks} blocks; {os.cpu_count()} processors here")
        axis.legend()

    picture(options.png, draw)


if __name__ == "__main__":
    main()
