"""PyCUDA's exceptions, each also of the class of `pycudakit.errors` that it means."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pycudakit import errors


class Error(errors.Error):
    """Base class of PyCUDA's exceptions."""


class MemoryError(errors.OutOfMemory, Error):
    """Device memory or host memory ran out."""


class LogicError(Error, errors.InvalidArgument):
    """An argument is wrong, or the operation does not exist; nothing was done."""


class LaunchError(Error, errors.DeviceError):
    """A kernel failed."""


class RuntimeError(Error, errors.NoDevice):
    """There is no device, or it has become unusable."""


class CompileError(Error, errors.CompileError):
    """A source did not compile.

    Parameters
    ----------
    msg
        The message.
    command_line
        The compiler and its options.
    stdout, stderr
        The compiler's output.
    """

    def __init__(
        self,
        msg: str,
        command_line: Sequence[str],
        stdout: str | None = None,
        stderr: str | None = None,
    ) -> None:
        super().__init__(msg, command_line, stdout, stderr)
        self.msg = msg
        self.command_line = command_line
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        """Return the message, the command and the compiler's output."""
        text = self.msg
        if self.command_line:
            text += f"\n[command: {' '.join(self.command_line)}]"
        for name, output in (("stdout", self.stdout), ("stderr", self.stderr)):
            if output:
                text += f"\n[{name}:\n{output}]"
        return text


# By the classes of `pycudakit.errors`.
_CLASSES: dict[type[errors.Error], type[Error]] = {
    errors.OutOfMemory: MemoryError,
    errors.DeviceError: LaunchError,
    errors.NoDevice: RuntimeError,
}


def translated(error: errors.Error) -> Error:
    """Return PyCUDA's exception for an exception of pycudakit."""
    if isinstance(error, Error):
        return error
    if isinstance(error, errors.CompileError):
        head, _, log = str(error).partition("\n")
        return CompileError(head, (), stderr=log or head)
    for kind, translated_kind in _CLASSES.items():
        if isinstance(error, kind):
            return translated_kind(str(error))
    return LogicError(str(error))


def raise_error(library: ctypes.CDLL, status: int) -> NoReturn:
    """Raise PyCUDA's exception for the status of a C entry, with the library's message."""
    message = ctypes.c_char_p()
    library.pk_last_error(ctypes.byref(message))
    text = (message.value or b"").decode("utf-8", "replace")
    raise translated(errors.BY_STATUS.get(status, errors.Error)(text)) from None


def absent(name: str, remedy: str) -> Any:
    """Return a function that raises LogicError, in place of one of PyCUDA's that does not exist.

    Parameters
    ----------
    name
        The name in messages.
    remedy
        The alternative.
    """

    def refuse(*_arguments: object, **_keywords: object) -> NoReturn:
        raise LogicError(f"{name} does not exist: {remedy}")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def absent_module(module: str, remedy: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names can be imported, and raise LogicError when used."""

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return absent(f"{module}.{name}", remedy)

    return get
