"""Thousands of signals whose handler raises, at any point of a call: no exception is lost or changed."""

import json
import os
import sys

import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
    pytest.mark.skipif(
        SANITIZED,
        reason="sanitizers slow everything down",
    ),
]

MOST = int(os.environ.get("PYCUDAKIT_TEST_INTERRUPTS", "3000"))  # 100000 by hand

CODE = """
import ctypes, random, signal
import pycudakit as pk
from pycudakit._native import allocator
pk.set_engine("ENGINE")

class Enough(Exception):
    pass

raised, caught, others = 0, 0, []
armed = False

def handler(number, frame):
    global armed, raised
    if armed:
        armed = False
        raised += 1
        raise Enough(raised)

unraisable = []
sys.unraisablehook = lambda about: unraisable.append(f"{about.exc_type.__name__} in {about.object}")
signal.signal(signal.SIGALRM, handler)
x, out = np.linspace(1, 2, 3000), np.empty(3000)
large = allocator.MIN_BYTES
WORKS = {
    "elementwise": lambda: pk.sqrt(x, out=out),
    "new": lambda: pk.add(x, 1),
    "reduction": lambda: pk.sum(x.reshape(30, 100), axis=0),
    "scan": lambda: pk.cumsum(x),
    "order": lambda: pk.argsort(x),
    "expression": lambda: pk.evaluate("x * x + 1"),
    "large memory": lambda: [allocator.empty(large, np.uint8) for _ in range(20)],
}
WORK = WORKS["NAME"]
random.seed(1)
WORK()
began = time.perf_counter()
for _ in range(20):
    WORK()
took = (time.perf_counter() - began) / 20
until = time.monotonic() + float("SECONDS")
while raised < int("MOST") and time.monotonic() < until:
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, max(2e-6, random.random() * took))
        WORK()
        armed = False
    except Enough as error:
        caught += error.args == (raised,)
    except BaseException as error:
        others.append(f"{type(error).__name__}: {error}"[:200])
signal.setitimer(signal.ITIMER_REAL, 0)
handlers = allocator._handlers()
usual = handlers is None or handlers.get() is handlers.default
right = bool((pk.sqrt(x) == np.sqrt(x)).all())
print(json.dumps([raised, caught, others[:5], unraisable[:5], usual, right]))
"""


@pytest.mark.parametrize(
    "name", ["elementwise", "large memory", *thorough("new", "reduction", "scan", "order", "expression")]
)
def test_none_is_lost(engine, name):
    told = {"ENGINE": engine, "NAME": name, "SECONDS": MOST / 600, "MOST": MOST}
    code = CODE
    for word, value in told.items():
        code = code.replace(f'"{word}"', json.dumps(str(value)))
    raised, caught, others, unraisable, usual, right = json.loads(python(code, timeout=240 + MOST // 100))
    assert raised > 100
    assert (caught, others, unraisable) == (raised, [], [])
    assert usual
    assert right
