"""Calls on device arrays, on a fake GPU: arrays stay on the device; test_on_device.py uses a real one."""

import sys
import warnings

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.calls_on_device import (
    ARRAYS,
    EINSUMS,
    PRODUCTS,
    RNG,
    SIZE,
    STAYS,
    arrays_of,
    fused,
    parts_of,
    with_slow_ones_thorough,
)
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors
from pycudakit._element_programs import device_launch
from pycudakit._interop import cuda_libraries
from pycudakit.fusing.memory import background_jit
from pycudakit.kernels.running.device_arguments import empty_like_device


def up(x):
    return sys.modules["cupy"].asarray(x)


def down(x):
    return x.values if type(x) is fake_gpu.ndarray else x


def both(call, gpu):
    """Return the results of a call on host arrays and on device arrays, and these arrays afterwards."""
    on_host = arrays_of(call)
    there = {name: up(x) for name, x in on_host.items()}
    with pk.engine("cpu"):
        want = call(**on_host)
    gpu.bytes_up = gpu.bytes_down = gpu.queued = gpu.imported = 0
    got = call(**there)
    for name, x in on_host.items():
        assert_array_equal(down(there[name]), x)
    return want, got


def check(call, gpu, by_blas=False):
    want, got = both(call, gpu)
    wants, gots = map(parts_of, (want, got))
    assert len(wants) == len(gots)
    for one, other in zip(gots, wants, strict=True):
        if not isinstance(other, bool):
            assert type(one) is fake_gpu.ndarray
            assert down(one).dtype == np.asarray(other).dtype
        if by_blas:
            np.testing.assert_allclose(down(one), other, rtol=1e-12)
        else:
            assert_array_equal(down(one), other)


# Values that NumPy must read: counts for each number of bins, and edges, which it validates.
LOOKED_AT = {"histogram of many bins by the error that is left": 1 << 17, "digitize by edges there": 1 << 12}


@pytest.mark.parametrize("name", with_slow_ones_thorough(STAYS))
def test_arrays_that_stay(gpu, name):
    check(STAYS[name], gpu)
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= LOOKED_AT.get(name, 256)  # a few numbers


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_stay(gpu, name):
    check(PRODUCTS[name], gpu, by_blas=True)
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= 64


@pytest.mark.parametrize("name", EINSUMS)
def test_sums_of_products_stay(gpu, name):
    call = EINSUMS[name]
    wanted = call(np, **arrays_of(call))
    got = call(pk, **{key: up(x) for key, x in arrays_of(call).items()})
    assert (down(got).dtype, down(got).shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(down(got), wanted, rtol=1e-12)
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= 64


# Calls that still compute from a copy on the host, or read some values there.
GOES_HOME = {
    "median into another type": lambda w, p, **_: pk.median(w, 1, out=p[0]),
    "einsum into another type": lambda i, a, **_: pk.einsum("i,i->i", i, i, out=a),
    "a rule that takes deviations of float16": lambda n, **_: pk.histogram(
        pk.astype(pk.nan_to_num(n), np.float16), "doane"
    ),
}


@pytest.mark.parametrize("name", GOES_HOME)
def test_results_on_the_host_are_right(gpu, name):
    check(GOES_HOME[name], gpu)
    assert gpu.bytes_down > 64


QUEUED = {
    "float64": lambda a, b, **_: pk.add(a, b),
    "float32": lambda p, **_: pk.multiply(p, p),
    "where=": lambda a, b, **_: pk.add(a, b, out=a, where=pk.less(a, b)),
    "divmod": lambda a, b, **_: pk.divmod(a, b),
    "sum": lambda a, **_: pk.sum(a),
    "cumsum": lambda a, **_: pk.cumsum(a),
    "sort": lambda m, **_: pk.sort(m, axis=0),
    "fuse": fused(lambda x, y: np.sqrt(x * x + y) - y / 2),
    "fuse several": fused(lambda x, y: {"sum": x + y, "all": [x * y, x - y]}),
    "fuse in place": fused(lambda x, y: x.__iadd__(y)),
}


@pytest.mark.parametrize("name", QUEUED)
def test_enqueued_calls(gpu, name):
    both(QUEUED[name], gpu)
    assert gpu.queued
    assert gpu.imported == 0


class RegisteredArray(fake_gpu.ndarray):
    """An array of a library that is registered by its type, as GPUArray is."""


RegisteredArray.__module__ = "elsewhere"
cuda_libraries.register(
    RegisteredArray,
    cuda_libraries.ForeignLibrary(
        lambda x: ((x.dtype, x.shape, None, False), x.data.ptr, cuda_libraries.LEGACY_STREAM),
        lambda shape, dtype, _: RegisteredArray(shape, dtype),
        lambda x: x.data.ptr,
        lambda _: True,
        lambda _: 0,
    ),
)


@pytest.mark.parametrize("name", ["frexp", "modf", "sort", "add", "argsort", "sum", "flip", "unique"])
def test_results_are_arrays_of_a_registered_library(gpu, name):
    x = np.linspace(-20, 20, 1001).astype(np.float32)
    operands = (x, x) if name == "add" else (x,)
    arrays = [RegisteredArray(each.shape, each.dtype, each) for each in operands]
    wanted = parts_of(getattr(np, name)(*operands))
    for _ in range(3):  # the third call is replayed
        found = parts_of(getattr(pk, name)(*arrays))
        assert [type(each) for each in found] == [RegisteredArray] * len(wanted)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.values, other, rtol=1e-6)


def test_a_kernels_result_is_an_array_of_a_registered_library():
    like = RegisteredArray((3,), np.float32)
    made = empty_like_device(like, (2, 5), np.dtype(np.int16))
    assert type(made) is RegisteredArray
    assert (made.shape, made.dtype) == ((2, 5), np.int16)


@pytest.mark.parametrize("name", ["add", "sum", "cumsum", "sort"])
def test_who_asks_to_wait_waits(gpu, name):
    a = up(ARRAYS["a"])
    call = {"add": lambda: pk.add(a, 1.0)}.get(name, lambda: getattr(pk, name)(a))
    for waits in (True, False):
        with pk.engine(wait=waits):
            call()
        assert gpu.waits == waits


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: pk.divide(a, 0.0), "divide by zero encountered in divide"),
        (lambda a: pk.evaluate("1 / (a - a)", {"a": a}), "divide by zero encountered in divide"),
        (lambda a: pk.cumsum(pk.multiply(a, 1e308)), "overflow encountered in accumulate"),
    ],
    ids=["divide", "evaluate", "cumsum"],
)
def test_who_waits_is_warned(gpu, call, message):
    """An asynchronous call reports no floating-point errors, and a synchronous one as np.errstate says."""
    a = up(np.array([1.0, 1.0, 1.5]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(a)
    assert gpu.queued
    with pk.engine(wait=True):
        with pytest.warns(RuntimeWarning, match=message):
            call(a)
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=message):
            call(a)


def test_queued_passes_are_compiled_now_and_then(gpu, monkeypatch):
    asked = []
    monkeypatch.setattr(background_jit, "compile_requested", asked.append)
    monkeypatch.setattr(device_launch, "_operations_since_check", 0)  # which other tests have counted
    x = np.linspace(0, 1, 50)
    a = up(x)
    for _ in range(300):
        got = pk.evaluate("sqrt(a*a + 1) / 2", {"a": a})
    assert asked == [gpu]
    assert_array_equal(down(got), np.sqrt(x * x + 1) / 2)


def test_enqueued_calls_follow_and_are_followed(gpu):
    """Asynchronous calls read a plan's results, and the other way round."""

    @pk.fuse
    def steps(x, y):
        x += y  # queued
        total = np.sum(x)  # in a plan
        y -= total  # in the plan, or asynchronous
        return np.cumsum(y) + x

    check(lambda a, b, **_: steps(a, b), gpu)


def test_arguments_that_overlap(gpu):
    x = np.arange(3000.0)
    a = up(x)
    got = pk.fuse(lambda u, v: u + v)(a[:-1], a[1:])
    assert_array_equal(down(got), x[:-1] + x[1:])
    pk.fuse(lambda u, v: u.__iadd__(v))(a[1:], a[:-1])
    x[1:] += x[:-1].copy()
    assert_array_equal(down(a), x)


def test_a_product_that_overflows_looks_at_its_factors(gpu):
    x = np.full((100, 100), 1e200)
    with warnings.catch_warnings(record=True) as caught, pk.engine("cuda"):
        warnings.simplefilter("always")
        pk.matmul(up(x), up(x))
    assert [str(each.message) for each in caught] == ["overflow encountered in matmul"]


def test_explain_counts_once(gpu):
    @pk.fuse
    def change(x, y):
        x *= 2
        return {"sum": np.sum(x), "both": x + y}

    x = RNG.random(SIZE)
    there = up(x)
    plan = change.explain(there, up(x))
    assert (plan.engine, plan.breaks) == ("cuda", ())
    assert plan.bytes_up <= 8
    assert_array_equal(down(there), x)


def test_shuffle(gpu):
    x = RNG.random((300, 90))
    for axis in (0, 1):
        there, ours, numpys = up(x), x.copy(), pk.random.default_rng(3)
        rng = pk.random.default_rng(3)
        gpu.bytes_up = gpu.bytes_down = 0
        assert rng.shuffle(there, axis) is None
        assert (gpu.bytes_up, gpu.bytes_down) == (0, 0)
        with pk.engine("cpu"):
            numpys.shuffle(ours, axis)
        assert_array_equal(down(there), ours)
        assert rng == numpys
    kind = type("DeviceArray", (type(there),), {"__module__": "numba.cuda"})  # CuPy has no such arrays
    read_only = kind(x.shape, x.dtype, x.copy())
    read_only.values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pk.random.default_rng(3).shuffle(read_only)
    assert_array_equal(read_only.values, x)


@pytest.mark.parametrize("name", ["call", "out", "evaluate", "fuse", "number"])
def test_integers_to_negative_powers(gpu, name):
    i, k, out = up(np.full(SIZE, 3)), up(np.arange(SIZE) - 1), up(np.full(SIZE, 7))
    call = {
        "call": lambda: pk.power(i, k),
        "out": lambda: pk.power(i, k, out=out),
        "evaluate": lambda: pk.evaluate("i**k", {"i": i, "k": k}),
        "fuse": lambda: pk.fuse(lambda x, y: x**y)(i, k),
        "number": lambda: pk.power(i, -1),
    }[name]
    with pytest.raises(ValueError, match=r"Integers to negative integer powers are not allowed\."):
        call()
    assert (out.values == 7).all()
    assert (i.values == 3).all()


X = ARRAYS["a"] + 1
ODD = {
    "x": X,
    "negative": np.where(X > 50, X, -X),
    "negative beside NaN": np.where(X > 50, np.nan, -X),
    "NaN": X * np.nan,
    "large": X * 1e20,
}
REFUSED = [
    ("scale < 0", "normal", 0.0, "negative"),
    ("scale < 0", "exponential", "negative beside NaN"),
    ("scale < 0", "normal", "x", -1.0),
    ("b <= 0", "beta", "x", "negative"),
    ("lam value too large", "poisson", "large"),
    ("p <= 0, p > 1 or p contains NaNs", "geometric", "NaN"),
    ("high - low", "uniform", "x", -1.0),
    ("shape mismatch", "normal", "x", "x", 5),
]


@pytest.mark.parametrize(("text", "name", "given"), [(t, n, given) for t, n, *given in REFUSED])
def test_parameters_that_are_refused(gpu, text, name, given):
    for engine, place in (("cpu", np.array), ("cuda", up)):
        arguments = [place(ODD[each]) if each in ODD else each for each in given]
        with pk.engine(engine), pytest.raises(ValueError, match=text):
            getattr(pk.random.default_rng(1), name)(*arguments)


def test_products_to_out(gpu):
    x, out = RNG.random((120, 90)), up(np.zeros((120, 120)))
    a, b = up(x), up(x.T.copy())
    assert pk.matmul(a, b, out=out) is out
    assert (gpu.bytes_up, gpu.bytes_down) == (0, 0)
    np.testing.assert_allclose(out.values, x @ x.T)
    small = up(np.full((3, 120), 7.0))
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        pk.matmul(a, b, out=small)
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        pk.matmul(a, a)
    assert (small.values == 7).all()
    small = up(np.full((3, 7), 7.0))
    refused = {
        "mismatch in its core dimension": {"x2": up(x[:, :50])},
        "could not be broadcast": {"x2": up(x[:50])},
        "axis 2 is out of bounds": {"axis": 2},
        "axis -3 is out of bounds": {"axes": [-1, -3]},
        "Cannot cast ufunc 'vecdot' input": {"dtype": np.int64},
        "could not be broadcast together": {"out": small},
    }
    for text, given in refused.items():
        x2 = given.pop("x2", a)
        with pytest.raises((TypeError, ValueError), match=text):
            pk.vecdot(a, x2, **given)
    assert (small.values == 7).all()


M, S = ARRAYS["m"], ARRAYS["s"]
REFUSED_EINSUMS = {
    "no such label": (M, [0, 52], S, [52, 1]),
    "a label that is none": (M, [0, "j"], S, [0, 1]),
    "a label more": (M, [0, 1, 2], S, [1, 2]),
    "sizes that differ": (M, [0, 1], S, [0, 1], [0]),
    "no such path": ("ij,jk,lk->il", M, S, S, {"optimize": "best"}),
    "no path": ("ij,jk->ik", M, S, {"optimize": (1, 2, 3)}),
    "a path out of bounds": ("ij,jk->ik", M, S, {"optimize": ["einsum_path", (0, 5)]}),
    "a path of too little": ("ij,jk->ik", M, S, {"optimize": ["einsum_path", (0,)]}),
    "a type that holds too little": ("ij,jk->ik", M, S, {"dtype": "f4"}),
    "a type of another kind, on a path": ("ij,jk->ik", M, S, {"dtype": "i8", "optimize": True}),
    "a type that holds too little, of one": ("ij->j", M, {"dtype": "f4", "optimize": True}),
    "sizes that differ, in a type on a path": ("ij,kj->ik", M, S, {"dtype": "f8", "optimize": True}),
    "an unknown type": ("ij,jk->ik", M, S, {"dtype": "f77"}),
    "an unknown rule": ("ij,jk->ik", M, S, {"dtype": "f4", "casting": "never"}),
    "an unknown order": ("ij,jk->ik", M, S, {"order": "Z"}),
    "an unknown keyword": ("ij,jk->ik", M, S, {"colour": 3}),
}
# Calls that only NumPy supports.
OTHER_EINSUMS = {
    "more labels than capital letters": (M, [30, 1], S, [1, 2]),
    "the order of all arrays": ("ij,jk->ik", M, S, {"order": "A"}),
}


def placed(given):
    """Return the arguments with device arrays, and the keywords."""
    *operands, last = given
    operands, keywords = (operands, last) if type(last) is dict else (given, {})
    return [up(each) if type(each) is np.ndarray else each for each in operands], keywords


@pytest.mark.parametrize("name", REFUSED_EINSUMS)
def test_sums_of_products_that_are_refused(gpu, name):
    there, keywords = placed(REFUSED_EINSUMS[name])
    kinds = KeyError, IndexError, RuntimeError, TypeError, ValueError
    with pytest.raises(kinds) as wanted:
        np.einsum(*map(down, there), **keywords)
    with pytest.raises(wanted.type) as told:
        pk.einsum(*there, **keywords)
    assert str(told.value) == str(wanted.value)


@pytest.mark.parametrize("name", OTHER_EINSUMS)
def test_other_sums_of_products_are_numpys(gpu, name):
    there, keywords = placed(OTHER_EINSUMS[name])
    wanted = np.einsum(*map(down, there), **keywords)
    np.testing.assert_allclose(down(pk.einsum(*there, **keywords)), wanted, rtol=1e-12)


@pytest.mark.parametrize("numpy_has_them", [True, False])
def test_rules_for_bins(gpu, monkeypatch, numpy_has_them):
    """If NumPy lacks the private function, the host computes from a copy."""
    if not numpy_has_them:
        monkeypatch.delattr(np.lib, "_histograms_impl")
    narrow = np.repeat([-100, 100], SIZE).astype(np.int8)
    for x in (np.full(SIZE, 3), ARRAYS["a"], ARRAYS["p"].astype(np.float16), narrow):
        for rule in ("auto", "fd", "sqrt"):
            for limits in (
                None,
                (2, 77.5),
                (200, 300),
                (np.float64(2.1), np.int8(90)),
                (np.float32(2.1), 70),
            ):
                gots, wants = pk.histogram(up(x), rule, limits), np.histogram(x, rule, limits)
                for got, want in zip(gots, wants, strict=True):
                    assert_array_equal(down(got), want, strict=True)


def test_rules_for_bins_that_are_refused(gpu):
    x = ARRAYS["a"]
    with_nan = np.where(x > 1, x, np.nan)
    for given, *rest in (
        *(
            (x, "best"),
            (with_nan, "auto"),
            (x, "fd", None, None, x),
            (x, "fd", (3, 1)),
            (x, "fd", (3, np.nan)),
        ),
        *((x, "fd", (1, 2, 3)), (x, "fd", 7)),
    ):
        with pytest.raises((TypeError, ValueError)) as wanted:
            np.histogram(given, *rest)
        with pytest.raises(wanted.type) as told:
            pk.histogram(up(given), *rest)
        assert str(told.value) == str(wanted.value)


def test_only_nan(gpu):
    with pytest.raises(ValueError, match="All-NaN slice encountered"):
        pk.nanargmax(up(np.full(SIZE, np.nan)))


def test_norms_of_singular_values_are_numpys(gpu):
    x = RNG.random((40, 30))
    np.testing.assert_allclose(down(pk.linalg.norm(up(x), 2)), np.linalg.norm(x, 2))


class ReadOnly(fake_gpu.ndarray):
    """A read-only device array; CuPy has none, other libraries do."""


def test_refusals_name_the_argument(gpu):
    strange = up(ARRAYS["a"])
    strange.values = strange.values.astype(complex)
    with pytest.raises(errors.Unsupported, match=r"^add, .*: ndarray of complex128"):
        pk.add(strange, 1.0)

    @pk.fuse
    def double(given):
        return given * 2

    with pytest.raises(errors.Unsupported, match=r"^double, given: ndarray of complex128"):
        double(strange)
    read_only = ReadOnly(ARRAYS["a"].shape, values=ARRAYS["a"].copy())
    read_only.values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pk.fuse(lambda x: x.__iadd__(1))(read_only)
    with pytest.raises(ValueError, match="read-only"):
        pk.cumsum(up(ARRAYS["a"]), out=read_only)
    assert_array_equal(read_only.values, ARRAYS["a"])


@pytest.mark.parametrize("name", ["take_along_axis", "take"])
def test_results_have_the_layout_of_computed_indices(gpu, name):
    a, keys = np.asfortranarray(RNG.random((1000, 12))), RNG.random((1000, 12))

    def body(a, keys):
        indices = np.asfortranarray(np.argsort(keys, 1))
        return np.take_along_axis(a, indices, 1) if name == "take_along_axis" else np.take(a[0], indices)

    got, want = pk.fuse(body)(a, keys), body(a, keys)
    assert_array_equal(got, want)
    assert got.strides == want.strides
