"""`pycudakit wrap`: the package that it writes, its checks, and the example that is its output."""

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit.kernels.compiling import host_compiler
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.wrapping import cpu_build, declarations, library, package

EXAMPLE = Path(__file__).parents[2] / "examples" / "wrapped"
SOURCE = """
#include "scale.h"
struct Box { float low; double high[2]; };
__global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = SCALED(x[i], by);
}
#define LAUNCH(blocks) scale<<<blocks, 64>>>  // which the CPU engine refuses, and nvcc takes
extern "C" {
// @out y[n]
void scaled(const float *x, float *y, float by, int n) {
    for (int i = 0; i < n; ++i) y[i] = SCALED(x[i], by);
}
// @out low[n], high[2 * n]
int split(const Box *boxes, float *low, double *high, int n, Box first, float2 more) {
    for (int i = 0; i < n; ++i) {
        low[i] = boxes[i].low + more.y;
        for (int j = 0; j < 2; ++j) high[2 * i + j] = boxes[i].high[j];
    }
    return int(first.low);
}
int fails(int status) { return status; }
const char *title(void) { return "wrapped"; }
void throws(unsigned char count) { if (count) throw 3; }
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "scale.h").write_text("#define SCALED(x, by) ((x) * (by))\n")
    path = tmp_path / "boxes.cu"
    path.write_text(SOURCE)
    return path


def wrap(*arguments):
    return main(["wrap", *map(str, arguments)])


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="examples/ is not beside the tests")
def test_the_example_is_the_output():
    files = package.contents(EXAMPLE / "csrc" / "sum.cu", "mysum", ["launch_sum_kernel: out[n]"])
    assert package.differences(files, EXAMPLE) == []
    there = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*") if path.is_file()}
    assert {name for name in there if "__pycache__" not in name and ".pytest_cache" not in name} == set(files)


def test_files_and_checks_of_them(source, tmp_path, capsys):
    to = tmp_path / "package"
    command = (source, "--name", "boxes", "--to", to, "--returns-status", "fails")
    assert wrap(*command) == 0
    assert (to / "csrc" / "boxes.cu").read_text() == SOURCE
    assert (to / "csrc" / "scale.h").read_bytes() == (tmp_path / "scale.h").read_bytes()
    assert {path.name for path in to.iterdir()} == {
        "CMakeLists.txt",
        "README.md",
        "boxes",
        "csrc",
        "pyproject.toml",
        "tests",
    }
    assert "pip install" in capsys.readouterr().out
    assert wrap(*command, "--check") == 0
    assert "is up to date" in capsys.readouterr().out
    assert wrap(*command) == 2
    assert "exists, and is not empty: name another by --to, or give --force" in capsys.readouterr().err
    (to / "boxes" / "__init__.py").write_text("")
    (to / "README.md").unlink()
    assert wrap(*command, "--check") == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{to}/README.md is missing",
        f"{to}/boxes/__init__.py differs",
    ]
    assert wrap(*command, "--force") == 0
    assert wrap(*command, "--check") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "my-boxes"], "--name my-boxes: give a name of Python"),
        (["--name", "class"], "--name class: give a name of Python"),
        (["--name", "boxes", "--out", "other: y[n]"], "names no function of the source"),
        (["--name", "boxes", "--returns-status", "other"], "names no function of the source"),
    ],
)
def test_commands_that_are_refused(source, tmp_path, capsys, arguments, message):
    assert wrap(source, "--to", tmp_path / "to", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_usage_and_a_file_that_does_not_exist(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        wrap("x.cu")
    assert stopped.value.code == 2
    assert "--name" in capsys.readouterr().err
    assert wrap(tmp_path / "x.cu", "--name", "x", "--to", tmp_path / "x") == 2
    assert capsys.readouterr().err == f"pycudakit: there is no file {tmp_path / 'x.cu'}\n"


def test_names_that_clash(tmp_path, capsys):
    path = tmp_path / "x.cu"
    for text, message in (
        ('\nextern "C" void f(float *np, int n) {}', "parameter 'np' has a name of the package's module"),
        ('\nextern "C" void ctypes(int n) {}', "'ctypes' is no name"),
    ):
        path.write_text(text)
        assert wrap(path, "--name", "x", "--to", tmp_path / "x") == 1
        assert message in capsys.readouterr().err


@pytest.fixture
def imported(source, tmp_path, monkeypatch):
    """The package, imported with a library for the CPU, which has the same table."""
    to = tmp_path / "package"
    assert wrap(source, "--name", "boxes_package", "--to", to, "--returns-status", "fails") == 0
    text = SOURCE.replace("int fails", "// @status\nint fails").replace("#define LAUNCH", "// ")
    of_cpu = Source(
        text=text, name="boxes.cu", options=(), include_dirs=(str(tmp_path),), no_extern_c=True, debug=False,
        arch="", kernels=(),
    )  # fmt: skip
    wrapped = declarations.read(text, "boxes.cu", (), (str(tmp_path),))
    translated, headers = cpu_build.translated(wrapped, of_cpu)
    compiled = host_compiler.compile_host_code(translated, of_cpu, headers=headers)
    path = to / "libboxes_package_cuda.so"
    path.write_bytes(compiled.data)
    ctypes.CDLL(str(path)).pk_set_engine(*map(ctypes.c_void_p, library.engine_functions()))
    monkeypatch.setenv("BOXES_PACKAGE_LIBRARY_DIR", str(to))
    monkeypatch.syspath_prepend(to)
    yield importlib.import_module("boxes_package")
    del sys.modules["boxes_package"]


def test_functions_of_a_package(imported):
    x = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(imported.scaled(x, 2.0, 10), x * 2)
    y = np.zeros(5, np.float32)
    assert imported.scaled(x[::2], 3.0, 5, y=y) is None
    np.testing.assert_array_equal(y, x[::2] * 3)
    boxes = np.zeros(3, imported.DTYPES["Box"])
    boxes["low"], boxes["high"] = [1, 2, 3], [[1, 2], [3, 4], [5, 6]]
    result, low, high = imported.split(boxes, 3, boxes[1], np.array([0, 0.5], np.float32))
    assert result == 2
    assert low.tolist() == [1.5, 2.5, 3.5]
    assert high.tolist() == [1, 2, 3, 4, 5, 6]
    assert imported.title() == "wrapped"
    assert imported.fails(0) is None
    with pytest.raises(RuntimeError, match="12"):
        imported.fails(12)
    with pytest.raises(RuntimeError, match="exception"):
        imported.throws(1)
    with pytest.raises(TypeError, match="scaled: x takes arrays of float32, and is given float64"):
        imported.scaled(np.ones(3), 2.0, 3)
    with pytest.raises(ValueError, match="scaled: x needs at least n elements, which is 11, and has 10"):
        imported.scaled(x, 2.0, 11)
    with pytest.raises(ValueError, match="scaled: y is written, and is not contiguous or not writeable"):
        imported.scaled(x, 2.0, 3, y=np.zeros(6, np.float32)[::2])
    with pytest.raises(OverflowError, match="fails: status is 2147483648, which does not fit in int32"):
        imported.fails(2**31)


def test_tests_of_a_package(imported, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "package"), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "package" / "tests"],
        capture_output=True, text=True, timeout=600, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "6 passed, 5 skipped" in done.stdout


@pytest.mark.thorough
@pytest.mark.ci
@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="examples/ is not beside the tests")
@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("nvcc") is None, reason="needs CMake and nvcc"
)
def test_the_example_is_built(tmp_path):
    """With a GPU its tests pass; without one its import says so."""
    make = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    for command in (["cmake", "-S", EXAMPLE, "-B", tmp_path, "-G", make], ["cmake", "--build", tmp_path]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    own = {"MYSUM_LIBRARY_DIR": str(tmp_path), "PYTHONPATH": str(EXAMPLE), "PYTEST_ADDOPTS": ""}
    environment = {**os.environ, **own}
    if pk.engines()["cuda"].available:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests"]
        expected = "4 passed, 1 skipped"
    else:
        command = [sys.executable, "-c", "import mysum"]
        expected = "needs an NVIDIA GPU, and there is none; without a GPU, pycudakit.wrap('sum.cu') runs"
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert expected in done.stdout + done.stderr
