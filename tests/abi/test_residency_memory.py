"""Residency scopes: invalid calls, imported memory, streams, memory budgets, and calls that fail."""

import ctypes

import numpy as np
import pytest
from helpers.processes import python
from helpers.residency import LARGE, NOTES, SMALL, fail_each_call, numbers
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi


def test_errors(scope):
    x, kept = np.zeros(100), ctypes.c_int32(-1)
    keep, at = scope.library.pk_residency_add, x.ctypes.data
    bad = [(0, 8, 0), (at, 0, 0), (at, -8, 0), (at, 8, -1), (at, 8, 3), (2**64 - 4, 8, 0)]
    for arguments in bad:
        with pytest.raises(errors.InvalidArgument):
            keep(*arguments, ctypes.byref(kept))
    with pytest.raises(errors.InvalidArgument, match="is_resident is a null"):
        keep(at, 8, 0, None)
    with pytest.raises(errors.InvalidArgument, match="body is a null"):
        scope.library.pk_run_in_residency_scope(abi.RESIDENCY_BODY(), None)
    keep(at, 8, 0, ctypes.byref(kept))
    assert kept.value == 0  # there is no scope
    if scope.is_cuda:
        with pytest.raises(errors.InvalidArgument, match="no residency scope runs on this thread"):
            scope.library.pk_residency_set_stream(1)
    assert scope.fetch(x) == (0, 0)
    scope.changed(x)
    scope.drop(x)


@pytest.mark.parametrize("size", [1, SMALL, pytest.param(LARGE, marks=pytest.mark.smoke), 5_000_000])
def test_calls_in_a_line(scope, size):
    """Calls on resident arrays are enqueued; calls that involve the host come after them."""
    x, y, out = np.abs(numbers(size)) + 1, np.abs(numbers(size)), np.zeros(size, np.float32)

    def body():
        scope.library.pk_residency_set_stream(1)
        a, t, u = scope.keep(x), scope.temporary(size), scope.temporary(size)
        scope.evaluate("add", t, a, y)  # which goes up
        for _ in range(20):
            report = scope.evaluate("multiply", u, t, t)
            assert (report["bytes_up"], report["bytes_down"]) == (0, 0) or not scope.is_cuda
            scope.evaluate("add", t, u, t)
            scope.evaluate("divide", t, t, u)
        total, _ = scope.sum(t)
        scope.evaluate("add", out, t, u)
        scope.library.pk_residency_set_stream(0)
        scope.fetch(t)
        in_all = t.sum(dtype=np.float64)
        assert abs(total - in_all) <= 1e-9 * np.abs(t).sum(dtype=np.float64)
        assert scope.fetch(u) == (0, u.nbytes if scope.is_cuda else 0)
        assert (out == t + u).all()

    scope.run(body)
    t = x + y
    for _ in range(20):
        u = t * t
        t = (u + t) / u
    assert_array_equal(out, t + u)


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
def test_lent_memory(scope, size):
    if not scope.is_cuda:
        pytest.skip("it has no device memory")
    cupy = pytest.importorskip("cupy")
    values, result, other = numbers(size), cupy.zeros(size, np.float32), cupy.zeros(size, np.float32)
    home = cupy.asarray(values)
    x, out, sent = (np.full(size, 77, np.float32) for _ in range(3))

    def body():
        scope.lend(x, home)
        scope.lend(out, result)
        report = scope.evaluate("add", out, x, x)
        scope.up(report, 0)
        assert report["bytes_down"] <= NOTES
        assert (x == 77).all()
        assert (out == 77).all()
        assert scope.send(out) == (0, 0)
        assert scope.fetch(x) == (0, x.nbytes)
        assert np.array_equal(x, values)
        scope.lend(sent, other, abi.IMPORT_HOST_VALID)
        assert scope.send(sent) == (sent.nbytes, 0)
        scope.drop(sent)
        with pytest.raises(errors.InvalidArgument, match="overlaps"):
            scope.lend(x[:1], home)

    scope.run(body)
    assert np.array_equal(cupy.asnumpy(result), values + values)
    assert (cupy.asnumpy(other) == 77).all()


def test_errors_of_lending(scope):
    x, device = np.zeros(100), ctypes.c_int32(-1)
    lend, at = scope.library.pk_residency_import, x.ctypes.data
    bad = [(0, 8, at, 0, 0), (at, 0, at, 0, 0), (at, 8, 0, 0, 0), (at, 8, at, 0, 2), (at, 8, 2**64 - 4, 0, 0)]
    for arguments in bad:
        with pytest.raises(errors.InvalidArgument):
            scope.run(lambda given=arguments: lend(*given, ctypes.byref(device)))
    with pytest.raises(errors.InvalidArgument, match="device is a null"):
        lend(at, 8, at, 0, 0, None)
    kind, text = (errors.InvalidArgument, "no scope") if scope.is_cuda else (errors.Unsupported, "no devices")
    with pytest.raises(kind, match=text):
        lend(at, 8, at, 0, 1, ctypes.byref(device))
    assert scope.send(x) == (0, 0)
    assert device.value == -1


def test_the_device_of_a_plan(scope):
    be_on, count = scope.library.pk_residency_set_device, len(pk.devices()) if scope.is_cuda else 0
    for device in (-1, count, 2**40):
        with pytest.raises(errors.InvalidArgument, match="device"):
            scope.run(lambda at=device: be_on(at))
    if scope.is_cuda:
        with pytest.raises(errors.InvalidArgument, match="no scope"):
            be_on(0)
        scope.run(lambda: be_on(0))


def test_calls_on_the_device_of_a_plan(scope):
    """Calls on the scope's device use its ranges, and calls on other devices go through host memory."""
    if not scope.is_cuda or len(pk.devices()) < 2:
        pytest.skip("needs two GPUs")
    x, out = numbers(LARGE), np.zeros(LARGE, np.float32)

    def on(device):
        index, options = np.array([device], np.int64), np.zeros(1, abi.OPTIONS)
        options["devices"], options["device_count"] = index.ctypes.data, 1
        report = scope.evaluate("add", out, x, x, options=options)
        assert np.array_equal(out, x + x)
        return report["bytes_up"]

    def body():
        scope.library.pk_residency_set_device(1)
        scope.keep(x)
        assert [on(1) // x.nbytes for _ in range(3)] == [1, 0, 0]
        assert [on(0) // x.nbytes for _ in range(2)] == [2, 2]  # both operands, each time

    scope.run(body)


def test_the_budget_of_a_plan(scope):
    """A scope reports the budget, whether or not it was needed before."""
    memory = np.zeros(1, abi.MEMORY)
    scope.run(lambda: scope.library.pk_memory_info(memory))
    assert (memory["plan_budget"][0] > 0) == scope.is_cuda


def test_a_body_that_fails(scope):
    with pytest.raises(errors.Interrupted, match="returned 3"):
        scope.library.pk_run_in_residency_scope(abi.RESIDENCY_BODY(lambda _context: 3), None)
    context = np.zeros(1, np.int64)

    def body(at):
        ctypes.c_int64.from_address(at).value = 5
        return 0

    scope.library.pk_run_in_residency_scope(abi.RESIDENCY_BODY(body), context.ctypes.data)
    assert context[0] == 5


def test_passes_to_compile(scope):
    wanted, compiled = scope.library.pk_jit_request, scope.library.pk_jit_install
    bytes_, number = ctypes.c_int64(-1), ctypes.c_uint64()
    nothing = np.zeros(0, np.uint8)
    for arguments in [(nothing, -1, bytes_, number), (nothing, 0, None, number), (nothing, 0, bytes_, None)]:
        with pytest.raises(errors.InvalidArgument):
            wanted(*arguments[:2], *(a and ctypes.byref(a) for a in arguments[2:]))
    with pytest.raises(errors.InvalidArgument, match="bytes is negative"):
        compiled(1, nothing, -1)

    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    pk.release()  # requests of other tests
    with pk.tuned(**({"worth_compiling": 6000} if scope.is_cuda else {})):
        for _ in range(2):  # of two and four instructions
            wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
            assert bytes_.value == 0
            scope.run(lambda: (scope.evaluate("sqrt", out, x), scope.evaluate("add", out, x, x)))
    wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
    assert (bytes_.value != 0) == scope.is_cuda
    if scope.is_cuda:
        source = np.zeros(bytes_.value, np.uint8)
        wanted(source[:-1], len(source) - 1, ctypes.byref(bytes_), ctypes.byref(number))
        assert not source.any(), "there was no room for it"
        wanted(source, len(source), ctypes.byref(bytes_), ctypes.byref(number))
        text = source.tobytes().decode()
        assert "ops::add" in text
        assert "#include" not in text
    compiled(number.value + 1, nothing, 0)  # no such request
    compiled(number.value, nothing, 0)
    wanted(nothing, 0, ctypes.byref(bytes_), ctypes.byref(number))
    assert bytes_.value == 0
    scope.run(lambda: scope.evaluate("add", out, x, x))
    assert np.array_equal(out, x + x)


@pytest.mark.parametrize(("start", "end"), [(0, 100), (10, 20), (99, 150), (-5, 1), (-5, 150)])
def test_ranges_that_overlap(scope, start, end):
    if not scope.is_cuda:
        pytest.skip("it keeps nothing")
    memory = np.zeros(500, np.uint8)

    def body():
        scope.keep(memory[200:300])
        with pytest.raises(errors.InvalidArgument, match="overlaps"):
            scope.keep(memory[200 + start : 200 + end])
        scope.keep(memory[190:200])
        scope.keep(memory[300:310])

    scope.run(body)


def test_plans_memory_is_counted_and_kept(scope):
    if not scope.is_cuda:
        pytest.skip("it keeps nothing")
    pk.release()
    assert pk.memory_info().plan_bytes == 0
    x = np.zeros(1 << 20)
    scope.run(lambda: scope.keep(x))
    kept = pk.memory_info()
    assert x.nbytes <= kept.plan_bytes <= kept.plan_budget
    scope.run(lambda: scope.keep(x))
    assert pk.memory_info().plan_bytes == kept.plan_bytes
    pk.release()
    assert pk.memory_info().plan_bytes == 0


BUDGET = """
import ctypes
from pycudakit._native import abi, loader
import pycudakit as pk
library = loader.library({engine!r})
arrays = [np.zeros(1 << 20, np.uint8) for _ in range(4)]
kept = [ctypes.c_int32(-1) for _ in arrays]
def body(_context):
    for array, found in zip(arrays, kept):
        library.pk_residency_add(array.ctypes.data, array.nbytes, 0, ctypes.byref(found))
    return 0
library.pk_run_in_residency_scope(abi.RESIDENCY_BODY(body), None)
info = pk.memory_info()
print([found.value for found in kept], info.plan_bytes, info.plan_budget)
"""


@pytest.mark.parametrize("budget", ["2M", "0", "1000"])
def test_the_budget_of_scopes(scope, engine, budget):
    printed = python(BUDGET.format(engine=engine), env={"PYCUDAKIT_PLAN_MEMORY": budget})
    number = 2 if budget == "2M" and scope.is_cuda else 0
    bytes_ = {"2M": 2 << 20, "0": 0, "1000": 1000}[budget] if pk.engines()["cuda"].available else 0
    assert printed == f"{[1] * number + [0] * (4 - number)} {number << 20} {bytes_}"


FAULTS = """
import ctypes
from helpers.residency import Scope, numbers
from pycudakit import errors
from pycudakit._native import abi
scope = Scope("cuda")
x, size = numbers(300_000), 300_000
failed = 0
def trial(call):
    global failed
    kept, out = scope.keep(x.copy()), np.zeros(size, np.float32)
    t = scope.temporary(size)
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        scope.evaluate("add", t, kept, kept)
        scope.evaluate("add", t, t, kept)
        scope.fetch(t)
        assert (t == 3 * x).all()
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    scope.evaluate("add", out, kept, kept)
    assert (out == 2 * x).all()
    scope.evaluate("add", t, kept, kept)
    scope.fetch(t)
    assert (t == 2 * x).all()
    scope.drop(kept)
    scope.drop(t)
def body():
    for call in [*range(1, 40), 10_000]:
        trial(call)
scope.run(body)
print(failed > 5)
"""


def test_calls_that_fail(scope):
    fail_each_call(scope, FAULTS)
