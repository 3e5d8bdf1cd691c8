"""Fault injection: system calls of the CPU engine fail; a call raises or is right, and leaks nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import system_call_failures
from helpers.processes import LIBRARY, failing_calls

import pycudakit as pk

MOST = int(os.environ.get("PYCUDAKIT_TEST_FAILURES", "3"))  # calls of each operation that fail
GROUP = 8


def run(way, most, names):
    """Return the numbers of failures and exceptions of operations, of which so many calls fail."""
    paths = [str(Path(pk.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, system_call_failures.__file__, way, str(most), *names],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "LD_PRELOAD": failing_calls(),
            "PYCUDAKIT_LIBRARY_DIR": str(LIBRARY.parent),
            "PYCUDAKIT_THREADS": "3",
            "PYTHONPATH": os.pathsep.join(paths),
        },
    )
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)
    assert list(tried) == names
    for name, (failures, raised) in tried.items():
        assert 0 < raised <= failures, f"{name}: {raised} of {failures} failures raised"


@pytest.mark.thorough
@pytest.mark.ci
@pytest.mark.cpu
@pytest.mark.parametrize("first", range(0, len(system_call_failures.OPERATIONS), GROUP))
@pytest.mark.parametrize("way", ["warm", "cold"])
def test_operations(way, first):
    run(way, MOST, list(system_call_failures.OPERATIONS)[first : first + GROUP])


@pytest.mark.cpu
def test_threads_that_fail_leave_no_other_waiting():
    """Every call of an operation fails once, also those of a thread on whose part others wait."""
    run("warm", 1000, ["cumsum", "histogram of weights"])
