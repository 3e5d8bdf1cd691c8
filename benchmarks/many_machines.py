"""Dask with 1 to N processes on this machine, and what more of them would take, simulated.

    python benchmarks/many_machines.py --png docs/many_machines.svg
    python benchmarks/many_machines.py --measure run.json                              # on one machine,
    python benchmarks/many_machines.py --from run.json --png docs/many_machines.svg    # drawn on another

What is timed is work as that of `examples/dask_pipeline.py`: random numbers, arithmetic, a mean, block
by block, by processes of one thread each; and the same tasks of blocks of a few elements, which is the
scheduler's time. Up to the processors that are here, each process has its own. More are measured too, and
said to be oversubscribed. Beyond, times are simulated: a machine of its own for each process, blocks dealt
out in turns, and the scheduler's time. Each is the least of some runs; let the machine do nothing else.
"""

import json
import os
import time
from pathlib import Path

import dask
from dask.distributed import Client, LocalCluster
from report import parser, picture, table

import pycudakit as pk

PROCESSES = (1, 2, 4, 8, 16, 32, 64)
SMALLEST = 64  # elements of a block that takes no time to compute
LARGER = 10


def work(rows, blocks):
    noise = pk.random.on_dask(pk.random.default_rng(7), "standard_normal", size=rows, chunks=rows // blocks)
    return pk.mean(pk.sqrt(pk.exp(pk.subtract(pk.multiply(noise, 0.2), 0.02))))


def measured(processes, rows, blocks, rounds):
    """Return the least seconds of the work, and of its tasks alone, on so many processes of one thread."""
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": {"PYCUDAKIT_THREADS": "1"}}),
        LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(processes)
        work(rows // 4, blocks).compute()  # imports, and memory that is touched first
        return tuple(
            min(seconds(work(size, blocks)) for _ in range(rounds)) for size in (rows, SMALLEST * blocks)
        )


def seconds(lazy):
    begin = time.perf_counter()
    lazy.compute()
    return time.perf_counter() - begin


def simulated(processes, blocks, computing, tasks):
    """Return the seconds of so many processes, given one's seconds of computing and the scheduler's."""
    turns = -(-blocks // processes)
    return tasks + computing * turns / blocks


def measure(quick):
    """Return a run, as plain data: seconds by the number of processes, and the scheduler's part of them."""
    rows, blocks, rounds = (400_000, 8, 1) if quick else (64_000_000, 64, 7)
    here = os.cpu_count() or 1
    last = max(2 * here, 4)  # the most that are measured, oversubscribed
    found = {p: measured(p, rows, blocks, rounds) for p in PROCESSES if p <= last}
    return {
        "rows": rows,
        "blocks": blocks,
        "processors": here,
        "seconds": [[p, whole] for p, (whole, _) in found.items()],
        "tasks": max(alone for p, (_, alone) in found.items() if p <= here),
    }


def main():
    """Measure, or take a run; print the table, and draw."""
    arguments = parser(__file__, __doc__)
    arguments.add_argument("--measure", type=Path, metavar="JSON", help="write the run, to be drawn later")
    arguments.add_argument("--from", type=Path, metavar="JSON", dest="run", help="take this run")
    options = arguments.parse_args()
    run = json.loads(options.run.read_text(encoding="utf-8")) if options.run else measure(options.quick)
    if options.measure:
        options.measure.write_text(json.dumps(run) + "\n", encoding="utf-8")
    rows, blocks, here, tasks = (run[name] for name in ("rows", "blocks", "processors", "tasks"))
    times = dict(run["seconds"])
    computing = max(times[1] - tasks, 0.0)
    model, larger = (
        {p: simulated(p, blocks, scale * computing, tasks) for p in PROCESSES if p <= blocks}
        for scale in (1, LARGER)
    )

    print(f"{rows:,} elements in {blocks} blocks; {here} processors here; the scheduler's part {tasks:.2f} s")
    rows_of = [(p, s, "measured" if p <= here else "measured, oversubscribed") for p, s in times.items()]
    rows_of = [(p, s, times[1], by) for p, s, by in rows_of]
    rows_of += [(p, s, times[1], "simulated") for p, s in model.items()]
    rows_of += [(p, s, larger[1], f"simulated, blocks {LARGER} times as large") for p, s in larger.items()]
    table(
        ["processes", "seconds", "speed-up", "by"],
        [[str(p), f"{s:.2f}", f"{one / s:.2f}x", by] for p, s, one, by in rows_of],
    )

    def draw(axes):
        (axis,) = axes
        alone = {p: s for p, s in times.items() if p <= here}
        crowded = {p: s for p, s in times.items() if p >= here}
        for line, one, style, label in (
            ({p: times[1] / p for p in (1, max(model))}, times[1], ":", "ideal"),
            (larger, larger[1], "^--", f"simulated, a machine for each, blocks {LARGER} times as large"),
            (model, times[1], "s--", "simulated, a machine for each process"),
            (crowded, times[1], "o-.", f"measured, oversubscribed: {here} processors"),
            (alone, times[1], "o-", "measured, a processor for each process"),
        ):
            axis.plot(list(line), [one / s for s in line.values()], style, label=label)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set(xlabel="processes, of one thread each", ylabel="times as fast as one")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter("{x:g}")
        axis.set_title(f"{rows:,} elements in {blocks} blocks, by Dask")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")

    picture(options.png, draw)


if __name__ == "__main__":
    main()
