"""Copies and comparison of nested values."""

import numpy as np


def copied(value):
    """Return a value with copies of its arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(map(copied, value)) if isinstance(value, (list, tuple)) else value


def assert_parts(got, want, compare):
    """Assert that tuples, lists and dicts have the same form; compare the other parts by a function."""
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = [*got.values()], [*want.values()]
    if isinstance(want, (list, tuple)):
        assert type(got) is type(want)
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            assert_parts(mine, theirs, compare)
    else:
        compare(got, want)


def assert_near(got, want):
    """Assert that values have the same form, types and dtypes, and nearly the same numbers."""

    def are_near(one, other):
        assert type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_allclose(one, other, rtol=1e-12)

    assert_parts(got, want, are_near)
