"""The price of a European call option by simulation, beside the closed form of Black and Scholes."""

import math
import time

import numpy as np

import pycudakit as pk

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0
PATHS, BATCH = 20_000_000, 4_000_000


def closed_form():
    spread = VOLATILITY * math.sqrt(YEARS)
    d1 = (math.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / spread

    def normal(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    return SPOT * normal(d1) - STRIKE * math.exp(-RATE * YEARS) * normal(d1 - spread)


def simulated(rng):
    """Return the price and its standard error; each draw serves a path and its mirror image."""
    drift, spread = (RATE - VOLATILITY**2 / 2) * YEARS, VOLATILITY * math.sqrt(YEARS)
    growth, discount = SPOT * math.exp(drift), math.exp(-RATE * YEARS)  # noqa: F841
    z = np.empty(BATCH, np.float32)
    total = square = 0.0
    for _ in range(PATHS // BATCH):
        rng.standard_normal(dtype=np.float32, out=z)
        payoff = pk.evaluate(
            "(maximum(growth * exp(spread * z) - STRIKE, 0) + maximum(growth * exp(-spread * z) - STRIKE, 0))"
            " * (discount / 2)"
        )
        total += float(pk.sum(payoff, dtype=np.float64))
        square += float(pk.dot(payoff, payoff))
    mean = total / PATHS
    return mean, math.sqrt((square / PATHS - mean**2) / PATHS)


began = time.perf_counter()
price, error = simulated(pk.random.default_rng(2024))
print(f"simulated    {price:.4f}, give or take {error:.4f}")
print(f"closed form  {closed_form():.4f}")
print(f"{PATHS / 1e6:.0f} million draws and as many mirrored in {time.perf_counter() - began:.2f} s")
