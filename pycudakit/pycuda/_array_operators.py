"""The operators of GPUArrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit.pycuda import _array_math

_SCALARS = (int, float, complex, np.number, np.bool_)


def common_dtype(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype of an operation on arrays and numbers, by NumPy's rules."""
    first, second = getattr(a, "dtype", a), getattr(b, "dtype", b)
    return first if first is second else np.result_type(first, second)  # which takes longer


class Operators:
    """Arithmetic and comparisons, for the class of arrays below it."""

    dtype: Any
    shape: tuple[int, ...]
    allocator: Any
    new_like: Callable[..., Any]
    _real_dtype: Any
    __hash__: Any

    def _result(self, other: Any, dtype: Any) -> Any:
        if not isinstance(other, Operators) or other.shape in (self.shape, ()):
            return self.new_like(dtype)
        shape = np.broadcast_shapes(self.shape, other.shape)
        make: Any = type(self)
        return make(shape, dtype, self.allocator)

    def _binary(
        self, name: str, other: Any, out: Any = None, *, swap: bool = False, stream: Any = None
    ) -> Any:
        if not isinstance(other, _OPERANDS):
            if not _is_number(other):
                return NotImplemented
            other = other[()]
        if out is None:
            out = self._result(other, common_dtype(self, other))
        first, second = (other, self) if swap else (self, other)
        if name == "true_divide" and out.dtype.kind in "iub":
            return _array_math.divide_truncated(out, first, second, stream)
        return _array_math.compute(name, out, first, second, stream=stream)

    def _compare(self, name: str, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            if not _is_number(other):
                return NotImplemented
            other = other[()]
        dtype = common_dtype(self, other) if isinstance(other, Operators) else self.dtype
        return _array_math.compute(name, self._result(other, dtype), self, other)

    def __add__(self, other: Any) -> Any:
        """Return the sums."""
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        """Return the differences."""
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Any:
        """Return the differences from a number."""
        return self._binary("subtract", other, swap=True)

    def __mul__(self, other: Any) -> Any:
        """Return the products."""
        return self._binary("multiply", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        """Return the quotients; those of integers are rounded towards zero, as in C."""
        return self._binary("true_divide", other)

    __div__ = __truediv__

    def __rtruediv__(self, other: Any) -> Any:
        """Return the quotients of a number."""
        return self._binary("true_divide", other, swap=True)

    __rdiv__ = __rtruediv__

    def __pow__(self, other: Any) -> Any:
        """Return the powers."""
        return self._binary("power", other)

    def __rpow__(self, other: Any) -> Any:
        """Return the powers of a number."""
        return self._binary("power", other, swap=True)

    def __iadd__(self, other: Any) -> Any:
        """Add in place."""
        return self._binary("add", other, self)

    def __isub__(self, other: Any) -> Any:
        """Subtract in place."""
        return self._binary("subtract", other, self)

    def __imul__(self, other: Any) -> Any:
        """Multiply in place."""
        return self._binary("multiply", other, self)

    def __itruediv__(self, other: Any) -> Any:
        """Divide in place."""
        return self._binary("true_divide", other, self)

    __idiv__ = __itruediv__

    def __ipow__(self, other: Any) -> Any:
        """Raise to powers in place."""
        return self._binary("power", other, self)

    def __neg__(self) -> Any:
        """Return the negatives."""
        return self._unary("negative")

    def __pos__(self) -> Any:
        """Return the array itself."""
        return self

    def __abs__(self) -> Any:
        """Return the absolute values."""
        return self._unary("absolute", self._real_dtype)

    def _unary(self, name: str, dtype: Any = None) -> Any:
        return _array_math.compute(name, self.new_like(dtype), self)

    def mul_add(
        self,
        selffac: Any,
        other: Any,
        otherfac: Any,
        add_timer: Callable[..., Any] | None = None,  # noqa: ARG002
        stream: Any = None,
        out: Any = None,
    ) -> Any:
        """Return ``selffac * self + otherfac * other``."""
        dtype = common_dtype(self, other)
        if out is None:
            out = self._result(other, dtype)
        scaled = _array_math.compute("multiply", other.new_like(dtype), other, otherfac, stream=stream)
        own = _array_math.compute("multiply", self.new_like(dtype), self, selffac, stream=stream)
        return _array_math.compute("add", out, own, scaled, stream=stream)

    # ---- PyCUDA's names that other libraries call ------------------------------------------------------

    def _axpbyz(
        self,
        selffac: Any,
        other: Any,
        otherfac: Any,
        out: Any,
        add_timer: Callable[..., Any] | None = None,
        stream: Any = None,
    ) -> Any:
        """Write ``selffac * self + otherfac * other`` to an array."""
        return self.mul_add(selffac, other, otherfac, add_timer, stream, out)

    def _axpbz(self, selffac: Any, other: Any, out: Any, stream: Any = None) -> Any:
        """Write ``selffac * self + other`` to an array; `other` is a number."""
        product = _array_math.compute("multiply", self.new_like(out.dtype), self, selffac, stream=stream)
        return _array_math.compute("add", out, product, other, stream=stream)

    def _elwise_multiply(self, other: Any, out: Any, stream: Any = None) -> Any:
        """Write the products to an array."""
        return _array_math.compute("multiply", out, self, other, stream=stream)

    def _div(self, other: Any, out: Any, stream: Any = None) -> Any:
        """Write the quotients to an array."""
        return self._binary("true_divide", other, out, stream=stream)

    def _rdiv_scalar(self, other: Any, out: Any, stream: Any = None) -> Any:
        """Write the quotients of a number to an array."""
        return self._binary("true_divide", other, out, swap=True, stream=stream)

    # ---- Comparisons -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        """Return ones where the elements are equal, of the array's dtype."""
        return self._compare("equal", other)

    def __ne__(self, other: object) -> Any:
        """Return ones where the elements differ, of the array's dtype."""
        return self._compare("not_equal", other)

    def __lt__(self, other: Any) -> Any:
        """Return ones where the elements are less, of the array's dtype."""
        return self._compare("less", other)

    def __le__(self, other: Any) -> Any:
        """Return ones where the elements are not greater, of the array's dtype."""
        return self._compare("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        """Return ones where the elements are greater, of the array's dtype."""
        return self._compare("greater", other)

    def __ge__(self, other: Any) -> Any:
        """Return ones where the elements are not less, of the array's dtype."""
        return self._compare("greater_equal", other)


_OPERANDS = (Operators, *_SCALARS)


def _is_number(operand: Any) -> bool:
    """Return whether an operand is an array of the host without axes, as `get` of a sum returns."""
    return isinstance(operand, np.ndarray) and operand.ndim == 0 and operand.dtype.kind in "biufc"
