"""`pycudakit demo`: calls that pay, each checked against NumPy and timed beside it."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit import errors
from pycudakit._cli import common
from pycudakit._cli.idle_processors import are_processors_idle, processor_count
from pycudakit._cli.progress import Say
from pycudakit._cli.timing import interleave
from pycudakit._native.formatting import format_seconds
from pycudakit._runtime.context import EngineName

COUNT, STARTS = 4_000_000, 50_000
ROUNDS, ATTEMPTS = 5, 3
SHOWN_FROM = 1.05  # of NumPy's speed: a smaller gain is noise

Array = np.ndarray[Any, Any]

COLLATZ = r"""
__global__ void collatz(const long long *start, int *steps, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int taken = 0;
    for (long long n = start[i]; n > 1; ++taken) n = n % 2 ? 3 * n + 1 : n / 2;
    steps[i] = taken;
}
"""


@dataclass(frozen=True)
class Row:
    """A call, by NumPy and by pycudakit; `exact` if the results have the same bits."""

    text: str
    by_numpy: Callable[[], Any]
    by_pycudakit: Callable[[], Any]
    exact: bool = True


def _normal_distribution(x: Any) -> Any:  # a public name would be taken for a function of the library
    """Return the cumulative normal distribution, by formula 26.2.17 of Abramowitz and Stegun."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    polynomial = k * (
        0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
    )
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * polynomial
    return np.where(x < 0, tail, 1 - tail)


def black_scholes(price: Any, strike: Any, years: Any, rate: float = 0.03, volatility: float = 0.2) -> Any:
    """Return the prices of European call options."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    discounted = strike * np.exp(-rate * years)
    return price * _normal_distribution(d1) - discounted * _normal_distribution(d1 - spread)


def collatz_by_numpy(start: Array) -> Array:
    """Return in how many steps each number reaches 1: n / 2 if n is even, else 3 n + 1."""
    n, steps = start.copy(), np.zeros(start.size, np.int32)
    while (going_on := n > 1).any():
        n = np.where(going_on, np.where(n % 2 == 1, 3 * n + 1, n // 2), n)
        steps += going_on
    return steps


def _rows() -> list[Row]:
    rng = np.random.default_rng(0)
    price, strike, years = (
        rng.uniform(80, 120, COUNT),
        rng.uniform(80, 120, COUNT),
        rng.uniform(0.1, 2, COUNT),
    )
    x, i = rng.random(COUNT, np.float32), rng.integers(0, 1000, COUNT, np.int32)
    start = np.arange(1, STARTS + 1)
    fused = pk.fuse(black_scholes)
    kernel = pk.SourceModule(COLLATZ).get_function("collatz")

    def collatz_by_kernel() -> Array:
        steps = np.empty(STARTS, np.int32)
        kernel(pk.In(start), pk.Out(steps), np.int32(STARTS), block=256, grid=-(-STARTS // 256))
        return steps

    return [
        Row(
            "fused Black-Scholes",
            lambda: black_scholes(price, strike, years),
            lambda: fused(price, strike, years),
            exact=False,
        ),
        Row("pk.median(x)", lambda: np.median(x), lambda: pk.median(x)),
        Row("pk.sort(x)", lambda: np.sort(x), lambda: pk.sort(x)),
        Row("pk.argsort(x)", lambda: np.argsort(x, kind="stable"), lambda: pk.argsort(x, kind="stable")),
        Row("pk.unique(i)", lambda: np.unique(i), lambda: pk.unique(i)),
        Row("pk.histogram(x, 100)", lambda: np.histogram(x, 100), lambda: pk.histogram(x, 100)),
        Row("your kernel: collatz(n)", lambda: collatz_by_numpy(start), collatz_by_kernel),
    ]


def _is_right(row: Row) -> bool:
    found, wanted = row.by_pycudakit(), row.by_numpy()
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for mine, numpys in zip(found, wanted, strict=True):
        same_kind = np.shape(mine) == np.shape(numpys) and np.result_type(mine) == np.result_type(numpys)
        if not same_kind or not (
            np.array_equal(mine, numpys) if row.exact else np.allclose(mine, numpys, 1e-12, 1e-12)
        ):
            return False
    return True


def _times(row: Row, engines: list[EngineName]) -> dict[str, float] | None:
    """Return the seconds of a call in NumPy and on each engine, to three digits; None on a busy machine."""

    def on(engine: EngineName) -> Callable[[], Any]:
        def call() -> Any:
            with pk.engine(engine):
                return row.by_pycudakit()

        return call

    contenders = {"numpy": row.by_numpy, **{str(engine): on(engine) for engine in engines}}
    seconds = None
    for _ in range(ATTEMPTS):
        if not are_processors_idle():
            continue
        times = interleave(contenders, ROUNDS, warm_up=3)
        if not are_processors_idle():
            continue
        seconds = {name: float(f"{each.median:.3g}") for name, each in times.items()}
        if seconds["numpy"] / seconds["auto"] >= SHOWN_FROM:
            break
    return seconds


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{float(f'{ratio:.2g}'):.0f}x"


def run(say: Say) -> int:
    """Run the demo; return the exit status."""
    present = common.engines(say)
    if not present:
        return 1
    gpus = [gpu.name for gpu in pk.devices()] if "cuda" in present else []
    engines: list[EngineName] = [*(present if gpus else []), "auto"]
    heads = {"numpy": "NumPy", "auto": "auto" if gpus else "pycudakit"}
    say(f"pycudakit {pk.__version__} and NumPy {np.__version__}: NumPy arrays in, NumPy arrays out.")
    say(f"On {processor_count()} CPU cores ({platform.machine()}) and {gpus[0] if gpus else 'no GPU'}.")
    say("")
    say(f"  x, i      {COUNT:,} float32 and int32; as many options, in float64")
    say(f"  n         1 to {STARTS:,}, whose steps to 1 a CUDA kernel counts")
    say("")
    say(
        f"{'':<25}"
        + "".join(f"{heads.get(name, name):>11}" for name in ["numpy", *engines])
        + f"{'speed-up':>10}"
    )
    wrong, untimed, slow = 0, 0, []
    for row in _rows():
        try:
            if not _is_right(row):
                wrong += 1
                say(f"{row.text:<25}  WRONG: this is not NumPy's result")
                continue
            seconds = _times(row, engines)
        except errors.CompileError as error:
            say(f"{row.text:<25}  needs a compiler: {str(error).partition(chr(10))[0]}"[:79])
            continue
        if seconds is None:
            untimed += 1
            say(f"{row.text:<25}  checked")
            continue
        ratio = seconds["numpy"] / seconds["auto"]
        if ratio < SHOWN_FROM:
            slow.append(row.text)
            continue
        say(
            f"{row.text:<25}"
            + "".join(f"{format_seconds(each):>11}" for each in seconds.values())
            + f"{_ratio(ratio):>10}"
        )
    say("")
    if untimed:
        say("Other programs use the processors, so times would mean little: run it later.")
    if slow:
        say(textwrap.fill(f"As fast in NumPy, on this machine: {', '.join(slow)}.", 79))
    say("Each call ran on the engine that is expected to be fastest, and")
    say("pk.last_call().reason says why. `pycudakit bench` times every family.")
    say("")
    say(f"{wrong} of the checks FAILED" if wrong else "All results were checked: they are NumPy's.")
    return 1 if wrong else 0
