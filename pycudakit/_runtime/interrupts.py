"""What a call under way asks of Python: whether to go on."""

from __future__ import annotations

import ctypes
from collections.abc import Generator

from pycudakit._runtime.progress import ProgressCallback


class _Progress(ctypes.Structure):
    _fields_ = [("done", ctypes.c_int64), ("all", ctypes.c_int64)]


_WATCH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Progress))


class Watcher:
    """A pk_progress_callback for one call at a time, on which Python acts upon a signal such as Ctrl-C.

    What the signal's handler raises, or the call's progress function, stops the call, and is kept here; then
    the watcher has served.
    """

    def __init__(self) -> None:
        self.progress: ProgressCallback | None = None
        self._error: BaseException | None = None
        answers = self._answers()
        next(answers)
        self._callback = _WATCH(answers.send)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.address = 0 if address is None else address
        self.stopped = False  # whether an exception stopped the call

    def _answers(self) -> Generator[int, ctypes._Pointer[_Progress], None]:
        # A handler runs, and raises, where Python code is entered. For a function that is before its first
        # `try`, and ctypes would drop the exception; for a generator it is here.
        try:
            while True:
                at = yield 0
                if self.progress is not None:
                    self.progress(at.contents.done, at.contents.all)
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001
            self._error, self.stopped = error, True
        while True:
            yield 1

    def raise_error(self) -> None:
        """Raise what stopped the call; kept, it would keep the frames that it passed."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error
