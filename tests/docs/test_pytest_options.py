"""tests/conftest.py: in how many processes pytest runs, and which cases."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.thorough_cases import thorough

import pycudakit as pk

TESTS = Path(__file__).resolve().parents[1]
CASES = """
import pytest

def test_always():
    pass

@pytest.mark.thorough
def test_thorough():
    pass
"""


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"test_{name}.py" for name in "ab"]
    for path in paths:
        path.write_text(CASES)
    return paths


def run_pytest(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    package = Path(pk.__file__).parents[1]
    environment.update(PYTHONPATH=f"{TESTS}{os.pathsep}{package}", PYTEST_XDIST_AUTO_NUM_WORKERS="2")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *map(str, arguments)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_several_files_run_in_several_processes(files):
    pytest.importorskip("xdist")
    assert "2 workers [2 items]" in run_pytest(files[0].parent)


@pytest.mark.parametrize("options", [["-n", "0"], *thorough(["-s"])])
def test_options_that_keep_one_process(files, options):
    pytest.importorskip("xdist")
    printed = run_pytest(*files, *options)
    assert "workers" not in printed
    assert "2 passed, 2 deselected" in printed


@pytest.mark.thorough
def test_one_file_runs_in_one_process_with_the_cases_asked_for(files):
    printed = run_pytest(files[0], "--thorough")
    assert "workers" not in printed
    assert "2 passed" in printed
