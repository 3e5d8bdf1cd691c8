"""The choices of `auto` by the cost model, for simulated machines with and without a GPU."""

import re

import numpy as np
import pytest

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.element_function import ElementFunction, compile_function
from pycudakit._element_programs.ufunc_lowering import write_ufunc
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._families.reduce import lowering
from pycudakit._families.reduce.reduce_kernel import cost_of, reduce_kernel_for
from pycudakit._families.scan import cumulative, scan_call
from pycudakit._families.select import order_statistics
from pycudakit._families.sort import sort_keys
from pycudakit._native import engine_status, hardware
from pycudakit._native.dtypes import CODES
from pycudakit._native.hardware import Link
from pycudakit._runtime import cost_model
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.engine_choice import Cost, choose_engine

M = 10**6
LINK = Link(50e9, 50e9)


def test_measuring_numpy_raises_no_flags_of_the_callers():
    """A sample of float16 overflows, and the caller's `errstate` is about other calls."""
    with np.errstate(all="raise"):
        assert cost_model.measure_numpy(np.sort, np.dtype(np.float16)) > 0


def status(gpu):
    return engine_status.EngineStatus(gpu, "1 device" if gpu else "no driver: no NVIDIA driver is installed")


def test_reasons_have_the_estimates():
    seconds = {"numpy": 2.1e-3, "cpu": 0.4e-3}
    without = Estimates("cpu", **seconds, cuda=None, cuda_status=status(False))
    assert str(without) == "auto: cpu 0.4 ms, numpy 2.1 ms; cuda not available: no driver"
    with_gpu = Estimates("cuda", **seconds, cuda=0.1e-3, cuda_status=status(True))
    assert str(with_gpu) == "auto: cuda 0.1 ms, cpu 0.4 ms, numpy 2.1 ms"
    asleep = Estimates("cpu", numpy=None, cpu=1.5, cuda=None, cuda_status=status(True))
    assert str(asleep) == "auto: cpu 1,500 ms; cuda not estimated"
    weighted = Estimates("cpu", **seconds, cuda=np.inf, cuda_status=status(True))
    assert str(weighted) == "auto: cpu 0.4 ms, numpy 2.1 ms"
    below = Estimates("cpu", None, 1e-3, None, status(True), numpy_below=1234.5)
    assert str(below) == "auto: cpu 1 ms (numpy below 1,234 elements); cuda not estimated"
    tiny = Estimates("numpy", 4e-9, 7.1e-6, None, status(False), by_size=True)
    assert str(tiny) == "auto: numpy under 0.001 ms, cpu 0.0071 ms; cuda not available: no driver"
    compared = Estimates(
        "cpu", **seconds, cuda=9e-3, cuda_status=status(True), measured=frozenset({"cpu", "numpy"})
    )
    assert str(compared) == "auto: cpu 0.4 ms, numpy 2.1 ms (measured), cuda 9 ms (estimated)"


def test_reasons_of_choices(pretend):
    pretend(16)
    cost = Cost(2.1e-3, 0.4e-3, 8 * M, 8 * M)
    by_cpu = choose_engine("sort", [], cost)
    assert str(by_cpu.reason) == "auto: cpu 0.4 ms, numpy 2.1 ms; cuda not available: "
    by_numpy = choose_engine("sort", [], Cost(0.4e-3, 2.1e-3, 8 * M, 8 * M))
    assert str(by_numpy.reason) == "auto: numpy 0.4 ms, cpu 2.1 ms; cuda not available: "
    assert (by_numpy.engine, by_numpy.automatic, by_numpy.reason.by_size) == ("numpy", False, False)
    assert (by_cpu.engine, by_cpu.automatic) == ("cpu", True)
    short = choose_engine("sort", [], Cost(1e-5, 1e-4, 1, 1)).reason
    assert str(short) == "auto: numpy 0.01 ms, cpu 0.1 ms; cuda not available: "
    assert short.by_size
    assert choose_engine("dot", [], Cost(0.0, 1e-4, 1, 1)).reason == cost_model.REASON_NUMPY_FASTER_FOR_SIZE
    pretend(16, gpu=True, measured=True)
    slow = Cost(2.0, 0.4, 8 * M, 8 * M)
    reason = str(choose_engine("sort", [], slow).reason)
    assert re.fullmatch(r"auto: cuda 0\.\d+ ms, cpu 400 ms, numpy 2,000 ms", reason)
    partition = Cost(60e-3, 80e-3, 80 * M, 80 * M, 4e-3)  # NumPy is faster than the CPU engine
    choice = choose_engine("argpartition", [], partition)
    assert re.fullmatch(r"auto: cuda [\d.]+ ms, numpy 60 ms, cpu 80 ms", str(choice.reason))
    assert (choice.engine, choice.automatic) == ("cuda", True)
    short = choose_engine("argpartition", [], Cost(1e-4, 2e-4, 1000, 1000))
    assert str(short.reason) == "auto: numpy 0.1 ms, cpu 0.2 ms; cuda not estimated"
    pretend(16)
    made = program("exp", "f8", 4)
    reason = str(program_cost.choose("exp", made, 10 * M, 80 * M).reason)
    times = r"auto: cpu [\d.]+ ms, numpy [\d.]+ ms \(numpy below [\d,]+ elements\); cuda not available: "
    assert re.fullmatch(times, reason)


@pytest.fixture
def pretend(monkeypatch):
    """Return a function that simulates a machine: the number of threads, the GPU's link, its measurement."""

    def make(threads, gpu=False, measured=False, link=LINK, cpu=True):
        monkeypatch.setattr(cost_model, "threads", lambda: threads)
        monkeypatch.setattr(program_cost, "threads", lambda: threads)
        program_cost.estimate.cache_clear()
        monkeypatch.setattr(
            engine_status,
            "status",
            lambda name: engine_status.EngineStatus(cpu if name == "cpu" else gpu, ""),
        )
        monkeypatch.setattr(hardware, "link_is_known", lambda: measured)
        monkeypatch.setattr(cost_model, "_missed_savings", 0.0)
        monkeypatch.setattr(hardware, "link_speed", lambda _: link)

    yield make
    program_cost.estimate.cache_clear()


def program(name, dtype, functions=1):
    """Return the program of a function, applied once or several times."""

    def write(builder, first, *others, **keywords):
        for _ in range(functions):
            (first,) = write_ufunc(builder, name, first, *others, **keywords)
        return (first,)

    numpy = getattr(np, name)
    types = (np.dtype(dtype),) * numpy.nin
    return compile_function(ElementFunction(name, numpy, write), types, (None,), False, None, "same_kind")


def chosen(name, dtype, size, functions=1):
    made = program(name, dtype, functions)
    return program_cost.choose(name, made, size, size * made.in_bytes).engine


@pytest.mark.parametrize(
    ("threads", "name", "dtype", "size", "engine"),
    [
        # Memory-bound functions gain by many threads only, and from sizes beyond the first caches on.
        (1, "add", "f4", 100 * M, "numpy"),
        (2, "add", "f4", 1 * M, "numpy"),
        (2, "add", "f4", 3 * M, "cpu"),
        (16, "add", "f4", 100_000, "numpy"),
        (16, "add", "f4", 300_000, "cpu"),
        (16, "add", "f8", 60_000, "numpy"),
        (16, "add", "f8", 150_000, "cpu"),
        (16, "add", "u1", 300_000, "numpy"),
        (16, "add", "u1", 1 * M, "cpu"),
        # Functions that are slower in NumPy go to the CPU engine once the gain exceeds the call overhead.
        (1, "sin", "f8", 100, "numpy"),
        (1, "sin", "f8", 3000, "cpu"),
        (2, "sqrt", "f4", 10_000, "numpy"),
        (2, "sqrt", "f4", 100_000, "cpu"),
        # Functions that are faster in NumPy go to the CPU engine once several threads share the work.
        (1, "tanh", "f4", 100 * M, "numpy"),
        (2, "tanh", "f4", 300_000, "numpy"),
        (2, "tanh", "f4", 1 * M, "cpu"),
        (16, "tanh", "f4", 300_000, "cpu"),
    ],
)
def test_without_a_gpu(pretend, threads, name, dtype, size, engine):
    pretend(threads)
    assert chosen(name, dtype, size) == engine


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_a_long_expression_is_ours_from_the_first_element_on(pretend, threads):
    pretend(threads)
    assert chosen("add", "f4", 1, functions=9) == "cpu"
    assert chosen("add", "f4", 1, functions=2) == "numpy"


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(("threads", "dtype"), [(1, "i1"), (2, "f8")])
def test_a_gpu_gets_calls_that_compute_longer_than_they_transfer(pretend, threads, dtype, measured):
    """Compute-bound functions go to the GPU, also if NumPy is always faster than the CPU engine."""
    pretend(threads)
    assert chosen("power", dtype, 100 * M) == ("numpy" if threads == 1 else "cpu")
    pretend(threads, gpu=True, measured=measured)
    assert chosen("power", dtype, 100 * M) == "cuda"
    assert chosen("power", dtype, 1000) == "numpy"
    assert chosen("add", dtype, 100 * M) != "cuda"


def test_an_unused_gpu_is_not_woken_for_less_than_milliseconds(pretend):
    pretend(2, gpu=True)
    assert chosen("power", "f8", 1 * M) == "cpu"
    pretend(2, gpu=True, measured=True)
    assert chosen("power", "f8", 1 * M) == "cuda"


def test_many_short_calls_wake_it(pretend):
    """The GPU is woken once missed savings exceed the time of waking; slower calls do not count."""
    saves, cannot = Cost(None, 4e-3, 4 * M, 4 * M, 1e-3), Cost(None, 4e-3, 400 * M, 0)
    pretend(2, gpu=True)
    assert {choose_engine("sort", [], cannot).engine for _ in range(10_000)} == {"cpu"}
    engines = [choose_engine("sort", [], saves).engine for _ in range(400)]
    first = engines.index("cuda")
    assert 0.2 < first * (4e-3 - 1e-3) < 0.4
    assert set(engines[first:]) == {"cuda"}
    pretend(2, gpu=False)
    assert {choose_engine("sort", [], saves).engine for _ in range(1000)} == {"cpu"}


def test_many_short_expressions_wake_it(pretend):
    pretend(2, gpu=True)
    engines = [chosen("power", "f8", 1 * M) for _ in range(1000)]
    assert engines[:2] == ["cpu", "cpu"]
    assert engines[-1] == "cuda"


@pytest.mark.parametrize("threads", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("functions", [1, 9])
@pytest.mark.parametrize(("name", "dtype"), [("add", "f4"), ("sin", "f8"), ("sqrt", "u1"), ("power", "f4")])
def test_the_gpu_is_not_asked_about_where_it_cannot_be_first(pretend, name, dtype, functions, threads):
    pretend(threads, gpu=True, measured=True, link=Link(1e15, 1e15))
    made = program(name, dtype, functions)
    known = program_cost.estimate(made)
    up, down = getattr(np, name).nin * np.dtype(dtype).itemsize, made.out_bytes
    assert made.in_bytes == up

    def is_first(size):
        cpu_choice = program_cost.cpu_seconds(made, size, size * (up + down))
        return cost_model.cuda_seconds(size * up, size * down) < program_cost.GPU_MARGIN * cpu_choice

    sizes = {int(1.1**i) for i in range(250)}
    assert not any(is_first(size) for size in sizes if size < known.cuda_from)
    assert known.cuda_from > 1000


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["add", "less", "divide", "tanh", "power"])
def test_more_threads_never_leave_more_to_numpy(pretend, name, dtype):
    made, below = program(name, dtype), []
    for threads in (1, 2, 3, 4, 8, 16, 64):
        pretend(threads)
        made.estimate = None
        below.append(program_cost.estimate(made).numpy_below)
    assert below == sorted(below, reverse=True)


def test_a_function_of_several_instructions_counts_once(pretend):
    pretend(2)

    def of_two(name):
        function = ElementFunction(name, getattr(np, name), outputs=2)
        types = (np.dtype("f8"),) * function.numpy.nin
        return compile_function(function, types, (None, None), False, None, "same_kind")

    for name in ("modf", "divmod"):
        made = of_two(name)
        assert len(made.work) > 1
        numpy, ours = program_cost.measured(name, CODES[np.dtype("f8")])
        assert program_cost.estimate(made).numpy == pytest.approx(1e-9 * numpy)
        assert program_cost.estimate(made).cpu == pytest.approx(1e-9 * ours)
    # Several calls of one function are several.
    once, twice = (program_cost.estimate(program("exp", "f8", functions)).numpy for functions in (1, 2))
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize(
    ("name", "size", "wanted"),
    [
        # For float32, 16 threads and a link of 50 GB/s: the faster engine in docs/measured.md.
        *(("sum", size, "cpu") for size in (1 * M, 64 * M)),
        *(("max", size, "cpu") for size in (1 * M, 64 * M)),
        *(("median", size, "cpu") for size in (1 * M, 64 * M)),
        *(("sort", size, "cuda") for size in (1 * M, 64 * M)),
        *(("argsort", size, "cuda") for size in (1 * M, 64 * M)),
        ("cumsum", 1 * M, "cpu"),
    ],
)
def test_other_families_on_16_threads(pretend, monkeypatch, name, size, wanted):
    pretend(16, gpu=True, measured=True, link=Link(50e9, 50e9))
    monkeypatch.setattr(engine_status, "status", lambda _: engine_status.EngineStatus(True, ""))
    for module in (sort_keys, order_statistics):
        monkeypatch.setattr(module, "threads", lambda: 16)
    array = np.broadcast_to(np.float32(0), size)
    if name in ("sum", "max"):
        kernel = reduce_kernel_for(name, getattr(lowering, name.upper()), (array.dtype,), False, None)
        plan = choose_engine(name, (), cost_of(kernel, size, array.nbytes, 0, rows=1))
    elif name == "cumsum":
        plan = choose_engine(name, (), scan_call._cost_of(cumulative._CUMSUM, array, array.dtype))
    elif name == "median":
        plan, _ = order_statistics.plan_selection(name, array, 0.5, (None, None, False))
    else:
        plan = (sort_keys.plan_sort if name == "sort" else sort_keys.plan_argsort)(array, 0)
    assert plan.engine == wanted, plan.reason


@pytest.mark.parametrize("size", [10, 1000, M, 30 * M])
def test_without_the_cpu_engine(pretend, size):
    """If its library does not open, NumPy and the GPU share the calls."""
    pretend(1, gpu=True, cpu=False)
    assert chosen("sin", "f4", size, 9) in ("numpy", "cuda")
    assert chosen("sqrt", "f8", size) in ("numpy", "cuda")
    assert choose_engine("cummax", (), Cost(None, 1e-9 * size, size, size)).engine == "cuda"


@pytest.mark.parametrize("name", ["clip", "where"])
def test_functions_of_several_instructions_have_one_rate(name):
    x = np.ones(100)
    arguments = {"clip": (x, 0.2, 0.8), "where": (x > 0, x, x)}[name]
    function = {"clip": non_ufuncs.CLIP[True, True], "where": non_ufuncs.WHERE}[name]
    types = tuple(type(a) if type(a) is float else a.dtype for a in arguments)
    program = compile_function(function, types, (None,), False, None, "same_kind")
    assert {(of, code) for of, code, _ in program.work} == {(name, CODES[x.dtype])}
    assert len({call for _, _, call in program.work}) == 1
    assert program_cost.measured(name, CODES[x.dtype]) is not program_cost.UNMEASURED
