"""The import of `pycuda` and its submodules, in whose place those of this package are."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_OURS = __name__.rpartition(".")[0]
_THEIRS = "pycuda"


class _Loader(importlib.abc.Loader):
    """Returns the module of this package, which keeps its own spec."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:  # noqa: ARG002
        """Import the module by its own name."""
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's spec, which the import has replaced."""
        module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `pycuda` and its submodules."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module that this package has."""
        if fullname != _THEIRS and not fullname.startswith(f"{_THEIRS}."):
            return None
        name = _OURS + fullname[len(_THEIRS) :]
        if importlib.util.find_spec(name) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(name))


def install() -> None:
    """Have `import pycuda` import `pycudakit.pycuda`, from here on; a second call does nothing.

    Raises
    ------
    RuntimeError
        PyCUDA itself has been imported.
    """
    existing = sys.modules.get(_THEIRS)
    if existing is sys.modules[_OURS]:
        return
    if existing is not None:
        raise RuntimeError(
            "PyCUDA was imported before: call pycudakit.pycuda.install() at the beginning of the program"
        )
    sys.meta_path.insert(0, _Finder())
    sys.modules[_THEIRS] = sys.modules[_OURS]
