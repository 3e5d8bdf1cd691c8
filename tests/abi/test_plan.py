"""Plans: ranges of host memory with a home on the device, and calls that find them there.

On the CPU engine nothing is kept, and every answer is the same.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import python

import pycudakit as pk
from pycudakit import errors
from pycudakit._library import abi, loader
from pycudakit._programs.values import operations

SMALL, LARGE = 1000, 700_001
NOTES = 1 << 12  # bytes at most that a call's notes and partials take on their way down


@pytest.fixture(name="plan")
def _plan(engine):
    return Plan(engine)


class Plan:
    """What a plan's body does, and what the calls in it moved."""

    def __init__(self, engine):
        self.library = loader.library(engine)
        self.is_cuda = engine == "cuda"

    def run(self, body):
        raised = []

        def call(_context):
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - to be raised outside of ctypes
                raised.append(error)
            return len(raised)

        try:
            self.library.pk_run_plan(abi.PLAN_BODY(call), None)
        except errors.Interrupted:
            if not raised:
                raise
        if raised:
            raise raised[0]

    def keep(self, array, what=abi.KEEP_INPUT):
        kept = ctypes.c_int32(-1)
        self.library.pk_plan_keep(array.ctypes.data, array.nbytes, what, ctypes.byref(kept))
        assert kept.value == self.is_cuda
        return array

    def temporary(self, shape, dtype=np.float32):
        return self.keep(np.full(shape, 77, dtype), abi.KEEP_TEMPORARY)

    def lend(self, array, home, valid=abi.LENT_DEVICE):
        device = ctypes.c_int32(-1)
        at = home.__cuda_array_interface__["data"][0]
        self.library.pk_plan_lend(array.ctypes.data, array.nbytes, at, 1, valid, ctypes.byref(device))
        assert device.value == 0
        return array

    def fetch(self, array, entry="pk_plan_fetch"):
        report = np.zeros(1, abi.REPORT)
        getattr(self.library, entry)(array.ctypes.data, np.zeros(1, abi.OPTIONS), report)
        return report["bytes_up"][0], report["bytes_down"][0]

    def send(self, array):
        return self.fetch(array, "pk_plan_send")

    def changed(self, array):
        self.library.pk_plan_changed(array.ctypes.data)

    def drop(self, array):
        self.library.pk_plan_drop(array.ctypes.data)

    def evaluate(self, name, out, *arrays, options=None):
        """Compute `out[...] = name(name(arrays[0], arrays[1]), ...)`, and return the report."""
        code = abi.TYPES.index(out.dtype.newbyteorder("="))
        opcode, count = operations()[name], len(arrays)
        program = [(abi.LOAD, code, code, i, 0, 0) for i in range(count)]
        value = 0
        for i in range(1, count):
            program.append((opcode, code, code, value, i, 0))
            value = len(program) - 1
        program.append((abi.STORE, code, code, value, count, 0))
        operands = np.zeros(count + 1, abi.OPERAND)
        views = [np.broadcast_to(a, out.shape) for a in arrays]
        for row, view in zip(operands, [*views, out], strict=True):
            row["address"], row["type"] = view.__array_interface__["data"][0], code
            row["flags"] = 0 if view.dtype.isnative else abi.BYTE_SWAPPED
            row["strides"][: out.ndim] = view.strides
        report = np.zeros(1, abi.REPORT)
        shape = np.array(out.shape, np.int64)
        self.library.pk_evaluate(
            *(np.array(program, abi.INSTRUCTION), len(program), operands, count + 1),
            *(shape, out.ndim, np.zeros(1, abi.OPTIONS) if options is None else options),
            *(np.zeros(len(program), np.uint8), report),
        )
        return report[0]

    def sum(self, view, *others, kind=abi.SUM):
        """Return the sum of all elements, or of products, and the report."""
        out = np.zeros((), np.float64)
        return out, self.reduce(out, view, *others, kind=kind, outer=0)

    def reduce(self, out, *views, kind=abi.SUM, outer=0):
        """Reduce the dimensions behind the `outer` first ones."""
        count, dims = len(views), views[0].ndim
        code = abi.TYPES.index(views[0].dtype)
        program = [(abi.LOAD, code, code, i, 0, 0) for i in range(count)]
        program += [(abi.STORE, code, code, i, count + i, 0) for i in range(count)]
        operands = np.zeros(2 * count + 1, abi.OPERAND)
        operands["type"] = code
        for row, view in zip(operands, views, strict=False):
            row["address"], row["strides"][:dims] = view.__array_interface__["data"][0], view.strides
        operands["address"][-1] = out.__array_interface__["data"][0]
        operands["type"][-1] = abi.TYPES.index(out.dtype)
        operands["strides"][-1, :outer] = out.strides
        asked = np.zeros(1, abi.REDUCTION)
        asked["kind"], asked["values"], asked["outer"], asked["reduced"] = kind, count, outer, dims - outer
        report = np.zeros(1, abi.REPORT)
        self.library.pk_reduce(
            *(asked, np.array(program, abi.INSTRUCTION), len(program), operands, len(operands)),
            *(np.array(views[0].shape, np.int64), dims, np.zeros(len(program), np.uint8)),
            *(np.zeros(1, abi.OPTIONS), report),
        )
        return report[0]

    def up(self, report, wanted):
        assert report["bytes_up"] == (wanted if self.is_cuda else 0)

    def down(self, report, wanted):
        least = wanted if self.is_cuda else 0
        assert least <= report["bytes_down"] <= least + (NOTES if self.is_cuda else 0)


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(7).integers(-50, 50, shape).astype(dtype)


def in_plan(test):
    """Run a test as the body of a plan."""

    @functools.wraps(test)
    def run(plan, **given):
        plan.run(lambda: test(plan, **given))

    return run


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
    plan.up(report, y.nbytes)
    assert (out == x * y).all()
    plan.up(plan.evaluate("add", out, x, x), 0)
    assert (out == x + x).all()


@in_plan
def test_an_input_that_is_there_twice_goes_up_once(plan):
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
    x, r = numbers(size), plan.keep(np.zeros(size, np.float32), abi.KEEP_RESULT)
    plan.down(plan.evaluate("add", r, x, x), r.nbytes)
    assert (r == 2 * x).all()
    out = np.zeros(size, np.float32)
    plan.up(plan.evaluate("multiply", out, r, r), 0)
    assert (out == 4 * x * x).all()
    assert plan.fetch(r) == (0, 0)


@in_plan
def test_results_that_are_views(plan):
    x, r = numbers(300, 400), plan.keep(np.zeros((300, 400), np.float32), abi.KEEP_RESULT)
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
def test_what_was_changed_goes_up_again(plan):
    x, out = plan.keep(numbers(SMALL)), np.zeros(SMALL, np.float32)
    plan.evaluate("add", out, x, x)
    x += 1
    plan.changed(x[5:])
    plan.up(plan.evaluate("add", out, x, x), x.nbytes)
    assert (out == 2 * x).all()


@in_plan
def test_what_was_dropped_is_on_the_host(plan):
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
        plan.keep(t, abi.KEEP_TEMPORARY)
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
def test_what_kernels_cannot_read_goes_over_the_host(plan, offset):
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
        plan.keep(half, abi.KEEP_TEMPORARY)
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
        assert report["exceptions"] == abi.DIVIDE
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
    truths = [a.copy() for a in arrays]  # what the calls make of them without a plan
    kept = set()

    def to_host(i):
        plan.fetch(arrays[i])
        assert (arrays[i] == truths[i]).all()

    for _ in range(40):
        i, j, k = random.choice(5, 3, replace=False)
        step = random.choice(["keep", "drop", "fetch", "change", "sum", *["add"] * 6])
        if step == "keep" and i not in kept:
            what = int(random.integers(3))
            plan.keep(arrays[i], what)
            kept.add(i)
            if what != abi.KEEP_INPUT:  # nothing is there yet
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
    total, report = plan.sum(x, y, kind=abi.DOT)
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
    assert (t == wanted).all()
    plan.evaluate("add", out, t, t)
    assert (out == 2 * wanted).all()


# ---- Errors and memory ------------------------------------------------------------------------------


def test_errors(plan):
    x, kept = np.zeros(100), ctypes.c_int32(-1)
    keep, at = plan.library.pk_plan_keep, x.ctypes.data
    bad = [(0, 8, 0), (at, 0, 0), (at, -8, 0), (at, 8, -1), (at, 8, 3), (2**64 - 4, 8, 0)]
    for arguments in bad:
        with pytest.raises(errors.InvalidArgument):
            keep(*arguments, ctypes.byref(kept))
    with pytest.raises(errors.InvalidArgument, match="kept is a null"):
        keep(at, 8, 0, None)
    with pytest.raises(errors.InvalidArgument, match="body is a null"):
        plan.library.pk_run_plan(abi.PLAN_BODY(), None)
    keep(at, 8, 0, ctypes.byref(kept))
    assert kept.value == 0  # there is no plan
    assert plan.fetch(x) == (0, 0)
    plan.changed(x)
    plan.drop(x)


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
def test_lent_memory(plan, size):
    if not plan.is_cuda:
        pytest.skip("it has no device memory")
    cupy = pytest.importorskip("cupy")
    values, result, other = numbers(size), cupy.zeros(size, np.float32), cupy.zeros(size, np.float32)
    home = cupy.asarray(values)
    x, out, sent = (np.full(size, 77, np.float32) for _ in range(3))

    def body():
        plan.lend(x, home)
        plan.lend(out, result)
        report = plan.evaluate("add", out, x, x)
        plan.up(report, 0)
        assert report["bytes_down"] <= NOTES
        assert (x == 77).all()
        assert (out == 77).all()
        assert plan.send(out) == (0, 0)
        assert plan.fetch(x) == (0, x.nbytes)
        assert np.array_equal(x, values)
        plan.lend(sent, other, abi.LENT_HOST)
        assert plan.send(sent) == (sent.nbytes, 0)
        plan.drop(sent)
        with pytest.raises(errors.InvalidArgument, match="overlaps"):
            plan.lend(x[:1], home)

    plan.run(body)
    assert np.array_equal(cupy.asnumpy(result), values + values)
    assert (cupy.asnumpy(other) == 77).all()


def test_errors_of_lending(plan):
    x, device = np.zeros(100), ctypes.c_int32(-1)
    lend, at = plan.library.pk_plan_lend, x.ctypes.data
    bad = [(0, 8, at, 0, 0), (at, 0, at, 0, 0), (at, 8, 0, 0, 0), (at, 8, at, 0, 2), (at, 8, 2**64 - 4, 0, 0)]
    for arguments in bad:
        with pytest.raises(errors.InvalidArgument):
            plan.run(lambda given=arguments: lend(*given, ctypes.byref(device)))
    with pytest.raises(errors.InvalidArgument, match="device is a null"):
        lend(at, 8, at, 0, 0, None)
    kind, text = (errors.InvalidArgument, "no plan") if plan.is_cuda else (errors.Unsupported, "no devices")
    with pytest.raises(kind, match=text):
        lend(at, 8, at, 0, 1, ctypes.byref(device))
    assert plan.send(x) == (0, 0)
    assert device.value == -1


def test_a_body_that_fails(plan):
    with pytest.raises(errors.Interrupted, match="returned 3"):
        plan.library.pk_run_plan(abi.PLAN_BODY(lambda _context: 3), None)
    context = np.zeros(1, np.int64)

    def body(at):
        ctypes.c_int64.from_address(at).value = 5
        return 0

    plan.library.pk_run_plan(abi.PLAN_BODY(body), context.ctypes.data)
    assert context[0] == 5


def test_passes_to_compile(plan):
    wanted, compiled = plan.library.pk_plan_wanted, plan.library.pk_plan_compiled
    bytes_, number = ctypes.c_int64(-1), ctypes.c_uint64()
    nothing = np.zeros(0, np.uint8)
    for arguments in [(nothing, -1, bytes_, number), (nothing, 0, None, number), (nothing, 0, bytes_, None)]:
        with pytest.raises(errors.InvalidArgument):
            wanted(*arguments[:2], *(a and ctypes.byref(a) for a in arguments[2:]))
    with pytest.raises(errors.InvalidArgument, match="bytes is negative"):
        compiled(1, nothing, -1)

    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    pk.release()  # what other tests have left
    with pk.tuned(**({"worth_compiling": 6000} if plan.is_cuda else {})):
        for _ in range(2):  # of two and four instructions
            wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
            assert bytes_.value == 0
            plan.run(lambda: (plan.evaluate("sqrt", out, x), plan.evaluate("add", out, x, x)))
    wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
    assert (bytes_.value != 0) == plan.is_cuda
    if plan.is_cuda:
        source = np.zeros(bytes_.value, np.uint8)
        wanted(source[:-1], len(source) - 1, ctypes.byref(bytes_), ctypes.byref(number))
        assert not source.any(), "there was no room for it"
        wanted(source, len(source), ctypes.byref(bytes_), ctypes.byref(number))
        text = source.tobytes().decode()
        assert "ops::add" in text
        assert "#include" not in text
    compiled(number.value + 1, nothing, 0)  # there is no such pass
    compiled(number.value, nothing, 0)
    wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
    assert bytes_.value == 0
    plan.run(lambda: plan.evaluate("add", out, x, x))
    assert np.array_equal(out, x + x)


@pytest.mark.parametrize(("start", "end"), [(0, 100), (10, 20), (99, 150), (-5, 1), (-5, 150)])
def test_ranges_that_overlap(plan, start, end):
    if not plan.is_cuda:
        pytest.skip("it keeps nothing")
    memory = np.zeros(500, np.uint8)

    def body():
        plan.keep(memory[200:300])
        with pytest.raises(errors.InvalidArgument, match="overlaps"):
            plan.keep(memory[200 + start : 200 + end])
        plan.keep(memory[190:200])
        plan.keep(memory[300:310])

    plan.run(body)


def test_plans_memory_is_counted_and_kept(plan):
    if not plan.is_cuda:
        pytest.skip("it keeps nothing")
    pk.release()
    assert pk.memory_info().plan_bytes == 0
    x = np.zeros(1 << 20)
    plan.run(lambda: plan.keep(x))
    kept = pk.memory_info()
    assert x.nbytes <= kept.plan_bytes <= kept.plan_budget
    plan.run(lambda: plan.keep(x))
    assert pk.memory_info().plan_bytes == kept.plan_bytes
    pk.release()
    assert pk.memory_info().plan_bytes == 0


BUDGET = """
import ctypes
from pycudakit._library import abi, loader
import pycudakit as pk
library = loader.library({engine!r})
arrays = [np.zeros(1 << 20, np.uint8) for _ in range(4)]
kept = [ctypes.c_int32(-1) for _ in arrays]
def body(_context):
    for array, found in zip(arrays, kept):
        library.pk_plan_keep(array.ctypes.data, array.nbytes, 0, ctypes.byref(found))
    return 0
library.pk_run_plan(abi.PLAN_BODY(body), None)
info = pk.memory_info()
print([found.value for found in kept], info.plan_bytes, info.plan_budget)
"""


@pytest.mark.parametrize("budget", ["2M", "0", "1000"])
def test_the_budget_of_plans(plan, engine, budget):
    printed = python(BUDGET.format(engine=engine), env={"PYCUDAKIT_PLAN_MEMORY": budget})
    number = 2 if budget == "2M" and plan.is_cuda else 0
    bytes_ = {"2M": 2 << 20, "0": 0, "1000": 1000}[budget] if pk.engines()["cuda"].available else 0
    assert printed == f"{[1] * number + [0] * (4 - number)} {number << 20} {bytes_}"


FAULTS = """
import ctypes
from abi.test_plan import Plan, numbers
from pycudakit import errors
from pycudakit._library import abi
plan = Plan("cuda")
x, size = numbers(300_000), 300_000
failed = 0
def trial(call):
    global failed
    kept, out = plan.keep(x.copy()), np.zeros(size, np.float32)
    t = plan.temporary(size)
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        plan.evaluate("add", t, kept, kept)
        plan.evaluate("add", t, t, kept)
        plan.fetch(t)
        assert (t == 3 * x).all()
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    plan.evaluate("add", out, kept, kept)
    assert (out == 2 * x).all()
    plan.evaluate("add", t, kept, kept)
    plan.fetch(t)
    assert (t == 2 * x).all()
    plan.drop(kept)
    plan.drop(t)
def body():
    for call in [*range(1, 40), 10_000]:
        trial(call)
plan.run(body)
print(failed > 5)
"""


def fail_each_call(plan, code):
    """Run code that has each CUDA call of a plan fail in turn, in a process of its own."""
    if not plan.is_cuda:
        pytest.skip("it keeps nothing")
    found = f"import sys\nsys.path[:0] = {[str(Path(__file__).parents[1])]}\n"
    assert python(found + code, timeout=120) == "True"


def test_calls_that_fail(plan):
    fail_each_call(plan, FAULTS)
