"""Which engine will answer first: one model, with measured constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pycudakit._program import Program

SMALL = "auto: NumPy answers first at this size"


def numpy_below(name: str) -> int:
    """Return the number of elements below which NumPy answers first, whatever the types."""
    return 2000


def choose(function: Any, size: int, moved: int, program: Program) -> tuple[str, str]:
    """Return the engine that will answer first, and why."""
    if size < 20000 and function.numpy_agrees:
        return "numpy", SMALL
    return "cpu", "auto: the CPU engine answers first"
