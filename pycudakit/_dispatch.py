"""From a NumPy-like call to a program, an engine, and outputs."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import _cost, _engine, _execute, _loader, errors
from pycudakit._program import Builder, Program
from pycudakit._values import BOOL, Scalar, Value, code_of

Array = np.ndarray[Any, Any]
Results = tuple[Value, ...]


class Function:
    """A NumPy function that a program can compute.

    Parameters
    ----------
    name
        NumPy's name, which is also the public one.
    numpy
        NumPy's own function.
    write
        Adds the function to a program: called with the builder, the arguments, and the keywords
        `out`, `dtype` and `casting` of `Builder.call`.
    numpy_agrees
        Whether NumPy's bits are ours, or none are promised, so that NumPy may answer small calls.
    labels
        What errors call the inputs, if those have names.
    types_numbers
        Whether Python numbers alone get a type, as from a ufunc.
    """

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        write: Callable[..., Results] | None = None,
        outputs: int = 1,
        numpy_agrees: bool = True,
        labels: tuple[str, ...] = (),
        types_numbers: bool = True,
    ) -> None:
        self.name = name
        self.numpy = numpy
        self.write = write or functools.partial(_write_ufunc, name)
        self.outputs = outputs
        self.numpy_agrees = numpy_agrees
        self.labels = labels
        self.types_numbers = types_numbers
        self.numpy_below: dict[tuple[Any, ...], float] = {}  # elements, by the arguments' types, once known
        self.small = _engine.Call(name, "numpy", _cost.SMALL)

    def is_small(self, first: Any, *others: Any) -> bool:
        """Tell whether NumPy will answer a plain call first, and if so, record that it did."""
        if type(first) is not np.ndarray or (_engine.context.get() or _engine.process) != "auto":
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
            _engine.local.call = self.small
        return small


def _write_ufunc(name: str, builder: Builder, *arguments: Value | Scalar, **keywords: Any) -> Results:
    return builder.call(name, *arguments, **keywords)


# Where a mask is off, arguments are replaced by one that no function objects to.
_HARMLESS = {"arctanh": 0}


@functools.lru_cache(4096)
def compile_function(
    function: Function,
    types: tuple[Any, ...],
    outs: tuple[Any, ...],
    masked: bool,
    dtype: Any,
    casting: str,
) -> Program:
    """Return the program of a function for arguments of these types: dtypes, or `int` and `float`."""
    builder = Builder()
    arguments: list[Value | Scalar] = [
        Scalar(t, i) if isinstance(t, type) else builder.load("input", i, t) for i, t in enumerate(types)
    ]
    mask = builder.load("mask", 0, BOOL) if masked else None
    if mask is not None:
        builder.mask, builder.harmless = mask, _HARMLESS.get(function.name, 1)
        arguments = [a if isinstance(a, Scalar) else builder.masked(a) for a in arguments]
    results = function.write(builder, *arguments, out=outs, dtype=dtype, casting=casting)
    with builder.naming(function.numpy.__name__):
        results = tuple(builder.convert(r, o or r.dtype) for r, o in zip(results, outs, strict=True))
    if mask is not None:
        olds = [
            builder.load("out", i, r.dtype) if outs[i] is not None else builder.constant(0, r.dtype)
            for i, r in enumerate(results)
        ]
        results = tuple(builder.select(mask, r, old) for r, old in zip(results, olds, strict=True))
    for i, result in enumerate(results):
        builder.store(result, i)
    return builder.finish()


def as_argument(value: Any) -> Any:
    """Return an array or a Python number as it will be computed with, or None for what is NumPy's alone."""
    kind = type(value)
    if kind is int or kind is float:
        return value
    if isinstance(value, np.memmap):
        value = value.view(np.ndarray)
    elif kind is not np.ndarray:
        if isinstance(value, np.ndarray) or (
            hasattr(kind, "__array_ufunc__") and not isinstance(value, np.generic)
        ):
            return None
        value = np.asarray(value)
    return value if code_of(value.dtype) is not None else None


_ANSWERS_BOOL = frozenset(
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split()  # noqa: SIM905
)


def _as_numpy_takes_numbers(name: str, inputs: Sequence[Any]) -> Sequence[Any]:
    """Give a type to Python numbers alone, and replace those out of range where that does no harm."""
    if all(type(value) in (int, float) for value in inputs):
        return [np.asarray(value) for value in inputs]
    if name not in _ANSWERS_BOOL or not any(type(value) is int for value in inputs):
        return inputs
    dtype = next(np.asarray(value).dtype for value in inputs if type(value) is not int)
    if dtype.kind not in "iu":
        return inputs
    limits = np.iinfo(dtype)
    beyond = [type(value) is int and not limits.min <= value <= limits.max for value in inputs]
    return [math.copysign(math.inf, v) if b else v for v, b in zip(inputs, beyond, strict=True)]


def _as_outs(out: Any, count: int) -> list[Array | None]:
    if out is None:
        return [None] * count
    if count > 1 and not isinstance(out, tuple):
        raise TypeError("'out' must be a tuple of arrays")
    outs = list(out) if isinstance(out, tuple) else [out]
    if len(outs) != count:
        raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
    if not all(o is None or isinstance(o, np.ndarray) for o in outs):
        raise TypeError("return arrays must be of ArrayType")
    return outs


def _as_mask(where: Any) -> Array | None:
    if where is True:
        return None
    mask = where if isinstance(where, np.ndarray) else np.asarray(where, bool)
    if mask.dtype != BOOL:
        raise TypeError(
            f"Cannot cast array data from {mask.dtype!r} to dtype('bool') according to the rule 'safe'"
        )
    return mask


def broadcast(arrays: Sequence[Array], outs: Sequence[Array | None]) -> tuple[int, ...]:
    """Return the shape of a call, with NumPy's errors for those that don't go together."""
    shapes = {a.shape for a in arrays}
    given = [o for o in outs if o is not None]
    try:
        shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
        full = np.broadcast_shapes(shape, *(o.shape for o in given)) if given else shape
    except ValueError:
        listed = " ".join(str(a.shape).replace(" ", "") for a in [*arrays, *given])
        raise ValueError(f"operands could not be broadcast together with shapes {listed} ") from None
    for out in given:
        if out.shape != full:
            own, whole = (str(s).replace(" ", "") for s in (out.shape, full))
            raise ValueError(
                f"non-broadcastable output operand with shape {own} doesn't match the broadcast shape {whole}"
            )
        if not out.flags.writeable:
            raise ValueError("output array is read-only")
    if math.prod(n for n in full if n) > sys.maxsize:
        raise ValueError(
            "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."
        )
    return full


def checked_output(name: str, result: Value, out: tuple[Any, ...], casting: str) -> tuple[Value]:
    """Refuse an output that NumPy would refuse, with its words."""
    if out[0] is not None and not np.can_cast(result.dtype, out[0], casting=casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast ufunc '{name}' output from {result.dtype!r} to {out[0]!r} "
            f"with casting rule '{casting}'"
        )
    return (result,)


def _same_elements(a: Array, b: Array) -> bool:
    return (
        a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    )


def _overlaps_itself(array: Array) -> bool:
    if array.flags.c_contiguous or array.flags.f_contiguous or array.size == 0:
        return False
    reach = array.itemsize
    for stride, size in sorted(
        (abs(st), n) for st, n in zip(array.strides, array.shape, strict=True) if n > 1
    ):
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def needs_copy(out: Array, others: Sequence[Array]) -> bool:
    """Tell whether writing to `out` while reading the others could change what is read."""
    return _overlaps_itself(out) or any(
        np.may_share_memory(out, other) and not _same_elements(out, other) for other in others
    )


def execute(
    program: Program,
    engine: str,
    name: str,
    reason: str,
    inputs: Sequence[Any],
    outs: Sequence[Array | None],
    mask: Array | None,
    shape: tuple[int, ...],
) -> list[Array]:
    """Run a program into outputs given or new, through copies of those that overlap what is read."""
    arrays = [a for a in inputs if isinstance(a, np.ndarray)]
    if mask is not None:
        arrays.append(mask)
    finals: list[Array] = []
    targets: list[Array] = []
    for out, dtype in zip(outs, program.out_dtypes, strict=True):
        if out is None:
            target = final = _execute.allocate(dtype, shape, arrays)
        else:
            target = final = out
            overlaps = needs_copy(out, [*arrays, *finals]) or any(np.may_share_memory(out, f) for f in finals)
            if overlaps or program.may_refuse:
                target = out.copy()
        finals.append(final)
        targets.append(target)
    _execute.run(program, engine, name, reason, inputs=inputs, outs=targets, shape=shape, mask=mask)
    for final, target in zip(finals, targets, strict=True):
        if final is not target:
            final[...] = target
    return finals


def _refuse(name: str, engine: str, value: Any, label: str = "") -> errors.Unsupported:
    what = f"an array of {value.dtype}" if type(value) is np.ndarray else f"a {type(value).__name__}"
    what += f" as {label}" * bool(label)
    return errors.Unsupported(
        f"{name}: the {engine} engine takes bool, integers and floats of up to 64 bits, and got {what}; "
        "convert it, or use the engine 'auto'"
    )


def _check_exponents(program: Program, inputs: Sequence[Any], mask: Array | None) -> None:
    if program.out_dtypes[0].kind not in "iu":
        return
    exponent = np.asarray(inputs[1])
    negative = exponent < 0 if mask is None else (exponent < 0) & mask
    if exponent.dtype.kind == "i" and negative.any():
        raise ValueError("Integers to negative integer powers are not allowed.")


def _type_of(argument: Any) -> Any:
    return argument.dtype.newbyteorder("=") if isinstance(argument, np.ndarray) else type(argument)


def call(
    function: Function,
    inputs: Sequence[Any],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    numpy_call: Callable[..., Any] | None = None,
) -> Any:
    """Compute a function on the engine that is asked for, or on the one that will answer first.

    `numpy_call` takes the place of the function's own `numpy` where that needs other arguments.
    """
    engine = _engine.checked_current()

    def by_numpy(reason: str) -> Any:
        _engine.local.call = _engine.Call(function.name, "numpy", reason)
        if numpy_call is not None:
            return numpy_call(*inputs)
        given = {"out": out, "dtype": dtype, "where": where, "casting": casting}
        usual = {"out": None, "dtype": None, "where": True, "casting": "same_kind"}
        return function.numpy(*inputs, **{k: v for k, v in given.items() if v is not usual[k]})

    if engine == "numpy":
        return by_numpy("the engine asked for")
    automatic = engine == "auto"
    if automatic and not (_engine.status("cpu") or _engine.status("cuda")):
        return by_numpy(f"auto: {_engine.status('cpu').reason}")
    if not automatic:
        _loader.library(engine)  # or NoDevice, before anything else can be wrong
    arguments = [
        as_argument(value)
        for value in (_as_numpy_takes_numbers(function.name, inputs) if function.types_numbers else inputs)
    ]
    outs = _as_outs(out, function.outputs)
    mask = _as_mask(where)
    wanted = None if dtype is None else np.dtype(dtype)
    foreign = [v for v, a in zip(inputs, arguments, strict=True) if a is None]
    foreign += [o for o in outs if o is not None and as_argument(o) is None]
    if wanted is not None and code_of(wanted) is None:
        foreign.append(np.empty(0, wanted))
    if foreign:
        if automatic:
            return by_numpy("auto: only NumPy takes these types")
        labels = (label for a, label in zip(arguments, function.labels, strict=False) if a is None)
        raise _refuse(function.name, engine, foreign[0], next(labels, ""))

    if casting == "no" and hasattr(function.numpy, "resolve_dtypes"):  # "no" counts the byte order
        exact = (a.dtype if isinstance(a, np.ndarray) else type(a) for a in arguments)
        function.numpy.resolve_dtypes(
            (*exact, *(None if o is None else o.dtype for o in outs)), casting=casting
        )
    types = tuple(_type_of(a) for a in arguments)
    out_types = tuple(None if o is None else _type_of(o) for o in outs)
    program = compile_function(function, types, out_types, mask is not None, wanted, casting)
    arrays = [np.asarray(a) for a in arguments]
    shape = broadcast([*arrays, mask] if mask is not None else arrays, outs)
    if function.name == "power" and 0 not in shape:
        _check_exponents(program, arguments, mask)
    reason = "the engine asked for"
    if automatic:
        size = math.prod(shape)
        up, down = sum(a.nbytes for a in arrays), size * sum(d.itemsize for d in program.out_dtypes)
        engine, reason = _cost.choose(program, size, up, down, function.numpy_agrees)
        plain = out is None and mask is None and wanted is None
        if plain and function.numpy_agrees:
            function.numpy_below.setdefault(types, _cost.numpy_below(program))
        if engine == "numpy":
            return by_numpy(reason)
    run = functools.partial(
        execute, program, name=function.name, inputs=arguments, outs=outs, mask=mask, shape=shape
    )
    try:
        results = run(engine=engine, reason=reason)
    except (errors.NoDevice, errors.OutOfMemory, errors.DeviceError) as error:
        read = [a for a in [*arrays, mask] if a is not None]
        overwritten = any(o is not None and any(np.may_share_memory(o, a) for a in read) for o in outs)
        if not automatic or engine != "cuda" or overwritten:
            raise
        warnings.warn(
            f"the CUDA engine failed, and the CPU engine took over: {error}",
            RuntimeWarning,
            stacklevel=_execute.level_of_caller(),
        )
        results = run(engine="cpu", reason="auto: the CUDA engine failed")
    finished = tuple(
        r[()] if o is None and r.ndim == 0 else (r if o is None else o)
        for r, o in zip(results, outs, strict=True)
    )
    return finished if function.outputs > 1 else finished[0]
