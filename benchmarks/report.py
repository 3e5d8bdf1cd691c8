"""Output of the scripts here, as tables and plots, and shared parts of the experiments."""

import argparse
import time
from pathlib import Path
from statistics import median

import pycudakit as pk

NEEDS = {"cuda": "a GPU", "cpu": "the CPU library"}


def parser(file, description):
    """Make a script's parser, with --quick and --png."""
    stem = Path(file).stem
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and fewer, to try the script")
    parser.add_argument(
        "--png", nargs="?", const=f"{stem}.png", metavar="FILE", help=f"draw a picture ({stem}.png)"
    )
    return parser


def experiment(script, file):
    """Run an experiment with its command line, and print the results or why it cannot run.

    An experiment is a module that has the `ENGINES` on which it can run; `measure(quick)`, which returns its
    results as plain data (a note, the table's titles and rows, and the plot's data); and
    `draw(axis, points)`, which plots them.
    """
    options = parser(file, script.__doc__)
    options.add_argument("--engine", default="cuda", choices=script.ENGINES)
    options = options.parse_args()
    status = pk.engines()[options.engine]
    if not status:
        print(f"This experiment needs {NEEDS[options.engine]}: {' '.join(status.reason.split())}")
        return
    pk.set_engine(options.engine)
    where = pk.devices()[0].name if options.engine == "cuda" else status.reason
    print(f"{script.__doc__.splitlines()[0]}\n{where}\n")
    found = script.measure(options.quick)
    print(found["note"])
    table(found["titles"], found["rows"])
    picture(options.png, lambda axes: script.draw(axes[0], found["points"]))


def wall(call, rounds):
    """Call a function `rounds` times after a warm-up, and return the median wall-clock time."""
    taken = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        result = call()
        taken.append(time.perf_counter() - begin)
        del result
    return median(taken[1:])


def typical(call, rounds, of=lambda report: report.seconds):
    """Call a function `rounds` times after a warm-up, and return the report of the median call."""
    reports = []
    for _ in range(rounds + 1):
        call()
        reports.append(pk.last_call())
    return sorted(reports[1:], key=of)[rounds // 2]


def ms(seconds):
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds * 1e3:,.0f} ms"


def table(titles, rows):
    """Print rows of text under their titles, with the first column left-aligned."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def picture(path, draws, columns=1):
    """Write a plot if a path is given: `draws` is called with a list of that many axes."""
    if path and draw(path, draws, columns):
        print(f"drew {path}")


def draw(file, draws, columns=1):
    """Write a plot to a path, or as SVG to a file; return True if matplotlib is available."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        print(f"{file if isinstance(file, str) else 'a picture'} was not drawn: {error}")
        return False
    figure = Figure(figsize=(6.4 * columns, 4.8), layout="constrained")
    draws(figure.subplots(1, columns, squeeze=False)[0])
    form = file.rpartition(".")[2] if isinstance(file, str) else "svg"
    with rc_context({"svg.hashsalt": "pycudakit", "svg.fonttype": "none"}):  # reproducible bytes
        figure.savefig(file, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    return True
