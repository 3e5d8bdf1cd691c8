"""Signals during native calls, and the end of the process during calls."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import errors
from pycudakit._runtime import interrupts, native_call
from pycudakit._runtime.engine_choice import EngineChoice

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
    pytest.mark.skipif(
        SANITIZED,
        reason="sanitizers slow everything down",
    ),
]

# The child processes' first lines. A call of 0.8 s gets a signal after 0.3 of them. On a busy machine it
# may end late: of several times, one that is soon shows that a call asks often enough.
PRELUDE = f"""
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import signal, traceback
import pycudakit as pk
from helpers.long_calls import long_call
pk.set_engine("ENGINE")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is born without
call = long_call(0.8)
sent = []
def send(number, delay=0.3):
    def after():
        time.sleep(delay)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), number)
    thread = threading.Thread(target=after)
    thread.start()
    return thread
def right():
    a = np.linspace(1, 2, 300_000)
    return bool((pk.sqrt(a) == np.sqrt(a)).all() and (a + a == pk.add(a, a)).all())
"""


def run(engine, code):
    done = python(PRELUDE.replace("ENGINE", engine) + code, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.alone
def test_ctrl_c(engine):
    """Ctrl-C raises KeyboardInterrupt soon in each of several calls, and the next call is right."""
    code = """
seconds = []
while len(seconds) < 3 or (min(seconds) >= 0.2 and len(seconds) < 20):
    try:
        thread = send(signal.SIGINT)
        call()
        sys.exit("the call ended")
    except KeyboardInterrupt as error:
        seconds.append(time.perf_counter() - sent[-1])
        assert error.__context__ is None and error.__cause__ is None
    thread.join()
    assert right()
print(json.dumps(seconds))
"""
    assert min(run(engine, code)) < 0.2


@pytest.mark.alone
def test_exceptions_of_handlers(engine):
    code = """
class Enough(Exception):
    pass
def handler(number, frame):
    raise Enough("enough") from ValueError("the cause")
signal.signal(signal.SIGUSR1, handler)
for turn in range(20):
    thread = send(signal.SIGUSR1)
    try:
        call()
    except Enough as error:
        seconds = time.perf_counter() - sent[-1]
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        told = [seconds, str(error), str(error.__cause__), names[0], names[-1], right()]
    thread.join()
    if seconds < 0.2:
        break
print(json.dumps(told))
"""
    seconds, text, cause, first, last, right = run(engine, code)
    assert seconds < 0.2
    assert (text, cause, first, last) == ("enough", "the cause", "<module>", "handler")
    assert right


@pytest.mark.thorough
@pytest.mark.alone
def test_a_handler_that_returns(engine):
    """The handler runs during the call, may make calls itself, and the call goes on."""
    code = """
handled = []
def handler(number, frame):
    handled.append((time.perf_counter(), right()))
signal.signal(signal.SIGUSR1, handler)
for turn in range(20):
    thread = send(signal.SIGUSR1)
    result = call()
    end = time.perf_counter()
    thread.join()
    at, was_right = handled[-1]
    if end - at > 0.1:
        break
count = len(handled) - turn
print(json.dumps([end - at, count, was_right, bool((result == call()).all())]))
"""
    left, count, was_right, same = run(engine, code)
    assert left > 0.1
    assert count == 1
    assert was_right
    assert same


@pytest.mark.thorough
@pytest.mark.alone
def test_a_call_of_another_thread_goes_on(engine):
    """A signal does not stop a call of another thread."""
    code = """
under_way, turn = False, 0
while not under_way and turn < 20:
    results, turn = [], turn + 1
    other = threading.Thread(target=lambda: results.append(call()))
    other.start()
    try:
        thread = send(signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        under_way = not results
    other.join()
    thread.join()
print(json.dumps([under_way, bool((results[0] == call()).all())]))
"""
    under_way, same = run(engine, code)
    assert under_way
    assert same


@pytest.mark.thorough
def test_an_exception_of_a_progress_function(engine):
    code = """
from pycudakit._runtime import progress as module
module.FIRST_REPORT_SECONDS = module.REPORT_INTERVAL = 0.1
told = []
def progress(done, total):
    told.append((done, total))
    if len(told) == 1:
        raise LookupError("seen enough")
begin = time.perf_counter()
try:
    with pk.engine(progress=progress):
        call()
except LookupError as error:
    message = str(error)
print(json.dumps([message, len(told), all(done < total for done, total in told), right()]))
"""
    assert run(engine, code) == ["seen enough", 1, True, True]


@pytest.mark.thorough
@pytest.mark.alone
def test_daemon_threads_at_the_end(engine):
    """A process ends soon, and without messages, while daemon threads are in long and short calls."""
    code = """
def work():
    while True:
        call()
def small():
    while True:
        right()
for target in (work, work, small, small):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.5)
print(json.dumps(time.time()))
"""
    begin = run(engine, code)
    assert time.time() - begin < 30


def test_watchers_are_few(monkeypatch):
    """The number of watchers is that of concurrent calls."""
    made, init = [], interrupts.Watcher.__init__
    monkeypatch.setattr(interrupts.Watcher, "__init__", lambda self: (made.append(self), init(self))[1])
    with pk.engine("cpu"):
        pk.add(np.ones(9), 1)
        pk.cumsum(np.ones(9))
        before = len(made)
        for _ in range(20):
            pk.add(np.ones(9), 1)
            pk.cumsum(np.ones(9))
    assert len(made) == before


class Failing(native_call.NativeCall):
    """A call that is stopped, and then fails with another error."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def bind(self, _library):
        def entry():
            if self.fails:
                self._watcher.error = KeyboardInterrupt()
                raise errors.OutOfMemory("on the way out")
            self.report[...] = 0

        return entry


def test_a_stop_does_not_outlive_its_call():
    """The exception that stopped a call is raised by that call, not by the next one."""
    call = Failing(True)
    plan = EngineChoice("work", "cpu", "")
    with pytest.raises(KeyboardInterrupt):
        call.run(plan, 1)
    call.fails = False
    assert call.run(plan, 1) == 0
    assert pk.last_call().function == "work"


@pytest.mark.alone
@pytest.mark.parametrize(
    "work", ["median(x)", *thorough("sort(x)", "argsort(i)", "quantile(x, [0.1, 0.5, 0.9])", "unique(x)")]
)
def test_large_orders(engine, work):
    """Large calls of every family react to a signal within 0.2 s."""
    code = f"""
x = np.random.default_rng(1).standard_normal(10_000_000)
i = x.view(np.int32)[::2].copy()
began = time.perf_counter()
pk.{work}
took = time.perf_counter() - began
seconds, thread = [], None
for part in (0.02, 0.3, 0.7):
    late = []
    while not late or (min(late) >= 0.2 and len(late) < 10):
        try:
            thread = send(signal.SIGINT, part * took)
            pk.{work}
            time.sleep(60)
        except KeyboardInterrupt:  # before it has a name, if the call is quick
            late.append(time.perf_counter() - sent[-1])
        if thread is not None:
            thread.join()
    seconds.append(min(late))
print(json.dumps([seconds, right()]))
"""
    seconds, is_right = run(engine, code)
    assert is_right
    assert max(seconds) < 0.2
