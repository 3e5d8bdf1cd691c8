"""NumPy's reductions: NumPy's names, signatures, types, errors and warnings, and one order of computing.

Floats add up in float64, in an order that their number alone decides: the bits of a result don't depend on the
engine, on threads, chunks, GPUs or the memory's layout.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _call, _execute, _family, _reduce
from pycudakit._arguments import as_mask, broadcast_shapes
from pycudakit._program import Builder
from pycudakit._reduce import Folded, Recipe
from pycudakit._values import BOOL, CODES, FLOAT64, INT64, UINT64, Array, DType, Value

_NONE: Any = np._NoValue  # type: ignore[attr-defined]  # noqa: SLF001


def _given(value: Any, usual: Any) -> Any:
    return usual if value is _NONE else value


# ---- What the programs compute -----------------------------------------------------------------------


def _type_of_sum(dtype: DType) -> DType:
    """Return the type that NumPy adds up and multiplies a type in."""
    if dtype.kind in "bi":
        return INT64
    return UINT64 if dtype.kind == "u" else dtype


def _without(builder: Builder, value: Value, mask: Value | None, identity: Any) -> Value:
    """Replace what a mask excludes by what makes no difference."""
    return value if mask is None else builder.select(mask, value, builder.constant(identity, value.dtype))


def _numbers(builder: Builder, value: Value) -> tuple[Value, Value]:
    """Return whether a float is a number."""
    return builder.apply("logical_not", builder.apply("isnan", value)), value


def _not_nan(builder: Builder, value: Value, mask: Value | None) -> Value | None:
    """Return a mask of what is no NaN, and not masked out."""
    if value.dtype.kind != "f":
        return mask
    is_number, _ = _numbers(builder, value)
    return is_number if mask is None else builder.apply("logical_and", mask, is_number)


def _write_sum(
    kind: int, identity: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    (value,) = arguments
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    result = _type_of_sum(value.dtype) if dtype is None else dtype
    if result == BOOL:
        truth = _without(builder, builder.cast(value, BOOL), mask, bool(identity))
        return Folded(_abi.LEAST if identity else _abi.LARGEST, _abi.AS_IT_IS, (truth,), BOOL)
    if result.kind == "f":
        value = value if value.dtype.kind == "f" else builder.cast(value, FLOAT64)
    elif value.dtype.kind == "f":
        value = builder.cast(value, result)
    value = _without(builder, value, mask, -0.0 if value.dtype.kind == "f" and not identity else identity)
    return Folded(kind, _abi.AS_IT_IS, (value,), result)


def _write_mean(skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    (value,) = arguments
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    is_float = value.dtype.kind == "f"
    result = dtype or (value.dtype if is_float else FLOAT64)
    value = value if is_float else builder.cast(value, FLOAT64)
    if mask is None:
        return Folded(_abi.SUM, _abi.MEAN, (value,), result)
    return Folded(_abi.SUM, _abi.MEAN, (_without(builder, value, mask, -0.0), mask), result)


def _write_variance(
    finish: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    (value,) = arguments
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    is_float = value.dtype.kind == "f"
    result = dtype or (value.dtype if is_float else FLOAT64)
    value = value if is_float else builder.cast(value, FLOAT64)
    return Folded(_abi.SQUARES, finish, (value,) if mask is None else (value, mask), result)


def _write_extreme(
    kind: int, skips_nan: bool, builder: Builder, arguments: Any, mask: Any, dtype: Any
) -> Folded:
    (value,) = arguments
    is_place = kind in (_abi.WHERE_LEAST, _abi.WHERE_LARGEST)
    if skips_nan:
        mask = _not_nan(builder, value, mask)
    if mask is not None:
        largest = kind in (_abi.LARGEST, _abi.WHERE_LARGEST)
        value = _without(builder, value, mask, _last_of_all(value.dtype, largest))
    result = INT64 if is_place else value.dtype
    return Folded(kind, _abi.AS_IT_IS, (value,), result)


def _last_of_all(dtype: DType, largest: bool) -> Any:
    """Return what every value of a type comes before."""
    if dtype.kind == "f":
        return -math.inf if largest else math.inf
    if dtype == BOOL:
        return not largest
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


def _write_spread(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    return Folded(_abi.SPREAD, _abi.AS_IT_IS, tuple(arguments), arguments[0].dtype)


def _write_truth(kind: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    truth = _without(builder, builder.cast(arguments[0], BOOL), mask, kind == _abi.LEAST)
    return Folded(kind, _abi.AS_IT_IS, (truth,), BOOL)


def _write_count(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    return Folded(_abi.SUM, _abi.AS_IT_IS, (builder.cast(arguments[0], BOOL),), INT64)


def _write_count_of(operation: str, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Count the elements that are NaN, or infinite, or numbers."""
    (value,) = arguments
    if operation == "numbers":
        counted, _ = _numbers(builder, value)
    else:
        counted = builder.apply(operation, value)
    return Folded(_abi.SUM, _abi.AS_IT_IS, (_without(builder, counted, mask, False),), INT64)


def _write_dot(finish: int, builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Multiply two arrays and add up, or one by itself."""
    a, b = (*arguments, arguments[0])[:2]
    result = dtype or np.result_type(a.dtype, b.dtype)
    if result == BOOL:
        both = builder.apply("logical_and", builder.cast(a, BOOL), builder.cast(b, BOOL))
        return Folded(_abi.LARGEST, _abi.AS_IT_IS, (both,), BOOL)
    common = np.result_type(a.dtype, b.dtype)
    if finish == _abi.ROOT and common.kind != "f":
        common = FLOAT64
    values = builder.cast(a, common), builder.cast(b, common)
    return Folded(_abi.DOT, finish, values, result)


def _write_deviations(builder: Builder, arguments: Any, mask: Any, dtype: Any) -> Folded:
    """Add up the squares of the differences from what is given as the mean."""
    value, mean = (builder.cast(argument, FLOAT64) for argument in arguments)
    off = builder.apply("subtract", value, mean)
    off = _without(builder, off, mask, 0.0)
    return Folded(_abi.DOT, _abi.AS_IT_IS, (off, off), FLOAT64)


@functools.cache
def _partial(write: Any, *arguments: Any) -> _reduce.Write:
    return functools.partial(write, *arguments)


_SUM = _partial(_write_sum, _abi.SUM, 0, False)
_PROD = _partial(_write_sum, _abi.PRODUCT, 1, False)
_NANSUM = _partial(_write_sum, _abi.SUM, 0, True)
_NANPROD = _partial(_write_sum, _abi.PRODUCT, 1, True)
_MEAN, _NANMEAN = _partial(_write_mean, False), _partial(_write_mean, True)
_VAR, _NANVAR = (_partial(_write_variance, _abi.VARIANCE, skips) for skips in (False, True))
_STD, _NANSTD = (_partial(_write_variance, _abi.DEVIATION, skips) for skips in (False, True))
_MIN, _NANMIN = (_partial(_write_extreme, _abi.LEAST, skips) for skips in (False, True))
_MAX, _NANMAX = (_partial(_write_extreme, _abi.LARGEST, skips) for skips in (False, True))
_ARGMIN, _NANARGMIN = (_partial(_write_extreme, _abi.WHERE_LEAST, skips) for skips in (False, True))
_ARGMAX, _NANARGMAX = (_partial(_write_extreme, _abi.WHERE_LARGEST, skips) for skips in (False, True))
_ANY, _ALL = _partial(_write_truth, _abi.LARGEST), _partial(_write_truth, _abi.LEAST)
_DOT, _NORM = _partial(_write_dot, _abi.AS_IT_IS), _partial(_write_dot, _abi.ROOT)
_NANS, _INFINITIES = _partial(_write_count_of, "isnan"), _partial(_write_count_of, "isinf")
_NUMBERS = _partial(_write_count_of, "numbers")


# ---- One call ----------------------------------------------------------------------------------------


class _Reduction:
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
        As for NumPy; `out` has the type of the computation if there is no `dtype` and it `decides`.
    foreign
        Why the call is NumPy's alone, if it is.
    """

    def __init__(
        self,
        name: str,
        write: _reduce.Write,
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
    ) -> None:
        self.name, self.numpy = name, numpy
        self.keepdims = bool(keepdims)
        arrays = [_family.as_array(value) for value in values]
        mask = as_mask(where)
        if isinstance(out, tuple) and len(out) == 1:
            out = out[0]
        if out is not None and not isinstance(out, np.ndarray):
            raise TypeError("return arrays must be of ArrayType")
        self.out = out
        asked = None if dtype is None else np.dtype(dtype)
        if asked is None and out is not None and decides:
            asked = out.dtype
        if asked is not None:
            asked = asked.newbyteorder("=")
            if asked not in CODES:
                foreign = foreign or f"a result of {asked}"
        if out is not None and _family.as_array(out) is None:
            foreign = foreign or "such an out"
        known = [array for array in arrays if array is not None]
        self.is_empty = foreign is None and len(known) == len(arrays) and not all(a.size for a in known)
        self.arrays = known if mask is None else [*known, mask]
        self.recipe: Recipe | None = None
        cost = _family.Cost(None, 0, 0, 0)
        if foreign is None and len(known) == len(arrays):
            types = tuple(a.dtype.newbyteorder("=") for a in known)
            self.recipe = _reduce.recipe(name, write, types, mask is not None, asked)
            self.shape = broadcast_shapes(*(a.shape for a in self.arrays))
            self.axes = _reduce.axes_of(axis, len(self.shape))
            self.is_empty = 0 in self.shape
            up = sum(a.nbytes for a in self.arrays)
            cost = _reduce.cost_of(self.recipe, math.prod(self.shape), up, 0)
        self.plan = _family.plan(name, arrays, cost, foreign)

    @property
    def is_numpys(self) -> bool:
        """Whether NumPy computes it; also where there is nothing to compute."""
        return self.plan.engine == "numpy" or self.is_empty or self.recipe is None

    def by_numpy(self) -> Any:
        """Compute with NumPy."""
        reason = self.plan.reason if self.plan.engine == "numpy" else "there are no elements to compute with"
        return _call.by_numpy(self.name, reason, self.numpy)

    def reduce(self, write: _reduce.Write | None = None, **numbers: Any) -> Array:
        """Return the result, without the axes; of another function of the same operands if that is given."""
        recipe = self.recipe
        assert recipe is not None
        if write is not None:
            types = tuple(a.dtype.newbyteorder("=") for a in self.arrays)
            recipe = _reduce.recipe(self.name, write, types[:1], len(types) > 1, None)
        return _reduce.reduce(recipe, self.plan, self.arrays, self.axes, **numbers)

    def finish(self, result: Array, casting: Any = "same_kind") -> Any:
        """Return a result as NumPy would, or put it into `out`."""
        shape = _reduce.shape_without(self.shape, self.axes, self.keepdims)
        result = result.reshape(shape)
        if self.out is None:
            return result[()] if result.ndim == 0 else result
        if self.out.shape != shape:
            raise ValueError(
                f"output parameter for reduction operation {self.name} has the wrong shape: it is "
                f"{self.out.shape}, and the result {shape}"
            )
        np.copyto(self.out, result, casting=casting)
        return self.out

    def warn(self, result: Array, of: str = "reduce") -> None:
        """Warn as NumPy does where numbers have become infinite, or finite ones and infinities NaN."""
        if result.dtype.kind != "f" or np.isfinite(result).all():
            return
        before = _call.local.call
        if np.isnan(result).any() and (np.isnan(result) & (self.reduce(_NANS) == 0)).any():
            _execute.report("invalid", of)
        if np.isinf(result).any() and (np.isinf(result) & (self.reduce(_INFINITIES) == 0)).any():
            _execute.report("over", of)
        _call.local.call = before


def _keywords(**given: Any) -> dict[str, Any]:
    """Return the keywords that were given, for NumPy."""
    return {name: value for name, value in given.items() if value is not _NONE}


def _sum_like(
    name: str,
    write: _reduce.Write,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
) -> Any:
    if axis is None and dtype is None and out is None and keepdims is initial is where is _NONE:
        result = _plainly(name, write, a)
        if result is not None:
            return result
    given = _keywords(keepdims=keepdims, initial=initial, where=where)
    numpy = functools.partial(getattr(np, name), a, axis, dtype, out, **given)
    foreign = None
    if initial is not _NONE and (initial is None or _family.as_array(initial) is None):
        foreign = f"an initial of {type(initial).__name__}"
    call = _Reduction(
        name,
        write,
        numpy,
        [a],
        axis,
        dtype=dtype,
        out=out,
        keepdims=_given(keepdims, False),
        where=_given(where, True),
        foreign=foreign,
    )
    if call.is_numpys:
        return call.by_numpy()
    result = call.reduce(initial=_given(initial, None))
    if name in ("sum", "prod", "nansum", "nanprod"):
        call.warn(result)
    return call.finish(result)


@functools.lru_cache(512)
def _whole(name: str, write: _reduce.Write, dtype: DType) -> Recipe:
    return _reduce.recipe(name, write, (dtype,), False, None)


def _plainly(name: str, write: _reduce.Write, a: Any) -> Any:
    """Reduce the whole of an ordinary array, or return None where that is not so short."""
    if type(a) is not np.ndarray or a.dtype not in CODES or not a.size or not a.flags.c_contiguous:
        return None
    result = _reduce.whole(_whole(name, write, a.dtype), a)
    if result is not None and isinstance(result, np.floating) and not math.isfinite(result):
        return None  # there may be something to warn of
    return result


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = _NONE,
) -> Any:
    """Add up the elements along axes.

    Floats add up in float64, with an account of what is rounded away; integers wrap around, as NumPy's do.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        Along which axes; all of them by default.
    dtype, out, keepdims, initial, where
        As for `numpy.sum`.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.sum([[1, 2], [3, 4]], axis=0)
    array([4, 6])
    >>> float(pk.sum([1e16, 1.0, -1e16]))
    1.0
    """
    return _sum_like("sum", _SUM, a, axis, dtype, out, keepdims, initial, where)
