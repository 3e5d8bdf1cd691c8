"""Sources that were written for nvcc: host headers, dtype mismatches, and mistakes."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

HEADERS = ["algorithm", "cmath", "complex", "cstdlib", "iostream", "limits", "random", "time.h", "vector"]


@pytest.fixture
def on_cpu():
    if not pk.engines()["cpu"].available:
        pytest.skip("needs the CPU engine")
    with pk.engine("cpu"):
        yield


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_the_host(on_cpu, header):
    """Many sources include host headers for a host program that is missing here."""
    source = f"#include <{header}>\n__global__ void f(int *x) {{ x[threadIdx.x] = clock() != 0; }}"
    x = np.zeros(4, np.int32)
    pk.SourceModule(source).get_function("f")(pk.InOut(x), block=4)
    assert (x == 1).all()


def test_short_names_of_types(engine):
    source = """__global__ void f(uint *x, ushort *y, const ulong *z) {
        x[threadIdx.x] = (u_int)y[threadIdx.x] + uint(z[threadIdx.x]);
    }"""
    x, y, z = np.zeros(4, np.uint32), np.arange(4, dtype=np.uint16), np.arange(4, dtype=np.uint64)
    pk.SourceModule(source).get_function("f")(pk.Out(x), pk.In(y), pk.In(z), block=4)
    assert np.array_equal(x, [0, 2, 4, 6])


def test_an_error_ends_with_the_error(on_cpu):
    with pytest.raises(errors.CompileError, match=r"was not declared|undeclared") as caught:
        pk.SourceModule("__global__ void f(int *x) { *x = nothing; }").get_function("f")
    assert "-Wno" not in str(caught.value)


def test_a_missing_header_has_a_hint(on_cpu, tmp_path):
    source = '#include "nowhere.h"\n__global__ void f(int *x) { *x = 1; }'
    with pytest.raises(
        errors.CompileError, match=r"nowhere.h is not in the compiler's own folders: name its"
    ):
        pk.SourceModule(source).get_function("f")
    with pytest.raises(
        errors.CompileError, match=rf"nowhere.h is not in {tmp_path}: name its folder in include"
    ):
        pk.SourceModule(source, include_dirs=[str(tmp_path)]).get_function("f")
    (tmp_path / "nowhere.h").write_text("")
    pk.SourceModule(source, include_dirs=[str(tmp_path)]).get_function("f")


@pytest.mark.parametrize(
    ("given", "declared", "advice"),
    [
        ("uint32", "int *x", r"reinterpret it, as with .view\(np.int32\)"),
        ("int64", "unsigned long long *x", r"reinterpret it, as with .view\(np.uint64\)"),
        ("float64", "float *x", r"convert it, as with .astype\(np.float32\), and use the converted array"),
        ("float32", "int *x", r"convert it, as with .astype\(np.int32\), and use the converted array"),
        ("uint32", "const int *x", r"convert it, as with .astype\(np.int32\)$"),
    ],
)
def test_advice_loses_no_result(engine, given, declared, advice):
    """The advice does not suggest a conversion that would lose the kernel's results."""
    f = pk.SourceModule(f"__global__ void f({declared}, int *y) {{ *y = x[0] != 0; }}").get_function("f")
    with pytest.raises(TypeError, match=advice):
        f(np.ones(4, given), np.zeros(1, np.int32), block=1)
