"""A class of your own whose product is a kernel: on the GPU, or on the CPU where there is none."""

import numpy as np

import pycudakit as pk
from pycudakit import Out

ENGINE = "cuda" if pk.engines()["cuda"] else "cpu"
NAMES = {np.dtype("float32"): "float", np.dtype("float64"): "double"}

module = pk.SourceModule(
    r"""
template <typename T> __global__ void product(const T *a, const T *b, T *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * b[i];
}
""",
    no_extern_c=True,
)


def lies_on_a_gpu(values):
    return hasattr(values, "__cuda_array_interface__")


def product(a, b):
    """Multiply by the kernel; arrays on a GPU, such as CUDA tensors, are multiplied there."""
    if lies_on_a_gpu(a) or lies_on_a_gpu(b):
        return pk.evaluate("a * b", {"a": a, "b": b})
    a, b = (x if isinstance(x, (int, float)) else np.asarray(x) for x in (a, b))  # a number takes any type
    dtype = np.result_type(a, b)
    if dtype not in NAMES:
        raise TypeError(f"CustomTensor: a product of {dtype}: convert to float32 or float64")
    a, b = np.broadcast_arrays(np.asarray(a, dtype), np.asarray(b, dtype))
    out = np.empty(a.shape, dtype)
    if out.size:
        module.get_function(f"product<{NAMES[dtype]}>").launch(out.size, a, b, Out(out), out.size)
    return out


class CustomTensor:
    """Floats with a product of their own.

    Parameters
    ----------
    values
        An array-like of NumPy's, such as a tensor on the host, whose memory is shared; or another library's
        array on a GPU, which stays there.
    """

    def __init__(self, values):
        if not lies_on_a_gpu(values):
            values = np.asarray(values)
            values = values if values.dtype in NAMES else values.astype(np.float64)
        self.values = values

    def __repr__(self):
        return f"CustomTensor({self.values})"

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype, copy=copy)

    def __mul__(self, other):
        return np.multiply(self, other)

    def __rmul__(self, other):
        return np.multiply(other, self)

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        """Take NumPy's functions: the product by the kernel, others as pycudakit has them."""
        inputs = [values_of(x) for x in inputs]
        with pk.engine(ENGINE):
            if (ufunc, method, keywords) == (np.multiply, "__call__", {}):
                return CustomTensor(product(*inputs))
            target = keywords.get("out", ())
            if target:
                keywords["out"] = tuple(values_of(x) for x in target)
            result = getattr(getattr(pk, ufunc.__name__, ufunc), method)(*inputs, **keywords)
        if target:
            return target[0] if len(target) == 1 else target
        return tuple(map(wrapped, result)) if isinstance(result, tuple) else wrapped(result)


def values_of(x):
    return x.values if isinstance(x, CustomTensor) else x


def wrapped(x):
    """Return floats as one of ours, and other results, such as bools, unchanged."""
    is_ours = lies_on_a_gpu(x) or (isinstance(x, np.ndarray) and x.dtype in NAMES)
    return CustomTensor(x) if is_ours else x


if __name__ == "__main__":
    x = CustomTensor([1.0, 2.0, 3.0])
    print(x * 2, 2 * x, np.arange(3) * x, x * x)
    print("computed by", pk.last_call().function, "on the engine", pk.last_call().engine)
    print(np.sqrt(x), np.add.reduce(x), np.greater(x, 1.5))
