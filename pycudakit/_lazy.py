"""Modules that are imported when one of their names is first asked for: `import pycudakit` is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

FAMILIES: dict[str, dict[str, tuple[str, ...]]] = {}  # of each package, modules and their public names


class _Package(ModuleType):
    """The package; whoever imports one of the families, the package has its names from then on."""

    def __setattr__(self, name: str, value: Any) -> None:
        names = FAMILIES[self.__name__].get(name, ()) if isinstance(value, ModuleType) else ()
        for public in names:
            vars(self).setdefault(public, getattr(value, public))
        if name not in names:  # `histogram` is the function, and not the module that it is in
            super().__setattr__(name, value)


def families(package: str, modules: Mapping[str, str]) -> None:
    """Give a package the modules' public names, which are separated by spaces.

    Each is found by PEP 562 the first time, and is an ordinary attribute afterwards.
    """
    families = FAMILIES[package] = {module: tuple(names.split()) for module, names in modules.items()}
    homes = {module: module for module in modules}  # a name's module
    homes.update((name, module) for module, names in families.items() for name in names)
    this = sys.modules[package]
    this.__class__ = _Package

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=this)
        home = homes[name]
        module = importlib.import_module(f"{package}.{home}")
        setattr(this, home, module)  # if another thread has imported it, it may not have come to this yet
        return vars(this)[name]

    def names() -> list[str]:
        return sorted({*vars(this), *homes})

    vars(this).update(__getattr__=get, __dir__=names)
