"""A capture's record of the bytes that requests have written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import pycudakit as pk
from pycudakit._native.abi import address_of
from pycudakit.fusing.execute import capture
from pycudakit.fusing.execute.captured_memory import Memory

slices = st.slices(6).filter(lambda each: range(6)[each])


@given(st.lists(st.tuples(st.booleans(), slices, slices, st.booleans()), max_size=12))
def test_it_is_that_of_a_mask(steps):
    owner = np.zeros((6, 6), np.int32)
    memory, written = Memory(owner, is_constant=False), np.zeros((6, 6), bool)
    for is_write, rows, columns, is_transposed in steps:
        part, mask = owner[rows, columns], written[rows, columns]
        operand = part.T if is_transposed else part
        place = address_of(operand), operand.shape, operand.strides, operand.itemsize
        if is_write:
            memory.mark_written(*place)
            mask[...] = True
        else:
            assert memory.has_written(*place) == mask.all()
        assert memory.is_written == written.all()


def test_overlapping_elements_are_not_dense():
    owner = np.zeros(5, np.int64)
    windows = as_strided(owner, (2, 2), (8, 8))
    memory = Memory(owner, is_constant=False)
    memory.mark_written(address_of(windows), windows.shape, windows.strides, 8)
    assert memory.has_written(memory.begin, (3,), (8,), 8)
    assert not memory.has_written(memory.begin, (4,), (8,), 8)


def test_constants_are_written():
    owner = np.zeros(3)
    assert Memory(owner, is_constant=True).is_written


@pytest.mark.parametrize("reduce", ["sum", "max", "dot"])
def test_a_reduction_of_more_memory_than_a_capture_keeps(engine, reduce, monkeypatch):
    """Of a new array that is not an argument's."""
    monkeypatch.setattr(capture, "_MAX_BYTES", 1 << 16)
    monkeypatch.setattr(capture, "_MAX_BYTES_OF_REQUEST", 0)

    def body(x):
        values = np.ones(20_000) * 2
        reduced = np.dot(values, values) if reduce == "dot" else getattr(values, reduce)()
        return x + reduced

    fused, x = pk.fuse(body), np.arange(10.0)
    for _ in range(4):
        np.testing.assert_array_equal(fused(x), body(x))
