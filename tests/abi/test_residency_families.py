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


def draw(plan, distribution, out, *parameters, half=False):
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
    plan.library.pk_random(
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
def test_draws(plan, drawn, size, kind):
    distribution, dtype, parameters = DRAWN[drawn]
    wanted, out = np.zeros(size, dtype), plan.keep(np.full(size, 77, dtype), KINDS[kind])
    half = dtype in (np.uint32, np.float32)
    draw(plan, distribution, wanted, *parameters, half=half)
    report = draw(plan, distribution, out, *parameters, half=half)
    plan.up(report, 0)
    down = out.nbytes if kind == "result" else 0
    assert report["bytes_down"] == (down if plan.is_cuda else 0)
    if down == 0 and plan.is_cuda:
        assert (out == 77).all()
        assert fetched(plan, out) == out.nbytes
    assert fetched(plan, out) == 0
    assert same_bits(out, wanted)


@pytest.mark.parametrize("kind", KINDS)
@in_plan
def test_draws_into_a_part(plan, kind):
    out = plan.keep(np.full(LARGE, 77, np.float32), KINDS[kind])
    zeros, wanted = np.zeros(LARGE, np.float32), np.zeros(LARGE, np.float32)
    if kind != "input":
        plan.evaluate("add", out, zeros, zeros)
    else:
        wanted[:] = 77
    part = slice(1001, LARGE - 3)
    report = draw(plan, abi.RANDOM_NORMAL, out[part])
    plan.up(report, out.nbytes if kind == "input" else 0)
    draw(plan, abi.RANDOM_NORMAL, wanted[part])
    fetched(plan, out)
    assert same_bits(out, wanted)


@in_plan
def test_draws_are_read_on_the_device(plan):
    t, out, wanted = plan.temporary((70, 90)), np.zeros((70, 90), np.float32), np.zeros((70, 90), np.float32)
    draw(plan, abi.RANDOM_UNIFORM, t.T[::-1])
    draw(plan, abi.RANDOM_UNIFORM, wanted.T[::-1])
    plan.up(plan.evaluate("add", out, t, t), 0)
    assert same_bits(out, wanted + wanted)


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
@in_plan
def test_resident_parameters(plan, size):
    mean, scale = plan.temporary(size, np.float64), plan.keep(numbers(size, dtype=np.float64) + 60)
    one, out = np.ones(size), plan.temporary(size, np.float64)
    plan.evaluate("add", mean, one, one)
    wanted = np.zeros(size)
    draw(plan, abi.RANDOM_NORMAL, wanted, 2 * one, scale.copy())
    report = draw(plan, abi.RANDOM_NORMAL, out, mean, scale)
    if size != 1:  # one is read on the host
        plan.up(report, scale.nbytes)
        plan.up(draw(plan, abi.RANDOM_NORMAL, out, mean, scale), 0)
        plan.up(draw(plan, abi.RANDOM_NORMAL, out, 2 * one, scale), one.nbytes)
    fetched(plan, out)
    assert same_bits(out, wanted)


@in_plan
def test_parameters_that_go_over_the_host(plan):
    t, out = plan.temporary(2 * SMALL, np.float64), plan.temporary(SMALL, np.float64)
    x = numbers(2 * SMALL, dtype=np.float64) + 60
    plan.evaluate("add", t, x, x)
    wanted = np.zeros(SMALL)
    draw(plan, abi.RANDOM_NORMAL, wanted, 2 * x[7:8], 2 * x[::2])
    draw(plan, abi.RANDOM_NORMAL, out, t[7:8], t[::2])
    fetched(plan, out)
    assert same_bits(out, wanted)


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[1:].view(">f4"), lambda a: a[:-1]])
@in_plan
def test_draws_over_the_host(plan, view):
    raw = plan.temporary(4 * SMALL + 5, np.uint8)  # from one byte on, nothing is aligned in the home
    zeros = np.zeros(raw.size, np.uint8)
    plan.evaluate("bitwise_or", raw, zeros, zeros)
    out, wanted = view(raw[1:].view(np.float32)), view(np.zeros(SMALL + 1, np.float32))
    draw(plan, abi.RANDOM_NORMAL, out)
    draw(plan, abi.RANDOM_NORMAL, wanted)
    assert same_bits(out, wanted)
    plan.up(plan.evaluate("bitwise_or", zeros, raw, raw), raw.nbytes)
    assert (zeros == raw).all()


# ---- Products of matrices ---------------------------------------------------------------------------

TYPES = {"bool": np.bool_} | {f"{t.kind}{8 * t.itemsize}": t.type for t in abi.TYPES if t.kind in "iuf"}


def multiply(plan, a, b, c, *, turned=0, places=None, precision=abi.PRECISION_HIGHEST):
    """Multiply stacks of matrices: `c[i] = a[places[i, 0]] @ b[places[i, 1]]`."""
    if plan.is_cuda:
        cublas()
    dtype = c.dtype
    name = "bool" if dtype == np.bool_ else f"{dtype.kind}{8 * dtype.itemsize}"
    batch, m, n = c.shape
    k = a.shape[1 if turned & abi.MATMUL_TRANSPOSE_A else 2]
    if places is None:
        places = np.stack([np.arange(batch), np.arange(batch)], -1)
    stored = abi.MULTIPLIED[name]
    report, method = np.zeros(1, abi.REPORT), ctypes.c_int64()
    getattr(plan.library, f"pk_matmul_{name}")(
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


def check_product(plan, x, y, shape, kind, **given):
    """Multiply resident factors into a resident range, twice, and check the bytes that were transferred."""
    wanted = np.zeros(shape, x.dtype)
    met = multiply(plan, x, y, wanted, **given)["exceptions"]
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    c = plan.keep(np.full(shape, 1, x.dtype), KINDS[kind])
    sums = (
        8
        if given.get("precision") == abi.PRECISION_EXACT
        else max(4, x.itemsize)
        if x.dtype.kind == "f"
        else x.itemsize
    )
    for goes_up in (a.nbytes + b.nbytes, 0):
        report = multiply(plan, a, b, c, **given)
        plan.up(report, goes_up)
        assert report["bytes_down"] == (c.size * sums if plan.is_cuda and kind == "result" else 0)
        assert report["exceptions"] == met
    if kind != "result" and plan.is_cuda:
        assert (c == 1).all()
        assert fetched(plan, c) == c.nbytes
    assert fetched(plan, c) == 0
    assert same_bits(c, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("name", TYPES)
@in_plan
def test_products(plan, name, turned, kind):
    x, y = factors(70, 33, 50, turned, TYPES[name])
    check_product(plan, x, y, (1, 70, 33), kind, turned=turned)


@pytest.mark.parametrize("kind", ["temporary", *thorough("result")])
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("precision", PRECISE)
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_shapes(plan, shape, precision, turned, kind):
    if SANITIZED and ((kind == "result" and shape in LONG) or (precision and shape == "deep")):
        pytest.skip("sanitizers take long for it, and on the CPU one kind is as the other")
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k, turned)
    check_product(plan, x, y, (1, m, n), kind, turned=turned, precision=PRECISE[precision])


@pytest.mark.parametrize("has_infinity", [False, True])
@in_plan
def test_split_products(plan, has_infinity):
    x, y = factors(1024, 1025, 1030)
    if has_infinity:
        x[0, 3, 4] = np.inf
    check_product(plan, x, y, (1, 1024, 1025), "temporary")


@pytest.mark.smoke
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0, 1, 4, 64])
@in_plan
def test_matrices_within_a_range(plan, offset, kind):
    x, y = factors(60, 30, 40)
    memory = numbers(10_000)
    a_at, b_at, c_at = (slice(i + offset, i + offset + s) for i, s in ((0, 2400), (3000, 1200), (5000, 1800)))
    memory[a_at], memory[b_at] = x.ravel(), y.ravel()
    wanted = memory.copy()
    multiply(plan, x, y, wanted[c_at].reshape(1, 60, 30))
    kept, zeros = plan.keep(memory.copy(), KINDS[kind]), np.zeros(memory.size, np.float32)
    if kind != "input":
        plan.evaluate("add", kept, memory, zeros)
    a, b = kept[a_at].reshape(x.shape), kept[b_at].reshape(y.shape)
    report = multiply(plan, a, b, kept[c_at].reshape(1, 60, 30))
    plan.up(report, kept.nbytes if kind == "input" else 0)
    fetched(plan, kept)
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
def test_stacks(plan, places, kind):
    x, y = factors(20, 31, 17, stack=(4, 4))
    pairs = np.array(PLACES[places])
    wanted = np.zeros((len(pairs), 20, 31), np.float32)
    multiply(plan, x, y, wanted, places=pairs)
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    c = plan.keep(np.zeros(wanted.shape, np.float32), KINDS[kind])
    plan.up(multiply(plan, a, b, c, places=pairs), a.nbytes + b.nbytes)
    plan.up(multiply(plan, a, b, c, places=pairs), 0)
    fetched(plan, c)
    assert same_bits(c, wanted)


@pytest.mark.parametrize("shape", ["small", "tall", "deep"])
@in_plan
def test_one_resident_operand(plan, shape):
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k)
    wanted, c = np.zeros((1, m, n), np.float32), np.zeros((1, m, n), np.float32)
    up = multiply(plan, x, y, wanted)["bytes_up"]
    a = plan.keep(x.copy())
    multiply(plan, a, y, c)
    report = multiply(plan, a, y, c)
    plan.up(report, up - x.nbytes)
    assert same_bits(c, wanted)
    c[...] = 0
    plan.drop(a)
    b = plan.keep(y.copy())
    multiply(plan, x, b, c)
    plan.up(multiply(plan, x, b, c), x.nbytes)
    assert same_bits(c, wanted)
    t = plan.temporary((1, m, n))
    report = multiply(plan, x, y, t)
    plan.up(report, up)
    assert report["bytes_down"] == 0
    fetched(plan, t)
    assert same_bits(t, wanted)


@in_plan
def test_products_of_temporaries(plan):
    x, y = factors(60, 30, 40)
    a, b, c = plan.temporary(x.shape), plan.temporary(y.shape), plan.temporary((1, 60, 30))
    wanted, out = np.zeros((1, 60, 30), np.float32), np.zeros((1, 60, 30), np.float32)
    plan.evaluate("add", a, x, x)
    plan.evaluate("add", b, y, y)
    multiply(plan, x + x, y + y, wanted)
    plan.up(multiply(plan, a, b, c), 0)
    plan.up(plan.evaluate("add", out, c, c), 0)
    assert same_bits(out, wanted + wanted)


@in_plan
def test_products_without_depth(plan):
    c, out = plan.temporary((1, 20, 30)), np.ones((1, 20, 30), np.float32)
    plan.evaluate("add", c, out, out)
    empty = np.zeros((1, 20, 0), np.float32), np.zeros((1, 0, 30), np.float32)
    multiply(plan, *empty, c)
    plan.evaluate("add", out, c, c)
    assert (out == 0).all()


@in_plan
def test_products_over_the_host(plan):
    x, y = factors(20, 30, 40)
    whole, c = np.full(1200, 77, np.float32), plan.temporary((1, 20, 30))
    wanted = np.zeros((1, 20, 30), np.float32)
    for half in (whole[:500], whole[500:]):
        plan.keep(half, abi.RESIDENT_TEMPORARY)
    plan.evaluate("add", whole[:500], y.ravel()[:500], y.ravel()[:500])
    plan.evaluate("add", whole[500:], y.ravel()[500:], y.ravel()[500:])
    multiply(plan, x, y + y, wanted)
    multiply(plan, x, whole.reshape(y.shape), c)
    fetched(plan, c)
    assert same_bits(c, wanted)
    multiply(plan, x, y, wanted)
    multiply(plan, x, y, whole[300:900].reshape(1, 20, 30))
    assert same_bits(whole[300:900].reshape(1, 20, 30), wanted)
    out = np.zeros(1200, np.float32)
    plan.evaluate("add", out, whole, whole)
    assert (out == whole + whole).all()


# ---- Failures ---------------------------------------------------------------------------------------

FAULTS = """
import os
from helpers.residency import Plan
from abi.test_residency_families import draw, factors, multiply
from pycudakit import errors
from pycudakit._native import abi
plan = Plan("cuda")
x, y = factors(450_000, 5, 3)
wanted, drawn = np.zeros((1, 450_000, 5), np.float32), np.zeros(300_000, np.float32)
multiply(plan, x, y, wanted)
draw(plan, abi.RANDOM_NORMAL, drawn)
failed = 0
def trial(call):
    global failed
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    t, c = plan.temporary(300_000), plan.keep(np.zeros(wanted.shape, np.float32), abi.RESIDENT_OUTPUT)
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        draw(plan, abi.RANDOM_NORMAL, t)
        multiply(plan, a, b, c)
        assert c.tobytes() == wanted.tobytes()
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    multiply(plan, a, b, c)
    draw(plan, abi.RANDOM_NORMAL, t)
    assert c.tobytes() == wanted.tobytes()
    plan.fetch(t)
    assert t.tobytes() == drawn.tobytes()
    for array in (a, b, c, t):
        plan.drop(array)
def body():
    for call in [*range(1, 40), 10_000]:
        trial(call)
plan.run(body)
print(failed > 5)
"""


def test_calls_that_fail(plan):
    fail_each_call(plan, FAULTS)
