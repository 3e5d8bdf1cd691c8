"""With isolate=True, static objects of a source are constructed in the helper process only."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import python

import pycudakit as pk
from pycudakit import InOut, SourceModule, errors
from pycudakit.kernels.running import worker_pool

pytestmark = [pytest.mark.cpu, pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")]

CRASHES = """
struct Crashes { Crashes() { *(volatile int *)8 = 1; } };
static Crashes crashes;
"""
ENDLESS = """
struct Endless { Endless() { volatile int one = 1; while (one) {} } };
static Endless endless;
"""
TWICE = "__global__ void twice(int *a) { a[threadIdx.x] *= 2; }\n"


@pytest.fixture(autouse=True)
def _on_cpu():
    with pk.engine("cpu"):
        yield


def call(source, **keywords):
    a = np.arange(4, dtype=np.int32)
    SourceModule(source).get_function("twice")(InOut(a), block=(4, 1, 1), **keywords)
    return a.tolist()


def launch(source, **keywords):
    a = np.arange(4, dtype=np.int32)
    SourceModule(source + "\n#define MORE\n").get_function("twice").launch(4, InOut(a), **keywords)
    return a.tolist()


def program(source, **keywords):
    p = pk.Program("twices")
    a = p.inout("a", 4, np.int32)
    p.launch(SourceModule(source + "\n#define YET_MORE\n").get_function("twice"), a, block=(4, 1, 1))
    return p(a=np.arange(4, dtype=np.int32), **keywords)["a"].tolist()


WAYS = pytest.mark.parametrize("way", [call, launch, program])


@WAYS
@pytest.mark.parametrize("keywords", [{"isolate": True}, {"timeout": 30}])
def test_one_that_crashes(way, keywords):
    for _ in range(2):
        with pytest.raises(errors.DeviceError, match=r"twices?: the helper process") as caught:
            way(CRASHES + TWICE, **keywords)
    if not pk.build_info()["cpu"]["sanitizers"]:
        assert "SIGSEGV" in str(caught.value)
    assert way(TWICE, **keywords) == [0, 2, 4, 6]


@WAYS
def test_one_that_does_not_end(way):
    way(TWICE, timeout=30)  # starts a helper
    began = time.monotonic()
    with pytest.raises(errors.DeviceError, match=r"twices?: had not ended after timeout=0\.5 seconds"):
        way(ENDLESS + TWICE, timeout=0.5)
    assert time.monotonic() - began < 30
    assert way(TWICE, timeout=30) == [0, 2, 4, 6]


def test_one_of_a_ready_made_kernel():
    total = pk.ReductionKernel(np.int64, "0", "a+b", "x[i]", "const int *x", preamble=CRASHES)
    with pytest.raises(errors.DeviceError, match="the helper process"):
        total(np.ones(10, np.int32), isolate=True)


def test_the_environment_asks_for_a_helper():
    code = f"""
import pycudakit as pk
pk.set_engine("cpu")
a = np.arange(4, dtype=np.int32)
try:
    pk.SourceModule({CRASHES + TWICE!r}).get_function("twice")(pk.InOut(a), block=(4, 1, 1))
except pk.errors.DeviceError as error:
    print("the helper process" in str(error), a.tolist())
"""
    assert python(code, env={"PYCUDAKIT_ISOLATE": "1"}) == "True [0, 1, 2, 3]"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_isolated_kernels_are_loaded_in_the_helper_only():
    def images(process):
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        return {line.split()[-1] for line in lines if line.split()[1] == "r-xp"}

    worker_pool.release()
    before = images("self")
    source = TWICE + "// loaded by the helper alone\n"
    assert call(source, isolate=True) == [0, 2, 4, 6]
    (helper,) = (helper._process.pid for helper in worker_pool._workers._all)
    assert images("self") == before
    assert call(source) == [0, 2, 4, 6]
    (image,) = images("self") - before
    assert image in images(helper)
