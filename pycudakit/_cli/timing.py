"""Interleaved timing of several contenders in one process."""

from __future__ import annotations

import gc
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Contender = Callable[[], object]

# Seconds: the shortest sample, which may consist of several calls, and the longest sample of any contender.
SHORTEST, LONGEST = 200e-6, 20e-3
LEAST_ROUNDS = 3  # however long they take


@dataclass(frozen=True)
class Times:
    """The seconds of a call in each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.rounds)

    def over(self, other: Times) -> tuple[float, float]:
        """Return the ratio of this time to `other`, round by round: median and relative spread.

        The spread is the interquartile range divided by the median.
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
    del last  # after the measurement, since freeing a large result is not part of the call
    return seconds


def interleave(
    contenders: Mapping[str, Contender],
    rounds: int = 7,
    warm_up: int = 2,
    before: Callable[[str], object] = lambda _: None,
    new_round: Callable[[], object] = lambda: None,
    seconds: float = math.inf,
) -> dict[str, Times]:
    """Time the contenders in turn, round after round, so that other load affects all of them.

    Each round has another order, since the contender before affects caches. It begins with an unmeasured call
    of the quickest contender, since the first access to new arrays waits for page faults. Every sample has
    the same number of calls: the first finds the caches of the contender before, later ones its own. The
    garbage collector is disabled meanwhile.

    Parameters
    ----------
    contenders
        The functions to call, by name.
    rounds
        The number of samples of each.
    warm_up
        The number of unmeasured calls of each at the beginning.
    before
        Called with the contender's name before each sample, unmeasured.
    new_round
        Called before each round and before the warm-up, unmeasured.
    seconds
        The time after which no further round begins, if there are three; contenders that take a tenth of it
        are called once at the beginning.

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
            taken_once = [_sample(contenders[name], 1)]
            if taken_once[0] < seconds / 10:
                taken_once = [_sample(contenders[name], 1) for _ in range(warm_up + 1)]
            once[name] = min(taken_once[-2:])
        quickest = min(names, key=lambda name: once[name])
        count = max(1, int(min(SHORTEST / once[quickest], LONGEST / max(once.values()))))
        taken: dict[str, list[float]] = {name: [] for name in names}
        began = time.perf_counter()
        for done in range(rounds):
            if done >= LEAST_ROUNDS and time.perf_counter() - began > seconds:
                break
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
