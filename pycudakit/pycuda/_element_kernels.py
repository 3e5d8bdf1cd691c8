"""Kernels of PyCUDA's arithmetic, which programs launch themselves, by the dtypes of their arguments.

Each takes its arrays and numbers in the order of the parameters, and last the number of elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit.pycuda._device import cached_per_device
from pycudakit.pycuda._element_modules import get_elwise_kernel
from pycudakit.pycuda._errors import LogicError, absent
from pycudakit.pycuda._function import Function
from pycudakit.pycuda.tools import Argument, ScalarArg, VectorArg, dtype_to_ctype

_TEXTURES = "its arrays are textures, which CUDA 12 has no references to"

get_take_kernel = absent("get_take_kernel", f"{_TEXTURES}: call gpuarray.take() or multi_take()")
get_take_put_kernel = absent("get_take_put_kernel", f"{_TEXTURES}: call gpuarray.multi_take_put()")


def _kernel(name: str, operation: str, *arguments: Argument) -> Function:
    return get_elwise_kernel(list(arguments), operation, re.sub(r"\W", "_", name))


def _converted(text: str, dtype: Any, dtype_z: Any) -> str:
    """Return a value as one of the result's type; a real one stays real in complex arithmetic."""
    wanted = np.dtype(dtype_z)
    if wanted.kind == "c" and np.dtype(dtype).kind != "c":
        wanted = np.empty(0, wanted).real.dtype
    return f"({dtype_to_ctype(wanted)})({text})"


def _element(name: str, is_scalar: bool) -> str:
    return f"{name}[0]" if is_scalar else f"{name}[i]"


# ---- Values and copies ---------------------------------------------------------------------------------


@cached_per_device
def get_fill_kernel(dtype: Any) -> Function:
    """Return the kernel of `z = a`, with the parameters `a, *z`."""
    return _kernel("fill", "z[i] = a", ScalarArg(dtype, "a"), VectorArg(dtype, "z"))


@cached_per_device
def get_arange_kernel(dtype: Any) -> Function:
    """Return the kernel of `z = start + i * step`, with the parameters `*z, start, step`."""
    operation = f"z[i] = start + ({dtype_to_ctype(dtype)})i * step"
    return _kernel(
        "arange", operation, VectorArg(dtype, "z"), ScalarArg(dtype, "start"), ScalarArg(dtype, "step")
    )


@cached_per_device
def get_copy_kernel(dtype_dest: Any, dtype_src: Any) -> Function:
    """Return the kernel of `dest = src`, with the parameters `*dest, *src`."""
    return _kernel("copy", "dest[i] = src[i]", VectorArg(dtype_dest, "dest"), VectorArg(dtype_src, "src"))


@cached_per_device
def get_reverse_kernel(dtype: Any) -> Function:
    """Return the kernel of `z = y[::-1]`, with the parameters `*y, *z`."""
    return _kernel("reverse", "z[i] = y[n - 1 - i]", VectorArg(dtype, "y"), VectorArg(dtype, "z"))


@cached_per_device
def get_put_kernel(dtype: Any, idx_dtype: Any, vec_count: int = 1) -> Function:
    """Return the kernel of `dest[gmem_dest_idx] = src`: the indices, `vec_count` dest, and as many src."""
    places = range(vec_count)
    return _kernel(
        "put",
        " ".join(f"dest{k}[gmem_dest_idx[i]] = src{k}[i];" for k in places),
        VectorArg(idx_dtype, "gmem_dest_idx"),
        *(VectorArg(dtype, f"dest{k}") for k in places),
        *(VectorArg(dtype, f"src{k}") for k in places),
    )


@cached_per_device
def get_real_kernel(dtype: Any, real_dtype: Any) -> Function:
    """Return the kernel of the real parts, with the parameters `*y, *z`."""
    return _kernel("real", "z[i] = real(y[i])", VectorArg(dtype, "y"), VectorArg(real_dtype, "z"))


@cached_per_device
def get_imag_kernel(dtype: Any, real_dtype: Any) -> Function:
    """Return the kernel of the imaginary parts, with the parameters `*y, *z`."""
    return _kernel("imag", "z[i] = imag(y[i])", VectorArg(dtype, "y"), VectorArg(real_dtype, "z"))


@cached_per_device
def get_conj_kernel(dtype: Any, conj_dtype: Any) -> Function:
    """Return the kernel of the conjugates, with the parameters `*y, *z`."""
    return _kernel("conj", "z[i] = pycuda::conj(y[i])", VectorArg(dtype, "y"), VectorArg(conj_dtype, "z"))


# ---- Arithmetic ----------------------------------------------------------------------------------------


@cached_per_device
def get_axpbyz_kernel(
    dtype_x: Any, dtype_y: Any, dtype_z: Any, x_is_scalar: bool = False, y_is_scalar: bool = False
) -> Function:
    """Return the kernel of `z = a * x + b * y`, with the parameters `a, *x, b, *y, *z`.

    An array that is a scalar has one element.
    """
    terms = [
        f"{_converted(factor, dtype, dtype_z)} * {_converted(_element(name, is_scalar), dtype, dtype_z)}"
        for factor, name, dtype, is_scalar in (
            ("a", "x", dtype_x, x_is_scalar),
            ("b", "y", dtype_y, y_is_scalar),
        )
    ]
    return _kernel(
        "axpbyz",
        f"z[i] = {' + '.join(terms)}",
        *(ScalarArg(dtype_x, "a"), VectorArg(dtype_x, "x")),
        *(ScalarArg(dtype_y, "b"), VectorArg(dtype_y, "y"), VectorArg(dtype_z, "z")),
    )


@cached_per_device
def get_axpbz_kernel(dtype_x: Any, dtype_z: Any) -> Function:
    """Return the kernel of `z = a * x + b`, with the parameters `a, *x, b, *z`."""
    factors = ScalarArg(dtype_z, "a"), ScalarArg(dtype_z, "b")
    return _kernel(
        "axpb",
        "z[i] = a * x[i] + b",
        factors[0],
        VectorArg(dtype_x, "x"),
        factors[1],
        VectorArg(dtype_z, "z"),
    )


@cached_per_device
def get_linear_combination_kernel(
    summand_descriptors: Sequence[tuple[bool, Any, Any]], dtype_z: Any
) -> tuple[Function, list[Any]]:
    """Return the kernel of `z = a0 * x0 + a1 * x1 + ...`, with the parameters `a0, *x0, a1, *x1, ..., *z`.

    Parameters
    ----------
    summand_descriptors
        A tuple for each summand: False, the dtype of the factor, and that of the array.
    dtype_z
        The dtype of the result.

    Returns
    -------
    tuple
        The kernel, and a list of textures, which is empty.
    """
    arguments: list[Argument] = []
    for index, (is_gpu_scalar, scalar_dtype, vector_dtype) in enumerate(summand_descriptors):
        if is_gpu_scalar:
            raise LogicError(
                f"factor {index} of a linear combination would be a texture, which CUDA 12 has no references "
                "to: give it as a number, (False, dtype, dtype)"
            )
        arguments += [ScalarArg(scalar_dtype, f"a{index}"), VectorArg(vector_dtype, f"x{index}")]
    terms = " + ".join(f"a{index} * x{index}[i]" for index in range(len(summand_descriptors)))
    return _kernel("linear_combination", f"z[i] = {terms}", *arguments, VectorArg(dtype_z, "z")), []


@cached_per_device
def get_binary_op_kernel(
    dtype_x: Any,
    dtype_y: Any,
    dtype_z: Any,
    operator: str,
    x_is_scalar: bool = False,
    y_is_scalar: bool = False,
) -> Function:
    """Return the kernel of an operator of C, as ``"*"``, with the parameters `*x, *y, *z`.

    An array that is a scalar has one element.
    """
    x = _converted(_element("x", x_is_scalar), dtype_x, dtype_z)
    y = _converted(_element("y", y_is_scalar), dtype_y, dtype_z)
    arrays = VectorArg(dtype_x, "x"), VectorArg(dtype_y, "y"), VectorArg(dtype_z, "z")
    return _kernel("binary_op", f"z[i] = ({dtype_to_ctype(dtype_z)})({x} {operator} {y})", *arrays)


@cached_per_device
def get_scalar_op_kernel(dtype_x: Any, dtype_a: Any, dtype_y: Any, operator: str) -> Function:
    """Return the kernel of an operator of an array and a number, with the parameters `*x, a, *y`."""
    arguments = VectorArg(dtype_x, "x"), ScalarArg(dtype_a, "a"), VectorArg(dtype_y, "y")
    return _kernel("scalar_op", f"y[i] = x[i] {operator} a", *arguments)


@cached_per_device
def get_rdivide_elwise_kernel(dtype_x: Any, dtype_z: Any) -> Function:
    """Return the kernel of `z = y / x` for a number `y`, with the parameters `*x, y, *z`."""
    arguments = VectorArg(dtype_x, "x"), ScalarArg(dtype_z, "y"), VectorArg(dtype_z, "z")
    return _kernel("divide_r", "z[i] = y / x[i]", *arguments)


@cached_per_device
def get_pow_array_kernel(
    dtype_x: Any, dtype_y: Any, dtype_z: Any, is_base_array: bool, is_exp_array: bool
) -> Function:
    """Return the kernel of `z = x ** y`, with the parameters `x, y, *z`, of which `x` or `y` are arrays."""
    if not (is_base_array or is_exp_array):
        raise ValueError("get_pow_array_kernel: neither the base nor the exponent is an array")
    kinds = [VectorArg if is_array else ScalarArg for is_array in (is_base_array, is_exp_array)]
    power = "powf" if np.dtype(dtype_z) == np.float32 else "pow"
    x, y = ("x[i]" if is_base_array else "x"), ("y[i]" if is_exp_array else "y")
    if np.dtype(dtype_z).kind == "c":
        x, y = f"({dtype_to_ctype(dtype_z)})({x})", f"({dtype_to_ctype(dtype_z)})({y})"
    arguments = kinds[0](dtype_x, "x"), kinds[1](dtype_y, "y"), VectorArg(dtype_z, "z")
    return _kernel("pow_method", f"z[i] = {power}({x}, {y})", *arguments)


# ---- Functions -----------------------------------------------------------------------------------------


@cached_per_device
def get_unary_func_kernel(func_name: str, in_dtype: Any, out_dtype: Any = None) -> Function:
    """Return the kernel of a function of C, as ``"expf"``, with the parameters `*y, *z`."""
    arrays = VectorArg(in_dtype, "y"), VectorArg(in_dtype if out_dtype is None else out_dtype, "z")
    return _kernel(f"{func_name}_kernel", f"z[i] = {func_name}(y[i])", *arrays)


@cached_per_device
def get_binary_func_kernel(func: str, dtype_x: Any, dtype_y: Any, dtype_z: Any) -> Function:
    """Return the kernel of a function of C, as ``"fmaxf"``, with the parameters `*x, *y, *z`."""
    arrays = VectorArg(dtype_x, "x"), VectorArg(dtype_y, "y"), VectorArg(dtype_z, "z")
    return _kernel(f"{func}_kernel", f"z[i] = {func}(x[i], y[i])", *arrays)


@cached_per_device
def get_binary_func_scalar_kernel(func: str, dtype_x: Any, dtype_y: Any, dtype_z: Any) -> Function:
    """Return the kernel of a function of an array and a number, with the parameters `*x, y, *z`."""
    arguments = VectorArg(dtype_x, "x"), ScalarArg(dtype_y, "y"), VectorArg(dtype_z, "z")
    return _kernel(f"{func}_kernel", f"z[i] = {func}(x[i], y)", *arguments)


def get_binary_minmax_kernel(
    func: str, dtype_x: Any, dtype_y: Any, dtype_z: Any, use_scalar: bool
) -> Function:
    """Return the kernel of ``"min"`` or ``"max"`` of two arrays, or of an array and a number."""
    dtypes = [np.dtype(dtype) for dtype in (dtype_x, dtype_y, dtype_z)]
    if any(dtype.kind == "f" for dtype in dtypes):
        func = f"f{func}" if np.float64 in dtypes[:2] else f"f{func}f"
    make = get_binary_func_scalar_kernel if use_scalar else get_binary_func_kernel
    return make(func, *dtypes)


@cached_per_device
def get_fmod_kernel() -> Function:
    """Return the kernel of `z = fmod(arg, mod)` of float32, with the parameters `*arg, *mod, *z`."""
    arrays = (VectorArg(np.float32, name) for name in ("arg", "mod", "z"))
    return _kernel("fmod_kernel", "z[i] = fmodf(arg[i], mod[i])", *arrays)


@cached_per_device
def get_modf_kernel() -> Function:
    """Return the kernel of `modf` of float32, with the parameters `*x, *intpart, *fracpart`."""
    arrays = (VectorArg(np.float32, name) for name in ("x", "intpart", "fracpart"))
    return _kernel("modf_kernel", "fracpart[i] = modff(x[i], &intpart[i])", *arrays)


@cached_per_device
def get_frexp_kernel() -> Function:
    """Return the kernel of `frexp` of float32, with the parameters `*x, *significand, *exponent`."""
    arrays = (VectorArg(np.float32, name) for name in ("x", "significand", "exponent"))
    operation = "int expt = 0; significand[i] = frexpf(x[i], &expt); exponent[i] = expt"
    return _kernel("frexp_kernel", operation, *arrays)


@cached_per_device
def get_ldexp_kernel() -> Function:
    """Return the kernel of `z = ldexp(sig, int(expt))` of float32, with the parameters `*sig, *expt, *z`."""
    arrays = (VectorArg(np.float32, name) for name in ("sig", "expt", "z"))
    return _kernel("ldexp_kernel", "z[i] = ldexpf(sig[i], (int)expt[i])", *arrays)


# ---- Selections ----------------------------------------------------------------------------------------


def _selection(name: str, condition: str, crit_dtype: Any, dtype: Any) -> Function:
    arrays = (VectorArg(dtype, name) for name in ("then_", "else_", "result"))
    operation = f"result[i] = crit[i] {condition} 0 ? then_[i] : else_[i]"
    return _kernel(name, operation, VectorArg(crit_dtype, "crit"), *arrays)


@cached_per_device
def get_if_positive_kernel(crit_dtype: Any, dtype: Any) -> Function:
    """Return the kernel of `result = crit > 0 ? then_ : else_`, with the parameters in this order."""
    return _selection("if_positive", ">", crit_dtype, dtype)


@cached_per_device
def get_where_kernel(crit_dtype: Any, dtype: Any) -> Function:
    """Return the kernel of `result = crit ? then_ : else_`, with the parameters in this order."""
    return _selection("where", "!=", crit_dtype, dtype)


@cached_per_device
def get_logical_not_kernel(dtype_x: Any, dtype_out: Any) -> Function:
    """Return the kernel of `out = x == 0`, with the parameters `*x, *out`."""
    return _kernel(
        "logical_not", "out[i] = (x[i] == 0)", VectorArg(dtype_x, "x"), VectorArg(dtype_out, "out")
    )
