"""The engines that tests run on, and how long hypothesis searches."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ["PYCUDAKIT_TUNED"] = "0"  # the cost model's tests are of the times that come with the package

import pycudakit as pk
from pycudakit._native import loader

sys.path.insert(0, str(Path(__file__).parent))  # for helpers/; --import-mode=importlib leaves it out
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
    """The name of the engine that the test's calls run on."""
    return request.param


@pytest.fixture(autouse=True)
def _in_engine(request):
    """Run a test that asks for `engine` inside `pk.engine(engine)`."""
    if "engine" not in request.fixturenames:
        yield
        return
    with pk.engine(request.getfixturevalue("engine")):
        yield


@pytest.fixture(params=[name for name in ("cpu", "cuda") if pk.engines()[name].available])
def raw(request):
    """A library whose functions check none of their arguments in Python."""
    opened = ctypes.CDLL(str(loader.find(request.param)))
    opened.pk_evaluate.argtypes = [*(ctypes.c_void_p, ctypes.c_int64) * 3, *[ctypes.c_void_p] * 3]
    return opened


@pytest.fixture(scope="session")
def both_engines():
    """Skip where `cuda` is not tested: what compares it with `cpu` needs no other test of `cpu`."""
    if "cuda" not in ENGINES or not pk.engines()["cpu"]:
        pytest.skip("needs the cpu and the cuda engine")


def pytest_collection_modifyitems(items):
    """Skip what is of the CPU engine alone where that is not tested."""
    if "cpu" not in ENGINES:
        for item in items:
            if item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason="of the cpu engine alone"))


_generators = {}  # of each module: its generators of random numbers, and what they are before the first test


def _generators_of(module):
    found = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
    return [(generator.bit_generator, generator.bit_generator.state) for generator in found]


def pytest_collection_finish(session):
    """Have no search for what is garbage, or is prepared, go through twenty thousand tests."""
    helpers = [module for name, module in sys.modules.items() if name.startswith("helpers.")]
    shared = [each for module in helpers for each in _generators_of(module)]
    for module in {item.module for item in session.items}:
        _generators[module] = [*shared, *_generators_of(module)]
    gc.collect()
    settle()


def pytest_runtest_setup(item):
    """Have a test draw the same numbers whichever tests ran before it in its process."""
    for generator, state in _generators[item.module]:
        generator.state = state
