"""Resident ranges of host memory, and calls of pk_evaluate and pk_reduce that use their device copies.

On the CPU engine nothing is resident, and every result is the same.
"""

import numpy as np
import pytest
from helpers.residency import LARGE, NOTES, SMALL, in_plan, numbers

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi


@pytest.mark.parametrize("size", [1, pytest.param(SMALL, marks=pytest.mark.smoke), LARGE])
@in_plan
def test_an_input_goes_up_once(scope, size):
    x, y, out = scope.keep(numbers(size)), numbers(size), np.zeros(size, np.float32)
    report = scope.evaluate("add", out, x, y)
    if size != 1:  # one element comes as a constant might
        scope.up(report, x.nbytes + y.nbytes)
    scope.down(report, out.nbytes)
    assert (out == x + y).all()
    report = scope.evaluate("multiply", out, x, y)
    if size != 1:
        scope.up(report, y.nbytes)
    assert (out == x * y).all()
    scope.up(scope.evaluate("add", out, x, x), 0)
    assert (out == x + x).all()


@in_plan
def test_an_input_used_twice_is_uploaded_once(scope):
    x, out = scope.keep(numbers(LARGE)), np.zeros(LARGE, np.float32)
    scope.up(scope.evaluate("multiply", out, x, x), x.nbytes)
    assert (out == x * x).all()


@pytest.mark.parametrize("size", [1, pytest.param(SMALL, marks=pytest.mark.smoke), LARGE, 3_000_000])
@in_plan
def test_temporaries_stay(scope, size):
    x, y, t, u = numbers(size), numbers(size), scope.temporary(size), scope.temporary(size)
    scope.down(scope.evaluate("add", t, x, y), 0)
    report = scope.evaluate("multiply", u, t, t)
    scope.up(report, 0)
    scope.down(report, 0)
    if scope.is_cuda:
        assert (t == 77).all()
        assert (u == 77).all()
    scope.down({"bytes_down": scope.fetch(u)[1]}, u.nbytes)
    assert (u == (x + y) ** 2).all()
    assert scope.fetch(u) == (0, 0)
    scope.up(scope.evaluate("add", u, u, t), 0)  # it is on the device still, and now there alone
    scope.fetch(u)
    assert (u == (x + y) ** 2 + (x + y)).all()


VIEWS = {
    "shifted": (lambda a: a[1:-1, 2:], lambda a: a[:-2, 1:-1]),
    "every other": (lambda a: a[::2, 1::3], lambda a: a[1::2, ::3]),
    "backwards": (lambda a: a[::-1, :], lambda a: a[:, ::-1]),
    "transposed": (lambda a: a.T, lambda a: a.T[::-1]),
    "broadcast": (lambda a: a[:, :1], lambda a: a[3]),
    "a constant": (lambda a: a, lambda a: a[2:3, 3:4]),
    "rows": (lambda a: a[3:9], lambda a: a[4:10]),
    "four dimensions": (
        lambda a: a.reshape(30, -1, 6, 86)[1:, :, 1:, 2:],
        lambda a: a.reshape(30, -1, 6, 86)[:-1, :, :-1, :-2],
    ),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.float16])
@in_plan
def test_views(scope, view, dtype):
    first, second = VIEWS[view]
    a = scope.keep(numbers(900, 516, dtype=dtype))
    x, y = first(a), second(a)
    wanted = np.add(x, y)
    out = np.zeros(wanted.shape, dtype)
    scope.up(scope.evaluate("add", out, x, y), a.nbytes)
    assert (out == wanted).all()
    out[...] = 0
    scope.up(scope.evaluate("add", out, x, y), 0)
    assert (out == wanted).all()


@pytest.mark.parametrize("view", [name for name in VIEWS if name not in ("broadcast", "a constant")])
@in_plan
def test_views_of_temporaries(scope, view):
    first, second = VIEWS[view]
    x, t, u = numbers(900, 516), scope.temporary((900, 516)), scope.temporary((900, 516))
    zeros = np.zeros((900, 516), np.float32)
    scope.evaluate("add", t, x, zeros)
    scope.evaluate("add", u, x, x)
    scope.up(scope.evaluate("add", first(u), first(t), second(t)), 0)
    wanted = x + x
    first(wanted)[...] = first(x) + second(x)
    scope.fetch(u)
    assert (u == wanted).all()


@pytest.mark.smoke
@in_plan
def test_many_views_in_one_program(scope):
    a, out = scope.keep(numbers(130, 40, 50)), np.zeros((60, 20, 20), np.float32)
    views = [a[i : i + 60, i % 20 : i % 20 + 20, i % 30 : i % 30 + 20] for i in range(70)]
    for goes_up in (a.nbytes, 0):
        report = scope.evaluate("add", out, *views)
        # So long a program goes up itself.
        assert not scope.is_cuda or goes_up < report["bytes_up"] <= goes_up + 2 * NOTES
        assert (out == sum(views)).all()


@in_plan
def test_a_constant_that_only_the_device_has(scope):
    x, t, out = numbers(SMALL), scope.temporary(SMALL), np.zeros(SMALL, np.float32)
    scope.evaluate("add", t, x, x)
    scope.evaluate("add", out, x, t[5:6])
    assert (out == x + 2 * x[5]).all()
    single = scope.temporary(1)
    scope.evaluate("add", single, x[3:4], x[4:5])
    scope.evaluate("add", out, x, single)
    assert (out == x + (x[3] + x[4])).all()


@pytest.mark.parametrize("size", [SMALL, LARGE])
@in_plan
def test_results_stay_and_come_down(scope, size):
    x, r = numbers(size), scope.keep(np.zeros(size, np.float32), abi.RESIDENT_OUTPUT)
    scope.down(scope.evaluate("add", r, x, x), r.nbytes)
    assert (r == 2 * x).all()
    out = np.zeros(size, np.float32)
    scope.up(scope.evaluate("multiply", out, r, r), 0)
    assert (out == 4 * x * x).all()
    assert scope.fetch(r) == (0, 0)


@in_plan
def test_results_that_are_views(scope):
    x, r = numbers(300, 400), scope.keep(np.zeros((300, 400), np.float32), abi.RESIDENT_OUTPUT)
    out = np.zeros((300, 400), np.float32)
    scope.evaluate("add", r, x, x)
    scope.down(scope.evaluate("add", r[1:-1, 1:-1], x[:-2, 2:], x[2:, :-2]), 298 * 398 * 4)
    wanted = x + x
    wanted[1:-1, 1:-1] = x[:-2, 2:] + x[2:, :-2]
    assert (r == wanted).all()
    scope.up(scope.evaluate("add", out, r, r), 0)
    assert (out == 2 * wanted).all()


@in_plan
def test_partial_stores(scope):
    x, t = numbers(LARGE), scope.temporary(LARGE)
    for half in (slice(None, LARGE // 2), slice(LARGE // 2, None)):
        scope.down(scope.evaluate("add", t[half], x[half], x[half]), 0)
    scope.fetch(t)
    assert (t == 2 * x).all()
    y = scope.keep(x.copy())
    scope.up(scope.evaluate("add", y[10:20], x[:10], x[:10]), y.nbytes + 2 * 40)
    scope.fetch(y)
    wanted = x.copy()
    wanted[10:20] = 2 * x[:10]
    assert (y == wanted).all()


@in_plan
def test_stores_in_place(scope):
    x = scope.keep(numbers(LARGE))
    y = x.copy()
    scope.up(scope.evaluate("add", x, x, x), x.nbytes)
    scope.up(scope.evaluate("add", x, x, x), 0)
    if scope.is_cuda:
        assert (x == y).all()
    scope.fetch(x)
    assert (x == 4 * y).all()


@in_plan
def test_changed_ranges_are_uploaded_again(scope):
    x, out = scope.keep(numbers(SMALL)), np.zeros(SMALL, np.float32)
    scope.evaluate("add", out, x, x)
    x += 1
    scope.changed(x[5:])
    scope.up(scope.evaluate("add", out, x, x), x.nbytes)
    assert (out == 2 * x).all()


@in_plan
def test_dropped_ranges_are_on_the_host(scope):
    x, out = scope.keep(numbers(SMALL)), np.zeros(SMALL, np.float32)
    scope.evaluate("add", out, x, x)
    scope.drop(x)
    scope.up(scope.evaluate("multiply", out, x, numbers(SMALL)), 2 * x.nbytes)
    scope.drop(x)
    scope.keep(x)
    scope.evaluate("add", out, x, x)
    assert (out == 2 * x).all()


def test_plans_end(scope):
    x, t, out = numbers(SMALL), np.full(SMALL, 77, np.float32), np.zeros(SMALL, np.float32)

    def body():
        scope.keep(x)
        scope.keep(t, abi.RESIDENT_TEMPORARY)
        scope.evaluate("add", t, x, x)

    scope.run(body)
    scope.up(scope.evaluate("add", out, t, x), 2 * x.nbytes)
    if scope.is_cuda:
        assert (out == 77 + x).all()


def test_nesting(scope):
    x, y, out = numbers(SMALL), numbers(SMALL), np.zeros(SMALL, np.float32)

    def inner():
        scope.keep(y)
        scope.up(scope.evaluate("add", out, x, y), y.nbytes)
        if scope.is_cuda:
            with pytest.raises(errors.InvalidArgument, match="overlaps"):
                scope.keep(x)

    def outer():
        scope.keep(x)
        scope.evaluate("add", out, x, x)
        scope.run(inner)
        scope.up(scope.evaluate("add", out, x, y), y.nbytes)

    scope.run(outer)
    assert (out == x + y).all()


@pytest.mark.parametrize("offset", [0, 1])
@in_plan
def test_operands_that_kernels_cannot_read_go_over_the_host(scope, offset):
    dtype = np.dtype(np.float32) if offset else np.dtype(np.float32).newbyteorder()
    raw = scope.temporary(4 * SMALL + 4, np.uint8)
    view = raw[offset : offset + 4 * SMALL].view(dtype)
    x, out = numbers(SMALL), np.zeros(SMALL, np.float32)
    zeros = np.zeros(raw.size, np.uint8)
    scope.evaluate("bitwise_or", raw, zeros, zeros)
    scope.evaluate("add", view, x, x)
    scope.evaluate("add", out, view, x)
    assert (out == 3 * x).all()
    assert (view == 2 * x).all()
    report = scope.evaluate("bitwise_or", zeros, raw, raw)
    scope.up(report, raw.nbytes)
    assert (zeros == raw).all()


@in_plan
def test_an_operand_over_two_ranges(scope):
    whole = np.full(2 * SMALL, 77, np.float32)
    x, out = numbers(2 * SMALL), np.zeros(2 * SMALL, np.float32)
    for half in (whole[:SMALL], whole[SMALL:]):
        scope.keep(half, abi.RESIDENT_TEMPORARY)
        scope.evaluate("add", half, x[:SMALL], x[SMALL:])
    scope.evaluate("add", out, whole, x)
    assert (out == np.tile(x[:SMALL] + x[SMALL:], 2) + x).all()
    scope.evaluate("add", whole, x, x)
    scope.evaluate("add", out[:SMALL], whole[:SMALL], x[:SMALL])
    assert (out[:SMALL] == 3 * x[:SMALL]).all()


@pytest.mark.parametrize("size", [SMALL, 2_000_000])
@in_plan
def test_exceptions_are_reported(scope, size):
    x, zeros, t = scope.keep(np.ones(size, np.float32)), np.zeros(size, np.float32), scope.temporary(size)
    zeros[7] = 1
    scope.keep(zeros)
    for _ in range(2):
        report = scope.evaluate("divide", t, x, zeros)
        assert report["exceptions"] == abi.FPE_DIVIDE_BY_ZERO
    assert scope.evaluate("add", t, x, zeros)["exceptions"] == 0


@in_plan
def test_a_part_of_a_call(scope):
    x, t, zeros = scope.keep(numbers(SMALL)), scope.temporary(SMALL), np.zeros(SMALL, np.float32)
    scope.evaluate("add", t, zeros, zeros)
    rest, options = np.zeros(1, abi.REST), np.zeros(1, abi.OPTIONS)
    options["rest"] = rest.ctypes.data
    rest["count"], rest["ranges"][0, 0] = 1, (100, 200)
    scope.evaluate("add", t, x, x, options=options)
    wanted = np.zeros(SMALL, np.float32)
    wanted[100:300] = 2 * x[100:300]
    scope.fetch(t)
    assert (t == wanted).all()


@pytest.mark.skipif(len(pk.devices()) < 2, reason="needs two GPUs")
@in_plan
def test_several_devices(scope):
    x, t = scope.keep(numbers(LARGE)), scope.temporary(LARGE)
    scope.evaluate("add", t, x, x)
    devices, options = np.array([1, 0]), np.zeros(1, abi.OPTIONS)
    options["devices"], options["device_count"] = devices.ctypes.data, 2
    scope.evaluate("add", t, t, x, options=options)
    assert (t == 3 * x).all()
    scope.up(scope.evaluate("add", t, t, x), t.nbytes)
    scope.fetch(t)
    assert (t == 4 * x).all()


WAYS = [
    lambda a: a,
    lambda a: a[1:-1, 2:],
    lambda a: a[:-2, 1:-1],
    lambda a: a[::-1],
    lambda a: a[:, ::-2],
    lambda a: a.T,
    lambda a: a[3:4],
    lambda a: a[5:9, :7],
]


@pytest.mark.parametrize("shape", [(12, 10), (300, 700)])
@pytest.mark.parametrize("seed", range(8))
@in_plan
def test_any_calls_in_any_order(scope, shape, seed):
    random = np.random.default_rng(seed)
    arrays = [numbers(*shape, dtype=np.int32) + i for i in range(5)]
    truths = [a.copy() for a in arrays]  # the results without a scope
    kept = set()

    def to_host(i):
        scope.fetch(arrays[i])
        assert (arrays[i] == truths[i]).all()

    for _ in range(40):
        i, j, k = random.choice(5, 3, replace=False)
        step = random.choice(["keep", "drop", "fetch", "change", "sum", *["add"] * 6])
        if step == "keep" and i not in kept:
            kind = int(random.integers(3))
            scope.keep(arrays[i], kind)
            kept.add(i)
            if kind != abi.RESIDENT_INPUT:  # nothing is there yet
                scope.evaluate("add", arrays[i], arrays[j], arrays[k])
                truths[i][...] = truths[j] + truths[k]
        elif step == "drop":
            to_host(i)
            scope.drop(arrays[i])
            kept.discard(i)
        elif step == "fetch":
            to_host(i)
        elif step == "change":
            to_host(i)
            arrays[i] += 3
            truths[i] += 3
            scope.changed(arrays[i])
        elif step == "sum":
            way = WAYS[random.integers(len(WAYS))]
            total = np.zeros((), np.int64)
            scope.reduce(total, way(arrays[i]))
            assert total == way(truths[i]).sum()
        elif step == "add":
            way, other = WAYS[random.integers(len(WAYS))], WAYS[random.integers(len(WAYS))]
            j = random.choice([i, j])  # in place, too
            if other(truths[k]).shape != way(truths[k]).shape:
                other = way
            scope.evaluate("add", way(arrays[i]), way(arrays[j]), other(arrays[k]))
            way(truths[i])[...] = way(truths[j]) + other(truths[k])
    for i in range(5):
        to_host(i)


# ---- Reductions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
@in_plan
def test_sums(scope, size):
    x, y = scope.keep(numbers(size)), scope.keep(numbers(size)[::-1].copy())
    total, report = scope.sum(x)
    if size != 1:
        scope.up(report, x.nbytes)
    assert total == x.sum(dtype=np.float64)
    total, report = scope.sum(x)
    scope.up(report, 0)
    assert total == x.sum(dtype=np.float64)
    total, report = scope.sum(x[1:]) if size > 1 else (total, report)
    scope.up(report, 0)
    assert total == x[size > 1 :].sum(dtype=np.float64)
    total, report = scope.sum(x, y, kind=abi.REDUCE_DOT)
    assert total == x.astype(np.float64) @ y.astype(np.float64)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:-1, 2:], lambda a: a[::-2], lambda a: a.T])
@in_plan
def test_sums_of_views(scope, view):
    a = numbers(1100, 700)
    t = scope.temporary(a.shape)
    scope.evaluate("add", t, a, a)
    x = view(t)
    wanted = 2 * view(a).astype(np.float64)
    total, report = scope.sum(x)
    scope.up(report, 0)
    assert total == wanted.sum()
    rows = np.zeros(x.shape[0])
    scope.up(scope.reduce(rows, x, outer=1), 0)
    assert (rows == wanted.sum(axis=1)).all()


@in_plan
def test_sums_into_a_kept_range(scope):
    x, t, out = numbers(50, 60, dtype=np.float64), scope.temporary(50, np.float64), np.zeros(50)
    scope.evaluate("add", t, x[:, 0], x[:, 1])
    scope.reduce(t[10:], x[10:], outer=1)
    wanted = np.concatenate([x[:10, 0] + x[:10, 1], x[10:].sum(axis=1)])
    scope.evaluate("add", out, t, t)
    assert (out == 2 * wanted).all()
    scope.fetch(t)
    assert (t == wanted).all()


@in_plan
def test_sums_of_rows_stay(scope):
    """Sums of rows of one block stay; partials of longer rows are downloaded, and the sums uploaded again."""
    x, out = numbers(300, 1000, dtype=np.float64), np.zeros(300)
    scope.keep(x)
    for part, down in ((x, 0), (x.reshape(150, 2000), None)):
        sums = scope.temporary(len(part), np.float64)
        report = scope.reduce(sums, part, outer=1)
        if down is not None:
            scope.down(report, down)
        scope.evaluate("add", out[: len(part)], sums, sums)
        np.testing.assert_allclose(out[: len(part)], 2 * part.sum(axis=1), rtol=1e-12, atol=1e-9)
    a = numbers(300, 5, dtype=np.float64)
    t = scope.temporary((300, 5), np.float64)
    scope.evaluate("add", t, a, a)
    scope.reduce(t.reshape(-1)[:300], t, outer=1)  # into its own operand
    scope.fetch(t)
    np.testing.assert_allclose(t.reshape(-1)[:300], 2 * a.sum(axis=1), rtol=1e-12, atol=1e-9)
    assert (t.reshape(-1)[300:] == 2 * a.reshape(-1)[300:]).all()
