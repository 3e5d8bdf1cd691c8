"""Modules of benchmarks/, which tests share with the scripts there."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name):
    """Return a module of benchmarks/; skip the tests of a module if the folder is not beside the tests."""
    path = FOLDER / f"{name}.py"
    if not path.exists():
        pytest.skip("benchmarks/ is not beside the tests", allow_module_level=True)
    sys.path.insert(0, str(FOLDER))  # for the modules that the script imports
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module
