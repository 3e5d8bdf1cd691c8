"""Random lists of requests (pk_run_requests), on every engine.

A list computes what its calls compute one by one, bit for bit. It is refused with an invalid argument, and
runs afterwards.
"""

import ctypes
import itertools
import sys
from pathlib import Path

import numpy as np
from helpers.request_lists import Recorded
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._native import abi, loader
from pycudakit._native.abi import address_of

sys.path.insert(0, str(Path(__file__).parent))
import mutations

SIZE = 200  # elements of most arrays
MOST = 14  # steps; the calls of a list with a key and 8 calls or more become a CUDA graph
UNARY = [pk.sin, pk.tanh, pk.negative, pk.absolute, pk.cumsum, pk.cummax, pk.sort]
BINARY = [pk.add, pk.subtract, pk.maximum, pk.minimum, pk.hypot]
OF_ROWS = [pk.sum, pk.max, pk.argmin]
POINTS = np.arange(9.0), np.arange(9.0) ** 2
FLOATS = [abi.TYPES.index(np.dtype(each)) for each in ("f4", "f8")]
INVALID = {kind: status for status, kind in pk.errors.BY_STATUS.items()}[pk.errors.InvalidArgument]
seeds = st.integers(0, 2**32 - 1)
_keys = itertools.count(1 << 41)


class Arrays:
    """Arrays, and steps that compute others: floats and indices, which steps read, and other results."""

    def __init__(self, rng):
        dtype = rng.choice(["f4", "f8"])
        self.rng = rng
        self.floats = [rng.uniform(-2, 2, SIZE).astype(dtype) for _ in range(2)]
        self.indices = [rng.integers(0, SIZE, SIZE)]
        self.inputs = [*self.floats, *self.indices]
        self.others = []

    def outputs(self):
        return [*self.floats[2:], *self.indices[1:], *self.others]

    def one_of(self, candidates):
        return candidates[int(self.rng.integers(len(candidates)))]

    def step(self):
        x, y, indices = self.one_of(self.floats), self.one_of(self.floats), self.one_of(self.indices)
        kind = int(self.rng.integers(9))
        if kind == 0:
            self.floats.append(self.one_of(UNARY)(x))
        elif kind <= 2:
            self.floats.append(self.one_of(BINARY)(x, y))
        elif kind == 3 and len(self.floats) > 2:
            self.one_of(BINARY)(x, y, out=self.one_of(self.floats[2:]))
        elif kind == 4:
            self.floats.append(pk.take(x, indices))
        elif kind == 5:
            self.indices.append(pk.argsort(x))
        elif kind == 6:
            self.floats.append(pk.sort(x))
            self.others.append(pk.searchsorted(self.floats[-1], y))
        elif kind == 7:
            self.others.append(self.one_of(OF_ROWS)(x.reshape(-1, 10), axis=1))
        else:
            self.others.append(pk.digitize(x, POINTS[0]))
            self.others.append(pk.matmul(indices.reshape(-1, 10), indices.reshape(10, -1)))
            if x.dtype == np.float64:
                self.floats.append(pk.interp(x, *POINTS))


class RandomList:
    """A list of random calls, whose arrays are in other memory at each run."""

    def __init__(self, rng, engine):
        self.rng, self.arrays = rng, Arrays(rng)
        steps = int(rng.integers(1, MOST + 1))
        with np.errstate(all="ignore"):
            self.recorded = Recorded(lambda: [self.arrays.step() for _ in range(steps)])
        self.inputs, self.outputs = self.arrays.inputs, self.arrays.outputs()
        self.expected = [array.tobytes() for array in self.outputs]
        self.call = ctypes.CDLL(str(loader.find(engine))).pk_run_requests
        self.requests = self.recorded.encode()
        self.order = np.arange(len(self.requests), dtype=np.int32)
        self.bindings = self.find_bindings()
        self.buffers = np.zeros(len(self.inputs) + len(self.outputs), abi.BUFFER)
        self.is_read = rng.random(len(self.outputs)) < 0.7  # by the caller
        flags = [abi.BUFFER_DOWNLOAD if is_read else 0 for is_read in self.is_read]
        self.buffers["flags"] = [abi.BUFFER_UPLOAD] * len(self.inputs) + flags
        self.stops = self.random_stops()
        self.key = np.array([next(_keys) if rng.random() < 0.6 else 0, 0], np.uint64)
        self.completed, self.options = np.zeros(1, np.int64), np.zeros(1, abi.OPTIONS)
        self.report = np.zeros(1, abi.REPORT)

    def find_bindings(self):
        """Find the words that are addresses in the arrays."""
        tables = [each for _, given in self.recorded.calls for each in given if is_table(each)]
        words = [words[i:] for words in self.requests["arguments"] for i in range(words.size)]
        words += [table["address"][i:] for table in tables for i in range(table.size)]
        bindings = []
        for word in words:
            for buffer, array in enumerate([*self.inputs, *self.outputs]):
                offset = int(word[0]) - address_of(array)
                if 0 <= offset < array.nbytes:
                    bindings.append((address_of(word), buffer, offset))
        return np.array(bindings, abi.BINDING)

    def random_stops(self):
        """Return stops at values that are finite, which end nothing."""
        itemsize = self.inputs[0].itemsize
        type_ = abi.TYPES.index(self.inputs[0].dtype)
        calls = sorted(self.rng.integers(len(self.order), size=int(self.rng.integers(4))).tolist())
        offsets = self.rng.integers(SIZE, size=len(calls)) * itemsize
        rows = [
            (call, call % 2, offset, type_, abi.STOP_IF_NOT_FINITE)
            for call, offset in zip(calls, offsets, strict=True)
        ]
        return np.array(rows, abi.STOP)

    def new_arrays(self):
        """Bind new arrays, of which the results are not computed yet; return them."""
        results = [np.full(each.nbytes, 7, np.uint8) for each in self.outputs]
        self.bound = [*(each.copy() for each in self.inputs), *results]
        self.buffers["address"] = [address_of(each) for each in self.bound]
        self.buffers["bytes"] = [each.nbytes for each in self.bound]
        return self.bound

    def arguments(self):
        tables = self.requests, self.order, self.bindings, self.buffers, self.stops
        counted = [each for table in tables for each in (table, len(table))]
        return [*counted, self.key, self.completed, self.options, self.report]

    def run(self, arguments):
        words = [address_of(each) if isinstance(each, np.ndarray) else each for each in arguments]
        return self.call(*map(ctypes.c_int64, [word or 0 for word in words]))

    def check(self):
        """Run the list, and compare its results."""
        arrays = self.new_arrays()
        assert self.run(self.arguments()) == 0
        assert self.completed[0] == len(self.order)
        results = zip(arrays[len(self.inputs) :], self.expected, self.is_read, strict=True)
        assert all(result.tobytes() == expected for result, expected, is_read in results if is_read)


def is_table(argument):
    return isinstance(argument, np.ndarray) and argument.dtype == abi.OPERAND


@given(seeds)
def test_a_list_computes_what_its_calls_do(engine, seed):
    one = RandomList(np.random.default_rng(seed), engine)
    for _ in range(4):
        one.check()


@given(seeds)
def test_a_list_with_an_invalid_argument(engine, seed):
    rng = np.random.default_rng(seed)
    one = RandomList(rng, engine)
    for _ in range(8):
        arrays = one.new_arrays()
        before = [each.tobytes() for each in arrays]
        arguments = mutations.refused_list(rng, one.arguments())
        assert one.run(arguments) == INVALID
        assert [each.tobytes() for each in arrays] == before
    one.check()


@given(seeds)
def test_a_list_with_an_invalid_request(engine, seed):
    """The calls before it are made."""
    rng = np.random.default_rng(seed)
    one = RandomList(rng, engine)
    one.key[:] = 0
    bound = {int(word) for word in one.bindings["word"]}
    for _ in range(8):
        call = int(rng.integers(len(one.requests)))
        name, given = one.recorded.calls[call]
        words = one.requests["arguments"][call]
        pointers = [address_of(each) for each in given if isinstance(each, np.ndarray)]
        places = [i for i, word in enumerate(words) if int(word) in pointers]
        places = [i for i in places if address_of(words[i:]) not in bound]
        tables = [each for each in given if is_table(each)]
        before = words.copy()
        if tables and rng.random() < 0.5:
            types, type_ = tables[0]["type"], tables[0]["type"][0]
            types[0] = 99
        elif places:
            types, type_ = np.zeros(1), 0
            words[int(rng.choice(places))] = 0
        else:
            continue
        one.new_arrays()
        assert one.run(one.arguments()) == INVALID, name
        assert one.completed[0] == call
        words[:], types[0] = before, type_
    one.check()
