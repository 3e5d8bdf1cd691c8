"""What tests of sorting share."""

from hypothesis import strategies as st

from helpers.strategies import build

LONG = 70_001  # elements of a row that all threads sort


def draw_axis(data, array):
    return data.draw(st.sampled_from([None, *range(-array.ndim, array.ndim)]), "axis")


def mixed(dtype, size):
    """Return values with many equal ones and all special ones."""
    array = build(dtype, (size,), "special", 3)
    array[::3] = build(dtype, (len(array[::3]),), "ordinary", 4)
    return array
