"""Plots of crossover.py, and the generated part of docs/which-calls-pay.md."""

import math
import re
from pathlib import Path
from statistics import median

import crossover_model
import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("agg")
mpl.rcParams["svg.hashsalt"] = "pycudakit"  # reproducible bytes

DOCS = Path(__file__).resolve().parents[1] / "docs"
TIMES, PAGE = DOCS / "measured.md", DOCS / "which-calls-pay.md"
FUSED_TIMES = DOCS / "fusing_measurements.md"
BEGIN, END = "<!-- Written by benchmarks/crossover.py. -->\n", "<!-- Up to here. -->\n"
PLOTS_IN_A_ROW = 2
COLOURS = {"NumPy": "#888888", "cpu": "#1f77b4", "cuda": "#2ca02c"}
TITLES = {
    "elementwise": "Elementwise functions",
    "expression": "Expressions",
    "reduce": "Reductions",
    "scan": "Running sums",
    "sort": "Sorting",
    "histogram": "Histograms",
    "select": "Medians",
    "matmul": "Products of matrices",
    "interp": "Interpolation",
    "take": "Chosen elements",
    "random": "Random numbers",
    "image": "Filters of images",
    "fusing": "Fused functions",
}


def draw(folder, run, families):
    """Draw a run's plots, or the model's if there is no run, and write the generated part of the page."""
    _draw_contenders(folder)
    curves = _measured(run) if run else crossover_model.curves(families)
    dots = {} if run else _measured_dots()
    table = ["| family | call | faster than NumPy from | GPU is fastest from |", "| --- | --- | --- | --- |"]
    for family, calls in curves.items():
        known = {name: dots.get(families[family][name].row, {}) for name in calls}
        _draw(family, calls, known, not run, folder)
        table += [_row(family, name, lines) for name, lines in calls.items()]
    print("\n".join(table))
    if folder.resolve() == DOCS / "pays":
        _write_page(table, curves, run)


def _measured(run):
    curves = {}
    for row in run["rows"]:
        lines = curves.setdefault(row["family"], {}).setdefault(row["call"], {})
        lines.setdefault(row["by"], {})[row["elements"]] = median(row["rounds"])
    return curves


def _measured_dots():
    """Return the rows of docs/measured.md for 64M elements: seconds by engine."""
    text = TIMES.read_text(encoding="utf-8")
    found = {}
    for work, cuda, cpu in re.findall(
        r"^(\S.*?) {2,}([\d.]+) +([\d.]+) +[\d.]+ +\S+ +[\d.]+$", text, re.MULTILINE
    ):
        found[work] = {"cuda": float(cuda) / 1e3, "cpu": float(cpu) / 1e3}
    for work, cuda in re.findall(r"^(random\S* .*?) {2,}([\d.]+) +[\d.]+ +- +[\d.]+$", text, re.MULTILINE):
        found[work] = {"cuda": float(cuda) / 1e3}
    found["add"] = {
        by: float(ms) / 1e3
        for by, ms in re.findall(r"^add +64,000,000 +pycudakit (cpu|cuda) +([\d.]+) ms", text, re.MULTILINE)
    }
    return found


# ---- Where curves cross -------------------------------------------------------------------------------


def first_for_good(lines, engine):
    """Return the size from which on an engine is fastest, or None; an engine without a time is slowest.

    Between two sizes, times are interpolated as a power of the size.
    """
    return _crossing(lines, [engine], [by for by in lines if by != engine])


def left_for_good(lines, engine):
    """Return the size from which on an engine is never the fastest, or None."""
    return _crossing(lines, [by for by in lines if by != engine], [engine])


def _crossing(lines, ours, theirs):
    sizes = sorted({size for times in lines.values() for size in times})
    gains = []
    for size in sizes:
        mine, other = (
            min((lines[by].get(size, math.inf) for by in names if by in lines), default=math.inf)
            for names in (ours, theirs)
        )
        gains.append(-math.inf if mine == math.inf else math.log(other / mine))
    behind = [i for i, gain in enumerate(gains) if gain <= 0]
    if not behind:
        return sizes[0]
    last = behind[-1]
    if last == len(sizes) - 1:
        return None
    before, after = gains[last : last + 2]
    part = -before / (after - before) if math.isfinite(before) and math.isfinite(after) else 1
    return sizes[last] * (sizes[last + 1] / sizes[last]) ** part


def format_size(size, smallest):
    """Format a size with one digit, or state that there is none."""
    if size is None:
        return "never"
    if size <= smallest:
        return "always"
    digits = 10 ** (len(str(round(size))) - 1)
    return f"{round(size / digits) * digits:,}"


def _row(family, name, lines):
    smallest = min(size for times in lines.values() for size in times)
    left = format_size(left_for_good(lines, "NumPy"), smallest) if "NumPy" in lines else "always"
    first = format_size(first_for_good(lines, "cuda"), smallest) if "cuda" in lines else "not measured"
    return f"| {family} | `{name}` | {left} | {first} |"


# ---- Pictures -----------------------------------------------------------------------------------------


def _draw(family, calls, dots, modelled, folder):
    """Draw a family's calls, two in a row, so that the plots of all families have one size."""
    rows = math.ceil(len(calls) / PLOTS_IN_A_ROW)
    height = 3.1 * rows
    figure, axes = plt.subplots(rows, PLOTS_IN_A_ROW, figsize=(3.6 * PLOTS_IN_A_ROW, height))
    figure.subplots_adjust(0.09, 0.55 / height, 0.985, 1 - 0.35 / height, wspace=0.24, hspace=0.409)
    for axis in axes.flat[len(calls) :]:
        axis.set_visible(False)
    for axis, (name, lines) in zip(axes.flat, calls.items(), strict=False):
        for engine, colour in COLOURS.items():
            times = sorted(lines.get(engine, {}).items())
            if times:
                sizes, seconds = zip(*times, strict=True)
                style = "-" if modelled else ".-"
                label = f"{engine}, modelled" if modelled else engine
                axis.plot(sizes, [each * 1e3 for each in seconds], style, color=colour, label=label)
        for engine, seconds in dots[name].items():
            axis.plot(64e6, seconds * 1e3, "o", color=COLOURS[engine], label=f"{engine}, measured")
        where = first_for_good(lines, "cuda") if "cuda" in lines else None
        if where:
            axis.axvline(where, color=COLOURS["cuda"], linestyle=":", linewidth=1)
        axis.set(xscale="log", yscale="log", title=name, xlabel="elements", ylabel="ms")
        axis.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=9)
    figure.savefig(folder / f"{family}.svg", metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def _draw_contenders(folder):
    """Draw the measured times of Black-Scholes prices by each library: the README's plot."""
    text = FUSED_TIMES.read_text(encoding="utf-8")
    header = re.search(r"^\| function \|(.+)\|$", text, re.MULTILINE)[1]
    row = re.search(r"^\| Black-Scholes, 32M options \|(.+)\|$", text, re.MULTILINE)[1]
    names = [name.strip(" `") for name in header.split("|")]
    times = dict(zip(names, [float(cell) for cell in row.split("|")], strict=True))
    labels = {
        "cpu": "pycudakit, 16 cores",
        "cuda": "pycudakit, H200",
        "torch.compile": "torch.compile, 16 cores",
    }
    labels |= {"CuPy": "CuPy, H200", "JAX": "JAX", "NumPy": "NumPy, 1 core"}
    rows = sorted(times.items(), key=lambda row: -row[1])
    figure, axis = plt.subplots(figsize=(8, 3.1), layout="constrained", dpi=160)
    colours = ["#2ca02c" if name in ("cpu", "cuda") else "#9a9a9a" for name, _ in rows]
    bars = axis.barh([labels[name] for name, _ in rows], [ms for _, ms in rows], color=colours)
    axis.bar_label(bars, fmt="{:,.0f} ms", padding=3)
    axis.set(xlabel="milliseconds, logarithmic; shorter is faster", xscale="log", xlim=(5, 5000))
    axis.set_title(
        "Black-Scholes prices of 32 million options, float32, NumPy arrays in and out", fontsize=11
    )
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "readme.png", metadata={"Software": None}, facecolor="white")
    plt.close(figure)


# ---- The page -----------------------------------------------------------------------------------------

MODELLED = """\
Array sizes for float32 on a machine with one H200 on PCIe 5 and 16 cores. **These sizes are modelled,
not timed**: the curves of the cost model of `auto` cross there. It has rates measured on one core
(`benchmarks/calibrate.py`), measured times of calls, and the measured speed of the link. Your machine
will differ.

{table}

"always" in the column "faster than NumPy from" includes functions that `auto` never gives to NumPy.
*never* means up to {largest} elements.

## The curves

Lines are modelled; dots are measured, of [64,000,000 elements on that machine](measured.md). The dotted
line marks the size from which the GPU is fastest. `python benchmarks/crossover.py docs/pays` draws
them.
"""
MEASURED = """\
Array sizes for float32 (if the table names no other dtype), ordinary arrays in, new arrays out. Measured
on {day}: {machine}. Each time is the median of {fewest} to {most}. Your machine will differ.

{table}

Crossovers are interpolated on the log-log plot. "always" means from {smallest} elements on, also where
NumPy has no such function; *never* means up to {largest}. `standardise` and `haversine` are [fused
functions](fusing.md).

## The curves

The dotted line marks the size from which the GPU is fastest. Slow calls were not timed for large
arrays, so their curves end early. `python benchmarks/crossover.py --measure run.json` times everything
on a machine with a GPU, and `--from run.json docs/pays` draws it.
"""


def _write_page(table, curves, run):
    sizes = [
        size
        for calls in curves.values()
        for lines in calls.values()
        for times in lines.values()
        for size in times
    ]
    said = {
        "table": "\n".join(table),
        "smallest": f"{min(sizes):,}",
        "largest": format_size(max(sizes), 0),
    }
    if run:
        rounds = [len(row["rounds"]) for row in run["rows"]]
        said |= {"day": run["day"], "machine": _machine(run), "fewest": min(rounds), "most": max(rounds)}
    pictures = "\n\n".join(f"![{TITLES[family]}: time against size](pays/{family}.svg)" for family in curves)
    made = f"{(MEASURED if run else MODELLED).format(**said)}\n{pictures}\n"
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _machine(run):
    """Describe a run's machine."""
    parts = [
        f"{name} ({link['up'] / 1e9:.0f} GB/s up, {link['down'] / 1e9:.0f} down)"
        for name, link in zip(run["devices"], run["links"], strict=True)
    ]
    parts += [run["processor"], run["cpu"], f"NumPy {run['numpy']}, pycudakit {run['pycudakit']}"]
    return "; ".join(parts)
