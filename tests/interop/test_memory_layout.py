"""Strides, extents and overlaps of arrays, as NumPy has them."""

import itertools

import numpy as np
import pytest

from pycudakit._interop.memory_layout import contiguous_strides, extent, overlap

WHOLE = np.zeros((6, 5, 4), np.int16)
VIEWS = [
    WHOLE,
    WHOLE[:2],
    WHOLE[3:],
    WHOLE[::-1],
    WHOLE[::2, ::-1],
    WHOLE.T,
    WHOLE[2, :, 1],
    WHOLE[5, 4, 3:],
    np.broadcast_to(WHOLE[0, 0, :1], (3, 4)),
]


@pytest.mark.parametrize("array", VIEWS, ids=lambda array: f"{array.shape}-{array.strides}")
def test_extents(array):
    found = extent(array.shape, array.strides, array.itemsize, array.ctypes.data)
    assert found == np.lib.array_utils.byte_bounds(array)
    begin, end = extent(array.shape, array.strides, array.itemsize)
    assert (begin + array.ctypes.data, end + array.ctypes.data) == found


def test_empty_arrays_have_no_bytes():
    empty = WHOLE[:, 2:2]
    assert extent(empty.shape, empty.strides, empty.itemsize, 4096) == (0, 0)
    assert not overlap((0, 0), extent(WHOLE.shape, WHOLE.strides, 2, WHOLE.ctypes.data))


def test_overlaps():
    extents = [extent(each.shape, each.strides, each.itemsize, each.ctypes.data) for each in VIEWS]
    for (a, one), (b, other) in itertools.product(zip(VIEWS, extents, strict=True), repeat=2):
        assert overlap(one, other) == np.may_share_memory(a, b)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 5), (4, 1, 1)])
def test_contiguous_strides(shape):
    assert contiguous_strides(shape, 8) == np.empty(shape).strides
