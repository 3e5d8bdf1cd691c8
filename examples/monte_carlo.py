"""The price of a European call option by simulation, beside the closed form of Black and Scholes."""

import math
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


def simulated(rng):
    """Return the price and its standard error."""
    z, payoff = np.empty((2, BATCH), np.float32)
    total = square = 0.0
    for _ in range(PATHS // BATCH):
        rng.standard_normal(dtype=np.float32, out=z)
        # Each draw, and its mirror image, which takes much of the noise away.
        pk.evaluate(
            "(maximum(GROWN * exp(SPREAD * z) - STRIKE, 0) + maximum(GROWN * exp(-SPREAD * z) - STRIKE, 0))"
            " * (DISCOUNT / 2)",
            out=payoff,
        )
        total += float(pk.sum(payoff, dtype=np.float64))
        square += float(pk.evaluate("sum(astype(payoff, float64) ** 2)"))
    mean = total / PATHS
    return mean, math.sqrt((square / PATHS - mean**2) / PATHS)


began = time.perf_counter()
price, error = simulated(pk.random.default_rng(2024))
print(f"simulated    {price:.4f}, standard error {error:.4f}")
print(f"closed form  {closed_form():.4f}")
print(f"{PATHS / 1e6:.0f} million draws in {time.perf_counter() - began:.2f} s")
