"""Dask arrays whose blocks are compared with the whole."""

import dask.array as da
import numpy as np


def same(lazy, whole):
    """Check that an array to come is what is known, bit by bit, and says so before it is computed."""
    assert isinstance(lazy, da.Array)
    found = lazy.compute()
    np.testing.assert_array_equal(found, whole, strict=True)
    if np.asarray(whole).dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(whole))


def described(lazy, found):
    """Check that Dask knew the type and the shape, as far as that can be known."""
    assert lazy.dtype == found.dtype
    assert lazy.ndim == found.ndim
    assert all(a == b for a, b in zip(lazy.shape, found.shape, strict=True) if not np.isnan(a))
