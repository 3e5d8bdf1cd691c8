"""Powers of square matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def power_by_squaring(matrix: Any, n: int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return the product of a matrix `n` times, at least once: itself, or a product of its squares."""
    result, square = None, matrix
    while True:
        if n & 1:
            result = square if result is None else multiply(result, square)
        n >>= 1
        if not n:
            return result
        square = multiply(square, square)
