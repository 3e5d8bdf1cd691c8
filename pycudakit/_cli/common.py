"""Shared parts of the demo, bench, tune and selftest commands."""

from __future__ import annotations

from typing import Any

import pycudakit as pk
from pycudakit._cli.diagnostics import with_remedy
from pycudakit._cli.info import NO_LIBRARIES
from pycudakit._cli.progress import Say
from pycudakit._native import driver_jit
from pycudakit._runtime.context import EngineName

EXPRESSION = "sqrt(a*a + b*b) * exp(-a) + sin(b)"

# The stated error bounds of pycudakit are at most 4 ulps; errors of NumPy are allowed as much.
ULPS = 8


def evaluate_by(xp: Any, a: Any, b: Any) -> Any:
    """Compute EXPRESSION with NumPy or a library with NumPy's API."""
    return xp.sqrt(a * a + b * b) * xp.exp(-a) + xp.sin(b)


def engines(say: Say) -> list[EngineName]:
    """Return the available engines with a library; print the reasons if there are none."""
    names: tuple[EngineName, ...] = ("cpu", "cuda")
    statuses = {name: pk.engines()[name] for name in names}
    present = [name for name, status in statuses.items() if status]
    if not present:
        say("No engine is available.")
        for name, status in statuses.items():
            say(f"  {name}: {with_remedy(name, status.reason)}")
        for line in () if pk.build_info() else NO_LIBRARIES:
            say(line)
    if "cuda" in present and not driver_jit.has_native_code(0):
        say("cuda: the GPU's driver compiles kernels at first use, which takes seconds, and caches them.")
    return present
