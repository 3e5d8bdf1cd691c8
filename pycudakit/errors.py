"""Exceptions, one for each status code of the C libraries."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "DeviceError",
    "Error",
    "InternalError",
    "Interrupted",
    "InvalidArgument",
    "NoDevice",
    "OutOfMemory",
    "Unsupported",
]


class Error(Exception):
    """Base class of the errors that a pycudakit library reports."""


class InvalidArgument(Error, ValueError):
    """An argument or a setting is invalid; nothing was written."""


# MemoryError comes first, because `__new__` is that of the first base, and `MemoryError.__new__`
# refuses a class whose first base is another. Dask's workers send exceptions by tblib, which recreates them
# by `__new__`.
class OutOfMemory(MemoryError, Error):
    """Host or device memory ran out."""


class NoDevice(Error):
    """The engine's library, the driver or a GPU is missing, or the driver is too old for this build."""


class DeviceError(Error):
    """A CUDA call failed."""


class CompileError(Error):
    """A kernel's source did not compile."""

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows: without the frames of this package and of IPython."""
        import os  # noqa: PLC0415 - for messages only
        import traceback  # noqa: PLC0415

        hidden = (os.path.dirname(__file__) + os.sep, f"{os.sep}IPython{os.sep}")
        summary = traceback.TracebackException.from_exception(self)
        frames = [
            frame
            for frame in summary.stack
            # IPython's call of `%%cuda` has the whole cell in its line.
            if not any(each in frame.filename for each in hidden)
            and not (frame.line or "").startswith("get_ipython().run_cell_magic(")
        ]
        lines = traceback.StackSummary.from_list(frames).format()
        head = ["Traceback (most recent call last):\n"] if lines else []
        return "".join([*head, *lines, *summary.format_exception_only()]).splitlines()


class Unsupported(Error, TypeError):
    """The requested engine does not support the call; a TypeError, as NumPy raises for dtypes."""


class Interrupted(Error):
    """A progress callback, such as the one that looks for Ctrl-C, stopped the call."""


class InternalError(Error):
    """An invariant of a library is broken: a defect of pycudakit, which please report."""


# The exception of each `pk_status`; tests/abi/test_table.py compares the numbers with the header's.
BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: OutOfMemory,
    3: NoDevice,
    4: DeviceError,
    5: CompileError,
    6: Unsupported,
    7: Interrupted,
    8: InternalError,
}
