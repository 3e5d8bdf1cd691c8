"""Whole functions by NumPy, by pk.fuse on each engine, and by other libraries where they are installed.

The contenders race as in racing.py. Then come the target figures on a GPU, at --scale 1: most are fractions
of the floor, the time that the link needs to upload the arguments or to download the results.
"""

import dataclasses
import importlib.util
import math
import sys
import types
from collections.abc import Callable

import figures
import numpy as np
from harness import link_seconds
from racing import Races, Seed, Task, parser, wanted

import pycudakit as pk
from pycudakit._native.formatting import format_seconds

M = 1_000_000


# ---- The functions ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Whole:
    """A function, its arguments, and its target figures.

    Parameters
    ----------
    function
        Takes NumPy from the module's global `np`.
    make
        Makes its arguments from a generator and the scale.
    of_floor, most_ms, most_of_memory
        The minimal fraction of the floor's speed; the maximal ms; the maximal multiple of the time to read
        and write its array once per step in an H200's memory.
    written, others, within
        As for a Task; `within` is called with the scale.
    """

    function: Callable
    make: Callable
    of_floor: float | None = None
    most_ms: float | None = None
    most_of_memory: float | None = None
    written: tuple = ()
    others: float = 0.0
    within: Callable = lambda _: None


MEMORY_SPEED = 4.3e12  # bytes a second
SPOT, RATE, VOLATILITY, YEARS = 100.0, 0.02, 0.3, 1.0


def side(length, scale):
    return max(16, round(length * scale**0.5))


def normal_cdf(x):
    """Return the normal distribution function of x, by Abramowitz and Stegun's formula 26.2.17."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    polynomial = t * (
        0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    above = 0.3989422804 * np.exp(-0.5 * x * x) * polynomial
    return np.where(x > 0, 1.0 - above, above)


def black_scholes(price, strike, years):
    spread = VOLATILITY * np.sqrt(years)
    d1 = (np.log(price / strike) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * years) / spread
    d2 = d1 - spread
    owed = strike * np.exp(-RATE * years)
    call = price * normal_cdf(d1) - owed * normal_cdf(d2)
    return call, call - price + owed


def haversine(latitude_1, longitude_1, latitude_2, longitude_2):
    a = np.sin((latitude_2 - latitude_1) / 2) ** 2
    b = np.cos(latitude_1) * np.cos(latitude_2) * np.sin((longitude_2 - longitude_1) / 2) ** 2
    return 12742.0 * np.arcsin(np.sqrt(a + b))


def standardise(x):
    return np.clip((x - x.mean(axis=0)) / x.std(axis=0), -3.0, 3.0)


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rolling_mean(x, width):
    sums = np.cumsum(x, dtype=np.float64)  # float32 would be too inexact for so many elements
    return ((sums[width:] - sums[:-width]) / width).astype(np.float32)


def nearest_centre(points, centres):
    squares = np.sum(points * points, axis=1, keepdims=True) + np.sum(centres * centres, axis=1)
    return np.argmin(squares - 2.0 * (points @ centres.T), axis=1)


def statistics(x):
    y = np.sqrt(x * x + 1.0) * np.exp(-x)
    return y.mean(), y.std(), y.min(), y.max()


def monte_carlo(generator, paths):
    """Return the price of a call option whose strike is the price of today."""
    normals = generator.standard_normal(paths, dtype=np.float32)
    drift = (RATE - 0.5 * VOLATILITY * VOLATILITY) * YEARS
    price = SPOT * np.exp(drift + VOLATILITY * math.sqrt(YEARS) * normals)
    return math.exp(-RATE * YEARS) * np.maximum(price - SPOT, 0.0).mean()


def edges_of_image(image):
    grey = pk.image.rgb_to_gray(image)
    edges = pk.image.sobel(pk.image.gaussian_blur(grey, 1.0), None)
    return np.bincount(edges.ravel(), minlength=256)


def heat(u, steps):
    for _ in range(steps):
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += 0.2 * (sides - 4.0 * u[1:-1, 1:-1])


def singles(low, high, count, millions):
    """Return a function that makes arrays of float32 between two numbers."""

    def make(rng, scale):
        size = round(millions * M * scale)
        return tuple(
            (low + (high - low) * rng.random(size, np.float32)).astype(np.float32) for _ in range(count)
        )

    return make


def square(length, *more):
    """Return a function that makes a square array of normal float32, and further arguments."""

    def make(rng, scale):
        return rng.standard_normal((side(length, scale),) * 2, np.float32), *more

    return make


def make_series(rng, scale):
    import pandas as pd  # noqa: PLC0415

    return tuple(map(pd.Series, singles(-1.5, 1.5, 4, 32)(rng, scale)))


def make_options(rng, scale):
    price, strike, years = singles(0.0, 1.0, 3, 32)(rng, scale)
    return 20 + 80 * price, 20 + 80 * strike, np.float32(0.1) + years


def make_points(rng, scale):
    shapes = (round(4 * M * scale), 16), (64, 16)
    return tuple(rng.standard_normal(shape, np.float32) for shape in shapes)


def make_image(rng, scale):
    return (rng.integers(0, 256, (side(4320, scale), side(7680, scale), 3), np.uint8),)


def make_plate(rng, scale):
    return rng.random((side(4096, scale),) * 2, np.float32), heat_steps(scale)


def heat_steps(scale):
    return max(10, round(1000 * scale))


def of_draws(scale):
    """Return six times the relative standard error of the difference of two prices from that many paths."""
    return 6 * math.sqrt(2 * 2.4 / (64 * M * scale))


WHOLES = {
    "Black-Scholes": Whole(black_scholes, make_options, 0.6),
    "haversine": Whole(haversine, singles(-1.5, 1.5, 4, 32), 0.65),
    "standardise": Whole(standardise, square(8192), 0.5),
    "softmax": Whole(softmax, square(8192), 0.5),
    "rolling mean": Whole(
        rolling_mean, lambda rng, scale: (*singles(0.0, 1.0, 1, 64)(rng, scale), 100), 0.45
    ),
    "k-means": Whole(nearest_centre, make_points, 0.4, others=1e-4),
    "statistics": Whole(statistics, singles(-2.0, 2.0, 1, 64), 0.65),
    "Monte Carlo": Whole(
        monte_carlo, lambda _, scale: (Seed(42), round(64 * M * scale)), most_ms=2.5, within=of_draws
    ),
    "image": Whole(edges_of_image, make_image, most_ms=4.0),
    "heat": Whole(heat, make_plate, most_of_memory=2.5, written=(0,)),
}
if importlib.util.find_spec("pandas"):
    WHOLES["pandas Series"] = Whole(haversine, make_series)


def hold(held, name, scale, taken, up, down):
    """Compare CUDA's time, for the bytes moved up and down, with the required figures."""
    whole, floor = WHOLES[name], link_seconds(up, down)
    if whole.of_floor:
        held.check(f"{name}: of the floor's speed, {format_seconds(floor)}", floor / taken, whole.of_floor)
    if whole.most_ms:
        title = f"{name}: time, the floor's being {format_seconds(floor)}"
        held.check(title, taken * 1e3, whole.most_ms, "ms", at_most=True)
    if whole.most_of_memory:
        floor = heat_steps(scale) * 2 * up / MEMORY_SPEED
        title = f"{name}: to the memory's time, {format_seconds(floor)}"
        held.check(title, taken / floor, whole.most_of_memory, at_most=True)


def main():
    parse = parser(__file__, __doc__)
    parse.add_argument("--scale", type=float, help="of the full size (1/8; 1/256 when quick)")
    options = parse.parse_args()
    scale = options.scale or (1 / 256 if options.quick else 1 / 8)
    names = wanted(WHOLES, options)
    races, measured = Races(options, len(names)), []
    for name in names:
        races.step(name)
        whole = WHOLES[name]
        arguments = whole.make(np.random.default_rng(42), scale)
        task = Task(name, whole.function, arguments, whole.written, whole.within(scale), whole.others)
        taken, results = races.run(task)
        if "cuda" in taken:
            up = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray))
            down = sum(np.asarray(result).nbytes for result in results)
            measured.append((name, scale, taken["cuda"], up, down))
    races.close()
    held = figures.Figures(types.SimpleNamespace(only="", quick=scale != 1))
    if measured:
        print("\n" + figures.LINE.format("figure", "measured", "required", "").rstrip())
        for one in measured:
            hold(held, *one)
    return races.finish(scale=scale, figures=[dataclasses.asdict(figure) for figure in held.found])


if __name__ == "__main__":
    sys.exit(main())
