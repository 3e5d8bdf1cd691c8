"""How far long work has come, on stderr, where a person may be looking."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

Say = Callable[[str], object]


class Progress:
    """A bar of tqdm if that is installed, else a line; nothing at all where stderr is not a terminal.

    Parameters
    ----------
    total
        How many steps there will be.
    say
        Prints a line of the work's own output, which the display makes way for.
    """

    def __init__(self, total: int, say: Say) -> None:
        self._total, self._done, self._say = total, 0, say
        self._shown = sys.stderr.isatty()
        self._bar: Any = None
        if self._shown:
            try:
                tqdm = importlib.import_module("tqdm").tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, leave=False, dynamic_ncols=True)

    def close(self) -> None:
        """Take the display away."""
        if self._bar is not None:
            self._bar.close()
        else:
            self._clear()

    def _clear(self) -> None:
        if self._shown and self._bar is None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self, label: str) -> None:
        """Tell what is being done; what was before is done."""
        if self._bar is not None:
            self._bar.set_description(label)
            self._bar.update(self._done - self._bar.n)
        elif self._shown:
            sys.stderr.write(f"\r\x1b[K[{self._done + 1}/{self._total}] {label}")
            sys.stderr.flush()
        self._done += 1

    def say(self, line: str) -> None:
        """Print a line of output."""
        if self._bar is not None:
            self._bar.clear()
        self._clear()
        self._say(line)
