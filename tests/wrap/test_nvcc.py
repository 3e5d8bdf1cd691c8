"""nvcc: which one is taken, how it is called, and, where there is one, the libraries that it builds."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit.__main__ import main
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.wrapping import cpu_build, cuda_build, declarations, library

SOURCE = """
#include "by.h"
struct Line { float slope, offset; };
__global__ void evaluate(const float *x, float *y, Line line, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = BY * (line.slope * x[i] + line.offset);
}
extern "C" {
// @out y[n]
void evaluated(const float *x, float *y, Line line, int n) {
    float *d_x, *d_y;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_y, n * sizeof(float));
    cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice);
    evaluate<<<(n + 255) / 256, 256>>>(d_x, d_y, line, n);
    cudaMemcpy(y, d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
    cudaFree(d_y);
}
int64_t sum(const int64_t *x, unsigned char n) { int64_t s = 0; while (n) s += x[--n]; return s; }
// @status
int status(double4 *at, bool fails) { at->w = 3; return fails; }
const char *title() { return "wrapped"; }
}
""".replace("struct Line", "#include <cstdint>\nstruct Line", 1)


def source_of(text, folder, options=("-DBY=2",)):
    return Source(
        text=text, name="line.cu", options=options, include_dirs=(str(folder),), no_extern_c=True,
        debug=False, arch="sm_75", kernels=(),
    )  # fmt: skip


def program(path, text="#!/bin/sh\nexit 1\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def compilers(tmp_path, monkeypatch):
    """One in each place; the first that is found counts."""
    found = {
        "CUDACXX": program(tmp_path / "named" / "my-nvcc"),
        "wheel": program(tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvcc"),
        "CUDA_HOME": program(tmp_path / "home" / "bin" / "nvcc"),
        "CUDA_PATH": program(tmp_path / "path" / "bin" / "nvcc"),
        "PATH": program(tmp_path / "bin" / "nvcc"),
        "system": program(tmp_path / "usr" / "nvcc"),
    }
    monkeypatch.setenv("CUDACXX", str(found["CUDACXX"]))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    for name in [name for name in sys.modules if name == "nvidia" or name.startswith("nvidia.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(cuda_build, "_SYSTEM", found["system"])
    return found


def test_the_order_in_which_nvcc_is_searched(compilers, monkeypatch):
    for name, path in compilers.items():
        assert cuda_build.nvcc() == str(path)
        assert cuda_build.why_not() is None
        path.unlink()
        if name == "CUDACXX":
            with pytest.raises(errors.CompileError, match="my-nvcc', which is no program: set it to nvcc"):
                cuda_build.nvcc()
            monkeypatch.delenv("CUDACXX")
        elif name == "wheel":
            monkeypatch.setattr(sys, "path", sys.path[1:])
            for module in [module for module in sys.modules if module.startswith("nvidia")]:
                monkeypatch.delitem(sys.modules, module)
            if next(cuda_build._places(), None) != compilers["CUDA_HOME"]:
                pytest.skip("the wheels of CUDA are installed")
    with pytest.raises(errors.CompileError, match=r'not installed: pip install "pycudakit\[wrap\]", or'):
        cuda_build.nvcc()


def test_a_program_that_is_not_executable_is_passed_over(compilers, monkeypatch):
    monkeypatch.delenv("CUDACXX")
    compilers["wheel"].chmod(0o644)
    assert cuda_build.nvcc() == str(compilers["CUDA_HOME"])


FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo release; exit; fi
printf "%s\\n" "$@" >FOLDER/given
while [ $# -gt 1 ]; do
    case $1 in -o) out=$2 ;; -MF) rule=$2 ;; esac
    shift
done
echo built >$out
echo 'wrapped.so: wrapped.cu /elsewhere/by.h' >$rule
echo warned >&2
"""


def test_the_command_of_nvcc(compilers, tmp_path, monkeypatch):
    """The library is its output; its log, and the headers in its rule, are kept."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program(compilers["CUDACXX"], FAKE.replace("FOLDER", str(tmp_path)))
    compiled = cuda_build.compile(source_of(SOURCE, tmp_path, options=("-DBY=2", "-lcublas", "-lineinfo")))
    assert compiled.data == b"built\n"
    assert compiled.log == "warned"
    assert compiled.read == ("/elsewhere/by.h",)
    given = (tmp_path / "given").read_text().split("\n")
    for option in ("-shared", "-arch=sm_75", "-DBY=2", "-lcublas", "-lineinfo", f"-I{tmp_path}"):
        assert option in given
    before = cuda_build.fingerprint()
    program(compilers["CUDACXX"], "#!/bin/sh\necho 'another release'\n")
    assert cuda_build.fingerprint() != before


def test_the_message_of_a_source_that_does_not_compile(compilers, tmp_path):
    program(compilers["CUDACXX"], "#!/bin/sh\necho 'line.cu(3): error: wrong' >&2\nexit 2\n")
    with pytest.raises(
        errors.CompileError, match=r"line\.cu does not compile with .*\nline\.cu\(3\): error: wrong"
    ):
        cuda_build.compile(source_of(SOURCE, tmp_path))


# ---- With nvcc -------------------------------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(cuda_build.why_not() is not None, reason="needs nvcc")


@functools.cache
def built(folder):
    """Return a library of nvcc's, on the engine cuda."""
    (folder / "by.h").write_text("#define BY 2\n")
    source = source_of(SOURCE, folder)
    path = folder / "line.so"
    compiled = cuda_build.compile(source)
    path.write_bytes(compiled.data)
    assert str(folder / "by.h") in compiled.read
    state = {"functions": None, "out": (), "inout": (), "name": "line.cu"}
    return library.Library(state, "cuda", str(path), source), path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nvcc")


@needs_nvcc
def test_the_table_of_a_library_of_nvcc(folder):
    """It is that of the library for the CPU."""
    made, _ = built(folder)
    wrapped = declarations.read(SOURCE, "line.cu", ("-DBY=2",), (str(folder),))
    state = {"functions": None, "out": (), "inout": (), "name": "line.cu"}
    of_cpu = folder / "cpu.so"
    of_cpu.write_bytes(cpu_build.compile(source_of(SOURCE, folder)).data)
    on_cpu = library.Library(state, "cpu", str(of_cpu), source_of(SOURCE, folder))
    assert made.functions == on_cpu.functions == tuple(one.name for one in wrapped.functions)
    assert made.dtypes == on_cpu.dtypes == {"Line": np.dtype([("slope", "f4"), ("offset", "f4")])}
    for name in made.functions:
        ours, theirs = getattr(made, name), getattr(on_cpu, name)
        assert ours.__doc__ == theirs.__doc__
        assert ours.argtypes == theirs.argtypes
        assert [one.ctype for one in ours.arguments] == [one.ctype for one in theirs.arguments]


@needs_nvcc
def test_the_symbols_of_a_library_of_nvcc(folder):
    _, path = built(folder)
    listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs nm")
    symbols = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert {name for name in symbols if name.startswith("pk_")} == {
        *(
            "pk_table_functions",
            "pk_table_message",
            "pk_table_call",
            "pk_table_parameters",
            "pk_table_devices",
        )
    }
    assert not {"evaluated", "sum", "title"} & symbols  # they clash with no other library's


@needs_nvcc
def test_calls_of_a_library_of_nvcc(folder):
    """Without a GPU, the functions of the host return CUDA's error; no argument of a wrong type is passed."""
    made, _ = built(folder)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ValueError, match=r"'x' .* at least n elements, which is 5"):
        made.evaluated(x, (2, 1), n=5)
    if pk.engines()["cuda"].available:
        np.testing.assert_array_equal(made.evaluated(x, (2, 1), n=4), 2 * (2 * x + 1))
        assert made.sum(np.arange(200), 200) == 19900
        return
    with pytest.raises(
        errors.DeviceError, match=r"evaluated: .*(CUDA driver version|no CUDA-capable device)"
    ):
        made.evaluated(x, (2, 1), n=4)
    at = np.zeros((1, 4))
    with pytest.raises(errors.DeviceError, match="status returned the status 1"):
        made.status(at, True)
    assert at.tolist() == [[0, 0, 0, 3]]


@needs_nvcc
def test_lines_of_messages_of_nvcc(tmp_path):
    (tmp_path / "by.h").write_text("#define BY 2\nstatic int in_header() { return undeclared; }\n")
    with pytest.raises(errors.CompileError, match=r"by\.h\(2\): error: .*undeclared") as refused:
        cuda_build.compile(source_of(SOURCE, tmp_path))
    assert os.fspath(tmp_path) in str(refused.value)
    text = SOURCE.replace("return fails;", "return fail;")
    (tmp_path / "by.h").write_text("#define BY 2\n")
    line = text[: text.index("return fail;")].count("\n") + 1
    with pytest.raises(errors.CompileError, match=rf"line\.cu\({line}\): error: .*fail"):
        cuda_build.compile(source_of(text, tmp_path))


@needs_nvcc
def test_the_package_of_a_source_that_only_nvcc_compiles(tmp_path, capsys, monkeypatch):
    path = tmp_path / "graphs.cu"
    path.write_text(
        """
// @out x[n]
extern "C" int nodes(float *x, int n) {
    cudaGraph_t graph;
    size_t count = 0;
    cudaGraphCreate(&graph, 0);
    cudaGraphGetNodes(graph, nullptr, &count);
    return int(count);
}
"""
    )
    command = ["wrap", str(path), "--name", "graphs", "--to", str(tmp_path / "package")]
    assert main(command) == 0
    assert (
        "def nodes(n: int, *, x: Any = None)" in (tmp_path / "package" / "graphs" / "__init__.py").read_text()
    )
    path.write_text(path.read_text().replace("int(count)", "undeclared"))
    assert main([*command, "--force"]) == 1
    assert re.search(r"graphs\.cu\(8\): error: .*undeclared", capsys.readouterr().err)
    monkeypatch.setattr(cuda_build, "nvcc", lambda: (_ for _ in ()).throw(errors.CompileError("no nvcc")))
    assert main([*command, "--force"]) == 1
    assert re.search(r"graphs\.cu:4:.*cudaGraph_t", capsys.readouterr().err)
