"""`take`, `take_along_axis`, `compress`, `nonzero` and similar functions, against NumPy."""

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy
from helpers.strategies import DTYPES, arrays, assert_same_outcome, each_with_smoke, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._families import take as take_module
from pycudakit._families.sort import sort_keys
from pycudakit._runtime import cost_model
from pycudakit._runtime.engine_choice import numpy_choice_for_size


def compare(name, *arguments, **keywords):
    ours, numpys = (outcome(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    lies_as_numpys = name != "take_along_axis"
    assert_same_outcome(ours, numpys, strides=lies_as_numpys, context=f"{name} {arguments} {keywords}")
    if ours[0] == "error":
        assert str(ours[1]).split(" ")[:8] == str(numpys[1]).split(" ")[:8]


def places(count, shape, dtype="int64", seed=0):
    least = 0 if np.dtype(dtype).kind == "u" else -count
    return np.random.default_rng(seed).integers(least, count, shape).astype(dtype)


# ---- take ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", each_with_smoke(DTYPES))
def test_types(engine, dtype):
    x = np.arange(60).reshape(3, 4, 5).astype(dtype)
    for axis in (None, 0, 1, -1):
        count = x.size if axis is None else x.shape[axis]
        compare("take", x, places(count, 7), axis)
        compare("take", x, places(count, (2, 3), "int8"), axis)
    compare("take", x[:, ::-1, ::2], places(3, 9, "uint16"), 2)
    compare("take", x, 1, 1)
    compare("take", x, -1)
    compare("take", x, [], 1)
    compare("take", x.T, np.array([[True, False]]), 0)


@given(data=st.data())
def test_layouts(engine, data):
    x = data.draw(arrays())
    if x.size == 0:
        return
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    count = x.size if axis is None else x.shape[axis]
    compare("take", x, places(count, data.draw(st.sampled_from([(), (1,), (5,), (2, 3)]))), axis)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_modes(engine, mode):
    x = np.arange(12).reshape(3, 4)
    inside = np.array([0, -3, 2])
    compare("take", x, inside, 0, mode=mode)
    compare("take", x, np.array([-100, 5, 3, 99]), 1, mode=mode)
    compare("take", x, np.array([-100, 5, 3, 99]), mode=mode)


def test_sizes(engine):
    x = np.arange(300_000.0)
    for size in (1, 1000, 65_536, 65_537, 200_001):
        compare("take", x, places(x.size, size))
    compare("take", x.reshape(100, 3000), places(100, 5000), 0)
    compare("take", x.reshape(100, 3000), places(3000, 5000), 1)
    compare("take", np.arange(90, dtype="u1").reshape(30, 3), places(30, 40_000), 0)
    assert (pk.last_call().function, pk.last_call().engine) == ("take", engine)


def test_out(engine):
    x = np.arange(12.0).reshape(3, 4)
    out = np.full((3, 2), -1.0)
    assert pk.take(x, [3, 0], 1, out) is out
    assert np.array_equal(out, x[:, [3, 0]])
    assert pk.take(x, [0, 1], 1, x[:, 1:3]).base is not None
    assert np.array_equal(x[:, 1:3], np.arange(12.0).reshape(3, 4)[:, :2])
    before = out.copy()
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        pk.take(x, [3, 4], 1, out)
    with pytest.raises(ValueError, match="output array does not match"):
        pk.take(x, [0], 1, out)
    assert np.array_equal(out, before)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128", "int8"])
@pytest.mark.parametrize("mode", ["raise", "clip"])
def test_types_of_out(engine, dtype, mode):
    """NumPy refuses an `out` of a type that does not cast safely to the array's."""
    for x in (np.arange(12.0), np.arange(12, dtype="int32")):
        outs = [np.zeros(2, dtype) for _ in range(2)]
        results = [
            outcome(kit.take, x, [3, 1], None, out, mode) for kit, out in zip((pk, np), outs, strict=True)
        ]
        assert_same_outcome(*results)
        np.testing.assert_array_equal(*outs)


def test_indices_of_nothing(engine):
    """An index may be out of bounds even if there is nothing to copy."""
    for shape, axis in (((2, 0), 0), ((0, 2), 1), ((2, 0, 3), 0), ((3, 2, 0), 1), ((0, 2, 0), 1)):
        for indices in ([0, 1], [4], [-3], 5, []):
            for mode in ("raise", "clip", "wrap"):
                results = []
                for kit in (pk, np):
                    try:
                        results.append(kit.take(np.zeros(shape), indices, axis=axis, mode=mode).shape)
                    except IndexError as error:
                        results.append(str(error))
                assert results[0] == results[1], (shape, indices, mode)


def test_errors(engine):
    x = np.arange(12).reshape(3, 4)
    compare("take", x, [3], 0)
    compare("take", x, [0, -4, 2], 0)
    compare("take", x, [1], 2)
    compare("take", x, np.array([0.5]))
    if has_numpy("2.1"):  # earlier versions do not take them
        compare("take", x, np.array([1], "uint64"))
    compare("take", x, [1.5])
    compare("take", x[:0], [0], 0)
    compare("take", x[:0], [], 0)
    compare("take", x[:0], np.empty((2, 0), int), 0)
    compare("take", x, [1], mode="some")
    with pytest.raises(errors.Unsupported, match=f"take: not on the {engine} engine: it takes bool"):
        pk.take(x + 1j, [1])
    with pk.engine("auto"):
        assert np.array_equal(pk.take(x + 1j, [1]), [1 + 1j])


# ---- take_along_axis -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", each_with_smoke(["bool", "int16", "float32", "float64"]))
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_along_an_axis(engine, dtype, axis):
    x = (np.arange(60) * 7 % 11).reshape(3, 4, 5).astype(dtype)
    compare("take_along_axis", x, np.argsort(x, axis), axis)
    shape = list(x.shape)
    shape[axis] = 9
    compare("take_along_axis", x, places(x.shape[axis], shape, "int8"), axis)
    shape = [1, 1, 1]
    shape[axis] = 2
    compare("take_along_axis", x, places(x.shape[axis], shape), axis)
    compare("take_along_axis", x[:1, :1, :1], np.zeros((3, 4, 5), int), axis)


def test_errors_along_an_axis(engine):
    x = np.arange(12).reshape(3, 4)
    compare("take_along_axis", x, np.argmax(x, 1), 1)
    compare("take_along_axis", x, np.zeros((3, 1)), 1)
    compare("take_along_axis", x, np.zeros((2, 1), int), 1)
    if has_numpy("2.1"):  # earlier versions have another message
        compare("take_along_axis", x, np.zeros((2, 2), int), None)
    compare("take_along_axis", x, np.array([7, 3, -12]), None)
    compare("take_along_axis", x, np.zeros((3, 1), int), 2)
    compare("take_along_axis", x, np.full((3, 1), 4), 1)


# ---- Nonzero elements ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", each_with_smoke(DTYPES))
@given(data=st.data())
def test_nonzero_elements(engine, dtype, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=3)))
    x = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 3, shape).astype(dtype)
    if x.ndim > 1 and data.draw(st.booleans()):
        x = x.T[::-1]
    for name in ("nonzero", "flatnonzero", "argwhere"):
        compare(name, x)


def test_much_that_is_not_zero(engine):
    x = np.random.default_rng(0).random((300, 400)) < 0.3
    for name in ("nonzero", "flatnonzero", "argwhere"):
        compare(name, x)
        assert (pk.last_call().function, pk.last_call().engine) == (name, engine)
    compare("flatnonzero", np.array([np.nan, 0.0, -0.0, np.inf]))


@pytest.mark.parametrize("share", [0, 1e-4, 0.1, 0.5, 0.999, 1])
def test_long_arrays_of_few_and_of_many(engine, share):
    rng = np.random.default_rng(0)
    for size in (1 << 16, 200_001):
        found = rng.random(size) < share
        for x in (found, found.astype(np.uint8) * 3, found * rng.normal(size)):
            compare("flatnonzero", x)
            order = np.argsort(x, kind="stable")
            np.testing.assert_array_equal(pk.argsort(x, kind="stable"), order, strict=True)


def test_bools_of_other_bytes(engine):
    """NumPy counts every nonzero byte as True."""
    bytes_ = np.random.default_rng(0).integers(0, 4, 1 << 17).astype(np.uint8)
    np.testing.assert_array_equal(pk.flatnonzero(bytes_.view(bool)), np.flatnonzero(bytes_), strict=True)


def test_numbers_are_not_indexed(engine):
    compare("nonzero", np.float64(3))
    compare("argwhere", np.float64(3))
    compare("flatnonzero", np.float64(3))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(engine, axis):
    x = np.arange(12.0).reshape(3, 4)
    compare("compress", [True, False, True], x, axis)
    compare("compress", [0, 1], x, axis)
    compare("compress", np.array([], bool), x, axis)
    compare("compress", [[True]], x, axis)
    compare("compress", [False, False, False, False, True], x, axis)


# ---- Fused -----------------------------------------------------------------------------------------------

CALLS = {
    "argwhere": lambda kit, x: kit.argwhere(x > 0.5),
    "compress": lambda kit, x: kit.compress(x[:, 0] > 0.5, x, axis=0),
    "flatnonzero": lambda kit, x: kit.flatnonzero(x > 0.5),
    "nonzero": lambda kit, x: kit.nonzero(x > 0.5)[1],
    "take": lambda kit, x: kit.take(x, np.array([3, 5, 1]), axis=1),
    "take_along_axis": lambda kit, x: kit.take_along_axis(x, kit.argsort(x, axis=1), axis=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_in_a_fused_function(engine, name):
    x = np.random.default_rng(0).random((70, 90))
    want = CALLS[name](np, x * 0.9) * 2
    for kit in (np, pk):
        fused = pk.fuse(lambda x, kit=kit: CALLS[name](kit, x * 0.9) * 2, strict=True)
        assert np.array_equal(fused(x), want)


def test_same_bits(both_engines):
    x = np.random.default_rng(0).random((500, 700)).astype("f4")
    found = []
    for engine in ("cpu", "cuda"):
        with pk.engine(engine):
            found.append((pk.take(x, places(500, 9000), 0), pk.flatnonzero(x > 0.5)))
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)


def test_auto_finds_nonzero_elements(monkeypatch):
    x = np.random.default_rng(0).integers(0, 3, 400_000)
    with pk.engine("auto"):
        for a in (x, x > 1, x[:1000], np.zeros(400_000), x.astype(">f4")):
            np.testing.assert_array_equal(pk.flatnonzero(a), np.flatnonzero(a), strict=True)
        monkeypatch.setattr(take_module, "choose_engine", lambda *_: numpy_choice_for_size("argsort"))
        np.testing.assert_array_equal(pk.flatnonzero(x), np.flatnonzero(x), strict=True)
    assert pk.last_call().function == "flatnonzero"


@pytest.mark.cpu
@pytest.mark.parametrize(("threads", "engine"), [(2, "numpy"), (16, "cpu")])
def test_many_threads_find_the_true_ones_of_many(monkeypatch, threads, engine):
    for module in (cost_model, sort_keys):
        monkeypatch.setattr(module, "threads", lambda: threads)
    a = np.arange(300_000.0 * threads)  # another size each time, since choices are cached
    mask = a % 7 < 3
    with pk.engine("auto"):
        for function, arguments in (("compress", (mask, a)), ("flatnonzero", (mask,))):
            got = getattr(pk, function)(*arguments)
            np.testing.assert_array_equal(got, getattr(np, function)(*arguments), strict=True)
            assert pk.last_call().engine == engine or pk.engines()["cuda"]
            few = [each[:10_000] for each in arguments]
            getattr(pk, function)(*few)
            assert pk.last_call().engine == "numpy"
