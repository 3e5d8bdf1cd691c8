"""The search of the fuzzers of programs: `difference(seed, engine)` for one seed after another."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

Difference = Callable[[int, str], "str | None"]


def search(difference: Difference, seconds: float, seed: int, engine: str = "cpu") -> tuple[int, str | None]:
    """Try programs for some seconds; return how many were tried, and the first that differs."""
    deadline, count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        found = difference(seed + count, engine)
        count += 1
        if found is not None:
            return count, found
    return count, None


def main(difference: Difference, reduced: Callable[[int, str], str] | None = None) -> None:
    """Search as the command line says, and print what differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--all", action="store_true", help="go on after a difference")
    if reduced is not None:
        parser.add_argument("--reduce", action="store_true", help="print a shorter program that differs")
    options = parser.parse_args()
    first = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {first}", flush=True)  # noqa: T201
    end, tried = time.monotonic() + options.seconds, 0
    while time.monotonic() < end:
        some, found = search(difference, end - time.monotonic(), first + tried, options.engine)
        tried += some
        if found:
            if reduced is not None and options.reduce:
                found = reduced(first + tried - 1, options.engine)
            print(found, flush=True)  # noqa: T201
            if not options.all:
                raise SystemExit(1)
    print(f"{tried} programs")  # noqa: T201
