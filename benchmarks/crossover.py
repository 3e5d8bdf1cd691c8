"""From which size on a call pays on a GPU, family by family: the plots of docs/which-calls-pay.md.

    python benchmarks/crossover.py docs/pays

Curves are the cost model's, by which `auto` decides: rates that `calibrate.py` and others measured on one
core, times of calls, and the link of the machine of docs/measured.md, 16 threads and 53 GB/s each way.
Dots are times that were measured there, read from that page. The table is printed. Needs matplotlib.
"""

import os
import re
import sys
from pathlib import Path

THREADS, BYTES_A_SECOND = 16, 53e9
os.environ["PYCUDAKIT_THREADS"] = str(THREADS)  # before the library starts them

import matplotlib as mpl
import numpy as np

import pycudakit as pk
from pycudakit._calls import cost, plan
from pycudakit._library import machine, present
from pycudakit._programs import estimate

mpl.use("agg")
mpl.rcParams["svg.hashsalt"] = "pycudakit"  # the same bytes each time
import matplotlib.pyplot as plt

SIZES = [round(10 ** (power / 8)) for power in range(24, 69)]  # 1e3 to 3e8
PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured.md"
EXPRESSION = "where(x > 0.5, sqrt(x*x + 1) * exp(-x), log1p(x) / (1 + x))"

# A family's calls, of float32: what is asked, and the words of its measured row, if there is one.
FAMILIES = {
    "elementwise": [
        ("add", lambda x: pk.add(x, x), "add"),
        ("exp", pk.exp, None),
        ("sin, float64", lambda x: pk.sin(np.empty(x.size)), None),
        ("less", lambda x: pk.less(x, x), None),
    ],
    "expression": [
        ("a long expression", lambda x: pk.evaluate(EXPRESSION, {"x": x}), None),
        ("a*b + c", lambda x: pk.evaluate("x*x + x", {"x": x}), None),
    ],
    "reduce": [
        ("sum", pk.sum, "sum"),
        ("std", pk.std, None),
        ("argmax", pk.argmax, None),
    ],
    "scan": [("cumsum", pk.cumsum, "cumsum"), ("diff", pk.diff, None)],
    "sort": [
        ("sort", pk.sort, "sort"),
        ("argsort", pk.argsort, "argsort"),
        ("unique", pk.unique, "unique"),
    ],
    "histogram": [
        ("histogram, 100 bins", lambda x: pk.histogram(x, 100, (0, 1)), "histogram, 100 bins"),
    ],
    "select": [("median", pk.median, None)],
    "matmul": [("product of square matrices", None, None)],
    "interp": [("interp, 1,000 points", lambda x: pk.interp(x, np.arange(1000.0), np.ones(1000)), None)],
    "random": [
        (
            "random",
            lambda x: pk.random.default_rng(1).random(x.size, np.float32),
            "random float32, 64,000,000",
        ),
        ("standard_normal", lambda x: pk.random.default_rng(1).standard_normal(x.size, np.float32), None),
    ],
    "image": [
        ("gaussian_blur(3)", lambda x: pk.image.gaussian_blur(_square(x), 3), None),
        ("box_blur, 3 x 3", lambda x: pk.image.box_blur(_square(x), 3), None),
        ("median_filter, 3 x 3", lambda x: pk.image.median_filter(_square(x), 3), None),
    ],
    "take": [("take", lambda x: pk.take(x, np.zeros(x.size, np.int64)), None)],
}
COLOURS = {"NumPy": "#888888", "cpu": "#1f77b4", "cuda": "#2ca02c"}


class Costed(Exception):
    """Ends a call when its cost is known: seconds by engine."""


def _square(x):
    side = int(x.size**0.5)
    return x[: side * side].reshape(side, side)


def _of_call(function, guess):
    on_gpu = cost.cuda_seconds(guess.up, guess.down) + guess.gpu
    raise Costed({"NumPy": guess.numpy, "cpu": guess.cpu, "cuda": on_gpu})


def _of_program(function, program, size, up):
    known, down = estimate.estimate(program), size * program.out_bytes
    calls = len({(name, call) for name, _, call in program.work}) * estimate.NUMPY_CALL
    times = {
        "NumPy": calls + size * known.numpy if program.numpy_agrees or len(program.work) == 1 else None,
        "cpu": estimate.cpu_seconds(program, size, up + down),
        "cuda": cost.cuda_seconds(up, down),
    }
    raise Costed(times)


def costs(call, size):
    """Return what the model makes of a call of arrays that are never touched; None where it is not asked."""
    if call is None:
        side = int(size**0.5)
        x = np.empty((side, side), np.float32)
        call, arguments = pk.matmul, (x, x)
    else:
        arguments = (np.empty(size, np.float32),)
    try:
        with pk.engine("auto"):
            call(*arguments)
    except Costed as found:
        return found.args[0]
    return None  # the CPU engine took it at once


def on_another_machine():
    """Have the model think of the machine with the GPU, and end each call when it has a cost."""
    machine.link_speed = lambda device=0: machine.Link(BYTES_A_SECOND, BYTES_A_SECOND)
    machine.link_is_known = lambda: True
    found = present.status
    present.status = lambda name: present.EngineStatus(True, "1 device") if name == "cuda" else found(name)
    plan._choose, estimate.choose = _of_call, _of_program


def crossover(curve):
    """Return the first size from which on the GPU comes first, or None."""
    ahead = [
        row is not None and all(row[by] is None or row["cuda"] < row[by] for by in ("NumPy", "cpu"))
        for row in curve
    ]
    if not ahead[-1]:
        return None
    return next(SIZES[i] for i in range(len(SIZES)) if all(ahead[i:]))


def leaves_numpy(curve):
    """Return the first size from which on NumPy is not first, where the model is asked, or None."""
    known = [(size, row) for size, row in zip(SIZES, curve, strict=True) if row]
    behind = [row["NumPy"] is None or row["NumPy"] > min(row["cpu"], row["cuda"]) for _, row in known]
    if all(behind):
        return SIZES[0]
    return next((known[i][0] for i in range(len(known)) if all(behind[i:])), None)


def measured():
    """Return the measured rows of 64M elements: milliseconds on `cuda`, and on `cpu` where there are."""
    text = PAGE.read_text(encoding="utf-8")
    found = {}
    for work, cuda, cpu in re.findall(
        r"^(\S.*?) {2,}([\d.]+) +([\d.]+) +[\d.]+ +\S+ +[\d.]+$", text, re.MULTILINE
    ):
        found[work] = {"cuda": float(cuda), "cpu": float(cpu)}
    for work, cuda in re.findall(r"^(random\S* .*?) {2,}([\d.]+) +[\d.]+ +- +[\d.]+$", text, re.MULTILINE):
        found[work] = {"cuda": float(cuda)}
    found["add"] = {
        by: float(ms)
        for by, ms in re.findall(r"^add +64,000,000 +pycudakit (cpu|cuda) +([\d.]+) ms", text, re.MULTILINE)
    }
    return found


def draw(family, calls, rows, folder):
    """Draw a family's calls side by side, and return its lines of the table."""
    figure, axes = plt.subplots(
        1, len(calls), figsize=(3.6 * len(calls), 3.1), layout="constrained", squeeze=False
    )
    lines = []
    for axis, (name, call, row) in zip(axes[0], calls, strict=True):
        curve = [costs(call, size) for size in SIZES]
        for engine, colour in COLOURS.items():
            known = [
                (size, at[engine] * 1e3) for size, at in zip(SIZES, curve, strict=True) if at and at[engine]
            ]
            if known:
                axis.plot(*zip(*known, strict=True), color=colour, label=f"{engine}, modelled")
        for engine, time in rows.get(row, {}).items():
            axis.plot(64e6, time, "o", color=COLOURS[engine], label=f"{engine}, measured")
        where = crossover(curve)
        if where:
            axis.axvline(where, color="#2ca02c", linestyle=":", linewidth=1)
        axis.set(xscale="log", yscale="log", title=name, xlabel="elements", ylabel="ms")
        axis.grid(alpha=0.3)
        lines.append(f"| {family} | `{name}` | {_about(leaves_numpy(curve))} | {_about(where)} |")
    axes[0][0].legend(fontsize=7)
    path = folder / f"{family}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return lines


def _about(size):
    if size is None:
        return "never"
    if size <= SIZES[0]:
        return "always"
    digits = 10 ** (len(str(size)) - 1)
    return f"{round(size / digits) * digits:,}"


def draw_contenders(folder):
    """Draw the measured times of one expression by everybody: the README's plot."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^evaluate +64,000,000 +(.+?) {2,}([\d.]+) ms", text, re.MULTILINE)
    rows = sorted(((name, float(ms)) for name, ms in rows if name != "raw copy"), key=lambda row: -row[1])
    floor = float(re.search(r"^evaluate +64,000,000 +raw copy +([\d.]+) ms", text, re.MULTILINE)[1])
    figure, axis = plt.subplots(figsize=(7.5, 2.9), layout="constrained")
    colours = ["#2ca02c" if name.startswith("pycudakit") else "#b0b0b0" for name, _ in rows]
    bars = axis.barh([name for name, _ in rows], [ms for _, ms in rows], color=colours)
    axis.bar_label(bars, fmt="%.3g ms", padding=3, fontsize=8)
    axis.axvline(floor, color="black", linestyle=":", linewidth=1)
    axis.set(xlabel="ms, measured on one H200 and 16 cores (dotted: the link alone)", xlim=(0, 800))
    axis.set_title("An expression of 64,000,000 float32, NumPy arrays in and out", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "readme.svg", metadata={"Date": None})


def main():
    """Draw all, and print the table."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw_contenders(folder)
    rows = measured()
    on_another_machine()
    print("| family | call | NumPy is left from | the GPU from |")
    print("| --- | --- | --- | --- |")
    for family, calls in FAMILIES.items():
        print("\n".join(draw(family, calls, rows, folder)))


if __name__ == "__main__":
    main()
