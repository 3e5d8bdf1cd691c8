"""Dask arrays whose blocks are compared with the whole."""

import dask
import dask.array as da
import numpy as np
import pytest

CUTS = {1: [50, 17, 3], 2: [(12, 9), (5, 9), (12, 4), (3, 2)], 3: [(4, 5, 6), (2, 3, 4)]}


@pytest.fixture(autouse=True)
def in_this_thread(request):
    """Have blocks computed by the engine of a test, which threads of a pool do not inherit."""
    if "engine" in request.fixturenames:
        with dask.config.set(scheduler="synchronous"):
            yield
    else:
        yield


def cut(array, which):
    """Return an array as one of Dask's, in one of some ways."""
    cuts = CUTS[array.ndim]
    return da.from_array(array, chunks=cuts[which % len(cuts)])


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
