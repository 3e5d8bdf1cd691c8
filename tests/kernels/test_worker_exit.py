"""The end of helper processes and of their parents: no processes, files or memory are left."""

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.isolated_kernels import END, SOURCE, doubled, end, function, processes, runs
from helpers.processes import python
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import InOut, errors
from pycudakit.kernels.running import worker_pool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

RNG = np.random.default_rng(63)


@pytest.fixture(autouse=True, scope="module")
def _release():
    yield
    worker_pool.release()
    assert not processes()


# ---- Leaks ------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts files in /proc")
def test_nothing_is_left(engine):
    def count():
        worker_pool.release()
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def run():
        doubled(x, isolate=True)
        with pytest.raises(errors.DeviceError):
            function("crash")(InOut(np.zeros(4, np.int32)), block=(1, 1, 1), isolate=True)

    x = RNG.integers(0, 100, 1_000_000, np.int32)
    run()
    before = count()
    for _ in range(3):
        run()
    assert count() <= before
    assert not processes()


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
def test_pytorch_is_unharmed_by_a_crash():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    x = torch.arange(5.0, device="cuda")
    with pk.engine("cuda"):
        for _ in range(2):
            with pytest.raises(errors.DeviceError, match="crash"):
                function("crash")(InOut(np.zeros(4, np.int32)), block=(1, 1, 1), isolate=True)
            assert (2 * x).cpu().tolist() == [0, 2, 4, 6, 8]
        np.testing.assert_array_equal(pk.add([1.0], [2.0]), [3.0])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["exit", "kill", "while it runs a kernel"])
def test_helpers_end_with_their_parent(how):
    code = END + "print(json.dumps(twice()), flush=True)\n"
    if how == "kill":
        code += "os.kill(os.getpid(), 9)"
    elif how == "while it runs a kernel":
        code += """
def endless():
    module.get_function("endless")(pk.InOut(np.zeros(2, np.int32)), block=(1, 1, 1), isolate=True)
threading.Thread(target=endless, daemon=True).start()
time.sleep(0.5)
os.kill(os.getpid(), 9)
"""
    done = python(code, check=False)
    assert done.stdout, done.stderr
    (helper,) = json.loads(done.stdout)
    assert end(helper)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_after_a_fork():
    """Parent and child have their own helpers."""
    code = (
        END
        + """
pk.set_engine("cpu")
ours = twice()
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        os.write(write, json.dumps([twice(), a.tolist()]).encode())
        helpers.release()
    finally:
        os._exit(0)
os.waitpid(child, 0)
theirs, told = json.loads(os.read(read, 10_000))
print(json.dumps([ours == twice(), set(ours).isdisjoint(theirs), len(theirs), told, a.tolist()]))
"""
    )
    expected = [True, True, 1, [0, 4, 8, 12, 16], [0, 4, 8, 12, 16]]
    assert json.loads(python(code)) == expected


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), 10**400, np.float64(1e9)])
def test_timeouts_that_cannot_be(engine, timeout):
    kernel = pk.SourceModule("__global__ void timed(int *x) { x[0] = 1; }").get_function("timed")
    with pytest.raises(pk.errors.InvalidArgument, match=r"timeout is .*; give seconds, more than 0"):
        kernel(pk.Out(np.zeros(1, np.int32)), block=1, timeout=timeout)


# ---- Stopped and killed helpers ----------------------------------------------------------------------


@pytest.mark.parametrize("when", ["meanwhile", *thorough("before")])
def test_a_stopped_helper(engine, when):
    """A stopped helper is reported soon after the timeout, and the next call has another helper."""
    x = np.arange(10, dtype=np.int32)
    worker_pool.release()
    doubled(x, isolate=True)
    (before,) = processes()
    timer = threading.Timer(0 if when == "before" else 0.5, os.kill, (before, signal.SIGSTOP))
    timer.start()
    if when == "before":
        timer.join()
    a = np.zeros(4, np.int32)
    began = time.monotonic()
    with pytest.raises(errors.DeviceError, match=r"\bendless\b"):
        function("endless")(InOut(a), block=(1, 1, 1), timeout=2)
    assert 1.5 < time.monotonic() - began < 30  # without the timeout: a minute
    assert not a.any()
    timer.join()
    np.testing.assert_array_equal(doubled(x, timeout=30), 2 * x)
    assert before not in processes()


@pytest.mark.skipif(not hasattr(os, "fork") or not Path("/proc").exists(), reason="forks, and reads /proc")
def test_a_fork_keeps_no_helper_alive():
    """A child that was forked while a helper started holds the helper's pipe; the helper still ends."""
    code = (
        END
        + """
made, popen = [], worker_pool.subprocess.Popen
def forking(*arguments, **keywords):
    process = popen(*arguments, **keywords)
    made.append(process.pid)
    child = os.fork()
    if child == 0:
        os.close(1)
        os.close(2)
        time.sleep(200)
        os._exit(0)
    made.append(child)
    return process
worker_pool.subprocess.Popen = forking
twice()
print(json.dumps(made), flush=True)
os.kill(os.getpid(), 9)
"""
    )
    helper, child = json.loads(python(code, check=False).stdout)
    ended = end(helper)
    child_ran = runs(child)
    os.kill(child, signal.SIGKILL)
    assert ended
    assert child_ran


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_many_crashes(engine):
    """Crashes leave no zombies and no descriptors. PYCUDAKIT_TEST_CRASHES=100 tests more of them."""

    def left():
        gc.collect()
        mine = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
        states = [Path(f"/proc/{child}/stat").read_text().split()[2] for child in mine]
        return len(os.listdir("/proc/self/fd")), states.count("Z")

    worker_pool.release()
    files, zombies = left()
    for _ in range(int(os.environ.get("PYCUDAKIT_TEST_CRASHES", "5"))):
        with pytest.raises(errors.DeviceError, match="crash"):
            function("crash")(InOut(np.zeros(4, np.int32)), block=(1, 1, 1), isolate=True)
    assert left() <= (files, zombies)


@pytest.mark.parametrize("times", range(3))
def test_a_helper_that_is_killed_while_it_runs(engine, times, monkeypatch):
    """The call raises at once, nothing is written, and the next call has another helper."""
    x = np.arange(10, dtype=np.int32)
    worker_pool.release()
    doubled(x, isolate=True)
    (before,) = processes()
    killed, requests = [], []
    run, says_something = worker_pool.Worker.run, worker_pool.Worker._poll

    def kill():
        killed.append(time.monotonic())
        os.kill(before, signal.SIGKILL)

    def run_of(helper, request, *rest):
        requests.append(request)
        return run(helper, request, *rest)

    def says_something_or_is_killed(helper, patience, *rest):
        if patience is None and requests[-1].limits_query is None:  # the kernel has begun
            threading.Timer(0.3, kill).start()
        return says_something(helper, patience, *rest)

    a = np.zeros(4, np.int32)
    with monkeypatch.context() as patched:
        patched.setattr(worker_pool.Worker, "run", run_of)
        patched.setattr(worker_pool.Worker, "_poll", says_something_or_is_killed)
        with pytest.raises(errors.DeviceError, match=r"\bendless\b.*SIGKILL"):
            function("endless")(InOut(a), block=(1, 1, 1), isolate=True)
    assert len(killed) == 1
    assert time.monotonic() - killed[0] < 30
    assert not a.any()
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)
    assert before not in processes()


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_the_memory_of_a_helper_is_bounded(engine):
    """The memory of large arrays is freed."""

    def megabytes():
        (process,) = processes()
        status = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1000

    worker_pool.release()
    x = np.arange(10, dtype=np.int32)
    large = np.ones(50_000_000, np.int32)
    doubled(large[:20_000_000], isolate=True)  # allocates the staging slots of the GPU's link
    before = megabytes()
    for _ in range(3):
        assert (doubled(large, isolate=True) == 2).all()
        assert megabytes() < before + 60
    np.testing.assert_array_equal(doubled(x, isolate=True), 2 * x)


STARTED = f"""
import multiprocessing, os, threading
import numpy as np
import pycudakit as pk
from pycudakit.kernels.running import worker_pool

source = {SOURCE!r}

def kernel(n, isolate):
    a = np.full(1000, n, np.int32)
    shape = {{"block": (100, 1, 1), "grid": (10, 1)}}
    pk.SourceModule(source).get_function("twice")(pk.InOut(a), a.size, **shape, isolate=isolate)
    return bool((a == 2 * n).all())

def work(order):
    n, engine, plain = order
    with pk.engine(engine):
        a = np.full(200_000, n, np.int64)
        right = kernel(n, True) and (not plain or kernel(n, False) and bool((pk.add(a, a) == 2 * n).all()))
        return right, [helper._process.pid for helper in worker_pool._workers._all]

def main(method, engine):
    plain = engine == "cpu" or method != "fork"  # a forked child has no CUDA
    with pk.engine(engine):
        kernel(3, False)  # and knows the GPU from its parent
    ends, wrong = threading.Event(), []
    def meanwhile(isolate):
        with pk.engine(engine):
            while not ends.is_set():
                if not kernel(3, isolate):
                    wrong.append(isolate)
    threads = [threading.Thread(target=meanwhile, args=(isolate,)) for isolate in (False, True)]
    [thread.start() for thread in threads]
    with multiprocessing.get_context(method).Pool(3) as pool:
        told = pool.map(work, [(n, engine, plain) for n in range(12)], chunksize=1)
    ends.set()
    [thread.join() for thread in threads]
    return not wrong and all(right for right, _ in told), sorted({{pid for _, pids in told for pid in pids}})
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("method", ["fork", *thorough("spawn", "forkserver")])
def test_other_processes(engine, method, tmp_path):
    """Child processes of each start method run kernels while the parent does; their helpers end, too."""
    (tmp_path / "started.py").write_text(STARTED)
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
import started
print(json.dumps(started.main({method!r}, {engine!r})))
"""
    right, pids = json.loads(python(code))
    assert right
    assert pids
    assert end(*pids)
