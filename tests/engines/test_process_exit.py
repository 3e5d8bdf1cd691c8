"""A process ends cleanly while its threads compute."""

import time

import pytest
from helpers.processes import python

START = """
import atexit, logging, logging.handlers, queue
import concurrent.futures
right = []
def at_end():
    {at_end}
    print(len(right), all(right))
atexit.register(at_end)  # before the first call, and so after the library's own function
import pycudakit as pk
pk.set_engine({engine!r})
numbers = np.random.default_rng(3).random(1_000_000)
def compute():
    right.append(bool((pk.sort(numbers) == np.sort(numbers)).all()))
compute()
"""
LISTENER = """
class Handler(logging.Handler):
    def emit(self, record):
        compute()
waiting = queue.Queue()
listener = logging.handlers.QueueListener(waiting, Handler())
listener.start()
for _ in range(5):
    waiting.put(logging.makeLogRecord({}))
"""
EXECUTOR = """
executor = concurrent.futures.ThreadPoolExecutor(2)
for _ in range(5):
    executor.submit(compute)
"""
THREADS = """
threads = [threading.Thread(target=compute, daemon=True) for _ in range(5)]
for thread in threads:
    thread.start()
"""


@pytest.mark.parametrize(
    ("at_end", "work"),
    [
        ("listener.stop()", LISTENER),
        ("executor.shutdown()", EXECUTOR),
        ("[thread.join() for thread in threads]", THREADS),
    ],
)
def test_a_thread_that_is_joined_at_the_end_computes_to_its_end(engine, at_end, work):
    code = START.format(at_end=at_end, engine=engine) + work + "sys.exit(3)"
    done = python(code, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "6 True\n", "")


ENDLESS = """
import pycudakit as pk
pk.set_engine({engine!r})
a = np.ones(10_000_000)
def work():
    with pk.profile(progress={watched} and (lambda *_: time.sleep(0.01))):
        while True:
            pk.sin(a)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print(time.monotonic(), flush=True)
sys.exit(7)
"""


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.parametrize("watched", [False, True])
def test_exit_with_running_threads(engine, watched):
    """The process ends soon, with its exit code and without messages, in every repetition."""
    for _ in range(3):
        done = python(ENDLESS.format(engine=engine, watched=watched), check=False)
        assert time.monotonic() - float(done.stdout) < 30
        assert (done.returncode, done.stderr) == (7, "")
