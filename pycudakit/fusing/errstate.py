"""Snapshot of `np.errstate` and the warnings filters.

Deferred kernels report floating-point errors under the settings that were in force when they were traced.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pycudakit._native.abi import FPE_DIVIDE_BY_ZERO, FPE_INVALID, FPE_OVERFLOW

_QUIET = frozenset({"ignore", "warn"})
_FLAGS = {"divide": FPE_DIVIDE_BY_ZERO, "over": FPE_OVERFLOW, "invalid": FPE_INVALID}

# `numpy.errstate` installs a new object: a change of identity means a change of the settings.
_errstate_object: Callable[[], Any] = getattr(
    getattr(importlib.import_module("numpy._core.umath"), "_extobj_contextvar", None), "get", np.geterr
)
# The attributes of `warnings` that `warnings.catch_warnings` replaces.
_WARNINGS_HOOKS = ("filters", "showwarning", "_showwarnmsg_impl")
_invalidate_filters: Callable[[], None] = getattr(warnings, "_filters_mutated", lambda: None)


class ErrstateSnapshot:
    """NumPy's error handling and the warnings filters, as of the last check.

    `must_report_at_once` is True if an operation has to report its errors immediately: if an error may raise
    or call a handler, or if the function itself has installed warnings filters.
    """

    def __init__(self) -> None:
        self._first_filters = warnings.filters
        self._take()

    def _take(self) -> None:
        self._errors, self._in_force = np.geterr(), _errstate_object()
        self._filters = warnings.filters
        self._shown = [getattr(warnings, name, None) for name in _WARNINGS_HOOKS]
        is_quiet = _QUIET.issuperset(self._errors.values())
        self.must_report_at_once = not is_quiet or self._filters is not self._first_filters

    def has_changed(self) -> bool:
        """Return True if the settings have changed since the snapshot."""
        return _errstate_object() is not self._in_force or warnings.filters is not self._filters

    @contextlib.contextmanager
    def previous_in_force(self) -> Iterator[None]:
        """Restore the snapshot's settings within a block; take a new snapshot at its end."""
        current_hooks = [getattr(warnings, name, None) for name in _WARNINGS_HOOKS]
        try:
            with np.errstate(**self._errors):
                _set_warnings_hooks(self._shown)
                self._in_force, self._filters = _errstate_object(), warnings.filters
                yield
        finally:
            _set_warnings_hooks(current_hooks)
            self._take()


def newly_ignored(before: dict[str, str]) -> int | None:
    """Return the floating-point flags that are ignored now, but were not under the settings `before`.

    None means that others are handled in another way than before.
    """
    flags = 0
    for (name, was), now in zip(before.items(), np.geterr().values(), strict=True):
        if now != was:
            if now != "ignore" or name not in _FLAGS:
                return None
            flags |= _FLAGS[name]
    return flags


_last_quiet: Any = None  # the settings that were seen last to ignore underflow


def ignores_underflow() -> bool:
    """Return True if NumPy ignores underflow, as it does by default; the libraries do not report it."""
    global _last_quiet  # noqa: PLW0603
    settings = _errstate_object()
    if settings is _last_quiet:
        return True
    is_ignored = bool(np.geterr()["under"] == "ignore")
    _last_quiet = settings if is_ignored else None
    return is_ignored


def raises_warnings() -> bool:
    """Return True if a warnings filter makes exceptions of warnings."""
    return any(action == "error" for action, *_ in warnings.filters)


@contextlib.contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Yield a list of all warnings in a block, which are issued at its end, also after an exception."""
    met: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            yield met
    finally:
        for each in met:
            _issue(each)


def _issue(warning: warnings.WarningMessage) -> None:
    registry = next(
        (
            vars(module).setdefault("__warningregistry__", {})
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None) == warning.filename
        ),
        None,
    )
    warnings.warn_explicit(
        warning.message,
        warning.category,
        warning.filename,
        warning.lineno,
        registry=registry,
        source=warning.source,
    )


def _set_warnings_hooks(hooks: list[Any]) -> None:
    for name, value in zip(_WARNINGS_HOOKS, hooks, strict=True):
        if value is not None:
            setattr(warnings, name, value)
    _invalidate_filters()
