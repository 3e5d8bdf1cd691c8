"""Helpers for tests of scopes: calls of a scope through the C ABI, and the bytes that they moved."""

import ctypes
import functools
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk
from helpers.processes import python
from pycudakit import errors
from pycudakit._element_programs.values import operations
from pycudakit._native import abi, loader

SMALL, LARGE = 1000, 700_001
NOTES = 1 << 12  # upper bound of the bytes of reports and partial results that a call downloads
KINDS = {"temporary": abi.RESIDENT_TEMPORARY, "input": abi.RESIDENT_INPUT, "result": abi.RESIDENT_OUTPUT}


class Scope:
    """An open residency scope: its calls, and the bytes that they moved."""

    def __init__(self, engine):
        self.library = loader.library(engine)
        self.is_cuda = engine == "cuda"

    def run(self, body):
        raised = []

        def call(_context):
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - to be raised outside of ctypes
                raised.append(error)
            return len(raised)

        try:
            self.library.pk_run_in_residency_scope(abi.RESIDENCY_BODY(call), None)
        except errors.Interrupted:
            if not raised:
                raise
        if raised:
            raise raised[0]

    def keep(self, array, kind=abi.RESIDENT_INPUT):
        kept = ctypes.c_int32(-1)
        self.library.pk_residency_add(array.ctypes.data, array.nbytes, kind, ctypes.byref(kept))
        assert kept.value == self.is_cuda
        return array

    def temporary(self, shape, dtype=np.float32):
        return self.keep(np.full(shape, 77, dtype), abi.RESIDENT_TEMPORARY)

    def lend(self, array, home, valid=abi.IMPORT_DEVICE_VALID):
        device = ctypes.c_int32(-1)
        at = home.__cuda_array_interface__["data"][0]
        self.library.pk_residency_import(array.ctypes.data, array.nbytes, at, 1, valid, ctypes.byref(device))
        assert device.value == 0
        return array

    def fetch(self, array, entry="pk_residency_download"):
        report = np.zeros(1, abi.REPORT)
        getattr(self.library, entry)(array.ctypes.data, np.zeros(1, abi.OPTIONS), report)
        return report["bytes_up"][0], report["bytes_down"][0]

    def send(self, array):
        return self.fetch(array, "pk_residency_upload")

    def changed(self, array):
        self.library.pk_residency_invalidate(array.ctypes.data)

    def drop(self, array):
        self.library.pk_residency_drop(array.ctypes.data)

    def evaluate(self, name, out, *arrays, options=None):
        """Compute `out[...] = name(name(arrays[0], arrays[1]), ...)`, and return the report."""
        code = abi.TYPES.index(out.dtype.newbyteorder("="))
        opcode, count = operations()[name], len(arrays)
        program = [(abi.OP_LOAD, code, code, i, 0, 0) for i in range(count)]
        value = 0
        for i in range(1, count):
            program.append((opcode, code, code, value, i, 0))
            value = len(program) - 1
        program.append((abi.OP_STORE, code, code, value, count, 0))
        operands = np.zeros(count + 1, abi.OPERAND)
        views = [np.broadcast_to(a, out.shape) for a in arrays]
        for row, view in zip(operands, [*views, out], strict=True):
            row["address"], row["type"] = view.__array_interface__["data"][0], code
            row["flags"] = 0 if view.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
            row["strides"][: out.ndim] = view.strides
        report = np.zeros(1, abi.REPORT)
        shape = np.array(out.shape, np.int64)
        self.library.pk_evaluate(
            *(np.array(program, abi.INSTRUCTION), len(program), operands, count + 1),
            *(shape, out.ndim, np.zeros(1, abi.OPTIONS) if options is None else options),
            *(np.zeros(len(program), np.uint8), report),
        )
        return report[0]

    def sum(self, view, *others, kind=abi.REDUCE_SUM):
        """Return the sum of all elements, or of products, and the report."""
        out = np.zeros((), np.float64)
        return out, self.reduce(out, view, *others, kind=kind, outer=0)

    def reduce(self, out, *views, kind=abi.REDUCE_SUM, outer=0):
        """Reduce all dimensions after the first `outer` ones."""
        count, dims = len(views), views[0].ndim
        code = abi.TYPES.index(views[0].dtype)
        program = [(abi.OP_LOAD, code, code, i, 0, 0) for i in range(count)]
        program += [(abi.OP_STORE, code, code, i, count + i, 0) for i in range(count)]
        operands = np.zeros(2 * count + 1, abi.OPERAND)
        operands["type"] = code
        for row, view in zip(operands, views, strict=False):
            row["address"], row["strides"][:dims] = view.__array_interface__["data"][0], view.strides
        operands["address"][-1] = out.__array_interface__["data"][0]
        operands["type"][-1] = abi.TYPES.index(out.dtype)
        operands["strides"][-1, :outer] = out.strides
        asked = np.zeros(1, abi.REDUCTION)
        asked["kind"], asked["value_count"], asked["outer"], asked["reduced"] = (
            kind,
            count,
            outer,
            dims - outer,
        )
        report = np.zeros(1, abi.REPORT)
        self.library.pk_reduce(
            *(asked, np.array(program, abi.INSTRUCTION), len(program), operands, len(operands)),
            *(np.array(views[0].shape, np.int64), dims, np.zeros(len(program), np.uint8)),
            *(np.zeros(1, abi.OPTIONS), report),
        )
        return report[0]

    def up(self, report, wanted):
        assert report["bytes_up"] == (wanted if self.is_cuda else 0)

    def down(self, report, wanted):
        least = wanted if self.is_cuda else 0
        assert least <= report["bytes_down"] <= least + (NOTES if self.is_cuda else 0)


def devices_of_spans(scope, device, run):
    """Run calls, which take options, in a scope on a GPU; return the GPUs on which their stages ran."""
    if not scope.is_cuda or len(pk.devices()) <= device:
        pytest.skip("needs several GPUs")
    index, spans, options = np.array([device], np.int64), np.zeros(1000, abi.SPAN), np.zeros(1, abi.OPTIONS)
    options["devices"], options["device_count"] = index.ctypes.data, 1
    options["spans"], options["span_capacity"] = spans.ctypes.data, len(spans)
    spans["device"] = -1

    def body():
        scope.library.pk_residency_set_device(device)
        run(options)

    scope.run(body)
    return set(spans["device"].tolist()) - {-1}


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(7).integers(-50, 50, shape).astype(dtype)


def in_plan(test):
    """Run a test as the body of a scope."""

    @functools.wraps(test)
    def run(scope, **given):
        scope.run(lambda: test(scope, **given))

    return run


def fail_each_call(scope, code):
    """Run code in a process of its own in which each CUDA call of a scope fails in turn."""
    if not scope.is_cuda:
        pytest.skip("it keeps nothing")
    found = f"import sys\nsys.path[:0] = {[str(Path(__file__).parents[1])]}\n"
    assert python(found + code) == "True"


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def fetched(scope, array):
    """Download an array; return the number of bytes."""
    return scope.fetch(array)[1]


def table(*views):
    """Return an operand table of these views."""
    operands = np.zeros(len(views), abi.OPERAND)
    for row, view in zip(operands, views, strict=True):
        row["address"] = view.__array_interface__["data"][0]
        row["type"], row["strides"][: view.ndim] = abi.TYPES.index(view.dtype), view.strides
    return operands
