"""`pad` in all modes, compared with NumPy."""

import numpy as np
import pytest
from helpers.numpy_versions import since
from helpers.strategies import assert_same_outcome, each_with_smoke, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors

MODES = [
    "constant",
    "edge",
    "linear_ramp",
    "maximum",
    "mean",
    "median",
    "minimum",
    "reflect",
    "symmetric",
    "wrap",
]


def compare(*arguments, ulp=0, **keywords):
    ours, numpys = (outcome(kit.pad, *arguments, **keywords) for kit in (pk, np))
    assert_same_outcome(ours, numpys, ulp, context=f"{arguments[1:]} {keywords}")


@pytest.mark.parametrize("mode", each_with_smoke(MODES, "reflect"))
@given(data=st.data())
def test_modes(engine, mode, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(["int8", "uint16", "int64", "float32", "float64"]))
    array = np.random.default_rng(len(shape)).integers(0, 99, shape).astype(dtype)
    widths = [data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))) for _ in shape]
    compare(array, widths, mode, ulp=2)


def test_empty_borders_keep_the_inner_elements(engine):
    x = np.arange(6.0).reshape(2, 3)
    padded = pk.pad(x, 1, mode="empty")
    assert padded.shape == (4, 5)
    assert np.array_equal(padded[1:-1, 1:-1], x)


@pytest.mark.parametrize(
    "width",
    [1, (1, 2), ((1, 2), (0, 3)), 0, *(pytest.param(w, marks=since("2.4")) for w in ({0: 2}, {1: (1, 0)}))],
)
def test_widths(engine, width):
    x = np.arange(12).reshape(3, 4)
    for mode in ("constant", "edge"):
        compare(x, width, mode)


@pytest.mark.parametrize(
    ("mode", "keywords"),
    [
        ("constant", {"constant_values": 7}),
        ("constant", {"constant_values": ((1, 2), (3, 4))}),
        ("linear_ramp", {"end_values": (3, -3)}),
        ("maximum", {"stat_length": 2}),
        ("mean", {"stat_length": ((1, 2), (3, 1))}),
        ("median", {"stat_length": 3}),
        ("minimum", {"stat_length": 99}),
        ("reflect", {"reflect_type": "even"}),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_keywords(engine, mode, keywords, dtype):
    x = (np.arange(20).reshape(4, 5) * 7 % 11).astype(dtype)
    if dtype == "bool" and mode == "linear_ramp":
        return
    compare(x, ((2, 3), (1, 4)), mode, ulp=2, **keywords)


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((np.ones(3), -1), {}),
        ((np.ones(3), 1.5), {}),
        ((np.ones(3), ((1, 2), (3, 4))), {}),
        ((np.ones(3), 1, "nothing"), {}),
        ((np.ones(3), 1, "edge"), {"constant_values": 1}),
        ((np.ones((0, 3)), 1, "edge"), {}),
        ((np.ones((0, 3)), 1, "reflect"), {}),
        ((np.ones((0, 3)), 1), {}),
        ((np.ones(3), 1, "maximum"), {"stat_length": 0}),
    ],
)
def test_errors(engine, arguments, keywords):
    compare(*arguments, **keywords)


def test_calls_that_only_numpy_supports(engine):
    x = np.arange(4.0)

    def zeros(vector, widths, axis, keywords):
        vector[: widths[0]] = 0

    with pytest.raises(errors.Unsupported, match=f"pad: not on the {engine} engine"):
        pk.pad(x, 2, zeros)
    with pytest.raises(errors.Unsupported, match=f"pad: not on the {engine} engine"):
        pk.pad(x + 1j, 2)
    with pk.engine("auto"):
        assert np.array_equal(pk.pad(x, 2, zeros), np.pad(x, 2, zeros))
        assert np.array_equal(
            pk.pad(x, 2, "reflect", reflect_type="odd"), np.pad(x, 2, "reflect", reflect_type="odd")
        )
        assert pk.pad(x + 1j, 2).dtype == complex


@pytest.mark.parametrize("mode", MODES)
def test_fused(engine, mode):
    x = np.random.default_rng(0).random((200, 300))

    @pk.fuse
    def padded(x):
        return np.pad(x * 2, ((3, 4), (250, 350)), mode) + 1

    assert np.allclose(padded(x), np.pad(x * 2, ((3, 4), (250, 350)), mode) + 1, 1e-14, 0)
    assert pk.last_call().engine == engine


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap", "mean", "linear_ramp"])
def test_no_border_is_a_copy(engine, mode):
    x = np.ones((80, 90))
    padded = pk.pad(x, 0, mode=mode)
    padded[:] = 2
    assert (x == 1).all()
