"""`pycudakit demo`: a short tour, each call checked against NumPy and timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._cli import common
from pycudakit._cli.progress import Say
from pycudakit._cli.timing import format_seconds, interleave
from pycudakit._cli.ulp_compare import verdict

SIDE = 2000
ROUNDS = 5

# A description; the call as text; the call, with pycudakit or NumPy as argument; the allowed ulps.
Row = tuple[str, str, Callable[[Any], Any], int]

_LINE = "{:<22} {:<30} {:<13} {:>9} {:>9} {:>8}"


def _rows() -> list[Row]:
    rng = np.random.default_rng(0)
    count = SIDE * SIDE
    a, b = (rng.random(count, np.float32) for _ in "ab")
    m, row = a.reshape(SIDE, SIDE), b[:SIDE]
    i, j = rng.integers(-1000, 1000, count, np.int32), rng.integers(1, 100, count, np.int32)
    mask, c = a < b, np.empty_like(a)

    def evaluate(xp: Any) -> Any:
        if xp is np:
            return common.evaluate_by(np, a, b)
        return pk.evaluate(common.EXPRESSION, {"a": a, "b": b})

    return [
        ("two arrays", "pk.add(a, b)", lambda xp: xp.add(a, b), 0),
        ("a matrix and a row", "pk.multiply(m, row)", lambda xp: xp.multiply(m, row), 0),
        ("a transposed matrix", "pk.add(m, m.T)", lambda xp: xp.add(m, m.T), 0),
        ("every second, reversed", "pk.sqrt(a[::-2])", lambda xp: xp.sqrt(a[::-2]), 0),
        ("exponential", "pk.exp(a)", lambda xp: xp.exp(a), common.ULPS),
        ("hyperbolic tangent", "pk.tanh(a)", lambda xp: xp.tanh(a), common.ULPS),
        ("integers", "pk.floor_divide(i, j)", lambda xp: xp.floor_divide(i, j), 0),
        ("a choice", "pk.where(mask, a, b)", lambda xp: xp.where(mask, a, b), 0),
        ("limits", "pk.clip(a, 0.25, 0.75)", lambda xp: xp.clip(a, 0.25, 0.75), 0),
        ("into an array", "pk.subtract(a, b, out=c)", lambda xp: xp.subtract(a, b, out=c), 0),
        ("a whole expression", "pk.evaluate(expression)", evaluate, common.ULPS),
    ]


def _tour(engine: str, rows: list[Row], say: Say) -> int:
    where = pk.devices()[0].name if engine == "cuda" else pk.engines()[engine].reason
    say(f"Engine {engine} ({where})")
    say(_LINE.format("what", "call", "check", engine, "NumPy", "speed-up").rstrip())
    failures = 0
    for description, text, call, ulps in rows:
        with pk.engine(engine):
            mine = np.array(call(pk))
            right, words = verdict(mine, call(np), ulps)
            failures += not right
            times = interleave({"ours": lambda c=call: c(pk), "NumPy": lambda c=call: c(np)}, ROUNDS, 1)  # type: ignore[misc]
        ratio, _ = times["NumPy"].over(times["ours"])
        ours, numpys = (format_seconds(times[name].median) for name in ("ours", "NumPy"))
        say(_LINE.format(description, text, words, ours, numpys, f"{ratio:.1f}x"))
    say("")
    return failures


def run(say: Say) -> int:
    """Run the demo; return the exit status."""
    present = common.engines(say)
    if not present:
        return 1
    rows = _rows()
    say(f"pycudakit {pk.__version__}: NumPy arrays in, NumPy arrays out.")
    say("NumPy has each call below, too: results are checked against NumPy's, and both are timed.")
    common.warn_if_busy(say)
    say("")
    say(f"  a, b, c     {SIDE * SIDE:,} float32       i, j     {SIDE * SIDE:,} int32")
    say(f"  m           a as {SIDE} x {SIDE}          row      the first {SIDE} of b       mask     a < b")
    say(f'  expression  "{common.EXPRESSION}"')
    say("")
    failures = sum(_tour(engine, rows, say) for engine in present)
    say('With the engine "auto", the default, each call runs where it is expected to be fastest:')
    with pk.engine("auto"):
        for count in (10, SIDE * SIDE):
            pk.exp(np.zeros(count, np.float32))
            call = pk.last_call()
            if call is not None:
                say(f"  pk.exp of {count:>9,} float32   {call.engine:<6} {call.reason.partition(';')[0]}")
    say("")
    say(f"{failures} of the checks FAILED" if failures else "All checks passed.")
    return 1 if failures else 0
