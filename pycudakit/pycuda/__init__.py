"""PyCUDA's names: programs that were written for PyCUDA run as they are, on a GPU and without one.

``pycudakit pycuda train.py`` runs a program with this package in PyCUDA's place; `install` does so inside
of a program.
"""

import importlib
from typing import Any

from pycudakit.pycuda._finder import install

__all__ = ["VERSION", "VERSION_STATUS", "VERSION_TEXT", "install"]

VERSION = (2026, 1)
VERSION_STATUS = ""
VERSION_TEXT = ".".join(map(str, VERSION)) + VERSION_STATUS

# PyCUDA's modules import each other, and programs use more of them than they import.
_MODULES = """characterize compiler cumath curandom driver elementwise gpuarray reduction scan tools"""


def __getattr__(name: str) -> Any:
    if name in _MODULES.split():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
