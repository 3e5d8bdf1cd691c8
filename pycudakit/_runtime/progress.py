"""Progress of long calls: a bar on an interactive stderr, or the user's callback."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal

from pycudakit import errors

ProgressCallback = Callable[[int, int], object]
ProgressSetting = ProgressCallback | Literal[True]

# Seconds before the first report of a call, and between two.
FIRST_REPORT_SECONDS, REPORT_INTERVAL = 1.0, 0.5


def checked_progress(progress: Any) -> ProgressSetting | None:
    """Validate the `progress` argument; return None for no progress."""
    if progress is True or callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is False or progress is None:
        return None
    raise errors.InvalidArgument(f"progress is {progress!r}; choose True, False or a callable")


def _is_interactive(stream: Any) -> bool:
    """Return True if a stream is a terminal or a notebook, where a line can be redrawn."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))


class Display:
    """A progress bar by tqdm if that is installed, else one line; nothing if stderr is not interactive.

    Parameters
    ----------
    total
        The number of steps or elements.
    elapsed
        The seconds since the work began.
    **style
        Further arguments for tqdm.
    """

    def __init__(self, total: int, elapsed: float = 0.0, **style: Any) -> None:
        self._shown = _is_interactive(sys.stderr)
        self._bar: Any = None
        if self._shown:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a line of text
                    tqdm = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, leave=False, dynamic_ncols=True, mininterval=0.0, **style)
            self._bar.start_t -= elapsed  # or the rate would be too high

    def show(self, done: int, label: str, line: str) -> None:
        """Show the amount done: the bar with its label, or else `line`."""
        if self._bar is not None:
            self._bar.set_description(label, refresh=False)
            self._bar.n = done
            self._bar.refresh()  # `update` does not always draw
        elif self._shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the display, before a line of other output."""
        if self._bar is not None:
            self._bar.clear()
        elif self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the display."""
        if self._bar is not None:
            self._bar.close()
        else:
            self.clear()


_in_callback: ContextVar[bool] = ContextVar("pycudakit_in_progress_callback", default=False)


class CallProgress:
    """Reports the progress of one call from its second second on, and its successful end.

    Parameters
    ----------
    target
        The user's callback, or True for a display.
    function
        The name of the function.
    size
        The number of elements of the call.
    """

    def __init__(self, target: ProgressSetting, function: str, size: int) -> None:
        self._target, self._function, self._size = target, function, size
        self._display: Display | None = None
        self._long = self._due = time.perf_counter() + FIRST_REPORT_SECONDS

    def __enter__(self) -> ProgressCallback:
        """Return the callback for the engine: called with the elements done and their total."""
        return self._update

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Report the end of the call, and remove the display."""
        try:
            if kind is None and time.perf_counter() >= self._long:
                self._report(self._size)
        finally:
            if self._display is not None:
                self._display.close()

    def wait(self, reason: str) -> None:
        """Show why the call waits before it begins; a user's callback is not called."""
        if self._target is True:
            self._show(0, f"{self._function}: {reason}", f"{self._function}: {reason}")

    def _update(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now >= self._due:
            self._due = now + REPORT_INTERVAL
            self._report(self._size - total + done)  # after a fallback, `total` counts the remaining elements

    def _call_back(self, function: ProgressCallback, done: int) -> None:
        if _in_callback.get():  # a call that the callback itself makes: no recursion
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
            elapsed = time.perf_counter() - self._long + FIRST_REPORT_SECONDS
            self._display = Display(self._size, elapsed, unit=" elements", unit_scale=True)
        self._display.show(done, label, line)
