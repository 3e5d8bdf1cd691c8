"""The arithmetic of GPUArrays, by pycudakit's functions and NumPy's.

On a GPU, kernels of PyCUDA's kind compute dtypes that these functions lack, and small arrays of floats.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._interop import cuda_libraries
from pycudakit._native.dtypes import CODES
from pycudakit.pycuda import _copies, _engine
from pycudakit.pycuda._array_copy import copy_array, host_view, repeat_item
from pycudakit.pycuda._array_layout import compact_strides, contiguous_strides, have_same_strides
from pycudakit.pycuda._device import cached_per_device, current_device
from pycudakit.pycuda._streams import handle_of
from pycudakit.pycuda.elementwise import get_elwise_kernel, splay
from pycudakit.pycuda.reduction import get_all_kernel, get_any_kernel, get_sum_kernel
from pycudakit.pycuda.tools import dtype_to_ctype

_HOST_SIZE = 1 << 15  # elements, below which NumPy is faster

# The expression of an element by NumPy's name of the function, with operands `a`, `b` and `c`, their common
# type `C` and the result's type `T`. These functions take complex numbers.
_EXPRESSIONS = {
    "add": "T(a) + T(b)",
    "subtract": "T(a) - T(b)",
    "multiply": "T(a) * T(b)",
    "true_divide": "T(a) / T(b)",
    "power": "pow(T(a), T(b))",
    "negative": "-T(a)",
    "positive": "a",
    "absolute": "abs(a)",
    "conjugate": "conj(a)",
    "real": "a.real()",
    "imag": "a.imag()",
    "equal": "C(a) == C(b)",
    "not_equal": "C(a) != C(b)",
    "where": "a ? b : c",
    "logical_and": "C(a) != C(0) && C(b) != C(0)",
    "logical_or": "C(a) != C(0) || C(b) != C(0)",
    "logical_not": "C(a) == C(0)",
}
_EXPRESSIONS |= {
    name: f"{name}(a)"
    for name in ("exp", "log", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt")
}
# The reductions that take complex numbers.
_KERNELS = {"sum": get_sum_kernel, "any": get_any_kernel, "all": get_all_kernel}


class _Current(threading.local):
    stream = 0


_current = _Current()


def _is_supported(operands: Any) -> bool:
    return all(getattr(each, "dtype", None) in CODES or isinstance(each, int | float) for each in operands)


def _refuse_complex(name: str, operands: Any) -> None:
    """Raise TypeError if an operand of a function of real numbers is complex: they have no order."""
    for each in operands:
        dtype = each.dtype if hasattr(each, "dtype") else np.dtype(type(each))
        if dtype.kind == "c":
            raise TypeError(f"{name} takes bools, integers and floats, not {dtype}")


def on_host(operand: Any) -> Any:
    """Return an operand for NumPy: a view of a GPUArray, or the number that it is."""
    return host_view(operand) if hasattr(operand, "gpudata") else operand


def compute(name: str, out: Any, *operands: Any, stream: Any = None) -> Any:
    """Write a function of arrays and numbers to an array, in a stream; return the array.

    Parameters
    ----------
    name
        NumPy's name of an elementwise function.
    out
        The array of the result, which may be one of the operands.
    *operands
        GPUArrays and numbers.
    stream
        The stream; None is the legacy default stream.
    """
    if name not in _EXPRESSIONS:
        _refuse_complex(name, operands)
    if not out.size:
        return out
    if _engine.current().is_cpu:
        library: Any = pk if out.size >= _HOST_SIZE and _is_supported((*operands, out)) else np
        with np.errstate(all="ignore"):  # a GPU does not warn
            getattr(library, name)(*[on_host(each) for each in operands], out=host_view(out))
    elif not launch_arithmetic(name, out, operands, stream):
        if _is_supported((*operands, out)):
            with_stream(stream, getattr(pk, name), *operands, out=out)
        else:
            _run_kernel(name, out, operands, stream)
    return out


def convert(out: Any, operand: Any, stream: Any = None) -> Any:
    """Write an array to another, of another dtype."""
    if not out.size:
        return out
    if _engine.current().is_cpu:
        with np.errstate(all="ignore"):
            np.copyto(host_view(out), host_view(operand), casting="unsafe")
    else:
        _run_kernel("positive", out, (operand,), stream)
    return out


def function_of(name: str) -> Any:
    """Return pycudakit's function of NumPy's name."""
    return getattr(pk, name)


def where(out: Any, mask: Any, then_: Any, else_: Any, stream: Any = None) -> Any:
    """Write elements of `then_` where a mask is true, else of `else_`."""
    if not out.size:
        return out
    if _engine.current().is_cpu:
        host_view(out)[...] = np.where(host_view(mask) != 0, on_host(then_), on_host(else_))
    else:
        _run_kernel("where", out, (mask, then_, else_), stream)
    return out


def take(out: Any, array: Any, indices: Any, stream: Any = None) -> None:
    """Write the elements of an array of one axis with these indices."""
    if out.shape != indices.shape or out.dtype != array.dtype:
        raise ValueError(f"out is of {indices.shape} and {array.dtype}, not of {out.shape} and {out.dtype}")
    if _engine.current().is_cpu:
        host_view(out)[...] = np.take(host_view(array), host_view(indices))
        return
    if not out.size:
        return
    if _is_supported((array, indices)) and array.dtype == out.dtype:
        with_stream(stream, pk.take, array, indices, out=out)
        return
    array, indices = _in_c_order(array, stream), _in_c_order(indices, stream)
    target = out if out.flags.c_contiguous else out.new_like(order="C")
    kernel = _index_kernel(out.dtype, indices.dtype, "pk_out[i] = pk_x[pk_index[i]]")
    _launch(kernel, out.size, stream, target.gpudata, array.gpudata, indices.gpudata)
    if target is not out:
        copy_array(out, target, stream)


def put(out: Any, indices: Any, array: Any, stream: Any = None) -> None:
    """Write an array's elements to the places with these indices."""
    if array.size != indices.size:
        raise ValueError(f"{indices.size} indices for {array.size} elements")
    if not array.size:
        return
    if _engine.current().is_cpu:
        np.put(host_view(out), host_view(indices), host_view(array))
        return
    array, indices = _in_c_order(array, stream), _in_c_order(indices, stream)
    target = _in_c_order(out, stream)
    kernel = _index_kernel(out.dtype, indices.dtype, "pk_out[pk_index[i]] = pk_x[i]")
    _launch(kernel, array.size, stream, target.gpudata, array.gpudata, indices.gpudata)
    if target is not out:
        copy_array(out, target, stream)


def part(name: str, out: Any, operand: Any) -> Any:
    """Write the real or the imaginary parts of an array to another."""
    if _engine.current().is_cpu:
        np.copyto(host_view(out), getattr(host_view(operand), name))
    else:
        _run_kernel(name, out, (operand,), None)
    return out


def fill(array: Any, value: Any, stream: Any = None) -> Any:
    """Set all elements of an array to a value; return the array."""
    if not array.size:
        return array
    if _engine.current().is_cpu:
        host_view(array)[...] = value
        return array
    item = np.asarray(value, array.dtype)
    memset = {1: _copies.memset_d8_async, 2: _copies.memset_d16_async, 4: _copies.memset_d32_async}
    if array.flags.forc and array.itemsize in memset:
        bits = int.from_bytes(item.tobytes(), "little")
        memset[array.itemsize](array.gpudata, bits, array.size, stream)
    elif array.flags.forc and not any(item.tobytes()):
        _copies.memset_d8_async(array.gpudata, 0, array.nbytes, stream)
    else:
        repeat_item(array, item, stream)
    return array


def reduce(name: str, array: Any, dtype: Any, stream: Any, allocator: Any) -> Any:
    """Return the reduction of a whole array, by NumPy's name, as an array of no axes."""
    if name in ("max", "min"):
        _refuse_complex(name, (array,))
    out = type(array)((), dtype, allocator or array.allocator)
    keywords = {"dtype": out.dtype} if name == "sum" else {}
    if _engine.current().is_cpu:
        library: Any = pk if array.size >= _HOST_SIZE and _is_supported((array, out)) else np
        with np.errstate(all="ignore"):
            getattr(library, name)(host_view(array), out=host_view(out), **keywords)
    elif _is_supported((array, out)):
        with_stream(stream, getattr(pk, name), array, out=out, **keywords)
    else:
        _KERNELS[name](out.dtype, array.dtype)(array, out=out, stream=stream)
    return out


def divide_truncated(out: Any, a: Any, b: Any, stream: Any = None) -> Any:
    """Write the quotients of integers as C has them, rounded towards zero."""
    if not _engine.current().is_cpu:
        _run_kernel("true_divide", out, (a, b), stream)
        return out
    dividend, divisor = on_host(a), on_host(b)
    with np.errstate(all="ignore"):
        quotient = np.floor_divide(dividend, divisor)
    quotient += ((dividend < 0) != (np.asarray(divisor) < 0)) & (quotient * divisor != dividend)
    host_view(out)[...] = quotient
    return out


def with_stream(stream: Any, function: Any, *operands: Any, **keywords: Any) -> Any:
    """Call one of pycudakit's functions in a stream."""
    outer, _current.stream = _current.stream, handle_of(stream)
    try:
        return function(*operands, **keywords)
    finally:
        _current.stream = outer


# ---- Kernels ------------------------------------------------------------------------------------------

# On a GPU, a compiled kernel of these functions is enqueued sooner than pycudakit's function, with the same
# bits. Compiling takes longer than many calls, so that only functions in frequent use get a kernel.
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "true_divide"})
_LARGEST = {np.dtype(np.float32): 2.0**127, np.dtype(np.float64): 2.0**1023}  # of numbers that are operands
_MAX_LAUNCHED_SIZE = 1 << 20  # above it, pycudakit's functions are as fast
_CALLS_BEFORE_COMPILATION = 8
_calls: dict[tuple[Any, ...], int] = {}  # by function, dtype, and whether each operand is an array


def launch_arithmetic(name: str, out: Any, operands: tuple[Any, ...], stream: Any) -> bool:
    """Launch a kernel of a frequent operation on small arrays without gaps, and return whether that was done.

    Parameters
    ----------
    name, out, operands, stream
        As for `compute`.
    """
    if name not in _ARITHMETIC or out.size > _MAX_LAUNCHED_SIZE or not out.flags.c_contiguous:
        return False
    dtype, shape = out.dtype, out.shape
    largest, target = _LARGEST.get(dtype), out.ptr
    if largest is None:
        return False
    passed, are_arrays = [], []
    for operand in operands:
        is_number = type(operand) in (int, float)
        if is_number:
            if not -largest < operand < largest:
                return False
            passed.append(operand)
        elif not hasattr(operand, "gpudata") or operand.dtype != dtype or operand.shape != shape:
            return False
        elif not operand.flags.c_contiguous or 0 < abs(operand.ptr - target) < out.nbytes:
            return False  # an operand that overlaps `out` would change before it is read
        else:
            passed.append(operand.ptr)
        are_arrays.append(not is_number)
    key = name, dtype.char, *are_arrays
    calls = _calls[key] = _calls.get(key, 0) + 1
    if calls <= _CALLS_BEFORE_COMPILATION:
        return False
    _launch(_arithmetic_kernel(*key), out.size, stream, target, *passed)
    return True


@cached_per_device
def _arithmetic_kernel(name: str, char: str, *are_arrays: bool) -> Any:
    dtype = np.dtype(char)
    return _kernel(name, dtype, tuple((dtype, is_array) for is_array in are_arrays))


@cached_per_device
def _kernel(name: str, out: Any, kinds: tuple[tuple[Any, bool], ...]) -> Any:
    names = "abc"[: len(kinds)]
    common = np.result_type(*(dtype for dtype, _ in kinds))
    declared = [f"{dtype_to_ctype(out)} *pk_out"]
    loads = [f"typedef {dtype_to_ctype(out)} T;", f"typedef {dtype_to_ctype(common)} C;"]
    for letter, (dtype, is_array) in zip(names, kinds, strict=True):
        kind = dtype_to_ctype(dtype)
        declared.append(f"{kind} {'*' if is_array else ''}pk_{letter}")
        loads.append(f"const {kind} {letter} = pk_{letter}{'[i]' if is_array else ''};")
    return get_elwise_kernel(
        ", ".join(declared), " ".join([*loads, f"pk_out[i] = T({_EXPRESSIONS[name]})"]), f"pk_{name}"
    )


@cached_per_device
def _index_kernel(dtype: Any, index: Any, operation: str) -> Any:
    kind = dtype_to_ctype(dtype)
    arguments = f"{kind} *pk_out, {kind} *pk_x, {dtype_to_ctype(index)} *pk_index"
    return get_elwise_kernel(arguments, operation, "pk_index")


def _launch(kernel: Any, size: int, stream: Any, *arguments: Any) -> None:
    grid, block = splay(size)
    kernel.prepared_async_call(grid, block, stream, *arguments, size)


def _run_kernel(name: str, out: Any, operands: tuple[Any, ...], stream: Any) -> None:
    # The kernel numbers the elements of all arrays in the order of the target's memory.
    target = out if out.flags.forc else out.new_like()
    kinds, passed = [], []
    for operand in operands:
        if hasattr(operand, "gpudata"):
            array = _broadcast(operand, out.shape)
            passed.append(_in_layout(array, compact_strides(target, array.itemsize), stream).gpudata)
            kinds.append((array.dtype, True))
        else:
            scalar = np.asarray(operand, np.result_type(out.dtype, operand))[()]
            kinds.append((scalar.dtype, False))
            passed.append(scalar)
    _launch(_kernel(name, out.dtype, tuple(kinds)), out.size, stream, target.gpudata, *passed)
    if target is not out:
        copy_array(out, target, stream)


def _broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of an array that repeats it along axes of length 1, and those that it lacks."""
    if array.shape == shape:
        return array
    missing = len(shape) - array.ndim
    lengths, strides = (1,) * missing + array.shape, (0,) * missing + array.strides
    if missing < 0 or any(length not in (1, wanted) for length, wanted in zip(lengths, shape, strict=True)):
        raise ValueError(f"shapes {array.shape} and {shape} do not match")
    repeated = [
        stride if length == wanted else 0
        for length, stride, wanted in zip(lengths, strides, shape, strict=True)
    ]
    return type(array)(shape, array.dtype, array.allocator, array, array.gpudata, repeated)


def _in_layout(array: Any, strides: Any, stream: Any) -> Any:
    """Return an array if it has these strides, else a copy that has them."""
    if have_same_strides(array.shape, array.strides, strides):
        return array
    result = type(array)(array.shape, array.dtype, array.allocator, strides=strides)
    copy_array(result, array, stream)
    return result


def _in_c_order(array: Any, stream: Any) -> Any:
    return _in_layout(array, contiguous_strides(array.itemsize, array.shape), stream)


# ---- GPUArrays as arrays of a library that pycudakit knows ------------------------------------------------


def _inspect(array: Any) -> cuda_libraries.Inspected:
    strides = None if array.flags.c_contiguous else array.strides
    address = 0 if array.gpudata is None else int(array.gpudata)
    return (
        (array.dtype, array.shape, strides, False),
        address,
        _current.stream or cuda_libraries.LEGACY_STREAM,
    )


def library_of(kind: type) -> cuda_libraries.ForeignLibrary:
    """Return the functions by which pycudakit's functions inspect and make arrays of a class."""
    return cuda_libraries.ForeignLibrary(
        _inspect,
        lambda shape, dtype, like: kind(shape, dtype, like.allocator),
        lambda array: int(array.ptr),
        lambda _: not _engine.current().is_cpu,
        lambda _: current_device(),
    )
