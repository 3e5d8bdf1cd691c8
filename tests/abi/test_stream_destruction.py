"""A stream's owner waits for the stream's work, since the memory of that work is freed next."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc")


@pytest.mark.thorough
@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
@pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="csrc/ is not beside the tests")
def test_the_destructor_waits_for_the_kernel(engine, tmp_path):
    if engine != "cuda":
        pytest.skip("it has no streams")
    program = tmp_path / "stream_destruction"
    source = ROOT / "tests" / "client" / "stream_destruction.cu"
    built = subprocess.run(
        [NVCC, "-std=c++17", "-arch=native", "-I", ROOT / "csrc", "-o", program, source],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    ran = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout or "the stream was destroyed before its kernel had ended"
