"""pk_run_requests: lists of requests, and the arguments that it refuses."""

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.request_lists import F64, SIZE, Lists

from pycudakit import errors
from pycudakit._element_programs.values import operations
from pycudakit._native import abi

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def test_a_list_is_its_calls(library, lists):
    lists.run(library)
    np.testing.assert_array_equal(lists.out, lists.x * lists.x)
    np.testing.assert_allclose(lists.number[0], (lists.x * lists.x).sum(), rtol=1e-15)
    assert lists.completed.value == 2
    assert lists.report["exceptions"][0] == 0
    assert lists.report["seconds"][0] > 0


def test_other_buffers(library, lists):
    lists.run(library)
    x, out, number = np.linspace(5, 9, SIZE), np.zeros(SIZE), np.zeros(1)
    lists.set_buffers(x, out, number)
    lists.run(library)
    np.testing.assert_array_equal(out, x * x)
    np.testing.assert_array_equal(lists.out, lists.x * lists.x)
    np.testing.assert_allclose(number[0], out.sum(), rtol=1e-15)


def test_a_request_is_called_as_often_as_the_order_says(library, lists):
    lists.buffers["flags"][0] |= abi.BUFFER_DOWNLOAD
    lists.bindings["buffer"][1] = 0  # squares x in place
    lists.bindings["buffer"][2] = 0
    x = lists.x.copy()
    lists.order = np.array([0, 0, 0, 1], np.int32)
    lists.run(library)
    np.testing.assert_array_equal(lists.x, ((x * x) * (x * x)) * ((x * x) * (x * x)))
    assert lists.completed.value == 4


def test_an_empty_list(library, lists):
    lists.order = np.zeros(0, np.int32)
    lists.run(library)
    assert lists.completed.value == 0
    assert not lists.out.any()


def test_exceptions_of_all_requests(library, lists):
    lists.x[7] = 1e300
    lists.run(library)
    assert lists.report["exceptions"][0] == abi.FPE_OVERFLOW


def test_a_call_fails(library, lists):
    lists.requests[1]["arguments"][2] = 0  # instructions
    x = lists.x.copy()
    with pytest.raises(ValueError, match="instruction_count is not from 1 to"):
        lists.run(library)
    assert lists.completed.value == 1
    np.testing.assert_array_equal(lists.x, x)
    assert lists.number[0] == 0


def test_large_buffers_and_memory_of_no_buffer(library, lists):
    """Buffers beyond those that are copied together; and a table that names memory which is no buffer."""
    size = 200_000
    x, out, number = np.linspace(1, 2, size), np.zeros(size), np.zeros(1)
    lists.shape[0] = size
    lists.set_buffers(x, out, number)
    lists.run(library)
    np.testing.assert_array_equal(out, x * x)
    np.testing.assert_allclose(number[0], (x * x).sum(), rtol=1e-15)
    lists.bindings, lists.buffers = lists.bindings[1:], lists.buffers.copy()
    lists.operands["address"][0], lists.buffers["flags"][0] = lists.x.ctypes.data, 0
    lists.shape[0] = SIZE
    lists.run(library)
    np.testing.assert_array_equal(out[:SIZE], lists.x * lists.x)


def test_temporary_buffers(library, lists):
    """The caller does not see a buffer without flags."""
    lists.buffers["flags"][1] = 0
    lists.run(library)
    np.testing.assert_allclose(lists.number[0], (lists.x * lists.x).sum(), rtol=1e-15)


@pytest.mark.smoke
def test_parts_of_a_temporary_buffer(library, lists):
    """Powers of x in two parts of one buffer, of which the first is written twice."""
    tables, part = [lists.operands.copy() for _ in range(3)], 4096
    temporary = np.zeros(2 * part, np.uint8)
    lists.set_buffers(lists.x, temporary, lists.number)
    lists.buffers["flags"][1] = 0
    lists.requests = np.append(lists.requests[:1], lists.requests[[0, 0, 1]])
    for row, table in enumerate(tables):
        lists.set(row, abi.REQUEST_EVALUATE, lists.square, 3, table, 2, lists.shape, 1, lists.flags)
    lists.order = np.arange(4, dtype=np.int32)
    words = [(tables[0], 0, 0, 0), (tables[0], 1, 1, 0), (tables[1], 0, 1, 0), (tables[1], 1, 1, part)]
    words += [(tables[2], 0, 1, part), (tables[2], 1, 1, 0)]
    words += [(lists.reduced, 0, 1, 0), (lists.reduced, 2, 2, 0)]
    lists.bindings = np.array(
        [(table[row:].ctypes.data, buffer, offset) for table, row, buffer, offset in words], abi.BINDING
    )
    lists.run(library)
    np.testing.assert_allclose(lists.number[0], (lists.x**8).sum(), rtol=1e-13)


@pytest.mark.parametrize("size", [pytest.param(SIZE, marks=pytest.mark.smoke), 200_000])
def test_several_reductions(library, kept, size):
    """The sum and the maximum of the squares; a later run has them in a CUDA graph."""
    x, out, numbers = np.linspace(-3, 2, size), np.zeros(size), np.zeros(2)
    kept.shape[0] = size
    kept.set_buffers(x, out, numbers)
    reductions, operands = np.repeat(kept.reduction, 2), np.append(kept.reduced, kept.reduced[2:])
    reductions["kind"] = abi.REDUCE_SUM, abi.REDUCE_MAX
    arguments = reductions, 2, kept.value, 2, operands, 4, kept.shape, 1, kept.flags
    kept.set(1, abi.REQUEST_REDUCE_SEVERAL, *arguments)
    words = [(operands[row:].ctypes.data, buffer, offset) for row, buffer, offset in SEVERAL]
    kept.bindings = np.append(kept.bindings[:2], np.array(words, abi.BINDING))
    kept.order = np.array([0, 1] * 4, np.int32)
    for turn in range(4):
        x += turn
        kept.run(library)
        results = numbers.tobytes()
        np.testing.assert_allclose(numbers, [(x * x).sum(), (x * x).max()], rtol=1e-14)
        numbers[:] = 0
        library.pk_reduce_several(*arguments, kept.options, kept.report)  # of the arrays that are bound
        assert numbers.tobytes() == results


SEVERAL = (0, 1, 0), (2, 2, 0), (3, 2, 8)  # rows of operands, buffers and offsets
INT64, UINT8 = (abi.TYPES.index(np.dtype(each)) for each in (np.int64, np.uint8))


def taking(lists, indices):
    """Make the second request take elements of the squares by indices; return the taken elements."""
    taken = np.full(len(indices), -1.0)
    lists.set(1, abi.REQUEST_TAKE, 0, 1, SIZE, 8, 0, len(indices), 0, 0)
    arguments = lists.requests["arguments"][1]
    words = [(arguments[index:].ctypes.data, buffer, 0) for index, buffer in ((0, 1), (4, 3), (7, 2))]
    lists.bindings = np.concatenate([lists.bindings[:2], np.array(words, abi.BINDING)])
    lists.buffers = np.concatenate([lists.buffers, lists.buffers[:1]])
    lists.set_buffers(lists.x, lists.out, taken, indices)
    return taken


@pytest.mark.parametrize("size", [1, 50, 40_000])
def test_a_list_takes_elements(library, lists, size):
    indices = np.random.default_rng(2).integers(-SIZE, SIZE, size)
    taken = taking(lists, indices)
    for _ in range(2):
        lists.run(library)
        np.testing.assert_array_equal(taken, (lists.x * lists.x)[indices])
        indices[0] += 1 if indices[0] < 0 else -1


@pytest.mark.smoke
def test_a_list_ends_where_an_index_is_out_of_bounds(library, lists):
    indices = np.array([3, SIZE, 1])
    taken = taking(lists, indices)
    with pytest.raises(ValueError, match=f"index {SIZE} is out of bounds for {SIZE} elements"):
        lists.run(library)
    assert lists.completed.value == 1
    assert (taken == -1).all()


def test_a_list_that_takes_from_a_null_pointer(library, lists):
    lists.set(1, abi.REQUEST_TAKE, 0, 1, SIZE, 8, 0, 3, 0, 0)
    with pytest.raises(ValueError, match="null pointer"):
        lists.run(library)


def test_a_loop(library, lists):
    seen = []

    def loop(operands, sizes, strides, data):
        addresses = (ctypes.c_uint64 * 2).from_address(operands)
        seen.append((list(addresses), ctypes.c_int64.from_address(sizes).value, strides, data))

    function = LOOP(loop)
    sizes, strides = np.array([4, 5], np.intp), np.array([8, 8], np.intp)
    address = ctypes.cast(function, ctypes.c_void_p).value
    lists.set(1, abi.REQUEST_LOOP, address, lists.operands, 2, sizes, strides, 77)
    lists.run(library)
    assert seen == [([lists.x.ctypes.data, lists.out.ctypes.data], 4, strides.ctypes.data, 77)]
    assert lists.report["exceptions"][0] == 0


LOOP_OF_TWO = np.array([0, 1] * 10, np.int32)  # squares x, and adds it up


@pytest.mark.parametrize("size", [SIZE, 200_000])
@pytest.mark.parametrize("n", [0, 1, 7, 9])
def test_a_list_ends_at_a_stop(library, lists, size, n):
    """Ten turns that square x in place and add it up, ended when the sum overflows, or else at the end."""
    x, out, number = np.full(size, 2.0), np.zeros(size), np.zeros(1)
    x[-1] = 2.0 ** (1024 / 2 ** (n + 1))  # its square in turn n, from 0 on, is the first to overflow
    lists.set_buffers(x, out, number)
    lists.shape[0] = size
    lists.buffers["flags"][0] |= abi.BUFFER_DOWNLOAD
    lists.bindings["buffer"][1] = lists.bindings["buffer"][2] = 0
    lists.order = LOOP_OF_TWO
    lists.stops = np.array(
        [(2 * turn + 1, 2, 0, F64, abi.STOP_IF_NOT_FINITE) for turn in range(10)], abi.STOP
    )
    expected = x.copy()
    for _ in range(10):
        with np.errstate(over="ignore"):
            expected *= expected
        if not np.isfinite(expected.sum()):
            break
    lists.run(library)
    assert lists.completed.value == 2 * (n + 1)
    np.testing.assert_array_equal(x, expected)
    assert lists.report["exceptions"][0] == abi.FPE_OVERFLOW


BOOL = abi.TYPES.index(np.dtype(bool))


@pytest.mark.parametrize("is_called_on_host", [False, True])
@pytest.mark.parametrize(("kind", "ends_at"), [(abi.STOP_IF_TRUE, True), (abi.STOP_IF_FALSE, False)])
def test_a_stop_by_a_truth_value(library, lists, kind, ends_at, is_called_on_host):
    """A list that negates x in place, and stores in a byte whether its first element is positive."""
    truth = np.array([2], np.uint8)
    lists.buffers["address"][1], lists.buffers["bytes"][1] = truth.ctypes.data, 1
    lists.buffers["flags"][0] |= abi.BUFFER_DOWNLOAD
    lists.bindings["buffer"][1] = 0
    lists.square[1] = operations()["negative"], F64, F64, 0, 0, 0
    load, load_zero = lists.square[0], (abi.OP_LOAD, F64, F64, 1, 0, 0)
    is_less, store = (operations()["less"], F64, BOOL, 1, 0, 0), (abi.OP_STORE, BOOL, BOOL, 2, 2, 0)
    compare = np.array([load, load_zero, is_less, store], abi.INSTRUCTION)
    operands, zero, one = np.zeros(3, abi.OPERAND), np.zeros(1), np.array([1], np.int64)
    operands["type"], operands["address"][1], flags = (
        (F64, F64, BOOL),
        zero.ctypes.data,
        np.zeros(4, np.uint8),
    )
    lists.set(1, abi.REQUEST_EVALUATE, compare, 4, operands, 3, one, 1, flags)
    words = [(operands[row:].ctypes.data, buffer, 0) for row, buffer in ((0, 0), (2, 1))]
    lists.bindings = np.concatenate([lists.bindings[:2], np.array(words, abi.BINDING)])
    if is_called_on_host:  # each request is a call of its own
        loop = LOOP(lambda *_: None)
        sizes = np.array([1], np.intp)
        address = ctypes.cast(loop, ctypes.c_void_p).value
        lists.requests = np.concatenate([lists.requests, np.zeros(1, abi.REQUEST)])
        lists.set(2, abi.REQUEST_LOOP, address, operands, 3, sizes, sizes, 0)
    lists.order = np.array([0, 1, 0, 1, 0, 1], np.int32)
    lists.stops = np.array([(call, 1, 0, BOOL, kind) for call in (1, 3)], abi.STOP)
    x = lists.x.copy()
    lists.run(library)
    turns = 2 if ends_at else 1  # x is negative after one turn
    assert lists.completed.value == 2 * turns
    np.testing.assert_array_equal(lists.x, x * (-1) ** turns)
    assert truth[0] == ends_at


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.0, 1e-7, 65504.0])
def test_finite_values(library, lists, dtype, value):
    """The value of a stop may be one that no request has written."""
    number = np.array([7, value], dtype)
    lists.buffers = np.concatenate([lists.buffers, lists.buffers[:1]])
    lists.buffers["address"][3], lists.buffers["bytes"][3] = number.ctypes.data, number.nbytes
    type_ = abi.TYPES.index(number.dtype)
    lists.stops = np.array([(0, 3, number.itemsize, type_, abi.STOP_IF_NOT_FINITE)], abi.STOP)
    lists.run(library)
    assert lists.completed.value == (2 if np.isfinite(value) else 1)
    np.testing.assert_array_equal(lists.out, lists.x * lists.x)
    assert (lists.number[0] != 0) == np.isfinite(value)


def _spoil(**changes):
    def spoil(lists):
        for name, value in changes.items():
            setattr(lists, name, value(lists))

    return spoil


def _overlapping(buffers):
    buffers["address"][2] = buffers["address"][1] + 8
    return buffers


def _table(name, field, row, value):
    def spoil(lists):
        getattr(lists, name)[field][row] = value

    return spoil


REFUSED = {
    "a request names no entry": _table("requests", "entry", 1, abi.REQUEST_COUNT),
    "order names a request that there is not": _spoil(order=lambda _: np.array([0, 2], np.int32)),
    "a binding names a buffer that there is not": _table("bindings", "buffer", 2, 3),
    "the size of a buffer is negative": _table("buffers", "bytes", 1, -1),
    "a buffer is a null pointer": _table("buffers", "address", 1, 0),
    "two buffers overlap": _spoil(buffers=lambda lists: _overlapping(lists.buffers)),
    "the word of a binding is not aligned": _table("bindings", "word", 1, 2**40 + 4),
    "a buffer goes beyond the end of memory": _table("buffers", "address", 1, 2**64 - 1),
    "a buffer of requests has other flags": _table("buffers", "flags", 1, abi.BUFFER_POISON),
    "the word of a binding is a null pointer": _table("bindings", "word", 2, 0),
    "options.rest and options.spans are for single calls": _table("options", "spans", 0, 8),
}


def _stops(*rows):
    return _spoil(stops=lambda _: np.array(list(rows), abi.STOP))


STOP = (1, 2, 0, F64, abi.STOP_IF_NOT_FINITE)
REFUSED |= {
    "the call of a stop is not in the list, or before": _stops(STOP, (0, *STOP[1:])),
    "the call of a stop is not in the list": _stops((2, *STOP[1:])),
    "the kind of a stop is unknown": _stops((*STOP[:4], 3)),
    "the value of a stop must be a PK_BOOL, or a float": _stops((*STOP[:4], abi.STOP_IF_TRUE)),
    "or a float if it is to be finite": _stops((*STOP[:3], 0, abi.STOP_IF_NOT_FINITE)),
    "a stop names a buffer that does not exist": _stops((1, 3, *STOP[2:])),
    "the value of a stop is not in its buffer": _stops((1, 2, 1, *STOP[3:])),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_before_anything_runs(library, lists, message):
    REFUSED[message](lists)
    with pytest.raises(ValueError, match=message):
        lists.run(library)
    assert not lists.out.any()
    assert not lists.operands["address"].any()


def unaligned(values):
    """Return a copy of an array at an address that is not a multiple of its itemsize."""
    copy = np.empty(values.nbytes + 16, np.uint8)[1:][: values.nbytes].view(values.dtype)
    copy[:] = values
    return copy


def test_a_list_with_a_key_runs_on_other_arrays(library, kept):
    rng = np.random.default_rng(3)
    for turn in range(12):
        arrays = [rng.random(SIZE), np.zeros(SIZE), np.zeros(1)]
        if turn % 3 == 2:
            arrays[turn % 2] = unaligned(arrays[turn % 2])
        kept.set_buffers(*arrays)
        kept.run(library)
        x, out, number = arrays
        np.testing.assert_array_equal(out, x * x)
        np.testing.assert_allclose(number, np.sum(x * x), rtol=1e-14)
        if turn == 8:
            assert library.pk_release() == 0


def test_a_long_list_with_a_key_runs_again(library, kept):
    """On a GPU, later runs launch a CUDA graph of its calls: the arrays, and then the order, are others."""
    kept.order = np.array([0, 1] * 6, np.int32)
    rng = np.random.default_rng(4)
    for turn in range(12):
        if turn == 6:
            kept.order = np.array([0, 1] * 5 + [1], np.int32)
        x, out, number = rng.random(SIZE), np.zeros(SIZE), np.zeros(1)
        kept.set_buffers(x, out, number)
        kept.run(library)
        np.testing.assert_array_equal(out, x * x)
        np.testing.assert_allclose(number, np.sum(x * x), rtol=1e-14)
        assert kept.completed.value == len(kept.order)
        if turn in {3, 10}:
            assert library.pk_release() == 0


def test_a_constant_of_a_list_with_a_key(library, kept):
    """It has the value of each run."""
    kept.order = np.zeros(12, np.int32)
    kept.operands["strides"][0, 0] = 0
    for turn in range(5):
        kept.x[:] = turn
        kept.run(library)
        np.testing.assert_array_equal(kept.out, turn * turn)


@pytest.mark.smoke
def test_stops_of_a_list_with_a_key(library, kept):
    """A run may end before or after the last call that the runs before it made."""
    kept.buffers["flags"][0] |= abi.BUFFER_DOWNLOAD
    kept.bindings["buffer"][1] = kept.bindings["buffer"][2] = 0
    kept.order = LOOP_OF_TWO
    kept.stops = np.array([(2 * turn + 1, 2, 0, F64, abi.STOP_IF_NOT_FINITE) for turn in range(10)], abi.STOP)
    for n in (5, 5, 5, 7, 7, 2, 9, 9, 0):
        kept.x[:] = 2.0
        kept.x[-1] = 2.0 ** (1024 / 2 ** (n + 1))  # its square in turn n is the first to overflow
        with np.errstate(over="ignore"):
            expected = kept.x ** (2.0 ** (n + 1))
        kept.run(library)
        assert kept.completed.value == 2 * (n + 1)
        np.testing.assert_array_equal(kept.x, expected)
        assert kept.report["exceptions"][0] == abi.FPE_OVERFLOW


def test_two_threads_run_a_list_with_a_key(library, kept):
    """One of them at a time has the prepared requests."""

    def run(seed):
        lists = Lists()
        lists.key[:], lists.order = kept.key, np.array([0, 1] * 20, np.int32)
        for x in np.random.default_rng(seed).random((30, SIZE)):
            lists.x[:] = x
            lists.run(library)
            np.testing.assert_array_equal(lists.out, x * x)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))


def test_a_request_that_has_changed_is_prepared_again(library, kept):
    kept.run(library)
    twice = kept.square.copy()
    twice["op"][1] = operations()["add"]
    kept.set(0, abi.REQUEST_EVALUATE, twice, 3, kept.operands, 2, kept.shape, 1, kept.flags)
    kept.run(library)
    np.testing.assert_array_equal(kept.out, kept.x + kept.x)
    kept.order = np.array([1, 0, 0, 1], np.int32)
    kept.number[:] = 0
    kept.run(library)
    np.testing.assert_allclose(kept.number, np.sum(kept.x + kept.x), rtol=1e-14)


def test_a_list_with_a_key_that_fails_runs_again(library, kept):
    kept.run(library)
    kept.operands["type"][0] = 99
    kept.set(0, abi.REQUEST_EVALUATE, kept.square.copy(), 3, kept.operands, 2, kept.shape, 1, kept.flags)
    with pytest.raises(ValueError, match="operand 0 has an unknown type"):
        kept.run(library)
    kept.operands["type"][0] = F64
    kept.run(library)
    np.testing.assert_array_equal(kept.out, kept.x * kept.x)


def test_many_lists_with_keys(library):
    """More requests than are kept at once."""
    many = Lists()
    many.requests = np.tile(many.requests, 4096)
    many.order = np.arange(len(many.requests), dtype=np.int32)
    for turn in range(12):
        many.key[:] = (1 << 41) + turn if turn % 2 else 1 << 39, 1
        many.x[:] = turn
        many.run(library)
        np.testing.assert_array_equal(many.out, many.x * many.x)
        assert many.completed.value == 8192


def test_negative_counts(library, lists):
    with pytest.raises(ValueError, match="a count is negative"):
        library.pk_run_requests(
            *(lists.requests, -1, lists.order, 2, lists.bindings, 0, lists.buffers, 0),
            *(lists.stops, 0, lists.key),
            *(ctypes.byref(lists.completed), lists.options, lists.report),
        )


def test_a_loop_without_operands(library, lists):
    lists.set(1, abi.REQUEST_LOOP, 0, lists.operands, 2, lists.shape, lists.shape, 0)
    with pytest.raises(ValueError, match="a loop, or its operands, is a null pointer"):
        lists.run(library)
    lists.set(1, abi.REQUEST_LOOP, 1, lists.operands, 9, lists.shape, lists.shape, 0)
    with pytest.raises(ValueError, match="a loop has too many operands, or none"):
        lists.run(library)


def test_a_long_list_can_be_stopped(library, lists):
    """Each of its requests is too short to ask whether it is to stop."""
    calls = []

    def callback(_progress):
        calls.append(True)
        return 1

    function = CALLBACK(callback)
    lists.options["progress_callback"] = ctypes.cast(function, ctypes.c_void_p).value
    lists.order = np.tile(np.array([0, 1], np.int32), 1_000_000)
    with pytest.raises(errors.Interrupted):
        lists.run(library)
    assert len(calls) == 1
    assert 0 < lists.completed.value < len(lists.order)


def test_two_threads_run_lists(library):
    several = [Lists() for _ in range(2)]

    def run(lists):
        lists.order = np.array([0, 1] * 500, np.int32)
        lists.run(library)

    threads = [threading.Thread(target=run, args=(each,)) for each in several]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in several:
        assert each.completed.value == 1000
        np.testing.assert_array_equal(each.out, each.x * each.x)
