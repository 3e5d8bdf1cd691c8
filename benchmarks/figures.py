"""The target figures of the streaming engine, all ratios or times of one run; peers.py prints them."""

import dataclasses
import json
import os
import subprocess
import sys
from statistics import median

import numpy as np
import peer_families
from harness import Allowance, link_seconds
from libraries import ON_GPU

import pycudakit as pk
from pycudakit._cli.bench import FAMILIES, Contender, timed

K, M = 1_000, 1_000_000
AUTO_SIZES = [factor * 10**e for e in range(8) for factor in (1, 3)] + [10**8]
LINE = "{:<58} {:>9} {:>12}  {}"
rng = np.random.default_rng(0)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A measured number and its required minimum or maximum."""

    name: str
    measured: float | None
    required: float | None
    at_most: bool
    verdict: str


class Figures:
    """Prints figures as they are measured."""

    def __init__(self, options):
        self.options = options
        self.found = []

    def wanted(self, name):
        return self.options.only in name

    def size(self, elements):
        return elements // 16 if self.options.quick else elements

    def check(self, name, measured, required, unit="x", at_most=False):
        """Compare a measured number, unless it is None, with the required one."""
        if measured is None or not self.wanted(name):
            return
        met = round(measured, 3) <= required if at_most else round(measured, 3) >= required
        word = "quick" if self.options.quick else "ok" if met else "SHORT"
        self.found.append(Figure(name, measured, required, at_most, word))
        limit = f"{'<=' if at_most else '>='} {required:.3g} {unit}"
        print(LINE.format(name, f"{measured:.3g} {unit}", limit, word), flush=True)

    def failed(self, name, error):
        self.found.append(Figure(name, None, None, False, "FAILED"))
        print(LINE.format(name, "", "", f"FAILED: {error}"), flush=True)


def uniform(*shape):
    return rng.random(shape, np.float32)


# ---- From the races -----------------------------------------------------------------------------------


def of_races(figures, results):
    """Check the figures of the races of peers.py, at the requested sizes."""

    cuda, pinned, size = "pycudakit cuda", "pycudakit pinned", figures.size(64 * M)

    def seconds(family, elements, by):
        result = results.get((family, elements))
        return result.times[by].median if result and by in result.times else None

    def of_floor(by, family="add"):
        taken = seconds(family, size, by)
        return taken and results[family, size].floor / taken

    def ratio(family, elements, by, others):
        """Return how many times faster than the best of others a contender was, or None."""
        result = results.get((family, elements))
        best = result and result.best(others)
        return result.times[best].over(result.times[by])[0] if best and by in result.times else None

    figures.check("add of 64M: of the floor's speed", of_floor(cuda), 0.80)
    figures.check("add of 64M, pinned: of the floor's speed", of_floor(pinned), 0.92)
    figures.check("add of 64M: to the best GPU library", ratio("add", size, cuda, ON_GPU), 7)
    figures.check("evaluate of 64M: to NumExpr", ratio("evaluate", size, cuda, ["NumExpr"]), 3.5)
    figures.check("add of 1M: to the best GPU library", ratio("add", M, cuda, ON_GPU), 2)
    taken = seconds("add", K, cuda)
    figures.check("add of 1K: time", taken and taken * 1e6, 25, "us", at_most=True)
    figures.check("add of 1K: to the best GPU library", ratio("add", K, cuda, ON_GPU), 1)
    for name, family in peer_families.FAMILIES.items():
        if family.of_floor:
            figures.check(f"{name} of 64M: of the floor's speed", of_floor(cuda, name), family.of_floor)
        best = ratio(name, size, cuda, ON_GPU)
        figures.check(f"{name} of 64M: to the best GPU library", best, family.of_best)


# ---- Measured here ------------------------------------------------------------------------------------


def same_time(figures, _):
    name, size = "evaluate of 64M: to add's time", figures.size(64 * M)
    if figures.wanted(name):
        both = {work: Contender(FAMILIES[work].ours, "cuda") for work in ("add", "evaluate")}
        times = timed(both, lambda: (uniform(size), uniform(size)), figures.options.rounds)
        figures.check(name, times["evaluate"].over(times["add"])[0], 1.05, at_most=True)


def layouts(figures, _):
    size = figures.size(64 * M)
    side = int(size**0.5)
    makers = {
        "strided": lambda: (uniform(2 * size)[::2], uniform(2 * size)[::2]),
        "transposed": lambda: (uniform(side, side), uniform(side, side).T),
    }
    for layout, fresh in makers.items():
        name = f"add of 64M, {layout}: of the floor's speed"
        if figures.wanted(name):
            times = timed({"cuda": Contender(pk.add, "cuda")}, fresh, figures.options.rounds)
            figures.check(name, link_seconds(8 * size, 4 * size) / times["cuda"].median, 0.5)


def several_gpus(figures, _):
    name, size = "add of 512M, pinned: two GPUs to one", figures.size(512 * M)
    if not figures.wanted(name):
        return
    if len(pk.devices()) < 2:
        print(LINE.format(name, "-", ">= 1.8 x", "needs two GPUs"))
        return
    arrays = [pk.pinned_copy(uniform(size)) for _ in "ab"]
    out = pk.empty_pinned(size, np.float32)

    def on(devices):
        def add():
            with pk.engine("cuda", devices=devices):
                pk.add(*arrays, out=out)

        return Contender(add)

    times = timed({"one": on([0]), "two": on([0, 1])}, tuple, figures.options.rounds)
    figures.check(name, times["one"].over(times["two"])[0], 1.8)


def child(code, *arguments, **variables):
    """Run code in a new process, and return its output, as JSON."""
    run = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, **variables}
    done = subprocess.run(run, check=False, env=environment, stdout=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"the process that measures it ended with {done.returncode}")
    return json.loads(done.stdout)


CAPPED = """
import sys
import numpy as np
import pycudakit as pk
from pycudakit._cli.bench import Contender, timed

rng, size = np.random.default_rng(0), int(sys.argv[1])
fresh = lambda: (rng.random(size, np.float32), rng.random(size, np.float32))
times = timed({"cuda": Contender(pk.add, "cuda")}, fresh, int(sys.argv[2]))
print(times["cuda"].median)
"""


def capped(figures, results):
    name, size = "add of 256M, 256 MiB of device memory: to 64M's speed", figures.size(256 * M)
    usual = results.get(("add", figures.size(64 * M)))
    if figures.wanted(name) and usual and "pycudakit cuda" in usual.times:
        budget = f"{figures.size(256)}M"
        seconds = child(CAPPED, size, figures.options.rounds, PYCUDAKIT_DEVICE_MEMORY=budget)
        figures.check(name, 4 * usual.times["pycudakit cuda"].median / seconds, 0.95)


# The driver creates the context first; the time of an ordinary call is subtracted.
FIRST = """
import ctypes, json, sys, time
import numpy as np
import pycudakit as pk

a = np.ones(int(sys.argv[1]), np.float32)
driver, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
begin = time.perf_counter()
assert not driver.cuInit(0)
assert not driver.cuDeviceGet(ctypes.byref(device), 0)
assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
times = [time.perf_counter() - begin]
pk.set_engine("cuda")
for _ in range(4):
    begin = time.perf_counter()
    result = pk.add(a, a)
    times.append(time.perf_counter() - begin)
print(json.dumps([times[0], times[1] - min(times[2:])]))
"""


def first_call(figures, _):
    for text, size in (("1K", K), ("64M", figures.size(64 * M))):
        name = f"first add, of {text}: beside the context and the work"
        if figures.wanted(name):
            runs = [child(FIRST, size) for _ in range(3)]
            figures.check(name, median(extra for _, extra in runs) * 1e3, 100, "ms", at_most=True)
            print(f"  (the context: {median(context for context, _ in runs) * 1e3:.0f} ms)")


def auto(figures, _):
    """Find the size at which `auto` does worst against 1.1 times the best engine plus 5 us."""
    sizes = [size for size in AUTO_SIZES if size <= 10**5 or not figures.options.quick]
    for work in ("add", "evaluate"):
        name = f"auto, {work} of 1 to 1e8: the allowed time to auto's"
        if not figures.wanted(name):
            continue
        engines = [engine for engine, status in pk.engines().items() if status]
        contenders = {engine: Contender(FAMILIES[work].ours, engine) for engine in [*engines, "auto"]}
        worst = float("inf"), 0, ""
        for size in sizes:
            for patience in (1, 6 if size <= 10 * M else 2):  # a size that misses is timed again, for longer
                rounds = patience * figures.options.rounds * (3 if size <= M else 1)
                times = timed(contenders, lambda size=size: (uniform(size), uniform(size)), rounds)
                best = min(engines, key=lambda engine: times[engine].median)
                allowed = Allowance("", best, factor=1.1, extra=5e-6).times(times[best])
                ratio = allowed.over(times["auto"])[0]
                if ratio >= 1:
                    break
            worst = min(worst, (ratio, size, best))
        figures.check(name, worst[0], 1)
        print(f"  (worst at {worst[1]:,}, where {worst[2]} is the best)")


def check(results, options):
    """Print the figures and return them."""
    figures = Figures(options)
    print(LINE.format("figure", "measured", "required", "").rstrip())
    on_gpu = of_races, same_time, layouts, several_gpus, capped, first_call
    for measure in (*on_gpu, auto) if pk.engines()["cuda"] else (auto,):
        try:
            measure(figures, results)
        except (pk.errors.Error, RuntimeError) as error:
            figures.failed(measure.__name__, error)
    return figures.found
