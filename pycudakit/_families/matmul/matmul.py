"""NumPy's `matmul`, and `product`, the matrix product that other functions are built on.

On the CPU, floats are multiplied by NumPy's BLAS and other types by the library's loops; on a GPU by cuBLAS
or, without it, by a tiled kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufunc_methods import as_ufunc
from pycudakit._native import abi, allocator, loader
from pycudakit._native.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, Array, DType
from pycudakit._runtime import context, cost_model, fp_errors, native_call, operands
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.engine_choice import NO_COST, Cost, EngineChoice, choose_engine
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import as_order, as_out, broadcast_shapes, needs_copy

NONE: Any = np._NoValue  # noqa: SLF001
PRECISIONS = ("highest", "exact", "tf32", "bf16")

# Multiplications per second: of a BLAS, per thread; of the CPU engine's and NumPy's loops; and of a GPU, with
# cuBLAS or without.
_BLAS = {FLOAT32: 40e9, FLOAT64: 20e9}
_LOOPS, _NUMPY_LOOPS = 4e9, 0.7e9
_GPU = {FLOAT32: 10e12, FLOAT64: 5e12, FLOAT16: 20e12}
_GPU_LOOPS = 1e12
# Seconds: a longer product is split by rows for NumPy's BLAS, so that a signal is handled between the parts.
_PATIENCE = 0.05

_METHODS = {
    abi.MATMUL_BY_LOOPS: "the CPU library's loops",
    abi.MATMUL_BY_KERNEL: "the built-in kernel",
    abi.MATMUL_BY_CUBLAS: "cuBLAS",
    abi.MATMUL_BY_CUBLAS_SPLIT: "cuBLAS, each float32 as two of TF32",
}


@as_ufunc
@public_function(numpy=np.matmul)
def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axes: Any = NONE,
    axis: Any = NONE,
    keepdims: Any = NONE,
    casting: Any = "same_kind",
    order: Any = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
    precision: str = "highest",
) -> Any:
    """Compute the matrix product of two arrays: of matrices, of stacks of them, or of vectors.

    Floats meet a bound on their error, which docs/matmul.md states; integers wrap around, and their bits are
    the same on every engine. On the engine ``"cpu"``, products of float32 and float64 are computed by NumPy's
    BLAS.

    Parameters
    ----------
    x1, x2 : array_like
        Stacks of matrices, by their last two axes, that broadcast together; or vectors.
    out : ndarray, optional
        Where to put the result.
    axes, axis, keepdims, casting, order, dtype, subok, signature, sig
        As for `numpy.matmul`. Calls with a signature are computed by NumPy.
    precision : {"highest", "exact", "tf32", "bf16"}, optional
        The arithmetic for float32: ``"highest"``, with the error of float32 at most; ``"exact"``, in float64;
        ``"tf32"`` or ``"bf16"``, for speed, with factors rounded to TF32 or bfloat16 if the GPU supports it.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.matmul : NumPy's function.
    dot, einsum, tensordot, linalg.matrix_power

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.matmul([[1, 2], [3, 4]], [[1, 0], [1, 1]])
    array([[3, 2],
           [7, 4]])
    """
    if (
        out is None
        and axes is axis is keepdims is NONE
        and dtype is signature is sig is None
        and order == "K"
        and casting == "same_kind"
        and subok
        and precision == "highest"
        and _is_small(x1, x2)
    ):
        result = np.matmul(x1, x2)
        _log_small_call()
        return result
    passed = {"axes": axes, "axis": axis, "keepdims": keepdims, "casting": casting, "order": order}
    passed |= {"dtype": dtype, "subok": subok, "signature": signature, "sig": sig}
    passed = {name: value for name, value in passed.items() if value is not _DEFAULTS[name]}
    out = as_out(out)
    if out is ...:
        return np.asarray(matmul(x1, x2, precision=precision, **passed))
    numpy = functools.partial(np.matmul, x1, x2, out, **passed)
    if "axis" in passed or "keepdims" in passed:
        return numpy()  # raises
    unsupported = next((f"the argument {name}" for name in ("signature", "sig") if name in passed), None)
    keywords = {"dtype": dtype, "casting": casting}
    order = as_order(order)
    if axes is NONE or unsupported is not None:
        result = product(
            "matmul", numpy, x1, x2, out, precision=precision, unsupported=unsupported, **keywords
        )
    else:
        result = _along_axes(axes, numpy, x1, x2, out, precision, keywords)
    return laid_out(result, order) if out is None else result


def laid_out(result: Any, order: str) -> Any:
    """Convert a result to C or Fortran order if `order` requires it."""
    return np.asarray(result, order=order) if order in ("C", "F") and np.ndim(result) else result  # type: ignore[call-overload]


_DEFAULTS = {"axes": NONE, "axis": NONE, "keepdims": NONE, "casting": "same_kind", "order": "K"}
_DEFAULTS |= {"dtype": None, "subok": True, "signature": None, "sig": None}


def _along_axes(
    axes: Any,
    numpy: Callable[[], Any],
    x1: Any,
    x2: Any,
    out: Any,
    precision: str,
    keywords: dict[str, Any],
) -> Any:
    """Compute the product of matrices whose rows and columns are along passed axes."""
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    arrays = [operands.as_array(x1), operands.as_array(x2), None if out is None else operands.as_array(out)]
    if arrays[0] is None or arrays[1] is None or (out is not None and arrays[2] is None):
        return native_call.numpy_fallback("matmul", numpy)
    if not (isinstance(axes, list) and len(axes) == 3 and all(np.shape(pair) == (2,) for pair in axes)):
        return native_call.numpy_fallback("matmul", numpy, "axes of vectors")  # NumPy computes or raises
    try:
        moved = [
            a if a is None else np.moveaxis(a, pair, (-2, -1)) for a, pair in zip(arrays, axes, strict=True)
        ]
    except (TypeError, ValueError):
        return numpy()  # raises
    by_numpy = functools.partial(np.matmul, *moved, **keywords)
    result = product("matmul", by_numpy, *moved, precision=precision, **keywords)
    return np.moveaxis(result, (-2, -1), axes[2]) if out is None else out


_log_small_call = native_call.call_logger(Call("matmul", "numpy", cost_model.REASON_NUMPY_FASTER_FOR_SIZE))


def _is_small(x1: Any, x2: Any) -> bool:
    """Return True if `auto` is in force and NumPy is fastest for these operands, by a quick rule."""
    if context.fast_path_engine() != "auto":
        return False
    if type(x1) is not np.ndarray or type(x2) is not np.ndarray or x1.dtype != x2.dtype:
        return False
    return x1.dtype in (FLOAT32, FLOAT64) and 0 < x1.ndim < 3 > x2.ndim > 0 and max(x1.size, x2.size) < 10_000


def product(
    name: str,
    numpy: Callable[[], Any],
    x1: Any,
    x2: Any,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
    precision: str = "highest",
    unsupported: str | None = None,
    warns: str | None = "matmul",
) -> Any:
    """Compute `matmul` of two arguments, in the name of a function that `numpy` computes.

    Floating-point warnings name the operation `warns`; if it is None, there are none.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    a, b = operands.as_array(x1), operands.as_array(x2)
    if out is not None and operands.as_array(out) is None:
        unsupported = unsupported or "this type of out"
    shape = types = None
    if a is not None and b is not None and unsupported is None:
        a = _broadcast_stack(out, a, b)
        shape, types = _shape_of(a, b), _types_of(a, b, out, dtype, casting)
        if types is not None and not all(operands.code_for(t) >= 0 for t in types):
            unsupported = f"a product in {types[0]}"
    if unsupported is None and a is not None and b is not None:
        fits = out is None or (type(out) is np.ndarray and out.shape == shape and out.flags.writeable)
        if shape is None or types is None or not fits:
            choose_engine(name, [a, b], NO_COST)
            return numpy()  # raises
        sizes = _sizes(a, b, shape)
        choice = choose_engine(name, [a, b], _cost_of(sizes, a, b, types))
    else:
        choice = choose_engine(name, [a, b], NO_COST, unsupported)
    if choice.engine == "numpy" or a is None or b is None or shape is None or types is None:
        return native_call.run_numpy(name, choice.reason, numpy)

    common, result_type = types
    target = out
    if (
        out is None
        or out.dtype != common
        or not (out.flags.c_contiguous and out.flags.aligned)
        or needs_copy(out, [a, b])
    ):
        target = allocator.empty(shape, common)
    x, y = a.astype(common, copy=False), b.astype(common, copy=False)
    if choice.engine == "cpu" and common in _BLAS:
        target = _by_blas(choice, x, y, target, precision, warns)
    else:
        fp_flags = _by_library(choice, x, y, target, sizes, precision)
        if fp_flags and warns is not None:
            _warn(warns, x, y, target)
    if out is None:
        return target.astype(result_type, copy=False) if target.ndim else target[()].astype(result_type)
    if target is not out:
        np.copyto(out, target, casting="unsafe")
    return out


def _broadcast_stack(out: Any, a: Array, b: Array) -> Array:
    """Broadcast the first operand's stack to that of a larger `out`."""
    if type(out) is np.ndarray and out.ndim > a.ndim > 1 < b.ndim and out.shape[-2] == a.shape[-2]:
        with contextlib.suppress(ValueError):  # the shape check raises it
            return np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))
    return a


def _shape_of(a: Array, b: Array) -> tuple[int, ...] | None:
    """Return the result's shape, or None if the shapes do not match."""
    if not (a.ndim and b.ndim):
        return None
    if a.shape[-1] != (b.shape[-2] if b.ndim > 1 else b.shape[0]):
        return None
    try:
        stack = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return None
    shape = (*stack, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
    return shape if len(shape) <= abi.MAX_DIMS else None


def _types_of(a: Array, b: Array, out: Any, dtype: Any, casting: Any) -> tuple[DType, DType] | None:
    """Return the type to compute in and the result's type; None if NumPy refuses the types."""
    out_dtype = out.dtype if isinstance(out, np.ndarray) else None
    signature: dict[str, Any] = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    try:
        resolved = np.matmul.resolve_dtypes((a.dtype, b.dtype, out_dtype), casting=casting, **signature)
        if out_dtype is not None and not np.can_cast(resolved[2], out_dtype, casting=casting):
            return None
    except (TypeError, ValueError):
        return None
    common = np.dtype(resolved[0]).newbyteorder("=")
    return common, common if out_dtype is None else out_dtype


def _sizes(a: Array, b: Array, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return m, n, k, and the number of products in the stack."""
    m = a.shape[-2] if a.ndim > 1 else 1
    n = b.shape[-1] if b.ndim > 1 else 1
    stack = shape[: len(shape) - (a.ndim > 1) - (b.ndim > 1)]
    return m, n, a.shape[-1], math.prod(stack)


def _cost_of(sizes: tuple[int, int, int, int], a: Array, b: Array, types: tuple[DType, DType]) -> Cost:
    common = types[0]
    m, n, k, batch = sizes
    products = float(m) * n * k * batch
    down = m * n * batch * common.itemsize
    on_gpu = products / _GPU.get(common, _GPU_LOOPS)
    up = (a.size + b.size) * common.itemsize
    if common in _BLAS:
        # The CPU engine uses NumPy's BLAS, so NumPy is as fast; only for longer products a GPU is considered.
        cpu = products / (_BLAS[common] * cost_model.threads())
        return Cost(0.0 if cpu < cost_model.MIN_SECONDS_TO_WAKE_GPU else None, cpu, up, down, on_gpu)
    cpu = products / _LOOPS
    if cpu > cost_model.MIN_SECONDS_FOR_THREADS:
        cpu /= cost_model.threads()
    return Cost(2e-6 + products / _NUMPY_LOOPS, cost_model.CALL + cpu, up, down, on_gpu)


def blas_seconds(products: float, moved: int, dtype: DType) -> tuple[float, float]:
    """Return the time of so many multiplications by NumPy's BLAS, and on a GPU.

    `moved` are the bytes of the factors: a product of a matrix and a vector takes as long as reading it.
    """
    if dtype not in _BLAS:
        return products / _NUMPY_LOOPS, products / _GPU_LOOPS
    workers = cost_model.threads()
    seconds = cost_model.threaded_seconds(workers, products / _BLAS[dtype], moved, memory_bound=True)
    return seconds, products / _GPU[dtype]


# ---- On the CPU, by NumPy's BLAS ----------------------------------------------------------------------


def _by_blas(
    choice: EngineChoice, x: Array, y: Array, target: Array, precision: str, warns: str | None
) -> Array:
    """Compute into the target by NumPy's BLAS, in parts of some rows."""
    began = time.perf_counter()
    result = target
    if precision == "exact" and x.dtype == FLOAT32:
        _multiply_parts(choice.function, _multiply_in_float64, _in_rows(x, y.astype(FLOAT64), result))
    else:
        # Both use the same BLAS; their warnings name different functions.
        multiply: Any = np.dot if warns == "dot" and x.ndim == y.ndim == 2 else np.matmul
        with np.errstate() if warns else np.errstate(all="ignore"):
            _multiply_parts(choice.function, multiply, _in_rows(x, y, result))
    reason = f"{choice.reason}; by NumPy's BLAS"
    native_call.log_call(Call(choice.function, "cpu", reason, time.perf_counter() - began, began=began))
    return result


def _multiply_in_float64(x: Array, y: Array, target: Array) -> None:
    product = np.matmul(x.astype(FLOAT64), y)
    with np.errstate(over="ignore"):
        target[...] = product


def _multiply_parts(
    function: str, multiply: Callable[[Array, Array, Array], object], parts: list[tuple[Array, Array, Array]]
) -> None:
    """Compute the parts of a product, and report the progress of several."""
    if len(parts) == 1:
        multiply(*parts[0])
        return
    done, size = 0, sum(target.size for _, _, target in parts)
    with native_call.call_progress(function, size) as report:
        for x, y, target in parts:
            multiply(x, y, target)
            done += target.size
            report(done, size)


def _in_rows(x: Array, y: Array, target: Array) -> list[tuple[Array, Array, Array]]:
    """Split a product into parts by rows, so that each takes at most `_PATIENCE` seconds."""
    products = float(target.size) * x.shape[-1]
    parts = products / (_BLAS[x.dtype] * cost_model.threads() * _PATIENCE)
    if parts < 2 or x.ndim < 2:
        return [(x, y, target)]
    if target.ndim > 2:
        stack = target.shape[:-2] if y.ndim > 1 else target.shape[:-1]
        xs = np.broadcast_to(x, (*stack, *x.shape[-2:]))
        ys = np.broadcast_to(y, (*stack, *y.shape[-2:])) if y.ndim > 1 else y
        parts_of_stack = []
        for i in range(stack[0]):
            parts_of_stack += _in_rows(xs[i], ys[i] if y.ndim > 1 else y, target[i])
        return parts_of_stack
    step = max(64, math.ceil(x.shape[-2] / parts))
    starts = range(0, x.shape[-2], step)
    return [(x[i : i + step], y, target[i : i + step]) for i in starts]


# ---- By the native library --------------------------------------------------------------------------------


@functools.cache
def cublas() -> bool:
    """Open cuBLAS in the CUDA library, once; return True if it is available."""
    path = b""
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.pathfinder"):
        try:
            pathfinder: Any = importlib.import_module("cuda.pathfinder")
            path = (pathfinder.load_nvidia_dynamic_lib("cublas").abs_path or "").encode()
        except (ImportError, RuntimeError, OSError):  # not installed as a wheel; the system may have it
            path = b""
    is_open = ctypes.c_int64()
    text = np.frombuffer(path, np.uint8)
    loader.library("cuda").pk_open_cublas(text, text.size, ctypes.byref(is_open))
    return bool(is_open.value)


def _stored(array: Array, stored: DType) -> tuple[Array, bool]:
    """Return matrices stored densely, as the ABI takes them, and whether they are stored transposed."""
    if array.ndim > 1 and not array.flags.c_contiguous:
        transposed = array.swapaxes(-1, -2)
        if transposed.flags.c_contiguous and transposed.flags.aligned:
            return transposed.view(stored), True
    return np.require(array, None, ["C", "A"]).view(stored), False


def _batch_indices(x: Array, y: Array, shape: tuple[int, ...], batch: int) -> Array:
    """Return, for each product of the stack, the indices of its two matrices."""
    stack = shape[: len(shape) - (x.ndim > 1) - (y.ndim > 1)]
    batch_indices = np.zeros((batch, 2), np.int64)
    for column, array in enumerate((x, y)):
        stack_of_operand = array.shape[:-2]
        numbers = np.arange(math.prod(stack_of_operand)).reshape(stack_of_operand)
        batch_indices[:, column] = np.broadcast_to(numbers, stack).reshape(-1)
    return batch_indices


def _by_library(
    choice: EngineChoice, x: Array, y: Array, target: Array, sizes: tuple[int, int, int, int], precision: str
) -> int:
    m, n, k, batch = sizes
    dtype = x.dtype
    if choice.engine == "cuda":
        cublas()
    name = "bool" if dtype == BOOL else f"{dtype.kind}{8 * dtype.itemsize}"
    stored = abi.MULTIPLIED[name]
    a, a_transposed = _stored(x, stored)
    b, b_transposed = _stored(y, stored)
    batch_indices = _batch_indices(x, y, target.shape, batch)
    if not b_transposed and y.ndim < 3 and batch > 1 and not a_transposed and x.ndim > 2:
        m, batch, batch_indices = m * batch, 1, np.zeros((1, 2), np.int64)  # one taller matrix
    flags = abi.MATMUL_TRANSPOSE_A * a_transposed | abi.MATMUL_TRANSPOSE_B * b_transposed
    method = ctypes.c_int64()
    fp_flags = native_call.run(
        *(choice, f"pk_matmul_{name}", a, b, target.view(stored)),
        *(m, n, k, batch_indices, batch, flags, PRECISIONS.index(precision), ctypes.byref(method)),
        size=target.size,
    )
    native_call.add_reason(f"by {_METHODS[method.value]}")
    return fp_flags


def _warn(name: str, x: Array, y: Array, result: Array) -> None:
    """Warn of NaN or infinity in the result if neither operand has it in that row or column."""

    def in_either(mask_x: Array, mask_y: Array) -> Array:
        in_row: Any = mask_x.any(-1)
        in_column: Any = mask_y.any(-2 if y.ndim > 1 else -1)
        if x.ndim > 1 and y.ndim > 1:
            in_row, in_column = in_row[..., None], in_column[..., None, :]
        return np.asarray(in_row | in_column)

    if result.dtype.kind != "f":
        return
    allocator.access_on_host(x, y, result)
    if (np.isnan(result) & ~in_either(np.isnan(x), np.isnan(y))).any():
        fp_errors.report_fp_error("invalid", name)
    if (np.isinf(result) & ~in_either(~np.isfinite(x), ~np.isfinite(y))).any():
        fp_errors.report_fp_error("over", name)
