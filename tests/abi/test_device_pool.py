"""The device pool, the staging slots and staged copies keep budgets and the order of streams, without a GPU.

`tests/client/device_pool.cpp` fakes the CUDA runtime, with logical clocks in place of a GPU.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc")
SOURCES = [
    *(
        f"csrc/cuda/runtime/{name}.cpp"
        for name in ("cuda", "device_pool", "execution_context", "pinned_memory", "tuning")
    ),
    *(f"csrc/cuda/pipeline/{name}.cpp" for name in ("staged_copy", "staging_slots", "staging_thread")),
    *(f"csrc/common/call/{name}.cpp" for name in ("call", "environment", "status", "thread_pool")),
]


@pytest.mark.thorough
@pytest.mark.skipif(NVCC is None, reason="needs nvcc, for CUDA's headers")
@pytest.mark.skipif(not (ROOT / "csrc").is_dir(), reason="csrc/ is not beside the tests")
def test_budgets_order_and_copies(tmp_path):
    program = tmp_path / "device_pool"
    sources = [ROOT / source for source in (*SOURCES, "tests/client/device_pool.cpp")]
    flags = ["-std=c++17", "-O1", "-DPK_BUILDING", "-I", ROOT / "csrc", "--cudart=none"]
    built = subprocess.run(
        [NVCC, *flags, "-o", program, *sources, "-lpthread"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    ran = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stdout + ran.stderr
