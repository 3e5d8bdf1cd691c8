"""Dask with 1 to N processes on this machine, and a simulation of more of them.

    python benchmarks/dask_processes.py --png docs/many_machines.svg
    python benchmarks/dask_processes.py --measure run.json                              # on one machine,
    python benchmarks/dask_processes.py --from run.json --png docs/many_machines.svg    # drawn on another

The timed work is similar to `examples/dask_pipeline.py`: random numbers, arithmetic and a mean, in chunks of
two sizes, by processes of one thread each on the CPU engine, up to the number of processors; and the same
tasks with chunks of a few elements, whose time with the most processes is the scheduler's. Each time is the
least of some runs; let the machine do nothing else. The simulation has a machine for each process, chunks
dealt out in turns, and the scheduler's time.
"""

import json
import os
import time
from pathlib import Path

import dask
from dask.distributed import Client, LocalCluster
from harness import machine
from report import parser, picture, table

import pycudakit as pk

PROCESSES = (1, 2, 4, 8, 16, 32, 64)
SMALLEST = 64  # elements of a chunk whose computing time is negligible
OF_A_WORKER = {"PYCUDAKIT_THREADS": "1", "PYCUDAKIT_ENGINE": "cpu"}


def work(block, blocks):
    noise = pk.random.on_dask(pk.random.default_rng(7), "standard_normal", size=block * blocks, chunks=block)
    return pk.mean(pk.sqrt(pk.exp(pk.subtract(pk.multiply(noise, 0.2), 0.02))))


def measured(processes, sizes, blocks, rounds):
    """Return the least seconds of the work with a number of processes, by the size of its chunks."""
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": OF_A_WORKER}),
        LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(processes)
        work(sizes[0], blocks).compute()  # warm up: imports, and first touch of memory
        return {size: min(seconds(work(size, blocks)) for _ in range(rounds)) for size in sizes}


def seconds(lazy):
    begin = time.perf_counter()
    lazy.compute()
    return time.perf_counter() - begin


def simulated(processes, blocks, computing, tasks):
    """Return the seconds with a number of processes, from one's computing time and the scheduler's time."""
    turns = -(-blocks // processes)
    return tasks + computing * turns / blocks


def measure(quick):
    """Return a run, as plain data: seconds by chunk size and processes, and the scheduler's."""
    sizes, blocks, rounds = ((20_000, 50_000), 8, 1) if quick else ((1_000_000, 10_000_000), 64, 3)
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    where = machine()  # before the workers' environment variables are set
    found = {p: measured(p, (*sizes, SMALLEST), blocks, rounds) for p in PROCESSES if p <= here}
    return {
        "machine": where,
        "processors": here,
        "blocks": blocks,
        "tasks": found[max(found)][SMALLEST],  # the scheduler's time, which does not shrink with processes
        "seconds": [[size, [[p, times[size]] for p, times in found.items()]] for size in sizes],
    }


def main():
    """Measure a run, or read one; print the table, and draw."""
    arguments = parser(__file__, __doc__)
    arguments.add_argument("--measure", type=Path, metavar="JSON", help="write the run, to be drawn later")
    arguments.add_argument("--from", type=Path, metavar="JSON", dest="run", help="take this run")
    options = arguments.parse_args()
    run = json.loads(options.run.read_text(encoding="utf-8")) if options.run else measure(options.quick)
    if options.measure:
        options.measure.write_text(json.dumps(run) + "\n", encoding="utf-8")
    blocks, tasks = run["blocks"], run["tasks"]
    print(f"{run['machine']}\n{blocks} blocks; the scheduler's part {tasks:.2f} s")
    lines = []  # of the table and the plot: elements of a chunk, measured or simulated, speed-ups
    for size, times in run["seconds"]:
        one = dict(times)[1]
        computing = max(one - tasks, 0.0)
        model = {p: simulated(p, blocks, computing, tasks) for p in PROCESSES if p <= blocks}
        lines += [(size, "measured", dict(times), one), (size, "simulated", model, model[1])]
    table(
        ["elements of a block", "processes", "seconds", "speed-up", "by"],
        [
            [f"{size:,}", str(p), f"{s:.2f}", f"{one / s:.2f}x", by]
            for size, by, times, one in lines
            for p, s in times.items()
        ],
    )

    def draw(axes):
        (axis,) = axes
        for place, (size, by, times, one) in enumerate(lines):
            style = {"measured": "o-", "simulated": "^--"}[by]
            whose = {"measured": "", "simulated": ", a machine for each process"}[by]
            axis.plot(
                list(times),
                [one / s for s in times.values()],
                style,
                color=f"C{place // 2}",
                label=f"{by}{whose}: blocks of {size:,}",
            )
        most = max(lines[-1][2])
        axis.plot([1, most], [1, most], ":", color="grey", label="ideal")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set(xlabel="processes, of one thread each", ylabel="times as fast as one")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter("{x:g}")
        axis.set_title(f"{blocks} blocks by Dask, on {run['processors']} processors")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")

    picture(options.png, draw)


if __name__ == "__main__":
    main()
