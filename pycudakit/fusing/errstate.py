"""How a function wants to be told of floating-point errors, and that it has changed its mind."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_QUIET = frozenset({"ignore", "warn"})

# What `numpy.errstate` changes: an object that is another one where it is in force.
_errstate_object: Callable[[], Any] = getattr(
    getattr(importlib.import_module("numpy._core.umath"), "_extobj_contextvar", None), "get", np.geterr
)
# And what `warnings.catch_warnings` does.
_WARNINGS_HOOKS = ("filters", "showwarning", "_showwarnmsg_impl")
_invalidate_filters: Callable[[], None] = getattr(warnings, "_filters_mutated", lambda: None)


class ErrstateSnapshot:
    """What was in force when it was last looked: how numpy treats errors, and warnings are shown.

    `is_at_once` tells whether an operation has to report in its line: where that may raise, or call
    somebody, or where warnings are caught in the function itself.
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
        """Tell whether something else is in force now."""
        return _errstate_object() is not self._in_force or warnings.filters is not self._filters

    @contextlib.contextmanager
    def previous_in_force(self) -> Iterator[None]:
        """Have in force what was, in a block; what is now, from then on."""
        now = [getattr(warnings, name, None) for name in _WARNINGS_HOOKS]
        try:
            with np.errstate(**self._errors):
                _set_warnings_hooks(self._shown)
                self._in_force, self._filters = _errstate_object(), warnings.filters
                yield
        finally:
            _set_warnings_hooks(now)
            self._take()


def _set_warnings_hooks(how: list[Any]) -> None:
    for name, value in zip(_WARNINGS_HOOKS, how, strict=True):
        if value is not None:
            setattr(warnings, name, value)
    _invalidate_filters()
