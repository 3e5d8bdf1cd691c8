"""NPBench programs, fused, give NumPy's results."""

import numpy as np
import pytest
from helpers.benchmark_modules import load

import pycudakit as pk

PROGRAMS = load("npbench_programs").PROGRAMS


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program_called_again(engine, name):
    """On other values. From the third call on, most programs are replayed."""
    program = PROGRAMS[name]
    fused = pk.fuse(program.function)
    for turn in range(4):
        ours, numpys = program.initialize("quick"), program.initialize("quick")
        for argument in (*ours, *numpys):
            if isinstance(argument, np.ndarray) and argument.dtype.kind in "fc":
                argument[...] = argument * (1 + turn / 64)
        compare(fused(*ours), program.function(*numpys))
        compare(list(ours), list(numpys))
