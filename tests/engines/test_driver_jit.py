"""A GPU without machine code in the library: the driver's JIT compilation is mentioned in `last_call()`."""

import io
import sys

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.fake_library import forget_entries

import pycudakit as pk
from pycudakit._cli import common, info
from pycudakit._native import driver_jit
from pycudakit._runtime import context

RELEASED = "sm_75 sm_80 sm_90 sm_100 sm_120 compute_120"


@pytest.mark.parametrize(
    ("architectures", "capability", "runs"),
    [
        ("compute_75", (7, 5), False),
        ("compute_75", (9, 0), False),
        ("sm_90 compute_90", (9, 0), True),
        ("sm_90 compute_90", (10, 0), False),
        (RELEASED, (8, 0), True),
        (RELEASED, (8, 6), True),
        (RELEASED, (8, 9), True),
        (RELEASED, (10, 3), True),
        (RELEASED, (11, 0), False),
        (RELEASED, (12, 1), True),
        ("sm_86", (8, 0), False),
        ("sm_90a", (9, 0), False),  # which is compiled for one of them alone
    ],
)
def test_architectures_that_run_without_compilation(architectures, capability, runs):
    assert driver_jit.runs_on(architectures, capability) == runs


@pytest.fixture
def _compiling(monkeypatch):
    """Fake a GPU whose driver has to compile kernels, before the first call of any entry."""
    fake_gpu.put(monkeypatch)
    monkeypatch.setattr(driver_jit, "has_native_code", lambda _device: False)
    monkeypatch.setattr(driver_jit, "_used_base_names", set(driver_jit._used_base_names))
    driver_jit._used_base_names.intersection_update({"pk_run_kernels"})
    with pk.engine("cuda"):
        yield
    monkeypatch.undo()
    forget_entries()


compiling = pytest.mark.usefixtures("_compiling")
CALLS = {
    "evaluate": lambda x: pk.add(x, 1),
    "reduce": pk.max,
    "scan": pk.cumsum,
    "sort": pk.sort,
    "random": lambda x: pk.random.default_rng(1).random(len(x)),
}


def waited():
    return driver_jit.JIT_REASON in pk.last_call().reason


@compiling
@pytest.mark.parametrize("name", CALLS)
def test_the_first_call_of_a_kind_tells(name):
    x = np.arange(1000.0)
    CALLS[name](x)
    assert pk.last_call().engine == "cuda"
    assert pk.last_call().reason == f"{context.REASON_ENGINE_REQUESTED}; {driver_jit.JIT_REASON}"
    CALLS[name](x)
    assert not waited()
    CALLS[name](x.astype(np.float32))
    assert not waited()


@compiling
def test_functions_of_one_kind_are_compiled_together():
    pk.add(np.ones(9), 1)
    assert waited()
    pk.exp(np.ones(9))
    assert not waited()
    pk.sort(np.ones(9))
    assert waited()
    with pk.engine("cpu"):
        pk.cumsum(np.ones(9))
    assert not waited()


@compiling
def test_a_display_tells_before_the_call_begins(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    told = []
    with pk.engine(progress=lambda *at: told.append(at)):
        pk.cumsum(np.ones(9))
    assert (told, sys.stderr.getvalue()) == ([], "")
    with pk.engine(progress=True):
        pk.sort(np.ones(9))
        assert sys.stderr.getvalue() == f"\r\x1b[Ksort: {driver_jit.JIT_PROGRESS}\r\x1b[K"
        pk.sort(np.ones(9))
    assert sys.stderr.getvalue().count(driver_jit.JIT_PROGRESS) == 1


@pytest.mark.parametrize("has_code", [False, True])
def test_commands_tell(monkeypatch, has_code):
    gpu = pk._native.hardware.Device(0, "A GPU", (9, 0), 2**34, 100, 5, 16)
    monkeypatch.setattr(driver_jit, "has_native_code", lambda _device: has_code)
    told = info._device(gpu)
    lines = list(info._devices({"devices": [told]}))
    assert told["compiled"] == has_code
    assert any("compiles kernels at first use" in line for line in lines) != has_code
    engines = dict(pk.engines(), cuda=pk.EngineStatus(True, "1 device"))
    monkeypatch.setattr(pk, "engines", lambda: engines)
    said = []
    assert "cuda" in common.engines(said.append)
    assert ["compiles kernels at first use" in line for line in said] == [True] * (not has_code)
