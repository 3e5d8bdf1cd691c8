"""Matrix products, `tensordot` and `einsum` of Dask arrays, as blocked products.

Pairs of blocks are multiplied, and the partial products are summed if a contracted axis has several chunks.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit._dask.call_arguments import (
    BlockFunction,
    CallArguments,
    Function,
    check_sizes,
    flat,
    needs_whole_array,
    sample,
)
from pycudakit._dask.lazy_imports import dask_array, public_api
from pycudakit._interop.foreign_arrays import is_dask

# Axis names: an axis that two arrays have is shared; one that the result lacks is summed.
Axes = tuple[str, ...]

_BATCH_AXES = tuple(f"*{place}" for place in range(64))  # batch axes, which broadcast


class _PartialProduct:
    """The product of two blocks, with an axis of length 1 for each contracted axis."""

    def __init__(self, compute: Function, summed: int) -> None:
        self._compute, self._summed = compute, summed
        self.__name__ = compute.__name__

    def __call__(self, *blocks: Any) -> Any:
        whole = np.asarray(self._compute(*blocks))
        return whole.reshape(*whole.shape, *(1,) * self._summed)


def _product(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], named: Sequence[Axes], out: Axes
) -> Any:
    """Compute a product of the Dask arrays among the arguments, with named axes."""
    title, arrays, lengths = function.__name__, list(filter(is_dask, args)), dict[str, int]()
    check_sizes(title, *arrays)
    for array, names in zip(arrays, named, strict=True):
        for name, length in zip(names, array.shape, strict=True):
            known = lengths.setdefault(name, length)
            if known != length and not (name in _BATCH_AXES and 1 in (known, length)):
                raise errors.InvalidArgument(f"{title}: axis lengths do not match: {known} and {length}")
            lengths[name] = max(known, length)
    compute = BlockFunction(function, args, kwargs)
    dtype = np.asarray(compute(*map(sample, arrays))).dtype
    summed = tuple(name for name in lengths if name not in out)
    accumulator = dtype
    if dtype == np.float16:  # partial products may overflow where the sum does not
        accumulator = np.dtype(np.float32)
        arrays = [public_api().astype(array, accumulator) for array in arrays]
        compute = BlockFunction(function, args, {n: value for n, value in kwargs.items() if n != "dtype"})
    with warnings.catch_warnings():  # about the number of partial products, which are summed right away
        warnings.simplefilter("ignore", dask_array().PerformanceWarning)
        parts = dask_array().blockwise(
            _PartialProduct(compute, len(summed)),
            (*out, *summed),
            *(value for both in zip(arrays, named, strict=True) for value in both),
            adjust_chunks=dict.fromkeys(summed, 1),
            dtype=accumulator,
            meta=np.empty((0,) * (len(out) + len(summed)), accumulator),
        )
    axes = tuple(range(len(out), parts.ndim))
    if all(parts.numblocks[axis] == 1 for axis in axes):
        total = parts.reshape(parts.shape[: len(out)])
    else:
        total = (
            public_api().any(parts, axis=axes) if dtype.kind == "b" else public_api().sum(parts, axis=axes)
        )
    return total.astype(dtype)


def matmul(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute `matmul`, `dot`, `inner` or `vecdot`."""
    name = function.__name__
    others = kwargs.keys() - {"casting", "dtype", "precision"}
    if others or len(args) != 2:
        named_others = ", ".join(f"{each}=" for each in sorted(others)) or "out"
        raise errors.Unsupported(f"{name} of a Dask array does not take {named_others}")
    operands = [dask_array().asarray(array) for array in args]
    a, b = (array.ndim for array in operands)
    if 0 in (a, b):
        if name in ("dot", "inner"):
            return public_api().multiply(*operands)
        function(*(np.ones((1,) * each.ndim) for each in operands))  # raises
    if name in ("dot", "inner"):
        first, second = (tuple(f"{prefix}{i}" for i in range(n - 1)) for prefix, n in (("a", a), ("b", b)))
        last = (*second, "k") if name == "inner" or b == 1 else (*second[:-1], "k", second[-1])
        return _product(function, operands, kwargs, [(*first, "k"), last], (*first, *second))
    core_axes = 1 if name == "vecdot" else 2  # axes that are not batch axes
    batch_axes = _BATCH_AXES[: max(a, b) - core_axes] if max(a, b) > core_axes else ()
    of_a, of_b = (batch_axes[len(batch_axes) - max(n - core_axes, 0) :] for n in (a, b))
    if name == "vecdot":
        return _product(function, operands, kwargs, [(*of_a, "k"), (*of_b, "k")], batch_axes)
    named = [(*of_a, *"mk"[-a:]), (*of_b, *"kn"[:b])]
    return _product(function, operands, kwargs, named, (*batch_axes, *"m"[: a - 1], *"n"[: b - 1]))


def vdot(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the dot product of the flattened arrays."""
    del function
    return public_api().dot(*(flat(dask_array().asarray(array)) for array in args), **kwargs)


def tensordot(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Contract the given pairs of axes."""
    arguments = CallArguments(function, args, kwargs, "axes", lazy="a b")
    both = [dask_array().asarray(arguments[name]) for name in ("a", "b")]
    a, b = ([f"{of}{i}" for i in range(array.ndim)] for of, array in zip("ab", both, strict=True))
    axes = arguments["axes"]
    pairs = (range(len(a) - axes, len(a)), range(axes)) if np.ndim(axes) == 0 else axes
    of_a, of_b = (normalize_axis_tuple(each, len(names)) for each, names in zip(pairs, (a, b), strict=True))
    for mine, other in zip(of_a, of_b, strict=True):
        b[other] = a[mine]
    out = (*(name for name in a if name not in b), *(name for name in b if name not in a))
    return _product(function, both, {"axes": axes}, [tuple(a), tuple(b)], out)


def einsum(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute `einsum` for subscripts with distinct letters in each operand."""
    subscripts = args[0].replace(" ", "") if isinstance(args[0], str) else "."
    inputs, arrow, out = subscripts.partition("->")
    named = [tuple(each) for each in inputs.split(",")]
    if "." in subscripts or any(len(set(each)) < len(each) for each in named):
        raise needs_whole_array("einsum", "give each axis of an array a letter of its own, as 'ij,jk->ik'")
    if not arrow:
        out = "".join(sorted(letter for letter in set(inputs) - {","} if inputs.count(letter) == 1))
    arrays = [dask_array().asarray(array) for array in args[1:]]
    if [len(each) for each in named] != [array.ndim for array in arrays]:
        function(args[0], *(np.ones((1,) * array.ndim) for array in arrays))  # raises
    return _product(function, [args[0], *arrays], kwargs, named, tuple(out))
