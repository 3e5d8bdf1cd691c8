"""Lists of requests (pk_run_requests) of each family: they compute what the single calls do, bit for bit.

Loops and several reductions are in test_requests.py, and programs over blocks in test_tiled_programs.py.
"""

import re

import numpy as np
import pytest
from helpers.request_lists import Recorded

import pycudakit as pk
from pycudakit._families.take import put_rows
from pycudakit._native import abi, loader
from pycudakit._native.abi import address_of
from pycudakit.fusing.memory.buffer import owner_of


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
    "random": (lambda: pk.random.default_rng(3).normal(size=1000), (), of_result),
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
    "reduce": (lambda x: pk.sum(x.reshape(-1, 10), axis=1), (values(),), of_result),
    "scan": (pk.cumsum, (values(),), of_result),
    "evaluate": (pk.hypot, (values(), values(seed=2)), of_result),
}


def record(engine, family, function, arguments, outputs_of):
    """Call a function; return its entries and arguments, and its outputs, set to zeros, with their bytes."""
    arguments, before = [each.copy() for each in arguments], arguments
    with pk.engine(engine):
        recorded = Recorded(function, *arguments)
    assert any(re.fullmatch(f"pk_{family}(_[a-z]+[0-9]*)?", name) for name in recorded.names())
    outputs = [owner_of(np.asarray(each)) for each in outputs_of(recorded)]
    expected = [each.tobytes() for each in outputs]
    assert any(each.any() for each in outputs)
    for output in outputs:
        output[...] = 0
    for array, values_before in zip(arguments, before, strict=True):
        array[...] = values_before
    return recorded, arguments, outputs, expected


def check(engine, family, function, arguments, outputs_of):
    """Compare the results of a list with those of the calls that it is made of."""
    recorded, arguments, outputs, expected = record(engine, family, function, arguments, outputs_of)
    buffers = [] if family == "extent" else outputs  # single values are in no buffer
    recorded.run(loader.library(engine), arguments, buffers)
    assert [each.tobytes() for each in outputs] == expected


@pytest.mark.parametrize("has_kernels", [pytest.param(False, marks=pytest.mark.smoke), True])
def test_a_list_of_all_families(engine, has_kernels):
    """On a GPU, all requests of a list without user kernels are in one stream."""
    whole, kept, inputs, buffers, outputs, expected = Recorded(lambda: None), [], [], [], [], []
    for family, (function, arguments, outputs_of) in CASES.items():
        if family == "run_kernels" and not has_kernels:
            continue
        short = [each[:100] if each.ndim == 1 else each for each in arguments]
        recorded, given, results, their_bytes = record(engine, family, function, short, outputs_of)
        whole.calls += recorded.calls
        kept.append(recorded)  # with its arrays
        inputs += given
        buffers += [] if family == "extent" else results
        outputs += results
        expected += their_bytes
    whole.run(loader.library(engine), inputs, buffers)
    assert [each.tobytes() for each in outputs] == expected


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
    if family == "matmul" and dtype[0] == "f" and engine == "cpu":
        pytest.skip("the CPU engine multiplies floats by BLAS")
    if family == "select" and dtype == "b1":
        pytest.skip("bools have no quantiles")
    x = values(dtype, 900)
    check(
        engine, family, function, (x % 8 if dtype == "f2" else x,), outputs_of
    )  # float16 has products to 65504


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
