"""Matrix products in replays: NumPy's BLAS on the CPU, requests of a plan on a GPU."""

import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.fusing.execute import capture
from pycudakit.fusing.memory import residency

pytestmark = pytest.mark.usefixtures("really_replayed")

SHAPES = [((7, 5), (5, 9)), ((5,), (5, 9)), ((7, 5), (5,)), ((3, 7, 5), (3, 5, 4)), ((3, 7, 5), (5, 4))]


def values(rng, shape, dtype):
    return rng.integers(-4, 5, shape).astype(dtype) if dtype.startswith("i") else rng.random(shape, dtype)


def is_replayed():
    return "replayed" in pk.last_call().reason


def near(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "i":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5 if want.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_products(engine, shapes, dtype):
    def body(a, b):
        return (a + 1) @ b * 2

    fused, rng = pk.fuse(body), np.random.default_rng(1)
    for _ in range(6):
        a, b = (values(rng, shape, dtype) for shape in shapes)
        near(fused(a, b), body(a, b))
    if engine == "cuda" or (engine == "cpu" and dtype != "i8"):
        assert is_replayed()


@pytest.mark.parametrize(
    "body",
    [
        lambda a: a.T @ a,
        lambda a: a[:, 1:4].T @ a[:, ::2],
        lambda a: np.dot(a, a.T) + a.sum(),
        lambda a: a[:, 0] @ a[:, 1:],
        lambda a: a[:, 1:5] @ a[:4, 2],
        lambda a: (a[0] @ a[1]) * a[:, 3] + np.dot(a[:12, 2], a[3, ::-1]),
        lambda a: a / np.linalg.norm(a[:, 1]) + np.linalg.norm(a),
        lambda a: np.einsum("ij,ij->i", a, a[::-1])[:12] + np.einsum("ij,kj->ik", a, a)[0, :12],
        lambda a: np.dot(a[::2, 1:5], a[1, :4]) + a[::2, ::3] @ a[3, ::3],
        lambda a: a[::-1] @ a.T,
        lambda a: a[:, 5] @ a[:, :0:-2] + a.T[3] @ a[::-1, ::2],
        lambda a: a[:, ::3] @ a[4, 1:5] - a[::-1, 7:] @ a[2:7, 0],
    ],
)
def test_products_of_views(engine, body):
    fused, rng = pk.fuse(body), np.random.default_rng(2)
    for _ in range(6):
        a = rng.random((20, 12))
        near(fused(a), body(a))
    assert is_replayed() or engine == "auto"


@pytest.mark.parametrize("body", [lambda a: a[:, 1:400].T @ a[:, ::2], lambda a: a[::-1] @ a.T])
def test_large_products_of_views(small_gpu, body):
    """The copies of the factors are on the device until they are multiplied."""
    fused, rng = pk.fuse(body), np.random.default_rng(4)
    for _ in range(4):
        a = rng.random((200, 500))
        near(fused(a), body(a))


def correlations(data, n):
    result = np.ones((n, n), data.dtype)
    for i in range(n - 1):
        result[i + 1 :, i] = result[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return result


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_are_multiplied_in_place(small_gpu, monkeypatch, dtype):
    """Copies of so many columns would be too large for a plan."""
    monkeypatch.setattr(capture, "_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(capture, "_MAX_BYTES_OF_REQUEST", 1 << 10)
    fused, rng = pk.fuse(correlations), np.random.default_rng(5)
    for _ in range(4):
        data = rng.random((300, 60), dtype)
        near(fused(data, 60), correlations(data, 60))
    assert is_replayed()


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e200])
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (lambda a: a[:, 0] @ a[:, 1:], "matmul"),
        (lambda a: np.dot(a[:, 1:4], a[2, :3]), "dot"),
        (lambda a: a[2, :2] @ a[2, 1:3], "matmul"),
        (lambda a: np.dot(a[2, :2], a[2, 1:3]), "dot"),
        (lambda a: np.einsum("ij,ij->i", a[:, :2], a[:, 1:3]), None),  # NumPy's does not warn
    ],
)
@pytest.mark.parametrize("calls", range(4))
def test_products_in_place_that_are_not_finite(small_gpu, body, name, value, calls):
    """They have NumPy's values and warnings in any call: traced, captured and replayed."""
    fused, finite = pk.fuse(body), np.ones((7, 6))
    other = finite.copy()
    other[2, :3] = [value, 0 if value == np.inf else value, value]
    for _ in range(calls):
        near(fused(finite), body(finite))
    results, messages = [], []
    for function in (fused, body):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            results.append(function(other))
        messages.append([str(each.message) for each in met])
    np.testing.assert_array_equal(*results)
    kinds = {np.inf: "invalid value", 1e200: "overflow"}
    assert messages[0] == ([f"{kinds[value]} encountered in {name}"] if name and value in kinds else [])
    near(fused(finite), body(finite))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("calls", range(4))
def test_computed_factors_that_are_not_finite(small_gpu, monkeypatch, value, calls):
    """Their values are downloaded before it is decided whether the product has to warn."""
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", 1)

    def body(x, y):
        return np.sqrt(x) @ y + np.dot(np.sqrt(x), y[:, 1:3]).sum()

    fused, rng = pk.fuse(body), np.random.default_rng(7)
    for call in range(calls + 1):
        x, y = rng.random(12), rng.random((12, 20))
        if call == calls:
            x[3] = value
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            np.testing.assert_allclose(fused(x, y), body(x, y))
        assert not met


def test_a_loop_of_products(engine):
    def body(data, n):
        return correlations(data, n)

    fused, rng = pk.fuse(body), np.random.default_rng(3)
    for _ in range(6):
        data = rng.random((30, 12))
        near(fused(data, 12), body(data, 12))
    assert is_replayed() or engine == "auto"


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e200])
def test_products_that_are_not_finite(engine, value):
    """They are computed and warn as in a call that is traced."""

    def body(a, b):
        return a @ b + 1

    fused, traced, a = pk.fuse(body), pk.fuse(body), np.ones((4, 4))
    for _ in range(5):
        near(fused(a, a), body(a, a))
    b = a.copy()
    b[1, 2] = value
    results, messages = [], []
    for function in (fused, traced, traced.__wrapped__):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            results.append(function(b, b))
        messages.append([str(each.message) for each in met])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert messages[0] == messages[1]
    near(fused(a, a), body(a, a))


def test_sums_that_stay_on_the_device_are_replayed(small_gpu):
    """Whether they are finite is a reduction of the traced call's, and no request."""

    def body(a):
        return (a + a.mean(axis=0)) * a.sum(axis=0)

    fused, rng = pk.fuse(body), np.random.default_rng(6)
    for _ in range(4):
        a = rng.random((12, 9000))
        near(fused(a), body(a))
    assert is_replayed()
