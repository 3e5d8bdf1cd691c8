"""Tests of whole processes: install(), the command, forks, and faults of a GPU."""

import os
import subprocess
import sys

import pytest

import pycudakit as pk

INSTALL = "import pycudakit.pycuda; pycudakit.pycuda.install()\n"


@pytest.fixture
def run(engine, tmp_path):
    """Return a function that runs Python with these arguments, and returns its status and its output."""

    def run(*arguments, status=0):
        environment = {**os.environ, "PYCUDAKIT_ENGINE": engine}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return done

    return run


def test_install(run):
    code = (
        INSTALL
        + """if True:
        pycudakit.pycuda.install()
        import pycuda, pycuda.autoinit, pycuda.driver as drv
        from pycuda import compiler
        import pycudakit.pycuda.driver
        assert pycuda.VERSION == (2026, 1)
        assert drv is pycudakit.pycuda.driver is pycuda.driver
        assert drv.Context.get_current() is pycuda.autoinit.context
        assert pycuda.autoinit.device == drv.Device(0)
        assert drv.__spec__.name == "pycudakit.pycuda.driver"
        try:
            import pycuda.no_such_module
        except ModuleNotFoundError as error:
            print(error)
    """
    )
    assert "no_such_module" in run("-c", code).stdout


def test_modules_that_are_not_imported(run):
    """PyCUDA's modules import each other: a program uses one by an attribute of the package."""
    code = (
        INSTALL + "import pycuda.autoinit\npycuda.tools.clear_context_caches()\nprint(pycuda.no_such_module)"
    )
    done = run("-c", code, status=1)
    assert "AttributeError: module 'pycudakit.pycuda' has no attribute 'no_such_module'" in done.stderr


def test_accesses_beside_the_first_allocation(run, engine):
    if engine != "cpu":
        pytest.skip("on a GPU the driver decides")
    code = (
        INSTALL
        + """if True:
        import pycuda.driver as drv
        from pycuda.compiler import SourceModule
        source = "__global__ void f(int *x) { x[0] = x[-1] + x[-16000] + x[16000]; }"
        SourceModule(source).get_function("f")(drv.mem_alloc(4), block=(1, 1, 1))
    """
    )
    run("-c", code)


def test_install_after_another_pycuda(run, tmp_path):
    (tmp_path / "pycuda.py").write_text("VERSION = (1, 0)\n")
    done = run("-c", "import pycuda\n" + INSTALL, status=1)
    assert "RuntimeError: PyCUDA was imported before" in done.stderr
    done = run("-c", INSTALL + "import pycuda; print(pycuda.VERSION)")
    assert done.stdout == "(2026, 1)\n"


def test_autoprimaryctx(run):
    code = (
        INSTALL
        + "import pycuda.autoprimaryctx as a, pycuda.driver as d\nassert d.Context.get_current() is a.context"
    )
    run("-c", code)


# ---- The command ------------------------------------------------------------------------------------

SCRIPT = """
import sys, __main__, beside
import pycuda.driver as drv
assert __main__.__file__ == __file__
print(__name__, sys.argv, beside.VALUE, drv.Device(0).warp_size)
sys.exit(int(sys.argv[1]))
"""
COMMAND = "-m", "pycudakit", "pycuda"


def test_a_script(run, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 7\n")
    (folder / "train.py").write_text(SCRIPT)
    done = run(*COMMAND, "folder/train.py", "3", "--engine", "-m", status=3)
    assert done.stdout == "__main__ ['folder/train.py', '3', '--engine', '-m'] 7 32\n"


def test_a_module_and_a_text(run, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 8\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    done = run(*COMMAND, "-m", "train", "4", "-c", status=4)
    assert done.stdout == f"__main__ ['{tmp_path / 'train.py'}', '4', '-c'] 8 32\n"
    text = "import sys, pycuda; print(__name__, sys.argv, pycuda.VERSION)"
    assert run(*COMMAND, "-c", text, "5").stdout == "__main__ ['-c', '5'] (2026, 1)\n"


def test_the_engine_of_the_command(run, engine):
    text = "import pycuda.driver as drv; print(drv.Device(0).name())"
    done = run(*COMMAND, "--engine", "cpu", "-c", text)
    assert done.stdout == "pycudakit CPU engine\n"


def test_debug(run):
    text = """if True:
        import pycuda.autoinit, pycuda.driver as drv
        from pycuda.compiler import SourceModule
        f = SourceModule("__global__ void f(int *x) { x[threadIdx.x] = 1; }").get_function("f")
        try:
            f(drv.mem_alloc(8), block=(3, 1, 1))
        except drv.LaunchError as error:
            print(error)
    """
    assert "'x[2]'" in run(*COMMAND, "--engine", "cpu", "--debug", "-c", text).stdout


@pytest.mark.parametrize("index", [10, 20_000, 500_000, 100_000_000])
def test_debug_far_behind_an_allocation(run, index):
    text = (
        "import pycuda.driver as drv, numpy as np; from pycuda.compiler import SourceModule;"
        "f = SourceModule('__global__ void f(float *x, long long i) { x[i] = 1; }').get_function('f');"
        f"f(drv.mem_alloc(40), np.int64({index}), block=(1, 1, 1))"
    )
    done = run(*COMMAND, "--engine", "cpu", "--debug", "-c", text, status=1)
    assert f"'x[{index}]', which has 10 elements of 4 bytes" in done.stderr


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import sys; sys.exit('gone')", 1, "gone"),
        ("raise SystemExit", 0, ""),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("def (:", 1, "SyntaxError"),
    ],
)
def test_ends(run, text, status, message):
    done = run(*COMMAND, "-c", text, status=status)
    assert message in done.stderr
    assert "pycuda_program" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("nowhere.py",), ("--no-such-option", "x.py"), ("--engine", "gpu", "x.py")]
)
def test_wrong_calls(run, arguments):
    run(*COMMAND, *arguments, status=2)


# ---- Forks, settings and faults ---------------------------------------------------------------------


def test_a_forked_child(run):
    code = (
        INSTALL
        + """if True:
        import os
        import numpy as np
        import pycuda.autoinit, pycuda.driver as drv
        from pycuda.compiler import SourceModule
        f = SourceModule("__global__ void f(int *x) { *x += 1; }").get_function("f")
        x = drv.mem_alloc(4)
        f(x, block=(1, 1, 1))
        f(x, block=(1, 1, 1))
        child = os.fork()
        if child == 0:
            count = 0
            for call in (
                lambda: f(x, block=(1, 1, 1)),
                lambda: f.prepared_call((1, 1), (1, 1, 1), x),
                lambda: drv.mem_alloc(4),
                lambda: drv.memcpy_dtoh(np.zeros(1, np.int32), x),
                drv.Context.synchronize,
                x.free,
                drv.Stream,
            ):
                try:
                    call()
                except drv.LogicError as error:
                    count += "forked" in str(error)
            del x, f
            os._exit(count)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert drv.from_device(x, 1, np.int32)[0] == 2
        print("fine")
    """
    )
    assert run("-c", code).stdout == "fine\n"


def test_isolation(run, monkeypatch):
    monkeypatch.setenv("PYCUDAKIT_ISOLATE", "1")
    code = INSTALL + "import pycuda.driver as drv\ndrv.mem_alloc(8)"
    assert "LogicError: PYCUDAKIT_ISOLATE is set" in run("-c", code, status=1).stderr


def test_a_fault_names_the_kernels(run, engine):
    if engine != "cuda":
        pytest.skip("see test_compiler.py")
    code = (
        INSTALL
        + """if True:
        import numpy as np
        import pycuda.autoinit, pycuda.driver as drv
        from pycuda.compiler import SourceModule
        module = SourceModule('''
            __global__ void good(int *x) { *x = 1; }
            __global__ void bad(int *x) { *(int *)8 = 1; }
        ''')
        x = drv.mem_alloc(4)
        module.get_function("good")(x, block=(1, 1, 1))
        drv.Context.synchronize()
        module.get_function("bad")(x, block=(1, 1, 1))
        try:
            drv.Context.synchronize()
        except drv.LaunchError as error:
            print(error)
        try:
            drv.mem_alloc(4)
        except drv.Error as error:
            print(type(error).__name__)
    """
    )
    lines = run("-c", code).stdout.splitlines()
    assert lines[0].startswith("kernel 'bad': ")
    assert "good" not in lines[0]
    assert lines[1] == "RuntimeError"


def test_ctrl_c_stops_a_kernel_on_the_cpu(run, engine):
    if engine != "cpu":
        pytest.skip("a kernel on a GPU cannot be interrupted")
    code = (
        INSTALL
        + """if True:
        import _thread, threading
        import pycuda.autoinit, pycuda.driver as drv
        from pycuda.compiler import SourceModule
        f = SourceModule("__global__ void f(volatile int *x) { while (*x == 0) {} }").get_function("f")
        x = drv.mem_alloc(4)
        for _ in range(2):
            threading.Timer(0.5, _thread.interrupt_main).start()
            try:
                f(x, block=(1, 1, 1))
            except KeyboardInterrupt:
                print("stopped")
        drv.memset_d32(x, 1, 1)
        f(x, block=(1, 1, 1))
    """
    )
    assert run("-c", code).stdout == "stopped\nstopped\n"


def test_nothing_else_imports_the_package():
    code = "import sys, pycudakit as pk; pk.add([1.0], 1.0); print('pycudakit.pycuda' in sys.modules)"
    assert pk.__version__
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
