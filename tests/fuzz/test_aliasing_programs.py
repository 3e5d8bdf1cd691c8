"""Random programs, fused and in NumPy: `aliasing` and `constructs` explain them, and run longer by hand."""

import os
import time

import pytest
from fuzz import aliasing, constructs
from fuzz.searching import search

PROGRAMS = int(os.environ.get("PYCUDAKIT_FUZZ_PROGRAMS", "200"))


@pytest.mark.parametrize(
    "seeds",
    [range(1, 51), pytest.param(range(51, PROGRAMS + 1), marks=[pytest.mark.thorough, pytest.mark.ci])],
)
@pytest.mark.parametrize("programs", [aliasing, constructs], ids=["aliasing", "constructs"])
def test_random_programs_see_numpys_values(programs, seeds):
    for seed in seeds:
        assert programs.difference(seed) is None


# Programs that found a difference once.
SEEDS = [9, 25, 36, 43, 61, 8000036147, 8000070435]


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_differed_once(seed):
    assert aliasing.difference(seed) is None


@pytest.mark.parametrize("programs", [aliasing, constructs], ids=["aliasing", "constructs"])
def test_without_the_flush_a_difference_is_found(monkeypatch, programs):
    monkeypatch.setattr("pycudakit.fusing.trace.traced_values.TracedValues.flush", lambda _: None)
    began = time.monotonic()
    _, found = search(programs.difference, 20, 1)
    assert found is not None
    assert time.monotonic() - began < 20
