"""Run code in fresh interpreter processes."""

import atexit
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import pycudakit as pk
from helpers.sanitizers import SANITIZED
from pycudakit import errors
from pycudakit._native import loader

LIBRARY = Path(loader.find("cpu"))


# A fork copies the allocator locks of ASan as they are. A worker that begins or ends a call may hold one, and
# the child would wait for it forever. So the other threads sleep first.
SETTLED_FORK = """
def settled_fork(fork=os.fork):
    def awake(thread):
        try:
            with open(f"/proc/self/task/{thread}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "S"
        except FileNotFoundError:
            return False
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        time.sleep(0.01)
        threads = set(os.listdir("/proc/self/task")) - {str(threading.get_native_id())}
        if not any(awake(thread) for thread in threads):
            break
    return fork()
os.fork = settled_fork
"""


def python(code, *, check=True, env=None, timeout=240, cwd=None):
    """Run code in a fresh interpreter, with variables added, or removed where None; return its output.

    The timeout catches hangs: it is far longer than even a busy machine needs.
    """
    variables = {
        **os.environ,
        "PYCUDAKIT_LIBRARY_DIR": str(LIBRARY.parent),
        "PYCUDAKIT_ENGINE": None,
        **(env or {}),
    }
    variables = {k: v for k, v in variables.items() if v is not None}
    prelude = "import faulthandler, json, os, sys, threading, time\nimport numpy as np\n"
    prelude += f"faulthandler.dump_traceback_later({timeout - 5}, exit=True)\n"  # a hang prints its traceback
    if SANITIZED:
        prelude += SETTLED_FORK
    done = subprocess.run(
        [sys.executable, "-c", prelude + code],
        check=False, capture_output=True, text=True, timeout=timeout, env=variables, cwd=cwd,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if check else done


def compiled(source, *options):
    """Return the path of a shared library of a C++ source file; skip the test without a compiler."""
    compiler = next(filter(None, map(shutil.which, [os.environ.get("CXX", "c++"), "g++", "clang++"])), None)
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    made = Path(tempfile.mkdtemp()) / "library.so"
    atexit.register(shutil.rmtree, made.parent)
    always = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared"]
    subprocess.run([compiler, *always, str(source), "-o", str(made), *options], check=True)
    return str(made)


@functools.cache
def failing_calls():
    """Return the preload library of system_call_failures.cpp; skip the test where it cannot be built."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("takes the place of glibc's functions")
    if pk.build_info()["cpu"]["sanitizers"]:
        pytest.skip("sanitizers take that place")
    return compiled(Path(__file__).with_name("system_call_failures.cpp"), "-ldl")


# Code that drops Linux capabilities, given by their bits, if the process is root.
WITHOUT = """
import ctypes
if os.getuid() == 0:
    libc, head, capabilities = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, capabilities) == 0
    for set_of_them in (0, 1):
        capabilities[set_of_them] &= ~{bits}
    assert libc.capset(head, capabilities) == 0
"""

FAILURE = """
import pycudakit as pk
try:
    {call}
except pk.errors.Error as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def failure(call, **keywords):
    name, message = json.loads(python(FAILURE.format(call=call), **keywords))
    return getattr(errors, name), message


ENDS = {
    "arrays that are alive": "keep = a, a[3:]",
    "a cycle": "class Node: pass\nnode = Node(); node.self, node.array = node, a; del a, node",
    "a module's": "import types\nm = types.ModuleType('m'); m.a = a; sys.modules['m'] = m; del a, m",
    "NumPy's": "np.ours = a; del a",
    "a thread's": "t = threading.Thread(target=time.sleep, args=(9,), daemon=True); t.array = a; t.start()",
}


def ends_well(array, end):
    """Check that a process exits silently while an array is still alive in one of several ways."""
    code = f"import pycudakit as pk\na = {array}; a[...] = 1\n{ENDS[end]}\n"
    done = python(code, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
