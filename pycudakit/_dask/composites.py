"""Functions of Dask arrays composed of other functions of Dask arrays, such as `convolve` and `average`."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit._dask.call_arguments import CallArguments, Function, as_dtype, flat, needs_whole_array, sample
from pycudakit._dask.lazy_imports import dask_array, public_api
from pycudakit._families.matmul.contraction import kronecker
from pycudakit._families.matmul.matrix_power import power_by_squaring
from pycudakit._families.scan.differences import differences
from pycudakit._interop.foreign_arrays import is_dask
from pycudakit._runtime.operands import axis_index
from pycudakit.fusing.composites.decorator import NumPyOnly
from pycudakit.fusing.composites.signals import MODES


def by_numpy_body(lazy: str) -> Function:
    """Return a handler that runs the body of a composite; `lazy` names parameters that may be Dask arrays."""

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        CallArguments(function, args, kwargs, lazy=lazy)
        return _run_body(function, args, kwargs)

    return handler


def _run_body(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run the undecorated body of a composite on Dask arrays."""
    try:
        return inspect.unwrap(function)(*args, **kwargs)
    except NumPyOnly as error:
        raise needs_whole_array(f"{function.__name__} with {error}", "leave that out") from None


def gradient(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute gradients."""
    f, *spacings = args
    if any(is_dask(each) and each.ndim for each in spacings):
        raise errors.Unsupported("gradient of Dask arrays: coordinates must be known: .compute() them first")
    return _run_body(function, (dask_array().asarray(f), *spacings), kwargs)


def tile(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Repeat an array along its axes."""
    return as_dtype(by_numpy_body("A")(function, args, kwargs), args[0].dtype)


_BORDERS = ("constant", "edge", "empty", "maximum", "minimum", "reflect", "symmetric", "wrap")


def pad(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Pad an array at both ends of its axes."""
    arguments = CallArguments(function, args, kwargs)
    x, widths, mode = args[0], arguments["pad_width"], arguments["mode"]
    arguments.check_sizes(x)
    if isinstance(widths, Mapping):
        per_axis: list[Any] = [(0, 0)] * x.ndim
        for axis, width in widths.items():
            per_axis[axis] = width if np.ndim(width) else (width, width)
        widths = per_axis
    function(sample(x), widths, mode, **arguments["kwargs"])  # raises NumPy's errors
    widths = np.broadcast_to(np.asarray(widths), (x.ndim, 2))
    if mode not in _BORDERS:
        raise needs_whole_array(f"pad by {mode!r}", f"give one of {', '.join(_BORDERS)}")
    if arguments["kwargs"].get("reflect_type", "even") != "even":  # Dask's `pad` ignores it
        raise needs_whole_array("pad by odd reflections", "leave reflect_type out")
    if mode in ("reflect", "symmetric", "wrap") and np.any(widths.max(axis=1) >= x.shape):
        raise needs_whole_array(f"pad by {mode!r}", "give a border narrower than the array")
    return as_dtype(dask_array().pad(x, widths.tolist(), mode, **arguments["kwargs"]), x.dtype)


def repeat(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Repeat each element along an axis."""
    arguments = CallArguments(function, args, kwargs, "repeats axis")
    x, axis = (flat(args[0]), 0) if arguments["axis"] is None else (args[0], arguments["axis"])
    axis = axis_index(axis, x.ndim)
    arguments.check_sizes(x)
    indices = np.repeat(np.arange(x.shape[axis]), arguments["repeats"])  # raises for invalid counts
    if np.ndim(arguments["repeats"]) == 0:
        result = dask_array().repeat(x, int(arguments["repeats"]), axis=axis)
    else:
        result = dask_array().take(x, indices, axis=axis)
    return as_dtype(result, x.dtype)


def convolve(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a convolution or a correlation: each block is extended by the overlap from the block before."""
    arguments = CallArguments(function, args, kwargs, "mode", lazy="a v")
    da, mode = dask_array(), arguments["mode"]
    a, v = (np.atleast_1d(arguments[name]) for name in ("a", "v"))
    arguments.check_sizes(a, v)
    ones = [np.ones([min(n, 1) for n in each.shape], each.dtype) for each in (a, v)]
    dtype = function(*ones, mode).dtype  # raises NumPy's errors
    if v.size > a.size:
        swapped = convolve(function, (v, a, mode), {})
        return swapped[::-1] if function.__name__ == "correlate" else swapped
    a, v = da.asarray(a), da.asarray(v).rechunk(-1)
    reach = v.size - 1
    extended = da.overlap.overlap(a, {0: (reach, 0)}, {0: "none"})
    lengths = [n - reach * (block > 0) for block, n in enumerate(extended.chunks[0])]
    lengths[-1] += reach
    full = da.map_blocks(
        _BlockConvolution(function, reach, len(lengths)),
        extended,
        v.to_delayed().item(),
        chunks=(tuple(lengths),),
        dtype=dtype,
        meta=np.empty(0, dtype),
    )
    first, last = {
        0: (reach, a.size),
        1: (reach - v.size // 2, a.size + reach - v.size // 2),
        2: (0, a.size + reach),
    }[MODES[mode]]
    return full[first:last]


class _BlockConvolution:
    """The convolution of one extended block, without the results that belong to its neighbours."""

    def __init__(self, function: Function, reach: int, blocks: int) -> None:
        self._given = function, reach, blocks
        self.__name__ = function.__name__

    def __call__(self, block: Any, v: Any, block_id: tuple[int]) -> Any:
        function, reach, blocks = self._given
        full = function(block, v, "full")
        return full[reach * (block_id[0] > 0) : len(full) - reach * (block_id[0] < blocks - 1)]


def kron(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the Kronecker product."""
    arguments = CallArguments(function, args, kwargs, "", lazy="a b")
    a, b = (dask_array().asarray(arguments[name]) for name in ("a", "b"))
    arguments.check_sizes(a, b)
    shape = [math.prod(n) for n in itertools.zip_longest(a.shape[::-1], b.shape[::-1], fillvalue=1)][::-1]
    if 0 in shape:
        return dask_array().empty(shape, dtype=np.result_type(a.dtype, b.dtype))
    return kronecker(a, b, public_api().multiply)


def matrix_power(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a positive matrix power by repeated squaring."""
    arguments = CallArguments(function, args, kwargs, "n")
    x, n = args[0], operator.index(arguments["n"])
    arguments.check_sizes(x)
    is_square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    one = np.ones((1, 1) if is_square else (2,) * (x.ndim - 1) + (3,), x.dtype)
    function(one, max(n, 0))  # raises NumPy's errors
    if n < 1:
        raise needs_whole_array("linalg.matrix_power with n < 1", "give a positive n")
    return power_by_squaring(x, n, public_api().matmul)


def diff(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the n-th difference along an axis."""
    arguments = CallArguments(function, args, kwargs, "n axis")
    x = args[0]
    arguments.check_sizes(x)
    function(np.ones((2,) * x.ndim, x.dtype), arguments["n"], arguments["axis"])  # raises NumPy's errors
    return differences(public_api(), x, arguments["n"], arguments["axis"])


def trace(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the sums of diagonals."""
    arguments = CallArguments(function, args, kwargs, "offset axis1 axis2 dtype")
    function(sample(args[0]), *args[1:], **kwargs)  # raises NumPy's errors
    diagonals = dask_array().diagonal(args[0], arguments["offset"], arguments["axis1"], arguments["axis2"])
    return public_api().sum(diagonals, axis=-1, dtype=arguments["dtype"])


def allclose(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return True if all elements are close."""
    del function
    return public_api().all(public_api().isclose(*args, **kwargs))


def array_equal(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return True if the shapes and all elements are equal."""
    arguments = CallArguments(function, args, kwargs, "equal_nan", lazy="a1 a2")
    pk, (a, b) = public_api(), (dask_array().asarray(arguments[name]) for name in ("a1", "a2"))
    arguments.check_sizes(a, b)
    if a.shape != b.shape:
        return dask_array().asarray(np.False_)
    alike = pk.equal(a, b)
    if arguments["equal_nan"] and a.dtype.kind == b.dtype.kind == "f":
        alike = pk.logical_or(alike, pk.logical_and(pk.isnan(a), pk.isnan(b)))
    return pk.all(alike)


def outer(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the outer product of the flattened arrays."""
    arguments = CallArguments(function, args, kwargs, "", lazy="a b")
    a, b = (flat(dask_array().asarray(arguments[name])) for name in ("a", "b"))
    return public_api().multiply(a[:, np.newaxis], b)


def average(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute weighted means."""
    arguments = CallArguments(function, args, kwargs, "axis returned keepdims", lazy="weights")
    pk, x, axis, weights, keepdims = (
        public_api(),
        args[0],
        arguments["axis"],
        arguments["weights"],
        arguments.keepdims,
    )
    if weights is None:
        means = pk.mean(x, axis=axis, keepdims=keepdims)
        arguments.check_sizes(*([x] if arguments["returned"] else []))
        count = x.size // max(means.size, 1) if arguments["returned"] else 0
        return (means, dask_array().full_like(means, count)) if arguments["returned"] else means
    if np.ndim(weights) < x.ndim:
        raise needs_whole_array(arguments.title, "give weights of the same shape as the array")
    dtype = function(sample(x), None, np.ones((1,) * x.ndim, weights.dtype)).dtype
    totals = pk.sum(pk.astype(weights, dtype), axis=axis, keepdims=keepdims)
    means = pk.divide(pk.sum(pk.multiply(x, weights, dtype=dtype), axis=axis, keepdims=keepdims), totals)
    return (means, totals) if arguments["returned"] else means


def norm(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute norms of vectors, and Frobenius norms of matrices."""
    arguments = CallArguments(function, args, kwargs, "ord axis keepdims")
    pk, x, order, keepdims = public_api(), args[0], arguments["ord"], arguments.keepdims
    axis = arguments["axis"]
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    of_vectors = len(axes) == 1
    if not (order is None or (order == "fro" and len(axes) == 2) or (of_vectors and order in (1, 2, np.inf))):
        raise needs_whole_array(
            f"linalg.{arguments.title}", "ask for a vector's 1, 2 or inf, or a matrix's 'fro'"
        )
    dtype = function(sample(x)).dtype
    sizes = pk.absolute(pk.astype(x, np.float64))
    if order == np.inf:
        result = pk.max(sizes, axis=axes, keepdims=keepdims)
    elif order == 1:
        result = pk.sum(sizes, axis=axes, keepdims=keepdims)
    else:
        result = pk.sqrt(pk.sum(pk.square(sizes), axis=axes, keepdims=keepdims))
    return pk.astype(result, dtype)
