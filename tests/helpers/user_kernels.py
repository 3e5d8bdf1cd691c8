"""Helpers for tests of user kernels: modules, compiled once for each engine."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import In, Out, SourceModule
from pycudakit._runtime import context

# The message of NVRTC for a header that is not installed.
_HEADERS = "curand_kernel|cuda_fp16|cooperative_groups|cuComplex"
_NOT_INSTALLED = re.compile(rf'cannot open source file "({_HEADERS})\.h"')


def module(source, **options):
    """Compile a module; skip the test where the CUDA headers that it includes are not installed."""
    try:
        return _compiled(source, context.checked_current_engine(), **options)
    except pk.errors.CompileError as error:
        if missing := _NOT_INSTALLED.search(str(error)):
            pytest.skip(f"{missing[1]}.h is not installed")
        raise


@functools.cache
def _compiled(source, _engine, **options):
    return SourceModule(source, **options)


ADD = r"""
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""


def operands(n=1000):
    """Return the arguments of the kernel of ADD: two arrays, and one for their sum."""
    return np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32), np.empty(n, np.float32)


def python(code, **environment):
    """Run code in a process of its own."""
    run = [sys.executable, "-c", code]
    environment = {**os.environ, **environment}
    return subprocess.run(run, check=False, capture_output=True, text=True, timeout=300, env=environment)


RNG = np.random.default_rng(6)


def run(source, name, *arguments, block=(32, 1, 1), grid=(1, 1), no_extern_c=False, **keywords):
    """Run a kernel of a source; an output argument is (count, dtype), and is returned."""
    bound = [Out(np.empty(*a)) if isinstance(a, tuple) else a for a in arguments]
    function = SourceModule(source, no_extern_c=no_extern_c).get_function(name)
    made = function(*bound, block=block, grid=grid, out_args=True, **keywords)
    outputs = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    return outputs[0] if len(outputs) == 1 else outputs


def each(kind, expressions, result=None):
    """Return a source whose kernel computes each expression of x and y into one row of the output."""
    lines = "".join(f"    out[{i} * n + i_] = {e};\n" for i, e in enumerate(expressions))
    return (
        f"__global__ void each(const {kind} *x_, const {kind} *y_, {result or kind} *out, int n) {{\n"
        f"    int i_ = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i_ >= n) return;\n"
        f"    {kind} x = x_[i_], y = y_[i_];\n{lines}}}\n"
    )


def run_each(kind, dtype, expressions, x, y, result=None, result_dtype=None):
    x, y = np.asarray(x, dtype), np.asarray(y, dtype)
    out = ((len(expressions), x.size), result_dtype or dtype)
    grid = ((x.size + 63) // 64, 1)
    return run(
        each(kind, expressions, result), "each", In(x), In(y), out, x.size, block=(64, 1, 1), grid=grid
    )
