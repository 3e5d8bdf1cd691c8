"""Programs over arrays that lie on a GPU: a launch in their stream, which nobody waits for."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction, plain_program
from pycudakit._element_programs.prepared_program import Work
from pycudakit._element_programs.program import ElementProgram
from pycudakit._interop.cuda_libraries import UNSEEN, Form, Library, dtype_of, library_of_type, reach
from pycudakit._native import abi, engine_status, loader
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime import context, late_bound
from pycudakit._runtime.engine_choice import Plan
from pycudakit._runtime.native_call import Pool

_here = context.here
_MOST_KNOWN = 4096  # forms of calls
# So many operations on, it is looked whether a pass is worth to be compiled.
_OFTEN = 1 << 27


class _Queued(Work):
    """A program over arrays of certain forms, of which the addresses alone are others each time."""

    def __init__(self, program: ElementProgram, shape: tuple[int, ...], forms: Sequence[Any]) -> None:
        super().__init__(program)
        if all(forms[at].strides is None and forms[at].shape == shape for _, at in self._arrays):
            self.shape[0] = math.prod(shape)
        else:
            self.shape[: len(shape)] = shape
            self.dimensions.value = len(shape)
        for index, at in self._arrays:
            self._flags[index] = abi.ON_DEVICE
            if self.dimensions.value != 1 or len(shape) == 1:
                self._strides[index, : len(shape)] = _strides(forms[at], shape)
        self._stream, self._waits = self.options["stream"], self.options["waits"]

    def aim_there(self, values: Sequence[Any], stream: int, waits: bool) -> None:
        """Say what a call reads and writes: the addresses of arrays, and Python's numbers."""
        for number, position in self._numbers:
            number[()] = values[position]
        for index, position in self._arrays:
            self.addresses[index] = values[position]
        self._stream[0] = stream
        self._waits[0] = waits


class _Known:
    """What is prepared for calls of one form."""

    def __init__(self, function: ElementFunction, inputs: Sequence[Any], out: Form | None) -> None:
        inputs = [form if isinstance(form, type) else Form(*form) for form in inputs]
        forms = [form for form in (*inputs, out) if isinstance(form, Form)]
        self.shape = np.broadcast_shapes(*(form.shape for form in forms))
        dtypes = {form: dtype_of(form.dtype) for form in forms}
        self.is_plain = (
            all(dtype is not None for dtype in dtypes.values())  # a float64 equals None
            and 0 not in self.shape
            and len(self.shape) <= abi.MAX_DIMS
            and (out is None or (out.shape == self.shape and not out.is_readonly))
        )
        if not self.is_plain:
            return
        types = tuple(CODES[dtypes[form]] if isinstance(form, Form) else form for form in inputs)  # type: ignore[index]
        program = plain_program(function, types, None if out is None else CODES[dtypes[out]])  # type: ignore[index]
        if program is None or function.outputs != 1:
            self.is_plain = False
            return
        self.dtype: DType = program.out_dtypes[0]
        self.size = math.prod(self.shape)
        self.work = self.size * len(program.instructions)
        # Where the arrays' memory begins and ends, from their first elements on; that of `out` last.
        self.extents = [_extent(form) if isinstance(form, Form) else None for form in (*inputs, out)]
        made = out or Form(self.dtype.str, self.shape, None, False)
        self.pool = Pool(functools.partial(_Queued, program, self.shape, (made, None, *inputs)))
        self.asked = Plan(function.name, "cuda", context.ASKED_FOR)
        self.automatic = Plan(function.name, "cuda", "auto: the arrays lie on a GPU")

    def overlaps(self, forms: Sequence[Any], values: Sequence[Any]) -> bool:
        """Tell whether `out` has elements of an argument, but not each at its place."""
        written, (low, high) = values[0], self.extents[-1]  # type: ignore[misc]
        low, high = low + written, high + written
        for form, address, extent in zip(forms, values[2:], self.extents, strict=False):
            if extent is None or (address == written and form == forms[-1]):
                continue
            if low < address + extent[1] and address + extent[0] < high:
                return True
        return False


_known: dict[tuple[Any, ...], _Known | None] = {}
_operations = 0  # that were queued since it was looked whether to compile


def call(function: ElementFunction, inputs: Sequence[Any], out: Any = None) -> Any:
    """Queue a function of arrays of one library and of Python's numbers; None if that takes more care."""
    here = _here.get()
    engine = here.fast or context.process
    if engine not in ("auto", "cuda"):
        return None
    library: Library | None = None
    first, stream = None, 0
    values: list[Any] = [0, None]
    forms: list[Any] = []
    for value in inputs if out is None else (*inputs, out):
        kind = type(value)
        if kind is int or kind is float:
            forms.append(kind)
            values.append(value)
            continue
        own = library_of_type(kind)
        if own is None or (library is not None and own is not library):
            return None
        try:
            array = own.see(value)
        except UNSEEN:
            return None
        if array is None:
            return None
        form, address, own_stream = array
        if library is None:
            library, first, stream = own, value, own_stream
        elif own_stream != stream:
            return None
        forms.append(form)
        values.append(address)
    if library is None or (out is not None and type(out) in (int, float)):
        return None
    key = (function, out is None, *forms)
    known = _known.get(key)
    if known is None:
        if key in _known or not engine_status.status("cuda").available:
            return None
        known = _prepared(key, function, forms, out)
        if known is None:
            return None
    if out is None:
        result = library.make(known.shape, known.dtype, first)
        values[0] = library.address_of(result)
    else:
        result, values[0] = out, values.pop()
        if known.overlaps(forms, values):
            return None
    pool = known.pool
    work = pool.take()
    try:
        work.aim_there(values, stream, here.wait)
        work.run_alone(known.automatic if engine == "auto" else known.asked)
    except OverflowError:  # an integer that its company's type cannot hold
        return None
    finally:
        pool.give_back(work)
    _note_work(known.work)
    return result


@functools.lru_cache(1024)
def _pool(program: ElementProgram, shape: tuple[int, ...], forms: tuple[Any, ...]) -> Pool[_Queued]:
    return Pool(functools.partial(_Queued, program, shape, [form and _form(*form) for form in forms]))


def _form(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Form:
    form = Form(dtype.str, shape, None, False)
    return form if strides == _dense(form) else form._replace(strides=strides)


def queue(
    name: str,
    program: ElementProgram,
    shape: tuple[int, ...],
    forms: tuple[Any, ...],
    values: Sequence[Any],
    stream: int,
) -> None:
    """Queue a program in a stream.

    `values` are its outputs, its mask and its inputs: the addresses of arrays, of which `forms` has the
    shapes, strides and types, and Python's numbers.
    """
    pool = _pool(program, shape, forms)
    work = pool.take()
    try:
        work.aim_there(values, stream, _here.get().wait)
        work.run_alone(Plan(name, "cuda", context.ASKED_FOR))
    finally:
        pool.give_back(work)
    _note_work(math.prod(shape) * len(program.instructions))


_COPY = ElementFunction("copy", np.copy, lambda _, x, **__: (x,))


def queue_copy(
    dtype: DType,
    shape: tuple[int, ...],
    to: tuple[int, tuple[int, ...]],
    source: tuple[int, tuple[int, ...]],
    stream: int,
) -> None:
    """Queue a copy from one array to another, each given by its address and its strides."""
    program = plain_program(_COPY, (CODES[dtype],), None)
    assert program is not None  # noqa: S101
    forms = (shape, to[1], dtype), None, (shape, source[1], dtype)
    queue("copy", program, shape, forms, (to[0], None, source[0]), stream)


def _prepared(key: tuple[Any, ...], function: ElementFunction, forms: list[Any], out: Any) -> _Known | None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    try:
        known = (
            _Known(function, forms, None) if out is None else _Known(function, forms[:-1], Form(*forms[-1]))
        )
    except (TypeError, ValueError):  # which the way that takes more care says in other words
        return None
    found = _known[key] = known if known.is_plain else None
    return found


def _note_work(operations: int) -> None:
    """Have passes compiled that are worth it, now and then."""
    global _operations  # noqa: PLW0603
    _operations += max(operations, _OFTEN >> 8)
    if _operations >= _OFTEN:
        _operations = 0
        late_bound.compile_wanted(loader.library("cuda"))


def _dense(form: Form) -> tuple[int, ...]:
    dtype = dtype_of(form.dtype)
    item = 0 if dtype is None else dtype.itemsize
    return tuple(math.prod(form.shape[d + 1 :]) * item for d in range(len(form.shape)))


def _strides(form: Form, shape: tuple[int, ...]) -> list[int]:
    """Return an array's strides, broadcast to a shape."""
    strides = _dense(form) if form.strides is None else form.strides
    own = [0 if n == 1 else stride for n, stride in zip(form.shape, strides, strict=True)]
    return [0] * (len(shape) - len(own)) + own


def _extent(form: Form) -> tuple[int, int]:
    """Return where an array's memory begins and ends, from its first element on."""
    strides = _dense(form) if form.strides is None else form.strides
    low, high = reach(form.shape, strides)
    dtype = dtype_of(form.dtype)
    return low, high + (0 if dtype is None else dtype.itemsize)
