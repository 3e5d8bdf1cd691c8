"""Fixtures of the tests of the C ABI."""

import pytest
from helpers.residency import Plan


@pytest.fixture
def plan(engine):
    return Plan(engine)
