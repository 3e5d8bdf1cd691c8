"""The callback by which a kernel on the CPU lets Python run signal handlers, such as that of Ctrl-C."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator

_WATCH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class Watcher:
    """A `pk_progress_callback` of one thread; an exception of a signal handler stops the launch."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        answers = self._answers()
        next(answers)
        self._callback = _WATCH(answers.send)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _answers(self) -> Generator[int, int, None]:
        # A generator, since Python runs signal handlers where it is entered: inside of the `try`.
        while True:
            try:
                while True:
                    yield 0
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001
                self._error = error
            while self._error is not None:
                yield 1

    def raise_error(self) -> None:
        """Raise the exception that stopped a launch, if there is one."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error


class _Local(threading.local):
    def __init__(self) -> None:
        self.watcher = Watcher()


_local = _Local()


def watcher() -> Watcher:
    """Return the watcher of this thread."""
    return _local.watcher
