"""Other libraries' device arrays: read and written in place, or rejected with a remedy."""

import gc

import numpy as np
import pytest
from helpers.calls_on_device import PRODUCTS, STAYS, arrays_of, parts_of
from helpers.device_arrays import SIZE, TENSOR, Capsule, Held, numbers, on_a_gpu
from helpers.numpy_versions import has_numpy
from helpers.threads import run_in_threads
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors

# ---- Refusals, which need no GPU ---------------------------------------------------------------------

FIRST = "x1" if has_numpy("2.4") else "argument 1"  # NumPy's ufuncs have parameter names since then


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
    with pk.engine("cpu"), pytest.raises(errors.Unsupported, match=f"copy it to the host first, by {way}$"):
        pk.add(made(), 1)


REFUSED = {
    "newer": ({"version": 4}, errors.InvalidArgument, "of version 4; pycudakit reads versions up to 3"),
    "no version": ({"version": None}, errors.InvalidArgument, "has no 'version'"),
    "version in words": ({"version": "3"}, errors.InvalidArgument, "of version '3'"),
    "no shape": ({"shape": None}, errors.InvalidArgument, "has no 'shape'"),
    "negative": ({"shape": (-1,)}, errors.InvalidArgument, r"has the shape \(-1,\)"),
    "no sizes": ({"shape": (3.0,)}, errors.InvalidArgument, r"has the shape \(3\.0,\)"),
    "unknown type": ({"typestr": "<q9"}, errors.InvalidArgument, "typestr '<q9', which NumPy does not know"),
    "no type": ({"typestr": None}, errors.InvalidArgument, "has no 'typestr'"),
    "a number as type": ({"typestr": 5}, errors.InvalidArgument, "typestr 5, which NumPy does not know"),
    "stream below 0": ({"stream": -1}, errors.InvalidArgument, "has the stream -1; it is None, 1, 2 or"),
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
def test_arrays_that_cannot_be_used(case):
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


def test_an_array_whose_library_has_no_gpu_either():
    class Homeless(Capsule):
        def __dlpack__(self, **_):
            raise RuntimeError("CUDA driver not found")

    for name in ("cpu",) if pk.engines()["cuda"] else ("cpu", "auto"):
        with pk.engine(name), pytest.raises(errors.Unsupported, match="Homeless is on a GPU"):
            pk.add(Homeless(), 1)


def test_array_whose_interface_raises():
    class Gone:
        @property
        def __cuda_array_interface__(self):
            raise AttributeError("freed")

    for name in ("cpu", "auto"):
        with pk.engine(name), pytest.raises(errors.InvalidArgument, match=r"Gone .*its memory been freed"):
            pk.add(Gone(), 1)


@pytest.mark.parametrize(
    ("code", "bits", "lanes"), [(5, 64, 1), (2, 64, 2), (4, 16, 1), (2, 8, 1), (6, 32, 1)]
)
def test_types_of_dlpack(code, bits, lanes):
    kept = TENSOR.copy()
    TENSOR["code"], TENSOR["bits"], TENSOR["lanes"] = code, bits, lanes
    try:
        with pytest.raises(errors.Unsupported, match=rf"add, {FIRST}: Capsule of DLPack's type {code}, of"):
            pk.add(Capsule(), 1)
    finally:
        TENSOR[:] = kept


# ---- In place, on a GPU ------------------------------------------------------------------------------


# A call on arrays, and whether all of it stays on the GPU but for a few bytes.
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
    wants, gots = map(parts_of, (want, got))
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


# Exceptions that move over the link: counts, candidates of a selection, host arrays, repeated rows of such,
# and intermediates of less than 64 KiB.
MOVES = ("median", "quantile", "percentile", "of many bins", "by the host", "tril", "of few", "of long rows")


@on_a_gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*STAYS, *PRODUCTS])
def test_arrays_that_stay(library, name):
    call = {**STAYS, **PRODUCTS}[name]
    on_host = arrays_of(call)
    there = {key: library.up(x) for key, x in on_host.items()}
    with pk.engine("cpu"), np.errstate(all="ignore"):
        want = call(**on_host)
    got = call(**there)
    last = pk.last_call()
    wants, gots = map(parts_of, (want, got))
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
    for key, x in on_host.items():
        assert_array_equal(library.down(there[key]), x)
    if not any(word in name for word in MOVES):
        assert last.bytes_up + last.bytes_down < 40_000, last


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
    assert pk.add(a, x, out=out) is out  # the host array is uploaded
    assert_array_equal(library.down(out), x + x)
    mask = library.up(x > 50)
    assert pk.add(a, 1.0, out=out, where=mask) is out
    assert_array_equal(library.down(out), np.where(x > 50, x + 1, x + x))
    host = np.zeros(SIZE)
    assert pk.add(a, 1.0, out=host) is host  # the result is downloaded
    assert_array_equal(host, x + 1)
    assert pk.random.default_rng(5).random(out=out) is out
    assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (0, 0)
    assert_array_equal(library.down(out), pk.random.default_rng(5).random(SIZE))


@on_a_gpu
def test_refused_calls_write_nothing(library):
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
    assert b.nbytes <= plan.bytes_up <= b.nbytes + 8  # and the sum, which is uploaded to the result buffer
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

    run_in_threads(work, range(32))
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
    """Work enqueued before a call is done before it reads."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
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
        pytest.skip("the fake GPU has no pool")
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
def test_host_address_in_a_device_array():
    with (
        pk.engine("cuda"),
        pytest.raises(errors.InvalidArgument, match="is not in memory of a device, or has been freed"),
    ):
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


@on_a_gpu
def test_the_hosts_memory_is_refused():
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no memory of its own")
    pinned = cupy.cuda.alloc_pinned_memory(800)
    memory = cupy.cuda.UnownedMemory(pinned.ptr, 800, pinned, 0)
    a = cupy.ndarray((100,), memptr=cupy.cuda.MemoryPointer(memory, 0))
    with pk.engine("cuda"), pytest.raises(errors.InvalidArgument, match="memory of a device"):
        pk.add(a, 1.0)
