"""`Generator` and `default_rng`: random numbers with NumPy's names, the same bits on every engine.

`Generator.random` and `Generator.bytes` give the numbers of ``np.random.Generator(np.random.Philox(seed))``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._interop import foreign_arrays
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._runtime import late_bound
from pycudakit._runtime.native_call import log_empty_call
from pycudakit._runtime.public_function import public_function
from pycudakit.random.choice import choose, integer_bounds, permuted, shuffle
from pycudakit.random.compound_distributions import CompoundDistributions
from pycudakit.random.draw_requests import BITS, INTEGERS, UNIFORM
from pycudakit.random.generator_base import NUMPY_GENERATOR, broadcast_shape, shape_of
from pycudakit.random.prefetch import prefetching

__all__ = ["Generator", "default_rng"]


class Generator(CompoundDistributions):
    """A random number generator whose numbers are the same on every engine.

    Its state is the key of Philox4x64-10, the index of the next 64-bit word, and the upper half of a word
    whose lower 32 bits have been drawn. It can be pickled, copied and compared. `default_rng` makes one from
    a seed. Several threads may draw from one generator.

    `random` and `bytes` give NumPy's numbers. The other methods draw from NumPy's distributions by other
    algorithms: each element has its own words, so that the numbers depend neither on the engine nor on how
    many are drawn at once. On the engine ``numpy`` they are those of NumPy's generator in the same state.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> rng = pk.random.default_rng(5)
    >>> rng.random(2) == np.random.Generator(np.random.Philox(5)).random(2)
    array([ True,  True])
    """

    __slots__ = ()

    # ---- Drawing ------------------------------------------------------------------------------------

    @prefetching
    @accept_foreign_arrays
    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return random floats in the half-open interval [0.0, 1.0), with NumPy's bits.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; by default that of `out`, or one number.
        dtype : {float64, float32}
            The type: floats of 53 bits, or of 24.
        out : ndarray, optional
            The array to fill, in memory order.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> pk.random.default_rng(1).random(3)
        array([0.06680201, 0.07901298, 0.00577712])
        """
        return self._floats("random", UNIFORM, size, dtype, out, (size, dtype, out))

    @prefetching
    @accept_foreign_arrays
    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Return random integers from `low` (inclusive) to `high` (exclusive), or to `low` without `high`.

        Each is the upper half of the product of 64 random bits and the number of possible integers; biased
        values are rejected and drawn again (Lemire 2019).

        Parameters
        ----------
        low, high : int or array_like of int
            The bounds; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the bounds.
        dtype : dtype
            bool or an integer type.
        endpoint : bool
            Whether `high` is included.
            Whether `high` is one of them.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> dice = pk.random.default_rng(1).integers(1, 7, 1000)
        >>> int(dice.min()), int(dice.max())
        (1, 6)
        """
        kind = np.dtype(dtype)
        if size is not None and 0 in shape_of(size):
            log_empty_call("integers")
            return NUMPY_GENERATOR.integers(
                low, high, size, dtype, endpoint
            )  # NumPy does not check the bounds then
        least, span = self._ends(low, high, dtype, endpoint)
        own_shape = np.broadcast_shapes(least.shape, span.shape)
        shape = own_shape if size is None else broadcast_shape(own_shape, shape_of(size))
        numpy: Callable[[Any], Any] = lambda g: g.integers(low, high, size, dtype, endpoint)  # noqa: E731
        result = self._run("integers", INTEGERS, shape, kind, numpy, None, least, span)
        if size is not None or shape or isinstance(result, (int, np.integer)):
            return result
        return dtype(result) if dtype is int or dtype is bool else result[()]

    def _ends(self, low: Any, high: Any, dtype: Any, endpoint: bool) -> tuple[Any, Any]:
        return integer_bounds(NUMPY_GENERATOR, low, high, dtype, endpoint)

    def bytes(self, length: int) -> bytes:
        """Return random bytes, with NumPy's bits.

        Returns
        -------
        bytes

        Examples
        --------
        >>> import pycudakit as pk
        >>> pk.random.default_rng(1).bytes(4).hex()
        '3acec06b'
        """
        if not isinstance(length, (int, float, np.integer)):
            raise TypeError("an integer is required")
        length = int(length)
        words = max(1, -(-length // 4))  # NumPy draws four bytes even for a length of zero
        numpy: Callable[[Any], Any] = lambda g: np.frombuffer(g.bytes(4 * words), np.uint32)  # noqa: E731
        drawn = self._run("bytes", BITS, (words,), np.dtype(np.uint32), numpy, None)
        return drawn.view(np.uint8)[:length].tobytes()  # type: ignore[no-any-return]

    # ---- Choosing -----------------------------------------------------------------------------------

    @accept_foreign_arrays
    @public_function(one_call="permutation")
    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Randomly permute a sequence along an axis, or return a permuted range.

        The order is a stable argsort of random 64-bit keys; all orders are equally likely.

        Parameters
        ----------
        x : int or array_like
            The array to permute; an integer means ``arange(x)``.
        axis : int
            The axis.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import pycudakit as pk
        >>> sorted(pk.random.default_rng(1).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        if self._is_numpys():
            return self._by_numpy("permutation", lambda g: g.permutation(x, axis))
        if isinstance(x, (int, np.integer)):
            return self._order(max(0, int(x)))
        array = np.asarray(x)
        along = normalize_axis_index(axis, array.ndim)
        return np.take(array, self._order(array.shape[along]), along)

    @accept_foreign_arrays
    @public_function(one_call="permuted")
    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """Randomly permute `x` along an axis, each slice independently.

        The orders are stable argsorts of random 64-bit keys, one for each element.

        Parameters
        ----------
        x : array_like
            The array to permute.
        axis : int, optional
            The axis; by default `x` is permuted as if it were flat.
        out : ndarray, optional
            Where to put the result, of the shape of `x`; it may be `x`.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> rows = pk.random.default_rng(1).permuted(np.arange(6).reshape(2, 3), axis=1)
        >>> np.sort(rows, axis=1)
        array([[0, 1, 2],
               [3, 4, 5]])
        """
        if self._is_numpys():
            return self._by_numpy("permuted", lambda g: g.permuted(x, axis=axis, out=out))
        return permuted(x, axis, out, self._order)

    @public_function(one_call="shuffle")
    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Modify an array or list in-place by shuffling its contents along an axis, as `permutation` does.

        Parameters
        ----------
        x : ndarray, array on a GPU or list
            The array to shuffle.
        axis : int
            The axis, for arrays only.

        Examples
        --------
        >>> import pycudakit as pk
        >>> deck = list("abc")
        >>> pk.random.default_rng(1).shuffle(deck)
        >>> sorted(deck)
        ['a', 'b', 'c']
        """
        if foreign_arrays.can_use_device_arrays() and foreign_arrays.is_on_device(x):
            foreign_arrays.check_device_arguments("shuffle", ["self", "x"], (self, x), {})
            late_bound.call_on_device(Generator.shuffle, (self, x, axis), {})
            return
        foreign_arrays.read(
            x, "shuffle, x", by_numpy=True
        )  # raises for a device array if there is no GPU to use
        if self._is_numpys():
            self._by_numpy("shuffle", lambda g: g.shuffle(x, axis))
        else:
            shuffle(x, axis, self._order)

    @accept_foreign_arrays
    @public_function(one_call="choice")
    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Generate a random sample from a given array.

        Parameters
        ----------
        a : int or array_like
            The array to sample; an integer means ``arange(a)``.
        size : int or tuple of int, optional
            The shape of the sample; by default one element.
        replace : bool
            Whether an element may be sample more than once.
        p : array_like, optional
            The probability of each element.
        axis : int
            The axis along which to choose.
        shuffle : bool
            Whether a sample without replacement is in random order.

        Returns
        -------
        ndarray, or an element
            An element without `size`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> sample = pk.random.default_rng(1).choice(["a", "b", "c"], 100, p=[0.5, 0.5, 0])
        >>> sorted(set(sample.tolist()))
        ['a', 'b']
        """
        if self._is_numpys():
            return self._by_numpy("choice", lambda g: g.choice(a, size, replace, p, axis, shuffle))
        return choose(self, a, size, replace, p, axis, shuffle)


for _base in Generator.__mro__[1:-1]:  # so that error messages of wrong calls name Generator's methods
    for _name, _method in vars(_base).items():
        if inspect.isfunction(_method):
            _method.__qualname__ = inspect.unwrap(_method).__qualname__ = f"Generator.{_name}"


def default_rng(seed: Any = None) -> Generator:
    """Construct a new Generator.

    Parameters
    ----------
    seed : None, int, sequence of int, SeedSequence, Philox or Generator
        For a seed or a `numpy.random.SeedSequence`, the key is that of ``np.random.Philox(seed)``; None takes
        entropy from the operating system. For NumPy's `Philox`, or a NumPy generator that has one, the new
        generator starts in the same state, and NumPy's is not changed. A `Generator` of this module is
        returned as it is.

    Returns
    -------
    Generator

    See Also
    --------
    numpy.random.default_rng : NumPy's function.
    Generator, on_dask

    Differs from NumPy
    ------------------
    The bit generator is Philox instead of PCG64, so a seed gives the numbers of
    ``numpy.random.Generator(numpy.random.Philox(seed))``, where the method is of the same algorithm.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.random.default_rng(1).random()
    0.0668020093396563
    """
    return seed if isinstance(seed, Generator) else Generator(seed)
