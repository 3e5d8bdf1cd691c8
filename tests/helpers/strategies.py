"""Hypothesis strategies for arrays of every dtype, shape, layout and kind of value; comparison of results."""

import warnings

import numpy as np
import pytest
from hypothesis import strategies as st

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]

# 1-d sizes around the edges of vectors and blocks.
EDGES = [7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1023, 1024, 1025, 4095, 4096, 4097]

dtypes = st.sampled_from(DTYPES)
shapes = st.one_of(
    st.just(()),
    st.sampled_from([(0,), (1,), (3, 0), (1, 1), (1, 5), (5, 1)]),
    st.sampled_from([(n,) for n in EDGES]),
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    st.sampled_from([(3, 70), (70, 3), (33, 65), (2, 3, 129)]),
)
LAYOUTS = ["C", "F", "step", "reversed", "broadcast", "swapped", "readonly", "misaligned", "transposed"]
layouts = st.lists(st.sampled_from(LAYOUTS), max_size=2)
kinds = st.sampled_from(["ordinary", "special", "bits", "small"])
seeds = st.integers(0, 2**32 - 1)


def special_values(dtype):
    """Return the values at which the arithmetic of a dtype is most likely to go wrong."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        bits = info.bits
        near = [info.min, info.min + 1, info.max - 1, info.max, info.max // 2, info.max // 2 + 1]
        return np.array([0, 1, 2, 3, 5, 7, bits - 1, bits, *near, *([-1, -2, -3] if info.min else [])], dtype)
    info = np.finfo(dtype)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 100.0, np.pi, np.inf, info.max, info.tiny, info.eps]
    positive += [info.smallest_subnormal, info.tiny - info.smallest_subnormal, 1 / info.eps, 1 - info.epsneg]
    half = np.array(positive, dtype)
    return np.concatenate([half, -half, np.array([np.nan], dtype)])


def values(dtype, size, kind, seed):
    """Return `size` values of a kind, different for each seed."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if kind == "small":
        return rng.integers(1, 11, size).astype(dtype)
    if kind == "ordinary":
        if dtype.kind == "f":
            return (rng.standard_normal(size) * 10).astype(dtype)
        return rng.integers(0 if dtype.kind == "u" else -100, 101, size).astype(dtype)
    bits = rng.integers(0, 256, (size, dtype.itemsize), np.uint8).view(dtype)[:, 0]
    if dtype.kind == "f":  # quiet NaNs only: NumPy, not pycudakit, reports the signalling ones
        bits = np.where(np.isnan(bits), np.copysign(dtype.type(np.nan), bits), bits)
    if kind == "bits":
        return bits
    special = rng.choice(special_values(dtype), size)
    return np.where(rng.random(size) < 0.8, special, bits)


def lay_out(array, layout):
    """Return the array's values in another memory layout; zero strides repeat the first row."""
    if layout == "F":
        return array.copy(order="F")
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "step":
        wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        view = wide[(..., *(slice(None, None, 2) for _ in array.shape))]
        view[...] = array
        return view
    if layout == "reversed":
        flip = (..., *(slice(None, None, -1) for _ in array.shape))
        return array[flip].copy()[flip]
    if layout == "broadcast":
        return np.broadcast_to(array[:1], array.shape) if array.ndim and array.shape[0] else array.copy()
    if layout == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if layout == "misaligned":
        memory = np.zeros(array.nbytes + 1, np.uint8)
        view = np.ndarray(array.shape, array.dtype, memory.data, 1)
        view[...] = array
        return view
    copied = array.copy()
    copied.flags.writeable = layout != "readonly"
    return copied


def build(dtype, shape, kind="ordinary", seed=0, layout=()):
    """Return an array."""
    array = values(dtype, int(np.prod(shape)), kind, seed).reshape(shape)
    for step in layout:
        array = lay_out(array, step)
    return array


@st.composite
def arrays(draw, dtype=dtypes, shape=shapes, kind=kinds, layout=layouts):
    """Draw an array."""
    return build(draw(dtype), draw(shape), draw(kind), draw(seeds), draw(layout))


@st.composite
def broadcast_shapes(draw, count):
    """Draw shapes that broadcast to the shape of one of them."""
    full = draw(shapes)
    result = [full]
    for _ in range(count - 1):
        kept = draw(st.integers(0, len(full)))
        ones = draw(st.lists(st.booleans(), min_size=len(full), max_size=len(full)))
        smaller = tuple(1 if one else n for n, one in zip(full, ones, strict=True))
        result.append(draw(st.sampled_from([full, smaller, smaller[kept:]])))
    return draw(st.permutations(result))


@st.composite
def operands(draw, count, dtype=dtypes, kind=kinds):
    """Draw arrays that broadcast together."""
    return [draw(arrays(dtype=dtype, shape=st.just(s), kind=kind)) for s in draw(broadcast_shapes(count))]


# ---- Comparison -------------------------------------------------------------------------------------


def each_with_smoke(values, chosen="float32"):
    """Return the values as test parameters; `chosen` alone is a smoke test for slow tools."""
    return [pytest.param(value, marks=[pytest.mark.smoke] * (value == chosen)) for value in values]


def outcome(function, *arguments, **keywords):
    """Return a call's outcome: ("ok", result, RuntimeWarnings) or ("error", exception, RuntimeWarnings)."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always")
        try:
            status, result = "ok", function(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001
            status, result = "error", error
    return status, result, {str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)}


def _native(array):
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def ordinals(array):
    """Map floats to integers monotonically: neighbours to neighbours, both zeros to 0."""
    bits = array.view(f"i{array.itemsize}").astype(np.int64)
    if array.itemsize == 8:
        return np.where(bits < 0, np.int64(np.iinfo(np.int64).min) - bits, bits)
    return np.where(bits < 0, -(1 << (8 * array.itemsize - 1)) - bits, bits)


def assert_values(got, want, ulp=0, free_zero=False, context=""):
    """Compare bits, any NaN equal to any NaN; `ulp` allows a distance between floats."""
    assert got.dtype == want.dtype, f"{context}: dtype {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{context}: shape {got.shape}, not {want.shape}"
    got, want = _native(got), _native(want)
    if want.dtype.kind != "f":
        same = got.view(np.uint8) == want.view(np.uint8) if want.dtype == bool and want.ndim else got == want
    else:
        with np.errstate(over="ignore"):
            distance = ordinals(got) - ordinals(want)
        near = (distance <= ulp) & (distance >= -ulp)
        if not free_zero:
            near &= np.signbit(got) == np.signbit(want)
        same = np.where(np.isnan(want), np.isnan(got), near & ~np.isnan(got))
    if not np.all(same):
        at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(~same)))
        ours, theirs = np.atleast_1d(got)[at], np.atleast_1d(want)[at]
        raise AssertionError(f"{context}: at {at} got {ours!r}, not {theirs!r} (of {np.sum(~same)})")


def assert_same_outcome(ours, numpys, ulp=0, free_zero=False, strides=True, context=""):
    """Compare two outcomes: results with dtype, shape, layout and values, or errors; and warnings."""
    status, got, warned = ours
    wanted_status, want, wanted_warnings = numpys
    if status != wanted_status:
        got_text = f"{type(got).__name__}: {got}" if status == "error" else f"{got!r}"
        want_text = f"{type(want).__name__}: {want}" if wanted_status == "error" else f"{want!r}"
        raise AssertionError(f"{context}: got {got_text}, not {want_text}")
    if status == "error":
        expected = next(b for b in type(want).__mro__ if b.__module__ == "builtins")
        assert isinstance(got, expected), f"{context}: got {got!r}, not {want!r}"
        return
    for mine, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        assert type(mine) is type(theirs), f"{context}: got a {type(mine)}, not a {type(theirs)}"
        assert_values(np.asarray(mine), np.asarray(theirs), ulp, free_zero, context)
        if strides and isinstance(theirs, np.ndarray) and theirs.size:
            both = zip(mine.strides, theirs.strides, mine.shape, strict=True)
            alike = all(a == b for a, b, n in both if n > 1)
            assert alike, f"{context}: strides {mine.strides}, not {theirs.strides}"
    assert warned == wanted_warnings, f"{context}: warned {warned}, not {wanted_warnings}"


def describe(*arguments):
    """Describe arguments for the message of a failure."""
    return ", ".join(
        f"{a.dtype.str}{list(a.shape)}/{list(a.strides)}" if isinstance(a, np.ndarray) else repr(a)
        for a in arguments
    )


def numpys(seed=0, **keywords):
    """Return the NumPy generator (Philox) with the numbers of the pycudakit one."""
    return np.random.Generator(np.random.Philox(seed, **keywords))
