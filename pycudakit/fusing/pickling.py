"""What pickles of fused functions say: a name, as those of functions do, or what is fused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

UNFUSED = "_unfused"  # the attribute by which pickles find what a script's fused function fuses


def find_by_name(module: str, name: str) -> Any:
    """Return what a module shows by a name with dots, or None."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def unfused_alias(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is this one, but that its name leads to it: past the fused one of that name.

    `pickle` takes it by its name, for this script and the processes that it starts; cloudpickle, which knows
    that others do not have the script, takes along what it is.
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
