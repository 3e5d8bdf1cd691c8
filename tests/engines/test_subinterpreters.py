"""Subinterpreters: pycudakit works in one, or its import is refused; the process does not crash."""

import importlib.util
import json
import re

import pytest
from helpers.processes import python

NAME = next((name for name in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(name)), "")
pytestmark = [pytest.mark.cpu, pytest.mark.skipif(not NAME, reason="this Python has none")]

SCRIPT = f"""
import json, sys, threading
import {NAME or "sys"} as interpreters

work = f"import sys; sys.path[:] = {{sys.path!r}}" + '''
import warnings
warnings.simplefilter("ignore")
import numpy as np
import pycudakit as pk
x = np.arange(2_000_000.0)
for engine in ("cpu", "auto"):
    with pk.engine(engine):
        assert (pk.sqrt(x) == np.sqrt(x)).all()
        assert pk.sum(x) == x.sum()
        assert (pk.sort(x[::-1]) == x).all()
        assert pk.fuse(lambda a: np.sum(a * 2))(x) == 2 * x.sum()
del x
'''

def tell():
    '''Return the outcome of the work in an interpreter of its own, which ends then.'''
    made = interpreters.create()
    try:
        failed = interpreters.run_string(made, work)
        return failed and failed.formatted
    except RuntimeError as error:  # before Python 3.13
        return str(error)
    finally:
        interpreters.destroy(made)

def tell_all(count):
    told = []
    threads = [threading.Thread(target=lambda: told.append(tell())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told
"""
WORKS = {
    "alone": "told = [tell()]",
    "one after the other": "told = [tell(), tell(), tell()]",
    "beside others": "exec(work); told = [tell()]; exec(work)",
    "at once": "exec(work); told = tell_all(4); exec(work)",
}


@pytest.mark.parametrize("work", WORKS)
def test_interpreters(tmp_path, work):
    """NumPy supports one interpreter per process, and refuses the import in others."""
    script = tmp_path / "script.py"  # run by a process that has not imported NumPy
    script.write_text(f"{SCRIPT}\n{WORKS[work]}\nprint(json.dumps(told))")
    told = json.loads(python(f"os.execv(sys.executable, [sys.executable, {str(script)!r}])"))
    for words in told:
        is_refused = words and re.match("(<class ')?ImportError", words) and "Traceback" not in words
        assert words is None or is_refused, words
