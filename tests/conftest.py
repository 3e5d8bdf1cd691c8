"""Shared fixtures: the engine axis, the raw library, Hypothesis profiles, and reproducible random numbers."""

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ["PYCUDAKIT_TUNED"] = "0"  # tests of the cost model use its default constants
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pycudakit as pk
from pycudakit._native import loader

sys.path.insert(0, str(Path(__file__).parent))  # for helpers/, since --import-mode=importlib does not add it
from helpers.fake_library import settle

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("quick", max_examples=20, derandomize=True, database=None, **_COMMON)
settings.register_profile("few", max_examples=8, derandomize=True, database=None, **_COMMON)
settings.register_profile("long", max_examples=2000, **_COMMON)
settings.register_profile("medium", max_examples=400, database=None, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _engines():
    named = os.environ.get("PYCUDAKIT_TEST_ENGINES")
    if named:
        return named.split(",")
    return ["cpu", "cuda"] if pk.engines()["cuda"].available else ["cpu"]


ENGINES = _engines()


@pytest.fixture(params=ENGINES, scope="session")
def engine(request):
    """The engine of the test's calls; a parameter of each test that uses it."""
    return request.param


@pytest.fixture(autouse=True)
def _in_engine(request):
    """Run tests that use the fixture `engine` inside `pk.engine(engine)`."""
    if "engine" not in request.fixturenames:
        yield
        return
    with pk.engine(request.getfixturevalue("engine")):
        yield


@pytest.fixture(params=[name for name in ("cpu", "cuda") if pk.engines()[name].available])
def raw(request):
    """A library without argument checks in Python."""
    opened = ctypes.CDLL(str(loader.find(request.param)))
    opened.pk_evaluate.argtypes = [*(ctypes.c_void_p, ctypes.c_int64) * 3, *[ctypes.c_void_p] * 3]
    return opened


@pytest.fixture(scope="session")
def both_engines():
    """Skip a comparison of `cuda` with `cpu` where `cuda` is not tested."""
    if "cuda" not in ENGINES or not pk.engines()["cpu"]:
        pytest.skip("needs the cpu and the cuda engine")


def pytest_addoption(parser):
    """Add the option that runs all cases."""
    parser.addoption("--thorough", action="store_true", help="run the cases marked `thorough`, too")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run several files in as many processes as there are processors, if pytest-xdist is installed.

    `-n`, `--pdb`, `-s` and `--collect-only` keep their meaning: `-n 0` runs all in this process.
    """
    option = config.option
    if getattr(option, "numprocesses", 0) is not None or hasattr(config, "workerinput"):
        return
    if option.usepdb or option.collectonly or option.capture == "no" or option.markexpr == "alone":
        return
    paths = {Path(each.partition("::")[0]) for each in config.args}
    if len(paths) == 1 and paths.pop().is_file():
        return
    processes = config.hook.pytest_xdist_auto_num_workers(config=config)
    if "cuda" in ENGINES:  # a process and those that it starts take some 4 GiB of the GPU
        processes = min([processes, *(device.memory // 2**32 for device in pk.devices())])
    if processes > 1:
        option.numprocesses, option.tx = processes, ["popen"] * processes
        option.dist = "worksteal"  # tests of one module stay together, and share compiled kernels
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_modifyitems(config, items):
    """Leave out thorough cases, unless asked for; skip tests of the CPU engine where that is not tested."""
    if not (config.option.thorough or "thorough" in config.option.markexpr):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    if "cuda" in ENGINES and "PYTEST_XDIST_WORKER" in os.environ:
        for item in items:
            if item.get_closest_marker("alone"):
                item.add_marker(pytest.mark.skip(reason="needs the GPU for itself: run pytest -m alone"))
    if "cpu" not in ENGINES:
        for item in items:
            if item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason="of the cpu engine alone"))


_generators = {}  # for each module: its random generators, and their initial states


def _generators_of(module):
    found = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
    return [(generator.bit_generator, generator.bit_generator.state) for generator in found]


def pytest_collection_finish(session):
    """Freeze the garbage collector, so that collections do not visit the objects of 20,000 tests."""
    helpers = [module for name, module in sys.modules.items() if name.startswith("helpers.")]
    shared = [each for module in helpers for each in _generators_of(module)]
    for module in {item.module for item in session.items}:
        _generators[module] = [*shared, *_generators_of(module)]
    gc.collect()
    settle()


def pytest_runtest_setup(item):
    """Reset the module's random generators, so that a test does not depend on those before it."""
    for generator, state in _generators[item.module]:
        generator.state = state
