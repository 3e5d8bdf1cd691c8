"""examples/torch_operator.py: PyTorch operators made of kernels, with PyTorch's own operator checks."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._interop.cuda_libraries import allocator_for

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "torch_operator.py"
has_compiler = bool(shutil.which(os.environ.get("CXX", "c++")))
pytestmark = [
    pytest.mark.skipif(not SCRIPT.is_file(), reason="examples/ is not beside the tests"),
    pytest.mark.skipif(not has_compiler, reason="needs a C++ compiler"),
]
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(scope="module")
def operators():
    found = importlib.util.spec_from_file_location("torch_operator", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(params=DEVICES)
def random(request, engine):
    if request.param == "cuda" and engine == "cpu":
        pytest.skip("which takes no tensors of the GPU")
    torch.manual_seed(1)

    def made(*shape, dtype=torch.float64, requires_grad=False):
        return torch.randn(shape, dtype=dtype, device=request.param, requires_grad=requires_grad)

    return made


def layouts(random):
    return [random(), random(0, 3), random(4, 6)[:, ::2], random(3, 4).T, random(5000).flip(0)]


def test_the_sum_is_pytorchs(operators, random):
    for x in [*layouts(random), torch.arange(7), torch.ones(2, dtype=torch.float32)]:
        got = operators.sum_cuda(x, x)
        torch.testing.assert_close(got, x + x, rtol=0, atol=0)
        assert got.device == x.device
    torch.testing.assert_close(operators.sum_cuda(x[:, None], x), x[:, None] + x, rtol=0, atol=0)


def test_tensors_of_a_sum_are_not_copied(operators, random):
    x = random(1000)
    taken = operators.memory(x)
    if x.is_cuda:
        operators.sum_cuda(x, x)
        assert pk.last_call().bytes_up == 0
    else:
        assert taken.ctypes.data == x.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_is_pytorchs_function(operators, random, dtype):
    for x in (x.to(dtype) for x in layouts(random)):
        got = operators.softsign(x)
        torch.testing.assert_close(got, torch.nn.functional.softsign(x), rtol=1e-6, atol=0)
        assert got.is_contiguous()
        assert got.device == x.device
        if x.is_cuda and x.numel():
            assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)


def test_gradients(operators, random):
    a, b = random(4, 1, requires_grad=True), random(3, requires_grad=True)
    assert torch.autograd.gradcheck(operators.sum_cuda, (a, b))
    assert torch.autograd.gradcheck(operators.softsign, (a,))
    assert torch.autograd.gradcheck(lambda a, b: operators.softsign(operators.sum_cuda(a, b)), (a, b))


def test_pytorchs_own_checks_of_operators(operators, random):
    for x in (random(4, 5, requires_grad=True), random(3, 4).T, random(0)):
        torch.library.opcheck(operators.softsign, (x,))
        torch.library.opcheck(operators.softsign_backward, (x.detach(), x.detach()))
        torch.library.opcheck(operators.sum_cuda, (x, x.detach()))
    torch.library.opcheck(operators.sum_cuda, (random(4, 1), random(3, requires_grad=True)))


def test_wrong_operands(operators, random):
    x = random(3)
    with pytest.raises(TypeError, match=r"^sum_cuda: .* torch\.float64, .* torch\.int32: convert one$"):
        operators.sum_cuda(x, x.to(torch.int32))
    with pytest.raises(TypeError, match=r"^softsign: x is of torch\.int32: convert it"):
        operators.softsign(x.to(torch.int32))
    with pytest.raises(RuntimeError, match="broadcast"):
        operators.sum_cuda(x, random(4))


@pytest.mark.skipif("cuda" not in DEVICES or not pk.engines()["cuda"], reason="needs a GPU")
def test_a_cuda_graph_has_both(operators):
    a, b = torch.randn(1000, device="cuda"), torch.ones(1000, device="cuda")
    operators.softsign(operators.sum_cuda(a, b))  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = operators.softsign(operators.sum_cuda(a, b))
    b.fill_(5)
    graph.replay()
    torch.testing.assert_close(out, torch.nn.functional.softsign(a + 5), rtol=1e-6, atol=0)


@pytest.mark.thorough
@pytest.mark.parametrize("dynamic", [False, True])
def test_under_compile(operators, random, dynamic):
    def function(a, b):
        return operators.softsign(operators.sum_cuda(a, b) * 2) + 1

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for size in (100, 1000) if dynamic else (100,):
        a, b = (random(size, requires_grad=True) for _ in range(2))
        grads = []
        for call in (function, compiled):
            y = call(a, b)
            grads.append((y, *torch.autograd.grad(y.sum(), (a, b))))
        torch.testing.assert_close(*grads)


def test_the_script_says_that_all_is_right(engine):
    environment = {**os.environ, "PYCUDAKIT_ENGINE": engine}
    command = [sys.executable, SCRIPT]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1::2] == ["True"] * 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_tensors_made_beside_others(device, dtype):
    beside = torch.nn.Parameter(torch.ones(2, device=device))
    made = allocator_for(beside)((3, 2), np.dtype(dtype), beside)
    assert type(made) is torch.Tensor
    assert (made.dtype, tuple(made.shape), made.device) == (getattr(torch, dtype), (3, 2), beside.device)
    assert made.is_contiguous()
    assert not made.requires_grad
