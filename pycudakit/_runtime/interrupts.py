"""The callback by which a running native call lets Python handle signals and report progress."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Generator
from typing import Any

from pycudakit._runtime.progress import ProgressCallback


class _Progress(ctypes.Structure):
    _fields_ = [("done", ctypes.c_int64), ("all", ctypes.c_int64)]


_WATCH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Progress))


class Watcher:
    """A `pk_progress_callback` for one call at a time; entering it lets Python run signal handlers (Ctrl-C).

    An exception of the signal handler, or of the user's progress function, stops the call.

    Attributes
    ----------
    error
        That exception, until `raise_error` raises it.
    """

    def __init__(self) -> None:
        self.progress: ProgressCallback | None = None
        self.error: BaseException | None = None
        answers = self._answers()
        next(answers)
        self._callback = _WATCH(answers.send)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _answers(self) -> Generator[int, ctypes._Pointer[_Progress], None]:
        # Python runs signal handlers where it enters Python code. In a function that is before the first
        # `try`, so ctypes would drop the exception; a generator is entered here, inside the `try`.
        while True:
            try:
                while True:
                    state = yield 0 if self.error is None else 1
                    if self.progress is not None and self.error is None:
                        self.progress(state.contents.done, state.contents.all)
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001
                self.error = error

    def raise_error(self) -> None:
        """Raise the exception, if there is one, and drop it: it refers to the frames that it passed."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error


def raised_by_a_handler(error: BaseException) -> bool:
    """Return True if a signal handler of Python's raised an exception."""
    handlers: Any = [signal.getsignal(number) for number in signal.valid_signals()]
    functions = [getattr(each, "__func__", each) for each in handlers]
    functions += [vars(type(each)).get("__call__") for each in handlers]
    codes = {getattr(each, "__code__", None) for each in functions} - {None}
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code not in codes:
        step = step.tb_next
    return step is not None or ended_a_call(error)


def ended_a_call(error: BaseException) -> bool:
    """Return True if a signal handler raised an exception during a call of a library, which has ended it."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code is not Watcher.raise_error.__code__:
        step = step.tb_next
    return step is not None
