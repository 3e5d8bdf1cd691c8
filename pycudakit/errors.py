"""What the libraries' status codes mean in Python."""

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
    """Anything that a pycudakit library reports, and the base of the classes below."""


class InvalidArgument(Error, ValueError):
    """An argument or a setting that cannot be used; nothing was written."""


# MemoryError comes first: Dask's workers send exceptions by tblib, which makes them anew by `__new__`.
class OutOfMemory(MemoryError, Error):
    """Host or device memory ran out."""


class NoDevice(Error):
    """No library, no driver, a driver too old for this build, or no GPU."""


class DeviceError(Error):
    """A CUDA call failed, or a library met a fault of its own."""


class CompileError(Error):
    """A kernel's source did not compile."""


class Unsupported(Error, TypeError):
    """The engine that was asked for does not do that."""


class Interrupted(Error):
    """The call was asked to stop."""


# The values of pk_status.
BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: OutOfMemory,
    3: NoDevice,
    4: DeviceError,
    5: CompileError,
    6: Unsupported,
    7: Interrupted,
}
