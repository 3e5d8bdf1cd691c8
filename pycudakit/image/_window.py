"""Shared parts of the image filters: windows, borders, and the call of `pk_filter`."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import FLOAT32, Array, DType
from pycudakit._runtime import native_call
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.cost_model import CALL, threads
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit._runtime.native_call import run
from pycudakit._runtime.operands import as_array, fill_operand_row
from pycudakit.image._arguments import TYPES
from pycudakit.image._axes import has_channels, split

MAX_SIZE = 63
_MODES = {
    "reflect": abi.BORDER_REFLECT,
    "grid-mirror": abi.BORDER_REFLECT,
    "nearest": abi.BORDER_NEAREST,
    "mirror": abi.BORDER_MIRROR,
    "wrap": abi.BORDER_WRAP,
    "grid-wrap": abi.BORDER_WRAP,
    "constant": abi.BORDER_CONSTANT,
    "grid-constant": abi.BORDER_CONSTANT,
}

# Nanoseconds per element on one thread: of any filter, per byte; per weight; and, per byte, for each row and
# column of a minimum's window, and for each element and bit of a median's.
_ANY, _WEIGHT, _EXTREME, _BIT = 0.15, 0.035, 0.008, 0.0096
_WORTH_A_THREAD = 1 << 18


class Border(NamedTuple):
    """The extension of an image beyond its border."""

    mode: str = "reflect"
    cval: float = 0.0
    shrink: bool = False

    def code(self, dtype: DType) -> int:
        """Return the ABI's code; raise if the mode or `cval` is not supported for the type."""
        if self.shrink:
            return abi.BORDER_SHRINK
        if self.mode not in _MODES:
            raise RuntimeError(
                f"boundary mode not supported: {self.mode!r}; it must be one of {', '.join(_MODES)}"
            )
        if (
            dtype.kind == "u"
            and _MODES[self.mode] == abi.BORDER_CONSTANT
            and self.cval != self._converted(dtype)
        ):
            raise ValueError(f"cval is {self.cval}, which {dtype} cannot hold; convert the image to float32")
        return _MODES[self.mode]

    def _converted(self, dtype: DType) -> int | None:
        limit = np.iinfo(dtype).max
        return round(self.cval) if 0 <= self.cval <= limit else None

    def outside(self) -> float:
        """Return the value beyond the border, or 0 if it is not constant."""
        return float(self.cval) if not self.shrink and _MODES[self.mode] == abi.BORDER_CONSTANT else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """A window: the kind of filter, its rows and columns, how many precede the centre, and its weights."""

    kind: int
    size: tuple[int, int]
    before: tuple[int, int]
    weights: tuple[float, ...] = ()


def centred(kind: int, size: tuple[int, int], weights: Sequence[float] = ()) -> Window:
    """Return a window with the centre where SciPy has it."""
    return Window(kind, size, (size[0] // 2, size[1] // 2), tuple(weights))


def checked_size(name: str, size: Any) -> tuple[int, int]:
    """Return a window's rows and columns, from one number or a pair; raise if they are out of range."""
    pair = (size, size) if np.ndim(size) == 0 else tuple(size)
    if len(pair) != 2:
        raise RuntimeError(f"{name}: size is a number, or one for rows and one for columns, not {size!r}")
    rows, columns = (operator.index(n) for n in pair)
    for n in (rows, columns):
        if not 1 <= n <= MAX_SIZE:
            raise ValueError(f"{name}: a window has from 1 to {MAX_SIZE} rows and columns, not {n}")
    return rows, columns


def in_plane(array: Array, channel_axis: Any, rows: Any, columns: Any, other: Any) -> tuple[Any, ...]:
    """Return a value for each axis of an array: those of rows and columns, and `other` for the rest."""
    behind = (other,) if has_channels(array, channel_axis) else ()
    return (other,) * (array.ndim - 2 - len(behind)) + (rows, columns) + behind


def _seconds(window: Window, array: Array) -> float:
    rows, columns = window.size
    item = array.itemsize
    if window.kind == abi.FILTER_MEDIAN:
        each = 0.0 if window.size == (3, 3) else _BIT * rows * columns * 8 * item * item
    elif window.kind in (abi.FILTER_MINIMUM, abi.FILTER_MAXIMUM):
        each = _EXTREME * (rows + columns) * item
    else:
        each = _WEIGHT * (rows * columns if window.kind == abi.FILTER_CORRELATE else rows + columns)
    workers = threads() if array.size * rows * columns > _WORTH_A_THREAD else 1
    return CALL + (_ANY * item + each) * 1e-9 * array.size / workers


def filtered(
    name: str,
    image: Any,
    window: Callable[[], Window],
    border: Border,
    channel_axis: Any,
    by_scipy: Callable[[Any, Array], Any] | None,
    dtype: Any = None,
) -> Any:
    """Filter images, on an engine or with SciPy.

    Parameters
    ----------
    name
        The function's name.
    image
        Its argument.
    window
        Makes the window, or raises.
    border, channel_axis, dtype
        The function's keywords.
    by_scipy
        Computes the result from `scipy.ndimage` and the array; None if SciPy has no such function.
    """
    array = as_array(image)
    is_supported = array is not None and array.dtype.newbyteorder("=") in TYPES
    unsupported = None if is_supported else "it takes uint8, uint16 and float32"
    cost = Cost(None, 0, 0, 0)
    filter_window = None
    if array is not None and is_supported:
        split(array, channel_axis)
        result = _result_type(name, array.dtype.newbyteorder("="), dtype)
        cost = Cost(None, CALL, 0, 0)
        if array.size:
            filter_window = window()
            cost = Cost(None, _seconds(filter_window, array), array.nbytes, array.size * result.itemsize)
    choice = choose_engine(name, [array], cost, unsupported)
    if choice.engine == "numpy" or array is None:
        return _by_scipy(name, choice.reason, image, dtype, by_scipy)
    filter_window = filter_window or window()
    code = border.code(array.dtype)
    out = allocator.empty(array.shape, result)
    if array.size == 0:
        native_call.log_empty_call(name)
        return out
    dense = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    shape = np.array(split(array, channel_axis), np.int64)
    operands = np.zeros(2, abi.OPERAND)
    for row, one in zip(operands, (dense, out), strict=True):
        strides = [one.itemsize * math.prod(shape[d + 1 :].tolist()) for d in range(4)]
        fill_operand_row(row, one, strides)
    row_of_window = np.zeros(1, abi.WINDOW)
    row_of_window[0] = (
        filter_window.kind,
        code,
        *filter_window.size,
        *filter_window.before,
        border.outside(),
    )
    weights = np.array(filter_window.weights, np.float64)
    run(choice, "pk_filter", row_of_window, weights, weights.size, operands, shape, size=array.size)
    return out


def _result_type(name: str, image_dtype: DType, dtype: Any) -> DType:
    result = image_dtype if dtype is None else np.dtype(dtype)
    if result not in (image_dtype, FLOAT32):
        raise ValueError(f"{name}: dtype must be the image's, {image_dtype}, or float32, not {result}")
    return result


def _by_scipy(name: str, reason: Reason, image: Any, dtype: Any, compute: Any) -> Any:
    """Compute with SciPy, in the requested type."""
    if compute is None:
        raise errors.Unsupported(f"{name}: neither NumPy nor SciPy has such a function; {reason}")
    try:
        ndimage: Any = importlib.import_module("scipy.ndimage")
    except ImportError:
        raise errors.Unsupported(
            f"{name}: NumPy has no such function, and SciPy is not installed; {reason}"
        ) from None
    array = np.asarray(image)
    if dtype is not None:
        array = array.astype(dtype)
    return native_call.run_numpy(name, reason, lambda: compute(ndimage, array))


def pair(value: Any) -> tuple[Any, Any]:
    """Return one value for rows and one for columns."""
    if np.ndim(value) == 0:
        return value, value
    rows, columns = value
    return rows, columns
