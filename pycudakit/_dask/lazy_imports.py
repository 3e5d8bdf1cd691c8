"""Deferred imports: `dask.array`, which is optional, and `pycudakit`, which imports this package."""

from __future__ import annotations

import importlib
from typing import Any


def dask_array() -> Any:
    """Import and return `dask.array`."""
    return importlib.import_module("dask.array")


def public_api() -> Any:
    """Import and return `pycudakit`."""
    return importlib.import_module("pycudakit")
