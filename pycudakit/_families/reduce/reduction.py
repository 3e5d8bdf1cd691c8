"""One call of a reduction: argument checks, engine choice, result and floating-point warnings."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.reduce import prepared
from pycudakit._families.reduce.lowering import (
    ALL,
    ALL_FINITE,
    COUNT_ELEMENTS,
    COUNT_INF,
    COUNT_NAN,
    COUNT_NOT_NAN,
)
from pycudakit._families.reduce.reduce_kernel import (
    Lowering,
    ReduceKernel,
    Reducer,
    ReduceRequest,
    as_keepdims,
    axes_of,
    cost_of,
    numpy_rows,
    reduce,
    reduce_kernel_for,
    reduced_shape,
)
from pycudakit._native import allocator, engine_status
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime import context, dispatch_cache, fp_errors, native_call, operands
from pycudakit._runtime.engine_choice import (
    NO_COST,
    EngineChoice,
    choice_is_final,
    choose_engine,
    cpu_choice,
    numpy_choice_for_layout,
    requested_engine,
)
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit._runtime.native_call import extending_last_call, observe_entries
from pycudakit._runtime.ufunc_arguments import as_mask, broadcast_shapes, check_writeable

NONE: Any = np._NoValue  # noqa: SLF001


class ToPrepare:
    """An operand that a reducing function is called with to be prepared, without the reduction."""

    __slots__ = ("operand",)

    def __init__(self, operand: Any) -> None:
        self.operand = operand


def operand_of(a: Any) -> Any:
    """Return the operand of a reduction, whether it is computed or prepared."""
    return a.operand if type(a) is ToPrepare else a


class PendingReduction(NamedTuple):
    """A call of a reducing function without its reduction, which can be computed with others.

    `finish` returns the function's result from that of the request, with NumPy's warnings.
    """

    request: ReduceRequest
    finish: Callable[[Array], Any]


class Reduction:
    """One call of a reducing function: its operands, engine and result.

    A function checks its arguments, makes a `Reduction`, and ends with `compute`. If it was called with a
    `ToPrepare`, it returns a `PendingReduction`, or NotImplemented if NumPy computes the call.

    Parameters
    ----------
    name, lower
        NumPy's name, and the function that lowers it to a program.
    numpy
        Computes the call with NumPy.
    values
        The arguments.
    axis, keepdims, where
        As for NumPy.
    dtype, out
        As for NumPy. Without a `dtype`, and if `out_takes_part`, `out` takes part in choosing the result's
        type.
    unsupported
        The reason why only NumPy supports the call, or None.
    wrap_lowering
        Turns a lowering for values into one for the inputs of the program that computes these values.
    """

    def __init__(
        self,
        name: str,
        lower: Lowering,
        numpy: Callable[[], Any],
        values: Sequence[Any],
        axis: Any = None,
        *,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        where: Any = True,
        out_takes_part: bool = True,
        unsupported: str | None = None,
        wrap_lowering: Callable[[Lowering], Lowering] | None = None,
    ) -> None:
        self.name, self.numpy = name, numpy
        self.is_to_prepare = bool(values) and type(values[0]) is ToPrepare
        if self.is_to_prepare:
            values = [values[0].operand, *values[1:]]
        self._has_floats: bool | None = None  # None: the arrays' types decide
        self._layouts: list[Array] | None = None
        if values and type(values[0]) is FusedProducer:
            (computed,) = values
            values, wrap_lowering = computed.inputs, functools.partial(fused_lowering, computed.function)
            self._has_floats = computed.dtype.kind == "f"
            self._layouts = computed.layouts
        self._wrap_lowering = wrap_lowering
        self.keepdims = as_keepdims(keepdims, name)
        self.out = _checked_out(out)
        arrays = [operands.as_array(value) for value in values]
        mask = as_mask(where)
        ordinary = [array for array in arrays if array is not None]
        self.arrays = ordinary if mask is None else [*ordinary, mask]
        self.is_masked = mask is not None
        if self._layouts is not None and mask is not None:
            self._layouts = [*self._layouts, mask]
        self._values = operand_values(values, self.arrays) if wrap_lowering is not None else self.arrays
        result, unsupported_dtype = _requested_dtype(dtype, self.out, arrays if out_takes_part else [])
        unsupported = unsupported or unsupported_dtype
        self.shape: tuple[int, ...] = ()
        self.axes: tuple[int, ...] = ()
        self.kernel: ReduceKernel | None = None
        self.is_empty = False
        self._reduced: tuple[Array, ReduceRequest] | None = None
        self._is_finite: bool | None = None  # of a result that may be device-resident
        cost, rows = NO_COST, None
        if unsupported is None and len(ordinary) == len(arrays):
            self.kernel = self._kernel_for(lower, result)
            self._lay_out(axis, ordinary)
            if context.current_engine() == "auto":
                up = sum(a.nbytes for a in self.arrays)
                numpy_competes = self._wrap_lowering is None and not self.is_to_prepare
                rows = numpy_rows(self.kernel, self.arrays[0], self.axes) if numpy_competes else None
                cost = cost_of(self.kernel, math.prod(self.shape), up, 0, rows)
        self.choice = choose_engine(name, arrays, cost, unsupported)
        if (rows or 1) > 1 and self.choice.engine == "numpy" and math.prod(self.shape) > _NUMPY_FIRST_EXACT:
            self.choice = numpy_choice_for_layout(name)  # NumPy is fastest for this array's layout

    def _lay_out(self, axis: Any, unmasked: Sequence[Array]) -> None:
        """Compute the shape and the axes, and whether there is anything to compute."""
        self.shape = broadcast_shapes(*(a.shape for a in self.arrays))
        if self.shape or axis is None:
            self.axes = axes_of(self.name, axis, len(self.shape))
        # NumPy accepts axis 0 of a scalar, and refuses a mask that has more elements than the array.
        is_numbers_axis = not self.shape and axis is not None
        has_larger_mask = self.is_masked and self.shape != broadcast_shapes(*(a.shape for a in unmasked))
        self.is_empty = 0 in self.shape or is_numbers_axis or has_larger_mask

    @property
    def uses_numpy(self) -> bool:
        """Whether NumPy computes the call; also if there is nothing to compute."""
        return self.choice.engine == "numpy" or self.is_empty or self.kernel is None

    def by_numpy(self, why: str = "there are no elements to reduce") -> Any:
        """Compute the call with NumPy."""
        if self.is_to_prepare:
            return NotImplemented
        reason = self.choice.reason if self.choice.engine == "numpy" else why
        return native_call.run_numpy(self.name, reason, self.numpy)

    @property
    def length(self) -> int:
        """The number of elements that are reduced to one."""
        return math.prod(self.shape[d] for d in self.axes) if self.kernel is not None else 0

    @property
    def result_type(self) -> DType:
        """The type of the result."""
        return self._checked_kernel().reducer.result

    def _checked_kernel(self) -> ReduceKernel:
        if self.kernel is None:
            raise TypeError(f"{self.name}: only NumPy supports these arguments")
        return self.kernel

    def reduce(self, lower: Lowering | None = None, synchronizes: bool = True, **numbers: Any) -> Array:
        """Reduce the operands, by another function if `lower` is passed; the result lacks the axes."""
        kernel = self._checked_kernel() if lower is None else self._kernel_for(lower, None)
        request = self._request(kernel, **numbers)
        result = reduce(request)
        if synchronizes and (lower is not None or not allocator.stays_on_device(result)):
            allocator.access_on_host(result)  # the caller reads it
        self._reduced = result, request
        return result

    def compute(self, finish: Callable[[Array], Any], **numbers: Any) -> Any:
        """Reduce the operands and finish the result; if the call is to be prepared, return both steps."""
        if self.is_to_prepare:
            return PendingReduction(self._request(self._checked_kernel(), **numbers), finish)
        return finish(self.reduce(**numbers))

    def _request(self, kernel: ReduceKernel, **numbers: Any) -> ReduceRequest:
        values = tuple(self._values)
        return ReduceRequest(
            kernel, self.choice, values, self.shape, self.axes, layouts=self._layouts, **numbers
        )

    def _kernel_for(self, lower: Lowering, dtype: DType | None) -> ReduceKernel:
        values = self._values[:-1] if self.is_masked else self._values
        types = tuple(v.dtype.newbyteorder("=") if isinstance(v, np.ndarray) else type(v) for v in values)
        lower = lower if self._wrap_lowering is None else self._wrap_lowering(lower)
        return reduce_kernel_for(self.name, lower, types, self.is_masked, dtype)

    def also_reduce(self, lower: Lowering, synchronizes: bool = True) -> Array:
        """Compute another reduction of the same operands, as a part of this call."""
        # The call has reported the flags of the operands' program.
        return extending_last_call(lambda: self.reduce(lower, synchronizes, reports_flags=False))

    def _reduce_to_bool(self, name: str, lower: Lowering, values: Array) -> bool:
        """Reduce an intermediate result to one bool, as a part of this call."""
        kernel = reduce_kernel_for(name, lower, (values.dtype,), False, None)
        axes = tuple(range(values.ndim))
        request = ReduceRequest(kernel, self.choice, (values,), values.shape, axes)
        with observe_entries(lambda *_: None):  # it is no part of a plan, which checks its results itself
            reduced = extending_last_call(lambda: reduce(request))
        allocator.access_on_host(reduced)
        return bool(reduced)

    def mark_modified(self) -> None:
        """Note that the result was modified after the reduction, so that the call is not cached."""
        self._reduced = None

    def finish(self, result: Array, casting: Any = "unsafe", saturates: bool = False) -> Any:
        """Return a result with NumPy's shape and type, or write it to `out`."""
        shape = reduced_shape(self.shape, self.axes, self.keepdims)
        request = self._cacheable_request(result)
        if result.shape != shape:
            result = _reshaped(result, shape)
        if self.out is None:
            final = result[()] if result.ndim == 0 and not allocator.stays_on_device(result) else result
            if request is not None:
                dispatch_cache.offer_to_cache(
                    final, functools.partial(prepared.fast_path_of, request, self.keepdims)
                )
            return final
        if self.out.shape != shape:
            raise ValueError(
                f"output parameter for reduction operation {self.name} has the wrong shape: it is "
                f"{self.out.shape}, and the result {shape}"
            )
        if saturates and result.dtype.kind == "f" and self.out.dtype.kind in "iu":
            result = _saturating_cast(result, self.out.dtype)
        np.copyto(self.out, result, casting=casting)
        return self.out

    def _cacheable_request(self, result: Array) -> ReduceRequest | None:
        """Return the request of a result if replaying it on other arrays gives the complete result."""
        if not dispatch_cache.is_filling_cache() or self._reduced is None or self._reduced[0] is not result:
            return None
        is_small = (
            sum(array.nbytes for array in self.arrays) <= _MAX_LEARNED_BYTES
            and result.nbytes <= dispatch_cache.MAX_PREPARED_BYTES
        )
        plain = all(type(value) is np.ndarray for value in self._values)
        reads_elements = self.name.startswith("nanarg")  # its NaN check reads the elements found
        return (
            self._reduced[1]
            if is_small and plain and not reads_elements and self.choice.engine == "cpu"
            else None
        )

    def is_finite(self, result: Array) -> bool:
        """Return True if a result needs no floating-point warning; otherwise it is on the host afterwards."""
        if result.dtype.kind != "f":
            return True
        if not allocator.stays_on_device(result):
            return bool(np.isfinite(result).all())
        if not allocator.checks_errors(result):
            return True
        if self._is_finite is None:
            self._is_finite = self._reduce_to_bool("isfinite", ALL_FINITE, result)
            if not self._is_finite:
                allocator.access_on_host(result)
        return self._is_finite

    def warn(
        self, result: Array, of: str = "reduce", expected: Array | None = None, over: str | None = None
    ) -> None:
        """Warn as NumPy does for overflow to infinity and for invalid NaN, except where `expected`."""
        if self.is_finite(result):
            return
        is_nan, is_infinite = np.isnan(result), np.isinf(result)
        if expected is not None:
            is_nan, is_infinite = is_nan & ~expected, is_infinite & ~expected
        if is_nan.any() and (self.skips_nan or (is_nan & (self.also_reduce(COUNT_NAN) == 0)).any()):
            fp_errors.report_fp_error("invalid", of)
        if is_infinite.any() and (is_infinite & (self.also_reduce(COUNT_INF) == 0)).any():
            fp_errors.report_fp_error("over", over or of)

    @property
    def has_floats(self) -> bool:
        """Whether an operand may hold infinities or NaN."""
        if self._has_floats is not None:
            return self._has_floats
        return any(array.dtype.kind == "f" for array in self.arrays)

    @property
    def skips_nan(self) -> bool:
        """Whether the function ignores NaN and there may be some."""
        return self.name.startswith("nan") and self.has_floats

    def warn_all_nan(self, result: Array, text: str) -> None:
        """Set the minimum or maximum of NaN alone to NaN, and warn."""
        if not self.is_finite(result) and np.isinf(result).any():
            nothing = np.isinf(result) & (self.also_reduce(COUNT_NOT_NAN) == 0)
            if nothing.any():
                allocator.access_on_host(result, will_change=True)
                result[nothing] = np.nan
                warnings.warn(text, RuntimeWarning, stacklevel=fp_errors.caller_stacklevel())

    def warn_few_degrees_of_freedom(self, result: Array, ddof: float, has_mean: bool = False) -> Array | None:
        """Warn where no elements, or too few for the degrees of freedom, were left; return the mask.

        `has_mean` says that a variance is about a given mean, which NumPy need not compute.
        """
        if self.is_finite(result):
            return None
        count = self.also_reduce(COUNT_NOT_NAN if self.skips_nan else COUNT_ELEMENTS)
        is_few: Array = count <= ddof
        if is_few.any():
            text = "Degrees of freedom <= 0 for slice"
            text += "." * self.skips_nan
            text = "Mean of empty slice" if self.name.endswith("mean") else text
            warnings.warn(text, RuntimeWarning, stacklevel=fp_errors.caller_stacklevel())
            if self.skips_nan:
                allocator.access_on_host(result, will_change=True)
                result[is_few] = np.nan
            else:
                self._warn_division(result, is_few, count, has_mean)
        return is_few

    def _warn_division(self, result: Array, is_few: Array, count: Array, has_mean: bool) -> None:
        is_about_own = not (has_mean or self.name.endswith("mean"))  # NumPy also divides for the mean
        if is_about_own and (count == 0).any():
            fp_errors.report_fp_error("invalid", "divide" if self.shape else "scalar divide")
        is_scalar = result.ndim == 0 and self.out is None and not (self.keepdims and self.shape)
        of = "scalar divide" if is_scalar else "divide"
        if self.has_floats:  # NaN and infinities among the elements raise no flag in the division
            is_few = is_few & (self.also_reduce(COUNT_NAN) == 0) & (self.also_reduce(COUNT_INF) == 0)
        if (is_few & np.isinf(result)).any():
            fp_errors.report_fp_error("divide", of)
        if (is_few & np.isnan(result)).any():
            fp_errors.report_fp_error("invalid", of)

    def raise_if_all_nan(self, result: Array) -> None:
        """Raise `ValueError` if a slice whose index is requested has only NaN."""
        if not self._may_be_all_nan(result):
            return
        counts = self.also_reduce(COUNT_NOT_NAN, synchronizes=False)
        on_device = allocator.stays_on_device(counts)
        if not (self._reduce_to_bool("all", ALL, counts) if on_device else counts.all()):
            raise ValueError("All-NaN slice encountered")

    def _may_be_all_nan(self, result: Array) -> bool:
        """Return True if an index may be that of a NaN; True if the elements may be device-resident."""
        (array,) = self.arrays
        if not self.has_floats:
            return False
        if allocator.may_be_on_device():
            return True
        if len(self.axes) == array.ndim:
            reduced = array[np.unravel_index(result, array.shape)]
        else:
            reduced = np.take_along_axis(array, np.expand_dims(result, self.axes), self.axes[0])
        return bool(np.isnan(reduced).any())


def _reshaped(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array of another shape: the array itself where it can take it, so that it owns its memory."""
    if not array.flags.c_contiguous:
        return array.reshape(shape)
    array.resize(shape, refcheck=False)  # of the same size: no copy
    return array


def _saturating_cast(numbers: Array, dtype: DType) -> Array:
    """Convert floats to integers with saturation, and NaN to 0, as all functions here do."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = np.trunc(numbers, dtype=np.float64)
    # For 64 bits, `most` as a float is one more than the largest integer.
    below, above = numbers < least, numbers > most if dtype.itemsize < 8 else numbers >= most
    outside = below | above | np.isnan(numbers)
    if outside.any():
        fp_errors.report_fp_error("invalid", "cast")
    integers: Array = np.where(outside, 0, numbers).astype(dtype)
    integers[below], integers[above] = least, most
    return integers


def _checked_out(out: Any) -> Array | None:
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError("return arrays must be of ArrayType")
    check_writeable(out)
    return out


def _requested_dtype(
    dtype: Any, out: Array | None, arrays: Sequence[Array | None]
) -> tuple[DType | None, str | None]:
    """Return the requested type of a result, or None, and the reason why only NumPy supports it, or None."""
    requested: Any = None if dtype is None else np.dtype(dtype)
    if requested is None and out is not None and arrays:
        first = arrays[0]
        requested = out.dtype if first is None else np.result_type(out.dtype, first.dtype)
    if requested is not None:
        requested = requested.newbyteorder("=")
        if requested not in CODES:
            return requested, f"a result of {requested}"
    return requested, "this type of out" if out is not None and operands.as_array(out) is None else None


def operand_values(values: Sequence[Any], arrays: Sequence[Array]) -> list[Any]:
    """Return the arrays, with Python numbers unchanged: they take the dtype of the other operands."""
    return [v if type(v) in (int, float) else a for v, a in zip(values, arrays, strict=False)]


def or_default(value: Any, default: Any) -> Any:
    """Return an argument, or the default if it was not passed."""
    return default if value is NONE else value


def passed_keywords(**keywords: Any) -> dict[str, Any]:
    """Return the keywords that were passed, for NumPy."""
    return {name: value for name, value in keywords.items() if value is not NONE}


def _lower_both(
    function: ElementFunction, lower: Lowering, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Reducer:
    values = function.write(builder, *arguments, out=(None,), dtype=None, casting="same_kind")
    return lower(builder, values, mask, dtype)


@functools.lru_cache(1024)
def fused_lowering(function: ElementFunction, lower: Lowering) -> Lowering:
    """Return the lowering of a reduction fused with the function that computes its values."""
    return functools.partial(_lower_both, function, lower)


_WORTH_CHOOSING = 1 << 20  # bytes: for smaller arrays the CPU engine is taken without a cost estimate
_MAX_LEARNED_BYTES = 1 << 24  # bytes of arrays: beyond, the time in Python does not matter
_NUMPY_FIRST_EXACT = 10_000  # elements: below, NumPy is fastest for results that any order gives exactly
_NEVER_WARNS = ("max", "min")


def reduce_whole(name: str, lower: Lowering, a: Any) -> Any:
    """Reduce a whole dense array on a short path; return None if the call needs the general path."""
    if allocator.residency_hooks.may_stay_on_device is not None:
        return None
    if type(a) is FusedProducer:
        return _reduce_whole_producer(name, lower, a)
    if type(a) is not np.ndarray or a.dtype not in CODES or not a.size or not a.flags.c_contiguous:
        return None
    engine = context.fast_path_engine()
    if engine not in ("auto", "cpu", "cuda") or (
        engine == "auto" and not engine_status.status("cpu").available
    ):
        return None
    named = None if engine == "auto" else requested_engine(name, engine)
    kernel = reduce_kernel_for(name, lower, (a.dtype,), False, None)
    if named is not None:
        choice = named
    elif a.nbytes > _WORTH_CHOOSING:
        choice = choose_engine(name, (), cost_of(kernel, a.size, a.nbytes, 0, rows=1))
        if choice.engine == "numpy":
            return None
    elif kernel.is_order_independent and (kernel.numpy_is_vectorized or a.size < _NUMPY_FIRST_EXACT):
        return None
    else:
        choice = cpu_choice(name)
    number = _run_dense(name, kernel, choice, a.size, [a])
    if number is None:
        return None
    is_chosen_once = a.size <= prepared.MAX_ELEMENTS_OF_ANY_SHAPE or choice_is_final()
    if engine == "auto" and choice.engine == "cpu" and is_chosen_once:
        dispatch_cache.offer_to_cache(number, functools.partial(prepared.total_fast_path, kernel))
    return number


def _reduce_whole_producer(name: str, lower: Lowering, a: FusedProducer) -> Any:
    """Reduce the values of a program of dense arrays of one shape, on a named engine."""
    engine, shapes = context.fast_path_engine(), set[tuple[int, ...]]()
    if engine not in ("cpu", "cuda"):
        return None
    for value in a.inputs:
        if type(value) is np.ndarray:
            if value.dtype not in CODES or not value.size or not value.flags.c_contiguous:
                return None
            shapes.add(value.shape)
    if len(shapes) != 1:
        return None
    types = tuple([v.dtype if type(v) is np.ndarray else type(v) for v in a.inputs])
    kernel = reduce_kernel_for(name, fused_lowering(a.function, lower), types, False, None)
    return _run_dense(name, kernel, requested_engine(name, engine), math.prod(shapes.pop()), a.inputs)


def _run_dense(name: str, kernel: ReduceKernel, choice: EngineChoice, size: int, values: list[Any]) -> Any:
    """Reduce dense arrays to a number; return None if only the general path knows its warnings."""
    result = np.empty((), kernel.reducer.result)
    work = kernel.pool.take()
    try:
        work.bind_dense(result, size, *values)
        work.results = (result,)
        fp_flags = work.run(choice, size)
        number: Any = result[()]
        if isinstance(number, np.floating) and not math.isfinite(number) and name not in _NEVER_WARNS:
            return None  # the general path warns where it is due
        if fp_flags:
            work.report_fp_flags()
    finally:
        work.results = ()
        kernel.pool.give_back(work)
    return number
