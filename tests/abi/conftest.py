"""Fixtures of the tests of the C ABI."""

import pytest
from helpers.residency import Scope


@pytest.fixture
def scope(engine):
    return Scope(engine)
