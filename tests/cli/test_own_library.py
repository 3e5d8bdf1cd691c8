"""examples/own_library builds, and its tests pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2] / "examples" / "own_library"


def run(*command, **keywords):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, **keywords)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.thorough
@pytest.mark.ci
@pytest.mark.skipif(not PROJECT.is_dir(), reason="examples/ is not beside the tests")
@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs CMake and a compiler"
)
def test_own_library(tmp_path):
    has_cuda = bool(shutil.which("nvcc") or os.environ.get("CUDACXX"))
    make = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    run("cmake", "-S", PROJECT, "-B", tmp_path, "-G", make, f"-DOWN_CUDA={'ON' if has_cuda else 'OFF'}")
    run("cmake", "--build", tmp_path)
    own = {"OWN_LIBRARY_DIR": str(tmp_path), "PYTHONPATH": str(PROJECT), "PYTEST_ADDOPTS": ""}
    where = {**os.environ, **own}
    tests = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PROJECT / "tests", env=where)
    assert "6 passed" in tests
    shown = "import own_library; print(own_library.ENGINE, own_library.scale([1, 2, 3], 0.5))"
    engine, _, values = run(sys.executable, "-c", shown, env=where).strip().partition(" ")
    assert engine in (("cpu", "cuda") if has_cuda else ("cpu",))
    assert values == "[0.5 1.  1.5]"
