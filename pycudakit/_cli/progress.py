"""How far a command has come, beside its own output."""

from __future__ import annotations

from collections.abc import Callable

from pycudakit._runtime.progress import Display

Say = Callable[[str], object]


class Progress:
    """A display of steps, and lines of output that it makes way for.

    Parameters
    ----------
    total
        How many steps there will be.
    say
        Prints a line of the work's own output.
    """

    def __init__(self, total: int, say: Say) -> None:
        self._total, self._done, self._say = total, 0, say
        self._display = Display(total)

    def close(self) -> None:
        """Take the display away."""
        self._display.close()

    def step(self, label: str) -> None:
        """Tell what is being done; what was before is done."""
        self._display.show(self._done, label, f"[{self._done + 1}/{self._total}] {label}")
        self._done += 1

    def say(self, line: str) -> None:
        """Print a line of output."""
        self._display.clear()
        self._say(line)
