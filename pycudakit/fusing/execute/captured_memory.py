"""The memory of a captured call, and which of its bytes the requests so far have written."""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Sequence

import numpy as np

from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.buffer import byte_bounds


class Memory:
    """The memory of an array that owns it, other than an argument's."""

    def __init__(self, owner: Array, is_constant: bool, serial: int = 0) -> None:
        self.owner = owner  # kept alive, so that no other array has its address
        self.begin, self.end = byte_bounds(owner)
        self.is_constant = is_constant
        self.serial = serial  # in the order in which the call allocates
        # The ranges that dense operands have written; and all written bytes, once an operand is not dense.
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._bytes: Array | None = None
        self.first_use, self.last_use = sys.maxsize, -1  # the indices of requests
        self.first_segment, self.last_segment = sys.maxsize, -1
        self.is_read_by_python = False
        self.is_from_host_call = False

    def mark_used(self, request: int, segment: int) -> None:
        """Note that a request reads or writes it."""
        self.first_use, self.last_use = min(self.first_use, request), max(self.last_use, request)
        self.mark_used_in(segment)

    def mark_used_in(self, segment: int) -> None:
        """Note that a segment uses it, or the condition or the host call at its end."""
        self.first_segment = min(self.first_segment, segment)
        self.last_segment = max(self.last_segment, segment)

    def mark_written(self, address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> None:
        """Note that a request writes an operand."""
        if _is_dense(shape, strides, item):
            begin, end = address, address + math.prod(shape) * item
            first, last = bisect.bisect_left(self._ends, begin), bisect.bisect_right(self._begins, end)
            if first < last:  # they overlap, or touch
                begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
            self._begins[first:last], self._ends[first:last] = [begin], [end]
            if self._bytes is not None:
                self._bytes[begin - self.begin : end - self.begin] = True
        elif not self._has_range(*operand_bounds(address, shape, strides, item)):
            self._part(address, shape, strides, item)[...] = True

    def has_written(self, address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
        """Return True if it is a constant, or earlier requests have written all of an operand."""
        if self.is_constant or 0 in shape or self._has_range(*operand_bounds(address, shape, strides, item)):
            return True
        return bool(self._part(address, shape, strides, item).all())

    @property
    def is_written(self) -> bool:
        """Whether requests, or a host call, have written all of it."""
        return self.has_written(self.begin, (self.end - self.begin,), (1,), 1)

    def _has_range(self, begin: int, end: int) -> bool:
        at = bisect.bisect_right(self._begins, begin) - 1
        return at >= 0 and end <= self._ends[at]

    def _part(self, address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> Array:
        """Return the part of `_bytes` for an operand."""
        if self._bytes is None:
            self._bytes = np.zeros(self.end - self.begin, np.bool_)
            for begin, end in zip(self._begins, self._ends, strict=True):
                self._bytes[begin - self.begin : end - self.begin] = True
        part: Array = np.ndarray((*shape, item), np.bool_, self._bytes, address - self.begin, (*strides, 1))
        return part


def _is_dense(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Return True if the elements fill a range of memory from their first one on, each byte once."""
    expected = item
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n != 1:
            if stride != expected:
                return False
            expected *= n
    return True


def operand_bounds(address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, int]:
    """Return the first byte of an operand, and the end of its last one."""
    begin, end = address, address + item
    for n, stride in zip(shape, strides, strict=True):
        if stride < 0:
            begin += (n - 1) * stride
        else:
            end += (n - 1) * stride
    return begin, end
