"""Random numbers and matrix products on resident operands.

A call has the same bits with and without resident operands.
"""

import ctypes

import numpy as np
import pytest
from helpers.residency import KINDS, LARGE, SMALL, fail_each_call, fetched, in_plan, numbers, same_bits
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

from pycudakit._families.matmul.matmul import cublas
from pycudakit._native import abi

# ---- Random numbers ---------------------------------------------------------------------------------


def draw(scope, distribution, out, *parameters, half=False):
    draws = np.zeros(1, abi.DRAWS)
    draws["key"], draws["counter"], draws["distribution"], draws["word"] = (
        (3, 5),
        (7, 0, 1, 0),
        distribution,
        2,
    )
    draws["has_half"], draws["half"] = half, 12345
    operands = np.zeros(1 + len(parameters), abi.OPERAND)
    for row, array in zip(operands, [out, *parameters], strict=True):
        view = np.broadcast_to(array, out.shape)
        row["address"], row["type"] = (
            view.__array_interface__["data"][0],
            abi.TYPES.index(view.dtype.newbyteorder("=")),
        )
        row["flags"] = 0 if view.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
        row["strides"][: out.ndim] = view.strides
    report = np.zeros(1, abi.REPORT)
    shape = np.array(out.shape, np.int64)
    scope.library.pk_random(
        *(draws, operands, len(operands), shape, out.ndim, np.zeros(1, abi.OPTIONS), report)
    )
    return report[0]


DRAWN = {
    "bits": (abi.RANDOM_BITS, np.uint32, ()),
    "uniforms": (abi.RANDOM_UNIFORM, np.float64, ()),
    "normals": (abi.RANDOM_NORMAL, np.float32, ()),
    "scaled": (abi.RANDOM_NORMAL, np.float64, (np.array(3.0), np.array(0.5))),
    "exponential": (abi.RANDOM_EXPONENTIAL, np.float64, (np.array(2.0),)),
    "bytes": (abi.RANDOM_INTEGERS, np.uint8, (np.array(3, np.uint64), np.array(90, np.uint64))),
    "counts": (abi.RANDOM_POISSON, np.int64, (np.array(4.5),)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, pytest.param(SMALL, marks=pytest.mark.smoke), LARGE])
@pytest.mark.parametrize("drawn", DRAWN)
@in_plan
def test_draws(scope, drawn, size, kind):
    distribution, dtype, parameters = DRAWN[drawn]
    wanted, out = np.zeros(size, dtype), scope.keep(np.full(size, 77, dtype), KINDS[kind])
    half = dtype in (np.uint32, np.float32)
    draw(scope, distribution, wanted, *parameters, half=half)
    report = draw(scope, distribution, out, *parameters, half=half)
    scope.up(report, 0)
    down = out.nbytes if kind == "result" else 0
    assert report["bytes_down"] == (down if scope.is_cuda else 0)
    if down == 0 and scope.is_cuda:
        assert (out == 77).all()
        assert fetched(scope, out) == out.nbytes
    assert fetched(scope, out) == 0
    assert same_bits(out, wanted)


@pytest.mark.parametrize("kind", KINDS)
@in_plan
def test_draws_into_a_part(scope, kind):
    out = scope.keep(np.full(LARGE, 77, np.float32), KINDS[kind])
    zeros, wanted = np.zeros(LARGE, np.float32), np.zeros(LARGE, np.float32)
    if kind != "input":
        scope.evaluate("add", out, zeros, zeros)
    else:
        wanted[:] = 77
    part = slice(1001, LARGE - 3)
    report = draw(scope, abi.RANDOM_NORMAL, out[part])
    scope.up(report, out.nbytes if kind == "input" else 0)
    draw(scope, abi.RANDOM_NORMAL, wanted[part])
    fetched(scope, out)
    assert same_bits(out, wanted)


@in_plan
def test_draws_are_read_on_the_device(scope):
    t, out, wanted = scope.temporary((70, 90)), np.zeros((70, 90), np.float32), np.zeros((70, 90), np.float32)
    draw(scope, abi.RANDOM_UNIFORM, t.T[::-1])
    draw(scope, abi.RANDOM_UNIFORM, wanted.T[::-1])
    scope.up(scope.evaluate("add", out, t, t), 0)
    assert same_bits(out, wanted + wanted)


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
@in_plan
def test_resident_parameters(scope, size):
    mean, scale = scope.temporary(size, np.float64), scope.keep(numbers(size, dtype=np.float64) + 60)
    one, out = np.ones(size), scope.temporary(size, np.float64)
    scope.evaluate("add", mean, one, one)
    wanted = np.zeros(size)
    draw(scope, abi.RANDOM_NORMAL, wanted, 2 * one, scale.copy())
    report = draw(scope, abi.RANDOM_NORMAL, out, mean, scale)
    if size != 1:  # one is read on the host
        scope.up(report, scale.nbytes)
        scope.up(draw(scope, abi.RANDOM_NORMAL, out, mean, scale), 0)
        scope.up(draw(scope, abi.RANDOM_NORMAL, out, 2 * one, scale), one.nbytes)
    fetched(scope, out)
    assert same_bits(out, wanted)


@in_plan
def test_parameters_that_go_over_the_host(scope):
    t, out = scope.temporary(2 * SMALL, np.float64), scope.temporary(SMALL, np.float64)
    x = numbers(2 * SMALL, dtype=np.float64) + 60
    scope.evaluate("add", t, x, x)
    wanted = np.zeros(SMALL)
    draw(scope, abi.RANDOM_NORMAL, wanted, 2 * x[7:8], 2 * x[::2])
    draw(scope, abi.RANDOM_NORMAL, out, t[7:8], t[::2])
    fetched(scope, out)
    assert same_bits(out, wanted)


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[1:].view(">f4"), lambda a: a[:-1]])
@in_plan
def test_draws_over_the_host(scope, view):
    raw = scope.temporary(4 * SMALL + 5, np.uint8)  # from one byte on, nothing is aligned in the home
    zeros = np.zeros(raw.size, np.uint8)
    scope.evaluate("bitwise_or", raw, zeros, zeros)
    out, wanted = view(raw[1:].view(np.float32)), view(np.zeros(SMALL + 1, np.float32))
    draw(scope, abi.RANDOM_NORMAL, out)
    draw(scope, abi.RANDOM_NORMAL, wanted)
    assert same_bits(out, wanted)
    scope.up(scope.evaluate("bitwise_or", zeros, raw, raw), raw.nbytes)
    assert (zeros == raw).all()


# ---- Products of matrices ---------------------------------------------------------------------------

TYPES = {"bool": np.bool_} | {f"{t.kind}{8 * t.itemsize}": t.type for t in abi.TYPES if t.kind in "iuf"}


def multiply(scope, a, b, c, *, turned=0, places=None, precision=abi.PRECISION_HIGHEST):
    """Multiply stacks of matrices: `c[i] = a[places[i, 0]] @ b[places[i, 1]]`."""
    if scope.is_cuda:
        cublas()
    dtype = c.dtype
    name = "bool" if dtype == np.bool_ else f"{dtype.kind}{8 * dtype.itemsize}"
    batch, m, n = c.shape
    k = a.shape[1 if turned & abi.MATMUL_TRANSPOSE_A else 2]
    if places is None:
        places = np.stack([np.arange(batch), np.arange(batch)], -1)
    stored = abi.MULTIPLIED[name]
    report, method = np.zeros(1, abi.REPORT), ctypes.c_int64()
    getattr(scope.library, f"pk_matmul_{name}")(
        *(a.view(stored), b.view(stored), c.view(stored), m, n, k, np.ascontiguousarray(places, np.int64)),
        *(batch, turned, precision, ctypes.byref(method), np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def factors(m, n, k, turned=0, dtype=np.float32, stack=(1, 1)):
    random = np.random.default_rng(5)
    shapes = [
        (k, m) if turned & abi.MATMUL_TRANSPOSE_A else (m, k),
        (n, k) if turned & abi.MATMUL_TRANSPOSE_B else (k, n),
    ]
    made = [random.normal(size=(count, *shape)) for count, shape in zip(stack, shapes, strict=True)]
    return [(x * 3).astype(dtype) if dtype != np.bool_ else x > 0.5 for x in made]


SHAPES = {
    "one": (1, 1, 1),
    "small": (70, 33, 50),
    "a row": (1, 300, 40),
    "a column": (500, 1, 129),
    # Longer than a part or a panel.
    "tall": (450_000, 5, 3),
    "wide": (3, 450_000, 4),
    "deep": (30, 20, 450_000),
}
LONG = {"tall", "wide", "deep"}
PRECISE = {"": abi.PRECISION_HIGHEST, " exact": abi.PRECISION_EXACT}


def check_product(scope, x, y, shape, kind, **given):
    """Multiply resident factors into a resident range, twice, and check the bytes that were transferred."""
    wanted = np.zeros(shape, x.dtype)
    met = multiply(scope, x, y, wanted, **given)["exceptions"]
    a, b = scope.keep(x.copy()), scope.keep(y.copy())
    c = scope.keep(np.full(shape, 1, x.dtype), KINDS[kind])
    sums = (
        8
        if given.get("precision") == abi.PRECISION_EXACT
        else max(4, x.itemsize)
        if x.dtype.kind == "f"
        else x.itemsize
    )
    for goes_up in (a.nbytes + b.nbytes, 0):
        report = multiply(scope, a, b, c, **given)
        scope.up(report, goes_up)
        assert report["bytes_down"] == (c.size * sums if scope.is_cuda and kind == "result" else 0)
        assert report["exceptions"] == met
    if kind != "result" and scope.is_cuda:
        assert (c == 1).all()
        assert fetched(scope, c) == c.nbytes
    assert fetched(scope, c) == 0
    assert same_bits(c, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("name", TYPES)
@in_plan
def test_products(scope, name, turned, kind):
    x, y = factors(70, 33, 50, turned, TYPES[name])
    check_product(scope, x, y, (1, 70, 33), kind, turned=turned)


@pytest.mark.parametrize("kind", ["temporary", *thorough("result")])
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("precision", PRECISE)
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_shapes(scope, shape, precision, turned, kind):
    if SANITIZED and ((kind == "result" and shape in LONG) or (precision and shape == "deep")):
        pytest.skip("sanitizers take long for it, and on the CPU one kind is as the other")
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k, turned)
    check_product(scope, x, y, (1, m, n), kind, turned=turned, precision=PRECISE[precision])


@pytest.mark.parametrize("has_infinity", [False, True])
@in_plan
def test_split_products(scope, has_infinity):
    x, y = factors(1024, 1025, 1030)
    if has_infinity:
        x[0, 3, 4] = np.inf
    check_product(scope, x, y, (1, 1024, 1025), "temporary")


@pytest.mark.smoke
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0, 1, 4, 64])
@in_plan
def test_matrices_within_a_range(scope, offset, kind):
    x, y = factors(60, 30, 40)
    memory = numbers(10_000)
    a_at, b_at, c_at = (slice(i + offset, i + offset + s) for i, s in ((0, 2400), (3000, 1200), (5000, 1800)))
    memory[a_at], memory[b_at] = x.ravel(), y.ravel()
    wanted = memory.copy()
    multiply(scope, x, y, wanted[c_at].reshape(1, 60, 30))
    kept, zeros = scope.keep(memory.copy(), KINDS[kind]), np.zeros(memory.size, np.float32)
    if kind != "input":
        scope.evaluate("add", kept, memory, zeros)
    a, b = kept[a_at].reshape(x.shape), kept[b_at].reshape(y.shape)
    report = multiply(scope, a, b, kept[c_at].reshape(1, 60, 30))
    scope.up(report, kept.nbytes if kind == "input" else 0)
    fetched(scope, kept)
    assert same_bits(kept, wanted)


PLACES = {
    "in order": [[0, 0], [1, 1], [2, 2], [3, 3]],
    "one with all": [[0, 2], [1, 2], [2, 2], [3, 2]],
    "some": [[1, 3], [2, 1], [3, 2]],
    "backwards": [[3, 3], [2, 2], [1, 1]],
}


@pytest.mark.parametrize("kind", ["temporary", "result"])
@pytest.mark.parametrize("places", PLACES)
@in_plan
def test_stacks(scope, places, kind):
    x, y = factors(20, 31, 17, stack=(4, 4))
    pairs = np.array(PLACES[places])
    wanted = np.zeros((len(pairs), 20, 31), np.float32)
    multiply(scope, x, y, wanted, places=pairs)
    a, b = scope.keep(x.copy()), scope.keep(y.copy())
    c = scope.keep(np.zeros(wanted.shape, np.float32), KINDS[kind])
    scope.up(multiply(scope, a, b, c, places=pairs), a.nbytes + b.nbytes)
    scope.up(multiply(scope, a, b, c, places=pairs), 0)
    fetched(scope, c)
    assert same_bits(c, wanted)


@pytest.mark.parametrize("shape", ["small", "tall", "deep"])
@in_plan
def test_one_resident_operand(scope, shape):
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k)
    wanted, c = np.zeros((1, m, n), np.float32), np.zeros((1, m, n), np.float32)
    up = multiply(scope, x, y, wanted)["bytes_up"]
    a = scope.keep(x.copy())
    multiply(scope, a, y, c)
    report = multiply(scope, a, y, c)
    scope.up(report, up - x.nbytes)
    assert same_bits(c, wanted)
    c[...] = 0
    scope.drop(a)
    b = scope.keep(y.copy())
    multiply(scope, x, b, c)
    scope.up(multiply(scope, x, b, c), x.nbytes)
    assert same_bits(c, wanted)
    t = scope.temporary((1, m, n))
    report = multiply(scope, x, y, t)
    scope.up(report, up)
    assert report["bytes_down"] == 0
    fetched(scope, t)
    assert same_bits(t, wanted)


@in_plan
def test_products_of_temporaries(scope):
    x, y = factors(60, 30, 40)
    a, b, c = scope.temporary(x.shape), scope.temporary(y.shape), scope.temporary((1, 60, 30))
    wanted, out = np.zeros((1, 60, 30), np.float32), np.zeros((1, 60, 30), np.float32)
    scope.evaluate("add", a, x, x)
    scope.evaluate("add", b, y, y)
    multiply(scope, x + x, y + y, wanted)
    scope.up(multiply(scope, a, b, c), 0)
    scope.up(scope.evaluate("add", out, c, c), 0)
    assert same_bits(out, wanted + wanted)


@in_plan
def test_products_without_depth(scope):
    c, out = scope.temporary((1, 20, 30)), np.ones((1, 20, 30), np.float32)
    scope.evaluate("add", c, out, out)
    empty = np.zeros((1, 20, 0), np.float32), np.zeros((1, 0, 30), np.float32)
    multiply(scope, *empty, c)
    scope.evaluate("add", out, c, c)
    assert (out == 0).all()


@in_plan
def test_products_over_the_host(scope):
    x, y = factors(20, 30, 40)
    whole, c = np.full(1200, 77, np.float32), scope.temporary((1, 20, 30))
    wanted = np.zeros((1, 20, 30), np.float32)
    for half in (whole[:500], whole[500:]):
        scope.keep(half, abi.RESIDENT_TEMPORARY)
    scope.evaluate("add", whole[:500], y.ravel()[:500], y.ravel()[:500])
    scope.evaluate("add", whole[500:], y.ravel()[500:], y.ravel()[500:])
    multiply(scope, x, y + y, wanted)
    multiply(scope, x, whole.reshape(y.shape), c)
    fetched(scope, c)
    assert same_bits(c, wanted)
    multiply(scope, x, y, wanted)
    multiply(scope, x, y, whole[300:900].reshape(1, 20, 30))
    assert same_bits(whole[300:900].reshape(1, 20, 30), wanted)
    out = np.zeros(1200, np.float32)
    scope.evaluate("add", out, whole, whole)
    assert (out == whole + whole).all()


# ---- Failures ---------------------------------------------------------------------------------------

FAULTS = """
import os
from helpers.residency import Scope
from abi.test_residency_families import draw, factors, multiply
from pycudakit import errors
from pycudakit._native import abi
scope = Scope("cuda")
x, y = factors(450_000, 5, 3)
wanted, drawn = np.zeros((1, 450_000, 5), np.float32), np.zeros(300_000, np.float32)
multiply(scope, x, y, wanted)
draw(scope, abi.RANDOM_NORMAL, drawn)
failed = 0
def trial(call):
    global failed
    a, b = scope.keep(x.copy()), scope.keep(y.copy())
    t, c = scope.temporary(300_000), scope.keep(np.zeros(wanted.shape, np.float32), abi.RESIDENT_OUTPUT)
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        draw(scope, abi.RANDOM_NORMAL, t)
        multiply(scope, a, b, c)
        assert c.tobytes() == wanted.tobytes()
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    multiply(scope, a, b, c)
    draw(scope, abi.RANDOM_NORMAL, t)
    assert c.tobytes() == wanted.tobytes()
    scope.fetch(t)
    assert t.tobytes() == drawn.tobytes()
    for array in (a, b, c, t):
        scope.drop(array)
def body():
    for call in [*range(1, 40), 10_000]:
        trial(call)
scope.run(body)
print(failed > 5)
"""


def test_calls_that_fail(scope):
    fail_each_call(scope, FAULTS)
