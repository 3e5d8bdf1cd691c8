"""The pipeline: operands of any layout, chunk boundaries, memory budgets, and other CUDA libraries."""

import contextlib
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._element_programs.values import operations
from pycudakit._native import abi, loader

HERE = pk.engines()["cuda"].available
needs_gpu = pytest.mark.skipif(not HERE, reason="needs a GPU")

ROWS, COLUMNS = 301, 403
RNG = np.random.default_rng(0)
DENSE = RNG.random((ROWS, COLUMNS), np.float32)


def small_chunks(engine, **constants):
    """Set the smallest slots, so that calls of some hundred KB take many chunks."""
    if engine != "cuda":
        return contextlib.nullcontext()
    usual = {
        "chunk_bytes": 256 << 10,
        "device_bytes": 512 << 10,
        "smallest_chunk": 8 << 10,
        "worth_a_thread": 1 << 14,
    }
    return pk.tuned(**{**usual, **constants})


LAYOUTS = {
    "contiguous": lambda a: a.copy(),
    "every second": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "transposed and reversed": lambda a: np.ascontiguousarray(a.T[::-1, ::-1]).T[::-1, ::-1],
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": lambda a: np.frombuffer(b"." + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    "pinned": pk.pinned_copy,
}
REPEATED = {
    "row": lambda a: a[:1],
    "column": lambda a: a[:, :1].copy(),
    "one": lambda a: a[0, 0].reshape(1, 1),
    "vector": lambda a: a[3],
    "strided row": lambda a: np.repeat(a[:1], 3, axis=1)[:, ::3],
}


@pytest.mark.parametrize("in_place", [0, 1 << 20])
@pytest.mark.parametrize("other", [*LAYOUTS, *REPEATED])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(engine, layout, other, in_place):
    a = LAYOUTS[layout](DENSE)
    b = {**LAYOUTS, **REPEATED}[other](DENSE * 2)
    with small_chunks(engine, in_place_bytes=in_place):
        assert np.array_equal(pk.subtract(a, b), np.subtract(a, b))


@pytest.mark.smoke
@pytest.mark.parametrize("in_place", [0, 1 << 20])
def test_each_layout_once(engine, in_place):
    operands = [make(DENSE) for make in [*LAYOUTS.values(), *REPEATED.values()]]
    terms = [f"x{i}" for i in range(len(operands))]
    with small_chunks(engine, in_place_bytes=in_place):
        got = pk.evaluate(" - ".join(terms), dict(zip(terms, operands, strict=True)))
    expected = operands[0].astype(np.float32)
    for operand in operands[1:]:
        expected = expected - operand
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("byte-swapped", "unaligned")])
def test_outputs(engine, layout):
    out = LAYOUTS[layout](DENSE)
    with small_chunks(engine, in_place_bytes=0):
        assert pk.multiply(DENSE, DENSE.T.copy().T, out=out) is out
    assert np.array_equal(out, DENSE * DENSE)


@given(
    size=st.integers(0, 40_000),
    chunk=st.sampled_from([1, 64 * 12, 1000 * 12, 8 << 10]),
    threads=st.integers(1, 5),
    slots=st.integers(1, 4),
    in_place=st.sampled_from([0, 4096, 1 << 20]),
    walk=st.sampled_from([4096, 32 << 10, 512 << 10]),
)
def test_any_cut_gives_the_same(engine, size, chunk, threads, slots, in_place, walk):
    a, b = (np.arange(size, dtype=np.int32) * k for k in (3, 7))
    constants = {
        "smallest_chunk": chunk,
        "threads": threads,
        "slots": slots,
        "in_place_bytes": in_place,
        "walk_bytes": walk,
    }
    with pk.engine(engine), small_chunks(engine, **constants):
        assert np.array_equal(pk.evaluate("a * b - a", {"a": a, "b": b}), a * b - a)
        assert pk.sum(a) == a.sum()


@needs_gpu
@pytest.mark.smoke
def test_operands_read_once_stay_in_pinned_memory():
    """Operands that are read once are read from pinned memory, in chunks below the usual 256 KiB."""
    values = RNG.random((2048, 2048), np.float32)
    nbytes, small = values.nbytes, 64 << 10

    def stays(moved, call, *operands, **constants):
        with pk.engine("cuda"), pk.tuned(in_place_bytes=small, **constants):
            call(*operands)
        told = pk.last_call()
        assert told.bytes_up + told.bytes_down >= moved
        return told.chunks >= moved // small

    assert stays(nbytes, pk.sum, values)
    assert stays(nbytes, pk.sum, values, walk_both_ways=0)
    assert stays(3 * nbytes, pk.add, values, values[::-1], walk_both_ways=3 * nbytes)
    assert not stays(3 * nbytes, pk.add, values, values[::-1], walk_both_ways=3 * nbytes - 1)

    others = {
        "by columns": (nbytes, lambda: pk.sum(values, axis=0)),
        "short rows": (nbytes, lambda: pk.sum(values.reshape(-1, 16), axis=1)),
        "narrow": (nbytes, lambda: pk.add(values.astype(np.float16), np.float16(1))),
        "transposed": (2 * nbytes, lambda: pk.negative(values.T, out=np.empty_like(values))),
    }
    for name, (moved, call) in others.items():
        assert not stays(moved, call), name


@needs_gpu
def test_chunks_in_pinned_memory_take_no_device_memory():
    values = RNG.random(1 << 20, np.float32)
    pk.release()
    with pk.engine("cuda"):
        pk.sum(values)
    taken = pk.memory_info()
    assert taken.device_bytes == 0 < taken.pinned_bytes
    assert np.allclose(pk.sum(values), values.sum())


@pytest.mark.parametrize(
    "dtype", [pytest.param("uint8", marks=pytest.mark.smoke), "float32", *thorough("int16", "float64", ">f4")]
)
@pytest.mark.parametrize("shape", [(1100, 4800), (7, 240, 3300), (2900, 3, 700)])
def test_large_transposed_operands(engine, shape, dtype):
    whole = np.arange(np.prod(shape), dtype=np.int64) % 251
    plain = whole.reshape(shape).astype(dtype)
    stored = np.ascontiguousarray(np.swapaxes(plain, -1, -2))
    with small_chunks(engine):
        np.testing.assert_array_equal(pk.add(stored.swapaxes(-1, -2), plain), plain + plain)
        np.testing.assert_array_equal(pk.swapaxes(stored, -1, -2), plain)
        np.testing.assert_array_equal(pk.negative(stored.T), -np.ascontiguousarray(stored.T))


@pytest.mark.smoke
def test_broadcast_in_four_dimensions(engine):
    a = RNG.random((5, 40, 3, 70))
    for shape in ((1, 40, 1, 70), (5, 1, 3, 1), (40, 1, 1), (1, 1, 3, 70), (70,)):
        b = RNG.random(shape)
        with small_chunks(engine, in_place_bytes=0):
            assert np.array_equal(pk.add(a, b), a + b)
            turned = a.transpose(2, 0, 3, 1)
            assert np.array_equal(pk.add(turned, turned[:1]), turned + turned[:1])


@needs_gpu
def test_broadcast_operands_are_uploaded_once():
    a, row = RNG.random((2000, 3000), np.float32), RNG.random(3000, np.float32)
    column, number = RNG.random((2000, 1), np.float32), np.float32(3)
    for b in (row, column, number, np.broadcast_to(row, a.shape)):
        with pk.engine("cuda"):
            assert np.array_equal(pk.add(a, b), a + b)
        once = a.nbytes + (
            0 if np.ndim(b) == 0 else min(np.asarray(b).nbytes, max(row.nbytes, column.nbytes))
        )
        assert pk.last_call().bytes_up <= once + 4096
        assert pk.last_call().bytes_down <= a.nbytes + 4096 * pk.last_call().chunks
    with pk.engine("cuda"):
        assert np.array_equal(pk.multiply(column, row), column * row)
    assert pk.last_call().bytes_up <= column.nbytes + row.nbytes + 4096


def python(code, **variables):
    """Run a Python program; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@needs_gpu
def test_memory_stays_within_the_budgets():
    printed = python(
        """
        import numpy as np, pycudakit as pk
        def resident():
            with open("/proc/self/status") as status:
                fields = dict(line.split(":", 1) for line in status)
            return int(fields["VmRSS"].split()[0]) * 1024
        a, b = np.ones((2, 16_000_000), np.float32)
        out = np.zeros_like(a)
        row = np.ones(4_000_000, np.float32)
        with pk.engine("cuda"):
            pk.add(a[:100], b[:100], out=out[:100])  # CUDA's own memory
            before = resident()
            for _ in range(3):
                pk.add(a, b, out=out)
                assert (out == 2).all()
                pk.add(a.reshape(4, -1), row, out=out.reshape(4, -1))
                info = pk.memory_info()
                assert 0 < info.device_bytes <= info.device_budget == 8 << 20, info
                assert 0 < info.pinned_bytes <= info.pinned_budget == 6 << 20, info
            # The pool's threads, too, have stacks and arenas.
            assert resident() - before < (6 << 20) + (48 << 20), resident() - before
        pk.release()
        print(pk.memory_info().device_bytes, pk.memory_info().pinned_bytes)
        """,
        PYCUDAKIT_DEVICE_MEMORY="8M",
        PYCUDAKIT_PINNED_MEMORY="6M",
        PYCUDAKIT_STREAM_WALK_BOTH_WAYS="0",
    )
    assert printed == "0 0\n"


@needs_gpu
def test_the_smallest_budgets():
    python(
        """
        import numpy as np, pycudakit as pk
        from concurrent.futures import ThreadPoolExecutor
        a = np.arange(3_000_000, dtype=np.float32)
        row = np.arange(3_000, dtype=np.float32)
        def call(_):
            with pk.engine("cuda"):
                return np.array_equal(pk.add(a, a), a + a) and np.array_equal(
                    pk.add(a.reshape(1000, 3000), row), a.reshape(1000, 3000) + row)
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(call, range(24)))
        """,
        PYCUDAKIT_DEVICE_MEMORY="2M",
        PYCUDAKIT_PINNED_MEMORY="2M",
    )


@needs_gpu
@pytest.mark.parametrize("values", [10, 500, 8000])
def test_many_values_at_once(values):
    """More values are live than fit in a slot of the default size."""
    code, add = abi.TYPES.index(np.dtype(np.int64)), operations()["add"]
    program = [(abi.OP_LOAD, code, code, 0, 0, 0)]
    program += [(add, code, code, i, 0, 0) for i in range(values)]
    program += [(add, code, code, values + i, values - i, 0) for i in range(values)]
    factors = [1]  # of the operand, in each value
    for *_, x, y, _ in program[1:]:
        factors.append(factors[x] + factors[y])
    program.append((abi.OP_STORE, code, code, len(program) - 1, 1, 0))

    a, out = np.arange(1000), np.zeros(1000, np.int64)
    table = np.zeros(2, abi.OPERAND)
    table["address"], table["type"] = (a.ctypes.data, out.ctypes.data), code
    table["strides"][:, 0] = 8
    with small_chunks("cuda"):
        loader.library("cuda").pk_evaluate(
            *(np.array(program, abi.INSTRUCTION), len(program)),
            *(table, 2, np.array([1000]), 1, np.zeros(1, abi.OPTIONS)),
            *(np.zeros(len(program), np.uint8), np.zeros(1, abi.REPORT)),
        )
    assert np.array_equal(out, a * factors[-1])


def test_other_threads_run_meanwhile(engine):
    done, ticks = threading.Event(), [0]

    def count():
        while not done.is_set():
            ticks[0] += 1

    a = np.linspace(0, 1, 2_000_000)
    thread = threading.Thread(target=count)
    thread.start()
    try:
        with pk.engine(engine):
            before = ticks[0]
            for _ in range(3):
                pk.evaluate("sin(a) * cos(a) + exp(a) * tanh(a) + log1p(a)", {"a": a})
            assert ticks[0] > before + 100
    finally:
        done.set()
        thread.join()


@needs_gpu
def test_a_forked_child_reads_pinned_arrays():
    printed = python(
        """
        import os, warnings
        import numpy as np, pycudakit as pk
        warnings.simplefilter("ignore")
        x = pk.pinned_copy(np.arange(1_000_000.0))
        with pk.engine("cuda"):
            pk.add(x, x)
        child = os.fork()
        if child == 0:
            x[0] = 5
            os._exit(0 if x.sum() == 499999500005.0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        x += 1  # where the GPU must find it
        with pk.engine("cuda"):
            print(np.array_equal(pk.multiply(x, 2.0, out=pk.empty_pinned(x.shape)), x * 2))
        """
    )
    assert printed == "True\n"


@needs_gpu
def test_beside_other_libraries():
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    tensor, theirs = torch.arange(1000, device="cuda"), cupy.arange(1000)
    a = np.arange(5000, dtype=np.float32)
    with pk.engine("cuda"):
        for turn in range(1000):
            assert np.array_equal(pk.add(a[: turn * 5], 1), a[: turn * 5] + 1)
            tensor += 1
            theirs += 1
            assert torch.cuda.current_device() == cupy.cuda.Device().id == 0
    assert (tensor.cpu().numpy() == np.arange(1000) + 1000).all()
    assert (theirs.get() == np.arange(1000) + 1000).all()


@needs_gpu
def test_a_lost_gpu():
    pytest.importorskip("cupy")
    printed = python(
        """
        import os, warnings
        import cupy, numpy as np, pycudakit as pk
        from pycudakit._element_programs import program_cost
        a = np.arange(100_000, dtype=np.float32)
        with pk.engine("cuda"):
            pk.add(a, a)
        crash = cupy.RawKernel('extern "C" __global__ void f(int *p) { *p = 1; }', "f")
        crash((1,), (1,), (np.uint64(8),))
        for _ in range(2):
            try:
                with pk.engine("cuda"):
                    pk.add(a, a)
            except pk.errors.Error as error:
                known = ["start a new process" in str(error), "cudaErrorIllegalAddress" in str(error)]
                print(type(error).__name__, *known)
        print(bool(pk.engines()["cuda"]))
        program_cost.MIN_SECONDS_TO_WAKE_GPU = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            print(np.array_equal(pk.add(a, a), a + a), pk.last_call().engine, flush=True)
        os._exit(0)  # CuPy complains at its end
        """
    )
    assert printed.splitlines()[:1] == ["DeviceError True True"]
    assert printed.splitlines()[1:3] == ["NoDevice True True", "False"]
    assert printed.splitlines()[3].startswith("True ")


@pytest.mark.skipif(len(pk.devices()) < 2, reason="needs two GPUs")
@pytest.mark.parametrize("devices", ["all", [0], [1], [1, 0]])
def test_several_gpus(devices):
    a, b = RNG.random((2, 3000, 1000), np.float32)
    with pk.engine("cuda", devices=devices):
        assert np.array_equal(pk.add(a, b), a + b)
        assert np.array_equal(pk.add(a, b[0]), a + b[0])
        x, y = pk.pinned_copy(a), pk.pinned_copy(b)
        assert np.array_equal(pk.add(x, y, out=pk.empty_pinned(a.shape, a.dtype)), a + b)
        with pk.engine("cpu"):
            bits = pk.sin(a)
        assert np.array_equal(pk.sin(a), bits)
    wanted = range(len(pk.devices())) if devices == "all" else devices
    assert sorted(pk.last_call().devices) == sorted(wanted)
