"""Helpers for tests of sorting."""

from hypothesis import strategies as st

from helpers.strategies import build

LONG = 70_001  # elements: long enough that all threads sort one row


def draw_axis(data, array):
    return data.draw(st.sampled_from([None, *range(-array.ndim, array.ndim)]), "axis")


def mixed(dtype, size):
    """Return values with many duplicates and all special values."""
    array = build(dtype, (size,), "special", 3)
    array[::3] = build(dtype, (len(array[::3]),), "ordinary", 4)
    return array
