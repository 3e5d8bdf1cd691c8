"""How far long work has come, on stderr, where a person may be looking, or wherever a caller wants it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal

from pycudakit import errors

Report = Callable[[int, int], object]
Wanted = Report | Literal[True]

# Seconds after which a call tells how far it has come, and between one time and the next.
LONG, PAUSE = 1.0, 0.1


def checked_progress(progress: Any) -> Wanted | None:
    """Return what is asked for by `progress`, or raise."""
    if progress is True or callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is False or progress is None:
        return None
    raise errors.InvalidArgument(f"progress is {progress!r}; choose True, False or a callable")


def _is_seen(stream: Any) -> bool:
    """Tell whether a person may see lines of a stream come and go: on a terminal, or in a notebook."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))


class Display:
    """A bar of tqdm if that is installed, else a line; nothing at all where nobody sees stderr.

    Parameters
    ----------
    total
        How much there is to do.
    **style
        Further arguments of tqdm.
    """

    def __init__(self, total: int, **style: Any) -> None:
        self._shown = _is_seen(sys.stderr)
        self._bar: Any = None
        if self._shown:
            try:
                tqdm = importlib.import_module("tqdm").tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, leave=False, dynamic_ncols=True, **style)

    def show(self, done: int, label: str, line: str) -> None:
        """Show that so much is done, under a label; a line in place of the bar is given whole."""
        if self._bar is not None:
            self._bar.n = done
            self._bar.set_description(label)  # and show it, which `update` does but now and then
        elif self._shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Make way for a line of other output."""
        if self._bar is not None:
            self._bar.clear()
        elif self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        """Take the display away."""
        if self._bar is not None:
            self._bar.close()
        else:
            self.clear()


_telling: ContextVar[bool] = ContextVar("pycudakit_telling", default=False)


class CallProgress:
    """Tells how far a call has come, once it has taken a second, and that it has ended well.

    Parameters
    ----------
    asked
        Whom to tell; True for a display.
    function
        What is computed.
    size
        The elements of the call.
    """

    def __init__(self, asked: Wanted, function: str, size: int) -> None:
        self._asked, self._function, self._size = asked, function, size
        self._display: Display | None = None
        self._long = self._due = time.perf_counter() + LONG

    def __enter__(self) -> Report:
        """Return what an engine is to call now and then."""
        return self._tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Tell the end, and take the display away."""
        try:
            if kind is None and time.perf_counter() >= self._long:
                self._report(self._size)
        finally:
            if self._display is not None:
                self._display.close()

    def wait(self, what: str) -> None:
        """Show what the call waits for before it begins; a function is told nothing."""
        if self._asked is True:
            self._show(0, f"{self._function}: {what}", f"{self._function}: {what}")

    def _tell(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now >= self._due:
            self._due = now + PAUSE
            self._report(self._size - total + done)  # an engine that takes over has less to do

    def _tell_function(self, function: Report, done: int) -> None:
        if _telling.get():  # a call that the function itself made: it would be told without end
            return
        token = _telling.set(True)
        try:
            function(done, self._size)
        finally:
            _telling.reset(token)

    def _report(self, done: int) -> None:
        if self._asked is not True:
            self._tell_function(self._asked, done)
            return
        self._show(done, self._function, f"{self._function}: {done / self._size:.0%}")

    def _show(self, done: int, label: str, line: str) -> None:
        if self._display is None:
            self._display = Display(self._size, unit=" elements", unit_scale=True)
        self._display.show(done, label, line)
