"""Lists of requests (pk_run_requests) of each family: they compute what the single calls do, bit for bit.

Loops, programs over blocks and several reductions are in test_requests.py, test_tiled_programs.py and the
tests of fused functions.
"""

import ctypes
import re

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._families.take import put_rows
from pycudakit._native import abi, loader
from pycudakit._native.abi import address_of
from pycudakit._runtime.native_call import observe_entries
from pycudakit.fusing.memory.buffer import owner_of


def entry_of(name):
    """Return the entry of a request, and its first argument: the type, if there are entries of several."""
    for family in ("sort", "argsort", "searchsorted", "unique", "select", "matmul"):
        base, _, suffix = name.rpartition("_")
        if base == f"pk_{family}":
            dtype = np.dtype("f2") if suffix == "f16" else {**abi.MULTIPLIED, **abi.SORTED}[suffix]
            code = 0 if suffix == "bool" else abi.TYPES.index(dtype)
            return getattr(abi, f"REQUEST_{family.upper()}"), [code]
    return getattr(abi, f"REQUEST_{name.removeprefix('pk_').upper()}"), []


def word_of(argument):
    if isinstance(argument, np.ndarray):
        return address_of(argument)
    if hasattr(argument, "_obj"):  # a reference of ctypes
        return ctypes.addressof(argument._obj)
    value = getattr(argument, "value", argument)
    return int(np.float64(value).view(np.uint64)) if isinstance(value, float) else int(value) % 2**64


def without_options(name, given):
    is_program = name == "pk_evaluate"  # its flags come between options and report
    return [*given[:-3], given[-2]] if is_program else [*given[:-2]]


# Outputs whose memory Python shrinks after the call.
SHRUNK = {"histogram": 6, "weighted_histogram": 6, "histogram_of_extent": 5, "unique": 3}


class Recorded:
    """The entries that a call calls, as a list of requests."""

    def __init__(self, function, *arguments):
        self.calls, self.arguments = [], arguments
        with observe_entries(lambda call, _: self.record(*call.describe_entry())):
            self.result = function(*arguments)

    def record(self, name, given):
        given = list(given)
        for family, index in SHRUNK.items():
            if re.fullmatch(f"pk_{family}(_[a-z]+[0-9]+)?", name):
                given[index] = given[index].copy()
                if family == "unique":
                    given[index][int(given[7][0]) :] = 0  # which the entry leaves as it was
        self.calls.append((name, given))

    def names(self):
        return [name for name, _ in self.calls]

    def run(self, library, inputs, outputs, encode=entry_of):
        requests = np.zeros(len(self.calls), abi.REQUEST)
        for row, (name, given) in zip(requests, self.calls, strict=True):
            row["entry"], first = encode(name)
            words = [*first, *map(word_of, without_options(name, given))]
            row["arguments"][: len(words)] = words
        order = np.arange(len(requests), dtype=np.int32)
        flags = {id(each): [each, 0] for each in (*inputs, *outputs)}
        for each in inputs:
            flags[id(each)][1] |= abi.BUFFER_UPLOAD
        for each in outputs:
            flags[id(each)][1] |= abi.BUFFER_DOWNLOAD
        buffers = np.zeros(len(flags), abi.BUFFER)
        for buffer, (array, flag) in zip(buffers, flags.values(), strict=True):
            buffer["address"], buffer["bytes"], buffer["flags"] = address_of(array), array.nbytes, flag
        completed, options, report = ctypes.c_int64(), np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        library.pk_run_requests(
            *(requests, len(requests), order, len(order), np.zeros(0, abi.BINDING), 0),
            *(buffers, len(buffers), np.zeros(0, abi.STOP), 0, np.zeros(2, np.uint64)),
            *(ctypes.byref(completed), options, report),
        )
        assert completed.value == len(requests)


def of_result(recorded):
    return [recorded.result]


def argument(index):
    """Return a function that returns an argument of the last call."""
    return lambda recorded: [recorded.calls[-1][1][index]]


def values(dtype="f8", size=5000, seed=1):
    return np.random.default_rng(seed).integers(0, 100, size).astype(dtype)


def image(dtype="u1"):
    return values(dtype, 48 * 64).reshape(48, 64)


EDGES = np.array([0.0, 3.5, 20.0, 21.0, 80.0])
INDICES = values("i8", 700)
POINTS = np.arange(101.0), np.arange(101.0) ** 2
CASES = {
    "take": (pk.take, (values(), INDICES), of_result),
    "interp": (lambda x: pk.interp(x, *POINTS, -1.0, 1.0), (values() / 3,), of_result),
    "histogram": (lambda x: pk.histogram(x, EDGES)[0], (values(),), argument(6)),
    "weighted_histogram": (
        lambda x, w: pk.histogram(x, EDGES, weights=w)[0],
        (values(), values(seed=2)),
        argument(6),
    ),
    "histogram_of_extent": (lambda x: pk.histogram(x, 10)[0], (values(),), argument(5)),
    "extent": (pk.bincount, (values("i8", 50),), lambda recorded: [recorded.calls[0][1][3]]),
    "put": (
        lambda x, i, v: put_rows(x, i, v, len(v)),
        (values(), INDICES[:90], values(size=90, seed=3)),
        lambda recorded: [recorded.calls[0][1][0].view("f8")],
    ),
    "run_kernels": (
        pk.ElementwiseKernel("double *z, const double *x", "z[i] = 2 * x[i] + 1"),
        (np.zeros(5000), values()),
        lambda recorded: [recorded.arguments[0]],
    ),
    "digitize": (lambda x: pk.digitize(x, EDGES), (values(),), of_result),
    "random": (lambda: pk.random.default_rng(3).normal(size=3000), (), of_result),
    "gray": (pk.image.rgb_to_gray, (values("u1", 30 * 40 * 3).reshape(30, 40, 3),), of_result),
    "lookup": (pk.image.equalize_histogram, (image(),), of_result),
    "resize": (lambda x: pk.image.resize(x, (20, 31)), (image(),), of_result),
    "filter": (lambda x: pk.image.median_filter(x, 3), (image(),), of_result),
    "sort": (pk.sort, (values(),), of_result),
    "argsort": (pk.argsort, (values("i2"),), of_result),
    "searchsorted": (pk.searchsorted, (np.sort(values("f4")), values("f4", seed=2)), of_result),
    "unique": (pk.unique, (values("u4"),), argument(3)),
    "select": (lambda x: pk.quantile(x, 0.3, method="lower"), (values("f4"),), argument(6)),
    "matmul": (pk.matmul, (values("i4", 60).reshape(6, 10), values("i4", 70).reshape(10, 7)), of_result),
    "scan": (pk.cumsum, (values(),), of_result),
    "evaluate": (pk.hypot, (values(), values(seed=2)), of_result),
}


def check(engine, family, function, arguments, outputs_of):
    """Compare the results of a list with those of the calls that it is made of."""
    arguments, before = [each.copy() for each in arguments], arguments
    with pk.engine(engine):
        recorded = Recorded(function, *arguments)
    assert any(re.fullmatch(f"pk_{family}(_[a-z]+[0-9]*)?", name) for name in recorded.names())
    outputs = [owner_of(np.asarray(each)) for each in outputs_of(recorded)]
    expected = [each.copy() for each in outputs]
    assert any(each.any() for each in expected)
    for output in outputs:
        output[...] = 0
    for array, values_before in zip(arguments, before, strict=True):
        array[...] = values_before
    buffers = [] if family == "extent" else outputs  # single values are in no buffer
    recorded.run(loader.library(engine), arguments, buffers)
    for output, wanted in zip(outputs, expected, strict=True):
        assert output.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("family", CASES)
def test_a_list_of_a_family(engine, family):
    check(engine, family, *CASES[family])


OF_TYPES = {
    "sort": (pk.sort, of_result),
    "argsort": (pk.argsort, of_result),
    "searchsorted": (lambda x: pk.searchsorted(np.sort(x), x), argument(3)),
    "unique": (pk.unique, argument(3)),
    "select": (lambda x: pk.quantile(x, 0.3, method="lower"), argument(6)),
    "matmul": (lambda x: pk.matmul(x[:60].reshape(6, 10), x[:70].reshape(10, 7)), of_result),
}


@pytest.mark.parametrize("dtype", [dtype.str[1:] for dtype in abi.TYPES])
@pytest.mark.parametrize("family", OF_TYPES)
def test_a_list_of_each_type(engine, family, dtype):
    function, outputs_of = OF_TYPES[family]
    if (family == "matmul" and dtype[0] == "f") or (family == "select" and dtype == "b1"):
        pytest.skip("the CPU engine multiplies floats by BLAS; bools have no quantiles")
    check(engine, family, function, (values(dtype, 900),), outputs_of)


def test_a_list_sums(engine):
    """A reduction's result is a number in memory of the entry's."""
    x = values()
    with pk.engine(engine):
        recorded = Recorded(pk.sum, x)
    result = recorded.calls[-1][1][3]
    number = np.zeros(1)
    result["address"][-1] = address_of(number)
    recorded.run(loader.library(engine), [x], [number])
    assert number[0] == recorded.result == x.sum()


def test_requests_of_an_unknown_type_or_entry(engine):
    x = values()
    with pk.engine(engine):
        recorded = Recorded(pk.sort, x)
    sorted_values = recorded.result.copy()
    recorded.result[...] = 0
    library = loader.library(engine)
    for entry, code, message in (
        (abi.REQUEST_SORT, 99, "the type of a request is unknown"),
        (abi.REQUEST_COUNT, 11, "a request names no entry"),
    ):
        with pytest.raises(ValueError, match=message):
            recorded.run(library, [x], [recorded.result], lambda _, word=(entry, [code]): word)
        assert not recorded.result.any()
    recorded.run(library, [x], [recorded.result])
    np.testing.assert_array_equal(recorded.result, sorted_values)
