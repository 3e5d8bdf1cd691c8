"""Tests of the CUDA engine's host code without a GPU, against `tests/client/fake_cuda_runtime.h`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc")


def needs_sources(test):
    """Mark a test that builds such a program."""
    for mark in (
        pytest.mark.thorough,
        pytest.mark.ci,
        pytest.mark.skipif(NVCC is None, reason="needs nvcc, for CUDA's headers"),
        pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="csrc/ is not beside the tests"),
    ):
        test = mark(test)
    return test


def run(folder, name, sources):
    """Build `tests/client/name.cpp` with sources of `csrc/`, and run it."""
    program = folder / name
    files = [*(ROOT / "csrc" / source for source in sources), ROOT / "tests" / "client" / f"{name}.cpp"]
    flags = ["-x", "c++", "-std=c++17", "-O0", "-DPK_BUILDING", "-I", ROOT / "csrc", "--cudart=none"]
    built = subprocess.run(
        [NVCC, *flags, "-o", program, *files, "-lpthread"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    ran = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stdout + ran.stderr
