"""Ctrl-C and other signals during long and endless kernels."""

import json
import sys
import time

import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing takes a thread out of a kernel"),
    pytest.mark.skipif(
        SANITIZED,
        reason="sanitizers hold signals back",
    ),
]

PRELUDE = """
import signal
import pycudakit as pk
signal.signal(signal.SIGINT, signal.default_int_handler)
module = pk.SourceModule(r'''
#include <stdio.h>
__global__ void endless(volatile int *a) { while (a[1] == 0) a[0] += 1; }
__global__ void idle(int *a) { for (;;) __nanosleep(1); }
__global__ void beyond_a_barrier(volatile int *a) { __syncthreads(); while (a[1] == 0) a[0] += 1; }
__global__ void the_last(volatile int *a) { if (blockIdx.x == 6) while (a[1] == 0) a[0] += 1; }
__global__ void speaking(int *a) { for (;;) printf("%d", a[0]); }
__global__ void copying(char *a) { for (;;) memcpy(a, a + 4096, 4096); }
__global__ void sines(double *a) { for (;;) a[0] = sin(a[0]); }
__global__ void twice(int *a) { a[threadIdx.x] *= 2; }
__device__ int factor = 1;
__global__ void count(long long *a, long long n) {
    for (long long i = 0; i < n; ++i) a[0] = a[0] * 3 + factor * i;
}
''')
def twice():
    x = np.arange(4, dtype=np.int32)
    module.get_function("twice")(pk.InOut(x), block=4)
    return x.tolist() == [0, 2, 4, 6]
def count(**keywords):
    a = np.ones(1, np.int64)
    module.get_function("count")(pk.InOut(a), n, block=1, **keywords)
    return a.item()
def counting(seconds):  # as many rounds as take so long, where nothing else is at work, too
    global n
    n, took = 1_000_000, 0
    while took < seconds:
        n *= 2
        began = time.thread_time()
        answer = count()
        took = time.thread_time() - began
    return answer
def send_signal_every(pause, number):
    def send():
        while not over.wait(pause):
            if not is_handled:  # a handler that is slow would be interrupted, and again
                os.kill(os.getpid(), number)
    thread = threading.Thread(target=send)
    thread.start()
    return thread
over, is_handled = threading.Event(), []
"""


def run(code, **keywords):
    with_engine = PRELUDE + 'pk.set_engine("cpu")\n'
    return json.loads(python(with_engine + code, **keywords))


@pytest.mark.parametrize("threads", ["4", *thorough("1")])
@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("endless", "int32", {"block": 1}),
        ("endless", "int32", {"block": 256, "grid": (40, 1)}),
        pytest.param(*("idle", "int32", {"block": 1}), marks=pytest.mark.thorough),
        ("beyond_a_barrier", "int32", {"block": 64}),
        pytest.param(*("the_last", "int32", {"block": 1, "grid": (7, 1)}), marks=pytest.mark.thorough),
        ("speaking", "int32", {"block": 1}),
        ("copying", "int8", {"block": 1}),
        pytest.param(*("sines", "float64", {"block": 1}), marks=pytest.mark.thorough),
    ],
)
def test_ctrl_c(name, dtype, shape, threads):
    """Ctrl-C raises KeyboardInterrupt soon in an endless kernel, and the next calls are right."""
    code = f"""
import io
seconds, rights = [], []
while len(rights) < 3 or (min(seconds) >= 0.5 and len(rights) < 20):  # a busy machine may be late
    a = np.zeros(8192, {dtype!r})
    def send():
        seconds.append(-time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.1, send)
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        timer.start()
        module.get_function({name!r})(pk.InOut(a), **{shape!r})
    except KeyboardInterrupt:
        seconds[-1] += time.perf_counter()
    sys.stdout = out
    timer.join()
    rights.append(twice())
print(json.dumps([seconds, rights]))
"""
    seconds, rights = run(code, env={"PYCUDAKIT_THREADS": threads})
    assert rights == [True] * len(seconds)
    assert 0 < min(seconds) < 0.5


@pytest.mark.thorough
def test_a_kernel_goes_on_after_a_handler():
    """A kernel gives the right result after a handler that runs other kernels of the same module."""
    code = """
expected = counting(0.25)
handled = []
def handler(*_):
    is_handled.append(True)
    handled.append(twice())
    is_handled.clear()
signal.signal(signal.SIGUSR1, handler)
thread = send_signal_every(0.02, signal.SIGUSR1)
answers = [count() for _ in range(3)]
over.set()
thread.join()
print(json.dumps([answers == [expected] * 3, len(handled), all(handled)]))
"""
    same, handled, right = run(code)
    assert same
    assert handled >= 3
    assert right


@pytest.mark.thorough
def test_a_handler_that_sets_symbols():
    """Setting symbols would affect the running kernel, so it is an error, not a hang."""
    code = """
expected = counting(0.25)
told = []
def handler(*_):
    is_handled.append(True)
    x, symbols = np.zeros(4, np.int32), {"factor": np.int32(7)}
    try:
        module.get_function("twice")(pk.InOut(x), block=4, symbols=symbols)
    except pk.errors.InvalidArgument as error:
        told.append(str(error))
    is_handled.clear()
signal.signal(signal.SIGUSR1, handler)
thread = send_signal_every(0.1, signal.SIGUSR1)
same = count() == expected
over.set()
thread.join()
print(json.dumps([same, told[0], count(symbols={"factor": np.int32(0)}), pow(3, n, 1 << 64)]))
"""
    same, told, count, powers = run(code)
    assert same
    assert "'twice' has symbols" in told
    assert (count - powers) % (1 << 64) == 0


def test_the_process_ends_during_an_endless_kernel():
    code = """
def endless():
    module.get_function("endless")(pk.InOut(np.zeros(2, np.int32)), block=1)
threading.Thread(target=endless, daemon=True).start()
time.sleep(0.3)
print(json.dumps(time.time()))
"""
    began = run(code)
    assert time.time() - began < 30


@pytest.mark.thorough
def test_progress_of_a_long_kernel():
    """Progress is reported during one block."""
    code = """
from pycudakit._runtime import progress as module_
module_.FIRST_REPORT_SECONDS = module_.REPORT_INTERVAL = 0.1
counting(0.4)
told = []
with pk.engine(progress=lambda done, total: told.append(done)):
    count()
print(json.dumps(len(told)))
"""
    assert run(code) >= 2


@pytest.mark.thorough
def test_signals_that_others_handle():
    """Kernels run as before if the program handles all signals."""
    code = """
seen = []
for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
    signal.signal(number, lambda number, _: seen.append(number))
expected = counting(0.3)
for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
    signal.signal(number, signal.SIG_DFL)
print(json.dumps([twice(), count() == expected, len(seen)]))
"""
    assert run(code) == [True, True, 0]
    taken_later = "twice()\n" + code
    assert run(taken_later) == [True, True, 0]
