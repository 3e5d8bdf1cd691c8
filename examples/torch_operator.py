"""Operators of PyTorch around kernels of your own: gradients, torch.compile, and no build step."""

import torch
from torch import Tensor

import pycudakit as pk
from pycudakit import Out


def memory(tensor):
    """Return an array for pycudakit: a CUDA tensor itself, or NumPy's view of a tensor on the host."""
    tensor = tensor.detach()
    return tensor if tensor.is_cuda else tensor.numpy()


# ---- The sum of two tensors, in place where they lie: on the host, or on the GPU ------------------------


def empty_sum(a: Tensor, b: Tensor) -> Tensor:
    """Return a tensor for a sum; of tensors without memory, as torch.compile traces them, another such."""
    if a.dtype != b.dtype:
        raise TypeError(f"sum_cuda: a is of {a.dtype}, and b of {b.dtype}: convert one")
    return a.new_empty(torch.broadcast_shapes(a.shape, b.shape))


@torch.library.custom_op("own::sum_cuda", mutates_args=())
def sum_cuda(a: Tensor, b: Tensor) -> Tensor:
    out = empty_sum(a, b)
    pk.evaluate("a + b", {"a": memory(a), "b": memory(b)}, out=memory(out))
    return out


def keep_shapes(ctx, inputs, output):  # noqa: ARG001  (PyTorch's names)
    ctx.shapes = [x.shape for x in inputs]


def sum_backward(ctx, grad):
    return tuple(grad.sum_to_size(shape) for shape in ctx.shapes)


sum_cuda.register_fake(empty_sum)
sum_cuda.register_autograd(sum_backward, setup_context=keep_shapes)


# ---- A function and its derivative in CUDA C, compiled when they are first called -----------------------

module = pk.SourceModule(
    r"""
template <typename T> __global__ void softsign(const T *x, T *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1 + fabs(x[i]));
}

template <typename T> __global__ void derivative(const T *x, const T *grad, T *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    T below = 1 + fabs(x[i]);
    out[i] = grad[i] / (below * below);
}
""",
    no_extern_c=True,
)
NAMES = {torch.float32: "float", torch.float64: "double"}


def run(kernel: str, *tensors: Tensor) -> Tensor:
    """Run a kernel for each element, where the tensors lie: on the GPU, it is queued in PyTorch's stream."""
    x = tensors[0]
    out = empty_softsign(x)
    if x.numel():
        function = module.get_function(f"{kernel}<{NAMES[x.dtype]}>")
        given = [memory(tensor.contiguous()) for tensor in tensors]
        target = memory(out) if x.is_cuda else Out(memory(out))  # an Out begins as zeros, which takes time
        function.launch(x.numel(), *given, target, x.numel())
    return out


def empty_softsign(x: Tensor, *_: Tensor) -> Tensor:
    if x.dtype not in NAMES:
        raise TypeError(f"softsign: x is of {x.dtype}: convert it to float32 or float64")
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("own::softsign", mutates_args=())
def softsign(x: Tensor) -> Tensor:
    return run("softsign", x)


# torch.compile traces the function of a gradient, too, so it is an operator of its own.
@torch.library.custom_op("own::softsign_backward", mutates_args=())
def softsign_backward(x: Tensor, grad: Tensor) -> Tensor:
    return run("derivative", x, grad)


def keep_inputs(ctx, inputs, output):  # noqa: ARG001  (PyTorch's names)
    ctx.save_for_backward(*inputs)


softsign.register_fake(empty_softsign)
softsign_backward.register_fake(empty_softsign)
softsign.register_autograd(
    lambda ctx, grad: softsign_backward(*ctx.saved_tensors, grad), setup_context=keep_inputs
)


if __name__ == "__main__":
    a, b = (torch.randn(1000, dtype=torch.float64, requires_grad=True) for _ in range(2))
    y = softsign(sum_cuda(a, b))
    y.sum().backward()
    print("right:", torch.equal(y, torch.nn.functional.softsign(a + b)))
    print("gradient:", torch.allclose(a.grad, 1 / (1 + (a + b).abs()) ** 2))
    few = [x.detach()[:20].requires_grad_() for x in (a, b)]
    print("gradcheck:", torch.autograd.gradcheck(lambda a, b: softsign(sum_cuda(a, b)), few))
