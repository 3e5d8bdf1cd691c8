"""Sorts of long rows report their progress pass by pass."""

import time

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._runtime import progress

pytestmark = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")


@pytest.mark.cpu
@pytest.mark.parametrize("function", [pk.sort, pk.argsort, pk.unique])
def test_progress_between_the_passes(monkeypatch, function):
    monkeypatch.setattr(progress, "FIRST_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "REPORT_INTERVAL", 0.0)
    size, seconds, told = 1 << 20, 0.0, []
    while seconds < 0.4 and size < 1 << 28:  # some reports, which are 50 ms apart
        size *= 2
        x = np.random.default_rng(1).standard_normal(size)
        told.clear()
        began = time.perf_counter()
        with pk.engine("cpu", progress=lambda *at: told.append(at)):
            function(x)
        seconds = time.perf_counter() - began
    assert {total for _, total in told} == {size}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert done[-1] == size
    assert len({each for each in done if 0 < each < size}) >= 2
