"""Names whose modules are imported when they are first asked for (PEP 562): `import pycudakit` is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

MODULES_OF_NAMES: dict[str, dict[str, str]] = {}  # of each package, its names' modules


def attach(
    package: str,
    modules: Mapping[str, str],
    wrap: Callable[[FunctionType], Any] | None = None,
    unwrapped: str = "",
) -> None:
    """Give a package the modules' public names, which are separated by spaces.

    Functions are entered through the `door`, but for those `without_door`.

    The modules that lie in the package itself are names, too. What was asked for is an ordinary attribute.
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
    """Return what calls a module's function, and has the module imported at the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


def set_public_module(package: str, names: Iterable[str]) -> None:
    """Let what a package shows be known by that place, which pickles then name: it stays where files move."""
    namespace = vars(sys.modules[package])
    for name in names:
        if getattr(namespace.get(name), "__module__", "").startswith(f"{package}."):
            namespace[name].__module__ = package
