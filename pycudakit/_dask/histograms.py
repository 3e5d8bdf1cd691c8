"""Histograms and `bincount` of Dask arrays: the sum of the counts of each block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.call_arguments import CallArguments, Function, flat
from pycudakit._dask.lazy_imports import dask_array


def _sum_of_counts(function: Function, x: Any, shape: tuple[int, ...]) -> Any:
    """Sum the counts of all blocks, where `function` counts one block."""
    da = dask_array()
    rows = da.map_blocks(
        _as_row,
        x,
        function,
        shape,
        drop_axis=list(range(1, x.ndim)),
        new_axis=list(range(1, 1 + len(shape))),
        chunks=((1,) * x.numblocks[0], *((n,) for n in shape)),
        dtype=np.intp,
        meta=np.empty((0,) * (1 + len(shape)), np.intp),
    )
    return da.reduction(rows, np.sum, np.sum, axis=0, dtype=np.intp)


def _as_row(block: Any, function: Function, shape: tuple[int, ...]) -> Any:
    counts = function(block) if block.size else np.zeros(shape)
    return np.asarray(counts, np.intp)[np.newaxis]


def histogram(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Count the elements in each bin."""
    arguments = CallArguments(function, args, kwargs, "bins range density")
    x, bins, span, density = args[0], arguments["bins"], arguments["range"], arguments["density"]
    _check_bins("histogram", np.ndim(bins) == 0, bins, span)
    edges = np.histogram_bin_edges(np.empty(0, x.dtype), bins, span)
    counts = _sum_of_counts(_CountsOfBins(function, bins, span), flat(x), (len(edges) - 1,))
    return (counts / np.diff(edges) / counts.sum() if density else counts), edges


def histogramdd(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Count the rows in each multi-dimensional bin."""
    arguments = CallArguments(function, args, kwargs, "bins range")
    x, bins, span = args[0], arguments["bins"], arguments["range"]
    _check_bins("histogramdd", _are_numbers(bins), bins, span)
    x = x.reshape(-1, 1) if x.ndim == 1 else x.rechunk({1: -1})
    edges = np.histogramdd(np.empty((0, x.shape[1])), bins, span)[1]
    shape = tuple(len(each) - 1 for each in edges)
    return _sum_of_counts(_CountsOfBins(function, bins, span), x, shape).astype(np.float64), edges


def histogram2d(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Count the pairs in each two-dimensional bin."""
    arguments = CallArguments(function, args, kwargs, "bins range", lazy="x y")
    bins, span = arguments["bins"], arguments["range"]
    _check_bins("histogram2d", _are_numbers(bins), bins, span)
    columns = [dask_array().asarray(arguments[name]) for name in ("x", "y")]
    _, *edges = np.histogram2d([], [], bins, span)
    shape = tuple(len(each) - 1 for each in edges)
    pairs = dask_array().stack(columns, axis=1).rechunk({1: -1})
    return _sum_of_counts(_CountsOfPairs(function, bins, span), pairs, shape).astype(np.float64), *edges


def _check_bins(title: str, is_count: bool, bins: Any, span: Any) -> None:
    if is_count and (span is None or isinstance(bins, str)):
        raise errors.Unsupported(
            f"{title} of a Dask array: give the edges, or a number of bins and their range=(low, high)"
        )


def _are_numbers(bins: Any) -> bool:
    """Return True if some axis has a number of bins instead of edges."""
    return any(np.ndim(each) == 0 for each in ([bins] if np.ndim(bins) == 0 else bins))


class _CountsOfBins:
    """The histogram counts of one block, as a picklable function."""

    def __init__(self, function: Function, bins: Any, span: Any) -> None:
        self._given = function, bins, span

    def __call__(self, block: Any) -> Any:
        function, bins, span = self._given
        return function(block, bins, span)[0]


class _CountsOfPairs(_CountsOfBins):
    """The 2-d histogram counts of one block of pairs."""

    def __call__(self, block: Any) -> Any:
        function, bins, span = self._given
        return function(block[:, 0], block[:, 1], bins, span)[0]


def bincount(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Count the occurrences of each integer."""
    arguments = CallArguments(function, args, kwargs, "minlength")
    count = arguments["minlength"]
    one = np.zeros((1,) * args[0].ndim, args[0].dtype)
    function(one, minlength=count)  # raises NumPy's errors
    if not count:
        raise errors.Unsupported(
            "bincount of a Dask array: give minlength=, at least one more than the largest value"
        )
    return _sum_of_counts(_CountsOfValues(function, count), args[0], (int(count),))


class _CountsOfValues:
    """The `bincount` of one block; it raises if a value is out of range."""

    def __init__(self, function: Function, count: int) -> None:
        self._given = function, count

    def __call__(self, block: Any) -> Any:
        function, count = self._given
        counts = function(block, minlength=count)
        if len(counts) > count:
            raise errors.InvalidArgument(
                f"bincount of a Dask array: minlength is {count}, but the array contains {len(counts) - 1}"
            )
        return counts
