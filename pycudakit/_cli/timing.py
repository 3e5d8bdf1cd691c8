"""Time things against each other: interleaved, in one process."""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Contender = Callable[[], object]

# Seconds: what a sample takes at least, by several calls if need be, unless that would take another too long.
SHORTEST, LONGEST = 200e-6, 20e-3


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
    for _ in itertools.repeat(None, count - 1):
        call()
    last = call()
    seconds = (time.perf_counter() - begin) / count
    del last  # here, so that giving back a large result is no part of the call
    return seconds


def interleave(
    contenders: Mapping[str, Contender],
    rounds: int = 7,
    warm_up: int = 2,
    before: Callable[[str], object] = lambda _: None,
    new_round: Callable[[], object] = lambda: None,
) -> dict[str, Times]:
    """Time the contenders in turn, round after round, so that a busy moment hits them all.

    Each round has another order, since what ran just before may leave its mark, and begins with a call of the
    quickest that is not counted: to be the first with new arrays is to wait for the system's memory. A sample
    is as many calls of one as of another: the first finds the caches as that left them, those that follow as
    it did itself. The garbage collector is off meanwhile.

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
    new_round
        Called before each round and before the warm-up, unmeasured.

    Examples
    --------
    >>> from pycudakit._cli.timing import interleave
    >>> times = interleave({"list": lambda: list(range(9)), "tuple": lambda: tuple(range(9))})
    >>> sorted(times), len(times["list"].rounds)
    (['list', 'tuple'], 7)
    """
    if not contenders:
        return {}
    names, shuffler = list(contenders), random.Random(0)  # noqa: S311 - nothing is secret
    collecting = gc.isenabled()
    gc.disable()
    try:
        once = {}
        new_round()
        for name in names:
            before(name)
            for _ in range(warm_up):
                contenders[name]()
            once[name] = min(_sample(contenders[name], 1) for _ in range(2))
        quickest = min(names, key=lambda name: once[name])
        count = max(1, int(min(SHORTEST / once[quickest], LONGEST / max(once.values()))))
        taken: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            new_round()
            before(quickest)
            contenders[quickest]()
            shuffler.shuffle(names)
            for name in names:
                before(name)
                taken[name].append(_sample(contenders[name], count))
    finally:
        if collecting:
            gc.enable()
    return {name: Times(tuple(taken[name])) for name in contenders}


def format_seconds(seconds: float) -> str:
    """Return a time with its unit, three digits.

    Examples
    --------
    >>> from pycudakit._cli.timing import format_seconds
    >>> format_seconds(0.00123), format_seconds(4.5e-7)
    ('1.23 ms', '450 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
