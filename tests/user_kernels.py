"""What tests of user kernels share: modules, compiled once for each engine."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import SourceModule, _engine

# NVRTC's words for a header that is not installed beside it.
_HEADERS = "curand_kernel|cuda_fp16|cooperative_groups|cuComplex"
_NOT_INSTALLED = re.compile(rf'cannot open source file "({_HEADERS})\.h"')


def module(source, **options):
    """Return the module of a source; skip where CUDA's headers that it includes are not installed."""
    try:
        return _compiled(source, _engine.checked_current(), **options)
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
    """Return what the kernel of ADD takes: two arrays, and one for their sum."""
    return np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32), np.empty(n, np.float32)


def python(code, **environment):
    """Run code in a process of its own."""
    run = [sys.executable, "-c", code]
    environment = {**os.environ, **environment}
    return subprocess.run(run, check=False, capture_output=True, text=True, timeout=100, env=environment)
