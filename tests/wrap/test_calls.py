"""`pk.wrap` on the source of a tutorial, as it is: its calls, and the checks of their arguments."""

import concurrent.futures
import inspect
import pickle

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

SUM = """\
extern "C" {
#include <cuda_runtime.h>
__global__ void add_arrays(const float* a, const float* b, float* out, int n) { int idx = blockIdx.x * blockDim.x + threadIdx.x; if (idx < n) out[idx] = a[idx] + b[idx]; }
void launch_sum_kernel(const float* a, const float* b, float* out, int n) {
    float *d_a, *d_b, *d_out; size_t size = n * sizeof(float);
    cudaMalloc(&d_a, size); cudaMalloc(&d_b, size); cudaMalloc(&d_out, size);
    cudaMemcpy(d_a, a, size, cudaMemcpyHostToDevice); cudaMemcpy(d_b, b, size, cudaMemcpyHostToDevice);
    int threads = 256; int blocks = (n + threads - 1) / threads;
    add_arrays<<<blocks, threads>>>(d_a, d_b, d_out, n);
    cudaMemcpy(out, d_out, size, cudaMemcpyDeviceToHost);
    cudaFree(d_a); cudaFree(d_b); cudaFree(d_out);
}
}
"""  # noqa: E501


@pytest.fixture
def path(engine, tmp_path):
    file = tmp_path / "sum.cu"
    file.write_text(SUM)
    return file


@pytest.fixture(scope="module")
def call(engine):
    with pk.engine(engine):
        return pk.wrap(SUM).launch_sum_kernel


def operands(count=1024):
    a = np.random.default_rng(1).normal(size=count).astype(np.float32)
    return a, a[::-1].copy(), np.zeros(count, np.float32)


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 255, 256, 1000, 70_001])
def test_sums(call, count):
    a, b, out = operands(count)
    assert call(a, b, out, count) is None
    np.testing.assert_array_equal(out, a + b)


def test_repr_and_attributes_of_a_library(engine, path):
    library = pk.wrap(path)
    assert type(library) is pk.kernels.Library
    assert library.functions == ("launch_sum_kernel",)
    assert library.engine == engine
    assert repr(library) == f"<Library 'sum.cu' on {engine}: launch_sum_kernel>"
    assert dir(library).count("launch_sum_kernel") == 1
    with pytest.raises(
        AttributeError, match=r"sum\.cu has no function 'add'; its functions: launch_sum_kernel"
    ):
        library.add  # noqa: B018


def test_a_function_describes_itself(call):
    assert list(inspect.signature(call).parameters) == ["a", "b", "out", "n"]
    assert "void launch_sum_kernel(const float *a, const float *b, float *out, int n)" in call.__doc__
    assert "It is read and written; it has at least ``n`` elements." in call.__doc__
    assert ">>> library.launch_sum_kernel(a, b, out, n)" in call.__doc__
    assert call.__name__ == "launch_sum_kernel"
    pointer = call.argtypes[2]
    assert pointer._dtype_ == np.float32
    with pytest.raises(TypeError):
        pointer.from_param(np.zeros(4))


def test_names_of_arguments(call):
    a, b, out = operands()
    call(n=1024, out=out, b=b, a=a)
    np.testing.assert_array_equal(out, a + b)


def test_more_elements_than_are_used(call):
    a, b, out = operands()
    call(a, b, out, 10)
    np.testing.assert_array_equal(out[:10], (a + b)[:10])
    assert not out[10:].any()


def test_inputs_that_are_packed(call):
    a, b, out = operands()
    call(a[::2], b.astype(">f4")[1::2], out, 512)
    np.testing.assert_array_equal(out[:512], a[::2] + b[1::2])
    read_only = a.copy()
    read_only.flags.writeable = False
    call(read_only, b, out, 1024)
    np.testing.assert_array_equal(out, a + b)


def refused(a, b, out):
    """Return arguments that are refused, with the exception and its message."""
    return {
        "float64": ((a.astype(float), b, out, 4), TypeError, r"'a' \(const float \*\) takes float32"),
        "too many": ((a, b, out, 1025), ValueError, r"'a' .* at least n elements, which is 1025.* 1024"),
        "short output": (
            (a, b, out[:5], 6),
            ValueError,
            r"'out' .* at least n elements, which is 6.* has 5; .* `// @inout out\[5\]`",
        ),
        "strided output": ((a, b, out[::2], 4), ValueError, r"'out' .* not contiguous"),
        "float": ((a, b, out, 4.0), TypeError, r"'n' \(int\) takes a number, int32"),
        "large": ((a, b, out, 2**31), OverflowError, r"'n' .* 2147483648 does not fit in int32"),
        "int64": ((a, b, out, np.int64(4)), TypeError, r"'n' .* takes int32, and is given int64"),
        "list": ((a, [1.0], out, 1), TypeError, r"'b' .* takes a NumPy array, or None, not a list"),
        "null": ((a, None, out, 1), ValueError, r"'b' .* at least n elements, which is 1"),
        "missing": ((a, b, out), TypeError, r"called without 'n'; it is void [^:]*$"),
        "surplus": ((a, b, out, 4, 5), TypeError, r"takes 4 arguments .* and 5 were given"),
    }


@pytest.mark.parametrize("case", refused(*operands()))
def test_arguments_that_are_refused(call, case):
    a, b, out = operands()
    out[:] = 7
    arguments, kind, message = refused(a, b, out)[case]
    with pytest.raises(kind, match=message):
        call(*arguments)
    assert (out == 7).all()


def test_names_that_are_refused(call):
    a, b, out = operands()
    with pytest.raises(TypeError, match=r"called without 'out'; .* `// @out out\[...\]`, and it is returned"):
        call(a, b, n=4)
    with pytest.raises(TypeError, match="has no parameter 'size'"):
        call(a, b, out, size=4)


def test_an_output_that_is_read_only(call):
    a, b, out = operands()
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"'out' .* is written, and the array given is read-only"):
        call(a, b, out, 4)


def test_an_unchecked_failure_of_cuda_raises(call):
    a, b, out = operands()
    with pytest.raises(errors.DeviceError, match="launch_sum_kernel: invalid "):
        call(a, b, out, 0)
    call(a, b, out, 4)  # an error does not last
    np.testing.assert_array_equal(out[:4], (a + b)[:4])


@pytest.mark.parametrize("tag", ["argument", "comment"])
def test_an_output_that_is_left_out(engine, tag):
    given = {"out": "launch_sum_kernel: out[n]"} if tag == "argument" else {}
    source = SUM if tag == "argument" else SUM.replace("void launch", "// @out out[n]\nvoid launch")
    call = pk.wrap(source, **given).launch_sum_kernel
    a, b, out = operands()
    for result in (call(a, b, 1024), call(a, b, n=1024), call(a, b, None, 1024)):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, a + b)
    assert call(a, b, out, 1024) is None
    np.testing.assert_array_equal(out, a + b)
    assert str(inspect.signature(call)) == "(a, b, n, *, out=None)"
    assert "if it is left out, it is made and returned" in call.__doc__
    with pytest.raises(ValueError, match=r"'out' .* would have -1 elements"):
        call(a, b, -1)


def test_a_file_that_changes(path):
    a, b, out = operands()
    path.write_text(SUM.replace("a[idx] + b[idx]", "a[idx] - b[idx]"))
    pk.wrap(path).launch_sum_kernel(a, b, out, 1024)
    np.testing.assert_array_equal(out, a - b)


def test_a_header_that_changes(engine, tmp_path):
    (tmp_path / "sign.h").write_text("#define SIGN +\n")
    file = tmp_path / "sum.cu"
    file.write_text('#include "sign.h"\n' + SUM.replace("a[idx] + b[idx]", "a[idx] SIGN b[idx]"))
    a, b, out = operands()
    pk.wrap(str(file)).launch_sum_kernel(a, b, out, 1024)
    np.testing.assert_array_equal(out, a + b)
    (tmp_path / "sign.h").write_text("#define SIGN -\n")
    pk.wrap(str(file)).launch_sum_kernel(a, b, out, 1024)
    np.testing.assert_array_equal(out, a - b)


def test_pickles(call, path):
    library = pickle.loads(pickle.dumps(pk.wrap(path)))
    path.unlink()
    a, b, out = operands()
    for function in (library.launch_sum_kernel, pickle.loads(pickle.dumps(call))):
        function(a, b, out, 1024)
        np.testing.assert_array_equal(out, a + b)
        out[:] = 0


def test_no_numpy_engine():
    with pk.engine("numpy"), pytest.raises(errors.Unsupported, match="the engine 'numpy' runs no kernels"):
        pk.wrap(SUM)


def test_threads(call):
    a, b, _ = operands(50_000)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outs = [np.zeros(50_000, np.float32) for _ in range(16)]
        list(pool.map(lambda out: call(a, b, out, 50_000), outs))
    for out in outs:
        np.testing.assert_array_equal(out, a + b)
