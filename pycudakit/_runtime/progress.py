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

ProgressCallback = Callable[[int, int], object]
ProgressSetting = ProgressCallback | Literal[True]

# Seconds after which a call tells how far it has come, and between one time and the next.
FIRST_REPORT_SECONDS, REPORT_INTERVAL = 1.0, 0.1


def checked_progress(progress: Any) -> ProgressSetting | None:
    """Return what is asked for by `progress`, or raise."""
    if progress is True or callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is False or progress is None:
        return None
    raise errors.InvalidArgument(f"progress is {progress!r}; choose True, False or a callable")


def _is_interactive(stream: Any) -> bool:
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
        self._shown = _is_interactive(sys.stderr)
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


_in_callback: ContextVar[bool] = ContextVar("pycudakit_in_progress_callback", default=False)


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

    def __init__(self, target: ProgressSetting, function: str, size: int) -> None:
        self._target, self._function, self._size = target, function, size
        self._display: Display | None = None
        self._long = self._due = time.perf_counter() + FIRST_REPORT_SECONDS

    def __enter__(self) -> ProgressCallback:
        """Return what an engine is to call now and then."""
        return self._update

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
        if self._target is True:
            self._show(0, f"{self._function}: {what}", f"{self._function}: {what}")

    def _update(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now >= self._due:
            self._due = now + REPORT_INTERVAL
            self._report(self._size - total + done)  # an engine that takes over has less to do

    def _call_back(self, function: ProgressCallback, done: int) -> None:
        if _in_callback.get():  # a call that the function itself made: it would be told without end
            return
        token = _in_callback.set(True)
        try:
            function(done, self._size)
        finally:
            _in_callback.reset(token)

    def _report(self, done: int) -> None:
        if self._target is not True:
            self._call_back(self._target, done)
            return
        self._show(done, self._function, f"{self._function}: {done / self._size:.0%}")

    def _show(self, done: int, label: str, line: str) -> None:
        if self._display is None:
            self._display = Display(self._size, unit=" elements", unit_scale=True)
        self._display.show(done, label, line)
