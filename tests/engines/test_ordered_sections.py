"""Calls whose threads hand results over in order: cumsum, and sums of weights."""

import os

import numpy as np
import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

STOPPED = """
import signal
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # so that the call takes long, and threads wait
import pycudakit as pk
pk.set_engine("cpu")
x = np.random.default_rng(5).random(1 << 24)
edges = np.sort(x[:5000])
infinite = np.concatenate([[np.inf], x])  # whose sums are checked for exceptions, one by one
work = {
    "cumsum": lambda: pk.cumsum(infinite),
    "histogram": lambda: pk.histogram(x, edges, weights=x)[0],
}[WORK]
expected = work()
class Enough(Exception):
    pass
def stop(*_):
    raise Enough
signal.signal(signal.SIGALRM, stop)
right = 0
for turn in range(10):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02 * (turn + 1))
        work()
        time.sleep(60)
    except Enough:
        right += bool((work() == expected).all())
print(right)
"""


@pytest.mark.alone
@pytest.mark.skipif(SANITIZED, reason="sanitizers slow everything down")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot make the call slow")
@pytest.mark.parametrize("work", ["cumsum", *thorough("histogram")])
def test_a_stopped_call_ends(work):
    """A thread that stops leaves no other waiting for its turn, and the next call is right."""
    assert python(STOPPED.replace("WORK", repr(work)), env={"PYCUDAKIT_THREADS": "7"}) == "10"


def test_more_threads_than_processors_have_the_same_bits():
    code = """
import hashlib
import pycudakit as pk
pk.set_engine("cpu")
x = np.random.default_rng(3).standard_normal(3_000_000)
i = np.abs(x * 300).astype(np.int64)
for result in (pk.cumsum(x), pk.cumsum(x.reshape(-1, 3), axis=0), pk.bincount(i, x), pk.cumsum(i)):
    print(hashlib.sha256(result.tobytes()).hexdigest())
"""
    one, many = (python(code, env={"PYCUDAKIT_THREADS": threads}) for threads in ("1", "16"))
    assert one == many
    assert np.unique(one.split()).size == 4
