"""Lists of requests for pk_run_requests: one that is written by hand, and those that calls record."""

import ctypes
import re
import traceback

import numpy as np

from pycudakit._element_programs.values import operations
from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._runtime.native_call import observe_entries

F64 = abi.TYPES.index(np.dtype("float64"))
SIZE = 300


class Lists:
    """A list: out = x * x, then number = sum(out), with x, out and number bound to buffers."""

    def __init__(self):
        self.x, self.out, self.number = np.linspace(1, 2, SIZE), np.zeros(SIZE), np.zeros(1)
        load, multiply = (abi.OP_LOAD, F64, F64, 0, 0, 0), (operations()["multiply"], F64, F64, 0, 0, 0)
        self.square = np.array([load, multiply, (abi.OP_STORE, F64, F64, 1, 1, 0)], abi.INSTRUCTION)
        self.value = np.array([load, (abi.OP_STORE, F64, F64, 0, 1, 0)], abi.INSTRUCTION)
        self.operands, self.reduced = np.zeros(2, abi.OPERAND), np.zeros(3, abi.OPERAND)
        for table in (self.operands, self.reduced):
            table["type"], table["strides"][:, 0] = F64, 8
        self.shape, self.flags = np.array([SIZE], np.int64), np.zeros(3, np.uint8)
        self.reduction = np.zeros(1, abi.REDUCTION)
        self.reduction["value_count"] = self.reduction["reduced"] = 1
        self.requests = np.zeros(2, abi.REQUEST)
        self.set(0, abi.REQUEST_EVALUATE, self.square, 3, self.operands, 2, self.shape, 1, self.flags)
        self.set(
            *(1, abi.REQUEST_REDUCE, self.reduction, self.value, 2, self.reduced, 3),
            *(self.shape, 1, self.flags),
        )
        self.order = np.array([0, 1], np.int32)
        words = (self.operands, 0, 0), (self.operands, 1, 1), (self.reduced, 0, 1), (self.reduced, 2, 2)
        self.bindings = np.array(
            [(table[row:].ctypes.data, buffer, 0) for table, row, buffer in words], abi.BINDING
        )
        self.buffers = np.zeros(3, abi.BUFFER)
        self.buffers["flags"] = abi.BUFFER_UPLOAD, abi.BUFFER_DOWNLOAD, abi.BUFFER_DOWNLOAD
        self.set_buffers(self.x, self.out, self.number)
        self.stops = np.zeros(0, abi.STOP)
        self.key = np.zeros(2, np.uint64)  # none
        self.completed = ctypes.c_int64(-1)
        self.options, self.report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)

    def set_buffers(self, *arrays):
        self.buffers["address"] = [array.ctypes.data for array in arrays]
        self.buffers["bytes"] = [array.nbytes for array in arrays]

    def set(self, row, entry, *arguments):
        self.requests[row]["entry"] = entry
        self.requests[row]["arguments"][: len(arguments)] = [
            each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments
        ]

    def run(self, library):
        return library.pk_run_requests(
            *(self.requests, len(self.requests), self.order, len(self.order)),
            *(self.bindings, len(self.bindings), self.buffers, len(self.buffers)),
            *(self.stops, len(self.stops), self.key),
            *(ctypes.byref(self.completed), self.options, self.report),
        )


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


def snapshot(argument):
    """Return an argument; of a prepared call, which others use later, a copy of a table, shape or number."""
    if isinstance(argument, ctypes.c_int64):
        return argument.value
    if not isinstance(argument, np.ndarray):
        return argument
    is_shape = argument.dtype == np.int64 and argument.size == abi.MAX_DIMS
    return argument.copy() if is_shape or argument.dtype in (abi.OPERAND, abi.REDUCTION) else argument


# Outputs whose memory Python shrinks after the call.
SHRUNK = {"histogram": 6, "weighted_histogram": 6, "histogram_of_extent": 5, "unique": 3}


class Recorded:
    """The entries that a call calls, as a list of requests."""

    def __init__(self, function, *arguments):
        self.calls, self.arguments = [], arguments
        self.kept = []  # the locals of the callers: tables have addresses of arrays among them
        with observe_entries(lambda call, _: self.record(*call.describe_entry())):
            self.result = function(*arguments)

    def record(self, name, given):
        given = [snapshot(each) for each in given]
        self.kept += [list(frame.f_locals.values()) for frame, _ in traceback.walk_stack(None)]
        for family, index in SHRUNK.items():
            if re.fullmatch(f"pk_{family}(_[a-z]+[0-9]+)?", name):
                given[index] = given[index].copy()
                if family == "unique":
                    given[index][int(given[7][0]) :] = 0  # which the entry leaves as it was
        self.calls.append((name, given))

    def names(self):
        return [name for name, _ in self.calls]

    def encode(self, entry_of=entry_of):
        """Return the table of the requests."""
        requests = np.zeros(len(self.calls), abi.REQUEST)
        for row, (name, given) in zip(requests, self.calls, strict=True):
            row["entry"], first = entry_of(name)
            words = [*first, *map(word_of, without_options(name, given))]
            row["arguments"][: len(words)] = words
        return requests

    def run(self, library, inputs, outputs, entry_of=entry_of):
        requests = self.encode(entry_of)
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
