"""`Generator` and `default_rng` after `use_random`: pycudakit's for seeds and Philox, else NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit import random

_NUMPY_ONLY = (np.random.BitGenerator, np.random.RandomState)


def _is_numpy_generator(seed: Any) -> bool:
    """Return True if the seed is a generator or bit generator that only NumPy can continue."""
    seed = seed.bit_generator if isinstance(seed, np.random.Generator) else seed
    return isinstance(seed, _NUMPY_ONLY) and not isinstance(seed, np.random.Philox)


class _EitherGenerator(type):
    """A metaclass whose instance check accepts both generator classes."""

    def __instancecheck__(cls, value: object) -> bool:
        """Return True for a generator of pycudakit or of NumPy."""
        return isinstance(value, (random.Generator, np.random.Generator))


class Generator(metaclass=_EitherGenerator):
    """A generator for a bit generator: one of pycudakit for Philox, one of NumPy for all others.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.numpy._generators import Generator
    >>> type(Generator(np.random.Philox(5))).__module__
    'pycudakit.random'
    >>> type(Generator(np.random.PCG64(5))).__module__
    'numpy.random._generator'
    >>> isinstance(np.random.default_rng(5), Generator)
    True
    """

    def __new__(cls, bit_generator: Any) -> Any:
        """Return a generator of pycudakit or of NumPy."""
        is_ours = isinstance(bit_generator, np.random.Philox)
        return random.Generator(bit_generator) if is_ours else np.random.Generator(bit_generator)


def default_rng(seed: Any = None) -> Any:
    """Return a pycudakit generator; NumPy's if the seed is a generator or bit generator that only NumPy has.

    A seed gives the numbers of `pycudakit.random.default_rng` (Philox), not those of NumPy (PCG64).

    Examples
    --------
    >>> import pycudakit as pk
    >>> from pycudakit.numpy._generators import default_rng
    >>> default_rng(5).random() == pk.random.default_rng(5).random()
    True
    """
    return np.random.default_rng(seed) if _is_numpy_generator(seed) else random.default_rng(seed)
