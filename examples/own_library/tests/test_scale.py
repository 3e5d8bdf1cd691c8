"""own_library.scale, with NumPy as the oracle."""

import ctypes

import numpy as np
import own_library
import pytest


@pytest.mark.parametrize("shape", [(), (0,), (7,), (300, 5000)])
def test_equals_numpy(shape):
    x = np.random.default_rng(1).random(shape, np.float32)
    got = own_library.scale(x, 1.5)
    np.testing.assert_array_equal(got, x * np.float32(1.5), strict=True)


def test_any_layout_and_type():
    x = np.arange(24.0).reshape(4, 6)
    np.testing.assert_array_equal(
        own_library.scale(x[::2, ::-1].T, 3), (x[::2, ::-1].T * 3).astype(np.float32)
    )


def test_argument_types_are_strict():
    entry, out = own_library.LIBRARY.own_scale, np.zeros(3, np.float32)
    for wrong in (np.zeros(3), np.zeros(6, np.float32)[::2]):
        with pytest.raises(ctypes.ArgumentError):
            entry(wrong, out, 3, 1.0)
