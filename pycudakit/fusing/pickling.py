"""Helpers to pickle fused functions.

A fused function that its module shows by its name is pickled by that name, as functions are. The functions of
a script cannot be found by that name in a process that runs another script: there the wrapped function is
pickled, under an alias.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

UNFUSED = "_unfused"  # the attribute of `Fused` by which pickles find the wrapped function of a script


def find_by_name(module: str, name: str) -> Any:
    """Return a module's attribute by its dotted name, or None."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def unfused_alias(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function whose qualified name leads to the copy, not to the fused function.

    `pickle` stores the alias by name, for this script and the processes that it starts. cloudpickle stores
    the code of functions that are defined in a script, so that its pickles work in any process.
    """
    if not isinstance(function, FunctionType):
        return function
    alias = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    alias.__kwdefaults__, alias.__doc__ = function.__kwdefaults__, function.__doc__
    alias.__module__ = function.__module__
    alias.__dict__.update(function.__dict__)
    alias.__qualname__ = f"{function.__qualname__}.{UNFUSED}"
    return alias
