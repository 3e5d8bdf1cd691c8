"""Exceptions, one for each status code of the C libraries."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "DeviceError",
    "Error",
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


# MemoryError comes first: Dask's workers send exceptions by tblib, which recreates them by `__new__`.
class OutOfMemory(MemoryError, Error):
    """Host or device memory ran out."""


class NoDevice(Error):
    """There is no library, no driver, a driver too old for this build, or no GPU."""


class DeviceError(Error):
    """A CUDA call failed, or a library detected an internal error."""


class CompileError(Error):
    """A kernel's source did not compile."""


class Unsupported(Error, TypeError):
    """The requested engine does not support the call."""


class Interrupted(Error):
    """The call was interrupted."""


# The exception of each `pk_status`.
BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: OutOfMemory,
    3: NoDevice,
    4: DeviceError,
    5: CompileError,
    6: Unsupported,
    7: Interrupted,
}
