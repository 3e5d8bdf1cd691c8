"""GPUArrays and device memory beside pycudakit's functions and CuPy."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda import gpuarray


def test_functions_take_gpuarrays(engine):
    x = np.random.default_rng(1).random(5000).astype(np.float32)
    a = gpuarray.to_gpu(x)
    for function in (pk.sort, pk.cumsum, pk.exp):
        result = function(a)
        if engine == "cuda":
            assert type(result) is gpuarray.GPUArray
            result = result.get()
        np.testing.assert_allclose(result, getattr(np, function.__name__)(x), rtol=1e-5)
    np.testing.assert_array_equal(a.get(), x)


def test_cupy_works_in_an_allocation_and_in_a_stream(engine):
    if engine != "cuda":
        pytest.skip("CuPy needs a GPU")
    cupy = pytest.importorskip("cupy")
    x = np.arange(1000, dtype=np.float32)
    memory, stream = drv.to_device(x), drv.Stream()
    held = cupy.cuda.UnownedMemory(int(memory), x.nbytes, memory)
    array = cupy.ndarray(1000, np.float32, cupy.cuda.MemoryPointer(held, 0))
    with cupy.cuda.ExternalStream(stream.handle):
        array *= 2
    stream.synchronize()
    np.testing.assert_array_equal(drv.from_device(memory, (1000,), np.float32), 2 * x)
