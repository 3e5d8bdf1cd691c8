"""`pycudakit info` reports ten faults of an installation, each in one line with cause and remedy, quickly."""

import functools
import os
import platform
import resource
import shutil
import subprocess
import sys

import pytest

from pycudakit._native import loader

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="simulates Linux's libraries")
CUDA = loader.find("cuda")
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
needs_cuda_library = pytest.mark.skipif(CUDA is None, reason="needs the cuda library")

# A fake driver (libcuda.so.1) of some version without devices: the functions that CUDA's runtime calls first.
DRIVER = """
#include <stdint.h>
#include <string.h>
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { (void)flags; return 100; }
static int refuse(void) { return 100; }
int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    *found = !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
             : !strcmp(name, "cuInit")           ? (void *)cuInit
             : !strncmp(name, "cuGetProcAddress", 16) ? (void *)cuGetProcAddress_v2
                                                      : (void *)refuse;
    if (status) *status = 0;
    return 0;
}
int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, 0);
}
"""
# A library with the right name, but another ABI version.
OTHER_ABI = "#include <stdint.h>\nint32_t pk_abi_version(int64_t *version) { *version = 1; return 0; }\n"


def build(source, target, *options):
    target.parent.mkdir(exist_ok=True)
    code = target.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", *options, "-o", target, code], check=True)


# Seconds of work; where many processes have the GPU's driver begin at once, it waits for its locks at work.
MOST = 1 if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) < 8 else 3


@functools.cache
def most():
    """Return the allowed CPU seconds: on a slow machine, the time of four imports of NumPy."""
    before = seconds_of_children()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", "import numpy"], check=True, env=environment)
    return max(MOST, 4 * (seconds_of_children() - before))


def lines(**variables):
    """Return the output of `pycudakit info` with these environment variables; check its CPU time."""
    # The threads of NumPy's OpenBLAS are busy while they are begun, a second and more of many processors.
    kept = {"CUDA_VISIBLE_DEVICES": None, "OPENBLAS_NUM_THREADS": 1, **variables}
    environment = {k: str(v) for k, v in {**os.environ, **kept}.items() if v is not None}
    for _ in range(3):  # retries, for a busy machine
        before = seconds_of_children()
        done = subprocess.run(
            [sys.executable, "-m", "pycudakit", "info"],
            check=False,
            capture_output=True,
            env=environment,
            text=True,
            timeout=300,
        )
        took = seconds_of_children() - before
        assert (done.returncode, done.stderr) == (0, "")
        if took < most():
            return done.stdout.splitlines()
    pytest.fail(f"`pycudakit info` needs {took:.2f} s of a processor")


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def line_about(name, **variables):
    """Return the first line about an engine, library or compiler."""
    return next(line for line in lines(**variables) if line.split()[:1] == [name])


def test_a_library_is_missing(tmp_path):
    line = line_about("cpu", PYCUDAKIT_LIBRARY_DIR=tmp_path)
    assert "no library built: libpycudakit_cpu.so is at none of" in line
    assert "set PYCUDAKIT_LIBRARY_DIR to a folder that has libpycudakit_cpu.so, or unset it" in line
    assert "`pycudakit info`" not in line
    call = "import pycudakit as pk\nwith pk.engine('cpu'): pk.add([1], 1)"
    environment = {**os.environ, "PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", call], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stderr.endswith(f"{tmp_path}/libpycudakit_cpu.so: `pycudakit info` says what to do\n")


@needs_compiler
@needs_cuda_library
@pytest.mark.parametrize(
    ("version", "shown", "cause", "remedy"),
    [
        (12020, None, "driver too old", "update NVIDIA's driver to 580 or newer"),
        (99000, None, "no device", "check whether `nvidia-smi -L` lists a GPU"),
        (99000, "", "no device", "CUDA_VISIBLE_DEVICES is '' and hides GPUs: unset it"),
    ],
)
def test_of_the_driver(tmp_path, version, shown, cause, remedy):
    build(DRIVER, tmp_path / "libcuda.so.1", f"-DVERSION={version}")
    line = line_about("cuda", LD_LIBRARY_PATH=tmp_path, CUDA_VISIBLE_DEVICES=shown)
    assert f"not available: {cause}" in line
    assert remedy in line


@needs_compiler
@needs_cuda_library
def test_the_driver_is_missing(tmp_path):
    build("", tmp_path / "libcuda.so.1")  # found before the real driver: it has no functions
    line = line_about("cuda", LD_LIBRARY_PATH=tmp_path)
    assert "not available: no driver" in line
    assert "install its driver, 580 or newer" in line


@needs_compiler
def test_another_version_of_the_abi(tmp_path):
    build(OTHER_ABI, tmp_path / loader.file_name("cpu"))
    line = line_about("cpu", PYCUDAKIT_LIBRARY_DIR=tmp_path)
    assert "speaks version 1 of the ABI" in line
    assert "install the library and the package from one release" in line


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / loader.file_name("cpu")).write_bytes(b"the rest of a download")
    line = line_about("cpu", PYCUDAKIT_LIBRARY_DIR=tmp_path)
    assert "does not open" in line
    assert "check that the file is readable and complete" in line


@needs_cuda_library
def test_no_nvrtc_and_no_cublas(tmp_path):
    (tmp_path / "cuda").mkdir()  # found before NVIDIA's package `cuda`: it is empty
    (tmp_path / "cuda" / "__init__.py").write_text("")
    (tmp_path / "cuda" / "pathfinder.py").write_text("def load_nvidia_dynamic_lib(_): raise RuntimeError\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": path, "LD_LIBRARY_PATH": None, "CUDA_VISIBLE_DEVICES": ""}
    if line_about("nvrtc", **variables).split()[1] != "missing:":
        pytest.skip("the system has them, too")
    line = line_about("nvrtc", **variables)
    assert "compiled by NVRTC, which is not installed" in line
    assert 'pip install "pycudakit[cuda13]"' in line
    line = line_about("cublas", **variables)
    assert "missing: matrix products on a GPU run without cuBLAS" in line
    assert 'pip install "pycudakit[cuda13]"' in line


def test_no_compiler():
    line = line_about("c++", CXX="/no/such/compiler")
    assert "CXX=/no/such/compiler is missing: install g++" in line
