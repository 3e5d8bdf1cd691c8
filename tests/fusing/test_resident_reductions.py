"""Reductions along short rows on the device: their results stay resident for later kernels."""

import numpy as np
import pytest
from helpers import fake_gpu, row_tiles

import pycudakit as pk

ROWS, LENGTH = 100_000 if pk.engines()["cuda"] else 12_000, 7  # on a GPU, masks of rows are resident, too
NOTES = 20_000  # the most bytes that kernels transfer beside arrays
EXACT = ["any", "all", "count_nonzero", "argmin", "argmax"]
OTHERS = ["sum", "prod", "min", "max", "mean", "var", "std", "ptp", "nansum", "nanmax", "nanmean"]
CASES = [(name, dtype) for name in [*EXACT, *OTHERS, "nanargmin"] for dtype in ("float32", "int64")]


def values(dtype, axis, is_odd):
    x = np.random.default_rng(5).integers(-9, 9, (ROWS, LENGTH)).astype(dtype)
    x[7] = 0
    if is_odd and dtype == "float32":
        x[3, 4], x[11, 0] = np.nan, np.inf
    return np.ascontiguousarray(x if axis == 1 else x.T)


def body(name, axis, x, is_computed):
    """Reduce, and use the result twice."""
    found = getattr(np, name)(x * 2 - 1 if is_computed else x, axis=axis)
    return np.where(np.isnan(found), 1, found) * 3, np.cumsum(np.not_equal(found, 2))


def compare(name, dtype, axis, is_computed, is_odd):
    x = values(dtype, axis, is_odd)
    fused = pk.fuse(lambda x: body(name, axis, x, is_computed))
    with np.errstate(all="ignore"):
        wants, gots = body(name, axis, x, is_computed), fused(x)
    for got, want in zip(gots, wants, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5)
    # Results and counts that may cause a warning are read on the host, those of `mean` twice; the indices of
    # NaN reductions always are.
    looks = 4 * (is_odd and dtype == "float32" and name in OTHERS) or 2 * (name == "nanargmin")
    return x.nbytes, sum(got.nbytes for got in gots), looks * 8 * ROWS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_computed", [False, True], ids=["plain", "computed"])
@pytest.mark.parametrize("is_odd", [False, True], ids=["finite", "odd"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_transfers_of_row_reductions(engine, name, dtype, axis, is_computed, is_odd):
    up, down, looks = compare(name, dtype, axis, is_computed, is_odd)
    call = pk.last_call()
    if engine == "cuda":
        assert up <= call.bytes_up <= up + NOTES
        assert call.bytes_down <= down + looks + NOTES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_computed", [False, True], ids=["plain", "computed"])
@pytest.mark.parametrize("is_odd", [False, True], ids=["finite", "odd"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_stale_host_values_are_not_read(name, dtype, axis, is_computed, is_odd, monkeypatch):
    """A fake GPU hides stale values."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    gpu = fake_gpu.put(monkeypatch)
    with pk.engine("cuda"):
        _, down, looks = compare(name, dtype, axis, is_computed, is_odd)
    assert gpu.bytes_down <= down + looks


@pytest.mark.parametrize("axis", [0, 1])
def test_warnings_of_resident_reductions(engine, axis):
    x = values("float32", axis, True)

    @pk.fuse
    def spread(x):
        total = np.sum(np.exp(x * 100), axis=axis)
        return total, total > 1

    with pytest.warns(RuntimeWarning, match="overflow"):
        total, _ = spread(x)
    assert np.isinf(total).any()


@pytest.mark.parametrize("budget", [0, 10_000, 25_000, 45_000, 60_000, 10**6])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_average_where_some_sums_have_no_place(axis, layout, budget, monkeypatch):
    """The sums of the weights may be on the device, and those of the products on the host."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    x = np.random.default_rng(3).normal(size=(40, 64)).astype(np.float64, order=layout)[:, None]

    def average(x):
        return np.average(x, axis=axis, weights=np.abs(x) + 1)

    row_tiles.put_gpus(monkeypatch, budget=budget)
    with pk.engine("cuda"):
        np.testing.assert_allclose(pk.fuse(average)(x), average(x), rtol=1e-12)


VIEWS = {
    "columns": lambda y: y[:, 3:],
    "one column": lambda y: y[:, 5],
    "rows": lambda y: y[7:1500],
    "steps": lambda y: y[::3, ::2],
    "reversed": lambda y: y[::-1, ::-1],
    "transposed": lambda y: y.T,
    "columns of transposed": lambda y: y.T[2:, 1:],
    "few columns": lambda y: y[:, 2:7],
    "three axes": lambda y: y.reshape(-1, 5, 20)[:, 1:4, 2:],
    "windows": lambda y: np.lib.stride_tricks.sliding_window_view(y[:, :6], 4, axis=0),
    "broadcast": lambda y: np.broadcast_to(y[:, :1], (2100, 9)),
}
IN_PLACE = ["sum", "prod", "max", "argmin", "argmax", "var", "any"]


def reduce_view(view, name, axis):
    def reduce(x):
        found = VIEWS[view](x * 1)
        mask = VIEWS[view](x > 1)
        masked = np.sum(found, axis=axis, where=mask) if name == "sum" else 0
        return getattr(np, name)(found, axis=axis), masked

    return reduce


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_reduced_in_place(engine, view, name, axis, dtype):
    """The third call is replayed. Engines have the same bits."""
    x = np.random.default_rng(8).integers(1, 9, (2100, 100)).astype(dtype)
    x = x / np.asarray(8, dtype) if dtype[0] == "f" and name != "prod" else x
    body = reduce_view(view, name, axis)
    fused = pk.fuse(body)
    with np.errstate(all="ignore"):
        want = body(x)
        for _ in range(3):
            for got, each in zip(fused(x), want, strict=True):
                assert np.asarray(got).dtype == np.asarray(each).dtype
                np.testing.assert_allclose(got, each, rtol=1e-4 if dtype == "f4" else 1e-12)
        if engine == "auto":  # which may leave it to NumPy
            return
        with pk.engine("cpu"):
            by_cpu = pk.fuse(body)(x)
    assert [np.asarray(got).tobytes() for got in fused(x)] == [np.asarray(got).tobytes() for got in by_cpu]
