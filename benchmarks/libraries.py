"""Other libraries' versions of the works: NumPy arrays in and out, written as their users would.

Each function below imports its library, or raises if the library or its GPU is missing, and returns a
function that makes a call from a family of pycudakit._cli.bench.FAMILIES or of families.FAMILIES.
"""

# ruff: noqa: PLC0415 - each library is imported only on demand

import functools
import os

import numpy as np


def numpy():
    return lambda family: functools.partial(family.by, np)


def numexpr():
    import numexpr

    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    numexpr.set_num_threads(processors)

    def call_of(family):
        def call(*arrays):
            return numexpr.evaluate(family.text, dict(zip("ab", arrays, strict=False)), {})

        return call

    return call_of


def _there_and_back(up, compute, down):
    def call(*arrays):
        result = compute(*map(up, arrays))
        return tuple(map(down, result)) if isinstance(result, tuple) else down(result)

    return call


def cupy():
    import cupy

    cupy.cuda.runtime.getDeviceCount()
    return lambda family: _there_and_back(cupy.asarray, functools.partial(family.by, cupy), cupy.asnumpy)


def cupy_fused():
    import cupy

    cupy.cuda.runtime.getDeviceCount()

    def call_of(family):
        @cupy.fuse()
        def fused(*arrays):
            return family.by(cupy, *arrays)

        return _there_and_back(cupy.asarray, fused, cupy.asnumpy)

    return call_of


def torch():
    import torch

    torch.cuda.current_device()
    return lambda family: _there_and_back(
        lambda array: torch.from_numpy(array).cuda(),
        functools.partial(family.by, torch),
        lambda tensor: tensor.cpu().numpy(),
    )


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    device = jax.devices("gpu")[0]
    return lambda family: _there_and_back(
        lambda array: jax.device_put(array, device),
        jax.jit(functools.partial(family.by, jax.numpy)),
        np.asarray,
    )


def pycuda():
    import pycuda.autoprimaryctx  # noqa: F401
    from pycuda import cumath
    from pycuda.gpuarray import to_gpu

    class Kit:
        add, multiply = staticmethod(lambda a, b: a + b), staticmethod(lambda a, b: a * b)
        sqrt, exp, sin = map(staticmethod, (cumath.sqrt, cumath.exp, cumath.sin))

    return lambda family: _there_and_back(
        to_gpu, functools.partial(family.by, Kit), lambda array: array.get()
    )


ON_CPU = {"NumPy": numpy, "NumExpr": numexpr}
ON_GPU = {"CuPy": cupy, "CuPy fuse": cupy_fused, "PyTorch": torch, "JAX": jax, "PyCUDA": pycuda}


def installed(libraries):
    """Return the libraries that are installed and usable, and the reasons why the others are not."""
    found, missing = {}, {}
    for name, load in libraries.items():
        try:
            found[name] = load()
        except Exception as error:  # noqa: BLE001 - whatever a library raises where it finds no GPU
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found, missing


def raw_copy(up, down):
    """Return a call that copies these bytes up and down at once, from and to pinned memory, by CuPy.

    It computes nothing, so it is the lower bound of any work on the GPU.
    """
    import cupy

    sizes = max(1, up), max(1, down)
    memory = [cupy.cuda.alloc_pinned_memory(size) for size in sizes]
    hosts = [np.frombuffer(m, np.uint8, n) for m, n in zip(memory, sizes, strict=True)]
    devices = [cupy.empty(size, cupy.uint8) for size in sizes]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in hosts]

    def move(*_):
        devices[0].set(hosts[0], stream=streams[0])
        devices[1].get(out=hosts[1], stream=streams[1], blocking=False)
        for stream in streams:
            stream.synchronize()

    return move
