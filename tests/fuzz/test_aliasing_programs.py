"""Random programs that reach memory past the trace: `aliasing` explains them, and runs longer by hand."""

import os
import random
import time

import pytest
from fuzz import aliasing

SECONDS = float(os.environ.get("PYCUDAKIT_FUZZ_SECONDS", "20"))


def test_random_programs_see_numpys_values(capsys):
    seed = random.randrange(2**32)
    with capsys.disabled():
        print(f"\naliasing: seed {seed}")  # noqa: T201
    count, found = aliasing.search(SECONDS, seed)
    assert found is None, found
    assert count > 5


# Programs that found a difference once.
SEEDS = [9, 25, 36, 43, 61]


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_differed_once(seed):
    assert aliasing.difference(seed) is None


def test_without_the_flush_a_difference_is_found(monkeypatch):
    monkeypatch.setattr("pycudakit.fusing.schedule.scheduler.Scheduler.flush", lambda _: None)
    began = time.monotonic()
    _, found = aliasing.search(20, 1)
    assert found is not None
    assert time.monotonic() - began < 20
