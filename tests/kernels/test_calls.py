"""Calls of kernels: engine choice, output, concurrent calls, checked kernels, lost GPUs."""

import sys

import numpy as np
import pytest
from helpers.threads import run_in_threads
from helpers.user_kernels import ADD, module, operands, python

import pycudakit as pk
from pycudakit import In, Out, SourceModule, errors
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.running import execute


@pytest.fixture
def add(engine):
    return module(ADD).get_function("add")


# ---- Engines ----------------------------------------------------------------------------------------


def test_numpy_runs_no_kernels():
    with pk.engine("cpu"):
        function = module(ADD).get_function("add")
    with pk.engine("numpy"):
        with pytest.raises(errors.Unsupported, match="'numpy' runs no kernels"):
            SourceModule(ADD)
        with pytest.raises(errors.Unsupported, match="add: the engine 'numpy'"):
            function(*operands(4), 4, block=4)


def test_auto_says_why():
    with pk.engine("auto"):
        a, b, c = operands(4)
        SourceModule(ADD).get_function("add")(a, b, c, 4, block=4)
    call = pk.last_call()
    assert call.function == "add"
    assert call.engine == ("cuda" if pk.engines()["cuda"] and not cache.why_not_cuda() else "cpu")
    assert call.reason.startswith("auto: ")
    assert c.tolist() == (a + b).tolist()


def test_last_call(engine, add):
    a, b, c = operands(1000)
    add(a, b, Out(c), 1000, block=256, grid=4)
    call = pk.last_call()
    assert (call.function, call.engine, call.reason) == ("add", engine, "the requested engine")
    assert 0 < call.seconds < 10
    assert (call.bytes_up, call.bytes_down) == ((8000, 4000) if engine == "cuda" else (0, 0))


def test_profiles_see_calls(engine, add):
    a, b, c = operands(1000)
    with pk.profile() as profile:
        add(a, b, Out(c), 1000, block=256, grid=4)
        add.launch(1000, a, b, Out(c), 1000)
    assert [call.function for call in profile.calls] == ["add", "add"]


def test_a_gpu_that_ran_out_of_memory_under_auto(monkeypatch):
    """If the GPU has no memory before any kernel ran, the CPU engine runs them."""
    with pk.engine("cpu"):
        function = SourceModule(ADD).get_function("add")
        function.prepared("cpu")
    pretended = execute.EngineChoice("add", "cuda", "auto: pretended", automatic=True)
    monkeypatch.setattr(function, "_plan", lambda: pretended)
    prepared = function.prepared
    monkeypatch.setattr(
        function, "prepared", lambda engine, *_, **__: _Full() if engine == "cuda" else prepared("cpu")
    )
    monkeypatch.setattr("pycudakit._runtime.context.current_devices", lambda: (0,))
    a, b, c = operands(4)
    with pytest.warns(RuntimeWarning, match="the CPU engine took over: no memory"):
        function(a, b, Out(c), 4, block=4)
    assert c.tolist() == (a + b).tolist()
    assert (pk.last_call().engine, pk.last_call().reason) == ("cpu", "auto: the CUDA engine failed")
    with pytest.raises(errors.OutOfMemory, match="no memory"):
        function(a, b, c, 4, block=4)  # a part of c may have been downloaded


class _Full:
    is_plain = True

    @property
    def slots(self):
        return module(ADD).get_function("add").prepared("cpu").slots

    def run(self, *_):
        raise errors.OutOfMemory("no memory")


# ---- Printing ---------------------------------------------------------------------------------------

PRINT = r"""
#include <stdio.h>
__global__ void say(int n, const float *x) {
    if (threadIdx.x == 0) printf("%d: %.2f\n", n, x[0]);
}
__global__ void lines(int n) {
    if (threadIdx.x == 0) for (int i = 0; i < n; ++i) printf("%09d\n", i);
}
"""


def test_printf(engine, capsys):
    found = module(PRINT)
    for n in range(3):
        found.get_function("say")(n, np.float32([n / 4]), block=32)
    assert capsys.readouterr().out == "0: 0.00\n1: 0.25\n2: 0.50\n"


def test_much_that_is_printed_is_cut(engine, capsys):
    module(PRINT).get_function("lines")(200_000, block=32)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[:50_000] == [f"{i:09}" for i in range(50_000)]
    assert len(out) < 4 << 20
    assert len(lines) < 200_000
    assert not lines[-1].isdigit(), "it is said that there was more"


# ---- Many calls -------------------------------------------------------------------------------------


def test_threads(engine):
    function = module(ADD).get_function("add")
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with pk.engine(engine):
            for _ in range(20):
                n = int(rng.integers(1, 3000))
                a, b = rng.random((2, n), np.float32)
                c = np.empty(n, np.float32)
                function(In(a), In(b), Out(c), np.int32(n), block=256, grid=pk.grid_for(n, 256))
                if (c != a + b).any():
                    wrong.append(n)

    run_in_threads(work, range(8))
    assert not wrong


def test_calls_leave_nothing_behind(engine, add):
    """The memory that calls keep for reuse is bounded, and refers to no array."""
    a, b, c = operands(100)
    before = [sys.getrefcount(x) for x in (a, b, c)]
    for _ in range(50):
        add(In(a), b, Out(c), 100, block=128)
        add(In(a[::2]), b[::2], Out(c[::2]), 50, block=128)
    assert [sys.getrefcount(x) for x in (a, b, c)] == before


def test_a_call_after_one_that_failed(engine, add):
    a, b, c = operands(64)
    for _ in range(3):
        with pytest.raises(errors.InvalidArgument):
            add(a, b, Out(c), 64, block=2000)
        add(a, b, Out(c), 64, block=64)
        np.testing.assert_array_equal(c, a + b)


# ---- Checked kernels --------------------------------------------------------------------------------


def test_an_access_outside_in_debug_mode():
    text = "__global__ void f(int *data, int i) { data[i + threadIdx.x] = 1; }"
    with pk.engine("cpu"):
        made = SourceModule(text, debug=True)
        x = np.zeros(8, np.int32)
        made.get_function("f")(x, 4, block=4)
        assert x.tolist() == [0] * 4 + [1] * 4
        with pytest.raises(errors.DeviceError) as caught:
            made.get_function("f")(x, 6, block=4)
    for word in ("f", "data", "8"):
        assert word in str(caught.value)


def test_a_block_that_never_ends_in_debug_mode(monkeypatch):
    text = "__global__ void endless(volatile int *x) { while (x[0] == 0) { } }"
    with pk.engine("cpu"):
        endless = SourceModule(text, debug=True).get_function("endless")
        monkeypatch.setenv("PYCUDAKIT_BLOCK_LIMIT", "0.2")
        with pytest.raises(errors.DeviceError, match="endless"):
            endless(np.zeros(1, np.int32), block=1)
        monkeypatch.setenv("PYCUDAKIT_BLOCK_LIMIT", "soon")
        with pytest.raises(errors.InvalidArgument, match="PYCUDAKIT_BLOCK_LIMIT is 'soon'"):
            endless(np.ones(1, np.int32), block=1)


# ---- Helper processes, and GPUs that are lost --------------------------------------------------------


def test_the_environment_isolates(engine, add, monkeypatch):
    monkeypatch.setenv("PYCUDAKIT_ISOLATE", "1")
    a, b, c = operands(100)
    [out] = add(In(a[::-1]), b, Out(c[::1]), 100, block=128, out_args=True)
    np.testing.assert_array_equal(out, a[::-1] + b)
    assert pk.last_call().function == "add"
    monkeypatch.setenv("PYCUDAKIT_ISOLATE", "0")
    assert not execute.isolates(None, None)


def test_after_a_fault_on_a_gpu():
    if not pk.engines()["cuda"]:
        pytest.skip("needs a GPU")
    code = f"""
import numpy as np, pycudakit as pk
a, b, c = np.ones(8, "f4"), np.ones(8, "f4"), np.zeros(8, "f4")
wild = pk.SourceModule("__global__ void wild(int **x) {{ *(int *)8 = 1; }}").get_function("wild")
add = pk.SourceModule({ADD!r}).get_function("add")
try:
    wild(None, block=1)
except pk.errors.DeviceError as error:
    print("wild" in str(error), "isolate=True" in str(error))
add(a, b, c, 8, block=8)
print(pk.last_call().engine, pk.last_call().reason.startswith("auto: no kernels on a GPU: "), c.sum())
try:
    with pk.engine("cuda"):
        add(a, b, c, 8, block=8)
except (pk.errors.DeviceError, pk.errors.NoDevice):
    print("strict")
"""
    done = python(code)
    assert (done.stdout, done.stderr) == ("True True\ncpu True 16.0\nstrict\n", "")
