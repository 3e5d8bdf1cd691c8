"""What scripts here print and draw, and what the experiments have in common."""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import pycudakit as pk


def parser(file, description):
    """Return a script's parser, which knows --quick and --png."""
    stem = Path(file).stem
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and fewer, to try the script")
    parser.add_argument(
        "--png", nargs="?", const=f"{stem}.png", metavar="FILE", help=f"draw a picture ({stem}.png)"
    )
    return parser


def experiment(file, description):
    """Read an experiment's command line, and set the engine cuda; where there is none, say so and exit."""
    options = parser(file, description).parse_args()
    cuda = pk.engines()["cuda"]
    if not cuda:
        print(f"This experiment needs a GPU: {' '.join(cuda.reason.split())}")
        sys.exit(0)
    pk.set_engine("cuda")
    print(f"{description.splitlines()[0]}\n{pk.devices()[0].name}\n")
    return options


def wall(call, rounds):
    """Call so many times, after once, and return the median time by the clock."""
    taken = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        result = call()
        taken.append(time.perf_counter() - begin)
        del result
    return median(taken[1:])


def typical(call, rounds, of=lambda report: report.seconds):
    """Call so many times, after once, and return the report of the median call."""
    reports = []
    for _ in range(rounds + 1):
        call()
        reports.append(pk.last_call())
    return sorted(reports[1:], key=of)[rounds // 2]


def ms(seconds):
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds * 1e3:,.0f} ms"


def table(titles, rows):
    """Print rows of text under their titles, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def picture(path, draw, columns=1):
    """Write a picture, if a path is given: `draw` is called with a list of as many axes."""
    if not path:
        return
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        print(f"{path} was not drawn: {error}")
        return
    figure = Figure(figsize=(6.4 * columns, 4.8), layout="constrained")
    draw(figure.subplots(1, columns, squeeze=False)[0])
    figure.savefig(path, dpi=120)
    print(f"drew {path}")
