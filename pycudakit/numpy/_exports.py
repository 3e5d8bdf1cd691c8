"""Lazy attributes of `pycudakit.numpy` and its submodules: pycudakit functions, else NumPy's.

Those of NumPy's functions that compute elements are guarded, so that a named engine refuses them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pycudakit.numpy import _numpy_only

_ROOT = __name__.rpartition(".")[0]
# Submodules of this package; NumPy's others are imported as they are.
_SUBMODULES = ("fft", "linalg", "random")
_FROM_PYCUDAKIT: dict[str, Mapping[str, object]] = {}  # module: its names that are not NumPy's
# Names that pycudakit has with another meaning: its own headers, and copies where NumPy has views.
_DIFFERENT_MEANING = frozenset({"get_include", "ascontiguousarray", "flip", "swapaxes", "transpose"})


def _modules(package: str) -> tuple[ModuleType, ModuleType]:
    """Return the modules of NumPy and of pycudakit that a package stands for."""
    submodule = package.removeprefix(_ROOT)
    return importlib.import_module(f"numpy{submodule}"), importlib.import_module(f"pycudakit{submodule}")


def shared_names(package: str) -> dict[str, str]:
    """Map the NumPy names, aliases included, of functions that pycudakit has to their names in pycudakit."""
    numpy_module, pk = _modules(package)
    known = {name: value for name, value in vars(numpy_module).items() if callable(value)}
    shared = [name for name in pk.__all__ if name in known and name not in _DIFFERENT_MEANING]
    name_of = {id(known[name]): name for name in shared}
    resolved = {name: name_of[id(value)] for name, value in known.items() if id(value) in name_of}
    return resolved | {name: name for name in shared}


def populate(package: str, shared: Mapping[str, str], **factories: Callable[[], Any]) -> None:
    """Install `__getattr__`, `__dir__` and `__all__` in a module, so that it has all names of NumPy's.

    The names in `shared` are those of pycudakit's functions. A factory creates the object of a name that is
    in neither library. A name becomes an ordinary attribute when it is first used (PEP 562).
    """
    submodule = package.removeprefix(_ROOT)
    numpy_module = importlib.import_module(f"numpy{submodule}")
    pk = importlib.import_module(f"pycudakit{submodule}") if shared else None
    from_pycudakit: dict[str, Any] = {**shared, **factories}
    numpy_only = _numpy_only.NAMES.get(submodule.lstrip("."), frozenset())
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in _SUBMODULES and package == _ROOT:
            return importlib.import_module(f"{_ROOT}.{name}")
        if name in factories:
            resolved = factories[name]()
            resolved.__module__ = package  # the module that pickles name
        elif name in from_pycudakit:
            resolved = getattr(pk, from_pycudakit[name])
        else:
            resolved = getattr(numpy_module, name)  # or NumPy's error for a name that it removed
            if name in numpy_only:
                resolved = _numpy_only.guarded(resolved, package, submodule.lstrip("."))
        return namespace.setdefault(name, resolved)

    def names() -> list[str]:
        return sorted(
            {*dir(numpy_module), *factories, *(name for name in namespace if name.startswith("__"))}
        )

    _FROM_PYCUDAKIT[package] = from_pycudakit
    namespace.update(__getattr__=get, __dir__=names, __all__=[*numpy_module.__all__])


def use_random() -> None:
    """Make `np.random.default_rng` and `np.random.Generator` those of pycudakit, in this process.

    They draw other numbers for a seed than NumPy's: `default_rng(seed)` is
    `pycudakit.random.default_rng(seed)` (Philox), not NumPy's (PCG64). Seeds and bit generators that only
    NumPy has still give NumPy's generator. Names that were imported from `pycudakit.numpy.random` before
    stay NumPy's.

    Examples
    --------
    >>> import pycudakit.numpy as np
    >>> np.coverage()["random.default_rng"]
    'numpy'
    >>> np.use_random()  # doctest: +SKIP
    >>> np.coverage()["random.default_rng"]  # doctest: +SKIP
    'pycudakit'
    """
    from pycudakit.numpy import _generators  # noqa: PLC0415 - imports pycudakit.random

    package = f"{_ROOT}.random"
    generators = {"Generator": _generators.Generator, "default_rng": _generators.default_rng}
    for each in generators.values():
        each.__module__ = package  # the module that pickles name
    vars(importlib.import_module(package)).update(generators)
    _FROM_PYCUDAKIT[package] = generators


def coverage() -> dict[str, str]:
    """Return the implementation that each public name refers to.

    Returns
    -------
    dict
        ``"pycudakit"`` or ``"numpy"``, by name; the names of `fft`, `linalg` and `random` are
        ``"linalg.norm"`` and the like.

    Examples
    --------
    >>> import pycudakit.numpy as np
    >>> names = np.coverage()
    >>> names["sort"], names["linalg.norm"], names["linalg.svd"], names["asarray"]
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
