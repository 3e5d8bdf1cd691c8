"""Dask arrays in several chunkings, and comparison of results by blocks with those of whole arrays."""

import dask
import dask.array as da
import numpy as np
import pytest

CUTS = {1: [50, 17, 3], 2: [(12, 9), (5, 9), (12, 4), (3, 2)], 3: [(4, 5, 6), (2, 3, 4)]}


@pytest.fixture(autouse=True)
def in_this_thread(request):
    """Compute blocks in the thread of the test: threads of a pool do not inherit its engine."""
    if "engine" in request.fixturenames:
        with dask.config.set(scheduler="synchronous"):
            yield
    else:
        yield


def cut(array, which):
    """Return a Dask array of the values, chunked in one of several ways."""
    cuts = CUTS[array.ndim]
    return da.from_array(array, chunks=cuts[which % len(cuts)])


def same(lazy, whole):
    """Check that a lazy array has the expected bits, and the right dtype and shape before it is computed."""
    assert isinstance(lazy, da.Array)
    found = lazy.compute()
    np.testing.assert_array_equal(found, whole, strict=True)
    if np.asarray(whole).dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(whole))


def described(lazy, found):
    """Check that Dask knew the dtype and the shape, as far as they can be known."""
    assert lazy.dtype == found.dtype
    assert lazy.ndim == found.ndim
    assert all(a == b for a, b in zip(lazy.shape, found.shape, strict=True) if not np.isnan(a))
