"""Calls that take about a given time on any machine."""

import os
import time

import numpy as np

import pycudakit as pk
from pycudakit._runtime import cost_model

MOST_ELEMENTS, MOST_TERMS = 100_000_000, 64


def _expression(terms):
    """Return a sum of terms, each of them sixty sines of sines."""

    def term(number):
        text = "a"
        for _ in range(60):
            text = f"sin({text} + {number})"
        return text

    return " + ".join(term(number) for number in range(1, terms + 1))


def _seconds(call):
    """Return the seconds of a call; on the CPU engine, at most its CPU time per thread."""
    began, used = time.perf_counter(), time.process_time()
    call()
    taken, used = time.perf_counter() - began, time.process_time() - used
    if pk.last_call().engine != "cpu":
        return taken
    return min(taken, used / min(cost_model.threads(), os.cpu_count()))


def long_call(seconds):
    """Return a call that takes at least about this many seconds on the current engine."""
    size, terms = 30_000, 1

    def call():
        return pk.evaluate(text, {"a": a})

    a, text = np.linspace(0, 1, size), _expression(terms)
    call()  # the first call starts the engine
    while True:
        a, text = np.linspace(0, 1, size), _expression(terms)
        taken = _seconds(call)
        if pk.last_call().engine != "cpu":  # the GPU may be busy for a moment
            again = 3 if taken < 0.1 * seconds else int(taken > seconds)
            taken = min([taken, *(_seconds(call) for _ in range(again))])
        if taken > seconds or (size, terms) == (MOST_ELEMENTS, MOST_TERMS):
            return call
        # The time of a small call does not predict that of a large one.
        longer = min(1.2 * seconds / taken, 10)
        wanted, size = size * longer, min(MOST_ELEMENTS, int(size * longer))
        terms = min(MOST_TERMS, max(terms, int(terms * wanted / size)))
