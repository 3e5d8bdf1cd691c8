"""What demo, bench and selftest have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._cli.info import NO_LIBRARIES

EXPRESSION = "sqrt(a*a + b*b) * exp(-a) + sin(b)"

# What is stated for the kit's functions, at most 4, and as much again for NumPy's own.
ULPS = 8


def by_numpy(a: Any, b: Any) -> Any:
    """Return EXPRESSION as NumPy computes it."""
    return np.sqrt(a * a + b * b) * np.exp(-a) + np.sin(b)


def engines() -> list[str]:
    """Return the engines with a library that can run calls here."""
    return [name for name in ("cpu", "cuda") if pk.engines()[name]]


def excuse() -> list[str]:
    """Return what to say where there is none."""
    reasons = [f"  {name}: {pk.engines()[name].reason}" for name in ("cpu", "cuda")]
    return ["There is no engine to run.", *reasons, *([] if pk.build_info() else NO_LIBRARIES)]
