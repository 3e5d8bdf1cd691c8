"""One call of a reduction: its operands, its engine, its result."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.reduce import prepared
from pycudakit._families.reduce.lowering import ALL, FINITE, INFINITIES, NANS, NUMBERS, ONES
from pycudakit._families.reduce.reduce_kernel import (
    Folded,
    Recipe,
    Request,
    Write,
    axes_of,
    cost_of,
    is_together,
    recipe_for,
    reduce,
    rows_of,
    shape_without,
)
from pycudakit._native import allocator, engine_status
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime import context, dispatch_cache, fp_errors, native_call, operands
from pycudakit._runtime.cost_model import SMALL
from pycudakit._runtime.engine_choice import NOTHING, asked_for, on_cpu, plan_call, quicker_call
from pycudakit._runtime.lazy_array import Computed
from pycudakit._runtime.native_call import as_part_of_last
from pycudakit._runtime.ufunc_arguments import as_mask, broadcast_shapes, check_writeable

NONE: Any = np._NoValue  # noqa: SLF001


class Reduction:
    """One call of a function: its operands, and what it is asked to do with them.

    Parameters
    ----------
    name, write
        NumPy's name, and how its programs are written.
    numpy
        Computes the call with NumPy.
    values
        The arguments.
    axis, keepdims, where
        As for NumPy.
    dtype, out
        As for NumPy; without a `dtype`, an `out` that `decides` takes part in choosing the result's type.
    foreign
        Why the call is NumPy's alone, if it is.
    within
        Makes of what is written for the values of a program that computes them what is for the arguments.
    """

    def __init__(
        self,
        name: str,
        write: Write,
        numpy: Callable[[], Any],
        values: Sequence[Any],
        axis: Any = None,
        *,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        where: Any = True,
        decides: bool = True,
        foreign: str | None = None,
        within: Callable[[Write], Write] | None = None,
    ) -> None:
        self.name, self.numpy = name, numpy
        self._has_floats: bool | None = None  # where not the arrays tell
        if values and type(values[0]) is Computed:
            (computed,) = values
            values, within = computed.inputs, functools.partial(written_within, computed.function)
            self._has_floats = computed.dtype.kind == "f"
        self._within = within
        self.keepdims = bool(keepdims)
        self.out = _checked_out(out)
        arrays = [operands.as_array(value) for value in values]
        mask = as_mask(where)
        known = [array for array in arrays if array is not None]
        self.arrays = known if mask is None else [*known, mask]
        self.is_masked = mask is not None
        self._values = values_of(values, self.arrays) if within is not None else self.arrays
        result, why = _result_asked(dtype, self.out, arrays if decides else [])
        foreign = foreign or why
        self.shape: tuple[int, ...] = ()
        self.axes: tuple[int, ...] = ()
        self.recipe: Recipe | None = None
        self.is_empty = False
        self._reduced: tuple[Array, Request] | None = None
        self._is_finite: bool | None = None  # the result, which may be on a device alone
        cost, rows = NOTHING, None
        if foreign is None and len(known) == len(arrays):
            self.recipe = self._recipe_of(write, result)
            self._lay_out(axis, known)
            if context.current() == "auto":
                up = sum(a.nbytes for a in self.arrays)
                has_numpys = self._within is None and not is_together()
                rows = rows_of(self.recipe, self.arrays[0], self.axes) if has_numpys else None
                cost = cost_of(self.recipe, math.prod(self.shape), up, 0, rows)
        self.plan = plan_call(name, arrays, cost, foreign)
        if (rows or 1) > 1 and self.plan.reason == SMALL and math.prod(self.shape) > _NUMPYS_EXACT:
            self.plan = quicker_call(name)  # as this array lies

    def _lay_out(self, axis: Any, unmasked: Sequence[Array]) -> None:
        """Find the shape and the axes, and whether there is anything to compute."""
        self.shape = broadcast_shapes(*(a.shape for a in self.arrays))
        if self.shape or axis is None:
            self.axes = axes_of(axis, len(self.shape))
        # NumPy takes the axis 0 of a number, too; and it refuses a mask of more than the elements.
        is_numbers_axis = not self.shape and axis is not None
        has_larger_mask = self.is_masked and self.shape != broadcast_shapes(*(a.shape for a in unmasked))
        self.is_empty = 0 in self.shape or is_numbers_axis or has_larger_mask

    @property
    def is_numpys(self) -> bool:
        """Whether NumPy computes it; also where there is nothing to compute."""
        return self.plan.engine == "numpy" or self.is_empty or self.recipe is None

    def by_numpy(self, why: str = "there are no elements to compute with") -> Any:
        """Compute with NumPy."""
        reason = self.plan.reason if self.plan.engine == "numpy" else why
        return native_call.by_numpy(self.name, reason, self.numpy)

    @property
    def length(self) -> int:
        """How many elements become one."""
        return math.prod(self.shape[d] for d in self.axes) if self.recipe is not None else 0

    @property
    def result_type(self) -> DType:
        """The type of the result."""
        return self._known().folded.result

    def _known(self) -> Recipe:
        if self.recipe is None:
            raise TypeError(f"{self.name} is NumPy's here")
        return self.recipe

    def reduce(self, write: Write | None = None, is_looked_at: bool = True, **numbers: Any) -> Array:
        """Return the result, without the axes; of another function of the same operands if that is given."""
        recipe = self._known() if write is None else self._recipe_of(write, None)
        request = Request(recipe, self.plan, tuple(self._values), self.shape, self.axes, **numbers)
        result = reduce(request)
        if is_looked_at and (write is not None or not allocator.is_unseen(result)):
            allocator.look(result)  # for what it is a part of
        self._reduced = result, request
        return result

    def _recipe_of(self, write: Write, dtype: DType | None) -> Recipe:
        values = self._values[:-1] if self.is_masked else self._values
        types = tuple(v.dtype.newbyteorder("=") if isinstance(v, np.ndarray) else type(v) for v in values)
        write = write if self._within is None else self._within(write)
        return recipe_for(self.name, write, types, self.is_masked, dtype)

    def count_of(self, write: Write, is_looked_at: bool = True) -> Array:
        """Return another function's result, as a part of this call."""
        with as_part_of_last():
            return self.reduce(write, is_looked_at)

    def _is_true_of_all(self, name: str, write: Write, values: Array) -> bool:
        """Tell what a function that gives one bool tells of what this call has made."""
        recipe = recipe_for(name, write, (values.dtype,), False, None)
        axes = tuple(range(values.ndim))
        with as_part_of_last():
            found = reduce(Request(recipe, self.plan, (values,), values.shape, axes))
        allocator.look(found)
        return bool(found)

    def is_changed(self) -> None:
        """Say that the result is more than the request gave, so that it makes no such call by itself."""
        self._reduced = None

    def finish(self, result: Array, casting: Any = "unsafe", saturates: bool = False) -> Any:
        """Return a result as NumPy would, or put it into `out`."""
        shape = shape_without(self.shape, self.axes, self.keepdims)
        request = self._request_again(result)
        result = result.reshape(shape)
        if self.out is None:
            final = result[()] if result.ndim == 0 and not allocator.is_unseen(result) else result
            if request is not None:
                dispatch_cache.offer(final, functools.partial(prepared.way_of, request, self.keepdims))
            return final
        if self.out.shape != shape:
            raise ValueError(
                f"output parameter for reduction operation {self.name} has the wrong shape: it is "
                f"{self.out.shape}, and the result {shape}"
            )
        if saturates and result.dtype.kind == "f" and self.out.dtype.kind in "iu":
            result = _saturated(result, self.out.dtype)
        np.copyto(self.out, result, casting=casting)
        return self.out

    def _request_again(self, result: Array) -> Request | None:
        """Return the request that made a result, if that is all that other arrays of the same form need."""
        if not dispatch_cache.is_learning() or self._reduced is None or self._reduced[0] is not result:
            return None
        few = (
            sum(array.nbytes for array in self.arrays) <= _MOST_LEARNED
            and result.nbytes <= dispatch_cache.MOST
        )
        plain = all(type(value) is np.ndarray for value in self._values)
        looks_again = self.name.startswith("nanarg")  # at the elements that it found
        return self._reduced[1] if few and plain and not looks_again and self.plan.engine == "cpu" else None

    def is_finite(self, result: Array) -> bool:
        """Tell whether there is nothing to warn of in a result; if there is, the host has it."""
        if result.dtype.kind != "f":
            return True
        if not allocator.is_unseen(result):
            return bool(np.isfinite(result).all())
        if not allocator.is_heeded(result):
            return True
        if self._is_finite is None:
            self._is_finite = self._is_true_of_all("isfinite", FINITE, result)
            if not self._is_finite:
                allocator.look(result)
        return self._is_finite

    def warn(
        self, result: Array, of: str = "reduce", known: Array | None = None, over: str | None = None
    ) -> None:
        """Warn as NumPy does where numbers became infinite, or they and infinities NaN, unless known."""
        if self.is_finite(result):
            return
        is_nan, is_infinite = np.isnan(result), np.isinf(result)
        if known is not None:
            is_nan, is_infinite = is_nan & ~known, is_infinite & ~known
        if is_nan.any() and (self.skips_nan or (is_nan & (self.count_of(NANS) == 0)).any()):
            fp_errors.report("invalid", of)
        if is_infinite.any() and (is_infinite & (self.count_of(INFINITIES) == 0)).any():
            fp_errors.report("over", over or of)

    @property
    def has_floats(self) -> bool:
        """Whether an operand may hold infinities and NaN."""
        if self._has_floats is not None:
            return self._has_floats
        return any(array.dtype.kind == "f" for array in self.arrays)

    @property
    def skips_nan(self) -> bool:
        """Whether there may be NaN, and the function leaves it out."""
        return self.name.startswith("nan") and self.has_floats

    def warn_of_nothing(self, result: Array, text: str) -> None:
        """Let the least or largest of NaN alone be NaN, and warn."""
        if not self.is_finite(result) and np.isinf(result).any():
            nothing = np.isinf(result) & (self.count_of(NUMBERS) == 0)
            if nothing.any():
                allocator.look(result, will_change=True)
                result[nothing] = np.nan
                warnings.warn(text, RuntimeWarning, stacklevel=fp_errors.level_of_caller())

    def warn_of_few(self, result: Array, ddof: float, has_mean: bool = False) -> Array | None:
        """Warn where nothing, or too little for the degrees of freedom, was left; return where.

        `has_mean` says that a variance is about a mean that was given, which NumPy need not compute.
        """
        if self.is_finite(result):
            return None
        count = self.count_of(NUMBERS if self.skips_nan else ONES)
        few: Array = count <= ddof
        if few.any():
            text = "Degrees of freedom <= 0 for slice"
            text += "." * self.skips_nan
            text = "Mean of empty slice" if self.name.endswith("mean") else text
            warnings.warn(text, RuntimeWarning, stacklevel=fp_errors.level_of_caller())
            if self.skips_nan:
                allocator.look(result, will_change=True)
                result[few] = np.nan
            else:
                self._warn_of_division(result, few, count, has_mean)
        return few

    def _warn_of_division(self, result: Array, few: Array, count: Array, has_mean: bool) -> None:
        is_about_own = not (has_mean or self.name.endswith("mean"))  # mean, which is of nothing, too
        if is_about_own and (count == 0).any():
            fp_errors.report("invalid", "divide" if self.shape else "scalar divide")
        is_scalar = result.ndim == 0 and self.out is None and not (self.keepdims and self.shape)
        of = "scalar divide" if is_scalar else "divide"
        if (few & np.isnan(result)).any():
            fp_errors.report("invalid", of)
        if (few & np.isinf(result)).any():
            fp_errors.report("divide", of)

    def refuse_nothing(self, result: Array) -> None:
        """Raise where all elements that an index was asked of are NaN."""
        if not self._may_be_of_nothing(result):
            return
        counts = self.count_of(NUMBERS, is_looked_at=False)
        is_unseen = allocator.is_unseen(counts)
        if not (self._is_true_of_all("all", ALL, counts) if is_unseen else counts.all()):
            raise ValueError("All-NaN slice encountered")

    def _may_be_of_nothing(self, result: Array) -> bool:
        """Tell whether an index is that of a NaN, as far as the elements are on the host."""
        (array,) = self.arrays
        if not self.has_floats:
            return False
        if allocator.is_at_home():
            return True
        if len(self.axes) == array.ndim:
            found = array[np.unravel_index(result, array.shape)]
        else:
            found = np.take_along_axis(array, np.expand_dims(result, self.axes), self.axes[0])
        return bool(np.isnan(found).any())


def _saturated(numbers: Array, dtype: DType) -> Array:
    """Convert floats to integers as every function here does: the nearest that there is, and 0 for NaN."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = np.trunc(numbers, dtype=np.float64)
    # Of 64 bits, `most` as a float is one more than there is.
    below, above = numbers < least, numbers > most if dtype.itemsize < 8 else numbers >= most
    outside = below | above | np.isnan(numbers)
    if outside.any():
        fp_errors.report("invalid", "cast")
    integers: Array = np.where(outside, 0, numbers).astype(dtype)
    integers[below], integers[above] = least, most
    return integers


def _checked_out(out: Any) -> Array | None:
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError("return arrays must be of ArrayType")
    check_writeable(out)
    return out


def _result_asked(
    dtype: Any, out: Array | None, arrays: Sequence[Array | None]
) -> tuple[DType | None, str | None]:
    """Return the type that is asked of a result, if any is, and why that is NumPy's alone, if it is."""
    asked: Any = None if dtype is None else np.dtype(dtype)
    if asked is None and out is not None and arrays:
        first = arrays[0]
        asked = out.dtype if first is None else np.result_type(out.dtype, first.dtype)
    if asked is not None:
        asked = asked.newbyteorder("=")
        if asked not in CODES:
            return asked, f"a result of {asked}"
    return asked, "such an out" if out is not None and operands.as_array(out) is None else None


def values_of(values: Sequence[Any], arrays: Sequence[Array]) -> list[Any]:
    """Return the arrays, but Python numbers as they are: they have the type of their company."""
    return [v if type(v) in (int, float) else a for v, a in zip(values, arrays, strict=False)]


def or_usual(value: Any, usual: Any) -> Any:
    """Return an argument, or what it is if it was not given."""
    return usual if value is NONE else value


def keywords(**given: Any) -> dict[str, Any]:
    """Return the keywords that were given, for NumPy."""
    return {name: value for name, value in given.items() if value is not NONE}


def _write_both(
    function: ElementFunction, write: Write, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    values = function.write(builder, *arguments, out=(None,), dtype=None, casting="same_kind")
    return write(builder, values, mask, dtype)


@functools.lru_cache(1024)
def written_within(function: ElementFunction, write: Write) -> Write:
    """Return what writes a reduction of a function's values."""
    return functools.partial(_write_both, function, write)


_WORTH_CHOOSING = 1 << 20  # bytes: the CPU engine takes smaller arrays at once
_MOST_LEARNED = 1 << 24  # bytes of arrays: of more, what a call costs in Python is nothing
_NUMPYS_EXACT = 10_000  # elements: NumPy reduces fewer first, where any order has the same result
_NEVER_WARNS = ("max", "min")


def fast(name: str, write: Write, a: Any) -> Any:
    """Reduce the whole of an ordinary array, or return None where that takes longer."""
    if type(a) is not np.ndarray or a.dtype not in CODES or not a.size or not a.flags.c_contiguous:
        return None
    if is_together():
        return None
    engine = context.fast()
    if engine not in ("auto", "cpu", "cuda") or (
        engine == "auto" and not engine_status.status("cpu").available
    ):
        return None
    named = None if engine == "auto" else asked_for(name, engine)
    recipe = recipe_for(name, write, (a.dtype,), False, None)
    if named is not None:
        plan = named
    elif a.nbytes > _WORTH_CHOOSING:
        plan = plan_call(name, (), cost_of(recipe, a.size, a.nbytes, 0, rows=1))
        if plan.engine == "numpy":
            return None
    elif recipe.is_exact and (recipe.has_numpys_vectors or a.size < _NUMPYS_EXACT):
        return None
    else:
        plan = on_cpu(name)
    result = np.empty((), recipe.folded.result)
    work = recipe.works.take()
    try:
        work.aim(result, a)
        if work.run(plan, a.size):
            work.report_met()
    finally:
        recipe.works.give_back(work)
    number: Any = result[()]
    if isinstance(number, np.floating) and not math.isfinite(number) and name not in _NEVER_WARNS:
        return None  # there may be something to warn of
    if engine == "auto" and a.size <= prepared.MOST_OF_ANY:
        dispatch_cache.offer(number, functools.partial(prepared.whole, recipe))
    return number
