"""`on_dask`: random numbers as a Dask array, whose elements do not depend on the chunks."""

from __future__ import annotations

import copy
import importlib
import math
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit.random.generator import Generator
from pycudakit.random.generator_base import shape_of
from pycudakit.random.philox import Stream

_PROBE_ELEMENTS = 1024  # elements drawn to count the words of each; for every distribution a whole number


def on_dask(
    generator: Generator, name: str, *parameters: Any, size: Any, chunks: Any = "auto", **options: Any
) -> Any:
    """Draw from a method of a generator as a Dask array: chunks are drawn where they are needed.

    The numbers are those that the method would return, whatever the chunks. The generator advances past
    them.

    Parameters
    ----------
    generator : Generator
        The generator.
    name : str
        The method: ``"random"``, ``"standard_normal"``, ``"integers"``, ...
    *parameters
        The method's parameters, which must be numbers.
    size : int or tuple of int
        The shape.
    chunks : int, tuple of int or "auto"
        The chunks along the first axis, as in Dask, or an array's `chunks`. Other axes are not chunked.
    **options
        The method's other arguments, such as ``dtype="float32"``.

    Returns
    -------
    dask.array.Array

    See Also
    --------
    default_rng

    Examples
    --------
    >>> import pycudakit as pk
    >>> rng = pk.random.default_rng(5)
    >>> whole = pk.random.on_dask(rng, "random", size=1000, chunks=300)  # doctest: +SKIP
    >>> (whole.compute() == pk.random.default_rng(5).random(1000)).all()  # doctest: +SKIP
    True
    """
    da: Any = importlib.import_module("dask.array")
    if any(np.ndim(value) for key, value in (*enumerate(parameters), *options.items()) if key != "dtype"):
        raise errors.Unsupported(f"{name} on Dask: parameters are numbers")
    if not isinstance(generator, Generator):
        raise TypeError(f"{name} on Dask: the generator is one of pk.random.default_rng, not {generator!r}")
    shape = shape_of(size)
    if not shape:
        raise errors.Unsupported(f"{name} on Dask: size is that of an array, of one dimension at least")
    key, begin, half = generator.__getstate__()
    trial = copy.copy(generator)
    sample = getattr(trial, name)(*parameters, size=_PROBE_ELEMENTS, **options)
    words = trial.__getstate__()[1] - begin
    # Elements are drawn in C order, so chunks are whole rows.
    cut = tuple(chunks) if isinstance(chunks, (tuple, list)) else chunks
    if cut and isinstance(cut, tuple) and isinstance(cut[0], tuple):  # an array's own chunks
        cut, *others = cut
        if any(len(each) > 1 for each in others):
            raise errors.Unsupported(f"{name} on Dask: blocks are of whole rows, but chunks are {chunks}")
    blocks = da.core.normalize_chunks((cut, *[-1] * (len(shape) - 1)), shape, dtype=sample.dtype)
    row = math.prod(shape[1:])
    offsets = [int(start) * row * words for start in np.cumsum([0, *blocks[0]])]
    if any(offset % _PROBE_ELEMENTS for offset in offsets[:-1]) or (
        half is not None and words < _PROBE_ELEMENTS
    ):
        raise errors.Unsupported(
            f"{name} on Dask: elements of {sample.dtype} come two to a word, so blocks begin after an even "
            f"number of them: choose other chunks than {blocks[0]}, after drawing an even number"
        )
    streams = [Stream(key, begin + offset // _PROBE_ELEMENTS) for offset in offsets[:-1]]
    array = da.map_blocks(
        _Block([stream.state() for stream in streams], name, parameters, options),
        chunks=blocks,
        dtype=sample.dtype,
        meta=np.empty((0,) * len(shape), sample.dtype),
    )
    last = Stream(key, begin + offsets[-1] // _PROBE_ELEMENTS)
    if offsets[-1] % _PROBE_ELEMENTS:  # half of a word is left
        last.take_halves(1)
    generator.__setstate__(last.state() if words < _PROBE_ELEMENTS else (key, last.word, half))
    return array


class _Block:
    """Draws one chunk, from the state at its beginning."""

    def __init__(self, states: list[Any], name: str, parameters: Any, options: Any) -> None:
        self._draw_arguments = states, name, parameters, options
        self.__name__ = name

    def __call__(self, block_info: Any = None) -> Any:
        """Draw the chunk that `block_info` describes."""
        states, name, parameters, options = self._draw_arguments
        chunk = block_info[None]
        generator = Generator(0)
        generator.__setstate__(states[chunk["chunk-location"][0]])
        return getattr(generator, name)(*parameters, size=chunk["chunk-shape"], **options)
