"""`histogramdd` against NumPy."""

import numpy as np
import pytest
from helpers.strategies import each_with_smoke, outcome

import pycudakit as pk
from pycudakit import errors

POINTS = np.random.default_rng(0).standard_normal((3000, 3))


def compare(*arguments, **keywords):
    ours, numpys = (outcome(xp.histogramdd, *arguments, **keywords) for xp in (pk, np))
    assert ours[0] == numpys[0], (ours, numpys)
    if ours[0] == "error":
        assert type(ours[1]) is type(numpys[1])
        assert str(ours[1]) == str(numpys[1])
        return
    assert ours[2] == numpys[2]
    for got, want in zip((ours[1][0], *ours[1][1]), (numpys[1][0], *numpys[1][1]), strict=True):
        assert got.dtype == want.dtype
        assert np.allclose(got, want, 1e-13, 0)


@pytest.mark.parametrize("dtype", each_with_smoke(["float64", "float32", "int16"]))
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_counts(engine, dimensions, dtype):
    points = (POINTS[:, :dimensions] * 9).astype(dtype)
    compare(points)
    compare(points, 4)
    compare(points, [3, 4, 5][:dimensions])
    compare(points, [np.array([-9.0, 0.0, 2.0, 5.0])] * dimensions)
    compare(points, 5, [(-10, 10), None, (0, 3)][:dimensions])
    compare(points, 5, density=True)
    compare(points, 5, weights=np.arange(3000) / 7)
    compare(list(points.T), 5)
    compare(points[::-2], 3)
    assert (pk.last_call().function, pk.last_call().engine) == ("histogramdd", engine)


def test_the_last_bin_includes_its_right_edge(engine):
    compare(np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 1.0]]), 2)
    compare(np.array([[0.0], [1.0], [2.0]]), [np.array([0.0, 1.0])])


def test_errors(engine):
    compare(POINTS, [1, 2])
    compare(POINTS, 0)
    compare(POINTS, [[1, 2], [2, 1], [1, 2]])
    compare(POINTS, 3, [(0, 1)])
    compare(POINTS, 3, [(1, 0), (0, 1), (0, 1)])
    compare(POINTS, [np.ones((2, 2))] * 3)
    compare(POINTS, 2.5)
    compare(np.full((5, 2), np.nan), 2)
    compare(POINTS, 3, weights=np.ones(7))
    with pytest.raises(errors.Unsupported, match=r"histogramdd: not on the .* engine: it has no points"):
        pk.histogramdd(np.empty((0, 2)), 2)
    with pk.engine("auto"):
        assert pk.histogramdd(np.empty((0, 2)), 2)[0].shape == (2, 2)
