"""Arrays of other libraries on a GPU: read and written where they lie, or refused with the way home."""

import gc
import threading

import numpy as np
import pytest
from helpers.calls_there import ARRAYS, PRODUCTS, STAYS
from helpers.there import SIZE, TENSOR, Capsule, Held, numbers, on_a_gpu
from helpers.versions import has_numpy
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors
from pycudakit.fusing import compiled

# ---- Refusals, which need no GPU ---------------------------------------------------------------------

FIRST = "x1" if has_numpy("2.4") else "argument 1"  # NumPy's ufuncs tell their parameters' names since


OUT = np.full(3, 7.0)
CALLS = {
    "add": lambda x: pk.add(x, 1.0, out=OUT),
    "add_out": lambda x: pk.add(OUT, 1.0, out=x),
    "where=": lambda x: pk.add(OUT, 1.0, out=OUT, where=x),
    "sum": lambda x: pk.sum(x, out=OUT[:1].reshape(())),
    "sort": pk.sort,
    "cumsum": lambda x: pk.cumsum(x, out=OUT),
    "cumsum_out": lambda x: pk.cumsum(OUT, out=x),
    "lexsort": lambda x: pk.lexsort([OUT, x]),
    "median": pk.median,
    "histogram": lambda x: pk.histogram(OUT, weights=x),
    "matmul": lambda x: pk.matmul(x, x),
    "einsum": lambda x: pk.einsum("i,i", OUT, x),
    "norm": pk.linalg.norm,
    "box_blur": lambda x: pk.image.box_blur(x, 3),
    "interp": lambda x: pk.interp(OUT, OUT, x),
    "clip": lambda x: pk.clip(x, 0, 1),
    "roll": lambda x: pk.roll(x, 1),
    "evaluate": lambda x: pk.evaluate("x + 1", {"x": x}, out=OUT),
    "evaluate_out": lambda x: pk.evaluate("x + 1", {"x": OUT}, out=x),
    "fuse": pk.fuse(lambda v: v + 1),
    "fuse_nested": lambda x: pk.fuse(lambda v: v["a"][0] + 1)({"a": [x]}),
    "choice": lambda x: pk.random.default_rng(1).choice(x),
    "random": lambda x: pk.random.default_rng(1).random(out=x),
    "normal": lambda x: pk.random.default_rng(1).normal(loc=x),
    "shuffle": lambda x: pk.random.default_rng(1).shuffle(x),
    "In": pk.In,
    "InOut": pk.InOut,
}


@pytest.mark.parametrize("make", [Held, Capsule])
@pytest.mark.parametrize("name", CALLS)
def test_without_a_gpu(name, make):
    with (
        pk.engine("cpu"),
        pytest.raises(errors.Unsupported, match=r"on a GPU.*to the host first") as told,
    ):
        CALLS[name](make())
    assert type(told.value) is errors.Unsupported
    assert make.__name__ in str(told.value)
    assert (OUT == 7).all()


@pytest.mark.parametrize(
    ("module", "way"),
    [
        ("cupy", r"x\.get\(\)"),
        ("torch", r"x\.cpu\(\)"),
        ("numba.cuda.cudadrv.devicearray", r"x\.copy_to_host\(\)"),
        ("jaxlib._jax", r"numpy\.asarray\(x\)"),
        ("pycuda.gpuarray", r"x\.get\(\)"),
        ("rmm.pylibrmm", r"x\.copy_to_host\(\)"),
    ],
)
def test_the_way_home_is_the_librarys(module, way):
    made = type("Array", (Held,), {"__module__": module})
    with pk.engine("cpu"), pytest.raises(errors.Unsupported, match=f"bring it home first, by {way}$"):
        pk.add(made(), 1)


REFUSED = {
    "newer": ({"version": 4}, errors.InvalidArgument, "of version 4; pycudakit reads versions up to 3"),
    "no version": ({"version": None}, errors.InvalidArgument, "has no 'version'"),
    "version in words": ({"version": "3"}, errors.InvalidArgument, "of version '3'"),
    "no shape": ({"shape": None}, errors.InvalidArgument, "has no 'shape'"),
    "negative": ({"shape": (-1,)}, errors.InvalidArgument, r"has the shape \(-1,\)"),
    "no sizes": ({"shape": (3.0,)}, errors.InvalidArgument, r"has the shape \(3\.0,\)"),
    "unknown type": ({"typestr": "<q9"}, errors.InvalidArgument, "typestr '<q9', which NumPy does not know"),
    "complex": ({"typestr": "<c16"}, errors.Unsupported, "of complex128: on a GPU, arrays have bool"),
    "strings": ({"typestr": "|S5"}, errors.Unsupported, r"of \|S5: on a GPU, arrays have bool"),
    "masked": ({"mask": Held()}, errors.Unsupported, "has a mask, which would be lost"),
    "null": ({"data": (0, False)}, errors.InvalidArgument, "at a null pointer: has its memory been freed"),
    "none": ({"data": (None, False)}, errors.InvalidArgument, "at a null pointer"),
    "no pair": ({"data": 1 << 40}, errors.InvalidArgument, "not a pair of an address and"),
    "strides": ({"strides": (8, 8)}, errors.InvalidArgument, r"strides \(8, 8\) for the shape \(3,\)"),
    "stream 0": ({"stream": 0}, errors.InvalidArgument, "has the stream 0; it is None, 1, 2 or"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used(case):
    changes, kind, text = REFUSED[case]
    for name in ("cpu", "auto"):
        with pk.engine(name), pytest.raises(kind, match=f"^add, {FIRST}: Held.*{text}"):
            pk.add(Held(**changes), 1, out=OUT)
    assert (OUT == 7).all()


def test_an_interface_that_is_none():
    held = Held()
    held.__cuda_array_interface__ = [1]
    with pytest.raises(errors.InvalidArgument, match=r"Held\.__cuda_array_interface__ is a list, not a dict"):
        pk.sort(held)


@pytest.mark.parametrize(("code", "bits", "lanes"), [(5, 64, 1), (2, 64, 2), (4, 16, 1), (2, 8, 1)])
def test_types_of_dlpack(code, bits, lanes):
    kept = TENSOR.copy()
    TENSOR["code"], TENSOR["bits"], TENSOR["lanes"] = code, bits, lanes
    try:
        with pytest.raises((errors.Unsupported, TypeError), match=f"add, {FIRST}: Capsule of|float8|f1"):
            pk.add(Capsule(), 1)
    finally:
        TENSOR[:] = kept


# ---- In place, on a GPU ------------------------------------------------------------------------------


# The kit's function of arrays, and whether all of it stays on the GPU but for a few bytes.
SAME = {
    "add": (pk.add, True),
    "add a number": (lambda a, _: pk.add(a, 2), True),
    "less": (pk.less, True),
    "where": (lambda a, b: pk.where(pk.less(a, b), a, b), True),
    "clip": (lambda a, _: pk.clip(a, 20, 50), True),
    "round": (lambda a, _: pk.round(a, 1), True),
    "astype": (lambda a, _: pk.astype(a, np.int32), True),
    "evaluate": (lambda a, b: pk.evaluate("sqrt(a*a + b*b) / 2", {"a": a, "b": b}), True),
    "evaluate a sum": (lambda a, b: pk.evaluate("sum(a*b)", {"a": a, "b": b}), True),
    "sum": (lambda a, _: pk.sum(a), True),
    "argmax": (lambda a, _: pk.argmax(a), True),
    "cumsum": (lambda a, _: pk.cumsum(a), True),
    "interp": (lambda a, _: pk.interp(a, [0.0, 100.0], [0.0, 1.0]), True),
    "median": (lambda a, _: pk.median(a), False),
    "quantile": (lambda a, _: pk.quantile(a, [0.1, 0.7]), False),
    "diff": (lambda a, _: pk.diff(a), True),
    "divmod": (pk.divmod, True),
    "modf": (lambda a, _: pk.modf(a), True),
    "frexp": (lambda a, _: pk.frexp(a), True),
    "sort": (lambda a, _: pk.sort(a), True),
    "argsort": (lambda a, _: pk.argsort(a), True),
    "partition": (lambda a, _: pk.partition(a, 10), True),
    "digitize": (lambda a, _: pk.digitize(a, np.linspace(0, 100, 11)), True),
    "nansum": (lambda a, _: pk.nansum(a), True),
    "ptp": (lambda a, _: pk.ptp(a), True),
    "dot": (pk.dot, True),
    "take": (lambda a, _: pk.take(a, [5, 3, 8]), True),
    "allclose": (pk.allclose, True),
    "unique": (lambda a, _: pk.unique(pk.floor(a)), False),
    "histogram": (lambda a, _: pk.histogram(a, 10, (0, 100)), True),
    "histogram of an extent": (lambda a, _: pk.histogram(a, 12), True),
    "norm": (lambda a, _: pk.linalg.norm(a), True),
    "fuse": (pk.fuse(lambda x, y: (np.sqrt(x) * y, np.max(x + y))), True),
    "choice": (lambda a, _: pk.random.default_rng(1).choice(a, 10), False),
}


@on_a_gpu
@pytest.mark.parametrize("name", SAME)
def test_the_bits_of_numpys_arrays(library, name):
    call, stays = SAME[name]
    a, b = numbers(), numbers()[::-1].copy()
    want = call(a, b)
    got = call(library.up(a), library.up(b))
    wants, gots = (w if isinstance(w, tuple) else (w,) for w in (want, got))
    moved = pk.last_call().bytes_up + pk.last_call().bytes_down
    for one, other in zip(gots, wants, strict=True):
        if isinstance(other, bool):
            assert one is other
            continue
        assert type(one).__module__.split(".")[0] == library.module.__name__.split(".")[0]
        found = library.down(one)
        assert found.dtype == np.asarray(other).dtype
        assert_array_equal(found, other, strict=True)
    if stays:
        assert moved < 20_000, pk.last_call()


# What goes over the link nevertheless: counts, and what is left to choose from.
MOVES = ("median", "quantile", "percentile", "unique", "nanmedian")
# And of arrays as short as these: a mask or a copy of less than 64 KiB, and rows that are repeated.
MOVE_WHERE_SHORT = (
    *("isin", "union1d", "intersect1d", "setdiff1d", "setxor1d", "nonzero", "compress", "tril"),
    *("box_blur", "sobel", "of two types", "of columns"),
)


@on_a_gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*STAYS, *PRODUCTS])
def test_what_stays(library, name):
    call = {**STAYS, **PRODUCTS}[name]
    at_home = {key: x.copy() for key, x in ARRAYS.items()}
    there = {key: library.up(x) for key, x in ARRAYS.items()}
    with pk.engine("cpu"), np.errstate(all="ignore"):
        want = call(**at_home)
    got = call(**there)
    last = pk.last_call()
    wants, gots = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    for one, other in zip(gots, wants, strict=True):
        if isinstance(other, bool):
            assert one is other
            continue
        found = library.down(one)
        assert found.dtype == np.asarray(other).dtype
        if name in PRODUCTS or "order 3" in name:
            np.testing.assert_allclose(found, other, rtol=1e-12)
        else:
            assert_array_equal(found, other)
    for key, x in at_home.items():
        assert_array_equal(library.down(there[key]), x)
    if not any(word in name for word in MOVES + MOVE_WHERE_SHORT):
        assert last.bytes_up + last.bytes_down < 20_000, last


@on_a_gpu
def test_shuffled_where_it_lies(library):
    x = numbers(300, 90)
    for axis in (0, 1):
        there, ours = library.up(x), x.copy()
        pk.random.default_rng(3).shuffle(there, axis)
        assert pk.last_call().bytes_up + pk.last_call().bytes_down < 20_000
        pk.random.default_rng(3).shuffle(ours, axis)
        assert_array_equal(library.down(there), ours)


@on_a_gpu
def test_integers_to_negative_powers(library):
    i, k, out = (library.up(np.full(SIZE, n)) for n in (3, -1, 7))
    for call in (lambda: pk.power(i, k), lambda: pk.power(i, k, out=out), lambda: pk.power(i, -1)):
        with pytest.raises(ValueError, match=r"Integers to negative integer powers are not allowed\."):
            call()
    assert (library.down(out) == 7).all()


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32"])
def test_types(library, dtype):
    x = numbers(dtype=dtype)
    given = library.up(x)
    assert_array_equal(library.down(pk.add(given, given)), pk.add(x, x), strict=True)
    assert_array_equal(library.down(pk.max(given)), pk.max(x))


@on_a_gpu
def test_out_is_written_in_place(library):
    x = numbers()
    a, out = library.up(x), library.up(np.zeros(SIZE))
    assert pk.multiply(a, 3.0, out=out) is out
    assert pk.last_call().bytes_up == 0
    assert pk.last_call().bytes_down < 1000
    assert_array_equal(library.down(out), x * 3)
    assert pk.cumsum(a, out=out) is out
    assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
    assert_array_equal(library.down(out), pk.cumsum(x))
    assert pk.cumsum(out, out=out) is out
    assert pk.last_call().bytes_up == 0
    assert_array_equal(library.down(out), pk.cumsum(pk.cumsum(x)))
    assert pk.add(a, x, out=out) is out  # NumPy's goes up
    assert_array_equal(library.down(out), x + x)
    mask = library.up(x > 50)
    assert pk.add(a, 1.0, out=out, where=mask) is out
    assert_array_equal(library.down(out), np.where(x > 50, x + 1, x + x))
    host = np.zeros(SIZE)
    assert pk.add(a, 1.0, out=host) is host  # and comes down
    assert_array_equal(host, x + 1)
    assert pk.random.default_rng(5).random(out=out) is out
    assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
    assert_array_equal(library.down(out), pk.random.default_rng(5).random(SIZE))


@on_a_gpu
def test_nothing_is_written_by_what_is_refused(library):
    x = np.arange(4.0)
    out = library.up(x)
    for call in (
        lambda: pk.add(out, np.ones(3), out=out),
        lambda: pk.add(out, 1.5, out=library.up(np.zeros(4, np.int32))),
        lambda: pk.cumsum(out, axis=3, out=out),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert_array_equal(library.down(out), x)


@on_a_gpu
def test_writing_into_arguments(library):
    @pk.fuse
    def change(x, y):
        x[1:] = x[:-1] * 2
        y[...] = x
        x += 1
        return x

    a, b = numbers(), np.zeros(SIZE)
    up = library.up(a), library.up(b)
    assert change(*up) is up[0]
    assert pk.last_call().bytes_up == 0
    change(a, b)
    assert_array_equal(library.down(up[0]), a)
    assert_array_equal(library.down(up[1]), b)


@on_a_gpu
def test_explain(library):
    @pk.fuse
    def change(x, y):
        x *= 2
        return {"sum": np.sum(x), "both": x + y}

    a, b = numbers(), numbers()[::-1].copy()
    up, host = library.up(a), b.copy()
    plan = change.explain(up, host)
    assert (plan.engine, plan.breaks) == ("cuda", ())
    assert b.nbytes <= plan.bytes_up <= b.nbytes + 8  # and the sum, which goes to where the results lie
    assert plan.bytes_up >= sum(one.bytes_up for one in plan.passes) > 0
    assert_array_equal(library.down(up), a)
    assert change.explain(up, up).bytes_up <= 8


@on_a_gpu
def test_views(library):
    if library.module.__name__ == "numba.cuda":
        pytest.skip("its views are made by other means")
    x = numbers(300, 200)
    a = library.up(x)
    assert_array_equal(library.down(pk.add(a[::2, 3:], a[1::2, 3:])), x[::2, 3:] + x[1::2, 3:])
    assert pk.last_call().bytes_up == 0
    assert_array_equal(library.down(pk.add(a.T, 1.0)), x.T + 1)
    assert_array_equal(library.down(pk.sum(a.T, axis=0)), pk.sum(x.T, axis=0))
    pk.multiply(a[5], 2.0, out=a[5])
    x[5] *= 2
    assert_array_equal(library.down(a), x)
    pk.add(a[:-1], a[1:], out=a[1:])  # overlapping
    x[1:] = x[:-1] + x[1:]
    assert_array_equal(library.down(a), x)


@on_a_gpu
def test_matrices_and_images(library):
    x, y = numbers(120, 80), numbers(80, 90)
    np.testing.assert_allclose(library.down(pk.matmul(library.up(x), library.up(y))), x @ y, rtol=1e-12)
    assert pk.last_call().bytes_up == 0
    image = numbers(200, 300, dtype=np.float32)
    blurred = pk.image.box_blur(library.up(image), 5)
    assert_array_equal(library.down(blurred), pk.image.box_blur(image, 5))


@on_a_gpu
def test_empty_and_single_elements(library):
    assert library.down(pk.add(library.up(np.zeros((0, 3))), 1)).shape == (0, 3)
    assert library.down(pk.sqrt(library.up(np.array(4.0)))) == 2.0
    assert library.down(pk.sum(library.up(np.zeros(0)))) == 0.0


@on_a_gpu
def test_threads(library):
    x = numbers()
    a, wrong = library.up(x), []

    def work(k):
        with pk.engine("cuda"):
            for _ in range(5):
                got = library.down(pk.evaluate("a * k + 1", {"a": a, "k": float(k)}))
                if not (got == x * float(k) + 1).all():
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@on_a_gpu
def test_two_libraries():
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    x = numbers()
    with pk.engine("cuda"):
        a, b = cupy.asarray(x), torch.tensor(x, device="cuda")
        assert type(pk.add(a, b)) is cupy.ndarray
        assert type(pk.add(b, a)) is torch.Tensor


@on_a_gpu
def test_the_streams_order():
    """What is queued before a call is done before it reads."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("a stand-in has no streams")
    size = 1 << 24
    with pk.engine("cuda"):
        for _ in range(5):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                a = cupy.zeros(size)
                for _ in range(200):
                    a += 1
                got = pk.add(a, 1.0)
                a -= 200
            stream.synchronize()
            assert (cupy.asnumpy(got) == 201).all()


@on_a_gpu
def test_memory_goes_back():
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "get_default_memory_pool"):
        pytest.skip("a stand-in has no pool")
    pool = cupy.get_default_memory_pool()
    with pk.engine("cuda"):
        a = cupy.asarray(numbers())
        pk.add(a, 1.0)
        gc.collect()
        before = pool.used_bytes()
        for _ in range(20):
            pk.cumsum(pk.add(a, 1.0))
        gc.collect()
        assert pool.used_bytes() == before


@on_a_gpu
def test_what_lies_on_no_device():
    with pk.engine("cuda"), pytest.raises(errors.InvalidArgument, match="memory of a device"):
        pk.add(Held(data=(OUT.ctypes.data, False)), 1.0)
    assert (OUT == 7).all()


@on_a_gpu
def test_jax_gives_numpys_arrays():
    jax = pytest.importorskip("jax")
    x = numbers(dtype=np.float32)
    try:
        a = jax.device_put(x, jax.devices("gpu")[0])
    except RuntimeError:
        pytest.skip("JAX has no GPU")
    with pk.engine("cuda"):
        got = pk.add(a, np.float32(1))
    assert type(got) is np.ndarray
    assert_array_equal(got, x + np.float32(1))


# ---- Calls that are queued -----------------------------------------------------------------------------

ROW, COLUMN = np.arange(1.0, 71), np.arange(60.0)[:, None]
QUEUED = {
    "broadcast": lambda up: pk.multiply(up(ROW), up(COLUMN)),
    "a number first": lambda up: pk.subtract(2, up(ROW)),
    "integers and a float": lambda up: pk.add(up(np.arange(70)), 0.5),
    "of two types": lambda up: pk.power(up(ROW.astype(np.float32)), up(np.arange(70, dtype=np.int16) % 3)),
    "float16": lambda up: pk.sqrt(up(ROW.astype(np.float16))),
    "one element": lambda up: pk.add(up(np.array(2.0)), up(ROW)),
    "where": lambda up: pk.where(up(ROW > 9), up(ROW), 0.0),
    "into another type": lambda up: pk.add(up(ROW), 1.0, out=up(np.zeros(70, np.float32))),
    "into what broadcasts": lambda up: pk.add(up(ROW), up(COLUMN), out=up(np.zeros((60, 70)))),
    "expression": lambda up: pk.evaluate("(a - b)**2 / 3 + sin(a)", {"a": up(ROW), "b": up(COLUMN)}),
    "expression with numbers": lambda up: pk.evaluate("x if x > k else -x", {"x": up(ROW), "k": 30}),
}


@on_a_gpu
@pytest.mark.parametrize("name", QUEUED)
def test_queued(library, name):
    want = QUEUED[name](np.array)
    for _ in range(2):  # the second time, what is prepared is known
        got = QUEUED[name](library.up)
        assert_array_equal(library.down(got), want, strict=True)
    assert (pk.last_call().engine, pk.last_call().bytes_up, pk.last_call().bytes_down) == ("cuda", 0, 0)


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (1000,), (37, 27), (70_001,), (3, 5, 64), (1 << 20,)])
def test_sorted_where_they_lie(library, shape, dtype):
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 0] = rng.choice([0.0, -0.0], np.count_nonzero(x == 0))  # which stay in their order
        x.reshape(-1)[::7], x.reshape(-1)[3::14] = np.nan, -np.nan
    a = library.up(x)
    for axis in (-1, None):
        got = library.down(pk.sort(a, axis))
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
        exact = x.astype(np.float32) if dtype == "float16" else x  # which NumPy 2.4 sorts wrongly
        want = np.sort(exact, axis, kind="stable").astype(dtype)
        assert_array_equal(got, want, strict=True)
        if x.dtype.kind == "f":
            known = ~np.isnan(want)
            assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])
        order = library.down(pk.argsort(a, axis))
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
        assert_array_equal(order, np.argsort(exact, axis, kind="stable"), strict=True)
    assert_array_equal(library.down(a), x)
    assert_array_equal(library.down(pk.sort(a, descending=True)), pk.sort(x, descending=True))


@on_a_gpu
@pytest.mark.parametrize(
    "parts", [(1, 0, 0), (0, 0, 1), (5000, 3, 0), (3, 5000, 4), (0, 70_000, 0), (1, 0, 1)]
)
def test_nan_of_either_sign_comes_last(library, parts):
    negative, numbers, positive = parts
    rng = np.random.default_rng(2)
    x = np.concatenate([np.full(negative, -np.nan), rng.standard_normal(numbers), np.full(positive, np.nan)])
    x = rng.permutation(x.astype(np.float32))
    got = library.down(pk.sort(library.up(x)))
    assert_array_equal(got[:numbers], np.sort(x[~np.isnan(x)]), strict=True)
    assert (got[numbers:].view(np.uint32) == 0x7FC00000).all()


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1,), (1000,), (5_000_003,), (37, 2700), (3, 5000, 64), (2100, 3), (4, 3000, 1100)]
)
def test_reduced_where_they_lie(library, shape, dtype):
    """Bits are those of arrays on the host: partials are joined in one order."""
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f" and x.size > 1000:
        x.reshape(-1)[77] = np.nan if x.size > 10_000 and len(shape) == 2 else x.dtype.type(-0.0)
    a = library.up(x)
    names = ["sum", "prod", "min", "max", "mean", "argmin", "argmax", "any", "all"]
    names += ["var", "std"] if dtype != "bool" else []
    for name in names:
        for axis in (None, *range(len(shape))):
            with np.errstate(all="ignore"), pk.engine("cpu"):
                want = getattr(pk, name)(x, axis)
            got = getattr(pk, name)(a, axis)
            assert type(got).__module__.split(".")[0] == library.module.__name__.split(".")[0]
            assert_array_equal(library.down(got), want, strict=False, err_msg=f"{name} {axis}")
            assert library.down(got).dtype == np.asarray(want).dtype
    pk.sum(a)
    if x.dtype.kind == "f":
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)


SCANS = ["cumsum", "cumprod", "cummax", "cummin", "exclusive_scan", "nancumsum"]


@on_a_gpu
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (1000,), (300_007,), (37, 2700), (3, 5000, 64), (2100, 3)])
def test_scanned_where_they_lie(library, shape, dtype):
    """Bits are those of the CPU engine, and nothing goes over the link."""
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    a = library.up(x)
    for name in SCANS:
        for axis in (None, *range(len(shape))):
            with np.errstate(all="ignore"), pk.engine("cpu"):
                want = getattr(pk, name)(x, axis)
            got = getattr(pk, name)(a, axis)
            assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
            assert_array_equal(library.down(got), want, strict=True, err_msg=f"{name} {axis}")


@on_a_gpu
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_long_scans_where_they_lie(library, dtype):
    """They go in pieces, of which one thread finds what runs before each part."""
    x = (np.random.default_rng(2).standard_normal(20_000_123) * 50).astype(dtype)
    if dtype == "float64":
        x[11_000_000] = np.inf
    a = library.up(x)
    for name in ("cumsum", "cummax", "exclusive_scan"):
        with np.errstate(all="ignore"), pk.engine("cpu"):
            want = getattr(pk, name)(x)
        for _ in range(3):
            got = getattr(pk, name)(a)
        assert_array_equal(library.down(got), want, strict=True, err_msg=name)
    assert_array_equal(library.down(a), x)


@on_a_gpu
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorted_along_any_axis(library, axis):
    x = np.random.default_rng(1).standard_normal((90, 70, 20)).astype(np.float32)
    a = library.up(x)
    assert_array_equal(library.down(pk.sort(a, axis)), np.sort(x, axis))
    assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
    assert_array_equal(library.down(pk.argsort(a, axis)), np.argsort(x, axis, kind="stable"))


@on_a_gpu
def test_reductions_and_scans_are_captured():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a = torch.ones(20_000_000, device="cuda")
        pk.sum(a), pk.cumsum(a)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total, running = pk.sum(a), pk.cumsum(a)
        a.fill_(2.0)
        graph.replay()
        torch.cuda.synchronize()
        assert total.item() == 40_000_000
        assert running[-1].item() == 40_000_000
        assert running[9].item() == 20


@on_a_gpu
@pytest.mark.parametrize("name", ["sum", "cumsum", "fuse"])
def test_what_else_is_queued(name):
    """Nothing waits for the host: a stream that is held up holds no call up."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("a stand-in has no streams")
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Event()
    call = {"sum": pk.sum, "cumsum": pk.cumsum, "fuse": pk.fuse(lambda x: x * 2 + 1)}[name]
    with pk.engine("cuda"), stream:
        a = cupy.ones(100_000)
        want = cupy.asnumpy(call(a))
        stream.synchronize()
        stream.launch_host_func(lambda _: gate.wait(20), None)  # until which all that is queued waits
        got = call(a)
        assert not stream.done
        gate.set()
        assert (cupy.asnumpy(got) == want).all()


@on_a_gpu
def test_queued_passes_are_compiled(library):
    """The bits stay, when the compiled pass takes the interpreter's place."""
    x = np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32)
    a = library.up(x)
    want = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": x})
    for _ in range(40):
        got = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": a})
    compiled.wait()
    again = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": a})
    assert_array_equal(library.down(got), want)
    assert_array_equal(library.down(again), want)


@on_a_gpu
@pytest.mark.parametrize("call", [lambda a: pk.add(a, 1.0), pk.sum, pk.cumsum], ids=["add", "sum", "cumsum"])
@pytest.mark.parametrize("waits", [False, True])
def test_nothing_waits_for_the_host(waits, call):
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("a stand-in has no streams")
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Event()
    with pk.engine("cuda", wait=waits), stream:
        a = cupy.ones(1000)
        want = cupy.asnumpy(call(a))
        stream.synchronize()
        stream.launch_host_func(lambda _: gate.wait(20), None)  # until which all that is queued waits
        if waits:
            threading.Timer(0.2, gate.set).start()
        got = call(a)
        assert gate.is_set() == waits
        assert waits or not stream.done
        gate.set()
        assert (cupy.asnumpy(got) == want).all()


@on_a_gpu
def test_the_order_in_pytorchs_streams():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        for function in (pk.add, pk.cumsum):  # one is queued, the other waits
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                a = torch.zeros(1 << 24, device="cuda")
                for _ in range(300):
                    a += 1
                got = function(a, 1.0) if function is pk.add else function(a)
                a -= 300
            stream.synchronize()
            assert got[0].item() == (301 if function is pk.add else 300)
            assert got[-1].item() == (301 if function is pk.add else 300 * 2.0**24)


@on_a_gpu
def test_captured_in_a_graph():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a, b = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
        pk.add(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = pk.multiply(pk.add(a, b), 3.0)
        a.fill_(4.0)
        graph.replay()
        torch.cuda.synchronize()
        assert (c == 15).all()


@on_a_gpu
def test_the_hosts_memory_is_refused():
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("a stand-in has no memory of its own")
    pinned = cupy.cuda.alloc_pinned_memory(800)
    memory = cupy.cuda.UnownedMemory(pinned.ptr, 800, pinned, 0)
    a = cupy.ndarray((100,), memptr=cupy.cuda.MemoryPointer(memory, 0))
    with pk.engine("cuda"), pytest.raises(errors.InvalidArgument, match="memory of a device"):
        pk.add(a, 1.0)
