"""The result of `Fused.explain`: the passes and graph breaks of a call, as text and as an SVG drawing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from pycudakit.fusing.execute.plan import Place
from pycudakit.fusing.execute.segment import LoweredSegment
from pycudakit.fusing.graph_breaks import Break, public_name


@dataclass(frozen=True)
class PlanPass:
    """A pass: one fused kernel, or one call of another function.

    Attributes
    ----------
    function
        The NumPy names of the computed functions, in order.
    engine
        The engine that ran the pass.
    shape
        The shape of the elements that the pass iterates over.
    reads, writes
        The arrays: arguments by their names, others as ``t1``, ``t2`` and so on.
    seconds
        The time of the pass.
    bytes_up, bytes_down
        The bytes uploaded to the GPU and downloaded from it.
    blocks
        The number of row tiles (blocks of rows) that the pass was split into.
    repeats
        How many times the pass runs, in the plan of a loop.
    """

    function: str
    engine: str
    shape: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    seconds: float | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    blocks: int = 1
    repeats: int = 1

    def __reduce__(self) -> Any:
        """Pickle the fields, under a name that stays when modules move."""
        unpickle = sys.modules["pycudakit"]._unpickle_explained  # noqa: SLF001
        return unpickle, ("PlanPass", *vars(self).values())

    def __str__(self) -> str:
        """Return the pass as one line of text."""
        moved = "".join(
            f", {count / 1e6:,.1f} MB {way}"
            for count, way in ((self.bytes_up, "up"), (self.bytes_down, "down"))
            if count
        )
        wrote, read = ", ".join(self.writes) or "a number", ", ".join(self.reads) or "nothing"
        cut = f", in {self.blocks:,} blocks of rows" if self.blocks > 1 else ""
        cut += f", {self.repeats:,} times" if self.repeats > 1 else ""
        return f"{wrote} <- {self.function} of {read} ({_summary(self)}{moved}{cut})"


def _summary(one: PlanPass) -> str:
    """Return the shape, the engine and the time of a pass."""
    size = " x ".join(map(str, one.shape)) or "a number"
    return f"{size}, {one.engine}" + ("" if one.seconds is None else f", {one.seconds * 1e3:.3g} ms")


@dataclass(frozen=True)
class Explained:
    """The passes and graph breaks of one call: the result of `Fused.explain`.

    Attributes
    ----------
    name, engine
        The function, and its engine; of several engines, the one that took longest.
    passes : tuple of PlanPass
        The passes in order. `str` shows one line for each.
    breaks : tuple of Break
        The graph breaks: lines where the host needed a value.
    bytes_up, bytes_down
        The bytes uploaded to the GPU and downloaded from it.
    device_bytes
        The largest number of bytes that were resident on the GPU at once.
    seconds
        The time of the whole call, including the time that `explain` adds to it. None for a plan.
    rest : dict
        The seconds that were not spent in passes of an engine: "NumPy" and "Python and other libraries".
    risks : tuple of str
        The lines that may reach memory past the trace, and why: pending nodes of memory that other code can
        reach are computed before them.
    """

    name: str
    engine: str
    passes: tuple[PlanPass, ...]
    breaks: tuple[Break, ...]
    bytes_up: int = 0
    bytes_down: int = 0
    device_bytes: int = 0
    seconds: float | None = None
    rest: dict[str, float] = field(default_factory=dict)
    risks: tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        """Pickle the fields, under a name that stays when modules move."""
        unpickle = sys.modules["pycudakit"]._unpickle_explained  # noqa: SLF001
        return unpickle, ("Explained", *vars(self).values())

    def __str__(self) -> str:
        """Return a summary line, and a line for each pass and each break."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        count = sum(one.repeats for one in self.passes)
        moved = f", {self.bytes_up / 1e6:,.1f} MB up, {self.bytes_down / 1e6:,.1f} MB down"
        moved += f", {self.device_bytes / 1e6:,.1f} MB kept on the device"
        moved *= bool(self.bytes_up or self.bytes_down or self.device_bytes)  # nothing without a GPU
        engines = list(dict.fromkeys(one.engine for one in self.passes)) or [self.engine]
        yield f"{self.name}: {count:,} pass{'es' * (count != 1)} on {' and '.join(engines)}{moved}"
        for number, one in enumerate(self.passes, 1):
            yield f"{number:3}. {one}"
        for name, seconds in self.rest.items():
            yield f"     {name}: {seconds * 1e3:.3g} ms"
        if self.seconds is not None:
            yield f"     together: {self.seconds * 1e3:.3g} ms"
        for one_break in self.breaks:
            yield f"  break: {one_break}"
        for risk in self.risks:
            yield f"  computed before {risk}"

    @classmethod
    def of_path(
        cls, path: Sequence[LoweredSegment], names: Sequence[str], breaks: Sequence[Break] = ()
    ) -> Explained:
        """Return the passes and the host calls of the segments of a call; `names` are its arguments'.

        Equal passes of a segment are one, with a count, and so are those of equal segments.
        """
        names_of = _NamesOfArrays(names)
        firsts: dict[Any, tuple[LoweredSegment, list[PlanPass]]] = {}  # of equal segments
        counts: Counter[Any] = Counter()
        for number, segment in enumerate(path):
            call = segment.host_call
            key = segment.plan.key(), "" if call is None else public_name(call.function)
            counts[key] += 1
            if key in firsts:
                names_of.add_equal(firsts[key][0], segment)
            else:
                firsts[key] = segment, list(_passes_of(segment, number, names_of))
        passes = [
            replace(each, repeats=each.repeats * counts[key])
            for key, (_, own) in firsts.items()
            for each in own
        ]
        plan = path[0].plan
        return cls(plan.function, plan.engine, tuple(passes), tuple(breaks))

    def svg(self) -> str:
        """Return an SVG drawing: passes from top to bottom, and arrows for the arrays between them."""
        return _Picture(self).drawn()

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Print the text, for IPython in a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the drawing and the text, for Jupyter."""
        return f"{self.svg()}<pre>{escape(str(self))}</pre>"


class _NamesOfArrays:
    """The names of arrays in a call: those of its arguments, and ``t1``, ``t2`` and so on."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self._others: dict[Any, str] = {}

    def of(self, segment: LoweredSegment, number: int, place: Place) -> str:
        """Return the name of an array of a segment with this number."""
        buffer = place.buffer
        if 0 <= buffer < len(self.arguments):
            return self.arguments[buffer]
        serials = (*segment.live_in, *segment.live_out)
        return self.other((number, place) if buffer < 0 else serials[buffer - len(self.arguments)])

    def add_equal(self, known: LoweredSegment, segment: LoweredSegment) -> None:
        """Give the arrays that a segment makes the names of those of an equal one."""
        for one, other in zip(known.live_out, segment.live_out, strict=True):
            self._others.setdefault(other, self.other(one))

    def other(self, key: Any) -> str:
        """Return the name of an array that is no argument."""
        return self._others.setdefault(key, f"t{len(self._others) + 1}")


def _passes_of(segment: LoweredSegment, number: int, names: _NamesOfArrays) -> Iterator[PlanPass]:
    """Yield the passes of a segment, and its host call."""
    plan, repeats = segment.plan, Counter(segment.plan.order)
    for index in dict.fromkeys(plan.order):
        request = plan.requests[index]
        used: tuple[list[str], list[str]] = [], []
        for row, place in sorted(request.arrays.items()):
            used[row in request.written].append(names.of(segment, number, place))
        reads, writes = (tuple(dict.fromkeys(each)) for each in used)
        yield PlanPass(request.function, plan.engine, request.shape, reads, writes, repeats=repeats[index])
    if (call := segment.host_call) is not None:
        operands = [
            names.arguments[each.argument] if each.argument >= 0 else names.other(each.serial)
            for each in call.array_operands()
        ]
        made = tuple([names.other(serial) for serial in call.results])
        shape = segment.outcome[0][1] if made and segment.outcome else ()
        is_numpys = (getattr(call.function, "__module__", None) or "numpy").partition(".")[0] == "numpy"
        engine = "numpy" if is_numpys else plan.engine
        name = public_name(call.function)
        results = tuple(operands[:1]) if call.writes else made
        yield PlanPass(name, engine, shape, tuple(dict.fromkeys(operands)), results)


_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP = 420, 44, 30, 190, 20


@dataclass
class _Picture:
    """A drawing of passes, in the order in which they run, with the arguments at their left."""

    explained: Explained
    made_by: dict[str, int] = field(default_factory=dict)  # the last pass that wrote each array

    def drawn(self) -> str:
        """Return the SVG document."""
        passes = self.explained.passes
        parts = [part for number, one in enumerate(passes) for part in self._pass(number, one)]
        height = _TOP + max(1, len(passes)) * (_HEIGHT + _GAP)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" '
            'style="background: white" font-family="sans-serif" font-size="12">'
            f"<title>{escape(self.explained.name)}</title>" + "".join(parts) + "</svg>"
        )

    def _pass(self, number: int, one: PlanPass) -> Iterator[str]:
        top = _TOP + number * (_HEIGHT + _GAP)
        yield (
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#eef4fb" '
            f'stroke="#3b6ea5"><title>{escape(str(one))}</title></rect>'
            f'<text x="{_LEFT + 10}" y="{top + 18}">{escape(_short(one.function))}</text>'
            f'<text x="{_LEFT + 10}" y="{top + 35}" fill="#667">{escape(_short(self._below(one)))}</text>'
        )
        arguments = [name for name in one.reads if name not in self.made_by]
        if arguments:
            shown = escape(_short(", ".join(arguments), 24))
            yield (
                f'<text x="{_LEFT - 30}" y="{top + 26}" text-anchor="end">{shown}</text>'
                f'<path d="M{_LEFT - 24},{top + 22} h20" stroke="#667" fill="none"/>'
            )
        from_pass: dict[int, list[str]] = {}
        for name in one.reads:
            if name in self.made_by:
                from_pass.setdefault(self.made_by[name], []).append(name)
        for source, names in from_pass.items():
            yield self._arrow(", ".join(names), source, number)
        self.made_by.update(dict.fromkeys(one.writes, number))

    def _below(self, one: PlanPass) -> str:
        return f"{', '.join(one.writes) or 'a number'} ({_summary(one)})"

    def _arrow(self, names: str, first: int, last: int) -> str:
        from_y = _TOP + first * (_HEIGHT + _GAP) + _HEIGHT
        to_y = _TOP + last * (_HEIGHT + _GAP)
        if last == first + 1:
            x = _LEFT + _WIDTH // 2
            return (
                f'<path d="M{x},{from_y} V{to_y}" stroke="#3b6ea5" fill="none"/>'
                f'<text x="{x + 6}" y="{from_y + 19}" fill="#3b6ea5">{escape(_short(names))}</text>'
            )
        x = _LEFT + _WIDTH
        bend = x + 20 + 8 * min(last - first, 6)
        return (
            f'<path d="M{x},{from_y - 12} C{bend},{from_y} {bend},{to_y} {x},{to_y + 12}" stroke="#3b6ea5" '
            f'fill="none"><title>{escape(names)}</title></path>'
        )


def _short(text: str, most: int = 62) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
