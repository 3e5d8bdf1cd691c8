"""Which of NumPy's names are pycudakit's, and modules that show both."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_ROOT = __name__.rpartition(".")[0]
_ROOMS = ("linalg", "random")  # that are modules here
_WHOSE: dict[str, Mapping[str, object]] = {}  # of each module here, the names that are not NumPy's
# Names of pycudakit's that mean something else: its own headers, and copies where NumPy has views.
_MEANT_OTHERWISE = frozenset({"get_include", "ascontiguousarray", "flip", "swapaxes", "transpose"})


def _ours_of(numpys: ModuleType, kit: ModuleType) -> dict[str, str]:
    """Return NumPy's names and aliases of functions that the kit has, each with its name there."""
    known = {name: value for name, value in vars(numpys).items() if callable(value)}
    shared = [name for name in kit.__all__ if name in known and name not in _MEANT_OTHERWISE]
    name_of = {id(known[name]): name for name in shared}
    found = {name: name_of[id(value)] for name, value in known.items() if id(value) in name_of}
    return found | {name: name for name in shared}


def show(package: str, **own: Callable[[], Any]) -> None:
    """Have a module here show all names of NumPy's, but the kit's functions where it has them.

    Each of `own` makes what a name means in neither. What was asked for is an ordinary attribute (PEP 562).
    """
    below = package.removeprefix(_ROOT)
    numpys, kit = (importlib.import_module(root + below) for root in ("numpy", "pycudakit"))
    ours: dict[str, Any] = {**_ours_of(numpys, kit), **own}
    this = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in _ROOMS and package == _ROOT:
            return importlib.import_module(f"{_ROOT}.{name}")
        if name in own:
            found = own[name]()
            found.__module__ = package  # which pickles then name
        elif name in ours:
            found = getattr(kit, ours[name])
        else:
            found = getattr(numpys, name)  # or NumPy's own words about what it has no longer
        return this.setdefault(name, found)

    def names() -> list[str]:
        return sorted({*dir(numpys), *own, *(name for name in this if name.startswith("__"))})

    _WHOSE[package] = ours
    this.update(__getattr__=get, __dir__=names, __all__=[*numpys.__all__])


def coverage() -> dict[str, str]:
    """Tell of each public name whose it is.

    Returns
    -------
    dict
        ``"pycudakit"`` or ``"numpy"``, by name; the names of `linalg` and `random` are ``"linalg.norm"`` and
        the like.

    Examples
    --------
    >>> import pycudakit.numpy as np
    >>> whose = np.coverage()
    >>> whose["sort"], whose["linalg.norm"], whose["linalg.svd"], whose["asarray"]
    ('pycudakit', 'pycudakit', 'numpy', 'numpy')
    """
    told = {}
    for room in ("", *_ROOMS):
        module = importlib.import_module(f"{_ROOT}.{room}".rstrip("."))
        ours = _WHOSE[module.__name__]
        for name in sorted(module.__all__):
            if room or name not in _ROOMS:
                told[f"{room}.{name}".lstrip(".")] = "pycudakit" if name in ours else "numpy"
    return told
