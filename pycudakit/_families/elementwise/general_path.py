"""The general path of elementwise calls: masks, type promotion, outputs, broadcasting and foreign arrays."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._element_programs import device_launch, program_cost
from pycudakit._element_programs.element_function import (
    ElementFunction,
    compile_function,
    convert_python_scalars,
    has_number_beyond,
)
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._element_programs.program import ElementProgram
from pycudakit._interop import foreign_arrays
from pycudakit._interop.dispatch import Dispatcher
from pycudakit._native import engine_status
from pycudakit._native.dtypes import Array, code_of
from pycudakit._runtime import context, late_bound, native_call, operands
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.engine_choice import (
    OTHER_ENGINE,
    UNSUPPORTED_DTYPE,
    EngineChoice,
    fallback_to_numpy,
    requested_engine,
)
from pycudakit._runtime.fp_errors import caller_stacklevel
from pycudakit._runtime.operands import layout_of
from pycudakit._runtime.ufunc_arguments import as_argument, as_mask, as_order, as_outs, broadcast, needs_copy


def _refused_or_by_numpy(name: str, engine: str, value: Any, label: str = "") -> EngineChoice:
    """Return the choice of NumPy, if it is the fallback of the engine; else raise."""
    got = f"an array of {value.dtype}" if type(value) is np.ndarray else f"a {type(value).__name__}"
    got += f" as {label}" * bool(label)
    refusal = (
        f"{name}: the {engine} engine takes bool, integers and floats of up to 64 bits, and got {got}; "
        f"convert it, or {OTHER_ENGINE}"
    )
    return fallback_to_numpy(name, refusal, UNSUPPORTED_DTYPE)


def _check_exponents(program: ElementProgram, inputs: Sequence[Any], mask: Array | None) -> None:
    if program.out_dtypes[0].kind not in "iu":
        return
    exponent = np.asarray(inputs[1])
    negative = exponent < 0 if mask is None else (exponent < 0) & mask
    if exponent.dtype.kind == "i" and negative.any():
        raise ValueError("Integers to negative integer powers are not allowed.")


def _type_of(argument: Any) -> Any:
    return argument.dtype.newbyteorder("=") if isinstance(argument, np.ndarray) else type(argument)


@dataclass
class _UfuncRequest:
    """A call's arguments, converted for the engines, or the first one that only NumPy supports."""

    arguments: list[Any]
    outs: list[Array | None]
    mask: Array | None
    dtype: np.dtype[Any] | None
    unsupported: tuple[Any, str] | None = None  # the value, and its name in errors
    has_number_beyond: bool = False  # a Python integer that the array's type cannot hold, only compared

    @functools.cached_property
    def types(self) -> tuple[Any, ...]:
        """The arguments' types: dtypes, or `int` and `float`."""
        return tuple(_type_of(argument) for argument in self.arguments)

    @functools.cached_property
    def read(self) -> list[Array]:
        """The arrays that are read."""
        arrays = [np.asarray(a) for a in self.arguments]
        return arrays if self.mask is None else [*arrays, self.mask]


def _read(
    function: ElementFunction, inputs: Sequence[Any], out: Any, where: Any, dtype: Any
) -> _UfuncRequest:
    given = inputs
    if function.types_python_scalars:
        inputs = convert_python_scalars(function.name, inputs, dtype)
    request = _UfuncRequest(
        arguments=[as_argument(value) for value in inputs],
        outs=as_outs(out, function.outputs),
        mask=as_mask(where),
        dtype=None if dtype is None else np.dtype(dtype),
    )
    named = zip(inputs, request.arguments, [*function.labels, *[""] * len(inputs)], strict=False)
    unsupported = [(value, label) for value, argument, label in named if argument is None]
    unsupported += [(o, "out") for o in request.outs if o is not None and as_argument(o) is None]
    if request.dtype is not None and code_of(request.dtype) is None:
        unsupported.append((np.empty(0, request.dtype), "dtype"))
    request.unsupported = unsupported[0] if unsupported else None
    request.has_number_beyond = has_number_beyond(function.name, given, inputs)
    return request


def _compile(function: ElementFunction, request: _UfuncRequest, casting: str) -> ElementProgram:
    outs = [None if o is None else o.dtype for o in request.outs]
    if casting == "no" and hasattr(function.numpy, "resolve_dtypes"):  # "no" respects the byte order
        exact = [a.dtype if isinstance(a, np.ndarray) else type(a) for a in request.arguments]
        if request.has_number_beyond:
            exact = [int if kind is float else kind for kind in exact]
        function.numpy.resolve_dtypes((*exact, *outs), casting=casting)
    if request.has_number_beyond:
        casting = "same_kind"  # as in NumPy, the array is not cast
    return compile_function(
        function,
        request.types,
        tuple(None if o is None else o.newbyteorder("=") for o in outs),
        request.mask is not None,
        request.dtype,
        casting,
    )


def _outputs(
    program: ElementProgram, request: _UfuncRequest, shape: tuple[int, ...]
) -> tuple[list[Array], list[Array]]:
    """Return the outputs, and the arrays to compute into: copies of outputs that overlap the inputs."""
    arrays = [a for a in (*request.arguments, request.mask) if isinstance(a, np.ndarray)]
    finals: list[Array] = []
    targets: list[Array] = []
    for out, dtype in zip(request.outs, program.out_dtypes, strict=True):
        if out is None:
            target = final = operands.allocate(dtype, shape, arrays)
        else:
            target = final = out
            overlaps = needs_copy(out, [*arrays, *finals]) or any(np.may_share_memory(out, f) for f in finals)
            if overlaps or program.may_raise:
                target = out.copy()
        finals.append(final)
        targets.append(target)
    return finals, targets


_DEFAULTS = {
    "out": None,
    "where": True,
    "dtype": None,
    "signature": None,
    "casting": "same_kind",
    "order": "K",
}
_DEFAULTS["subok"] = True


def _non_default(function: ElementFunction, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that differ from their defaults."""
    passed = {name: value for name, value in keywords.items() if value is not _DEFAULTS[name]}
    if "where" in passed:
        # Without `out` NumPy would warn; `warn_uninitialized` has already done so where it is due.
        passed.setdefault("out", None if function.outputs == 1 else (None,) * function.outputs)
    return passed


_NDARRAYS = np.ndarray.__array_ufunc__


def warn_uninitialized(*values: Any) -> None:
    """Warn, as NumPy does since 2.4, that a new result is uninitialized where the mask is off.

    It does not warn if the class of a value overrides `__array_ufunc__`.
    """
    if any(getattr(type(value), "__array_ufunc__", _NDARRAYS) is not _NDARRAYS for value in values):
        return
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        text = "'where' used without 'out', expect uninitialized memory in output. "
        text += "If this is intentional, use out=None."
        warnings.warn(text, UserWarning, stacklevel=caller_stacklevel())


def resolve_signature(signature: Any, sig: Any) -> Any:
    """Return `signature` or its alias `sig`, whichever was passed."""
    if signature is not None and sig is not None:
        raise TypeError("cannot specify both 'sig' and 'signature'")
    return sig if signature is None else signature


def call_with_keywords(
    function: ElementFunction,
    inputs: Sequence[Any],
    out: Any,
    where: Any,
    dtype: Any,
    casting: str,
    order: str,
    subok: bool,
    signature: Any,
) -> Any:
    """Compute a function with NumPy's rarer keywords: `order`, `subok` and `signature`."""
    if signature is not None and dtype is not None:
        raise TypeError("cannot specify both 'signature' and 'dtype'")
    passed = {"out": out, "where": where, "dtype": dtype, "signature": signature}
    passed |= {"casting": casting, "order": order, "subok": subok}
    compute = functools.partial(function.numpy, *inputs, **_non_default(function, passed))
    if context.current_engine() in ("auto", "numpy"):
        return native_call.run_numpy(function.name, "auto: only NumPy supports these keywords", compute)
    if not isinstance(subok, bool):
        raise TypeError("'subok' must be a boolean")
    order = as_order(order)
    if signature is not None:
        value = foreign_arrays.overriding_argument((*inputs, out, where))
        if value is not None:
            return foreign_arrays.delegate_to_override(function.name, value, compute)
        inputs, _ = foreign_arrays.read_all(function.name, function.labels or function.numpy, inputs, {})
        inputs = _cast_to_signature(function, inputs, signature, casting)
    result = call(function, inputs, None if out is ... else out, where, dtype, casting, None)
    if out is not None and out is not ...:
        return result
    if order == "A":
        order = "F" if all(np.asarray(value).flags.f_contiguous for value in inputs) else "C"
    results = [
        np.asarray(part, order=order) if out is ... or np.ndim(part) else part  # type: ignore[call-overload]
        for part in (result if function.outputs > 1 else (result,))
    ]
    return tuple(results) if function.outputs > 1 else results[0]


def _cast_to_signature(
    function: ElementFunction, inputs: Sequence[Any], signature: Any, casting: str
) -> list[Array]:
    """Convert the inputs to the types of the loop that a signature selects."""
    values = [value if type(value) in (float, int) else np.asarray(value) for value in inputs]
    none = [np.empty(0, value.dtype) if isinstance(value, np.ndarray) else value for value in values]
    function.numpy(*none, signature=signature, casting=casting)  # raises NumPy's error
    argument_types = (*(_type_of(value) for value in values), *(None,) * function.outputs)
    resolve: Any = function.numpy.resolve_dtypes  # type: ignore[attr-defined]
    types = resolve(
        argument_types, signature=_listed(signature, len(values), function.outputs), casting=casting
    )
    return [np.asarray(value).astype(dtype, copy=False) for value, dtype in zip(values, types, strict=False)]


def _listed(signature: Any, inputs: int, outputs: int) -> tuple[Any, ...]:
    """Return a signature as a tuple of dtypes: inputs, then outputs."""
    listed = tuple(signature.replace("->", "")) if isinstance(signature, str) else signature
    listed = listed if isinstance(listed, tuple) else (listed,)
    if len(listed) == 1:  # the outputs' type alone
        listed = (*(None,) * inputs, *listed * outputs)
    return tuple(None if each is None else np.dtype(each) for each in listed)


def choose(
    function: ElementFunction, program: ElementProgram, arguments: Sequence[Any], size: int, up: int
) -> EngineChoice:
    """Choose the engine of a plain call under `auto`, and remember the sizes at which NumPy is fastest."""
    choice = program_cost.choose(function.name, program, size, up)
    if choice.engine == "numpy":
        function.remember_small(tuple(map(_type_of, arguments)), program)
    return choice


def _is_input(out: Array | None, read: Sequence[Array]) -> bool:
    return out is not None and any(np.may_share_memory(out, array) for array in read)


def _passed_keywords(where: Any, **keywords: Any) -> dict[str, Any]:
    """Return the keywords that were passed."""
    passed = {name: value for name, value in keywords.items() if value is not None}
    return passed if where is True else {**passed, "where": where}


def _is_plain(out: Any, where: Any, dtype: Any, casting: str) -> bool:
    return out is None and where is True and dtype is None and casting == "same_kind"


@functools.lru_cache(1024)
def _dispatcher(function: ElementFunction) -> Dispatcher:
    """Return the implementations of a function for arrays of other libraries."""

    def on_dask(inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        where, casting = named["where"], named["casting"]
        cast = None if casting == "same_kind" else casting
        passed = _passed_keywords(out=named["out"], where=where, dtype=named["dtype"], casting=cast)
        return late_bound.call_on_dask(function.name, inputs, passed)

    def device_fast_path(*inputs: Any, out: Any, where: Any, dtype: Any, casting: str) -> Any:
        return device_launch.call(function, inputs, out) if _is_plain(None, where, dtype, casting) else None

    def on_pandas(inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if not _is_plain(**named):
            return NotImplemented

        # Few programs need them; the public function's dispatch cache chooses by measured times.
        pandas_ufuncs: Any = importlib.import_module("pycudakit._interop.pandas_ufuncs")
        public: Any = importlib.import_module("pycudakit._families.elementwise.ufuncs")
        compute = getattr(public, function.name)
        return pandas_ufuncs.call_by_values(function.name, inputs, lambda values: compute(*values))

    return Dispatcher(
        function.name,
        function,
        function.labels or function.numpy,
        on_dask=on_dask,
        on_device=functools.partial(late_bound.call_on_device, function),
        device_fast_path=device_fast_path,
        accepts_nulls=True,
        on_pandas=on_pandas if isinstance(function.numpy, np.ufunc) and function.outputs == 1 else None,
    )


def call(
    function: ElementFunction,
    inputs: Sequence[Any],
    out: Any,
    where: Any,
    dtype: Any,
    casting: str,
    numpy_call: Callable[..., Any] | None,
) -> Any:
    """Compute a function of any arguments that NumPy takes: see `fast_path.call`."""
    original = inputs

    def compute(inputs: Sequence[Any]) -> Any:
        if numpy_call is not None:
            return numpy_call(*inputs)
        passed = _non_default(function, {"out": out, "dtype": dtype, "where": where, "casting": casting})
        return function.numpy(*inputs, **passed)

    if not all(map(foreign_arrays.is_ordinary, (*inputs, out, where))):
        named = {"out": out, "where": where, "dtype": dtype, "casting": casting}
        result = _dispatcher(function).dispatch(inputs, named, functools.partial(compute, inputs))
        if result is not NotImplemented:
            return result
        if context.current_engine() not in ("auto", "numpy"):
            foreign_arrays.check_indices(function.name, original)
        named = {"out": out, "where": where}
        parameters = function.labels or function.numpy
        mask_aware = function.numpy is not np.where
        inputs, named = foreign_arrays.read_all(
            function.name, parameters, inputs, named, mask_aware=mask_aware
        )
        out, where = named["out"], named["where"]

    def by_numpy(reason: Reason) -> Any:
        return native_call.run_numpy(function.name, reason, functools.partial(compute, inputs))

    engine = context.current_engine()
    choice = (
        None if engine == "auto" else requested_engine(function.name, engine)
    )  # raises NoDevice before anything is read
    if choice is not None and engine == "numpy":
        return by_numpy(choice.reason)
    if choice is None and not (
        engine_status.status("cpu").available or engine_status.status("cuda").available
    ):
        return by_numpy(f"auto: {engine_status.status('cpu').reason}")

    request = _read(function, inputs, out, where, dtype)
    if request.unsupported is not None:
        if choice is None:
            return by_numpy("auto: only NumPy supports these types")
        return by_numpy(_refused_or_by_numpy(function.name, engine, *request.unsupported).reason)
    program = _compile(function, request, casting)
    shape = broadcast(request.read, request.outs)
    if function.name == "power" and 0 not in shape:
        _check_exponents(program, request.arguments, request.mask)
    if choice is None:
        choice = _choose(function, program, request, shape)
        if choice.engine == "numpy":
            return by_numpy(choice.reason)
        # If an output overwrites an input, no other engine could resume after a failure.
        if any(_is_input(out, request.read) for out in request.outs):
            choice = dataclasses.replace(choice, automatic=False)
    results, targets = _outputs(program, request, shape)
    _run(choice, program, shape, (*targets, request.mask, *request.arguments))
    for result, target in zip(results, targets, strict=True):
        if result is not target:
            result[...] = target
    finished = tuple(
        result[()] if o is None and result.ndim == 0 else result
        for result, o in zip(results, request.outs, strict=True)
    )
    if original is not inputs and out is None:
        finished = tuple(foreign_arrays.with_pandas_index(result, original) for result in finished)
    return finished if function.outputs > 1 else finished[0]


def _choose(
    function: ElementFunction, program: ElementProgram, request: _UfuncRequest, shape: tuple[int, ...]
) -> EngineChoice:
    """Choose the engine of a call under `auto`."""
    size = math.prod(shape)
    up = sum(array.nbytes for array in request.read)
    if request.mask is None and request.dtype is None and not any(o is not None for o in request.outs):
        return choose(function, program, request.arguments, size, up)
    return program_cost.choose(function.name, program, size, up)


def _run(
    choice: EngineChoice, program: ElementProgram, shape: tuple[int, ...], values: Sequence[Any]
) -> None:
    works = prepared_programs(program)
    work = works.take()
    size = values[0].size
    try:
        layouts = [layout_of(value) if isinstance(value, np.ndarray) else None for value in values]
        work.bind_strided(shape, values, layouts)
        if work.run(choice, size):
            work.report_fp_flags()
    finally:
        works.give_back(work)
