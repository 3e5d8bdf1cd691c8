"""The allocator of large results: they are ordinary arrays, and the memory of freed ones is reused."""

import ctypes
import gc
import os
import tracemalloc

import numpy as np
import pytest
from helpers.fake_library import settle
from helpers.processes import ENDS, ends_well, failure, python
from helpers.threads import run_in_threads
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import allocator

get_handler_name = (
    np._core.multiarray.get_handler_name
)  # NumPy's only function that shows an array's allocator

N = 1 << 19
X = np.random.default_rng(0).random(N)
PICTURE = np.arange(2048 * 1024, dtype=np.uint8).reshape(1024, 2048)

CALLS = {
    "add": lambda: pk.add(X, 1),
    "a dtype": lambda: pk.add(X, X, dtype=np.float32, casting="same_kind"),
    "in the operands' order": lambda: pk.add(X.reshape(512, -1).T, 1),
    "evaluate": lambda: pk.evaluate("a * b + 1", {"a": X, "b": X}),
    "astype": lambda: pk.astype(X, ">f8"),
    "sum of rows": lambda: pk.sum(X.reshape(-1, 2), axis=1),
    "cumsum": lambda: pk.cumsum(X),
    "sort": lambda: pk.sort(X),
    "argsort": lambda: pk.argsort(X),
    "digitize": lambda: pk.digitize(X, [0.2, 0.5]),
    "matmul": lambda: pk.matmul(X[:1024].reshape(512, 2), X[:1024].reshape(2, 512)),
    "transpose": lambda: pk.transpose(X.reshape(512, -1)),
    "roll": lambda: pk.roll(X, 1),
    "tril": lambda: pk.tril(X.reshape(512, -1)),
    "interp": lambda: pk.interp(X, [0, 1], [1, 2]),
    "random": lambda: pk.random.default_rng(0).random(N),
    "gray_to_rgb": lambda: pk.image.gray_to_rgb(PICTURE),
    "box_blur": lambda: pk.image.box_blur(PICTURE, 3),
    "resize": lambda: pk.image.resize(PICTURE, (2048, 1024)),
    "threshold": lambda: pk.image.threshold(PICTURE, 9),
}


@pytest.fixture(scope="module", autouse=True)
def _settled():
    """Free the objects of other modules' tests, so that the collections below take no second each."""
    gc.collect()
    settle()


@pytest.fixture(autouse=True)
def _from_small_ones_on(monkeypatch):
    monkeypatch.setattr(allocator, "MIN_BYTES", 1 << 20)
    gc.collect()  # frees results of earlier tests now, not during the test
    pk.release()


@pytest.mark.parametrize("call", CALLS)
def test_is_an_ordinary_array(engine, call):
    first = CALLS[call]()
    owner = first if first.base is None else first.base
    assert get_handler_name(owner) == "pycudakit"
    assert type(first) is type(owner) is np.ndarray
    assert owner.flags.owndata
    assert first.flags.writeable
    assert first.flags.aligned
    address, want = first.ctypes.data, first.copy()
    first[...] = 77  # must not be visible in a later result
    del first, owner
    again = CALLS[call]()
    assert again.ctypes.data == address
    np.testing.assert_array_equal(again, want)


def test_as_the_output_of_a_program(engine):
    program = pk.Program()
    out = program.output("y", N, np.float64)
    fill = pk.SourceModule(
        "__global__ void fill(double *x, int n) { x[blockIdx.x * 256 + threadIdx.x] = n; }"
    )
    program.launch(fill.get_function("fill"), out, np.int32(5), block=256, grid=N // 256)
    assert get_handler_name(program()["y"]) == "pycudakit"


def test_small_results_are_numpys(engine):
    small = pk.add(X[:100], 1)
    assert get_handler_name(small) == get_handler_name(np.empty(3))
    del small
    assert pk.memory_info().results_kept == 0


def test_kept_memory(engine):
    results = [pk.add(X[:n], 1) for n in (N, N, N - 5000)]
    addresses = [r.ctypes.data for r in results]
    assert len(set(addresses)) == 3
    assert pk.memory_info().results_kept == 0
    del results
    kept = pk.memory_info().results_kept
    assert 3 * 8 * N - 48_000 <= kept <= 3 * 8 * N
    smallest = pk.add(X[: N - 5000], 1)
    assert smallest.ctypes.data == addresses[2]  # the best fit
    assert pk.memory_info().results_kept == kept - room_of(N - 5000)
    much_smaller = pk.add(X[: N // 2], 1)
    assert much_smaller.ctypes.data not in addresses  # reuse would waste more than half of the block
    pk.release()
    assert pk.memory_info().results_kept == 0
    np.testing.assert_array_equal(smallest, X[: N - 5000] + 1)


def room_of(elements):
    page = os.sysconf("SC_PAGESIZE")
    return -(-elements * 8 // page) * page


@pytest.mark.parametrize("size", [1, N // 2, N - 100, N, 2 * N, 40 * N])
def test_resized_in_place(engine, size):
    array = pk.add(X, 1)
    array.resize(size, refcheck=False)
    kept = min(size, N)
    np.testing.assert_array_equal(array[:kept], X[:kept] + 1)
    assert not array[kept:].any()
    assert array.flags.owndata
    array[...] = 3  # all of it can be written
    del array
    rooms = [8 * N] if size in (N - 100, N) else [8 * N, 8 * size]
    assert pk.memory_info().results_kept == sum(room for room in rooms if room >= 1 << 20)


class Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler, as NEP 49 defines it."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    )


@pytest.mark.parametrize("size", [0, 1, 3 << 20])
def test_memory_from_a_null_pointer(engine, size):
    """The function for realloc() allocates if there is no memory to resize, none of it too."""
    address = ctypes.c_uint64()
    allocator.library().pk_result_allocator(ctypes.byref(address))
    handler = Handler.from_address(address.value)
    assert handler.name == b"pycudakit"
    resize = ctypes.CFUNCTYPE(*[ctypes.c_void_p] * 3, ctypes.c_size_t)(handler.realloc)
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(handler.free)
    memory = resize(None, None, size)
    assert memory is not None
    ctypes.memset(memory, 1, size)
    free(None, memory, size)


@given(data=st.data())
def test_any_sizes_in_any_order(engine, data):
    """Random allocations and frees: no two live blocks overlap."""
    alive = {}
    for step in range(20):
        if alive and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(sorted(alive)))
            array = alive.pop(key)
            assert (array == key).all()
            del array
        size = data.draw(st.sampled_from([1 << 20, (1 << 20) + 1, 3 << 20, (4 << 20) - 1, 4 << 20, 9 << 20]))
        alive[step] = allocator.empty(size, np.uint8)
        alive[step][...] = step
    for key, array in alive.items():
        assert (array == key).all()


def test_numpys_own_handler_comes_back(engine):
    handlers = allocator._handlers()
    CALLS["add"]()
    assert handlers.get() is handlers.default
    with pytest.raises(MemoryError):
        allocator.empty(1 << 55, np.uint8)
    assert handlers.get() is handlers.default
    assert get_handler_name(np.empty(N)) != "pycudakit"


def test_a_handler_of_the_users_is_left_alone(engine):
    handlers = allocator._handlers()
    theirs = handlers.pooled
    handlers.set(theirs)
    try:
        CALLS["add"]()
        assert handlers.get() is theirs
    finally:
        handlers.set(handlers.default)


def test_no_memory_is_numpys_error(engine):
    big = np.broadcast_to(np.float64(1), 1 << 50)
    with pytest.raises(MemoryError, match="Unable to allocate"):
        pk.add(big, 1)


def test_tracemalloc_sees_it(engine):
    CALLS["add"]()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        array = CALLS["add"]()
        assert tracemalloc.get_traced_memory()[0] - before >= array.nbytes
    finally:
        tracemalloc.stop()


def test_from_many_threads(engine):
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).random(N // 2 + seed * 1000)
        for turn in range(8):
            first, second = pk.add(x, turn), pk.multiply(x, turn)
            if not ((first == x + turn).all() and (second == x * turn).all()):
                wrong.append((seed, turn))

    run_in_threads(work, range(6))
    assert wrong == []


BUDGETED = """
import pycudakit as pk
pk.set_engine("cpu")
for n in (1 << 22, 1 << 23, 1 << 24, 1 << 22):
    pk.add(np.ones(n), 1)  # 32, 64, 128 and 32 MiB
info = pk.memory_info()
print(info.results_kept >> 20, info.results_budget)
"""


@pytest.mark.parametrize(
    ("budget", "printed"),
    [("0", "0 0"), ("48M", f"32 {48 << 20}"), ("112M", f"96 {112 << 20}"), ("1G", f"224 {1 << 30}")],
)
def test_budget(budget, printed):
    """Memory beyond the budget is freed at once, the oldest first."""
    assert python(BUDGETED, env={"PYCUDAKIT_RESULT_MEMORY": budget}) == printed


@pytest.mark.parametrize("value", ["much", "12Q", "-1G", "nan"])
def test_budgets_that_cannot_be(value):
    kind, message = failure(
        "pk.set_engine('cpu'); pk.add(np.ones(1 << 22), 1)", env={"PYCUDAKIT_RESULT_MEMORY": value}
    )
    assert kind is errors.InvalidArgument
    assert f"PYCUDAKIT_RESULT_MEMORY is '{value}'; set it to bytes, as 512M or 2G" in message


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_in_a_forked_child():
    code = """
import pycudakit as pk
pk.set_engine("cpu")
a, b = pk.add(np.ones(1 << 22), 1), pk.add(np.ones(1 << 22), 2)
del b
child = os.fork()
if child == 0:
    c = pk.add(np.ones(1 << 22), 3)
    right = (a == 2).all() and (c == 4).all()
    del a, c
    pk.release()
    os._exit(0 if right else 1)
status = os.waitpid(child, 0)[1]
c = pk.add(np.ones(1 << 22), 4)
print(os.waitstatus_to_exitcode(status), (a == 2).all(), (c == 5).all())
"""
    assert python(code) == "0 True True"


@pytest.mark.parametrize("end", ENDS)
def test_at_the_end_of_the_process(end):
    ends_well("pk.add(np.ones(1 << 22), 1)", end)


def test_without_any_library(tmp_path):
    code = "import pycudakit as pk\nprint(pk.add(np.ones(1 << 22), 1)[0], pk.memory_info().results_budget)"
    assert python(code, env={"PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}) == "2.0 0"


OWNED = {
    "sort": lambda m, x: m.sort(x),
    "sort of bools": lambda m, x: m.sort(x > 5),
    "argsort": lambda m, x: m.argsort(x.reshape(4, 6)),
    "partition": lambda m, x: m.partition(x.reshape(4, 6), 2),
    "take_along_axis": lambda m, x: m.take_along_axis(x.reshape(4, 6), np.argsort(x.reshape(4, 6)), 1),
    "unique": lambda m, x: m.unique(x),
    "bincount": lambda m, x: m.bincount(x.astype(int)),
    "histogram": lambda m, x: m.histogram(x)[0],
    "histogram of integers": lambda m, x: m.histogram(x.astype(int), [0, 3, 9])[0],
    "weighted": lambda m, x: m.histogram(x, [0, 3, 9], weights=x.astype(int))[0],
    "digitize": lambda m, x: m.digitize(x, [3.0, 5.0]),
    "dot": lambda m, x: m.dot(x.reshape(4, 6), x.reshape(6, 4)),
    "dot with a vector": lambda m, x: m.dot(x.reshape(4, 6), x[:6]),
    "dot of stacks": lambda m, x: m.dot(x.reshape(2, 2, 6), x.reshape(2, 6, 2)),
    "inner": lambda m, x: m.inner(x.reshape(4, 6), x.reshape(4, 6)),
    "einsum": lambda m, x: m.einsum("ijk,lk->ijl", x.reshape(2, 2, 6), x.reshape(4, 6)),
}


@pytest.mark.parametrize("name", OWNED)
def test_results_own_their_memory_as_numpys_do(engine, name):
    x = np.arange(24.0)[::-1].copy()
    got, want = OWNED[name](pk, x), OWNED[name](np, x)
    assert want.flags.owndata
    assert got.flags.owndata
    assert got.base is None
    np.testing.assert_array_equal(got, want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
