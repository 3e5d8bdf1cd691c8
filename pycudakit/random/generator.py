"""Random numbers with NumPy's names: the same bits on every engine, each element's from its own place.

`Generator.random` and `Generator.bytes` give the numbers of ``np.random.Generator(np.random.Philox(seed))``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._calls import others
from pycudakit._calls.invocation import one_call
from pycudakit._calls.others import open_to_others
from pycudakit._library.types import FLOAT64, INT64
from pycudakit.random.base import NUMPYS, Base, Given, shape_of
from pycudakit.random.choice import choose, ends, shuffle
from pycudakit.random.draws import BINOMIAL, BITS, EXPONENTIAL, INTEGERS, NORMAL, POISSON, UNIFORM

__all__ = ["Generator", "default_rng"]


class Generator(Base):
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

    @open_to_others
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
        return self._floats("random", UNIFORM, size, dtype, out)

    @open_to_others
    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return normally distributed floats of mean 0 and standard deviation 1.

        Each is the quantile of its own 64 bits, or 32 for float32, the highest of which is the sign.

        Parameters
        ----------
        size, dtype, out
            As for `random`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_normal(10000, dtype="float32")
        >>> abs(float(x.mean())) < 0.05 and abs(float(x.std()) - 1) < 0.05
        True
        """
        return self._floats("standard_normal", NORMAL, size, dtype, out)

    @open_to_others
    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Return floats from `low` on, below `high`: ``low + (high - low) * random()``.

        Parameters
        ----------
        low, high : float or array_like of float
            The ends; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the ends.

        Examples
        --------
        >>> import pycudakit as pk
        >>> pk.random.default_rng(1).uniform(10, 20, 3)
        array([10.66802009, 10.79012982, 10.05777118])
        """
        given = Given("uniform", size, low, high)
        low, high = given.floats()
        return self._draw(given, UNIFORM, FLOAT64, low, high - low)

    @open_to_others
    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return normally distributed floats: ``loc + scale * standard_normal()``.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean and the standard deviation; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).normal([0, 100], 1, (1000, 2))
        >>> abs(x.mean(axis=0) - [0, 100]) < 0.2
        array([ True,  True])
        """
        given = Given("normal", size, loc, scale)
        return self._draw(given, NORMAL, FLOAT64, *given.floats())

    @open_to_others
    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Return exponentially distributed floats: the logarithm of a uniform number, times ``-scale``.

        Parameters
        ----------
        scale : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; without it, that of `scale`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).exponential(3, 10000)
        >>> abs(float(x.mean()) - 3) < 0.1
        True
        """
        given = Given("exponential", size, scale)
        return self._draw(given, EXPONENTIAL, FLOAT64, *given.floats())

    @open_to_others
    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Return integers of a Poisson distribution.

        By inversion where the mean is below 10, and else by transformed rejection (PTRS).

        Parameters
        ----------
        lam : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; without it, that of `lam`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).poisson(20, 10000)
        >>> abs(float(x.mean()) - 20) < 0.2
        True
        """
        given = Given("poisson", size, lam)
        return self._draw(given, POISSON, INT64, *given.floats())

    @open_to_others
    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Return how many of `n` trials succeed, each with probability `p`.

        By inversion where the mean of successes, or of failures if they are fewer, is below 10, and else by
        transformed rejection (BTRS).

        Parameters
        ----------
        n : int or array_like of int
            Trials.
        p : float or array_like of float
            The probability that one succeeds.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).binomial(100, 0.3, 10000)
        >>> abs(float(x.mean()) - 30) < 0.2
        True
        """
        given = Given("binomial", size, n, p)
        trials = np.asarray(n).astype(INT64)
        return self._draw(given, BINOMIAL, INT64, trials, np.asarray(p, FLOAT64))

    @open_to_others
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
        least, span = ends(NUMPYS, low, high, dtype, endpoint)
        shape = np.broadcast_shapes(least.shape, span.shape) if size is None else shape_of(size)
        numpy: Callable[[Any], Any] = lambda g: g.integers(low, high, size, dtype, endpoint)  # noqa: E731
        result = self._run("integers", INTEGERS, shape, kind, numpy, None, least, span)
        if size is not None or shape or isinstance(result, (int, np.integer)):
            return result
        return dtype(result) if dtype is int or dtype is bool else result[()]

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

    @open_to_others
    @one_call("permutation")
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

    @one_call("shuffle")
    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Reorder in place what is along an axis, as `permutation` does.

        Parameters
        ----------
        x : ndarray or list
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
        others.read(x, "shuffle, x", by_numpy=True)  # which refuses what lies on a GPU
        if self._is_numpys():
            self._by_numpy("shuffle", lambda g: g.shuffle(x, axis))
        else:
            shuffle(x, axis, self._order)

    @open_to_others
    @one_call("choice")
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
