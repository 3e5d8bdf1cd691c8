"""Processes under resource limits: memory, threads, files, disk space, stacks."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import system_call_failures
from helpers.processes import WITHOUT, python
from helpers.thorough_cases import thorough

import pycudakit as pk

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux keeps these limits"),
    pytest.mark.skipif(bool(pk.build_info()["cpu"]["sanitizers"]), reason="sanitizers need more"),
]

START = f"""
import contextlib, ctypes, io, resource
sys.path.insert(0, {str(Path(system_call_failures.__file__).parents[1])!r})
from helpers import system_call_failures as failures
import numpy.testing
import pycudakit as pk
pk.set_engine("cpu")
known = {{}}

def all_are_right():
    with contextlib.redirect_stdout(io.StringIO()):
        for name, call in failures.OPERATIONS.items():
            got = call()
            np.testing.assert_array_equal(got, known.setdefault(name, got), name, strict=True)

def new_kernel():
    name, x = f"more_{{time.time_ns()}}", np.ones(4, np.int32)
    source = f"__global__ void {{name}}(int *x) {{{{ x[threadIdx.x] += 1; }}}}"
    pk.SourceModule(source).get_function(name)(pk.InOut(x), block=4)
    return x.tolist() == [2] * 4

def in_helper():
    return bool((failures.scaled(isolate=True) == failures.scaled()).all())

def result_or_error(call):
    try:
        return call()
    except pk.errors.Error as error:
        return f"{{type(error).__name__}}: {{error}}"

def limit(name, value):
    kind = getattr(resource, name)
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    return lambda: resource.setrlimit(kind, before)
"""

# The limit counts all processes of a user, except root's.
SYS_ADMIN, SYS_RESOURCE = 1 << 21, 1 << 24
AS_NOBODY = (
    WITHOUT.format(bits=SYS_ADMIN | SYS_RESOURCE)
    + """
if os.getuid() == 0:
    os.setresuid(65534, 0, 0)
"""
)

LIMITS = {
    "threads": (AS_NOBODY, '"RLIMIT_NPROC", 1', "++ does not run", "no helper process starts"),
    "20 files": ("", '"RLIMIT_NOFILE", 20', None, None),
    "no more files": (
        "from pycudakit.kernels.running import worker_pool\nall_are_right()",  # imports are files
        '"RLIMIT_NOFILE", os.dup(2)',
        "no folder for the compiler's files",
        "no helper process starts",
    ),
    "size of files": ("", '"RLIMIT_FSIZE", 0', "no folder for the compiler's files", "bytes to share"),
    "locked memory": ("", '"RLIMIT_MEMLOCK", 0', None, None),
}


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile the kernels to the disk cache before limits are set."""
    python(f"{START}\nall_are_right()")


@pytest.mark.parametrize(
    "limited", ["threads", "no more files", *thorough("20 files", "size of files", "locked memory")]
)
@pytest.mark.parametrize("when", ["later", *thorough("before the first call")])
def test_all_but_new_processes(limited, when):
    """Calls that need files or processes raise in one line, all others work; without the limit all work."""
    before, asked, no_kernel, no_helper = LIMITS[limited]
    code = f"""
{START}
if {when == "later"}:
    all_are_right()
{before}
unlimited = limit({asked})
all_are_right()
meanwhile = result_or_error(new_kernel), result_or_error(in_helper)
unlimited()
os.setuid(os.geteuid())  # a shell, and a compiler that is one, would be nobody
all_are_right()
print("\\n" + json.dumps([meanwhile, result_or_error(new_kernel), result_or_error(in_helper)]))
"""
    # The GPU's driver opens more files than that, for pinned memory.
    output = python(code, env={"CUDA_VISIBLE_DEVICES": ""})
    (kernel, helper), *after = json.loads(output.splitlines()[-1])
    for got, words in ((kernel, no_kernel), (helper, no_helper)):
        assert got is True if words is None else (words in str(got) and "\n" not in got), got
    assert after == [True, True]


@pytest.mark.thorough
def test_address_space():
    """Near the limit of the address space a call raises MemoryError or is right; without it, it is right."""
    code = f"""
{START}
all_are_right()
pk.release()
raised = 0
for more in (2, 8, 32, 128):
    pages = int(open("/proc/self/statm").read().split()[0])
    unlimited = limit("RLIMIT_AS", pages * resource.getpagesize() + (more << 20))
    for name, call in failures.OPERATIONS.items():
        try:
            np.testing.assert_array_equal(call(), known[name], name)
        except MemoryError:
            raised += 1
    for call in (new_kernel, in_helper):
        try:
            assert call()
        except (pk.errors.Error, MemoryError):
            pass
    try:
        pk.add(np.broadcast_to(1.0, 200 << 20), 1.0)
    except MemoryError:
        raised += 1
    unlimited()
    all_are_right()
    pk.release()
print("\\n" + json.dumps([raised, new_kernel(), in_helper()]))
"""
    raised, *after = json.loads(python(code).splitlines()[-1])
    assert raised > 4
    assert after == [True, True]


LARGE = f"""
{START}
def large():
    x = np.zeros(1, np.int32)
    source = "__device__ int room[16 << 20]; __global__ void large(int *x) {{ x[0] = 1 + room[0]; }}"
    pk.SourceModule(source).get_function("large")(pk.InOut(x), block=1)
    return x.tolist()
"""


def test_kernels_that_do_not_fit_in_memory():
    code = f"""
{LARGE}
scaled = failures.scaled()
pages = int(open("/proc/self/statm").read().split()[0])
unlimited = limit("RLIMIT_AS", pages * resource.getpagesize() + (32 << 20))
without = result_or_error(large)
unlimited()
print(json.dumps([without, large(), bool((failures.scaled() == scaled).all())]))
"""
    python(f"{LARGE}\nlarge()")  # compiles
    without, *after = json.loads(python(code))
    assert without.startswith("OutOfMemory: the kernels' binary does not load")
    assert after == [[1], True]


def test_kernels_that_may_not_be_run(mounted):
    """A noexec file system gives the same message."""
    code = f"""
{LARGE}
from pycudakit.kernels.compiling import path_security
path_security.runs_code = lambda folder: True
print(json.dumps(result_or_error(large)))
"""
    output = json.loads(python(code, env={"PYCUDAKIT_CACHE_DIR": str(mounted("noexec"))}))
    assert output.startswith("DeviceError: the kernels' binary does not load")


@pytest.fixture
def mounted(tmp_path):
    """A folder with its own file system, mounted with an option."""
    mounts = []

    def mount(option):
        command = [shutil.which("mount") or "false", "-t", "tmpfs", "-o", option, "tmpfs", str(tmp_path)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("needs to be allowed to mount")
        mounts.append(tmp_path)
        return tmp_path

    yield mount
    for folder in mounts:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def full(mounted):
    """A folder on a full file system."""
    folder = mounted("size=64k")
    with contextlib.suppress(OSError), open(folder / "rest", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return folder


KERNELS = f"{START}\nprint(new_kernel(), new_kernel(), in_helper())"


@pytest.mark.parametrize("names", [["TMPDIR", "XDG_CACHE_HOME"], *thorough(["TMPDIR"], ["XDG_CACHE_HOME"])])
def test_a_full_disk(full, names):
    assert python(KERNELS, env=dict.fromkeys(names, str(full))) == "True True True"


@pytest.mark.thorough
def test_a_home_that_cannot_be_written(tmp_path):
    home = tmp_path / "home"
    home.mkdir(0o500)
    for folder in (home, Path("/proc")):  # root can write to the first
        env = {"HOME": str(folder), "XDG_CACHE_HOME": None, "PYCUDAKIT_CACHE_DIR": None}
        assert python(KERNELS, env=env) == "True True True"


def test_small_stacks(tmp_path):
    """Calls work with thread stacks as small as NumPy needs, for the caller's and the library's threads."""
    file = tmp_path / "works.py"
    file.write_text(
        f"""
import json, os, sys, threading, time
import numpy as np
{START}
threading.stack_size(48 << 10)
def work():
    all_are_right()
    done.append(new_kernel())
done = []
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
all_are_right()
print("\\n" + json.dumps(done))
"""
    )
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, {str(file)!r}])
"""
    assert json.loads(python(code, env={"PYCUDAKIT_THREADS": "4"}).splitlines()[-1]) == [True, True]
