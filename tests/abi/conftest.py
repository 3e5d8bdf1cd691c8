"""What tests of the contract share."""

import pytest
from helpers.residency import Plan


@pytest.fixture
def plan(engine):
    return Plan(engine)
