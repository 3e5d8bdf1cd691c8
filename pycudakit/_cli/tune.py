"""`pycudakit tune`: measures the constants of the cost model on this machine, and saves them in a file."""

from __future__ import annotations

import datetime as dt
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._cli import common, measure_rates
from pycudakit._cli.idle_processors import are_processors_idle
from pycudakit._cli.progress import Progress, Say
from pycudakit._native import calibration_file
from pycudakit._runtime import cost_model
from pycudakit._runtime.context import EngineName

REPEATS = 5
LARGE = 16 << 20  # elements of arrays beyond all caches
PLAUSIBLE_FACTOR = 8  # measured constants are clamped to the default, times or divided by this
_WORDS = {  # descriptions of the constants for the output
    "SINGLE_THREAD_CALL": "call on one thread, over NumPy's",
    "SINGLE_THREAD_BANDWIDTH": "memory, one thread",
    "THREAD_BANDWIDTH": "memory, each of several threads",
    "HOST_BANDWIDTH": "memory, all threads",
    "CALL": "call that wakes the threads",
    "CUDA_CALL": "call to the GPU",
    "LINK_OVERHEAD_FACTOR": "streamed call, over the link's time",
    "STAGING_BANDWIDTH": "memory, all threads while staging",
}
_COLD = 32 << 20  # bytes that evict everything else from most caches


def _seconds(
    call: Callable[[], object], rounds: int = 9, before: Callable[[], object] = lambda: None
) -> float:
    """Time a call; return the lower quartile, since other load only makes it longer."""
    taken = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.quantiles(taken, n=4)[0]


def _single_thread_call() -> float:
    """Return the overhead of a library call that wakes no threads, beyond NumPy's."""
    x = np.ones(100, np.float32)
    out = np.empty_like(x)

    def thousand(function: Any) -> Callable[[], object]:
        return lambda: [function(x, out=out) for _ in range(1000)]

    with pk.engine("cpu"):
        ours = _seconds(thousand(pk.sqrt))
    return (ours - _seconds(thousand(np.sqrt))) / 1000


def _bandwidth(add: Any, elements: int) -> float:
    """Return the memory bandwidth of adding two arrays, in bytes a second."""
    a, b, out = np.ones((3, elements), np.float32)
    with pk.engine("cpu"):
        return 3 * a.nbytes / _seconds(lambda: add(a, b, out=out))


def _call(engine: EngineName, elements: int) -> float:
    """Return the time of a call with cold caches."""
    x, others = np.full(elements, 0.5), np.zeros(_COLD, np.uint8)
    out = np.empty_like(x)
    with pk.engine(engine):
        return _seconds(lambda: pk.exp(x, out=out), 15, lambda: others.fill(1))


def _constants(rate: float) -> Iterator[tuple[str, float]]:
    """Measure and yield the constants of the cost model; `rate` is that of float64 exp on one thread."""
    yield "SINGLE_THREAD_CALL", _single_thread_call()
    yield "SINGLE_THREAD_BANDWIDTH", _bandwidth(np.add, 1 << 20)
    threads = cost_model.threads()
    moved = _bandwidth(pk.add, LARGE)
    each = max(
        moved / threads, min(moved, cost_model.THREAD_BANDWIDTH)
    )  # a few threads may saturate the memory
    yield "THREAD_BANDWIDTH", each
    yield "HOST_BANDWIDTH", moved if threads > 1 else max(moved, cost_model.HOST_BANDWIDTH)
    elements = 200_000
    yield "CALL", _call("cpu", elements) - elements * rate / threads - 16 * elements / moved
    if not pk.engines()["cuda"]:
        return
    link, few = pk.link_speed(0), 16_384
    overhead = _call("cuda", few) - 8 * few / link.up
    yield "CUDA_CALL", overhead
    pinned, ordinary = pk.pinned_copy(np.ones(LARGE, np.float32)), np.ones(LARGE, np.float32)
    result, pinned_result = np.empty_like(ordinary), pk.empty_pinned(LARGE, np.float32)
    floor = pinned.nbytes / min(link)
    with pk.engine("cuda"):
        taken = _seconds(lambda: pk.negative(pinned, out=pinned_result)) - overhead
        yield "LINK_OVERHEAD_FACTOR", max(1.0, taken / floor)
        taken = _seconds(lambda: pk.negative(ordinary, out=result)) - overhead
        yield "STAGING_BANDWIDTH", 2 * ordinary.nbytes / taken


def _clamped(name: str, value: float) -> float:
    default = getattr(cost_model, name)
    return float(min(max(value, default / PLAUSIBLE_FACTOR), default * PLAUSIBLE_FACTOR))


def _rates(report: Callable[[str], object]) -> dict[str, str]:
    """Measure the rates in a process with one thread."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(pk.__file__)))
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    rows = {}
    with subprocess.Popen(  # noqa: S603  (ourselves)
        [sys.executable, "-m", measure_rates.__name__, str(REPEATS)],
        env={**os.environ, "PYTHONPATH": path, "PYCUDAKIT_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout or ():
            name, _, row = line.rstrip("\n").partition(": ")
            report(name)
            rows[name] = row
    if process.returncode:
        raise pk.errors.DeviceError("the process that measures rates failed: see above")
    return rows


def _save(text: str) -> str:
    """Write the file atomically; return its path."""
    path = calibration_file.path()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="ascii", errors="replace") as file:
        file.write(text)
    os.replace(fresh, path)
    return path


def run(say: Say, reset: bool = False, force: bool = False) -> int:
    """Measure and save the constants, or restore the defaults; return the exit status."""
    if reset:
        try:
            os.remove(calibration_file.path())
        except OSError as error:
            if os.path.lexists(calibration_file.path()):
                say(f"{calibration_file.path()} cannot be removed: {error.strerror}")
                return 1
            say("Nothing was measured here: auto decides by the package's default constants.")
        else:
            say(f"Removed {calibration_file.path()}: auto decides by the package's default constants again.")
        return 0
    if "cpu" not in common.engines(say):
        return 1
    if not force and not are_processors_idle():
        say("Other programs use the processors, and auto would decide by distorted times.")
        say("Nothing was measured: run it on an idle machine, or give --force.")
        return 1
    begin, names = time.perf_counter(), measure_rates.names()
    with closing(Progress(len(names) + 8, say)) as progress:
        rows = _rates(lambda name: progress.step(f"rates: {name}"))
        constants = {}
        rate = float(rows["exp"].split()[-1].split("/")[1]) * 1e-9
        for name, value in _constants(rate):
            progress.step(name)
            if math.isfinite(value) and value > 0:
                constants[name] = _clamped(name, value)
            else:
                progress.say(f"  {_WORDS[name]}: {value:.3g} is impossible, and the default is kept")
    day = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d")
    try:
        path = _save(calibration_file.serialize(day, constants, rows))
    except OSError as error:
        say(f"{calibration_file.path()} cannot be written ({error.strerror}):")
        say("set PYCUDAKIT_CACHE_DIR to a writable folder.")
        return 1
    for name, value in constants.items():
        default = getattr(cost_model, name)
        say(f"  {_WORDS[name]:<38} {_shown(name, value):>10}   before {_shown(name, default):>10}")
    seconds = time.perf_counter() - begin
    say(f"{len(rows)} functions and {len(constants)} constants measured in {seconds:.0f} s;")
    say(f"auto decides by them in new processes: {path}")
    return 0


def _shown(name: str, value: float) -> str:
    if name.endswith("BANDWIDTH"):
        return f"{value / 1e9:.1f} GB/s"
    return f"{value:.2f} x" if name == "LINK_OVERHEAD_FACTOR" else f"{value * 1e6:.1f} us"
