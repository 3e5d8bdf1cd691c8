"""pk_run_blocks: programs over blocks, and the arguments that it refuses."""

import ctypes

import numpy as np
import pytest

from pycudakit._element_programs.values import operations
from pycudakit._native import abi, loader

F64 = abi.TYPES.index(np.dtype("float64"))
ROWS, LENGTH = 12, 100


class Call:
    """A call that sums the squares of rows of x, with the squares of each block of three rows in scratch."""

    def __init__(self):
        self.x = np.linspace(-3, 3, ROWS * LENGTH).reshape(ROWS, LENGTH)
        self.sums = np.full(ROWS, -7.0)
        load, multiply = (abi.OP_LOAD, F64, F64, 0, 0, 0), (operations()["multiply"], F64, F64, 0, 0, 0)
        square = [load, multiply, (abi.OP_STORE, F64, F64, 1, 1, 0)]
        self.programs = [
            np.array(steps, abi.INSTRUCTION) for steps in (square, [load, (abi.OP_STORE, F64, F64, 0, 1, 0)])
        ]
        self.operands = [np.zeros(2, abi.OPERAND), np.zeros(3, abi.OPERAND)]
        for table in self.operands:
            table["type"] = F64
            table["strides"][:2, :2] = 8 * LENGTH, 8
        self.operands[0]["address"][0] = self.x.ctypes.data
        self.operands[0]["flags"][1] = self.operands[1]["flags"][0] = abi.OPERAND_IN_SCRATCH
        self.operands[1]["address"][2] = self.sums.ctypes.data
        self.operands[1]["strides"][2, 0] = 8
        self.moves = [np.array([3 * 8 * LENGTH, 0], np.int64), np.array([0, 0, 24], np.int64)]
        self.shape = np.array([3, LENGTH], np.int64)
        self.reduction = np.zeros(1, abi.REDUCTION)
        self.reduction["kind"], self.reduction["value_count"] = abi.REDUCE_SUM, 1
        self.reduction["outer"] = self.reduction["reduced"] = 1
        self.exceptions = [np.full(len(each), 0xAA, np.uint8) for each in self.programs]
        self.passes = np.zeros(2, abi.BLOCK_PROGRAM)
        for i, row in enumerate(self.passes):
            row["program"], row["instruction_count"] = self.programs[i].ctypes.data, len(self.programs[i])
            row["operands"], row["operand_count"] = self.operands[i].ctypes.data, len(self.operands[i])
            row["shape"], row["dimensions"] = self.shape.ctypes.data, 2
            row["block_strides"], row["exceptions"] = (
                self.moves[i].ctypes.data,
                self.exceptions[i].ctypes.data,
            )
        self.passes[1]["reductions"], self.passes[1]["reduction_count"] = self.reduction.ctypes.data, 1
        self.report = np.full(abi.REPORT.itemsize, 0xAA, np.uint8)
        self.passes_at, self.count, self.blocks = self.passes.ctypes.data, 2, ROWS // 3
        self.scratch = 3 * 8 * LENGTH
        self.report_at = self.report.ctypes.data

    def run(self, library):
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        library.pk_run_blocks.argtypes = [pointer, size, size, size, pointer, pointer]
        return library.pk_run_blocks(
            self.passes_at, self.count, self.blocks, self.scratch, None, self.report_at
        )

    def untouched(self):
        bytes_met = np.concatenate(self.exceptions)
        return bool((self.sums == -7).all() and (bytes_met == 0xAA).all() and (self.report == 0xAA).all())


@pytest.fixture
def library():
    """A CPU library object of this test's own."""
    return ctypes.CDLL(str(loader.find("cpu")))


def failure(library):
    text = ctypes.c_char_p()
    library.pk_last_error(ctypes.byref(text))
    return text.value.decode()


def test_runs(library):
    call = Call()
    assert call.run(library) == 0
    np.testing.assert_allclose(call.sums, (call.x**2).sum(axis=1), rtol=1e-15)
    report = call.report.view(abi.REPORT)[0]
    assert report["chunks"] == 4
    assert report["exceptions"] == 0
    assert 0 < call.passes["seconds"].sum() <= report["seconds"] * report["threads"]
    assert not np.concatenate(call.exceptions).any()


def test_exceptions_are_of_all_blocks(library):
    call = Call()
    call.x[7, 3] = 1e300
    assert call.run(library) == 0
    assert call.report.view(abi.REPORT)[0]["exceptions"] == abi.FPE_OVERFLOW
    assert [list(each) for each in call.exceptions] == [[0, abi.FPE_OVERFLOW, 0], [0, 0]]
    assert call.sums[7] == np.inf
    assert np.isfinite(np.delete(call.sums, 7)).all()


def test_a_request_of_a_list(library):
    call, request = Call(), np.zeros(1, abi.REQUEST)
    request["entry"] = abi.REQUEST_RUN_BLOCKS
    request["arguments"][0, :4] = call.passes_at, call.count, call.blocks, call.scratch
    order, completed, report = np.zeros(1, np.int32), ctypes.c_int64(), np.zeros(1, abi.REPORT)
    nothing = [None, ctypes.c_int64(0)]
    status = library.pk_run_requests(
        *(ctypes.c_void_p(request.ctypes.data), ctypes.c_int64(1), ctypes.c_void_p(order.ctypes.data)),
        *(ctypes.c_int64(1), *nothing, *nothing, *nothing, None, ctypes.byref(completed), None),
        ctypes.c_void_p(report.ctypes.data),
    )
    assert (status, completed.value) == (0, 1)
    np.testing.assert_allclose(call.sums, (call.x**2).sum(axis=1), rtol=1e-15)
    assert report["chunks"][0] == 4


@pytest.mark.parametrize("nothing", ["blocks", "count"])
def test_nothing_to_do(library, nothing):
    call = Call()
    setattr(call, nothing, 0)
    assert call.run(library) == 0
    assert (call.sums == -7).all()


def spoilt_pass(index=0, **fields):
    def spoil(call):
        for field, value in fields.items():
            call.passes[index][field] = value

    return spoil


def spoilt(**fields):
    return lambda call: [setattr(call, field, value) for field, value in fields.items()]


def spoilt_operand(index=0, **fields):
    """Make the operand in scratch memory invalid."""

    def spoil(call):
        for field, value in fields.items():
            call.operands[index][field][1 - index] = value

    return spoil


def moved(call):
    call.moves[0][1] = 8


BEYOND = "an operand is outside of the scratch memory"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoilt(passes_at=None), "programs is a null pointer"),
        (spoilt(report_at=None), "report is a null pointer"),
        (spoilt(count=-1), "program_count is negative"),
        (spoilt(count=2**60), "program_count is too large"),
        (spoilt(blocks=-1), "blocks is negative"),
        (spoilt(blocks=2**62), "the last block's offset is too large"),
        (spoilt(scratch=-1), "scratch_bytes is out of range"),
        (spoilt(scratch=2**62), "scratch_bytes is out of range"),
        (spoilt(scratch=3 * 8 * LENGTH - 1), BEYOND),
        (spoilt(scratch=0), BEYOND),
        (spoilt_pass(program=0), "program is a null pointer"),
        (spoilt_pass(operands=0), "operands is a null pointer"),
        (spoilt_pass(1, shape=0), "shape is a null pointer"),
        (spoilt_pass(1, block_strides=0), "block_strides is a null pointer"),
        (spoilt_pass(1, exceptions=0), "exceptions is a null pointer"),
        (spoilt_pass(1, reductions=0), "there are no reductions, or no count"),
        (spoilt_pass(1, reduction_count=0), "there are no reductions, or no count"),
        (spoilt_pass(1, reduction_count=-1), "reduction_count is out of range"),
        (spoilt_pass(operand_count=-1), "operand_count is out of range"),
        (spoilt_pass(operand_count=abi.MAX_OPERANDS + 1), "operand_count is out of range"),
        (spoilt_operand(address=8), BEYOND),
        (spoilt_operand(address=2**63), BEYOND),
        (spoilt_operand(1, address=3 * 8 * LENGTH), BEYOND),
        (spoilt_operand(strides=2**40), BEYOND),
        (spoilt_operand(1, strides=-8), BEYOND),
        (spoilt_operand(1, flags=8), "an operand has unknown flags"),
        (moved, "an operand in the threads' memory moves"),
    ],
)
def test_refused(library, spoil, message):
    call = Call()
    spoil(call)
    assert call.run(library) == 1
    assert failure(library) == message
    assert call.untouched()


def test_programs_that_a_pass_refuses(library):
    """The message is that of pk_evaluate or pk_reduce_several."""
    call = Call()
    call.passes[0]["dimensions"] = abi.MAX_DIMS + 1
    assert call.run(library) == 1
    assert failure(library) == "dimensions is not from 0 to PK_MAX_DIMS"
    assert call.untouched()


def test_the_cuda_library_has_none():
    if not loader.find("cuda"):
        pytest.skip("there is no CUDA library")
    library, call = ctypes.CDLL(str(loader.find("cuda"))), Call()
    assert call.run(library) == 6
    assert "run the programs one after the other" in failure(library)
    assert call.untouched()
