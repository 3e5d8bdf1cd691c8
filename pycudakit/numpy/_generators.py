"""Generators by NumPy's names: pycudakit's of a seed or a Philox, and NumPy's of all else."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit import random

_NUMPY_ONLY = (np.random.BitGenerator, np.random.RandomState)


def _is_numpy_generator(seed: Any) -> bool:
    """Tell whether only NumPy's generators go on from something."""
    seed = seed.bit_generator if isinstance(seed, np.random.Generator) else seed
    return isinstance(seed, _NUMPY_ONLY) and not isinstance(seed, np.random.Philox)


class _EitherGenerator(type):
    """The type of what stands for two types."""

    def __instancecheck__(cls, value: object) -> bool:
        """Tell whether something is a generator of either kind."""
        return isinstance(value, (random.Generator, np.random.Generator))


class Generator(metaclass=_EitherGenerator):
    """A generator that draws from a bit generator: pycudakit's from a Philox, NumPy's from all others.

    Examples
    --------
    >>> import pycudakit.numpy as np
    >>> type(np.random.Generator(np.random.Philox(5))).__module__
    'pycudakit.random'
    >>> type(np.random.Generator(np.random.PCG64(5))).__module__
    'numpy.random._generator'
    >>> isinstance(np.random.default_rng(5), np.random.Generator)
    True
    """

    def __new__(cls, bit_generator: Any) -> Any:
        """Return a generator of pycudakit's or of NumPy's."""
        is_ours = isinstance(bit_generator, np.random.Philox)
        return random.Generator(bit_generator) if is_ours else np.random.Generator(bit_generator)


def default_rng(seed: Any = None) -> Any:
    """Return a generator: pycudakit's, unless what is given is one, or a bit generator, that only NumPy has.

    Its numbers are those of `pycudakit.random.default_rng`: NumPy's for a seed are others, of PCG64.

    Examples
    --------
    >>> import pycudakit as pk
    >>> import pycudakit.numpy as np
    >>> np.random.default_rng(5).random() == pk.random.default_rng(5).random()
    True
    """
    return np.random.default_rng(seed) if _is_numpy_generator(seed) else random.default_rng(seed)
