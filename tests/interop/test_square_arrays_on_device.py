"""Device arrays whose axes have the same length, so that mixed-up axes do not show in the shape."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pycudakit as pk

X = np.random.default_rng(4).integers(-50, 50, (64, 64)).astype(np.float32)
CUBE = np.random.default_rng(5).random((20, 20, 20))
CALLS = {
    "sort": lambda lib, a, axis: lib.sort(a, axis=axis),
    "argsort": lambda lib, a, axis: lib.argsort(a, axis=axis, kind="stable"),
    "partition": lambda lib, a, axis: lib.max(lib.partition(a, 7, axis=axis), axis=axis),
    "cumsum": lambda lib, a, axis: lib.cumsum(a, axis=axis),
    "cumprod": lambda lib, a, axis: lib.cumprod(lib.sign(a), axis=axis),
    "sum": lambda lib, a, axis: lib.sum(a, axis=axis),
    "argmax": lambda lib, a, axis: lib.argmax(a, axis=axis),
    "nanmean": lambda lib, a, axis: lib.nanmean(a, axis=axis),
    "median": lambda lib, a, axis: lib.median(a, axis=axis),
    "quantile": lambda lib, a, axis: lib.quantile(a, 0.3, axis=axis),
    "diff": lambda lib, a, axis: lib.diff(a, axis=axis),
    "gradient": lambda lib, a, axis: lib.gradient(a, axis=axis),
    "trapezoid": lambda lib, a, axis: lib.trapezoid(a, axis=axis),
    "unique": lambda lib, a, axis: lib.unique(a, axis=axis),
    "flip": lambda lib, a, axis: lib.flip(a, axis=axis),
    "roll": lambda lib, a, axis: lib.roll(a, 3, axis=axis),
    "take": lambda lib, a, axis: lib.take(a, [3, 1, 2], axis=axis),
    "take_along_axis": lambda lib, a, axis: lib.take_along_axis(
        a, lib.argsort(a, axis=axis, kind="stable"), axis=axis
    ),
    "ptp": lambda lib, a, axis: lib.ptp(a, axis=axis),
    "std": lambda lib, a, axis: lib.std(a, axis=axis, keepdims=True),
    "norm": lambda lib, a, axis: lib.linalg.norm(a, axis=axis),
    "fused": lambda lib, a, axis: (
        np.exp(a / 50 - a.max(axis=axis, keepdims=True))
        if lib is np
        else pk.fuse(lambda x: np.exp(x / 50 - x.max(axis=axis, keepdims=True)))(a)
    ),
}


@pytest.mark.parametrize("array", [X, CUBE, X[::2, ::2], X.T], ids=["square", "cube", "steps", "turned"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_along_each_axis(cupy_library, name, array):
    a = cupy_library.up(X) if array.base is X else cupy_library.up(array)
    if array.base is X:
        a = a[::2, ::2] if array.shape[0] == 32 else a.T
    for axis in range(array.ndim):
        want = CALLS[name](np, array, axis)
        for _ in range(3):  # the first call, the captured one, and the replay
            got = CALLS[name](pk, a, axis)
            got = np.asarray(cupy_library.down(got) if hasattr(got, "shape") else got)
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            else:
                assert_array_equal(got, want)
