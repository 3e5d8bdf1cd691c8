"""Distributions that are computed from other samples by an expression: Laplace, Weibull, Student's t, ..."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._families.expression.evaluate import evaluate
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._native import engine_status
from pycudakit._native.dtypes import FLOAT64
from pycudakit._runtime import context
from pycudakit._runtime.public_function import public_function
from pycudakit.random.distributions import Distributions
from pycudakit.random.draw_requests import EXPONENTIAL, UNIFORM, DrawKind
from pycudakit.random.generator_base import DrawArguments

if TYPE_CHECKING:
    from typing_extensions import Self

_LN2 = np.array(math.log(2))


def named_engine() -> AbstractContextManager[None]:
    """Set a named engine in the block: under `auto` NumPy may compute, whose last bits differ."""
    engine = context.checked_current_engine()
    if engine == "auto":
        engine = "cpu" if engine_status.status("cpu") else "cuda"
    return context.override(engine=engine)


class TransformedDistributions(Distributions):
    """The generator's methods for distributions that transform other samples."""

    __slots__ = ()

    def _transform(self, kind: DrawKind, expression: str, arguments: DrawArguments, *names: str) -> Any:
        """Draw samples x, and evaluate an expression of x and the named parameters."""
        if self._is_numpys():
            return self._by_numpy(arguments.name, arguments.by_numpy)
        drawn = self._run(
            kind.name, kind, arguments.shape, FLOAT64, lambda g: g.random(arguments.shape), None
        )
        operands = dict(zip(names, arguments.floats(), strict=True))
        if "ln2" in expression:
            operands["ln2"] = _LN2
        return self._computed(expression, arguments, drawn, operands)

    def _computed(self, expression: str, arguments: DrawArguments, x: Any, operands: dict[str, Any]) -> Any:
        """Evaluate an expression of samples x and other operands, in place of x."""
        x = np.asarray(x)
        with named_engine(), np.errstate(all="ignore"):
            evaluate(expression, {"x": x, **operands}, out=x)
        return x.item() if arguments.is_scalar else x

    def _independent_generators(self, arguments: DrawArguments) -> tuple[Self, Self]:
        """Take a word per element; return generators of these words and of an independent substream."""
        first, second = self._stream.take_independent_streams(math.prod(arguments.shape))
        return self._at(first), self._at(second)

    @accept_foreign_arrays
    @public_function(one_call="laplace")
    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from the Laplace or double exponential distribution.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean, and the mean absolute deviation; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).laplace(5, 2, 10000)
        >>> abs(float(np.median(x)) - 5) < 0.1
        True
        """
        arguments = self._draw_arguments("laplace", size, loc, scale)
        expression = "loc + scale * (ln2 - x if x > ln2 else -log(-2 * expm1(-x)))"
        return self._transform(EXPONENTIAL, expression, arguments, "loc", "scale")

    @accept_foreign_arrays
    @public_function(one_call="logistic")
    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from a logistic distribution.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean and the scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).logistic(5, 2, 10000)
        >>> abs(float(x.mean()) - 5) < 0.1
        True
        """
        arguments = self._draw_arguments("logistic", size, loc, scale)
        expression = "loc + scale * log(expm1(x))"
        return self._transform(EXPONENTIAL, expression, arguments, "loc", "scale")

    @accept_foreign_arrays
    @public_function(one_call="gumbel")
    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from a Gumbel distribution, the limit distribution of maxima.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mode and the scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).gumbel(0, 1, 10000)
        >>> abs(float(x.mean()) - 0.577) < 0.05
        True
        """
        arguments = self._draw_arguments("gumbel", size, loc, scale)
        expression = "loc - scale * log(x)"
        return self._transform(EXPONENTIAL, expression, arguments, "loc", "scale")

    @accept_foreign_arrays
    @public_function(one_call="rayleigh")
    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from a Rayleigh distribution: the length of a vector of two normal samples.

        Parameters
        ----------
        scale : float or array_like of float
            The mode.
        size : int or tuple of int, optional
            The shape; by default that of `scale`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).rayleigh(2, 10000)
        >>> abs(float((x**2).mean()) - 8) < 0.5
        True
        """
        arguments = self._draw_arguments("rayleigh", size, scale)
        expression = "scale * sqrt(2 * x)"
        return self._transform(EXPONENTIAL, expression, arguments, "scale")

    @accept_foreign_arrays
    @public_function(one_call="weibull")
    def weibull(self, a: Any, size: Any = None) -> Any:
        """Draw samples from a Weibull distribution of scale 1: powers of exponential samples.

        Parameters
        ----------
        a : float or array_like of float
            The shape parameter; the power is ``1 / a``.
        size : int or tuple of int, optional
            The shape; by default that of `a`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).weibull(2, 10000)
        >>> abs(float((x**2).mean()) - 1) < 0.05
        True
        """
        arguments = self._draw_arguments("weibull", size, a)
        expression = "x ** (1 / a) if a > 0 else 0.0"
        return self._transform(EXPONENTIAL, expression, arguments, "a")

    @accept_foreign_arrays
    @public_function(one_call="pareto")
    def pareto(self, a: Any, size: Any = None) -> Any:
        """Draw samples from a Pareto II (Lomax) distribution, which starts at 0.

        Parameters
        ----------
        a : float or array_like of float
            The shape parameter.
        size : int or tuple of int, optional
            The shape; by default that of `a`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).pareto(3, 10000)
        >>> abs(float(x.mean()) - 0.5) < 0.05
        True
        """
        arguments = self._draw_arguments("pareto", size, a)
        expression = "expm1(x / a)"
        return self._transform(EXPONENTIAL, expression, arguments, "a")

    @accept_foreign_arrays
    @public_function(one_call="power")
    def power(self, a: Any, size: Any = None) -> Any:
        """Draw samples in [0, 1] from a power distribution with positive exponent a - 1.

        Parameters
        ----------
        a : float or array_like of float
            The shape parameter.
        size : int or tuple of int, optional
            The shape; by default that of `a`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).power(3, 10000)
        >>> abs(float(x.mean()) - 0.75) < 0.02
        True
        """
        arguments = self._draw_arguments("power", size, a)
        expression = "(-expm1(-x)) ** (1 / a)"
        return self._transform(EXPONENTIAL, expression, arguments, "a")

    @accept_foreign_arrays
    @public_function(one_call="standard_cauchy")
    def standard_cauchy(self, size: Any = None) -> Any:
        """Draw samples from a standard Cauchy distribution with mode = 0: tangents of uniform angles.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; by default one number.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_cauchy(10000)
        >>> abs(float((abs(x) < 1).mean()) - 0.5) < 0.03
        True
        """
        arguments = self._draw_arguments("standard_cauchy", size)
        expression = "1 / tan(pi * exp(-x)) if x > ln2 else 1 / tan(pi * expm1(-x))"
        return self._transform(EXPONENTIAL, expression, arguments)

    @accept_foreign_arrays
    @public_function(one_call="triangular")
    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """Draw samples from the triangular distribution over [left, right] with the given mode.

        Parameters
        ----------
        left, mode, right : float or array_like of float
            The lower limit, the mode and the upper limit; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).triangular(0, 1, 5, 10000)
        >>> abs(float(x.mean()) - 2) < 0.1
        True
        """
        arguments = self._draw_arguments("triangular", size, left, mode, right)
        expression = (
            "left + sqrt(x * (right - left) * (mode - left)) if x * (right - left) <= mode - left "
            "else right - sqrt((1 - x) * (right - left) * (right - mode))"
        )
        return self._transform(UNIFORM, expression, arguments, "left", "mode", "right")

    # ---- Distributions of two samples each ------------------------------------------------------------

    @accept_foreign_arrays
    @public_function(one_call="standard_t")
    def standard_t(self, df: Any, size: Any = None) -> Any:
        """Draw samples from a standard Student's t distribution, from a normal and a gamma sample each.

        Parameters
        ----------
        df : float or array_like of float
            The degrees of freedom.
        size : int or tuple of int, optional
            The shape; by default that of `df`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_t(10, 10000)
        >>> abs(float(x.var()) - 10 / 8) < 0.1
        True
        """
        arguments = self._draw_arguments("standard_t", size, df)
        if self._is_numpys():
            return self._by_numpy("standard_t", arguments.by_numpy)
        first, second = self._independent_generators(arguments)
        half = arguments.floats()[0] / 2
        y = second.standard_gamma(half, arguments.shape)
        x = first.standard_normal(arguments.shape)
        return self._computed("x * sqrt(half / y)", arguments, x, {"half": half, "y": y})

    @accept_foreign_arrays
    @public_function(one_call="f")
    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """Draw samples from an F distribution: ratios of two gamma samples.

        Parameters
        ----------
        dfnum, dfden : float or array_like of float
            The degrees of freedom of both; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).f(5, 20, 10000)
        >>> abs(float(x.mean()) - 20 / 18) < 0.05
        True
        """
        arguments = self._draw_arguments("f", size, dfnum, dfden)
        if self._is_numpys():
            return self._by_numpy("f", arguments.by_numpy)
        first, second = self._independent_generators(arguments)
        a, b = arguments.floats()
        y = second.standard_gamma(b / 2, arguments.shape)
        x = first.standard_gamma(a / 2, arguments.shape)
        return self._computed("(x * b) / (y * a)", arguments, x, {"a": a, "b": b, "y": y})

    @accept_foreign_arrays
    @public_function(one_call="wald")
    def wald(self, mean: Any, scale: Any, size: Any = None) -> Any:
        """Draw samples from a Wald, or inverse Gaussian, distribution (Michael, Schucany and Haas 1976).

        Parameters
        ----------
        mean, scale : float or array_like of float
            The mean and the scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).wald(3, 2, 10000)
        >>> abs(float(x.mean()) - 3) < 0.2
        True
        """
        arguments = self._draw_arguments("wald", size, mean, scale)
        if self._is_numpys():
            return self._by_numpy("wald", arguments.by_numpy)
        first, second = self._independent_generators(arguments)
        mean, scale = arguments.floats()
        u = second.uniform(size=arguments.shape)
        x = first.standard_normal(arguments.shape)
        # The smaller root divided by the mean, without cancellation; the larger root is its inverse.
        x = self._computed("mean * x * x", arguments, x, {"mean": mean})
        root = "(4 * scale * x / (x + sqrt(x * (x + 4 * scale))) ** 2 if x > 0 else 1.0)"
        x = self._computed(root, arguments, x, {"scale": scale})
        return self._computed(
            "mean * x if u * (1 + x) <= 1 else mean / x", arguments, x, {"mean": mean, "u": u}
        )

    @accept_foreign_arrays
    @public_function(one_call="negative_binomial")
    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw samples from a negative binomial distribution: Poisson samples with gamma samples as means.

        Parameters
        ----------
        n : float or array_like of float
            The number of successes.
        p : float or array_like of float
            The probability of success in one trial; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).negative_binomial(5, 0.5, 10000)
        >>> abs(float(x.mean()) - 5) < 0.2
        True
        """
        arguments = self._draw_arguments("negative_binomial", size, n, p)
        if self._is_numpys():
            return self._by_numpy("negative_binomial", arguments.by_numpy)
        first, second = self._independent_generators(arguments)
        successes, likelihood = arguments.floats()
        means = first.gamma(successes, (1 - likelihood) / likelihood, arguments.shape)
        drawn = second.poisson(means, arguments.shape)
        return drawn.item() if arguments.is_scalar else drawn
