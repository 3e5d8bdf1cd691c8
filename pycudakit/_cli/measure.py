"""Time things against each other: interleaved, in one process."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Contender = Callable[[], object]

SAMPLE = 200e-6  # a sample shorter than this is several calls


@dataclass(frozen=True)
class Times:
    """The seconds that a call took, round by round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.rounds)

    def over(self, other: Times) -> tuple[float, float]:
        """Return how many times as long as `other` this took, round by round: median and spread.

        The spread is the distance between the quartiles, as a part of the median.
        """
        ratios = [mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True)]
        middle = statistics.median(ratios)
        if len(ratios) < 4:
            return middle, (max(ratios) - min(ratios)) / middle
        low, _, high = statistics.quantiles(ratios, n=4)
        return middle, (high - low) / middle


def _sample(call: Contender, count: int) -> float:
    begin = time.perf_counter()
    for _ in itertools.repeat(None, count):
        call()
    return (time.perf_counter() - begin) / count


def interleave(
    contenders: Mapping[str, Contender],
    rounds: int = 7,
    warm_up: int = 2,
    before: Callable[[str], object] = lambda _: None,
) -> dict[str, Times]:
    """Time the contenders in turn, round after round, so that a busy moment hits them all.

    Each round starts with the next contender. The garbage collector is off meanwhile.

    Parameters
    ----------
    contenders
        What to call, by name.
    rounds
        How many samples to take of each.
    warm_up
        How many calls of each come first, unmeasured.
    before
        Called with the contender's name before each sample, unmeasured.

    Examples
    --------
    >>> from pycudakit._cli.measure import interleave
    >>> times = interleave({"list": lambda: list(range(9)), "tuple": lambda: tuple(range(9))})
    >>> sorted(times), len(times["list"].rounds)
    (['list', 'tuple'], 7)
    """
    names = list(contenders)
    collecting = gc.isenabled()
    gc.disable()
    try:
        counts = {}
        for name in names:
            before(name)
            for _ in range(warm_up):
                contenders[name]()
            once = min(_sample(contenders[name], 1) for _ in range(2))
            counts[name] = max(1, int(SAMPLE / once))
        taken: dict[str, list[float]] = {name: [] for name in names}
        for start in range(rounds):
            for offset in range(len(names)):
                name = names[(start + offset) % len(names)]
                before(name)
                taken[name].append(_sample(contenders[name], counts[name]))
    finally:
        if collecting:
            gc.enable()
    return {name: Times(tuple(seconds)) for name, seconds in taken.items()}


def in_words(seconds: float) -> str:
    """Return a time with its unit, three digits.

    Examples
    --------
    >>> from pycudakit._cli.measure import in_words
    >>> in_words(0.00123), in_words(4.5e-7)
    ('1.23 ms', '450 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
