"""The price of a European call option by simulation, beside the closed form of Black and Scholes.

    python examples/monte_carlo.py [CONVERGENCE.png]

The picture, of how the price settles, needs matplotlib.
"""

import math
import sys
import time

import numpy as np

import pycudakit as pk

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0
PATHS, BATCH = 20_000_000, 4_000_000

SPREAD = VOLATILITY * math.sqrt(YEARS)
GROWN = SPOT * math.exp((RATE - VOLATILITY**2 / 2) * YEARS)
DISCOUNT = math.exp(-RATE * YEARS)


def closed_form():
    d1 = (math.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / SPREAD

    def below(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    return SPOT * below(d1) - STRIKE * DISCOUNT * below(d1 - SPREAD)


def simulated(rng, paths=PATHS, batch=BATCH):
    """Return the paths, the price and its standard error after each batch."""
    z, payoff = np.empty((2, batch), np.float32)
    total = square = 0.0
    steps = []
    for done in range(batch, paths + 1, batch):
        rng.standard_normal(dtype=np.float32, out=z)
        # Each draw, and its mirror image, which takes much of the noise away.
        pk.evaluate(
            "(maximum(GROWN * exp(SPREAD * z) - STRIKE, 0) + maximum(GROWN * exp(-SPREAD * z) - STRIKE, 0))"
            " * (DISCOUNT / 2)",
            out=payoff,
        )
        total += float(pk.sum(payoff, dtype=np.float64))
        square += float(pk.evaluate("sum(astype(payoff, float64) ** 2)"))
        mean = total / done
        steps.append((done, mean, math.sqrt((square / done - mean**2) / done)))
    return steps


def run(paths=PATHS, batches=50):
    return simulated(pk.random.default_rng(2024), paths, paths // batches)


def draw(steps, path):
    """Draw the price with twice its standard error, and how the error falls."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    paths, prices, errors = map(np.array, zip(*steps, strict=True))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
    left.fill_between(paths, prices - 2 * errors, prices + 2 * errors, alpha=0.3)
    left.plot(paths, prices)
    left.axhline(closed_form(), color="black", linestyle=":")
    left.set(xlabel="paths", title="price (dotted: closed form)")
    right.loglog(paths, np.abs(prices - closed_form()), ".", color="C2", label="actual error")
    right.loglog(paths, errors, label="standard error", linewidth=3)
    guide = errors[-1] * np.sqrt(paths[-1] / paths)
    right.loglog(paths, guide, ":", color="black", label="1 / sqrt(paths)")
    right.set(xlabel="paths", title="error")
    right.legend()
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    began = time.perf_counter()
    steps = run(batches=PATHS // BATCH if len(sys.argv) < 2 else 50)
    _, price, error = steps[-1]
    print(f"simulated    {price:.4f}, standard error {error:.4f}")
    print(f"closed form  {closed_form():.4f}")
    print(f"{PATHS / 1e6:.0f} million draws in {time.perf_counter() - began:.2f} s")
    if len(sys.argv) > 1:
        draw(steps, sys.argv[1])
