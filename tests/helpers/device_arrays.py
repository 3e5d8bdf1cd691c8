"""Device arrays of other libraries, and fakes that claim to be device arrays."""

import ctypes
import importlib

import numpy as np
import pytest

import pycudakit as pk


class Held:
    """A fake with `__cuda_array_interface__` that has no device memory: it must not be read."""

    def __init__(self, **changes):
        given = {"shape": (3,), "typestr": "<f8", "data": (1 << 40, False), "version": 3, "strides": None}
        given |= {name: value for name, value in changes.items() if value is not ...}
        self.__cuda_array_interface__ = {k: v for k, v in given.items() if v is not None or k == "strides"}


class Capsule:
    """A fake with DLPack only."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **_):
        return CAPSULE(TENSOR_AT, b"dltensor", None)


CAPSULE = ctypes.pythonapi.PyCapsule_New
CAPSULE.restype, CAPSULE.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
SHAPE = (ctypes.c_int64 * 1)(3)
TENSOR = np.zeros(
    1,
    [
        *(("data", "u8"), ("device_type", "i4"), ("device_id", "i4"), ("ndim", "i4"), ("code", "u1")),
        *(("bits", "u1"), ("lanes", "u2"), ("shape", "u8"), ("strides", "u8"), ("byte_offset", "u8")),
    ],
)
TENSOR[0] = (1 << 40, 2, 0, 1, 2, 64, 1, ctypes.addressof(SHAPE), 0, 0)
TENSOR_AT = TENSOR.ctypes.data


on_a_gpu = pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
LIBRARIES = {
    "cupy": (lambda lib, x: lib.asarray(x), lambda lib, x: lib.asnumpy(x)),
    "torch": (lambda lib, x: lib.tensor(x, device="cuda"), lambda _, x: x.cpu().numpy()),
    "numba.cuda": (lambda lib, x: lib.to_device(x), lambda _, x: x.copy_to_host()),
}
SIZE = 100_003


class Library:
    """A library of device arrays: CuPy, PyTorch, Numba or another, with upload and download."""

    def __init__(self, name):
        self.module = importlib.import_module(name)
        self._up, self._down = LIBRARIES[name]

    def up(self, x):
        return self._up(self.module, x)

    def down(self, x):
        return self._down(self.module, x)

    def moved(self):
        """Return the number of bytes that the last call moved over the link."""
        return pk.last_call().bytes_up + pk.last_call().bytes_down


def numbers(*shape, dtype=np.float64):
    return (np.random.default_rng(3).random(shape or (SIZE,)) * 100).astype(dtype)
