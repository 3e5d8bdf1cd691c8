"""Numerical programs as people write them: NumPy's results, and replays."""

import numpy as np
import pytest
from helpers.benchmark_modules import load
from helpers.nested import assert_parts, copied

import pycudakit as pk
from pycudakit.fusing.memory import residency

SOLVERS = load("solver_programs").SOLVERS


def assert_close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("body", SOLVERS, ids=lambda body: body.__name__)
def test_calls_have_numpys_results(engine, request, body):
    check(body)
    if request.node.callspec.params["engine"] == "cpu":
        assert "replayed" in pk.last_call().reason


@pytest.mark.parametrize("min_resident_bytes", [1, 1 << 40])
@pytest.mark.parametrize("body", SOLVERS, ids=lambda body: body.__name__)
def test_a_fake_gpu_has_numpys_results(small_gpu, monkeypatch, body, min_resident_bytes):
    """Arrays stay on the GPU from segment to segment, or are copied with each."""
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", min_resident_bytes)
    check(body)


def check(body):
    fused = pk.fuse(body)
    for _ in range(4):
        ours, numpys = copied(SOLVERS[body]), copied(SOLVERS[body])
        assert_parts(fused(*ours), body(*numpys), assert_close)
        assert_parts(ours, numpys, assert_close)
