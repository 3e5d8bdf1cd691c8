"""Progress display of a command, beside its output."""

from __future__ import annotations

from collections.abc import Callable

from pycudakit._runtime.progress import Display

Say = Callable[[str], object]


class Progress:
    """A progress display of steps, which is cleared for lines of output.

    Parameters
    ----------
    total
        The number of steps.
    say
        Prints a line of output.
    """

    def __init__(self, total: int, say: Say) -> None:
        self._total, self._done, self._say = total, 0, say
        self._display = Display(total)

    def close(self) -> None:
        """Remove the display."""
        self._display.close()

    def step(self, label: str) -> None:
        """Show the label of the next step; the one before is done."""
        self._display.show(self._done, label, f"[{self._done + 1}/{self._total}] {label}")
        self._done += 1

    def say(self, line: str) -> None:
        """Print a line of output."""
        self._display.clear()
        self._say(line)
