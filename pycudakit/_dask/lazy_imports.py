"""Modules that are imported where they are needed: Dask, which is optional, and the package above this."""

from __future__ import annotations

import importlib
from typing import Any


def dask_array() -> Any:
    """Return `dask.array`."""
    return importlib.import_module("dask.array")


def public_api() -> Any:
    """Return `pycudakit`."""
    return importlib.import_module("pycudakit")
