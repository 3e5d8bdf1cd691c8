"""The host code of the CUDA engine without a GPU, against `tests/client/fake_cuda_runtime.h`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CSRC, CLIENT = ROOT / "csrc", ROOT / "tests" / "client"
NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc")
SOURCES = {
    "": "requests.cu",
    "cuda/kernels": "buffers.cpp run_resources.cpp",
    "cuda/residency": "execute.cpp operands.cpp request_graphs.cpp residency_map.cpp",
    "cuda/pipeline": "*.cpp",
    "cuda/runtime": "cuda.cpp device_pool.cpp execution_context.cpp pinned_memory.cpp tuning.cpp",
    "common": "layout.cpp requests.cpp",
    "common/call": "call.cpp environment.cpp parallel_for.cpp status.cpp thread_pool.cpp",
}

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.ci,
    pytest.mark.skipif(NVCC is None, reason="needs nvcc, for CUDA's headers"),
    pytest.mark.skipif(not CSRC.is_dir(), reason="csrc/ is not beside the tests"),
]


def compiled(output, *arguments):
    flags = ["-std=c++17", "-O0", "-DPK_BUILDING", "-I", CSRC, "--cudart=none"]
    done = subprocess.run(
        [NVCC, *flags, "-o", output, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Compile the sources, of which each program links those that it uses."""
    files = [
        path
        for folder, patterns in SOURCES.items()
        for pattern in patterns.split()
        for path in (CSRC / folder).glob(pattern)
    ]
    return compiled(tmp_path_factory.mktemp("fake_cuda") / "sources.a", "-lib", "-x", "c++", *files)


@pytest.mark.parametrize("program", ["device_pool", "execute", "lru_cache", "requests"])
def test_program(program, archive, tmp_path):
    """Lists of requests, calls on operands on a device, the pool of device memory, and the LRU cache."""
    source = compiled(tmp_path / f"{program}.o", "-x", "c++", "-c", CLIENT / f"{program}.cpp")
    path = compiled(tmp_path / program, source, archive, "-lpthread")
    ran = subprocess.run([path], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stdout + ran.stderr
