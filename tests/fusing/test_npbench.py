"""NPBench programs, fused, give NumPy's results."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "npbench_programs.py"
if not FILE.exists():
    pytest.skip("benchmarks/ is not beside the tests", allow_module_level=True)


def _npbench():
    sys.path.insert(0, str(FILE.parent))  # for the modules that the script imports
    try:
        spec = importlib.util.spec_from_file_location("npbench_programs", FILE)
        module = sys.modules["npbench_programs"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FILE.parent))
    return module


PROGRAMS = _npbench().PROGRAMS


def compare(got, want):
    got, want = (value if isinstance(value, (tuple, list)) else [value] for value in (got, want))
    for mine, theirs in zip(got, want, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, (np.ndarray, np.generic)):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            precision = 1e-4 if theirs.dtype == np.float32 else 1e-9
            largest = np.max(np.abs(theirs), initial=1)
            np.testing.assert_allclose(mine, theirs, rtol=precision, atol=precision * largest)
        else:
            assert mine == theirs


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program(engine, name):
    program = PROGRAMS[name]
    ours, numpys = program.initialize("quick"), program.initialize("quick")
    compare(pk.fuse(program.function)(*ours), program.function(*numpys))
    compare(list(ours), list(numpys))
