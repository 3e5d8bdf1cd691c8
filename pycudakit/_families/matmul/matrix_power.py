"""Powers of square matrices by repeated squaring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def power_by_squaring(matrix: Any, n: int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Compute the `n`-th power of a matrix, `n` >= 1, by repeated squaring."""
    result, square = None, matrix
    while True:
        if n & 1:
            result = square if result is None else multiply(result, square)
        n >>= 1
        if not n:
            return result
        square = multiply(square, square)
