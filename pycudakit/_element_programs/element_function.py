"""NumPy functions that elementwise programs compute, and the compilation of one call to a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.program import ElementProgram
from pycudakit._element_programs.ufunc_lowering import write_ufunc
from pycudakit._element_programs.values import ACCEPTS_ANY_INTEGER, Value, WeakScalar, infinity_like
from pycudakit._native import abi
from pycudakit._native.dtypes import BOOL, FLOAT64, INT64
from pycudakit._runtime import context, native_call
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import MIN_SECONDS_TO_WAKE_GPU

Results = tuple[Value, ...]

_LARGEST = 2**63 - 1


class ElementFunction:
    """A NumPy function that a program can compute.

    Parameters
    ----------
    name
        NumPy's name, which is also the public name.
    numpy
        NumPy's own function.
    write
        Lowers the function to a program: called with the builder, the arguments, and the keywords
        `out`, `dtype` and `casting`.
    labels
        The inputs' names in errors, if any.
    types_python_scalars
        Whether a call of Python numbers alone gives them a type, as a ufunc does.
    """

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        write: Callable[..., Results] | None = None,
        outputs: int = 1,
        labels: tuple[str, ...] = (),
        types_python_scalars: bool = True,
    ) -> None:
        self.name = name
        self.numpy = numpy
        self.write = write or functools.partial(_write_ufunc, name)
        self.outputs = outputs
        self.labels = labels
        self.types_python_scalars = types_python_scalars
        self.neutral_value = 0 if name == "arctanh" else 1  # an argument that raises no FP flags
        # By the arguments' types, filled lazily: the elements below which NumPy is fastest, and the program.
        self.numpy_below: dict[tuple[Any, ...], float] = {}
        self._programs: dict[tuple[Any, ...], ElementProgram] = {}

    def remember_small(self, types: tuple[Any, ...], program: ElementProgram) -> None:
        """Remember the sizes at which NumPy is fastest for plain calls with arguments of these types."""
        cost = program_cost.estimate(program)
        self._programs[types] = program
        self.numpy_below[types] = min(cost.numpy_below, MIN_SECONDS_TO_WAKE_GPU / cost.numpy)

    def describe_small_call(self, size: int, types: tuple[Any, ...]) -> Call:
        """Return the record of a call that `numpy_below` left to NumPy."""
        program = self._programs[types]
        choice = program_cost.choose(self.name, program, size, size * program.in_bytes)
        return Call(self.name, "numpy", str(choice.reason))

    def is_small(self, first: Any, *others: Any) -> bool:
        """Return True, and log the call, if NumPy is fastest for a plain call of this size."""
        if type(first) is not np.ndarray or context.fast_path_engine() != "auto":
            return False
        types = [first.dtype]
        for other in others:
            if type(other) is not np.ndarray:
                types.append(type(other))
            elif other.shape == first.shape:
                types.append(other.dtype)
            else:
                return False
        small = first.size < self.numpy_below.get(tuple(types), 0)
        if small:
            native_call.thread_log.call = self.describe_small_call, first.size, tuple(types)
        return small


def _write_ufunc(name: str, builder: Builder, *arguments: Value | WeakScalar, **keywords: Any) -> Results:
    return write_ufunc(builder, name, *arguments, **keywords)


@functools.lru_cache(1024)
def compile_function(
    function: ElementFunction,
    types: tuple[Any, ...],
    outs: tuple[Any, ...],
    masked: bool,
    dtype: Any,
    casting: str,
) -> ElementProgram:
    """Compile a function for arguments of these types: dtypes, or `int` and `float`."""
    builder = Builder()
    arguments: list[Value | WeakScalar] = [
        WeakScalar(t, i) if isinstance(t, type) else builder.load("input", i, t) for i, t in enumerate(types)
    ]
    mask = builder.load("mask", 0, BOOL) if masked else None
    if mask is not None:
        builder.mask, builder.neutral_value = mask, function.neutral_value
        arguments = [a if isinstance(a, WeakScalar) else builder.masked(a) for a in arguments]
    results = function.write(builder, *arguments, out=outs, dtype=dtype, casting=casting)
    with builder.naming(function.numpy.__name__):
        results = tuple(builder.convert(r, o or r.dtype) for r, o in zip(results, outs, strict=True))
    if mask is not None:
        old_values = [
            builder.load("out", i, r.dtype) if outs[i] is not None else builder.constant(0, r.dtype)
            for i, r in enumerate(results)
        ]
        results = tuple(builder.select(mask, r, old) for r, old in zip(results, old_values, strict=True))
    for i, result in enumerate(results):
        builder.store(result, i)
    return builder.finish()


@functools.lru_cache(512)
def plain_program(
    function: ElementFunction, types: tuple[Any, ...], out: int | None
) -> ElementProgram | None:
    """Compile a plain call for arguments of these types: codes of pk_type, or `int` and `float`.

    Return None if the program may raise for one element after others have been written.
    """
    program = compile_function(
        function,
        tuple(abi.TYPES[t] if type(t) is int else t for t in types),
        (None if out is None else abi.TYPES[out],) * function.outputs,
        False,
        None,
        "same_kind",
    )
    return None if program.may_raise else program


COMPARISONS = frozenset(name for name in ACCEPTS_ANY_INTEGER if not name.startswith("logical_"))


def convert_python_scalars(name: str, inputs: Sequence[Any], dtype: Any = None) -> Sequence[Any]:
    """Give a type to Python numbers alone; replace integers out of range where only comparison matters."""
    if all(type(value) in (int, float) for value in inputs):
        return _as_ranks(inputs) if name in COMPARISONS else _as_arrays(name, inputs, dtype)
    if name not in ACCEPTS_ANY_INTEGER or not any(type(value) is int for value in inputs):
        return inputs
    first = next(value for value in inputs if type(value) is not int)
    dtype = first.dtype if hasattr(first, "dtype") else np.asarray(first).dtype
    if dtype.kind not in "iu":
        return inputs
    limits = np.iinfo(dtype)
    beyond = [type(value) is int and not limits.min <= value <= limits.max for value in inputs]
    return [infinity_like(v) if b else v for v, b in zip(inputs, beyond, strict=True)]


def has_number_beyond(name: str, given: Sequence[Any], converted: Sequence[Any]) -> bool:
    """Return True if `convert_python_scalars` replaced an integer that the array's type cannot hold."""
    return name in COMPARISONS and any(
        type(before) is int and type(after) is float for before, after in zip(given, converted, strict=True)
    )


def _as_ranks(numbers: Sequence[Any]) -> Sequence[Any]:
    """Replace integers of any size by their ranks, which compare as they do; other numbers by arrays."""
    if all(type(value) is int for value in numbers):
        ranks = sorted({*numbers})
        return [np.asarray(ranks.index(value), INT64) for value in numbers]
    return _as_arrays("", numbers, None)


def _as_arrays(name: str, numbers: Sequence[Any], dtype: Any) -> Sequence[Any]:
    """Convert Python numbers to arrays; raise `OverflowError` for integers that NumPy cannot hold."""
    if all(type(value) is int for value in numbers):
        limits = np.iinfo(np.int64)
        if dtype is None and not all(limits.min <= value <= limits.max for value in numbers):
            if len(numbers) == 1:
                return [np.asarray(value) for value in numbers]  # unsigned, or an object
            if _takes_integers_as_floats(name):
                return [np.asarray(float(value)) for value in numbers]
        elif dtype is not None and np.dtype(dtype).kind in "iu" and not _computes_integers(name):
            return [np.asarray(bool(value), INT64) for value in numbers]  # NumPy raises for their type later
        target = np.dtype(dtype) if dtype is not None else INT64
        if target.kind == "O":  # only NumPy computes with objects
            return numbers
        return [np.asarray(value, target if target.kind in "iuf" else INT64) for value in numbers]
    return [np.asarray(value, FLOAT64 if abs(value) > _LARGEST else None) for value in numbers]


@functools.cache
def _loop_of_integers(name: str) -> str:
    """Return the dtype kinds of the ufunc's loop for integers: inputs, then outputs."""
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc):
        return ""
    return "".join(d.kind for d in ufunc.resolve_dtypes((INT64,) * ufunc.nin + (None,) * ufunc.nout))


def _takes_integers_as_floats(name: str) -> bool:
    return _loop_of_integers(name)[:1] == "f"


def _computes_integers(name: str) -> bool:
    kinds = _loop_of_integers(name)
    return not kinds or kinds[-1] in "iu"


def checked_output(name: str, result: Value, out: tuple[Any, ...], casting: str) -> tuple[Value]:
    """Return the result, or raise NumPy's error if its type cannot be cast to the output's."""
    if out[0] is not None and not np.can_cast(result.dtype, out[0], casting=casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast ufunc '{name}' output from {result.dtype!r} to {out[0]!r} "
            f"with casting rule '{casting}'"
        )
    return (result,)
