"""Bodies that fuse to several kernels over the same rows, for tests of row tiling."""

import numpy as np
import pytest

import pycudakit as pk
from helpers import fake_gpu
from helpers.strategies import assert_values, build
from pycudakit._runtime import context
from pycudakit.fusing.memory import residency
from pycudakit.fusing.schedule import executor, tile_rows


def cut(monkeypatch, size=1 << 14):
    monkeypatch.setattr(executor.Executor, "min_reduced_bytes", 0)
    for name in ("_MIN_TILES_PER_THREAD", "_MIN_BYTES", "_MIN_BYTES_PER_THREAD"):
        monkeypatch.setattr(tile_rows, name, 0)
    for name in ("_TILE_BYTES", "_MIN_TILE_BYTES", "_DEVICE_TILE_BYTES"):
        monkeypatch.setattr(tile_rows, name, size)
    monkeypatch.setattr(tile_rows, "_pays_off", lambda _: True)


def whole(function, *arguments):
    """Return the result of a function without row tiling."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tile_rows.RowTiler, "_run", lambda *_: False)
        patched.setattr(tile_rows.RowTiler, "depends_on_row_reductions", lambda *_: False)
        return pk.fuse(function)(*arguments)


def same(ours, theirs):
    """Compare bit by bit, NaN equal to NaN; under `auto`, NumPy may compute small kernels to other bits."""
    assert type(ours) is type(theirs)
    if isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif context.current_engine() == "auto" and ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-3 if ours.dtype == np.float16 else 1e-5)
    else:
        assert ours.strides == theirs.strides
        assert_values(np.asarray(ours), np.asarray(theirs))


def blocks(function, *arguments):
    return [each.blocks for each in pk.fuse(function).explain(*arguments).passes]


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * 1.5 + 0.5


def standardise(x):
    return (x - x.mean(axis=1)[:, None]) / x.std(axis=1)[:, None]


def unit(x):
    return x / np.sqrt((x * x).sum(axis=1))[:, None]


def most_likely(x):
    return softmax(x).argmax(axis=1)


def several(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    total = powers.sum(axis=1)
    return powers, powers / total[:, None], total, np.log(total)


def of_others(x):
    y = (x - x.mean()) / (x.std() + np.arange(x.shape[1], dtype=x.dtype))
    return y - y.min(axis=1, keepdims=True) * y.max(axis=1, keepdims=True)


def nan_left_out(x):
    return (x - np.nanmean(x, axis=1, keepdims=True)) / np.nanstd(x, axis=1, keepdims=True)


def expanded(x):
    least, length = np.expand_dims(x.min(axis=1), 1), x.max(axis=1).reshape(-1, 1)
    return (x - least) / (length - least)


def two_arguments(x, y):
    z = x * np.cos(y)
    return z - z.mean(axis=1, keepdims=True), (z * z).sum(axis=1)


def nan_of_shares(x):
    return np.nanmax(softmax(x), axis=1)


def sums_of_columns(x):
    return softmax(x).sum(axis=0), (x - x.mean(axis=1, keepdims=True)).std(axis=0)


BODIES = [softmax, layer_norm, standardise, unit, most_likely, several, of_others, expanded]


def into_itself(x, y):
    x[...] = softmax(x)


def into_another(x, y):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.divide(powers, powers.sum(axis=1, keepdims=True), out=y)


def in_place(x, y):
    x -= x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x * x).sum(axis=1))[:, None] + 1


def some_columns(x, y):
    x[:, 10:] = softmax(x[:, 10:])
    y[:, :50] = softmax(x)[:, :50] + y[:, 50:100]


def some_rows(x, y):
    x[20:] = softmax(x[20:]) * y[20:, :1]


def from_old_values(x, y):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    total = powers.sum(axis=1)
    x[...] = powers / total[:, None]
    y[:, 0] = total
    return powers, total, x * 2


def of_a_view_beside(x, y):
    least = x[:, 1:].min(axis=1, keepdims=True)
    x[:, 1:] = np.exp(x[:, :-1] - least) / np.exp(x[:, 1:] - least).sum(axis=1, keepdims=True)


def of_other_rows_of_it(x, y):
    x[...] = softmax(x - x[::-1])
    y[1:] = softmax(y[:-1])


def of_one_row_of_it(x, y):
    x[...] = softmax(x * x[3])


def written_twice(x, y):
    z = softmax(x)
    x[...] = z
    x[...] = softmax(x + z)
    y[...] = z
    return z


def summed_later(x, y):
    z = softmax(x)
    total = z.sum(axis=1)
    x[...] = z
    return total


def of_another_type(x, y):
    x[...] = softmax(x.astype(np.float64 if x.dtype == np.float32 else np.float32))


WRITTEN = [into_itself, into_another, in_place, some_columns, some_rows, from_old_values, of_a_view_beside]
WRITTEN += [of_other_rows_of_it, of_one_row_of_it, written_twice, summed_later, of_another_type]
CUT = [into_itself, into_another, in_place, some_columns, some_rows, from_old_values, written_twice]


def two(dtype="float32", layout="C"):
    return [build(dtype, (203, 130), "small", seed, [layout]) for seed in (10, 11)]


def same_as_whole(body, layout="C", dtype="float32"):
    ours, theirs, numpys = two(dtype, layout), two(dtype, layout), two(dtype, layout)
    got, want, right = pk.fuse(body)(*ours), whole(body, *theirs), body(*numpys)
    got, want, right = (each if type(each) is tuple else (each,) for each in (got, want, right))
    for one, other, third in zip((*got, *ours), (*want, *theirs), (*right, *numpys), strict=True):
        if third is not None:
            same(one, other)
            np.testing.assert_allclose(one, third, rtol=1e-4, atol=1e-5)


def put_gpus(monkeypatch, count=1, size=1 << 14, budget=40_000):
    """Install fake GPUs with little memory."""
    gpu = fake_gpu.put(monkeypatch, count)
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", 1)
    monkeypatch.setattr(residency, "budget", lambda: budget)
    cut(monkeypatch, size)
    return gpu
