"""Plans: resident ranges of host memory, and calls of pk_evaluate and pk_reduce that use their device copies.

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
def test_an_input_goes_up_once(plan, size):
    x, y, out = plan.keep(numbers(size)), numbers(size), np.zeros(size, np.float32)
    report = plan.evaluate("add", out, x, y)
    if size != 1:  # one element comes as a constant might
        plan.up(report, x.nbytes + y.nbytes)
    plan.down(report, out.nbytes)
    assert (out == x + y).all()
    report = plan.evaluate("multiply", out, x, y)
    if size != 1:
        plan.up(report, y.nbytes)
    assert (out == x * y).all()
    plan.up(plan.evaluate("add", out, x, x), 0)
    assert (out == x + x).all()


@in_plan
def test_an_input_used_twice_is_uploaded_once(plan):
    x, out = plan.keep(numbers(LARGE)), np.zeros(LARGE, np.float32)
    plan.up(plan.evaluate("multiply", out, x, x), x.nbytes)
    assert (out == x * x).all()


@pytest.mark.parametrize("size", [1, pytest.param(SMALL, marks=pytest.mark.smoke), LARGE, 3_000_000])
@in_plan
def test_temporaries_stay(plan, size):
    x, y, t, u = numbers(size), numbers(size), plan.temporary(size), plan.temporary(size)
    plan.down(plan.evaluate("add", t, x, y), 0)
    report = plan.evaluate("multiply", u, t, t)
    plan.up(report, 0)
    plan.down(report, 0)
    if plan.is_cuda:
        assert (t == 77).all()
        assert (u == 77).all()
    plan.down({"bytes_down": plan.fetch(u)[1]}, u.nbytes)
    assert (u == (x + y) ** 2).all()
    assert plan.fetch(u) == (0, 0)
    plan.up(plan.evaluate("add", u, u, t), 0)  # it is on the device still, and now there alone
    plan.fetch(u)
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
def test_views(plan, view, dtype):
    first, second = VIEWS[view]
    a = plan.keep(numbers(900, 516, dtype=dtype))
    x, y = first(a), second(a)
    wanted = np.add(x, y)
    out = np.zeros(wanted.shape, dtype)
    plan.up(plan.evaluate("add", out, x, y), a.nbytes)
    assert (out == wanted).all()
    out[...] = 0
    plan.up(plan.evaluate("add", out, x, y), 0)
    assert (out == wanted).all()


@pytest.mark.parametrize("view", [name for name in VIEWS if name not in ("broadcast", "a constant")])
@in_plan
def test_views_of_temporaries(plan, view):
    first, second = VIEWS[view]
    x, t, u = numbers(900, 516), plan.temporary((900, 516)), plan.temporary((900, 516))
    zeros = np.zeros((900, 516), np.float32)
    plan.evaluate("add", t, x, zeros)
    plan.evaluate("add", u, x, x)
    plan.up(plan.evaluate("add", first(u), first(t), second(t)), 0)
    wanted = x + x
    first(wanted)[...] = first(x) + second(x)
    plan.fetch(u)
    assert (u == wanted).all()


@pytest.mark.smoke
@in_plan
def test_many_views_in_one_program(plan):
    a, out = plan.keep(numbers(130, 40, 50)), np.zeros((60, 20, 20), np.float32)
    views = [a[i : i + 60, i % 20 : i % 20 + 20, i % 30 : i % 30 + 20] for i in range(70)]
    for goes_up in (a.nbytes, 0):
        report = plan.evaluate("add", out, *views)
        # So long a program goes up itself.
        assert not plan.is_cuda or goes_up < report["bytes_up"] <= goes_up + 2 * NOTES
        assert (out == sum(views)).all()


@in_plan
def test_a_constant_that_only_the_device_has(plan):
    x, t, out = numbers(SMALL), plan.temporary(SMALL), np.zeros(SMALL, np.float32)
    plan.evaluate("add", t, x, x)
    plan.evaluate("add", out, x, t[5:6])
    assert (out == x + 2 * x[5]).all()
    single = plan.temporary(1)
    plan.evaluate("add", single, x[3:4], x[4:5])
    plan.evaluate("add", out, x, single)
    assert (out == x + (x[3] + x[4])).all()


@pytest.mark.parametrize("size", [SMALL, LARGE])
@in_plan
def test_results_stay_and_come_down(plan, size):
    x, r = numbers(size), plan.keep(np.zeros(size, np.float32), abi.RESIDENT_OUTPUT)
    plan.down(plan.evaluate("add", r, x, x), r.nbytes)
    assert (r == 2 * x).all()
    out = np.zeros(size, np.float32)
    plan.up(plan.evaluate("multiply", out, r, r), 0)
    assert (out == 4 * x * x).all()
    assert plan.fetch(r) == (0, 0)


@in_plan
def test_results_that_are_views(plan):
    x, r = numbers(300, 400), plan.keep(np.zeros((300, 400), np.float32), abi.RESIDENT_OUTPUT)
    out = np.zeros((300, 400), np.float32)
    plan.evaluate("add", r, x, x)
    plan.down(plan.evaluate("add", r[1:-1, 1:-1], x[:-2, 2:], x[2:, :-2]), 298 * 398 * 4)
    wanted = x + x
    wanted[1:-1, 1:-1] = x[:-2, 2:] + x[2:, :-2]
    assert (r == wanted).all()
    plan.up(plan.evaluate("add", out, r, r), 0)
    assert (out == 2 * wanted).all()


@in_plan
def test_partial_stores(plan):
    x, t = numbers(LARGE), plan.temporary(LARGE)
    for half in (slice(None, LARGE // 2), slice(LARGE // 2, None)):
        plan.down(plan.evaluate("add", t[half], x[half], x[half]), 0)
    plan.fetch(t)
    assert (t == 2 * x).all()
    y = plan.keep(x.copy())
    plan.up(plan.evaluate("add", y[10:20], x[:10], x[:10]), y.nbytes + 2 * 40)
    plan.fetch(y)
    wanted = x.copy()
    wanted[10:20] = 2 * x[:10]
    assert (y == wanted).all()


@in_plan
def test_stores_in_place(plan):
    x = plan.keep(numbers(LARGE))
    y = x.copy()
    plan.up(plan.evaluate("add", x, x, x), x.nbytes)
    plan.up(plan.evaluate("add", x, x, x), 0)
    if plan.is_cuda:
        assert (x == y).all()
    plan.fetch(x)
    assert (x == 4 * y).all()


@in_plan
def test_changed_ranges_are_uploaded_again(plan):
    x, out = plan.keep(numbers(SMALL)), np.zeros(SMALL, np.float32)
    plan.evaluate("add", out, x, x)
    x += 1
    plan.changed(x[5:])
    plan.up(plan.evaluate("add", out, x, x), x.nbytes)
    assert (out == 2 * x).all()


@in_plan
def test_dropped_ranges_are_on_the_host(plan):
    x, out = plan.keep(numbers(SMALL)), np.zeros(SMALL, np.float32)
    plan.evaluate("add", out, x, x)
    plan.drop(x)
    plan.up(plan.evaluate("multiply", out, x, numbers(SMALL)), 2 * x.nbytes)
    plan.drop(x)
    plan.keep(x)
    plan.evaluate("add", out, x, x)
    assert (out == 2 * x).all()


def test_plans_end(plan):
    x, t, out = numbers(SMALL), np.full(SMALL, 77, np.float32), np.zeros(SMALL, np.float32)

    def body():
        plan.keep(x)
        plan.keep(t, abi.RESIDENT_TEMPORARY)
        plan.evaluate("add", t, x, x)

    plan.run(body)
    plan.up(plan.evaluate("add", out, t, x), 2 * x.nbytes)
    if plan.is_cuda:
        assert (out == 77 + x).all()


def test_nesting(plan):
    x, y, out = numbers(SMALL), numbers(SMALL), np.zeros(SMALL, np.float32)

    def inner():
        plan.keep(y)
        plan.up(plan.evaluate("add", out, x, y), y.nbytes)
        if plan.is_cuda:
            with pytest.raises(errors.InvalidArgument, match="overlaps"):
                plan.keep(x)

    def outer():
        plan.keep(x)
        plan.evaluate("add", out, x, x)
        plan.run(inner)
        plan.up(plan.evaluate("add", out, x, y), y.nbytes)

    plan.run(outer)
    assert (out == x + y).all()


@pytest.mark.parametrize("offset", [0, 1])
@in_plan
def test_operands_that_kernels_cannot_read_go_over_the_host(plan, offset):
    dtype = np.dtype(np.float32) if offset else np.dtype(np.float32).newbyteorder()
    raw = plan.temporary(4 * SMALL + 4, np.uint8)
    view = raw[offset : offset + 4 * SMALL].view(dtype)
    x, out = numbers(SMALL), np.zeros(SMALL, np.float32)
    zeros = np.zeros(raw.size, np.uint8)
    plan.evaluate("bitwise_or", raw, zeros, zeros)
    plan.evaluate("add", view, x, x)
    plan.evaluate("add", out, view, x)
    assert (out == 3 * x).all()
    assert (view == 2 * x).all()
    report = plan.evaluate("bitwise_or", zeros, raw, raw)
    plan.up(report, raw.nbytes)
    assert (zeros == raw).all()


@in_plan
def test_an_operand_over_two_ranges(plan):
    whole = np.full(2 * SMALL, 77, np.float32)
    x, out = numbers(2 * SMALL), np.zeros(2 * SMALL, np.float32)
    for half in (whole[:SMALL], whole[SMALL:]):
        plan.keep(half, abi.RESIDENT_TEMPORARY)
        plan.evaluate("add", half, x[:SMALL], x[SMALL:])
    plan.evaluate("add", out, whole, x)
    assert (out == np.tile(x[:SMALL] + x[SMALL:], 2) + x).all()
    plan.evaluate("add", whole, x, x)
    plan.evaluate("add", out[:SMALL], whole[:SMALL], x[:SMALL])
    assert (out[:SMALL] == 3 * x[:SMALL]).all()


@pytest.mark.parametrize("size", [SMALL, 2_000_000])
@in_plan
def test_exceptions_are_reported(plan, size):
    x, zeros, t = plan.keep(np.ones(size, np.float32)), np.zeros(size, np.float32), plan.temporary(size)
    zeros[7] = 1
    plan.keep(zeros)
    for _ in range(2):
        report = plan.evaluate("divide", t, x, zeros)
        assert report["exceptions"] == abi.FPE_DIVIDE_BY_ZERO
    assert plan.evaluate("add", t, x, zeros)["exceptions"] == 0


@in_plan
def test_a_part_of_a_call(plan):
    x, t, zeros = plan.keep(numbers(SMALL)), plan.temporary(SMALL), np.zeros(SMALL, np.float32)
    plan.evaluate("add", t, zeros, zeros)
    rest, options = np.zeros(1, abi.REST), np.zeros(1, abi.OPTIONS)
    options["rest"] = rest.ctypes.data
    rest["count"], rest["ranges"][0, 0] = 1, (100, 200)
    plan.evaluate("add", t, x, x, options=options)
    wanted = np.zeros(SMALL, np.float32)
    wanted[100:300] = 2 * x[100:300]
    plan.fetch(t)
    assert (t == wanted).all()


@pytest.mark.skipif(len(pk.devices()) < 2, reason="needs two GPUs")
@in_plan
def test_several_devices(plan):
    x, t = plan.keep(numbers(LARGE)), plan.temporary(LARGE)
    plan.evaluate("add", t, x, x)
    devices, options = np.array([1, 0]), np.zeros(1, abi.OPTIONS)
    options["devices"], options["device_count"] = devices.ctypes.data, 2
    plan.evaluate("add", t, t, x, options=options)
    assert (t == 3 * x).all()
    plan.up(plan.evaluate("add", t, t, x), t.nbytes)
    plan.fetch(t)
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
def test_any_calls_in_any_order(plan, shape, seed):
    random = np.random.default_rng(seed)
    arrays = [numbers(*shape, dtype=np.int32) + i for i in range(5)]
    truths = [a.copy() for a in arrays]  # the results without a plan
    kept = set()

    def to_host(i):
        plan.fetch(arrays[i])
        assert (arrays[i] == truths[i]).all()

    for _ in range(40):
        i, j, k = random.choice(5, 3, replace=False)
        step = random.choice(["keep", "drop", "fetch", "change", "sum", *["add"] * 6])
        if step == "keep" and i not in kept:
            kind = int(random.integers(3))
            plan.keep(arrays[i], kind)
            kept.add(i)
            if kind != abi.RESIDENT_INPUT:  # nothing is there yet
                plan.evaluate("add", arrays[i], arrays[j], arrays[k])
                truths[i][...] = truths[j] + truths[k]
        elif step == "drop":
            to_host(i)
            plan.drop(arrays[i])
            kept.discard(i)
        elif step == "fetch":
            to_host(i)
        elif step == "change":
            to_host(i)
            arrays[i] += 3
            truths[i] += 3
            plan.changed(arrays[i])
        elif step == "sum":
            way = WAYS[random.integers(len(WAYS))]
            total = np.zeros((), np.int64)
            plan.reduce(total, way(arrays[i]))
            assert total == way(truths[i]).sum()
        elif step == "add":
            way, other = WAYS[random.integers(len(WAYS))], WAYS[random.integers(len(WAYS))]
            j = random.choice([i, j])  # in place, too
            if other(truths[k]).shape != way(truths[k]).shape:
                other = way
            plan.evaluate("add", way(arrays[i]), way(arrays[j]), other(arrays[k]))
            way(truths[i])[...] = way(truths[j]) + other(truths[k])
    for i in range(5):
        to_host(i)


# ---- Reductions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
@in_plan
def test_sums(plan, size):
    x, y = plan.keep(numbers(size)), plan.keep(numbers(size)[::-1].copy())
    total, report = plan.sum(x)
    if size != 1:
        plan.up(report, x.nbytes)
    assert total == x.sum(dtype=np.float64)
    total, report = plan.sum(x)
    plan.up(report, 0)
    assert total == x.sum(dtype=np.float64)
    total, report = plan.sum(x[1:]) if size > 1 else (total, report)
    plan.up(report, 0)
    assert total == x[size > 1 :].sum(dtype=np.float64)
    total, report = plan.sum(x, y, kind=abi.REDUCE_DOT)
    assert total == x.astype(np.float64) @ y.astype(np.float64)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:-1, 2:], lambda a: a[::-2], lambda a: a.T])
@in_plan
def test_sums_of_views(plan, view):
    a = numbers(1100, 700)
    t = plan.temporary(a.shape)
    plan.evaluate("add", t, a, a)
    x = view(t)
    wanted = 2 * view(a).astype(np.float64)
    total, report = plan.sum(x)
    plan.up(report, 0)
    assert total == wanted.sum()
    rows = np.zeros(x.shape[0])
    plan.up(plan.reduce(rows, x, outer=1), 0)
    assert (rows == wanted.sum(axis=1)).all()


@in_plan
def test_sums_into_a_kept_range(plan):
    x, t, out = numbers(50, 60, dtype=np.float64), plan.temporary(50, np.float64), np.zeros(50)
    plan.evaluate("add", t, x[:, 0], x[:, 1])
    plan.reduce(t[10:], x[10:], outer=1)
    wanted = np.concatenate([x[:10, 0] + x[:10, 1], x[10:].sum(axis=1)])
    plan.evaluate("add", out, t, t)
    assert (out == 2 * wanted).all()
    plan.fetch(t)
    assert (t == wanted).all()


@in_plan
def test_sums_of_rows_stay(plan):
    """Sums of rows of one block stay; partials of longer rows are downloaded, and the sums uploaded again."""
    x, out = numbers(300, 1000, dtype=np.float64), np.zeros(300)
    plan.keep(x)
    for part, down in ((x, 0), (x.reshape(150, 2000), None)):
        sums = plan.temporary(len(part), np.float64)
        report = plan.reduce(sums, part, outer=1)
        if down is not None:
            plan.down(report, down)
        plan.evaluate("add", out[: len(part)], sums, sums)
        np.testing.assert_allclose(out[: len(part)], 2 * part.sum(axis=1), rtol=1e-12, atol=1e-9)
    a = numbers(300, 5, dtype=np.float64)
    t = plan.temporary((300, 5), np.float64)
    plan.evaluate("add", t, a, a)
    plan.reduce(t.reshape(-1)[:300], t, outer=1)  # into its own operand
    plan.fetch(t)
    np.testing.assert_allclose(t.reshape(-1)[:300], 2 * a.sum(axis=1), rtol=1e-12, atol=1e-9)
    assert (t.reshape(-1)[300:] == 2 * a.reshape(-1)[300:]).all()
