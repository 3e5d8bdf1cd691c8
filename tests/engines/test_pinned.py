"""Arrays in pinned memory: they behave like ordinary arrays, and their memory is returned."""

import gc
import os
import pickle

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy
from helpers.processes import ENDS, ends_well, python
from helpers.threads import run_in_threads

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import engine_status, loader, pinned

KINDS = ["?", "i1", ">i4", "<u8", "f2", "float32", ">f8", "c16", "M8[s]", "S7", "U3", "V5"]
STRUCTURED = np.dtype([("a", "i1"), ("b", ">f8", (2,)), ("c", "S3")], align=True)


def is_ordinary(array):
    return (
        type(array) is np.ndarray
        and array.flags.c_contiguous
        and array.flags.writeable
        and array.flags.aligned
        and (array.size == 0 or array.ctypes.data % 4096 == 0)
    )


@pytest.mark.parametrize("dtype", [*KINDS, STRUCTURED])
@pytest.mark.parametrize("shape", [(), 7, (3, 4), (2, 0, 5), (1,) * 64])
def test_empty(dtype, shape):
    got, want = pk.empty_pinned(shape, dtype), np.empty(shape, dtype)
    assert is_ordinary(got)
    assert (got.shape, got.dtype, got.strides) == (want.shape, want.dtype, want.strides)
    got[...] = np.zeros((), dtype)
    assert (got.ravel() == np.zeros(got.size, dtype)).all()


def test_shapes_and_dtypes_as_numpy_takes_them():
    assert pk.empty_pinned(3).dtype == float
    for shape in (np.int16(3), [3, 2], np.array([3, 2]), (np.uint8(3), 2), range(2, 4), np.array(3)):
        assert pk.empty_pinned(shape).shape == np.empty(shape).shape
    for dtype in ("3f8", (float, (2, 2)), "S", "U", int, np.float16, "i4,f8"):
        got, want = pk.empty_pinned(3, dtype), np.empty(3, dtype)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
    for shape in (
        -1,
        (2, -3),
        (0, -1),
        (2**40, 2**40),
        (2**62, 2**62, 0),
        (1,) * 65,
        2.0,
        "3",
        *([None] if has_numpy("2.3") else []),
        (1, 2.5),
    ):
        with pytest.raises((ValueError, TypeError)) as theirs:
            np.empty(shape)
        with pytest.raises(theirs.type):
            pk.empty_pinned(shape)


def test_too_large():
    with pytest.raises(MemoryError):
        pk.empty_pinned(2**55)


@pytest.mark.parametrize("dtype", [object, "i4,O", (object, 3)])
def test_objects_are_refused(dtype):
    with pytest.raises(TypeError, match="holds Python objects"):
        pk.empty_pinned(3, dtype)
    with pytest.raises(TypeError, match="holds Python objects"):
        pk.pinned_copy(np.empty(3, dtype))


def test_copies():
    class Mine(np.ndarray):
        pass

    a = np.arange(24.0).reshape(2, 3, 4)
    for array in (
        *(
            a,
            a.T,
            a[::-1, ::2],
            a.astype(">f4"),
            np.asfortranarray(a),
            a[:, :0],
            np.float32(2),
            5,
            [[1, 2], [3, 4]],
        ),
        *(
            a.view(Mine),
            np.ma.masked_array(a, a > 99),
            np.broadcast_to(np.arange(3), (4, 3)),
            np.array("text"),
        ),
        np.zeros(3, STRUCTURED),
    ):
        copy, want = pk.pinned_copy(array), np.array(np.asarray(array), order="C")
        assert is_ordinary(copy)
        assert (copy.dtype, copy.shape) == (want.dtype, want.shape)
        assert (copy == want).all()
        assert not np.shares_memory(copy, array)


def test_calls_take_them(engine):
    a, b = (pk.pinned_copy(x) for x in np.random.default_rng(0).random((2, 300_000), np.float32))
    out = pk.empty_pinned(a.shape, a.dtype)
    assert pk.add(a, b, out=out) is out
    assert (out == np.add(a, b)).all()
    assert (pk.add(a[::-1], b[::-1]) == out[::-1]).all()
    assert (pk.subtract(a[1:], b[:-1]) == a[1:] - b[:-1]).all()
    want = b[::-1] * 2
    assert (pk.multiply(b, 2, out=b[::-1])[::-1] == want).all()
    again = pickle.loads(pickle.dumps(b))
    assert (again == b).all()


def test_memory_comes_back_with_the_last_view(monkeypatch):
    returned = []
    library = loader.library("cuda" if engine_status.status("cuda") else "cpu")
    give_back = library.pk_pinned_return

    class Library:
        pk_pinned_take = library.pk_pinned_take

        @staticmethod
        def pk_pinned_return(address):
            returned.append(address)
            give_back(address)

    monkeypatch.setattr(pinned, "_library", lambda: Library)
    array = pk.empty_pinned((100, 100))
    address = array.ctypes.data
    view = array[::2, 1].view("i8").T
    del array
    gc.collect()
    assert returned == []
    view[...] = 3
    other = pk.empty_pinned(10)
    assert other.ctypes.data != address
    del view
    assert returned == [address]
    with pytest.raises(ValueError, match="maximum supported dimension"):
        pk.empty_pinned((1,) * 65)
    gc.collect()
    assert len(returned) == 2, "the memory of an array that could not be made"


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
def test_memory_info_counts_them():
    gc.collect()
    pk.release()
    before = pk.memory_info()
    assert before.arrays_kept == 0
    array = pk.empty_pinned(1_000_000)
    taken = pk.memory_info()
    assert taken.arrays_bytes >= before.arrays_bytes + array.nbytes
    del array
    kept = pk.memory_info()
    assert kept.arrays_bytes == before.arrays_bytes
    assert kept.arrays_kept == taken.arrays_bytes - before.arrays_bytes
    again = pk.empty_pinned(1_000_000)
    assert pk.memory_info().arrays_kept == 0
    del again
    pk.release()
    assert pk.memory_info().arrays_kept == 0


def test_threads_take_and_return():
    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            size = int(rng.integers(1, 5000))
            array = pk.empty_pinned(size, "i4")
            array[...] = seed
            arrays.append(array[: size // 2 + 1])
            if len(arrays) > 20:
                arrays.pop(0)
            if not (array == seed).all():
                wrong.append(seed)

    arrays, wrong = [], []
    run_in_threads(work, range(8))
    assert wrong == []


def test_without_any_library(tmp_path):
    code = """
import pycudakit as pk
a = pk.pinned_copy(np.arange(6).reshape(2, 3).T)
print(type(a) is np.ndarray, a.tolist(), pk.memory_info().arrays_bytes)
"""
    assert python(code, env={"PYCUDAKIT_LIBRARY_DIR": str(tmp_path)}) == "True [[0, 3], [1, 4], [2, 5]] 0"


@pytest.mark.parametrize("end", ENDS)
def test_at_the_end_of_the_process(end):
    ends_well("pk.empty_pinned(100_000)", end)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_in_a_forked_child():
    """A forked child reads the parent's arrays, drops them without returning memory, and makes its own."""
    code = """
import gc, pycudakit as pk
a = pk.pinned_copy(np.arange(1000))
kept = pk.memory_info()
child = os.fork()
if child == 0:
    right = a.sum() == 499500
    del a
    gc.collect()
    b = pk.pinned_copy(np.arange(10))
    del b
    os._exit(0 if right else 1)
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), a.sum() == 499500, pk.memory_info() == kept)
"""
    assert python(code) == "0 True True"


def test_a_library_that_fails(monkeypatch):
    class Library:
        @staticmethod
        def pk_pinned_take(*_):
            raise errors.OutOfMemory("none left")

    monkeypatch.setattr(pinned, "_library", lambda: Library)
    with pytest.raises(errors.OutOfMemory, match="none left"):
        pk.empty_pinned(3)
    assert pk.empty_pinned((3, 0)).shape == (3, 0)


class There:
    __cuda_array_interface__ = {  # noqa: RUF012
        "shape": (3,),
        "typestr": "<f4",
        "data": (4096, False),
        "version": 3,
    }


def test_copies_of_other_objects():
    with pytest.raises(errors.Unsupported, match="pinned_copy, a: There is on a GPU"):
        pk.pinned_copy(There())
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(errors.Unsupported, match="MaskedArray has a mask, which would be lost"):
        pk.pinned_copy(masked)
    assert pk.pinned_copy(masked[:1]) == 1
