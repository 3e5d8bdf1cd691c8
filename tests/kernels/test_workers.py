"""Kernels in helper processes: results, faults, timeouts, interruption."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.isolated_kernels import SOURCE, doubled, function, processes
from helpers.processes import LIBRARY, python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import In, InOut, Out, SourceModule, errors
from pycudakit.kernels.running import worker_pool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

RNG = np.random.default_rng(63)


@pytest.fixture(autouse=True, scope="module")
def _release():
    yield
    worker_pool.release()
    assert not processes()


# ---- Results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 1000, 3_000_001])
def test_results(engine, n):
    x = RNG.integers(0, 100, n, np.int32)
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    call = pk.last_call()
    assert (call.function, call.engine) == ("twice", engine)
    assert call.bytes_up == (x.nbytes if engine == "cuda" else 0)


def test_results_are_those_of_this_process(engine):
    a = RNG.standard_normal((32, 4))[:, ::2]
    ours, theirs = np.full(64, np.nan), np.full(64, np.nan)
    for out, isolate in ((ours, False), (theirs, True)):
        function("copy")(In(a), Out(out), block=(60, 1, 1), isolate=isolate)
    np.testing.assert_array_equal(theirs, ours)
    np.testing.assert_array_equal(theirs, [*a.ravel()[:60], 0, 0, 0, 0])
    function("copy")(In(a), Out(theirs, poison=True), block=(60, 1, 1), isolate=True)
    assert theirs[60:].tobytes() == bytes([0xA5]) * 32


def test_one_helper_serves_many_calls(engine):
    x = np.arange(10, dtype=np.int32)
    doubled(x, isolate=True)
    before = processes()
    for _ in range(20):
        np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    assert processes() == before


def test_symbols_and_output_of_kernels(engine, capsys):
    x = np.arange(10, dtype=np.int32)
    given = {"scale": np.array(5, np.int32)}
    np.testing.assert_array_equal(doubled(x, isolate=True, symbols=given), 10 * x)
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    function("speak")(3, block=(3, 1, 1), isolate=True)
    assert sorted(capsys.readouterr().out.splitlines()) == [f"thread {i} of 3" for i in range(3)]


def test_a_program(engine):
    p = pk.Program("twos")
    a = p.inout("a", 1000, np.int32)
    with p.repeat(5):
        p.launch(function("twice"), a, 1000, threads=1000)
    x = RNG.integers(0, 100, 1000, np.int32)
    result, milliseconds = p(a=x, isolate=True, time_kernel=True)
    np.testing.assert_array_equal(result["a"], 32 * x)
    assert milliseconds > 0
    assert pk.last_call().function == "twos"


def test_ready_made_kernels(engine):
    x = np.arange(1000, dtype=np.int32)
    twice = pk.ElementwiseKernel("int *z, const int *x", "z[i] = 2 * x[i]")
    total = pk.ReductionKernel(np.int64, "0", "a+b", "x[i]", "const int *x")
    running = pk.InclusiveScanKernel(np.int32, "a+b")
    z = np.zeros_like(x)
    for keywords in ({"isolate": True}, {"timeout": 60}):
        z[:] = 0
        twice(z, x, **keywords)
        np.testing.assert_array_equal(z, 2 * x)
        assert total(x, **keywords) == x.sum()
        np.testing.assert_array_equal(running(x, "new", **keywords), np.cumsum(x))


def test_release_ends_idle_helpers(engine):
    doubled(np.arange(10, dtype=np.int32), isolate=True)
    assert processes()
    pk.release()
    assert not processes()


def test_a_profile_sees_it(engine):
    x = np.arange(1000, dtype=np.int32)
    with pk.profile() as p:
        doubled(x, isolate=True)
    assert [(call.function, call.engine) for call in p.calls] == [("twice", engine)]
    assert p.calls[0].spans is not None


def test_many_threads(engine):
    inputs = RNG.integers(0, 100, (24, 5000), np.int32)
    results = [None] * len(inputs)

    def work(indices):
        with pk.engine(engine):
            for index in indices:
                results[index] = doubled(inputs[index], isolate=True)

    threads = [threading.Thread(target=work, args=(range(first, 24, 6),)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(results, 2 * inputs)
    assert len(processes()) <= worker_pool.MAX_WORKERS


def test_the_environment_asks_for_it(engine):
    code = f"""
import pycudakit as pk
from pycudakit.kernels.running import worker_pool
pk.set_engine({engine!r})
source = {SOURCE!r}
a = np.arange(5, dtype=np.int32)
pk.SourceModule(source).get_function("twice")(pk.InOut(a), 5, block=(5, 1, 1))
print(a.tolist(), len(worker_pool._workers._all))
"""
    assert python(code, env={"PYCUDAKIT_ISOLATE": "1"}) == "[0, 2, 4, 6, 8] 1"


@pytest.mark.thorough
def test_without_memfd_create(engine, monkeypatch):
    worker_pool.release()
    monkeypatch.delattr(os, "memfd_create", raising=False)
    x = RNG.integers(0, 100, 300_000, np.int32)
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    worker_pool.release()


# ---- Faults -----------------------------------------------------------------------------------------


def test_a_crash(engine):
    for _ in range(2):
        a = np.full(4, 7, np.int32)
        with pytest.raises(errors.DeviceError, match=r"\bcrash\b") as caught:
            function("crash")(InOut(a), block=(1, 1, 1), isolate=True)
        assert (a == 7).all()
        if engine == "cpu" and not SANITIZED:
            assert "SIGSEGV" in str(caught.value)
        x = np.arange(10, dtype=np.int32)
        np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
        np.testing.assert_array_equal(doubled(x), 2 * x)


def test_a_timeout(engine):
    doubled(np.arange(10, dtype=np.int32), isolate=True)
    a = np.zeros(4, np.int32)
    began = time.perf_counter()
    with pytest.raises(errors.DeviceError, match=r"\bendless\b.*0\.5"):
        function("endless")(InOut(a), block=(1, 1, 1), timeout=0.5)
    assert 0.4 < time.perf_counter() - began < 30
    assert not a.any()
    x = np.arange(10, dtype=np.int32)
    np.testing.assert_array_equal(doubled(x, timeout=30), 2 * x)


def test_a_fault_that_was_checked(capsys):
    """A checked fault on the CPU engine does not end the helper, and earlier output is printed."""
    source = """
    #include <stdio.h>
    __global__ void put(int *a) { printf("here\\n"); a[4] = 1; }
    """
    with pk.engine("cpu"):
        put = SourceModule(source, debug=True).get_function("put")
        doubled(np.zeros(4, np.int32), isolate=True)
        before = processes()
        a = np.full(4, 7, np.int32)
        with pytest.raises(errors.DeviceError, match=r"put.*'?a\b"):
            put(InOut(a), block=(1, 1, 1), isolate=True)
    assert capsys.readouterr().out == "here\n"
    assert (a == 7).all()
    assert processes() == before


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_is_none(engine, timeout):
    a = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="timeout"):
        function("twice")(InOut(a), 4, block=(4, 1, 1), timeout=timeout)


def test_a_killed_helper(engine):
    x = np.arange(10, dtype=np.int32)
    doubled(x, isolate=True)
    killed = processes()
    for helper in killed:
        os.kill(helper, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(helper.alive for helper in list(worker_pool._workers._all)) and time.monotonic() < deadline:
        time.sleep(0.01)
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    assert not set(killed) & set(processes())


def test_runs_that_the_library_refuses(engine):
    a = np.full(4, 7, np.int32)
    doubled(a, isolate=True)
    before = processes()
    with pytest.raises(ValueError, match=r"1,?024"):
        function("twice")(InOut(a), 4, block=(2048, 1, 1), isolate=True)
    assert (a == 7).all()
    assert processes() == before


def test_a_helper_that_does_not_start(engine, monkeypatch):
    worker_pool.release()
    monkeypatch.setattr(worker_pool, "_MAIN", "raise SystemExit('no helper today')")
    with pytest.raises(errors.DeviceError, match="does not start: no helper today"):
        doubled(np.arange(10, dtype=np.int32), isolate=True)
    monkeypatch.undo()
    x = np.arange(10, dtype=np.int32)
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)


def test_ctrl_c(engine):
    """Ctrl-C raises KeyboardInterrupt soon, and the next call is right."""
    code = f"""
import signal
import pycudakit as pk
pk.set_engine({engine!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
module = pk.SourceModule({SOURCE!r})
endless, twice = module.get_function("endless"), module.get_function("twice")
a = np.arange(5, dtype=np.int32)
twice(pk.InOut(a), 5, block=(5, 1, 1), isolate=True)
b = np.zeros(2, np.int32)
began = time.perf_counter()
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    endless(pk.InOut(b), block=(1, 1, 1), isolate=True)
except KeyboardInterrupt:
    seconds = time.perf_counter() - began
twice(pk.InOut(a), 5, block=(5, 1, 1), isolate=True)
print(json.dumps([seconds, a.tolist(), b.tolist()]))
"""
    seconds, a, b = json.loads(python(code))
    assert seconds < 30
    assert a == [0, 4, 8, 12, 16]
    assert b == [0, 0]


STOPPED = """
import pycudakit as pk
from pycudakit.kernels.running import worker_pool
if "MOMENT" == "start":
    worker_pool._MAIN = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); " + worker_pool._MAIN
module = pk.SourceModule('''
__global__ void one(int *x) { x[0] = 1; }
__global__ void endless(int *x) { for (;;) __nanosleep(1); }
''')
x = np.zeros(1, np.int32)
def tell():
    while not (children := open(f"/proc/self/task/{os.getpid()}/children").read().split()):
        time.sleep(0.01)
    print(children[-1], flush=True)
with pk.engine("ENGINE"):
    module.get_function("one")(x, block=(1, 1, 1))  # compiles it
    if "MOMENT" == "start":
        threading.Thread(target=tell, daemon=True).start()
    module.get_function("one")(x, block=(1, 1, 1), isolate=True)
    tell()
    if "MOMENT" == "run":
        module.get_function("endless")(x, block=(1, 1, 1), isolate=True)
    time.sleep(100)
"""


def state_of(process):
    """Return the state letter of a process; Z where it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
@pytest.mark.parametrize("moment", ["run", *thorough("start", "idle")])
def test_a_stopped_helper_does_not_outlive_its_parent(engine, moment):
    """A helper that is stopped when its parent is killed ends as soon as it goes on."""
    code = STOPPED.replace("MOMENT", moment).replace("ENGINE", engine)
    code = f"import os, threading, time\nimport numpy as np\n{code}"
    variables = {**os.environ, "PYCUDAKIT_LIBRARY_DIR": str(LIBRARY.parent)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=variables) as parent:
        helper = int(parent.stdout.readline())
        try:
            time.sleep(1)
            os.kill(helper, signal.SIGSTOP)
            time.sleep(0.2)
            assert state_of(helper) == "T"
        finally:
            parent.kill()
    time.sleep(0.5)
    os.kill(helper, signal.SIGCONT)
    deadline = time.monotonic() + 20
    while state_of(helper) not in "ZX" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state_of(helper) in "ZX"
