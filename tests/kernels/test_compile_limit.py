"""The time limit for the host's compiler."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(sys.platform != "linux", reason="a shell's script, and /proc"),
]


def compiled(name):
    with pk.engine("cpu"):
        kernel = pk.SourceModule(f"__global__ void {name}(int *x) {{ x[0] = 61; }}").get_function(name)
        kernel(pk.Out(np.zeros(1, np.int32)), block=1)


def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_compiler_that_does_not_end(tmp_path, monkeypatch):
    """It is killed together with its children, which hold its output open."""
    compiler = tmp_path / "slow"
    version = "case $1 in --version) echo gcc; exit;; esac"
    compiler.write_text(f"#!/bin/sh\n{version}\nsleep 61 & echo $! > {tmp_path}/child\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PYCUDAKIT_COMPILE_LIMIT", "3")  # enough for a shell to start, also on a busy machine
    began = time.monotonic()
    with pytest.raises(pk.errors.CompileError, match=r"\b3 seconds(.|\n)*PYCUDAKIT_COMPILE_LIMIT"):
        compiled("slow")
    assert time.monotonic() - began < 30  # without the limit: 61
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child)


@pytest.mark.parametrize("limit", ["soon", "-1", "nan", "inf"])
def test_a_limit_that_cannot_be(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYCUDAKIT_COMPILE_LIMIT", limit)
    with pytest.raises(pk.errors.InvalidArgument, match=r"PYCUDAKIT_COMPILE_LIMIT is .*; give seconds"):
        compiled("limited")
