"""examples/custom_tensor.py: a tensor class whose product is a user kernel, mixed with NumPy arrays."""

import importlib.util
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pycudakit as pk

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "custom_tensor.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.is_file(), reason="examples/ is not beside the tests"),
    pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "c++")), reason="needs a C++ compiler"),
]
X = np.random.default_rng(2).random((40, 30))


@pytest.fixture
def example(engine):
    found = importlib.util.spec_from_file_location("custom_tensor", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    assert module.ENGINE in ("cuda", "cpu")
    assert (module.ENGINE == "cuda") == bool(pk.engines()["cuda"])
    module.ENGINE = engine
    return module


def same(got, want):
    np.testing.assert_array_equal(got.values, want, strict=True)


@pytest.mark.parametrize("other", [2, 2.5, np.float64(3), X[0], X[:, ::-1], X.T.copy().T, X[:, :1]])
def test_products(engine, example, other):
    x = example.CustomTensor(X)
    for got in (x * other, other * x, np.multiply(x, other), x * example.CustomTensor(other)):
        assert type(got) is example.CustomTensor
        same(got, X * other)
        assert (pk.last_call().engine, pk.last_call().function) == (engine, "product<double>")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_types(example, dtype):
    x = X.astype(dtype)
    same(example.CustomTensor(x) * 2, x * 2)
    same(example.CustomTensor(x) * example.CustomTensor(X), x * X)
    same(example.CustomTensor(x) * example.CustomTensor(x), x * x)
    same(example.CustomTensor([1, 2]) * np.arange(2), np.array([0.0, 2.0]))
    same(example.CustomTensor(x[:0]) * 2, x[:0])


def test_numpys_functions(engine, example):
    x = example.CustomTensor(X)
    same(np.add(x, X), X + X)
    assert pk.last_call().engine == engine
    same(np.sqrt(x), np.sqrt(X))
    same(np.add.reduce(x, axis=0), pk.add.reduce(X, axis=0))
    assert_array_equal(np.greater(X, x), np.zeros(X.shape, bool), strict=True)
    quotient, rest = np.divmod(x, 0.25)
    same(quotient, X // 0.25)
    same(rest, X % 0.25)
    assert_array_equal(np.asarray(x), X)


def test_out(example):
    x, out = example.CustomTensor(X), example.CustomTensor(np.zeros_like(X))
    assert np.multiply(x, 2, out=out) is out
    same(out, X * 2)
    array = np.zeros_like(X)
    assert np.multiply(x, 3, out=array) is array
    assert_array_equal(array, X * 3)


@pytest.mark.parametrize("other", ["abc", 1j, np.ones(2, complex)])
def test_other_operands(example, other):
    for call in (lambda x: x * other, lambda x: other * x):
        with pytest.raises(TypeError, match="convert to float32 or float64"):
            call(example.CustomTensor([1.0, 2.0]))


def test_tensors(example):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X)
    x = example.CustomTensor(tensor)
    assert x.values.ctypes.data == tensor.data_ptr()
    for got in (x * x, x * tensor, tensor * x):
        same(got, X * X)


def test_tensors_on_a_gpu(engine, example):
    torch = pytest.importorskip("torch")
    if engine == "cpu" or not torch.cuda.is_available():
        pytest.skip("needs PyTorch with a GPU")
    x = example.CustomTensor(torch.tensor(X, device="cuda"))
    for got in (x * x, x * X, X * x, np.multiply(x, X)):
        assert got.values.is_cuda
        assert_array_equal(got.values.cpu().numpy(), X * X)
    assert_array_equal(np.sqrt(x).values.cpu().numpy(), pk.sqrt(X))


def test_the_script(example, capsys):
    exec(compile(SCRIPT.read_text(encoding="utf-8"), str(SCRIPT), "exec"), {"__name__": "__main__"})
    assert "CustomTensor([1. 4. 9.])" in capsys.readouterr().out
