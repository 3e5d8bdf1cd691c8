"""The fast path of elementwise calls: prepared programs, one for each function and types.

A plain call has arrays of native types and one shape, and Python numbers, without keywords. Every other call
takes the general path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from pycudakit._element_programs import device_launch
from pycudakit._element_programs.element_function import ElementFunction, plain_program
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._families.elementwise import general_path, prepared
from pycudakit._families.elementwise.ufunc_methods import NOT_GIVEN, UfuncAttributes
from pycudakit._interop.cuda_libraries import library_of_type
from pycudakit._native import allocator, engine_status
from pycudakit._native.allocator import residency_hooks
from pycudakit._native.dtypes import CODES
from pycudakit._runtime import context, native_call
from pycudakit._runtime.dispatch_cache import with_dispatch_cache
from pycudakit._runtime.engine_choice import requested_engine
from pycudakit._runtime.native_call import thread_log
from pycudakit._runtime.operands import allocate, layout_of

_current_context = context.current_context


class Unary(UfuncAttributes, Protocol):
    """The type of elementwise functions of one array."""

    def __call__(
        self,
        x: Any,
        /,
        out: Any = NOT_GIVEN,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: Any = None,
        sig: Any = None,
    ) -> Any:
        """Compute element by element."""
        ...


class Binary(UfuncAttributes, Protocol):
    """The type of elementwise functions of two arrays."""

    def __call__(
        self,
        x1: Any,
        x2: Any,
        /,
        out: Any = NOT_GIVEN,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: Any = None,
        sig: Any = None,
    ) -> Any:
        """Compute element by element."""
        ...


# Small calls go straight to NumPy. The two closures below are all that pycudakit adds to them, so
# `context.fast_path_engine()` is inlined in them, and in `call`, to save a call. They cover arrays of one
# shape; numbers, lists, broadcasts and `out` go through the dispatch cache.


def unary(function: ElementFunction, ufunc: Any) -> Unary:
    """Make the public function of one array; small calls go to NumPy at once."""
    below, describe = function.numpy_below, function.describe_small_call
    dispatch = with_dispatch_cache(ufunc, lambda x, out=None: call(function, (x,), out))

    def call_unary(
        x: Any,
        /,
        out: Any = NOT_GIVEN,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: Any = None,
        sig: Any = None,
    ) -> Any:
        if (
            (_current_context.get().fast_path_engine or context.process_engine) == "auto"
            and type(x) is np.ndarray
            and (size := x.size) < below.get(types := (x.dtype,), 0)
            and out is NOT_GIVEN
            and where is True
            and dtype is signature is sig is None
            and order == "K"
        ):
            result = ufunc(x, casting=casting)
            thread_log.call = describe, size, types
            return result
        if out is NOT_GIVEN:
            out = None
            if where is not True:
                general_path.warn_uninitialized(x, where)
        elif type(out) is tuple and len(out) == 1:
            (out,) = out
        if order == "K" and subok is True and signature is sig is None and out is not ...:
            if (
                where is True
                and dtype is None
                and casting == "same_kind"
                and (_current_context.get().fast_path_engine or context.process_engine) == "auto"
            ):
                return dispatch(x) if out is None else dispatch(x, out)
            return call(function, (x,), out, where, dtype, casting)
        resolved = general_path.resolve_signature(signature, sig)
        return general_path.call_with_keywords(
            function, (x,), out, where, dtype, casting, order, subok, resolved
        )

    return cast("Unary", call_unary)  # ufuncs.py adds the attributes of a ufunc


def binary(function: ElementFunction, ufunc: Any) -> Binary:
    """Make the public function of two arrays; small calls go to NumPy at once."""
    below, describe = function.numpy_below, function.describe_small_call
    dispatch = with_dispatch_cache(
        _out_by_keyword(ufunc), lambda x1, x2, out=None: call(function, (x1, x2), out)
    )

    def call_binary(
        x1: Any,
        x2: Any,
        /,
        out: Any = NOT_GIVEN,
        *,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: bool = True,
        signature: Any = None,
        sig: Any = None,
    ) -> Any:
        if (
            (_current_context.get().fast_path_engine or context.process_engine) == "auto"
            and type(x1) is np.ndarray
            and (size := x1.size)
            < below.get(
                types := (
                    x1.dtype,
                    x2.dtype if type(x2) is np.ndarray and x2.shape == x1.shape else type(x2),
                ),
                0,
            )
            and out is NOT_GIVEN
            and where is True
            and dtype is signature is sig is None
            and order == "K"
        ):
            result = ufunc(x1, x2, casting=casting)
            thread_log.call = describe, size, types
            return result
        if out is NOT_GIVEN:
            out = None
            if where is not True:
                general_path.warn_uninitialized(x1, x2, where)
        elif type(out) is tuple and len(out) == 1:
            (out,) = out
        if order == "K" and subok is True and signature is sig is None and out is not ...:
            if (
                where is True
                and dtype is None
                and casting == "same_kind"
                and (_current_context.get().fast_path_engine or context.process_engine) == "auto"
            ):
                return dispatch(x1, x2) if out is None else dispatch(x1, x2, out)
            return call(function, (x1, x2), out, where, dtype, casting)
        return general_path.call_with_keywords(
            function,
            (x1, x2),
            out,
            where,
            dtype,
            casting,
            order,
            subok,
            general_path.resolve_signature(signature, sig),
        )

    return cast("Binary", call_binary)


def _out_by_keyword(ufunc: Any) -> Any:
    """Wrap the ufuncs that warn if `out` is positional (it may be a mistaken operand) to pass it by name."""
    if ufunc in (np.maximum, np.minimum):
        return lambda x1, x2, out=None: ufunc(x1, x2, out=out)
    return ufunc


def _fits_out(function: ElementFunction, out: Any, shape: tuple[int, ...], inputs: Sequence[Any]) -> bool:
    """Return True if the result can be written straight to `out`."""
    return (
        function.outputs == 1
        and type(out) is np.ndarray
        and out.shape == shape
        and out.dtype in CODES
        and out.flags.c_contiguous
        and out.flags.writeable
        and not any(
            type(value) is np.ndarray and value is not out and np.may_share_memory(value, out)
            for value in inputs
        )
    )


def call(
    function: ElementFunction,
    inputs: Sequence[Any],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    numpy_call: Callable[..., Any] | None = None,
) -> Any:
    """Compute a function on the requested engine, or under `auto` on the fastest.

    `numpy_call` replaces the function's own `numpy` where that needs other arguments.
    """
    engine = _current_context.get().fast_path_engine or context.process_engine
    # With `out=`, most calls under `auto` are NumPy's; the general path decides.
    automatic = engine == "auto" and out is None and engine_status.status("cpu").available
    is_plain = (
        (automatic or engine in ("cpu", "cuda"))
        and where is True
        and dtype is None
        and casting == "same_kind"
    )
    shape, size, is_dense = None, 0, True
    types: list[Any] = []
    for value in inputs if is_plain else ():
        kind = type(value)
        if kind is np.ndarray:
            code = CODES.get(value.dtype)
            if shape is None:
                shape, size = value.shape, value.size
            elif value.shape != shape:
                code = None
            if code is None:
                is_plain = False
                break
            is_dense &= value.flags.c_contiguous
            types.append(code)
        elif kind is int or kind is float:
            types.append(kind)
        else:
            if library_of_type(kind) is not None:
                result = device_launch.call(function, inputs, out)
                if result is not None:
                    return result
            is_plain = False
            break
    if not is_plain or shape is None or (out is not None and not _fits_out(function, out, shape, inputs)):
        return general_path.call(function, inputs, out, where, dtype, casting, numpy_call)

    choice = (
        None if automatic else requested_engine(function.name, engine)
    )  # raises NoDevice before anything is compiled
    program = plain_program(function, tuple(types), None if out is None else CODES[out.dtype])
    if program is None:
        return general_path.call(function, inputs, out, where, dtype, casting, numpy_call)
    if choice is None:
        choice = general_path.choose(function, program, inputs, size, size * program.in_bytes)
        if choice.engine == "numpy":
            compute = functools.partial(numpy_call or function.numpy, *inputs)
            return native_call.run_numpy(function.name, choice.reason, compute)
    if out is not None:
        results = [out]
    elif is_dense:
        is_small = size * program.out_bytes < allocator.MIN_BYTES and residency_hooks.on_new_array is None
        empty = np.empty if is_small else allocator.empty
        results = [empty(shape, dtype) for dtype in program.out_dtypes]
    else:
        arrays = [value for value in inputs if type(value) is np.ndarray]
        results = [allocate(dtype, shape, arrays) for dtype in program.out_dtypes]
    works = prepared_programs(program)
    work = works.take()
    try:
        if is_dense:
            work.bind_dense(size, *results, None, *inputs)
        else:
            values = [*results, None, *inputs]
            layouts = [layout_of(value) if type(value) is np.ndarray else None for value in values]
            work.bind_strided(shape, values, layouts)
    except OverflowError:  # a Python integer that the other operands' type cannot hold
        works.give_back(work)
        return general_path.call(function, inputs, out, where, dtype, casting, numpy_call)
    try:
        if work.run(choice, size):
            work.report_fp_flags()
    finally:
        works.give_back(work)
    if automatic and is_dense and choice.engine == "cpu" and function.outputs == 1:
        prepared.offer_to_cache(program, inputs, results[0])
    if out is None and not shape:
        results = [result[()] for result in results]
    return results[0] if function.outputs == 1 else tuple(results)
