"""Sources that do not compile, images, and modules of buffers and files."""

import numpy as np
import pytest

from pycudakit import errors
from pycudakit.pycuda import compiler
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda._cluda import CLUDA_PREAMBLE
from pycudakit.pycuda.compiler import SourceModule

SOURCE = "__global__ void f(int *x) { *x = 31; }"


def run(module):
    memory = drv.mem_alloc(4)
    module.get_function("f")(memory, block=(1, 1, 1))
    return int(drv.from_device(memory, 1, np.int32)[0])


def test_a_source_that_does_not_compile(engine):
    with pytest.raises(drv.CompileError) as caught:
        SourceModule("__global__ void f() {\n\n    oops;\n}", options=["-DN=1"])
    error = caught.value
    assert isinstance(error, errors.CompileError)
    assert "oops" in error.stderr
    assert "(3)" in error.stderr or ":3:" in error.stderr  # the user's line
    assert "-DN=1" in error.command_line
    assert error.stderr in str(error)
    assert "[command: nvcc" in str(error)


def test_images(engine):
    image = compiler.compile(SOURCE)
    assert isinstance(image, bytes)
    assert len(image) > 100
    assert run(drv.module_from_buffer(image)) == 31
    with pytest.raises(ValueError, match="target"):
        compiler.compile(SOURCE, target="source")
    with pytest.raises(TypeError, match="int"):
        compiler.compile(5)


def test_files(engine, tmp_path):
    path = tmp_path / "f.cubin"
    path.write_bytes(compiler.compile(SOURCE))
    assert run(drv.module_from_file(str(path))) == 31
    with pytest.raises(drv.LogicError, match="does not load" if engine == "cuda" else "give the source"):
        drv.module_from_buffer(b"no image")
    with pytest.raises(drv.LogicError, match="nowhere"):
        drv.module_from_file(tmp_path / "nowhere.cubin")
    with pytest.raises(drv.LogicError, match="empty"):
        drv.module_from_buffer(b"")


def test_files_remember_how_they_were_compiled(engine, tmp_path):
    (tmp_path / "number.h").write_text("#define NUMBER 30\n")
    source = '#include "number.h"\nextern "C" __global__ void f(int *x) { *x = NUMBER + N; }\n'
    image = compiler.compile(source, options=["-DN=4"], no_extern_c=True, include_dirs=[str(tmp_path)])
    assert run(drv.module_from_buffer(bytes(image))) == 34
    if engine == "cpu":
        with pytest.raises(drv.LogicError, match="cut off"):
            drv.module_from_buffer(bytes(image)[:-3])


@pytest.mark.parametrize("no_extern_c", [False, True])
def test_a_source_that_includes_a_file_of_kernels(engine, tmp_path, no_extern_c):
    """The file is named by its path, and uses macros that are defined before it."""
    (tmp_path / "kernels.cu").write_text(
        'extern "C" {\n'
        "__device__ int first(const int *numbers) { return numbers[SIZE - 1]; }\n"
        "__global__ void f(int *x) { __shared__ int n[SIZE]; n[SIZE - 1] = 31; *x = first(n); }\n}\n"
    )
    source = f'#define SIZE 8\n#include "{tmp_path}/kernels.cu"\n'
    assert run(SourceModule(source, no_extern_c=no_extern_c)) == 31


def test_prepare_of_an_image(engine):
    module = drv.module_from_buffer(bytes(compiler.compile("__global__ void f(int *x, float y) { *x = y; }")))
    f, memory = module.get_function("f"), drv.mem_alloc(4)
    f(memory, np.float32(3), block=(1, 1, 1))
    assert drv.from_device(memory, 1, np.int32)[0] == 3
    f.prepare("Pf").prepared_call((1, 1), (1, 1, 1), memory, 4.0)
    assert drv.from_device(memory, 1, np.int32)[0] == 4


@pytest.mark.parametrize("cache", [False, "folder", None])
def test_folders_of_the_cache(engine, tmp_path, monkeypatch, cache):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "usual"))
    folder = str(tmp_path / cache) if cache else cache
    for _ in range(2):
        assert run(SourceModule(SOURCE + f"// {cache}", cache_dir=folder)) == 31
    assert (tmp_path / "folder").exists() == (cache == "folder")


def test_debugging_checks_accesses(engine):
    if engine != "cpu":
        pytest.skip("accesses are checked on the CPU")
    drv.set_debugging()
    try:
        module = SourceModule("__global__ void f(float *x) {\n    x[threadIdx.x] = 1;\n}")
    finally:
        drv.set_debugging(False)
    memory = drv.mem_alloc(40)
    module.get_function("f")(memory, block=(10, 1, 1))
    with pytest.raises(drv.LaunchError, match=r"'x\[10\]', which has 10 elements of 4 bytes"):
        module.get_function("f")(memory, block=(11, 1, 1))
    assert (drv.from_device(memory, 10, np.float32) == 1).all()


def test_an_overrun_that_a_gpu_forgives(engine):
    module = SourceModule("__global__ void f(float *x) { x[threadIdx.x] = 1; }")
    first, second = drv.mem_alloc(40), drv.mem_alloc(40)
    module.get_function("f")(first, block=(64, 1, 1))
    assert (drv.from_device(first, 10, np.float32) == 1).all()
    if engine == "cpu":
        assert not drv.from_device(second, 10, np.float32).any()


def test_a_fault(engine):
    if engine != "cpu":
        pytest.skip("a fault makes CUDA unusable in the process; see test_processes.py")
    module = SourceModule("#include <assert.h>\n__global__ void f(int x) { assert(x == 1); }")
    module.get_function("f")(1, block=(1, 1, 1))
    with pytest.raises(drv.LaunchError, match="kernel 'f'"):
        module.get_function("f")(2, block=(1, 1, 1))
    module.get_function("f")(1, block=(1, 1, 1))


def test_removed_features(engine):
    for call in (
        compiler.DynamicModule,
        drv.Linker,
        drv.TextureReference,
        drv.SurfaceReference,
        lambda: drv.Array(drv.ArrayDescriptor()),
        lambda: drv.matrix_to_texref(np.zeros((2, 2)), None, "C"),
        lambda: drv.mem_get_ipc_handle(None),
        lambda: drv.Event().ipc_handle(),
        drv.Module,
        drv.Context,
    ):
        with pytest.raises(drv.LogicError, match=r": |made by"):
            call()


HEADERS = """
#include <pycuda-helpers.hpp>
__global__ void f(float *out, int *parts) {
    pycuda::complex<float> z(3, 4);
    fp_tex_double packed = make_int2(5, 6);
    out[0] = abs(z);
    parts[0] = packed.x + sizeof(fp_tex_cdouble) + sizeof(fp_tex_cfloat) + sizeof(fp_tex_float);
}
"""


def test_helpers(engine):
    out, parts = np.empty(1, np.float32), np.empty(1, np.int32)
    SourceModule(HEADERS).get_function("f")(drv.Out(out), drv.Out(parts), block=(1, 1, 1))
    assert (out[0], parts[0]) == (5, 5 + 16 + 8 + 4)


def test_cluda(engine):
    """One text of a kernel for CUDA and OpenCL."""
    source = (
        CLUDA_PREAMBLE
        + """
    WITHIN_KERNEL int twice(int x) { return 2 * x; }
    KERNEL REQD_WG_SIZE(8, 1, 1) void f(GLOBAL_MEM int *x) {
        LOCAL_MEM int all[8];
        all[LID_0] = twice(GID_0 * LDIM_0 + LID_0);
        local_barrier();
        x[GID_0 * LDIM_0 + LID_0] = all[LDIM_0 - 1 - LID_0] + GDIM_0;
    }
    """
    )
    x = np.empty(16, np.int32)
    SourceModule(source, no_extern_c=True).get_function("f")(drv.Out(x), block=(8, 1, 1), grid=(2, 1))
    np.testing.assert_array_equal(x, 2 * np.arange(16).reshape(2, 8)[:, ::-1].ravel() + 2)


def test_version_of_nvcc(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho release 13.0\n")
    nvcc.chmod(0o755)
    assert compiler.get_nvcc_version(str(nvcc)) == "release 13.0\n"
    with pytest.raises(OSError, match="no_nvcc was not found"):
        compiler.get_nvcc_version("no_nvcc")
