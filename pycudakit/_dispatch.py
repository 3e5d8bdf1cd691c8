"""From a NumPy-like call to a program, an engine, and outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit import _call, _cost, _engine, _execute, _loader, _plain, errors
from pycudakit._arguments import (
    as_argument,
    as_mask,
    as_numpy_takes_numbers,
    as_outs,
    broadcast,
    needs_copy,
)
from pycudakit._function import Function, compile_function
from pycudakit._program import Program
from pycudakit._progress import CallProgress
from pycudakit._values import Array, code_of


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


@dataclass
class _Request:
    """A call's arguments as they will be computed with, or the first that NumPy alone takes."""

    arguments: list[Any]
    outs: list[Array | None]
    mask: Array | None
    dtype: np.dtype[Any] | None
    foreign: tuple[Any, str] | None = None  # the value, and what errors call it

    @functools.cached_property
    def types(self) -> tuple[Any, ...]:
        """The arguments' types: dtypes, or `int` and `float`."""
        return tuple(_type_of(argument) for argument in self.arguments)

    @functools.cached_property
    def read(self) -> list[Array]:
        """The arrays that are read."""
        arrays = [np.asarray(a) for a in self.arguments]
        return arrays if self.mask is None else [*arrays, self.mask]


def _read(function: Function, inputs: Sequence[Any], out: Any, where: Any, dtype: Any) -> _Request:
    if function.types_numbers:
        inputs = as_numpy_takes_numbers(function.name, inputs)
    request = _Request(
        arguments=[as_argument(value) for value in inputs],
        outs=as_outs(out, function.outputs),
        mask=as_mask(where),
        dtype=None if dtype is None else np.dtype(dtype),
    )
    named = zip(inputs, request.arguments, [*function.labels, *[""] * len(inputs)], strict=False)
    foreign = [(value, label) for value, argument, label in named if argument is None]
    foreign += [(o, "out") for o in request.outs if o is not None and as_argument(o) is None]
    if request.dtype is not None and code_of(request.dtype) is None:
        foreign.append((np.empty(0, request.dtype), "dtype"))
    request.foreign = foreign[0] if foreign else None
    return request


def _compile(function: Function, request: _Request, casting: str) -> Program:
    outs = [None if o is None else o.dtype for o in request.outs]
    if casting == "no" and hasattr(function.numpy, "resolve_dtypes"):  # "no" counts the byte order
        exact = (a.dtype if isinstance(a, np.ndarray) else type(a) for a in request.arguments)
        function.numpy.resolve_dtypes((*exact, *outs), casting=casting)
    return compile_function(
        function,
        request.types,
        tuple(None if o is None else o.newbyteorder("=") for o in outs),
        request.mask is not None,
        request.dtype,
        casting,
    )


def _outputs(program: Program, request: _Request, shape: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
    """Return the outputs, and what to compute into: copies of those that overlap what is read."""
    arrays = [a for a in (*request.arguments, request.mask) if isinstance(a, np.ndarray)]
    finals: list[Array] = []
    targets: list[Array] = []
    for out, dtype in zip(request.outs, program.out_dtypes, strict=True):
        if out is None:
            target = final = _execute.allocate(dtype, shape, arrays)
        else:
            target = final = out
            overlaps = needs_copy(out, [*arrays, *finals]) or any(np.may_share_memory(out, f) for f in finals)
            if overlaps or program.may_refuse:
                target = out.copy()
        finals.append(final)
        targets.append(target)
    return finals, targets


def _run(work: _execute.Work, request: _Request, engine: str, reason: str, automatic: bool) -> None:
    """Run on an engine; under `auto`, where nothing that is read is written, so that another may go on."""
    if automatic and engine == "cuda":
        given = [o for o in request.outs if o is not None]
        if not any(np.may_share_memory(o, array) for o in given for array in request.read):
            work.run_or_take_over(reason)
            return
    work.run(engine, reason)


def _choose(
    function: Function, program: Program, request: _Request, shape: tuple[int, ...]
) -> tuple[str, str]:
    """Return the engine that `auto` takes, and why; note for which sizes it will be NumPy next time."""
    size = math.prod(shape)
    up = sum(array.nbytes for array in request.read)
    plain = request.mask is None and request.dtype is None and not any(o is not None for o in request.outs)
    if plain and program.numpy_agrees and request.types not in function.numpy_below:
        known = _cost.estimate(program)
        function.numpy_below[request.types] = min(known.numpy_below, _cost.WORTH_WAKING / known.numpy)
    return _cost.choose(program, size, up)


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
    if where is True and dtype is None and casting == "same_kind":
        result = _plain.call(function, inputs, out)
        if result is not None:
            return result

    def by_numpy(reason: str) -> Any:
        if numpy_call is not None:
            return _call.by_numpy(function.name, reason, functools.partial(numpy_call, *inputs))
        given = {"out": out, "dtype": dtype, "where": where, "casting": casting}
        usual = {"out": None, "dtype": None, "where": True, "casting": "same_kind"}
        keywords = {k: v for k, v in given.items() if v is not usual[k]}
        return _call.by_numpy(function.name, reason, functools.partial(function.numpy, *inputs, **keywords))

    engine, reason = _engine.checked_current(), _engine.ASKED_FOR
    automatic = engine == "auto"
    if engine == "numpy":
        return by_numpy(reason)
    if not automatic:
        _loader.library(engine)  # or NoDevice, before anything else can be wrong
    elif not (_engine.status("cpu") or _engine.status("cuda")):
        return by_numpy(f"auto: {_engine.status('cpu').reason}")

    request = _read(function, inputs, out, where, dtype)
    if request.foreign is not None:
        if automatic:
            return by_numpy("auto: only NumPy takes these types")
        raise _refuse(function.name, engine, *request.foreign)
    program = _compile(function, request, casting)
    shape = broadcast(request.read, request.outs)
    if function.name == "power" and 0 not in shape:
        _check_exponents(program, request.arguments, request.mask)
    if automatic:
        engine, reason = _choose(function, program, request, shape)
        if engine == "numpy":
            return by_numpy(reason)

    results, targets = _outputs(program, request, shape)
    values = (*targets, request.mask, *request.arguments)
    work = _execute.take(function.name, program)
    try:
        work.aim(targets[0].size, *values)
        work.spread(shape, *values)
        progress = _engine.asked.get().progress
        if progress is None:
            _run(work, request, engine, reason, automatic)
        else:
            with CallProgress(progress, function.name, work.size) as work.progress:
                _run(work, request, engine, reason, automatic)
        work.report_exceptions()
    finally:
        _execute.give_back(work)
    for result, target in zip(results, targets, strict=True):
        if result is not target:
            result[...] = target
    finished = tuple(
        result[()] if o is None and result.ndim == 0 else result
        for result, o in zip(results, request.outs, strict=True)
    )
    return finished if function.outputs > 1 else finished[0]
