"""An import finder that makes `import pycudakit.numpy.ma` (and other submodules) return NumPy's module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]
_OWN_SUBMODULES = frozenset(
    {f"{_PACKAGE}.{name}" for name in ("_exports", "_submodules", "fft", "linalg", "random")}
)


class _NumPyLoader(Loader):
    """A loader that returns NumPy's module object under another name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return NumPy's module."""
        module = importlib.import_module(_numpy_name(spec.name))
        self._spec: Any = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec of the module, which the import has replaced."""
        module.__spec__ = self._spec


class _Finder(MetaPathFinder):
    """A finder for submodules that NumPy has and this package does not."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return a spec for a module that exists only in NumPy; else None."""
        if not fullname.startswith(_PACKAGE + ".") or fullname in _OWN_SUBMODULES:
            return None
        name = _numpy_name(fullname)
        exists = name in sys.modules or importlib.util.find_spec(name) is not None
        return ModuleSpec(fullname, _NumPyLoader()) if exists else None


def _numpy_name(name: str) -> str:
    return "numpy" + name.removeprefix(_PACKAGE)


def install_finder() -> None:
    """Install the finder, once per process."""
    if not any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
