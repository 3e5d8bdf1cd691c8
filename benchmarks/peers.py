"""pycudakit against NumPy, NumExpr, CuPy, PyTorch, JAX and PyCUDA: NumPy arrays in, NumPy arrays out.

Each round has new arrays and runs all contenders in turn. "x floor" is the speed relative to the pinned
link's, "x best" relative to the best other library's. Then come the project's target figures.
"""

import dataclasses
import json
import sys
from contextlib import closing
from pathlib import Path

import figures
import libraries
import peer_families
import report
from harness import link_seconds, machine

import pycudakit as pk
from pycudakit._cli import bench, common
from pycudakit._cli.progress import Progress
from pycudakit._native.formatting import format_seconds

FAMILIES = {name: family for name, family in bench.FAMILIES.items() if name != "multiply"}  # similar to add
LARGE, QUICK_LARGE = 64_000_000, 4_000_000  # the one size of peer_families.py
SIZES, QUICK = "1K,64K,1M,16M,64M", "1K,64K,1M,4M"
PEER_ULPS = 100
RAW_COPY = "raw copy"
RAW_COPY_FROM = 4_000_000  # elements: the time of a shorter copy is that of its launch
LINE = "{:<10} {:>11}  {:<16} {:>9}  {:>7}  {:>7}  {:>5}"


@dataclasses.dataclass(frozen=True)
class Row:
    """The time of one contender for one family at one size."""

    family: str
    elements: int
    by: str
    seconds: float
    x_floor: float | None
    x_best: float
    spread: float


@dataclasses.dataclass(frozen=True)
class Result:
    """One race: the times by contender, and the floor in seconds if there is a link."""

    times: dict
    floor: float | None

    def best(self, names):
        """Return the name of the fastest of these, or None."""
        present = [name for name in names if name in self.times]
        return min(present, key=lambda name: self.times[name].median, default=None)

    def rows(self, family, elements, peers):
        best = self.times[self.best(peers)]
        for by, times in self.times.items():
            x_best, spread = best.over(times)
            x_floor = self.floor / times.median if self.floor else None
            yield Row(family, elements, by, times.median, x_floor, x_best, spread)


def sizes(text):
    return [int(n.rstrip("KM")) * {"K": 1_000, "M": 1_000_000}.get(n[-1], 1) for n in text.split(",")]


def command_line():
    parser = report.parser(__file__, __doc__)
    parser.add_argument(
        "--json", nargs="?", const="peers.json", metavar="FILE", help="write JSON (peers.json)"
    )
    parser.add_argument("--only", default="", help="families and figures whose name contains this")
    parser.add_argument("--sizes", type=sizes, help=f"elements ({SIZES}; {QUICK} when quick)")
    parser.add_argument("--rounds", type=int, help="rounds of each race (9; 3 when quick)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a figure is missed")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 9)
    options.sizes = options.sizes or sizes(QUICK if options.quick else SIZES)
    return options


def race(family, size, peers, rounds):
    """Race on a family; return a Result, and errors by contender."""
    contenders = {f"pycudakit {name}": contender for name, contender in bench.engines_of(family).items()}
    for name, call_of in peers.items():
        contenders[name] = bench.Contender(call_of(family), ulps=PEER_ULPS)
    return timed(bench.race, family, size, contenders, rounds, (4 * size * family.inputs, 4 * size), peers)


def race_large(family, size, peers, rounds):
    """Race on a family of peer_families.py; return the same."""
    contenders, moved = peer_families.contenders(family, peers), (family.up * size, family.down * size)
    return timed(peer_families.race, family, size, contenders, rounds, moved, peers)


def timed(race, family, size, contenders, rounds, moved, peers):
    """Run a race together with a raw copy of the bytes that are moved up and down."""
    floor = None
    if pk.engines()["cuda"]:
        floor = link_seconds(*moved)
        if "CuPy" in peers and size >= RAW_COPY_FROM:
            contenders[RAW_COPY] = bench.Contender(libraries.raw_copy(*moved), ulps=None)
    times, wrong = race(family, size, contenders, rounds)
    if RAW_COPY in times:
        floor = min(floor, times[RAW_COPY].median)
    return Result(times, floor), wrong


def draw(results):
    """Return a function that plots the times of each family over the size, and the number of plots."""
    families = [*dict.fromkeys(name for name, _ in results)]

    def on(axes):
        for ax, name in zip(axes, families, strict=True):
            mine = {size: result for (family, size), result in results.items() if family == name}
            for by in {by: None for result in mine.values() for by in result.times}:
                times = {size: result.times[by].median for size, result in mine.items() if by in result.times}
                ours = by.startswith("pycudakit")
                ax.loglog([*times], [*times.values()], "o-" if ours else ".--", label=by, lw=2 if ours else 1)
            floors = {size: result.floor for size, result in mine.items() if result.floor}
            ax.loglog([*floors], [*floors.values()], "k:", label="the link's floor" if floors else None)
            ax.set(title=name, xlabel="float32 elements", ylabel="seconds a call")
            ax.grid(alpha=0.3)
        axes[0].legend(fontsize="small")

    return on, len(families)


def compare(peers, options):
    """Run the races and print their rows; return Results by family and size, and the wrong contenders."""
    races = [
        (name, family, size, race)
        for name, family in FAMILIES.items()
        if options.only in name
        for size in options.sizes
    ]
    large = QUICK_LARGE if options.quick else LARGE
    for name, family in peer_families.FAMILIES.items():
        if options.only in name and large in options.sizes:
            races.append((name, family, large, race_large))
    results, wrongs = {}, []
    if races:
        print(LINE.format("work", "elements", "by", "time", "x floor", "x best", "+-"))
    with closing(Progress(len(races), print)) as progress:
        for name, family, size, by_race in races:
            progress.step(f"{name} of {size:,}")
            result, wrong = by_race(family, size, peers, options.rounds)
            results[name, size] = result
            for row in result.rows(name, size, peers):
                x_floor = f"{row.x_floor:.2f}x" if row.x_floor else "-"
                cells = (
                    row.by,
                    format_seconds(row.seconds),
                    x_floor,
                    f"{row.x_best:.2f}x",
                    f"{row.spread:.0%}",
                )
                progress.say(LINE.format(name, f"{size:,}", *cells))
            for by, words in wrong.items():
                wrongs.append({"family": name, "elements": size, "by": by, "wrong": words})
                progress.say(LINE.format(name, f"{size:,}", by, "", "", "", words))
    return results, wrongs


def main():
    options = command_line()
    peers, missing = libraries.installed({**libraries.ON_CPU, **libraries.ON_GPU})
    print(machine())
    for name, reason in missing.items():
        print(f"{name} is not here: {reason}")
    link = pk.link_speed() if pk.engines()["cuda"] else None
    if link:
        print("the pinned link: {:.1f} GB/s up, {:.1f} down".format(*(speed / 1e9 for speed in link)))
    print(f'float32 (bincount: uint8); evaluate is "{common.EXPRESSION}"\n')
    results, wrongs = compare(peers, options)
    print()
    found = figures.check(results, options)
    if options.json:
        everything = {
            "machine": machine(),
            "quick": options.quick,
            "link": link,
            "missing": missing,
            "wrong": wrongs,
            "rows": [
                dataclasses.asdict(row)
                for (family, size), result in results.items()
                for row in result.rows(family, size, peers)
            ],
            "figures": [dataclasses.asdict(figure) for figure in found],
        }
        Path(options.json).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {options.json}")
    drawn = {key: result for key, result in results.items() if key[0] in FAMILIES}  # timed at several sizes
    if drawn:
        report.picture(options.png, *draw(drawn))
    short = any(figure.verdict in ("SHORT", "FAILED") for figure in found)
    ours_wrong = any(wrong["by"].startswith("pycudakit") for wrong in wrongs)
    return 1 if ours_wrong or (short and options.strict) else 0


if __name__ == "__main__":
    sys.exit(main())
