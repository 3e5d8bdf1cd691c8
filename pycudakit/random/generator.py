"""Random numbers with NumPy's names: the same bits on every engine, each element's from its own place.

`Generator.random` and `Generator.bytes` give the numbers of ``np.random.Generator(np.random.Philox(seed))``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._interop import foreign_arrays
from pycudakit._interop.foreign_arrays import accept_foreign_arrays
from pycudakit._runtime import late_bound
from pycudakit._runtime.native_call import log_empty_call, logged_as_one_call
from pycudakit.random.choice import choose, integer_bounds, permuted, shuffle
from pycudakit.random.compound_distributions import CompoundDistributions
from pycudakit.random.draw_requests import BITS, INTEGERS, UNIFORM
from pycudakit.random.generator_base import NUMPY_GENERATOR, broadcast_shape, shape_of
from pycudakit.random.prefetch import prefetching

__all__ = ["Generator", "default_rng"]


class Generator(CompoundDistributions):
    """Draws random numbers, on any engine the same.

    It holds a key, the place in the sequence of words that Philox4x64-10 makes of it, and, of a word whose
    lower 32 bits have been drawn, the others: so it can be pickled, copied and compared. `default_rng` makes
    one of a seed. Several threads may draw from one.

    `random` and `bytes` give NumPy's numbers. The other methods are the distributions that NumPy's are, by
    other ways: each element has its own words, so that the numbers depend neither on the engine nor on how
    many are drawn at once. On the engine ``numpy`` they are those of NumPy's generator at this place.

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
        """Return floats of [0, 1): NumPy's.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; without it and `out`, one number.
        dtype : {float64, float32}
            Of 53 bits, or of 24.
        out : ndarray, optional
            What to fill, in the order of its memory.

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
        """Return integers from `low` on, below `high`, or below `low` if there is no `high`.

        Each is the upper half of the product of its own 64 bits and the number of integers there are, drawn
        again where that would favour some of them (Lemire's way).

        Parameters
        ----------
        low, high : int or array_like of int
            The ends; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the ends.
        dtype : dtype
            bool or an integer's.
        endpoint : bool
            Whether `high` is one of them.

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
            )  # which does not look at the ends
        least, span = self._ends(low, high, dtype, endpoint)
        own = np.broadcast_shapes(least.shape, span.shape)
        shape = own if size is None else broadcast_shape(own, shape_of(size))
        numpy: Callable[[Any], Any] = lambda g: g.integers(low, high, size, dtype, endpoint)  # noqa: E731
        result = self._run("integers", INTEGERS, shape, kind, numpy, None, least, span)
        if size is not None or shape or isinstance(result, (int, np.integer)):
            return result
        return dtype(result) if dtype is int or dtype is bool else result[()]

    def _ends(self, low: Any, high: Any, dtype: Any, endpoint: bool) -> tuple[Any, Any]:
        return integer_bounds(NUMPY_GENERATOR, low, high, dtype, endpoint)

    def bytes(self, length: int) -> bytes:
        """Return so many random bytes: NumPy's.

        Examples
        --------
        >>> import pycudakit as pk
        >>> pk.random.default_rng(1).bytes(4).hex()
        '3acec06b'
        """
        if not isinstance(length, (int, float, np.integer)):
            raise TypeError("an integer is required")
        length = int(length)
        words = max(1, -(-length // 4))  # as NumPy draws, which draws four bytes for none, too
        numpy: Callable[[Any], Any] = lambda g: np.frombuffer(g.bytes(4 * words), np.uint32)  # noqa: E731
        drawn = self._run("bytes", BITS, (words,), np.dtype(np.uint32), numpy, None)
        return drawn.view(np.uint8)[:length].tobytes()  # type: ignore[no-any-return]

    # ---- Choosing -----------------------------------------------------------------------------------

    @accept_foreign_arrays
    @logged_as_one_call("permutation")
    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return what is along an axis in another order, of which all are as likely.

        The order is that of as many random keys of 64 bits.

        Parameters
        ----------
        x : int or array_like
            What to reorder; an integer stands for ``arange(x)``.
        axis : int
            The axis.

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
    @logged_as_one_call("permuted")
    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """Return the elements along an axis in other orders: one of its own for each vector there.

        The orders are those of as many random keys of 64 bits as there are elements.

        Parameters
        ----------
        x : array_like
            What to reorder.
        axis : int, optional
            The axis; without it, `x` is reordered as if it were flat.
        out : ndarray, optional
            Where to put the result, of the shape of `x`; it may be `x`.

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

    @logged_as_one_call("shuffle")
    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Reorder in place what is along an axis, as `permutation` does.

        Parameters
        ----------
        x : ndarray, array on a GPU or list
            What to reorder.
        axis : int
            The axis, of arrays alone.

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
            late_bound.call_on_device(Generator.shuffle, self, x, axis)
            return
        foreign_arrays.read(
            x, "shuffle, x", by_numpy=True
        )  # which refuses what lies on a GPU that is not used
        if self._is_numpys():
            self._by_numpy("shuffle", lambda g: g.shuffle(x, axis))
        else:
            shuffle(x, axis, self._order)

    @accept_foreign_arrays
    @logged_as_one_call("choice")
    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Choose elements, or slices, of an array.

        Parameters
        ----------
        a : int or array_like
            What to choose from; an integer stands for ``arange(a)``.
        size : int or tuple of int, optional
            How many; without it, one.
        replace : bool
            Whether one may be chosen more than once.
        p : array_like, optional
            The probability of each.
        axis : int
            The axis along which to choose.
        shuffle : bool
            Whether all orders of those chosen without replacement are as likely.

        Examples
        --------
        >>> import pycudakit as pk
        >>> chosen = pk.random.default_rng(1).choice(["a", "b", "c"], 100, p=[0.5, 0.5, 0])
        >>> sorted(set(chosen.tolist()))
        ['a', 'b']
        """
        if self._is_numpys():
            return self._by_numpy("choice", lambda g: g.choice(a, size, replace, p, axis, shuffle))
        return choose(self, a, size, replace, p, axis, shuffle)


for _base in Generator.__mro__[1:-1]:  # whose methods are the generator's to who calls them wrongly
    for _name, _method in vars(_base).items():
        if inspect.isfunction(_method):
            _method.__qualname__ = inspect.unwrap(_method).__qualname__ = f"Generator.{_name}"


def default_rng(seed: Any = None) -> Generator:
    """Return a generator.

    Parameters
    ----------
    seed : None, int, sequence of int, SeedSequence, Philox or Generator
        Of a seed or a `numpy.random.SeedSequence`, the key is that of ``np.random.Philox(seed)``; None takes
        one from the operating system. From NumPy's `Philox`, or a generator that has one, the new one goes on
        where that stands, and leaves it there. A `Generator` of this module is returned.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.random.default_rng(1).random()
    0.0668020093396563
    """
    return seed if isinstance(seed, Generator) else Generator(seed)
