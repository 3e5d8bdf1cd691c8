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
_errors_in_force: Callable[[], Any] = getattr(
    getattr(importlib.import_module("numpy._core.umath"), "_extobj_contextvar", None), "get", np.geterr
)
# And what `warnings.catch_warnings` does.
_OF_WARNINGS = ("filters", "showwarning", "_showwarnmsg_impl")
_forget_filters: Callable[[], None] = getattr(warnings, "_filters_mutated", lambda: None)


class Reporting:
    """What was in force when it was last looked: how numpy treats errors, and warnings are shown.

    `is_at_once` tells whether an operation has to report in its line: where that may raise, or call
    somebody, or where warnings are caught in the function itself.
    """

    def __init__(self) -> None:
        self._first_filters = warnings.filters
        self._look()

    def _look(self) -> None:
        self._errors, self._in_force = np.geterr(), _errors_in_force()
        self._filters = warnings.filters
        self._shown = [getattr(warnings, name, None) for name in _OF_WARNINGS]
        is_quiet = _QUIET.issuperset(self._errors.values())
        self.is_at_once = not is_quiet or self._filters is not self._first_filters

    def has_changed(self) -> bool:
        """Tell whether something else is in force now."""
        return _errors_in_force() is not self._in_force or warnings.filters is not self._filters

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """Have in force what was, in a block; what is now, from then on."""
        now = [getattr(warnings, name, None) for name in _OF_WARNINGS]
        try:
            with np.errstate(**self._errors):
                _show(self._shown)
                self._in_force, self._filters = _errors_in_force(), warnings.filters
                yield
        finally:
            _show(now)
            self._look()


def _show(how: list[Any]) -> None:
    for name, value in zip(_OF_WARNINGS, how, strict=True):
        if value is not None:
            setattr(warnings, name, value)
    _forget_filters()
