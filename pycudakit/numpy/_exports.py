"""Which of NumPy's names are pycudakit's, and modules that show both."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_ROOT = __name__.rpartition(".")[0]
_SUBMODULES = ("linalg", "random")  # that are modules here
_FROM_PYCUDAKIT: dict[str, Mapping[str, object]] = {}  # of each module here, the names that are not NumPy's
# Names of pycudakit's that mean something else: its own headers, and copies where NumPy has views.
_DIFFERENT_MEANING = frozenset({"get_include", "ascontiguousarray", "flip", "swapaxes", "transpose"})


def _shared_names(numpy_module: ModuleType, pk: ModuleType) -> dict[str, str]:
    """Return NumPy's names and aliases of functions that the kit has, each with its name there."""
    known = {name: value for name, value in vars(numpy_module).items() if callable(value)}
    shared = [name for name in pk.__all__ if name in known and name not in _DIFFERENT_MEANING]
    name_of = {id(known[name]): name for name in shared}
    resolved = {name: name_of[id(value)] for name, value in known.items() if id(value) in name_of}
    return resolved | {name: name for name in shared}


def populate(package: str, **factories: Callable[[], Any]) -> None:
    """Have a module here show all names of NumPy's, but the kit's functions where it has them.

    Each of `own` makes what a name means in neither. What was asked for is an ordinary attribute (PEP 562).
    """
    below = package.removeprefix(_ROOT)
    numpy_module, pk = (importlib.import_module(root + below) for root in ("numpy", "pycudakit"))
    from_pycudakit: dict[str, Any] = {**_shared_names(numpy_module, pk), **factories}
    this = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in _SUBMODULES and package == _ROOT:
            return importlib.import_module(f"{_ROOT}.{name}")
        if name in factories:
            resolved = factories[name]()
            resolved.__module__ = package  # which pickles then name
        elif name in from_pycudakit:
            resolved = getattr(pk, from_pycudakit[name])
        else:
            resolved = getattr(numpy_module, name)  # or NumPy's own words about what it has no longer
        return this.setdefault(name, resolved)

    def names() -> list[str]:
        return sorted({*dir(numpy_module), *factories, *(name for name in this if name.startswith("__"))})

    _FROM_PYCUDAKIT[package] = from_pycudakit
    this.update(__getattr__=get, __dir__=names, __all__=[*numpy_module.__all__])


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
    origins = {}
    for submodule in ("", *_SUBMODULES):
        module = importlib.import_module(f"{_ROOT}.{submodule}".rstrip("."))
        from_pycudakit = _FROM_PYCUDAKIT[module.__name__]
        for name in sorted(module.__all__):
            if submodule or name not in _SUBMODULES:
                origins[f"{submodule}.{name}".lstrip(".")] = (
                    "pycudakit" if name in from_pycudakit else "numpy"
                )
    return origins
