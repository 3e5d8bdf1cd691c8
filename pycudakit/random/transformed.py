"""Distributions whose numbers are expressions of exponential or uniform ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudakit._calls import asked
from pycudakit._calls.invocation import one_call
from pycudakit._calls.others import open_to_others
from pycudakit._families.expression.evaluate import evaluate
from pycudakit._library import present
from pycudakit._library.types import FLOAT64
from pycudakit.random.base import Given
from pycudakit.random.distributions import Distributions
from pycudakit.random.draws import EXPONENTIAL, UNIFORM, Kind

_LN2 = np.array(math.log(2))


class Transformed(Distributions):
    """A generator's methods for distributions that are expressions of others."""

    __slots__ = ()

    def _transform(self, kind: Kind, expression: str, given: Given, *names: str) -> Any:
        """Draw numbers x, and compute an expression of them and of parameters of these names."""
        engine = asked.checked_current()
        if engine == "numpy":
            return self._by_numpy(given.name, given.by_numpy)
        drawn = self._run(kind.name, kind, given.shape, FLOAT64, lambda g: g.random(given.shape), None)
        drawn = np.asarray(drawn)
        operands = dict(zip(names, given.floats(), strict=True)) | {"x": drawn}
        if "ln2" in expression:
            operands["ln2"] = _LN2
        if engine == "auto":  # which would compute few numbers with NumPy, whose last bits are others
            engine = "cpu" if present.status("cpu") else "cuda"
        with asked.asking(engine=engine), np.errstate(all="ignore"):
            evaluate(expression, operands, out=drawn)
        return drawn.item() if given.is_scalar else drawn

    @open_to_others
    @one_call("laplace")
    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return floats whose distances from `loc` are exponentially distributed, on either side.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean, and the mean distance from it; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).laplace(5, 2, 10000)
        >>> abs(float(np.median(x)) - 5) < 0.1
        True
        """
        given = Given("laplace", size, loc, scale)
        expression = "loc + scale * (ln2 - x if x > ln2 else -log(-2 * expm1(-x)))"
        return self._transform(EXPONENTIAL, expression, given, "loc", "scale")

    @open_to_others
    @one_call("logistic")
    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return floats of a logistic distribution.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean, and the scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).logistic(5, 2, 10000)
        >>> abs(float(x.mean()) - 5) < 0.1
        True
        """
        given = Given("logistic", size, loc, scale)
        expression = "loc + scale * log(expm1(x))"
        return self._transform(EXPONENTIAL, expression, given, "loc", "scale")

    @open_to_others
    @one_call("gumbel")
    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return floats of a Gumbel distribution: that of the largest of many.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mode, and the scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).gumbel(0, 1, 10000)
        >>> abs(float(x.mean()) - 0.577) < 0.05
        True
        """
        given = Given("gumbel", size, loc, scale)
        expression = "loc - scale * log(x)"
        return self._transform(EXPONENTIAL, expression, given, "loc", "scale")

    @open_to_others
    @one_call("rayleigh")
    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Return floats of a Rayleigh distribution: lengths of vectors of two normal numbers.

        Parameters
        ----------
        scale : float or array_like of float
            The mode.
        size : int or tuple of int, optional
            The shape; without it, that of `scale`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).rayleigh(2, 10000)
        >>> abs(float((x**2).mean()) - 8) < 0.5
        True
        """
        given = Given("rayleigh", size, scale)
        expression = "scale * sqrt(2 * x)"
        return self._transform(EXPONENTIAL, expression, given, "scale")

    @open_to_others
    @one_call("weibull")
    def weibull(self, a: Any, size: Any = None) -> Any:
        """Return floats of a Weibull distribution of scale 1: powers of exponential numbers.

        Parameters
        ----------
        a : float or array_like of float
            The shape: the power is ``1 / a``.
        size : int or tuple of int, optional
            The shape; without it, that of `a`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).weibull(2, 10000)
        >>> abs(float((x**2).mean()) - 1) < 0.05
        True
        """
        given = Given("weibull", size, a)
        expression = "x ** (1 / a) if a > 0 else 0.0"
        return self._transform(EXPONENTIAL, expression, given, "a")

    @open_to_others
    @one_call("pareto")
    def pareto(self, a: Any, size: Any = None) -> Any:
        """Return floats of a Lomax distribution, which is Pareto's, from 0 on.

        Parameters
        ----------
        a : float or array_like of float
            The shape.
        size : int or tuple of int, optional
            The shape; without it, that of `a`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).pareto(3, 10000)
        >>> abs(float(x.mean()) - 0.5) < 0.05
        True
        """
        given = Given("pareto", size, a)
        expression = "expm1(x / a)"
        return self._transform(EXPONENTIAL, expression, given, "a")

    @open_to_others
    @one_call("power")
    def power(self, a: Any, size: Any = None) -> Any:
        """Return floats of [0, 1] whose density is a power: powers of uniform numbers.

        Parameters
        ----------
        a : float or array_like of float
            The shape: the power of the density, and 1.
        size : int or tuple of int, optional
            The shape; without it, that of `a`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).power(3, 10000)
        >>> abs(float(x.mean()) - 0.75) < 0.02
        True
        """
        given = Given("power", size, a)
        expression = "(-expm1(-x)) ** (1 / a)"
        return self._transform(EXPONENTIAL, expression, given, "a")

    @open_to_others
    @one_call("standard_cauchy")
    def standard_cauchy(self, size: Any = None) -> Any:
        """Return floats of a Cauchy distribution: tangents of uniform angles.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; without it, one number.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_cauchy(10000)
        >>> abs(float((abs(x) < 1).mean()) - 0.5) < 0.03
        True
        """
        given = Given("standard_cauchy", size)
        expression = "1 / tan(pi * exp(-x)) if x > ln2 else 1 / tan(pi * expm1(-x))"
        return self._transform(EXPONENTIAL, expression, given)

    @open_to_others
    @one_call("triangular")
    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """Return floats whose density rises from `left` to `mode`, and falls to `right`.

        Parameters
        ----------
        left, mode, right : float or array_like of float
            The corners; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).triangular(0, 1, 5, 10000)
        >>> abs(float(x.mean()) - 2) < 0.1
        True
        """
        given = Given("triangular", size, left, mode, right)
        expression = (
            "left + sqrt(x * (right - left) * (mode - left)) if x * (right - left) <= mode - left "
            "else right - sqrt((1 - x) * (right - left) * (right - mode))"
        )
        return self._transform(UNIFORM, expression, given, "left", "mode", "right")
