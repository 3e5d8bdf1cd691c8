"""Floating-point errors of calls, reported as `np.errstate` demands: warn, raise, print, call or log."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, TypeVar

import numpy as np

from pycudakit._native import abi
from pycudakit._runtime import context

_KINDS = (
    (abi.FPE_DIVIDE_BY_ZERO, "divide", "divide by zero", 1),
    (abi.FPE_OVERFLOW, "over", "overflow", 2),
    (abi.FPE_INVALID, "invalid", "invalid value", 8),
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


# `warnings.warn` does not count the frames of files with both words in their path.
_UNCOUNTED = os.path.join(_PACKAGE, "importlib", "_bootstrap.py")

F = TypeVar("F", bound=Any)


def uncounted(function: F) -> F:
    """Hide the frames of a function, which calls one of the user's, from the `stacklevel` of warnings."""
    function.__code__ = function.__code__.replace(co_filename=_UNCOUNTED)
    return function


def caller_stacklevel() -> int:
    """Return the `stacklevel` for `warnings.warn` of the first frame outside the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        level, frame = level + (frame.f_code.co_filename != _UNCOUNTED), frame.f_back
    return level


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of the first line outside the package, also if a composite, which may be traced, calls this."""
    warnings.warn(message, category, stacklevel=caller_stacklevel())


def report_fp_flags(by_function: dict[str, int]) -> None:
    """Report the floating-point flags of several functions, by NumPy's names, as `np.errstate` demands."""
    for name, flags in by_function.items():
        for flag, kind, _, _ in _KINDS:
            if flags & flag:
                report_fp_error(kind, name)


def warn_or_raise(kind: str, message: str) -> None:
    """Raise, warn or print a message, if `np.errstate` demands it."""
    mode = np.geterr()[kind]  # type: ignore[literal-required]
    if mode == "warn":
        warn_caller(message, RuntimeWarning)
    elif mode == "raise":
        raise FloatingPointError(message)
    elif mode == "print":
        sys.stderr.write(f"Warning: {message}\n")


def report_fp_error(kind: str, name: str) -> None:
    """Report one floating-point error of a function, as `np.errstate` demands."""
    mode = np.geterr()[kind]  # type: ignore[literal-required]
    if mode == "ignore":
        return
    name = context.current_context.get().reported_function or name
    text, numpy_flag = next((text, flag) for _, name_of_kind, text, flag in _KINDS if name_of_kind == kind)
    message = f"{text} encountered in {name}"
    if mode == "call":
        handler: Any = np.geterrcall()
        if handler is None:
            raise NameError(f"python callback specified for {text} (in {name}) but no function found.")
        handler(text, numpy_flag)
    elif mode == "log":
        log: Any = np.geterrcall()
        if log is None:
            raise NameError(f"log specified for {text} (in {name}) but no object with write method found.")
        log.write(f"Warning: {message}\n")
    else:
        warn_or_raise(kind, message)
