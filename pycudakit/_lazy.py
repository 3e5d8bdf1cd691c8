"""Lazy public names: their modules are imported on first access (PEP 562), so `import pycudakit` is fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

MODULES_OF_NAMES: dict[str, dict[str, str]] = {}  # for each package, the module of each public name


def attach(
    package: str,
    modules: Mapping[str, str],
    wrap: Callable[[FunctionType], Any] | None = None,
    unwrapped: str = "",
) -> None:
    """Give a package the public names of modules, as lazy attributes.

    Parameters
    ----------
    package
        The package's name.
    modules
        For each module, relative to the package, its public names, separated by spaces. A module directly in
        the package is itself a name, too.
    wrap
        Called with each function; its result becomes the attribute.
    unwrapped
        The names of functions that are not wrapped, separated by spaces.
    """
    module_of = MODULES_OF_NAMES[package] = {
        name: module for module, names in modules.items() for name in names.split()
    }
    module_of.update((module, module) for module in modules if "." not in module)
    this = sys.modules[package]

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=this)
        module = importlib.import_module(f"{package}.{module_of[name]}")
        value = module if module_of[name] == name else getattr(module, name)
        if wrap is not None and isinstance(value, FunctionType) and name not in unwrapped.split():
            value = wrap(value)
        vars(this).setdefault(name, value)
        set_public_module(package, [name])
        return vars(this)[name]

    def names() -> list[str]:
        return sorted({*vars(this), *module_of})

    vars(this).update(__getattr__=get, __dir__=names)


def lazy_function(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls a module's function, and imports the module at the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


def set_public_module(package: str, names: Iterable[str]) -> None:
    """Set `__module__` of a package's public names to the package: pickles then name no private module."""
    namespace = vars(sys.modules[package])
    for name in names:
        if getattr(namespace.get(name), "__module__", "").startswith(f"{package}."):
            namespace[name].__module__ = package
