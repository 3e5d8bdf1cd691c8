"""The tail of `add` on a machine whose cores are busy: its 99th percentile beside NumPy's, call by call.

Two other processes keep cores busy. Work is handed out in small pieces, and the calling thread computes those
that a descheduled worker has not begun.
"""

import argparse
import multiprocessing
import os
import sys
import time

import numpy as np
from harness import machine

import pycudakit as pk

ELEMENTS, MOST = 300_000, 2.0  # MOST is the target


def spin(parent, begin):
    """Keep a core busy while the parent process lives, once all processes have begun."""
    begin.wait()
    while os.getppid() == parent:
        pass


def percentiles(calls):
    """Return the 99th percentiles of `pk.add` and of `np.add`, in seconds, of calls in turn."""
    a, b = (np.random.default_rng(seed).random(ELEMENTS) for seed in range(2))
    seconds = np.empty((2, calls))
    for n in range(-20, calls):  # the first calls warm up
        for function, times in zip((pk.add, np.add), seconds, strict=True):
            began = time.perf_counter()
            function(a, b)
            times[n] = time.perf_counter() - began
    return np.percentile(seconds, 99, axis=1)


def main():
    """Measure each engine that the machine has without a GPU, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 calls: no figures")
    parser.add_argument("--processes", type=int, default=2, help="spinning processes")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the target is missed")
    options = parser.parse_args()
    print(machine())
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(options.processes + 1)
    spinning = [
        context.Process(target=spin, args=(os.getpid(), begin), daemon=True) for _ in range(options.processes)
    ]
    missed = False
    try:
        for process in spinning:
            process.start()
        begin.wait(60)
        for engine in ("auto", "cpu"):
            with pk.engine(engine):
                ours, numpys = percentiles(100 if options.quick else 10_000)
            missed |= ours > MOST * numpys
            print(
                f"{engine}: 99% below {ours * 1e3:.2f} ms, NumPy {numpys * 1e3:.2f} ms: {ours / numpys:.2f}"
            )
    finally:
        for process in spinning:
            process.kill()
    return int(options.strict and missed)


if __name__ == "__main__":
    sys.exit(main())
