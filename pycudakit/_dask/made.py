"""Functions of Dask arrays that are made of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pycudakit._dask.asked import Asked, Function, needs_all
from pycudakit._dask.modules import dask_array, kit


def diff(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return differences along an axis."""
    asked = Asked(function, args, kwargs, "n axis")
    x = args[0]
    asked.check_sizes(x)
    function(np.ones((2,) * x.ndim, x.dtype), asked["n"], asked["axis"])  # which refuses what NumPy refuses
    before = (slice(None),) * normalize_axis_index(asked["axis"], x.ndim)
    later, sooner = (*before, slice(1, None)), (*before, slice(None, -1))
    subtract = kit().not_equal if x.dtype == bool else kit().subtract
    for _ in range(asked["n"]):
        x = subtract(x[later], x[sooner])
    return x


def trace(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the sums of diagonals."""
    asked = Asked(function, args, kwargs, "offset axis1 axis2")
    diagonals = dask_array().diagonal(args[0], asked["offset"], asked["axis1"], asked["axis2"])
    return kit().sum(diagonals, axis=-1)


def allclose(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Tell whether all elements are close to each other's."""
    del function
    return kit().all(kit().isclose(*args, **kwargs))


def array_equal(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Tell whether shapes and elements are alike."""
    asked = Asked(function, args, kwargs, "equal_nan", lazy="a1 a2")
    pk, (a, b) = kit(), (dask_array().asarray(asked[name]) for name in ("a1", "a2"))
    asked.check_sizes(a, b)
    if a.shape != b.shape:
        return dask_array().asarray(np.False_)
    alike = pk.equal(a, b)
    if asked["equal_nan"] and a.dtype.kind == b.dtype.kind == "f":
        alike = pk.logical_or(alike, pk.logical_and(pk.isnan(a), pk.isnan(b)))
    return pk.all(alike)


def outer(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return all products of two elements."""
    asked = Asked(function, args, kwargs, "", lazy="a b")
    a, b = (dask_array().asarray(asked[name]).ravel() for name in ("a", "b"))
    return kit().multiply(a[:, np.newaxis], b)


def average(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return weighted means."""
    asked = Asked(function, args, kwargs, "axis returned keepdims", lazy="weights")
    pk, x, axis, weights = kit(), args[0], asked["axis"], asked["weights"]
    keepdims = asked["keepdims"] is True
    if weights is None:
        means = pk.mean(x, axis=axis, keepdims=keepdims)
        asked.check_sizes(*([x] if asked["returned"] else []))
        count = x.size // max(means.size, 1) if asked["returned"] else 0
        return (means, dask_array().full_like(means, count)) if asked["returned"] else means
    if np.ndim(weights) < x.ndim:
        raise needs_all(asked.title, "give weights of the array's own shape")
    dtype = function(np.ones((1,) * x.ndim, x.dtype), None, np.ones((1,) * x.ndim, weights.dtype)).dtype
    totals = pk.sum(pk.astype(weights, dtype), axis=axis, keepdims=keepdims)
    means = pk.divide(pk.sum(pk.multiply(x, weights, dtype=dtype), axis=axis, keepdims=keepdims), totals)
    return (means, totals) if asked["returned"] else means


def norm(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return norms of vectors, and those of matrices that take no more than squares."""
    asked = Asked(function, args, kwargs, "ord axis keepdims")
    pk, x, order, keepdims = kit(), args[0], asked["ord"], bool(asked["keepdims"])
    axis = asked["axis"]
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    of_vectors = len(axes) == 1
    if not (order is None or (order == "fro" and len(axes) == 2) or (of_vectors and order in (1, 2, np.inf))):
        raise needs_all(f"linalg.{asked.title}", "ask for a vector's 1, 2 or inf, or a matrix's 'fro'")
    dtype = function(np.ones((1,) * x.ndim, x.dtype)).dtype
    sizes = pk.absolute(pk.astype(x, np.float64))
    if order == np.inf:
        found = pk.max(sizes, axis=axes, keepdims=keepdims)
    elif order == 1:
        found = pk.sum(sizes, axis=axes, keepdims=keepdims)
    else:
        found = pk.sqrt(pk.sum(pk.square(sizes), axis=axes, keepdims=keepdims))
    return pk.astype(found, dtype)
