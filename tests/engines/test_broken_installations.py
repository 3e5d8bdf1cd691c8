"""Broken installations: an engine reports the cause in one line; `auto` warns once and goes on without it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import LIBRARY, WITHOUT, failure, python

import pycudakit as pk
from pycudakit import errors
from pycudakit._element_programs import values
from pycudakit._native import abi, loader

pytestmark = pytest.mark.cpu

NAME = loader.file_name("cpu")
DAC_OVERRIDE, DAC_READ_SEARCH = 1 << 1, 1 << 2
AUTO = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pycudakit as pk
    right = []
    for _ in range(2):
        x = np.arange(300_000.0)
        right += [pk.add(x, 1)[-1] == 300_000, pk.sum(x) == x.sum(), pk.sort(x[::-1])[0] == 0]
        right += [pk.cumsum(x)[-1] == x.sum(), pk.median(x) == 149999.5, sum(pk.histogram(x, 2)[0]) == x.size]
        right += [pk.evaluate("x + y", {"x": x, "y": 1})[0] == 1, pk.matmul(x[:4], x[:4]) == 14]
        right += [pk.interp(x[:9], x, x)[8] == 8, pk.take(x, [3])[0] == 3, pk.last_call().engine == "numpy"]
        right += [pk.fuse(lambda a: np.sum(a * 2))(x) == 2 * x.sum(), pk.unique(x).size == x.size]
        right += [pk.allclose(x, x), pk.nanmean(x) == x.mean(), pk.cov(x) == np.cov(x)]
        right += [pk.gradient(x)[0] == 1, pk.convolve(x, [1.0])[1] == 1]
print(json.dumps([list(map(bool, right)), [str(w.message) for w in caught], pk.engines()["cpu"].reason]))
"""


def compiled(path, text):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source = path.with_suffix(".cpp")
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(path)], check=True)


VERSION = f'extern "C" int pk_abi_version(long long *v) {{ *v = {abi.ABI_VERSION}; return 0; }}\n'


def lacks_entries(path):
    compiled(path, VERSION)


def lacks_a_symbol(path):
    compiled(path, "void nowhere();\n" + VERSION.replace("*v =", "nowhere(); *v ="))


def of_another_release(path):
    compiled(path, VERSION.replace(f"= {abi.ABI_VERSION}", "= 99"))


def is_cut_off(path):
    path.write_bytes(LIBRARY.read_bytes()[: LIBRARY.stat().st_size // 2])


def is_empty(path):
    path.write_bytes(b"")


def is_a_folder(path):
    path.mkdir()


def is_a_link_to_itself(path):
    path.symlink_to(path)


def is_in_an_unreadable_folder(path):
    path.parent.chmod(0)


def is_unreadable(path):
    shutil.copy(LIBRARY, path)
    path.chmod(0)


BROKEN = {
    lacks_entries: "lacks an entry ({path}: undefined symbol: pk_last_error): install it",
    lacks_a_symbol: "{path} does not open",
    of_another_release: "{path} speaks version 99 of the ABI",
    is_cut_off: "{path} does not open: a part of it is missing",
    is_empty: "{path} does not open: ",
    is_a_folder: "{path} (is no file)",
    is_a_link_to_itself: "{path} (Too many levels of symbolic links)",
    is_in_an_unreadable_folder: "{path} (Permission denied)",
    is_unreadable: "{path} does not open: ",
}
ORDINARY = (lacks_entries, is_cut_off, is_a_folder)


@pytest.mark.skipif(sys.platform != "linux", reason="in the words of Linux")
@pytest.mark.parametrize(
    "how",
    [how if how in ORDINARY else pytest.param(how, marks=pytest.mark.thorough) for how in BROKEN],
    ids=lambda how: how.__name__,
)
def test_libraries(tmp_path, how):
    folder = tmp_path / "lib"
    folder.mkdir()
    how(folder / NAME)
    words = BROKEN[how].format(path=folder / NAME)
    env = {"PYCUDAKIT_LIBRARY_DIR": str(folder)}
    drop = WITHOUT.format(bits=DAC_OVERRIDE | DAC_READ_SEARCH)
    try:
        right, warned, reason = json.loads(python(drop + AUTO, env=env))
        code = f"exec({drop!r}); pk.set_engine('cpu'); pk.add(np.ones(9), 1)"
        error, message = failure(code, env=env)
    finally:
        folder.chmod(0o700)
    assert all(right)
    assert f"the cpu engine is missing, and others compute instead: {reason}" in warned
    assert len(set(warned)) == len(warned)  # a fault of the folder concerns both engines
    assert words in reason
    assert error is errors.NoDevice
    assert message == reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYCUDAKIT_THREADS", "abc"),
        ("PYCUDAKIT_ISA", "sse9"),
        pytest.param("PYCUDAKIT_THREADS", "0", marks=pytest.mark.thorough),
    ],
)
def test_settings(name, value):
    right, warned, reason = json.loads(python(AUTO, env={name: value}))
    assert all(right)
    assert warned == [f"the cpu engine is missing, and others compute instead: {reason}"]
    assert reason.startswith(f"{name} is {value!r}")


def test_engines_tell_of_it_without_a_warning():
    """Later calls still warn."""
    code = """
import warnings
import pycudakit as pk
with warnings.catch_warnings():
    warnings.simplefilter("error")
    reason = pk.engines()["cpu"].reason
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pk.add(np.ones(300_000), 1)
print(reason in str(caught[0].message), len(caught))
"""
    assert python(code, env={"PYCUDAKIT_THREADS": "abc"}) == "True 1"


def test_types_of_programs_are_known_without_a_library():
    """The table of result dtypes does not need a library."""
    told = dict(values.operations_from_numpy())
    listed = [(name, name in values.bool_operations()) for name in values.operations()]
    assert listed
    assert [(name, told.get(name)) for name, _ in listed] == listed


def test_no_warning_without_a_gpu():
    """No warning for a missing GPU or a CPU-only build, which are normal."""
    code = "import pycudakit as pk; pk.add(np.ones(300_000), 1); print(pk.engines()['cuda'].available)"
    done = python(code, check=False, env={"CUDA_VISIBLE_DEVICES": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_a_library_of_cuda_that_does_not_open(tmp_path):
    """`auto` warns, and uses the CPU engine."""
    shutil.copy(LIBRARY, tmp_path)
    (tmp_path / loader.file_name("cuda")).write_text("not a library")
    code = """
import pycudakit as pk
x = np.ones(30_000_000)
for _ in range(2):
    print(pk.sqrt(x)[0], pk.last_call().engine)
"""
    # With many threads `auto` would not consider a GPU.
    done = python(code, check=False, env={"PYCUDAKIT_LIBRARY_DIR": str(tmp_path), "PYCUDAKIT_THREADS": "1"})
    assert (done.returncode, done.stdout) == (0, "1.0 cpu\n" * 2)
    assert done.stderr.count("RuntimeWarning: the cuda engine is missing, and others compute instead: ") == 1
    assert "does not open" in done.stderr


KERNEL = "__global__ void k(int *x) { x[threadIdx.x] += 1; }"
COMPILERS = {
    "true": "true succeeded, but did not write kernels.",
    "false": "no output, exit status 1",
    "g++ '-O2": 'CXX is "g++ \'-O2", which is not a command (No closing quotation); set it to a C++ compiler',
    "no-such-compiler": "and CXX=no-such-compiler is missing: install g++",
    "/": "and CXX=/ is missing",
}


@pytest.fixture
def refused(monkeypatch):
    """Return a function that compiles and calls a kernel, and returns the exception's type and message."""

    def call(source, timeout):
        kernel = pk.SourceModule(source, cache_dir=False).get_function("k")
        kernel(pk.InOut(np.ones(4, np.int32)), block=4, timeout=timeout)

    def refused(source=KERNEL, timeout=None, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pk.engine("cpu"), pytest.raises(errors.Error) as caught:
            call(source, timeout)
        return caught.type, str(caught.value)

    return refused


@pytest.mark.parametrize("command", COMPILERS)
def test_compilers(refused, command):
    error, message = refused(f"{KERNEL}  // {command!r}", CXX=command)
    assert error is errors.CompileError
    assert COMPILERS[command] in message


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\nkill -9 $$\n", "killed by signal 9"),
        ("no script", "does not run: "),
        ("#!/no/such/shell\n", "does not run: "),
        # Its results are empty.
        ("#!/bin/sh\nfor a; do case $b in -o) : > $a;; esac; b=$a; done\n", "did not write kernels.d"),
    ],
)
def test_compilers_that_are_odd(refused, tmp_path, script, words):
    file = Path(tmp_path, "cxx")
    file.write_text(script)
    file.chmod(0o755)
    error, message = refused(f"{KERNEL}  // {script!r}", CXX=str(file))
    assert error is errors.CompileError
    assert words in message


@pytest.mark.parametrize("value", ["inf", "nan", "-1.0", "0.0", "1e300"])
def test_timeouts(refused, value):
    error, message = refused(timeout=float(value))
    assert error is errors.InvalidArgument
    assert message == (
        f"timeout is {float(value)!r}; give seconds, more than 0 and at most 10,000,000, or None"
    )


@pytest.mark.parametrize("value", ["abc", "inf", "nan", "-1", "1e300"])
def test_limits_of_compilers(refused, value):
    error, message = refused(f"{KERNEL}  // {value}", PYCUDAKIT_COMPILE_LIMIT=value)
    assert error is errors.InvalidArgument
    assert message == f"PYCUDAKIT_COMPILE_LIMIT is '{value}'; give seconds, such as 600, or 0 for no limit"
