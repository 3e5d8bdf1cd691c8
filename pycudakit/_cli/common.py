"""What demo, bench and selftest have in common."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pycudakit as pk
from pycudakit._cli.diagnostics import with_remedy
from pycudakit._cli.info import NO_LIBRARIES
from pycudakit._cli.progress import Say
from pycudakit._native import driver_jit

EXPRESSION = "sqrt(a*a + b*b) * exp(-a) + sin(b)"

# What is stated for the kit's functions, at most 4, and as much again for NumPy's own.
ULPS = 8


def by(xp: Any, a: Any, b: Any) -> Any:
    """Return EXPRESSION as NumPy, or a library like it, computes it."""
    return xp.sqrt(a * a + b * b) * xp.exp(-a) + xp.sin(b)


def engines(say: Say) -> list[str]:
    """Return the engines with a library that can run calls here; say why where there is none."""
    statuses = {name: pk.engines()[name] for name in ("cpu", "cuda")}
    present = [name for name, status in statuses.items() if status]
    if not present:
        say("There is no engine to run.")
        for name, status in statuses.items():
            say(f"  {name}: {with_remedy(name, status.reason)}")
        for line in () if pk.build_info() else NO_LIBRARIES:
            say(line)
    if "cuda" in present and not driver_jit.has_native_code(0):
        say("cuda: the GPU's driver compiles what calls first use, which takes seconds, and keeps it.")
    return present


def warn_if_busy(say: Say) -> None:
    """Say so where other programs have the processors, as times mean little then."""
    with contextlib.suppress(AttributeError, OSError):  # where the system does not tell
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
        if load > processors:
            say(f"This machine is busy (load {load:.1f}, processors {processors}): times mean little.")
