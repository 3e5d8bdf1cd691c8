"""Reports of `pycudakit bench`: an HTML page, Markdown, and the comparison of two runs."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pycudakit._native.formatting import format_seconds, html_table

Run = Mapping[str, Any]  # the contents of a file of `pycudakit bench --json`
Lines = dict[str, dict[int, float]]  # of a family: the median seconds, by contender and size

_COLOURS = {"NumPy": "#777777", "auto": "#1b7837", "cpu": "#2166ac", "cuda": "#b2182b", "pinned": "#e08214"}
_WIDTH, _HEIGHT, _MARGIN = 540, 300, 60


def families(run: Run) -> dict[str, Lines]:
    """Return the median times of each family, by contender and size."""
    by_family: dict[str, Lines] = {}
    for row in run["rows"]:
        lines = by_family.setdefault(row["family"], {})
        lines.setdefault(row["by"], {})[row["elements"]] = statistics.median(row["rounds"])
    return by_family


def crossover(lines: Lines, engine: str) -> float | None:
    """Return the size from which an engine is always faster than NumPy; None if there is none.

    Between measured sizes, times are interpolated on the log-log plot.

    Examples
    --------
    >>> from pycudakit._cli.report import crossover
    >>> crossover({"NumPy": {100: 1.0, 10_000: 100.0}, "cpu": {100: 10.0, 10_000: 10.0}}, "cpu")
    1000.0
    """
    sizes = sorted(set(lines["NumPy"]) & set(lines.get(engine, {})))
    gains = [math.log(lines["NumPy"][size] / lines[engine][size]) for size in sizes]
    if not sizes or gains[-1] <= 0:
        return None
    last = next((i for i in reversed(range(len(sizes))) if gains[i] <= 0), None)
    if last is None:
        return float(sizes[0])
    part = -gains[last] / (gains[last + 1] - gains[last])
    return round(float(sizes[last] * (sizes[last + 1] / sizes[last]) ** part), 6)


def _crossovers(lines: Lines) -> Iterator[tuple[str, str]]:
    """Yield each engine with the text of its crossover."""
    for engine in lines:
        if engine != "NumPy":
            size = crossover(lines, engine)
            first = min(lines["NumPy"])
            if size is None:
                yield engine, "never, at these sizes"
            else:
                about = f"{float(f'{size:.1e}'):,.0f}"
                yield engine, f"from {about} elements on" if size > first else "always"


def described(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the lines that describe the machine of a run."""
    machine = run["machine"]
    yield "pycudakit", f"{machine['pycudakit']}, {run['day']}"
    if "processor_share" in run:  # runs of older releases have none
        yield "free processors", f"{min(run['processor_share'], 1.0):.0%} when the run began"
    yield "Python, NumPy", f"{machine['python']}; NumPy {machine['numpy']}"
    yield "processor", run["processor"]
    for name, status in machine["engines"].items():
        yield name, status["reason"]
    for device in machine["devices"]:
        link = device["link"]
        speed = (
            f", link {link['up'] / 1e9:.1f} GB/s up, {link['down'] / 1e9:.1f} down" if "up" in link else ""
        )
        yield f"GPU {device['index']}", device["name"] + speed


_NOTE = (
    "Times are medians of calls on new float32 arrays in every round, transfers included, each engine in "
    "turn. Beyond its crossover, which a dot marks, an engine is faster than NumPy. The floor is the time in "
    "which the GPU's link moves the call's bytes, in the larger direction, and nothing else."
)
_TITLES = ("elements", "by", "time", "against NumPy", "spread", "of the floor")


def _rows(run: Run, family: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a family's table."""
    of_family = [row for row in run["rows"] if row["family"] == family]
    numpys = {row["elements"]: row["rounds"] for row in of_family if row["by"] == "NumPy"}
    for row in of_family:
        seconds = statistics.median(row["rounds"])
        ratio, spread = _over(numpys[row["elements"]], row["rounds"])
        floor = row.get("floor")
        share = f"{floor / seconds:.2f}x" if floor and row["by"] in ("cuda", "pinned") else ""
        yield (
            f"{row['elements']:,}",
            row["by"],
            format_seconds(seconds),
            f"{ratio:.2f}x",
            f"{spread:.0%}",
            share,
        )


def _over(theirs: Sequence[float], mine: Sequence[float]) -> tuple[float, float]:
    """Return the ratio of the medians, theirs over mine, and the relative spread of both."""
    spreads = [_quartiles(rounds) / statistics.median(rounds) for rounds in (theirs, mine)]
    return statistics.median(theirs) / statistics.median(mine), math.hypot(*spreads)


def _quartiles(rounds: Sequence[float]) -> float:
    if len(rounds) < 4:
        return max(rounds) - min(rounds)
    low, _, high = statistics.quantiles(rounds, n=4)
    return high - low


# ---- Markdown ----------------------------------------------------------------------------------------


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(titles)} |"
    yield f"| {' | '.join('---' for _ in titles)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def markdown(run: Run) -> str:
    """Return a run as Markdown."""
    lines = ["# pycudakit bench", "", _NOTE, "", *markdown_table(("machine", ""), described(run))]
    for family, times in families(run).items():
        faster = "; ".join(f"{engine} {words}" for engine, words in _crossovers(times))
        lines += [
            f"## {family}",
            "",
            f"Faster than NumPy: {faster}.",
            "",
            *markdown_table(_TITLES, _rows(run, family)),
        ]
    return "\n".join(lines)


# ---- HTML --------------------------------------------------------------------------------------------

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #222 }
summary { cursor: pointer }
"""


def page(run: Run) -> str:
    """Return a run as one self-contained HTML page."""
    parts = [*opening("pycudakit bench", _NOTE, run)]
    for family, times in families(run).items():
        faster = "; ".join(f"{engine} {words}" for engine, words in _crossovers(times))
        floors = {row["elements"]: row["floor"] for row in run["rows"] if row["family"] == family}
        parts += [
            f"<h2 id='{html.escape(family)}'>{html.escape(family)}</h2>",
            f"<p>Faster than NumPy: {html.escape(faster)}.</p>",
            plot(family, times, floors),
            f"<details><summary>table</summary>{html_table(_TITLES, _rows(run, family))}</details>",
        ]
    return "\n".join(parts) + "\n"


def opening(title: str, note: str, run: Run) -> Iterator[str]:
    """Yield the head of a page: the title, a note, and the machine of a run."""
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title>"
    yield f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style>"
    yield f"<h1>{title}</h1><p>{note}</p>"
    yield html_table(("machine", ""), described(run))


def plot(title: str, lines: Lines, floors: Mapping[int, float | None]) -> str:
    """Return an SVG log-log plot of time against size, with the crossovers marked."""
    floor = {size: seconds for size, seconds in floors.items() if seconds}
    curves = {**lines, **({"floor": floor} if floor else {})}
    sizes = sorted({size for line in curves.values() for size in line})
    times = [seconds for line in curves.values() for seconds in line.values()]
    x_of = _scale(sizes[0], sizes[-1], _MARGIN, _WIDTH - 80)
    y_of = _scale(min(times), max(times), _HEIGHT - _MARGIN, 20)
    drawn = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' role='img' aria-label='{title}'>"]
    for power in _powers(sizes[0], sizes[-1]):
        x = x_of(10.0**power)
        drawn.append(f"<path d='M{x:.1f} 20V{_HEIGHT - _MARGIN}' stroke='#eee'/>")
        drawn.append(f"<text x='{x:.1f}' y='{_HEIGHT - _MARGIN + 16}' text-anchor='middle'>1e{power}</text>")
    for power in _powers(min(times), max(times)):
        y = y_of(10.0**power)
        drawn.append(f"<path d='M{_MARGIN} {y:.1f}H{_WIDTH - 80}' stroke='#eee'/>")
        drawn.append(f"<text x='{_MARGIN - 6}' y='{y + 4:.1f}' text-anchor='end'>{_unit(power)}</text>")
    drawn.append(f"<text x='{_WIDTH / 2 - 20}' y='{_HEIGHT - 10}' text-anchor='middle'>elements</text>")
    ends: list[float] = []
    for name, line in curves.items():
        points = [(x_of(size), y_of(seconds)) for size, seconds in sorted(line.items())]
        colour, dash = _COLOURS.get(name, "#444"), " stroke-dasharray='4 3'" if name == "floor" else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dash}/>")
        y = points[-1][1]
        while any(
            abs(y - other) < 12 for other in ends
        ):  # the label is at the curve's end, but not over another label
            y += 3
        ends.append(y)
        drawn.append(f"<text x='{points[-1][0] + 5:.1f}' y='{y + 4:.1f}' style='fill:{colour}'>{name}</text>")
        size = crossover(lines, name) if name not in ("NumPy", "floor") else None
        if size is not None and size > sizes[0]:
            drawn.append(
                _mark(x_of(size), y_of(_at(lines["NumPy"], size)), colour, f"{name}: {size:,.0f} elements")
            )
    return "".join([*drawn, "</svg>"])


def _mark(x: float, y: float, colour: str, text: str) -> str:
    return (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{colour}'><title>{html.escape(text)}</title></circle>"
    )


def _at(line: Mapping[int, float], size: float) -> float:
    """Interpolate a curve between its points, on the log-log plot."""
    low = max(s for s in line if s <= size)
    high = min((s for s in line if s > size), default=low)
    part = 0.0 if high == low else math.log(size / low) / math.log(high / low)
    return float(line[low] * (line[high] / line[low]) ** part)


def _scale(least: float, most: float, begin: float, end: float) -> Any:
    span = math.log(most / least) or 1.0
    return lambda value: begin + math.log(value / least) / span * (end - begin)


def _powers(least: float, most: float) -> range:
    return range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)


def _unit(power: int) -> str:
    unit = max(u for u in (-9, -6, -3, 0) if u <= power) if power >= -9 else -9
    return f"{10 ** (power - unit)} { {-9: 'ns', -6: 'us', -3: 'ms', 0: 's'}[unit] }"


# ---- Two runs ----------------------------------------------------------------------------------------


def compared(old: Run, new: Run) -> Iterator[str]:
    """Yield a line for each time that both runs have: the speed-up and its spread."""
    if old["processor"] != new["processor"]:
        yield f"The old run was on another machine: {old['processor']}, now {new['processor']}."
    before = {(row["family"], row["elements"], row["by"]): row["rounds"] for row in old["rows"]}
    yield "ratio is how many times as fast it is now; +- is the spread of both runs."
    yield f"{'function':<10} {'elements':>11}  {'by':<7} {'old':>9} {'new':>9}   ratio    +-"
    for row in new["rows"]:
        rounds = before.get((row["family"], row["elements"], row["by"]))
        if rounds is None:
            continue
        ratio, spread = _over(rounds, row["rounds"])
        apart = abs(math.log(ratio)) > math.log1p(max(spread, 0.05))
        word = ("faster" if ratio > 1 else "SLOWER") if apart else ""
        times = " ".join(f"{format_seconds(statistics.median(r)):>9}" for r in (rounds, row["rounds"]))
        first = f"{row['family']:<10} {row['elements']:>11,}  {row['by']:<7}"
        yield f"{first} {times} {ratio:>6.2f}x {spread:>5.0%}  {word}".rstrip()
