"""Cases of a parametrised test that run only with --thorough."""

import pytest


def thorough(*values):
    """Mark values as thorough: cases that repeat others, on another axis, or take long."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]
