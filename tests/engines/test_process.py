"""Tests that need a new process: environment variables, import, loading, forks."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from helpers.processes import LIBRARY, failure, python
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import loader

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

# ---- The environment --------------------------------------------------------------------------------

ENGINE_OF = "import pycudakit as pk\npk.sqrt(np.ones(300_000)); print(pk.last_call().engine)"


def test_engine_variable_is_weakest():
    for name in ("cpu", "numpy"):
        assert python(ENGINE_OF, env={"PYCUDAKIT_ENGINE": name}) == name
    code = ENGINE_OF.replace("\n", "\npk.set_engine('cpu')\n", 1)
    assert python(code, env={"PYCUDAKIT_ENGINE": "numpy"}) == "cpu"
    code = (
        "import pycudakit as pk\nwith pk.engine('cpu'):\n  pk.sqrt(np.ones(9)); print(pk.last_call().engine)"
    )
    assert python(code, env={"PYCUDAKIT_ENGINE": "numpy"}) == "cpu"
    assert python(ENGINE_OF, env={"PYCUDAKIT_ENGINE": ""}) == python(ENGINE_OF)


def test_misspelt_engine_variable():
    """Import works, every call reports the error, and a choice made in the program takes precedence."""
    for call in ("pk.sqrt(np.ones(300_000))", "pk.sqrt(np.ones(3))", "pk.add(1, 2)", "pk.add(np.ones(3), 1)"):
        error, message = failure(call, env={"PYCUDAKIT_ENGINE": "gpu"})
        assert error is errors.InvalidArgument
        assert "PYCUDAKIT_ENGINE is 'gpu'" in message
    assert (
        python(ENGINE_OF.replace("\n", "\npk.set_engine('cpu')\n", 1), env={"PYCUDAKIT_ENGINE": "gpu"})
        == "cpu"
    )


@pytest.mark.parametrize(
    "value", ["0", "two", "99999999999999999999", *thorough("-1", "1.5", "1025", "3x", " ")]
)
def test_bad_thread_count(value):
    error, message = failure("with pk.engine('cpu'): pk.sqrt(np.ones(9))", env={"PYCUDAKIT_THREADS": value})
    assert error is errors.InvalidArgument
    assert f"PYCUDAKIT_THREADS is '{value}'" in message
    reason = python("import pycudakit as pk; print(pk.engines()['cpu'])", env={"PYCUDAKIT_THREADS": value})
    assert "available=False" in reason
    assert "PYCUDAKIT_THREADS" in reason


def test_thread_count():
    code = "import pycudakit as pk; print(pk.engines()['cpu'].reason)"
    assert python(code, env={"PYCUDAKIT_THREADS": "3"}).startswith("3 threads")
    assert python(code, env={"PYCUDAKIT_THREADS": "1"}).startswith("1 thread,")
    if hasattr(os, "sched_getaffinity"):
        usable = int(python(code, env={"PYCUDAKIT_THREADS": None}).split()[0])
        assert 1 <= usable <= len(os.sched_getaffinity(0))
        one = "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n" + code
        assert python(one, env={"PYCUDAKIT_THREADS": ""}).startswith("1 thread,")


def test_threads_are_woken_for_long_calls():
    """On a busy machine threads may help too late, or a short call may look long: one success suffices."""
    code = """
import pycudakit as pk

def threads(function, dtype, size):
    array, found = np.full(size, 3, dtype), set()
    for _ in range(200):
        function(array, array)
        found.add(pk.last_call().threads)
    return sorted(found)

pk.set_engine("cpu")
works = (pk.power, "i8", 60_000), (pk.add, "f4", 60_000), (pk.power, "i8", 500)
print(json.dumps([threads(*work) for work in works]))
"""
    long, short, few = json.loads(python(code, env={"PYCUDAKIT_THREADS": "4"}))
    assert 1 < max(long) <= 4
    assert min(short) == 1
    assert few == [1]
    assert json.loads(python(code, env={"PYCUDAKIT_THREADS": "1"})) == [[1], [1], [1]]


@pytest.mark.parametrize("value", ["sse9", "AVX2", "avx2 ", "neon", "native"])
def test_bad_instruction_set(value):
    error, message = failure("with pk.engine('cpu'): pk.sqrt(np.ones(9))", env={"PYCUDAKIT_ISA": value})
    assert error is errors.InvalidArgument
    assert f"PYCUDAKIT_ISA is '{value}'" in message
    assert "baseline" in message


# ---- Import -----------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_import_opens_no_library():
    maps = python("import pycudakit\nprint(open('/proc/self/maps').read())")
    for library in ("libcuda", "libnv", "libpycudakit"):
        assert library not in maps
    mapped = python("import pycudakit as pk\npk.engines(); print(open('/proc/self/maps').read())")
    assert "libpycudakit_cpu" in mapped


def test_import_needs_no_library(tmp_path):
    env = {"PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}
    assert python("import pycudakit as pk; print(pk.devices(), pk.build_info())", env=env) == "[] {}"
    code = "import pycudakit as pk\nwith pk.engine('numpy'): print(pk.add(np.ones(2), 1))"
    assert python(code, env=env) == "[2. 2.]"
    for call in (
        "pk.add(np.ones(300_000), 1.0)",
        "pk.add(np.ones((3, 3)), [1, 2, 3])",
        "pk.add(np.ones(3), 1.0)",
    ):
        code = f"import pycudakit as pk\nprint({call}.flat[0], pk.last_call().engine)"
        assert python(code, env=env) == "2.0 numpy", "auto has NumPy left"


@pytest.mark.alone
@pytest.mark.skipif(SANITIZED, reason="sanitizers slow everything down")
def test_import_is_quick(tmp_path):
    """Import takes at most half of the time of starting Python and importing NumPy (CPU time)."""
    code = "before = time.thread_time(); import pycudakit; print(before, time.thread_time() - before)"
    env = {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    python(code, env=env)  # compiles
    tries = []
    for _ in range(20):
        tries.append([float(seconds) for seconds in python(code, env=env).split()])
        before, ours = map(min, zip(*tries, strict=True))
        if ours < before / 2:
            return
    pytest.fail(f"{ours:.3f} s, where Python and NumPy take {before:.3f}, at best")


# ---- Lazy imports of families -----------------------------------------------------------------------

RIGHT = """
assert callable(pk.histogram) and type(pk.linalg) is type(sys)
for name in pk.__all__:
    assert getattr(pk, name) is vars(pk)[name], name
from pycudakit import bincount, histogram, linalg, sum
assert (histogram, linalg, sum) == (pk.histogram, pk.linalg, pk.sum)
assert pk.kernels is sys.modules["pycudakit.kernels"] and pk.SourceModule is pk.kernels.SourceModule
print(pk.histogram([1, 2, 1], 2)[0], pk.linalg.norm([3, 4]))
"""
FIRST = [
    "from pycudakit import *",
    "from pycudakit import histogram",
    "from pycudakit import linalg",
    "from pycudakit._families.histogram.histogram import bincount",
    "from pycudakit.linalg import norm",
    "import pycudakit.linalg",
    "import pycudakit.random as numbers",
    "import importlib; importlib.import_module('pycudakit._families.histogram.histogram')",
    "import pycudakit._families.select.quantiles, pycudakit._families.reduce.nan_functions",
    "import pickle; pickle.loads(b'cpycudakit\\nhistogram\\n.')",
    "import doctest, pycudakit.linalg; doctest.testmod(sys.modules['pycudakit.linalg'])",
    "import pycudakit; pycudakit.linalg",
    "import pycudakit; pycudakit.histogram",
    "import pycudakit; pycudakit.kernels",
    "import pycudakit; dir(pycudakit)",
    "import pycudakit; pycudakit.bincount",
]


@pytest.mark.parametrize("first", [*FIRST[:3], FIRST[9], *thorough(*FIRST[3:9], *FIRST[10:])])
def test_whatever_is_imported_first(first):
    assert python(f"{first}\nimport pycudakit as pk\n{RIGHT}") == "[2 1] 5.0"


def test_families_wait_until_they_are_asked_for():
    code = """
import pycudakit as pk
def loaded():
    return sorted(name.partition(".")[2] for name in sys.modules if name.startswith("pycudakit."))
before = loaded()
assert set(pk.__all__) <= set(dir(pk)) and loaded() == before
pk.add(np.ones(3), 1)
assert loaded() == before and "sum" not in vars(pk)
pk.sum
new = [name for name in loaded() if name not in before and ".reduce." not in name]
print(new, "sum" in vars(pk), "sort" in vars(pk), hasattr(pk, "sums"))
"""
    assert python(code) == "['_families.reduce', '_runtime.public_function'] True False False"
    error = python("import pycudakit as pk\ntry: pk.sums\nexcept AttributeError as e: print(e)")
    assert error == "module 'pycudakit' has no attribute 'sums': did you mean 'sum'?"


def test_fused_call_leaves_numpys_lazy_submodules_alone():
    code = """
import pycudakit as pk
pk.fuse(lambda x: x + 1)(np.ones(9))
print([name for name in ("f2py", "testing", "polynomial") if f"numpy.{name}" in sys.modules])
"""
    assert python(code) == "[]"


def test_families_in_many_threads_at_once():
    code = (
        """
import random, pycudakit as pk
sys.setswitchinterval(1e-6)
barrier, wrong = threading.Barrier(16), []
def ask(seed):
    names = sorted(pk.__all__)
    random.Random(seed).shuffle(names)
    families = ["histogram.histogram", "reduce.nan_functions", "select.quantiles"]
    modules = ["pycudakit.linalg", *(f"pycudakit._families.{family}" for family in families)]
    barrier.wait()
    try:
        if seed % 3 == 0:
            __import__(modules[seed // 3 % 4])
        for name in names:
            thing = getattr(pk, name)
            if type(thing) is type(sys) and name not in ("errors", "image", "linalg", "random"):
                wrong.append(name)
    except BaseException as error:
        wrong.append(repr(error))
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
"""
        + RIGHT
    )
    for _ in range(3):
        assert python(code) == "[2 1] 5.0"


def test_settings_of_a_program_stay():
    code = """
import pycudakit as pk
pk.sum = "mine"
print(pk.sum, pk.max([1, 2]), pk.sum)
del pk.sum
print(pk.sum([1, 2]))
"""
    assert python(code) == "mine 2 mine\n3"


def test_modules_imported_by_name_are_in_lower_layers():
    """Modules that are imported by name, unseen by import-linter, are in the same layer or below."""
    layers = re.search(r"\nlayers = \[(.*?)\]", PROJECT.read_text(encoding="utf-8"), re.DOTALL)
    floors = [re.findall(r"\w+", floor) for floor in re.findall(r'"([^"]+)"', layers[1])]
    floor_of = {"__init__": -1, **{room: floor for floor, rooms in enumerate(floors) for room in rooms}}
    root = Path(pk.__file__).parent
    named = 0
    for path in root.rglob("*.py"):
        room = path.relative_to(root).parts[0].removesuffix(".py")
        for place in re.findall(r'import_module\(f?"pycudakit\.(\w+)', path.read_text(encoding="utf-8")):
            named += 1
            assert floor_of[place] >= floor_of[room], f"{path} has pycudakit.{place} imported"
    assert named


# ---- Loading ----------------------------------------------------------------------------------------


def test_a_missing_library_tells_every_path(tmp_path):
    for engine in ("cpu", "cuda"):
        error, message = failure(
            f"with pk.engine('{engine}'): pk.add(np.ones(9), 1)", env={"PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}
        )
        assert error is errors.NoDevice
        assert str(tmp_path / loader.file_name(engine)) in message
        assert len(message.strip().splitlines()) == 1
        assert message.count(loader.file_name(engine)) == 2, "PYCUDAKIT_LIBRARY_DIR alone is searched"


def test_candidates(monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_LIBRARY_DIR", str(tmp_path))
    assert list(loader.candidates("cpu")) == [str(tmp_path / loader.file_name("cpu"))]
    monkeypatch.delenv("PYCUDAKIT_LIBRARY_DIR")
    monkeypatch.setattr(pk, "__path__", [str(tmp_path / "a"), str(tmp_path / "b")])
    paths = [*map(Path, loader.candidates("cpu"))]
    assert paths[:2] == [tmp_path / d / "lib" / loader.file_name("cpu") for d in ("a", "b")]
    (tmp_path / "b" / "lib").mkdir(parents=True)
    paths[1].write_text("")
    assert loader.find("cpu") == str(paths[1])
    (tmp_path / "a" / "lib").mkdir(parents=True)
    paths[0].write_text("")
    assert loader.find("cpu") == str(paths[0])


def test_files_that_are_no_library(tmp_path):
    env = {"PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}
    path = tmp_path / loader.file_name("cpu")
    path.write_text("not a library")
    error, message = failure("with pk.engine('cpu'): pk.add(np.ones(9), 1)", env=env)
    assert error is errors.NoDevice
    assert message.startswith(f"{path} does not open")
    _ctypes = pytest.importorskip("_ctypes")
    if not hasattr(_ctypes, "__file__"):
        pytest.skip("needs a shared library that is not ours")
    shutil.copy(_ctypes.__file__, path)
    error, message = failure("with pk.engine('cpu'): pk.add(np.ones(9), 1)", env=env)
    assert error is errors.NoDevice
    assert message == f"{path} is not a library of pycudakit"


def test_elsewhere_than_the_source_tree(tmp_path):
    """A relative PYCUDAKIT_LIBRARY_DIR and spaces in paths."""
    folder = tmp_path / "with space"
    folder.mkdir()
    shutil.copy(LIBRARY, folder)
    code = "import pycudakit as pk\nwith pk.engine('cpu'): print(pk.add(np.ones(2), 1))"
    assert python(code, env={"PYCUDAKIT_LIBRARY_DIR": "with space"}, cwd=tmp_path) == "[2. 2.]"
    path = os.environ.get("PYTHONPATH", "")
    assert Path(path).is_absolute() or not path


# ---- Forks ------------------------------------------------------------------------------------------

FORK = """
import pycudakit as pk
a = np.linspace(1, 2, 1_000_000)
pk.set_engine({engine!r})
before = pk.sqrt(a)
{busy}
child = os.fork()
if child == 0:
    try:
        right = (pk.sqrt(a) == np.sqrt(a)).all() and (pk.add(a, 1) == a + 1).all()
        os._exit(0 if right else 1)
    except pk.errors.Error as error:
        os._exit(2)
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.01)
else:
    os.kill(child, 9)
    sys.exit("the child hung")
assert (pk.sqrt(a) == before).all()
print(os.waitstatus_to_exitcode(status))
{stop}
"""
BUSY = """
stopping = threading.Event()
def work():
    while not stopping.is_set():
        pk.sqrt(a)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.05)
"""
STOP = "stopping.set()\nfor thread in threads: thread.join()"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("busy", [False, True])
def test_fork(engine, busy):
    if busy and SANITIZED:
        pytest.skip("ASan's own locks may be locked in the child")
    code = FORK.format(engine=engine, busy=BUSY if busy else "", stop=STOP if busy else "")
    status = python(code, env={"PYCUDAKIT_THREADS": "3"})
    assert status in (("0",) if engine == "cpu" else ("0", "2"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_multiprocessing_pool():
    code = """
import multiprocessing, pycudakit as pk
def work(n):
    return float(pk.add(np.full(200_000, n), 1).sum())
pk.set_engine("cpu")
work(1)
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(work, range(6)) == [200_000.0 * (n + 1) for n in range(6)])
"""
    assert python(code) == "True"


def test_exit_while_threads_compute():
    """A process ends quickly, and without messages, while daemon threads are in native calls."""
    code = """
import pycudakit as pk
pk.set_engine("cpu")
def work():
    while True:
        pk.exp(np.ones(1_000_000))
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    done = python(code, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# ---- Memory that the CUDA library holds -------------------------------------------------------------

needs_cuda = pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")


def test_nothing_is_kept_without_a_gpu():
    code = "import pycudakit as pk\npk.add(np.ones(2_000_000), 1); pk.release(); print(pk.memory_info())"
    empty = python(code, env={"PYCUDAKIT_LIBRARY_DIR": str(LIBRARY.parent), "CUDA_VISIBLE_DEVICES": ""})
    budget = pk.memory_info().results_budget
    assert empty == str(pk.Memory(0, 0, 0, 0, 0, 0, 0, budget, 0, 0))


STREAMED = """
import pycudakit as pk
pk.set_engine("cuda")
a, b = np.random.default_rng(0).random((2, 3_000_000))
with np.errstate(all="ignore"):
    right = (pk.add(a, b) == a + b).all() and (pk.add(a[::-1], b) == a[::-1] + b).all()
    mapped = np.memmap(sys.argv[-1], np.float64, "w+", shape=a.shape)
    pk.multiply(a, b, out=mapped)
    right = right and (mapped == a * b).all() and (pk.sqrt(mapped) == np.sqrt(a * b)).all()
kept = pk.memory_info()
pk.release()
freed = pk.memory_info()
again = (pk.subtract(a, b) == a - b).all()
print(json.dumps([bool(right), bool(again), list(vars(kept).values()), list(vars(freed).values())]))
"""


@needs_cuda
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("device", "pinned"), [("8M", "4M"), ("20M", "64M"), ("1G", str(9 << 20))])
def test_budgets_are_kept(device, pinned, copied, tmp_path):
    """Arrays far larger than the budgets work: ordinary, reversed and memory-mapped."""
    env = {"PYCUDAKIT_DEVICE_MEMORY": device, "PYCUDAKIT_PINNED_MEMORY": pinned, "PYCUDAKIT_THREADS": "4"}
    if copied:
        env["PYCUDAKIT_STREAM_WALK_BOTH_WAYS"] = "0"
    code = STREAMED.replace("sys.argv[-1]", repr(str(tmp_path / "mapped")))
    right, again, kept, freed = json.loads(python(code, env=env))
    assert right
    assert again
    units = {"M": 1 << 20, "G": 1 << 30}
    wanted = [int(t[:-1]) * units[t[-1]] if t[-1] in units else int(t) for t in (device, pinned)]
    assert [kept[1], kept[3]] == wanted
    assert (0 < kept[0] <= kept[1]) if copied else kept[0] == 0
    assert 0 < kept[2] <= kept[3]
    assert [freed[0], freed[2]] == [0, 0]


@needs_cuda
@pytest.mark.parametrize("variable", ["PYCUDAKIT_DEVICE_MEMORY", "PYCUDAKIT_PINNED_MEMORY"])
@pytest.mark.parametrize("value", ["much", "12Q", "1M", "-1G", "nan", "4MM"])
def test_budgets_that_cannot_be(variable, value):
    kind, message = failure("pk.set_engine('cuda'); pk.add(np.ones(9), 1)", env={variable: value})
    assert kind is errors.InvalidArgument
    assert f"{variable} is '{value}'; set it to bytes" in message


SHARED = """
import pycudakit as pk
x = np.random.default_rng(0).random(4_000_000)
expression = "+".join(f"sin(x * {k})" for k in range(30))
begin, lanes = threading.Barrier(2), []

def call():
    with pk.engine("cpu"), pk.profile() as p:
        begin.wait()
        pk.evaluate(expression, {"x": x})
    lanes.append(len(set(p.calls[0].spans["lane"].tolist())))

threads = [threading.Thread(target=call) for _ in "ab"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(min(lanes))
"""


@pytest.mark.cpu
def test_calls_at_the_same_time_share_the_threads():
    assert int(python(SHARED, env={"PYCUDAKIT_THREADS": "4"})) > 1
