"""`matmul`, `dot`, `tensordot`, `kron` and `vecdot` of device-resident arrays, also in captured calls.

Operands are transposed and reshaped to (stacks of) matrices. Functions return NotImplemented for calls that
the host must compute.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._families.matmul.contraction import contract_axes, kronecker
from pycudakit._families.matmul.matrix_power import power_by_squaring
from pycudakit._native import abi
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.captured_call import captured_call, captured_reduction
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

PRODUCTS: dict[Any, Handler] = {}
_implements = functools.partial(implements, PRODUCTS)
_SUMMED_IN_OWN_DTYPE = (np.dtype(np.float32), np.dtype(np.float64))  # `np.sum` keeps these dtypes
_NONE: Any = np._NoValue  # noqa: SLF001


def family(module: str) -> Any:
    """Import a module of the matmul family."""
    return importlib.import_module(f"pycudakit._families.matmul.{module}")


def as_tracers(trace: Trace, *operands: Any) -> list[Tracer] | None:
    """Return the operands as tracers; None if none is a tracer, or one is empty, 0-d or unsupported."""
    if Tracer not in map(type, operands):
        return None
    arrays = [x if type(x) is Tracer else np.asarray(x) for x in operands]
    if any(x.size == 0 or x.ndim == 0 or x.dtype not in CODES for x in arrays):
        return None
    return [x if type(x) is Tracer else _tracer_of(trace, x) for x in arrays]


def _tracer_of(trace: Trace, array: Any) -> Tracer:
    """Return a tracer of an array; in a call that is captured, of a constant."""
    constant = None if trace.capture is None else trace.tracer_of_leaf(array)
    return trace.wrap(array) if constant is None else constant


def _both(trace: Trace, a: Any, b: Any) -> tuple[Tracer, Tracer] | None:
    tracers = as_tracers(trace, a, b)
    return None if tracers is None else (tracers[0], tracers[1])


def _in_common_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    common = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    return a if a.dtype == common else a.astype(common), b if b.dtype == common else b.astype(common)


def product(trace: Trace, a: Any, b: Any, name: str, warns: str | None) -> Any:
    """Enqueue the `matmul` of two operands on the device, in their common dtype; not both are vectors.

    Floating-point warnings name the operation `warns`; if it is None, there are none.
    """
    placed = _in_common_dtype(a, b)
    function = family("matmul").product

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.matmul(x, y), x, y, warns=warns)

    multiply.__name__ = name
    trace.costs.multiplied(a, b)
    if trace.capture is not None:
        return _captured(trace, trace.capture, multiply, placed, warns)
    return trace.on_device(multiply, placed, {}, num_device_args=2)


def _captured(
    trace: Trace, capture: Capture, multiply: Any, factors: Sequence[Any], warns: str | None
) -> Tracer:
    """Multiply in a call that is being captured."""
    are_matrix_and_vector = sorted(factor.ndim for factor in factors) == [1, 2]
    if warns and are_matrix_and_vector and factors[0].dtype in _SUMMED_IN_OWN_DTYPE:
        (matrix,) = (trace.materialize(factor) for factor in factors if factor.ndim == 2)
        if not _has_blas_layout(matrix):
            return _by_reduction(trace, capture, factors[0], factors[1], warns)
    arrays = []
    copies = []  # kept alive until the product is computed: the device drops buffers without a reference
    for factor in factors:
        array = trace.materialize(factor)
        if not _has_blas_layout(array):
            copies.append(trace.call(np.copy, (factor, "C"), {}))
            array = trace.materialize(copies[-1])
        arrays.append(array)
    result = captured_call(trace, capture, multiply, arrays)
    if warns and result.dtype.kind == "f":  # a replay must trace the call unless this is finite
        trace.materialize(np.max(np.abs(result)))
    return result


def _has_blas_layout(array: Any) -> bool:
    """Return True if `pk_matmul` takes the matrices of an array, perhaps transposed, without a copy."""
    return bool(array.flags.c_contiguous or (array.ndim > 1 and array.swapaxes(-1, -2).flags.c_contiguous))


def _by_reduction(trace: Trace, capture: Capture, a: Any, b: Any, warns: str) -> Tracer:
    """Multiply a vector and a matrix by one reduction, which reads a matrix of any strides in place.

    So the plan needs no memory for a copy.
    """
    x, y = trace.materialize(a), trace.materialize(b)
    axis = 0 if x.ndim == 1 else 1
    multiply = family("dot").sum_of_products
    return captured_reduction(
        trace,
        capture,
        "dot",
        [x, y],
        lambda: multiply(warns, lambda: np.matmul(x, y), x[:, None] if x.ndim == 1 else x, y, axis),
    )


def dots(trace: Trace, name: str, a: Any, b: Any, warns: bool) -> Any:
    """Enqueue dot products along the last axes of two arrays of one shape."""
    function = family("dot").sum_of_products

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.vecdot(x, y), x, y, -1, warns=warns)

    multiply.__name__ = name
    trace.costs.called(max(a.size, b.size), runs_in_numpy=True, has_plans_on_gpu=True)
    if trace.capture is not None:
        arrays = [trace.materialize(x) for x in (a, b)]
        return captured_reduction(trace, trace.capture, "dot", arrays, lambda: multiply(*arrays))
    return trace.on_device(multiply, (a, b), {}, num_device_args=2, results_stay_on_device=True)


@_implements(np.matmul)
def _matmul(
    trace: Trace,
    a: Any,
    b: Any,
    /,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
    axes: Any = None,
    **keywords: Any,
) -> Any:
    both: Any = None if keywords else _both(trace, a, b)
    if both is not None and dtype is not None:
        is_taken = np.dtype(dtype) in CODES and all(np.can_cast(x.dtype, dtype, casting) for x in both)
        both = [x.astype(dtype) for x in both] if is_taken else None
    if both is not None and axes is not None:
        are_of_matrices = type(axes) is list and [np.shape(each) for each in axes] == [(2,)] * 3
        moved = zip(both, axes, strict=False)
        both = [np.moveaxis(x, at, (-2, -1)) for x, at in moved] if are_of_matrices else None
    if both is None or not _fit(*both):
        return NotImplemented
    if both[0].ndim == both[1].ndim == 1:
        return dots(trace, "matmul", *_in_common_dtype(*both), warns=True)
    result = product(trace, both[0], both[1], "matmul", "matmul")
    return result if axes is None else np.moveaxis(result, (-2, -1), axes[2])


def _fit(a: Tracer, b: Tracer) -> bool:
    """Return True if the shapes are valid for `matmul`."""
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)] or max(a.ndim, b.ndim) > abi.MAX_DIMS:
        return False
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return False
    return True


def broadcast_copy(trace: Trace, a: Any, shape: tuple[int, ...]) -> Any:
    """Return the array broadcast to a shape, with memory for each element."""
    return a if a.shape == shape else trace.call(np.copy, (np.broadcast_to(a, shape), "C"), {})


def as_matrix(trace: Trace, a: Tracer, order: Sequence[int], *shape: int) -> Any:
    """Transpose and reshape to a contiguous matrix, or a stack of matrices; copy if needed."""
    turned = a.transpose(tuple(order))
    if not trace.materialize(turned).flags.c_contiguous:
        turned = trace.call(np.copy, (turned, "C"), {})
    return turned.reshape(shape)


class DeviceContraction:
    """The functions that the bodies in `_families/matmul/contraction.py` call, for device-resident arrays."""

    multiply = staticmethod(operator.mul)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.as_matrix = functools.partial(as_matrix, trace)

    def product(self, name: str, _: Any, a: Any, b: Any, *, warns: str | None) -> Any:
        """Return the product of matrices, or of stacks of them."""
        return product(self._trace, a, b, name, warns)

    def dots(self, name: str, a: Any, b: Any, *, warns: bool) -> Any:
        """Return the sums of products along the last axes."""
        return dots(self._trace, name, a, b, warns)

    def contiguous(self, a: Any) -> Any:
        """Return a copy in C order."""
        return self._trace.call(np.copy, (a, "C"), {})

    def sum(self, a: Any, axes: tuple[int, ...], dtype: Any) -> Any:
        """Return the sum along axes in a dtype; that of bools is `any`."""
        a = a if a.dtype == dtype else a.astype(dtype)
        total = self._trace.call(np.any if dtype.kind == "b" else np.sum, (a,), {"axis": axes})
        return total if total.dtype == dtype else total.astype(dtype)


@_implements(np.tensordot)
def tensordot(trace: Trace, a: Any, b: Any, axes: Any = 2) -> Any:
    """Contract pairs of axes of two arrays."""
    return _along_pairs(trace, "tensordot", a, b, axes)


def _along_pairs(trace: Trace, name: str, a: Any, b: Any, axes: Any) -> Any:
    both = _both(trace, a, b)
    if both is None:
        return NotImplemented
    x, y = both
    axes_pair = family("tensor_products").contracted_axes(axes, x.shape, y.shape)
    if axes_pair is None:
        return NotImplemented
    return contract_axes(DeviceContraction(trace), name, x, y, axes_pair)


@_implements(np.dot)
def _dot(trace: Trace, a: Any, b: Any, out: Any = None) -> Any:
    if out is not None or max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented  # vectors: handled by `library_calls`
    both = _both(trace, a, b) if max(np.ndim(a), np.ndim(b)) == 2 else None
    if both is not None and _fit(*both):
        return product(trace, *both, "dot", "dot")
    return _along_pairs(trace, "dot", a, b, ([-1], [max(np.ndim(b) - 2, 0)]))


@_implements(np.vdot)
def _vdot(trace: Trace, a: Any, b: Any, /) -> Any:
    both = _both(trace, a, b)
    if both is None or both[0].size != both[1].size or max(x.ndim for x in both) < 2:
        return NotImplemented
    return trace.call(np.vdot, tuple(np.ravel(x) for x in both), {})


@_implements(np.inner)
def _inner(trace: Trace, a: Any, b: Any) -> Any:
    if max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented
    return _along_pairs(trace, "inner", a, b, ([-1], [-1]))


@_implements(np.kron)
def _kron(trace: Trace, a: Any, b: Any) -> Any:
    both = _both(trace, a, b)
    if both is None:
        return NotImplemented
    return kronecker(*both, operator.mul)


if hasattr(np, "vecdot"):

    @_implements(np.vecdot)
    def _vecdot(
        trace: Trace,
        x1: Any,
        x2: Any,
        /,
        *,
        axes: Any = _NONE,
        axis: Any = _NONE,
        keepdims: Any = False,
        dtype: Any = None,
        casting: Any = "same_kind",
        **keywords: Any,
    ) -> Any:
        both = None if keywords or type(keepdims) is not bool else _both(trace, x1, x2)
        if both is None:
            return NotImplemented
        try:
            *of_each, kept = family("tensor_products").vecdot_axes(axes, axis, keepdims)
            first, second = (np.moveaxis(x, at, -1) for x, at in zip(both, of_each, strict=True))  # type: ignore[type-var]
            shape = (*np.broadcast_shapes(first.shape[:-1], second.shape[:-1]), first.shape[-1])
            are_taken = dtype is None or all(np.can_cast(x.dtype, dtype, casting) for x in both)
        except (TypeError, ValueError):
            return NotImplemented
        is_known = dtype is None or np.dtype(dtype) in CODES
        if first.shape[-1] != second.shape[-1] or not (are_taken and is_known):
            return NotImplemented
        first, second = (
            broadcast_copy(trace, x if dtype is None else x.astype(dtype), shape) for x in (first, second)
        )
        found = dots(trace, "vecdot", first, second, warns=True)
        if keepdims:
            found = np.moveaxis(np.expand_dims(found, -1), -1, kept)
        return found


def matrix_power_or(fallback: Handler) -> Handler:
    """Wrap a handler: on a device, compute positive matrix powers by squaring; the power 1 is the array."""

    def handle(trace: Trace, a: Any, n: Any) -> Any:
        is_square = type(a) is Tracer and a.ndim > 1 and a.shape[-1] == a.shape[-2]
        is_positive = isinstance(n, (int, np.integer)) and n >= 1
        if is_square and is_positive and (n == 1 or (trace.buffers.scope.is_open and a.size)):
            return power_by_squaring(a, int(n), lambda x, y: trace.call(np.matmul, (x, y), {}))
        return fallback(trace, a, n)

    return handle
