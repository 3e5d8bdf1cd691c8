"""The stacks of a block's threads on the CPU engine, within the system's limit of mappings."""

import json
import sys
from pathlib import Path

import pytest
from helpers.processes import failing_calls, python
from helpers.sanitizers import SANITIZED

pytestmark = [pytest.mark.cpu, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

MAPPINGS = Path("/proc/sys/vm/max_map_count")
START = f"""
import pycudakit as pk
pk.set_engine("cpu")
module = pk.SourceModule('''
__global__ void turned(int *x) {{
    __shared__ int kept[1024];
    int *const mine = x + blockIdx.x * 1024;
    kept[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = kept[1023 - threadIdx.x];
}}
__global__ void waits(volatile int *x) {{
    while (__syncthreads_or(x[0]) == 0) x[1] = 1;
}}
__global__ void deep(int *x) {{
    volatile char room[1 << 20];
    for (int i = 0; i < 1 << 20; i += 4096) room[(1 << 20) - 1 - i] = x[0];
    __syncthreads();
    x[threadIdx.x] = room[0];
}}
''')
turned, waits, deep = map(module.get_function, ["turned", "waits", "deep"])
RIGHT = np.arange(4096).reshape(4, -1)[:, ::-1].ravel()
MOST = int(open("{MAPPINGS}").read())
def is_right():
    x = np.arange(4096, dtype=np.int32)
    turned(pk.InOut(x), block=1024, grid=4)
    return bool((x == RIGHT).all())
def mappings():
    return len(open("/proc/self/maps").readlines())
assert is_right()
"""


@pytest.fixture(params=["guards within mappings", "guards as mappings"])
def env(request):
    if request.param == "guards within mappings":
        return {}
    return {"LD_PRELOAD": failing_calls(), "FAILING_GUARDS": "1"}


def test_many_threads(env):
    """Threads that run the largest blocks leave little memory, and other threads can start."""
    many = 16 if SANITIZED else 64
    code = (
        f"{START}\nmany = {many}\n"
        """
right, barrier = [], threading.Barrier(many)
def work():
    barrier.wait()
    right.extend(is_right() for _ in range(3))
threads = [threading.Thread(target=work) for _ in range(many)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
left = mappings()
pk.release()
print(json.dumps([right.count(True), left / MOST, mappings() / MOST]))
"""
    )
    right, left, released = json.loads(python(code, env=env))
    assert right == 3 * many
    assert left < 0.3
    assert released < 0.05


@pytest.mark.parametrize("end", ["they end", "Ctrl-C"])
def test_others_have_the_stacks(end):
    """A call waits while other calls use the stacks, and can be interrupted."""
    if not 16 * 4096 - 16 <= int(MAPPINGS.read_text()) <= 32 * 4096:
        pytest.skip("another limit of mappings needs another number of threads")
    code = (
        START
        + f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
flags = [np.zeros(16, np.int32) for _ in range(MOST // 4 // 1024)]
raised = []
def work(flag):
    try:
        waits(pk.InOut(flag), block=1024)
    except BaseException as error:
        raised.append(repr(error))
threads = [threading.Thread(target=work, args=(flag,)) for flag in flags]
[thread.start() for thread in threads]
while not raised and not all(flag[1] for flag in flags):  # until all have their stacks
    time.sleep(0.01)
told = waited = None
def later():
    global waited
    time.sleep(1)
    waited = told is None
    if {end == "Ctrl-C"}:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    for flag in flags:
        flag[0] = 1
try:
    threads.append(threading.Thread(target=later))
    threads[-1].start()
    told = is_right()
except KeyboardInterrupt:
    told = "interrupted"
[thread.join() for thread in threads]
print(json.dumps([told, waited, raised, is_right()]))
"""
    )
    env = {"LD_PRELOAD": failing_calls(), "FAILING_GUARDS": "1"}
    told, waited, raised, right = json.loads(python(code, env=env))
    assert told == ("interrupted" if end == "Ctrl-C" else True)
    assert waited
    assert not raised
    assert right


def test_a_stack_that_is_not_deep_enough(env):
    """An overflow hits the guard page: it ends the helper, and no other stack is overwritten."""
    code = (
        START
        + """
x = np.ones(32, np.int32)
try:
    deep(pk.InOut(x), block=32, isolate=True)
except pk.errors.DeviceError as error:
    print(json.dumps([str(error), bool(x.all()), is_right()]))
"""
    )
    told, unchanged, right = json.loads(python(code, env=env))
    assert ("the helper process" if SANITIZED else "SIGSEGV") in told
    assert unchanged
    assert right
