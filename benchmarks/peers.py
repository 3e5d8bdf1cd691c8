"""Other libraries doing pycudakit's works: NumPy arrays in, NumPy arrays out, as their users would write it.

Each function below imports its library and returns the works it can do, or raises where the library or its
GPU is missing.
"""

# ruff: noqa: PLC0415 - each library is imported only when it is asked for

import os

import numpy as np

EXPRESSION = "sqrt(a*a + b*b) * exp(-a) + sin(b)"


def _expression(kit, a, b):
    return kit.sqrt(a * a + b * b) * kit.exp(-a) + kit.sin(b)


def numpy():
    return {
        "add": np.add,
        "exp": lambda a, _: np.exp(a),
        "evaluate": lambda a, b: _expression(np, a, b),
    }


def numexpr():
    import numexpr

    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    numexpr.set_num_threads(processors)

    def evaluate(text):
        return lambda a, b: numexpr.evaluate(text, local_dict={"a": a, "b": b}, global_dict={})

    return {"add": evaluate("a + b"), "exp": evaluate("exp(a)"), "evaluate": evaluate(EXPRESSION)}


def cupy():
    import cupy

    cupy.cuda.runtime.getDeviceCount()
    up, down = cupy.asarray, cupy.asnumpy
    return {
        "add": lambda a, b: down(up(a) + up(b)),
        "exp": lambda a, _: down(cupy.exp(up(a))),
        "evaluate": lambda a, b: down(_expression(cupy, up(a), up(b))),
    }


def torch():
    import torch

    torch.cuda.current_device()

    def up(array):
        return torch.from_numpy(array).cuda()

    return {
        "add": lambda a, b: (up(a) + up(b)).cpu().numpy(),
        "exp": lambda a, _: torch.exp(up(a)).cpu().numpy(),
        "evaluate": lambda a, b: _expression(torch, up(a), up(b)).cpu().numpy(),
    }


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    device = jax.devices("gpu")[0]
    expression = jax.jit(lambda a, b: _expression(jax.numpy, a, b))

    def up(array):
        return jax.device_put(array, device)

    return {
        "add": lambda a, b: np.asarray(jax.numpy.add(up(a), up(b))),
        "exp": lambda a, _: np.asarray(jax.numpy.exp(up(a))),
        "evaluate": lambda a, b: np.asarray(expression(up(a), up(b))),
    }


def pycuda():
    import pycuda.autoprimaryctx  # noqa: F401
    from pycuda import cumath
    from pycuda.gpuarray import to_gpu

    class Kit:
        sqrt, exp, sin = map(staticmethod, (cumath.sqrt, cumath.exp, cumath.sin))

    return {
        "add": lambda a, b: (to_gpu(a) + to_gpu(b)).get(),
        "exp": lambda a, _: cumath.exp(to_gpu(a)).get(),
        "evaluate": lambda a, b: _expression(Kit, to_gpu(a), to_gpu(b)).get(),
    }


ON_CPU = {"NumPy": numpy, "NumExpr": numexpr}
ON_GPU = {"CuPy": cupy, "PyTorch": torch, "JAX": jax, "PyCUDA": pycuda}


def installed(peers):
    """Return the works of each peer that is installed and finds what it needs, and why the others don't."""
    found, missing = {}, {}
    for name, load in peers.items():
        try:
            found[name] = load()
        except Exception as error:  # noqa: BLE001 - whatever a library raises where it finds no GPU
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found, missing


def link_floor(up, down):
    """Return a callable that moves so many bytes up and down at once, from and to pinned memory, or None.

    No work on the GPU with ordinary arrays can be faster than that.
    """
    return _floor_of_torch(up, down) or _floor_of_cupy(up, down)


def _floor_of_torch(up, down):
    try:
        import torch

        hosts = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for size in (up, down)]
        devices = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (up, down)]
        streams = [torch.cuda.Stream() for _ in hosts]
    except Exception:  # noqa: BLE001
        return None

    def move():
        with torch.cuda.stream(streams[0]):
            devices[0].copy_(hosts[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            hosts[1].copy_(devices[1], non_blocking=True)
        torch.cuda.synchronize()

    return move


def _floor_of_cupy(up, down):
    try:
        import cupy

        memory = [cupy.cuda.alloc_pinned_memory(size) for size in (up, down)]
        hosts = [np.frombuffer(m, np.uint8, n) for m, n in zip(memory, (up, down), strict=True)]
        devices = [cupy.empty(size, cupy.uint8) for size in (up, down)]
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in hosts]
    except Exception:  # noqa: BLE001
        return None

    def move():
        devices[0].set(hosts[0], stream=streams[0])
        devices[1].get(out=hosts[1], stream=streams[1], blocking=False)
        for stream in streams:
            stream.synchronize()

    return move
