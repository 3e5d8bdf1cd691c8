"""A CUDA kernel of your own on NumPy arrays: on a GPU, or without one on the CPU."""

import numpy as np

import pycudakit as pk
from pycudakit import In, Out, SourceModule

# Any CUDA C, in a string. Each thread has one element; the last block may have threads to spare.
module = SourceModule(r"""
#include <stdio.h>

__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}

__global__ void hello() {
    printf("hello from thread %d of block %d\n", threadIdx.x, blockIdx.x);
}
""")
add = module.get_function("add")
print(module.functions)

# Arrays go in and out as NumPy's; In and Out say which way.
n = 1_000_000
a = np.random.default_rng(1).random(n, np.float32)
b = np.ones(n, np.float32)
c = np.empty(n, np.float32)
add(In(a), In(b), Out(c), np.int32(n), block=(256, 1, 1), grid=((n + 255) // 256, 1))
print("right:", np.array_equal(c, a + b), "- on the engine", pk.last_call().engine)

# Shorter: the parameter's type says that a and b are read, and the block is picked for you.
c[:] = 0
add.launch(n, a, b, Out(c), n)
print("right:", np.array_equal(c, a + b))

# The output of printf in kernels appears here.
module.get_function("hello")(block=(3, 1, 1), grid=(2, 1))

# Wrong arguments raise before anything runs.
try:
    add(In(a), In(b.astype(np.float64)), Out(c), np.int32(n), block=(256, 1, 1), grid=(3907, 1))
except (TypeError, ValueError) as error:
    print(f"{type(error).__name__}: {error}")

# A mistake in bounds has an address, in debug mode, instead of an end.
reckless = SourceModule(
    "__global__ void shift(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] = x[i + 1]; }", debug=True
)
try:
    with pk.engine("cpu"):
        reckless.get_function("shift")(np.zeros(64, np.float32), np.int32(64), block=(64, 1, 1))
except pk.errors.Error as error:
    print(f"{type(error).__name__}: {error}")
