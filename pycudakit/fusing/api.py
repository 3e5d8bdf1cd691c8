"""`fuse` and `Fused`: compile a NumPy function into as few fused kernels as possible.

A call traces the function's body (`tracing`), or is replayed where possible (`host_replay`, and
`device_replay` for device arrays). Under ``"auto"``, `autotuning` chooses its engine.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, overload

from pycudakit import errors
from pycudakit._interop.dispatch import Dispatcher
from pycudakit._interop.foreign_arrays import (
    can_use_device_arrays,
    check_device_arguments,
    is_ordinary,
    read_all,
)
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.engine_choice import NO_COST, EngineChoice, choose_engine
from pycudakit._runtime.native_call import (
    collect_calls,
    last_call,
)
from pycudakit.fusing import device_replay, host_replay
from pycudakit.fusing.autotuning import AutotunedFunction, NumPyCallsLeft, key_of, key_of_arrays
from pycudakit.fusing.memory.pytree import (
    arrays_in,
    copied,
    device_arrays_in,
    names_of,
    pandas_in,
    tree_map,
)
from pycudakit.fusing.pickling import UNFUSED, find_by_name, unfused_alias
from pycudakit.fusing.schedule.explain import Explained
from pycudakit.fusing.trace.current_trace import current_trace
from pycudakit.fusing.tracing import TracedFunction, read_unless_on_device

P = ParamSpec("P")
R = TypeVar("R")


class Fused(Generic[P, R]):
    """A fused function: the result of `fuse`.

    Calling it gives the function's results; `explain` shows how they are computed. ``__wrapped__`` is the
    original function.

    Parameters
    ----------
    function
        The function to run.
    strict
        Whether a graph break raises.

    Notes
    -----
    Under the engine ``"numpy"`` the original function runs, and generators and coroutines are never fused.
    Under ``"auto"``, calls whose arrays have at most 4096 elements run in NumPy until that has taken long;
    then a few are measured. For larger arrays, the first call with given shapes and dtypes is traced. Later
    calls run on the engine that was estimated to be fastest; where the estimates are close, a few calls are
    measured.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> @pk.fuse
    ... def halve(x):
    ...     x[x > 1] = 0
    ...     x *= 0.5
    >>> x = np.array([1.0, 4.0])
    >>> halve(x)
    >>> x
    array([0.5, 0. ])
    """

    is_fused_function: ClassVar = True  # read by modules of lower layers

    def __init__(self, function: Callable[P, R], strict: bool) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._traced = TracedFunction(function, strict)
        self._autotuned = AutotunedFunction(self._traced)
        self._dispatch = _dispatcher(self._traced).dispatch

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function."""
        traced = self._traced
        if current_trace() is not None:
            return traced.body(*args, **kwargs)  # type: ignore[no-any-return]
        engine, has_failed_to_replay = context.checked_current_engine(), False
        if traced.runs_lazily:
            return self.__wrapped__(*args, **kwargs)
        result: Any
        if engine == "auto" and not traced.strict:
            best = self._autotuned.best[key_of(args, kwargs)]
            if type(best) is EngineChoice:
                if best.engine == "numpy":
                    return traced.run_by_numpy(args, kwargs, best.reason)  # type: ignore[no-any-return]
                if best.engine == "cpu":
                    result = self._autotuned.replay("cpu", args, kwargs, best.reason)
                    if result is not NotImplemented:
                        return result  # type: ignore[no-any-return]
                    has_failed_to_replay = True
            elif isinstance(best, NumPyCallsLeft) and best.count():
                return traced.run_by_numpy(args, kwargs, best.reason)  # type: ignore[no-any-return]
        signature = host_replay.signature_of(traced, engine, args, kwargs)
        if signature is not None:
            result = traced.plans.replay(signature, context.REASON_ENGINE_REQUESTED)
            if result is not NotImplemented:
                return result  # type: ignore[no-any-return]
        if context.is_only_numpy(engine):
            reason = choose_engine(traced.name, (), NO_COST).reason
            return traced.run_by_numpy(args, kwargs, reason)  # type: ignore[no-any-return]
        has_foreign = not (all(map(is_ordinary, args)) and all(map(is_ordinary, kwargs.values())))
        if has_foreign:
            if (result := self._dispatch(args, kwargs, None)) is not NotImplemented:
                return result  # type: ignore[no-any-return]
            args, kwargs = read_all(traced.name, self.__wrapped__, args, kwargs, by_numpy=True)  # type: ignore[assignment]
        arrays = arrays_in(args)
        if kwargs:
            arrays += arrays_in(kwargs.values())
        if engine == "auto":
            tables = pandas_in((args, kwargs)) if has_foreign else []
            return self._autotuned.run(arrays, args, kwargs, tables, has_failed_to_replay)  # type: ignore[no-any-return]
        if signature is not None and traced.plans.may_capture(signature, is_warm=False):
            return traced.capture(signature, args, kwargs)  # type: ignore[no-any-return]
        known_scalars = traced.scalar_arguments
        result = traced.run(traced.new_trace(), arrays, args, kwargs)
        if signature is not None and traced.scalar_arguments is not known_scalars:
            signature = host_replay.signature_of(traced, engine, args, kwargs)
        traced.plans.note(signature)
        return result  # type: ignore[no-any-return]

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explained:
        """Return the passes and breaks of a call.

        If calls with these arguments are replayed, these are the passes of the plan, and nothing runs. Of
        calls that branch on computed numbers, they are those of the longest call that was captured. Else the
        function runs on copies of its arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> @pk.fuse
        ... def spread(x):
        ...     return x - np.mean(x)
        >>> with pk.engine("cpu"):
        ...     plan = spread.explain(np.ones(100_000))
        >>> [each.function for each in plan.passes], plan.breaks
        (['mean', 'subtract'], ())
        """
        if context.is_only_numpy(context.checked_current_engine()):
            return Explained(self._traced.name, "numpy", (), ())
        device_arrays = device_arrays_in((args, kwargs)) if can_use_device_arrays() else []
        if device_arrays:
            check_device_arguments("explain", self.__wrapped__, args, kwargs)
            with context.override(engine="cuda"):
                return self._explain(
                    *tree_map((args, kwargs), read_unless_on_device("explain", device_arrays))
                )
        signature = self._signature_of_replay(args, kwargs)
        tree = None if signature is None else self._traced.plans.tree_of(signature)
        if signature is not None and tree is not None:
            names = names_of(self.__wrapped__, args, kwargs)
            for key, array in signature.scalars.items():
                names[id(array)] = key if type(key) is str else self._traced.parameter_names()[key]  # type: ignore[index]
            names_of_arrays = [names.get(id(array), "?") for array in signature.arrays]
            return Explained.of_path(tree.longest_path, names_of_arrays, tree.breaks)
        return self._explain(*read_all("explain", self.__wrapped__, args, kwargs, by_numpy=True))

    def _signature_of_replay(self, args: Any, kwargs: Any) -> host_replay.Signature | None:
        """Return the signature of a call, on the engine that would replay it."""
        engine = context.current_engine()
        if engine == "auto":
            best = self._autotuned.best[key_of_arrays(arrays_in([args, kwargs]))]
            engine = best.engine if type(best) is EngineChoice else engine
        return host_replay.signature_of(self._traced, engine, args, kwargs)

    def _explain(self, args: Any, kwargs: Any) -> Explained:
        args, kwargs = tree_map((args, kwargs), copied)
        trace = self._traced.new_trace()
        trace.executor.passes = []
        arrays = arrays_in([args, kwargs])
        trace.buffers.label(names_of(self.__wrapped__, args, kwargs))
        device_arrays = device_arrays_in((args, kwargs))

        def run() -> Call | None:
            self._traced.run(trace, arrays, args, kwargs, device_arrays)
            return last_call()

        call, _ = collect_calls(run)
        return Explained(
            self._traced.name,
            trace.engine if call is None else call.engine,
            tuple(trace.executor.passes),
            tuple(trace.breaks),
            0 if call is None else call.bytes_up,
            0 if call is None else call.bytes_down,
            trace.buffers.scope.peak_resident_bytes,
            None if call is None else call.seconds,
            {} if call is None else {row.function: row.seconds or 0.0 for row in call.rest},
            () if trace.analysis is None else trace.analysis.described(),
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an instance, as methods do."""
        return self if instance is None else BoundFused(self, instance)

    @functools.cached_property
    def _unfused(self) -> Any:
        return unfused_alias(self.__wrapped__)

    def __reduce__(self) -> Any:
        """Pickle by name, as functions are; else pickle the wrapped function."""
        name: str = getattr(self.__wrapped__, "__qualname__", "")
        is_known = find_by_name(self.__module__, name) is self
        if is_known and self.__module__ != "__main__":
            return name
        unpickle = sys.modules["pycudakit"]._unpickle_fused  # noqa: SLF001  (stays when modules move)
        return unpickle, (self._unfused if is_known else self.__wrapped__, self._traced.strict)

    def __repr__(self) -> str:
        """Show the wrapped function."""
        return f"<fused {self.__wrapped__!r}>"


def _dispatcher(traced: TracedFunction) -> Dispatcher:
    """Return the implementations of a function for arrays of other libraries."""
    return Dispatcher(
        traced.name,
        traced,
        traced.function,
        on_dask=lambda *_: NotImplemented,  # the body runs on Dask's arrays
        on_device=lambda args, kwargs, signature: device_replay.call(
            signature, traced.run_on_devices, args, kwargs
        ),
        has_device_array=lambda value: bool(device_arrays_in(value)),
    )


def unpickle_fused(function: Any, strict: bool) -> Fused[Any, Any]:
    """Return the script's own fused function if its `_unfused` alias is `function`; else fuse `function`."""
    name, _, last = getattr(function, "__qualname__", "").rpartition(".")
    if last == UNFUSED:
        existing = find_by_name(function.__module__, name)
        if isinstance(existing, Fused) and existing._unfused is function:  # noqa: SLF001
            return existing
        function.__qualname__ = name
    return Fused(function, strict)


class BoundFused:
    """A fused method of an instance."""

    def __init__(self, function: Fused[Any, Any], instance: Any) -> None:
        functools.update_wrapper(self, function)
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method."""
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        """Return True if `other` is the same function, bound to the same instance."""
        if not isinstance(other, BoundFused):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        """Return a hash of the function and the instance."""
        return hash((self.__func__, id(self.__self__)))

    def __reduce__(self) -> Any:
        """Pickle it as Python's methods are pickled: the instance and the method's name."""
        return getattr, (self.__self__, self.__func__.__name__)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Return the function and the instance that it is bound to."""
        return f"<bound {self.__func__!r} of {self.__self__!r}>"

    def explain(self, *args: Any, **kwargs: Any) -> Explained:
        """Run the method on copies of its arrays, and return the passes and breaks of the call."""
        return self.__func__.explain(self.__self__, *args, **kwargs)


@overload
def fuse(function: Callable[P, R], *, strict: bool = False) -> Fused[P, R]: ...


@overload
def fuse(*, strict: bool = False) -> Callable[[Callable[P, R]], Fused[P, R]]: ...


def fuse(function: Any = None, *, strict: bool = False) -> Any:
    """Compile a NumPy function into as few fused kernels as possible.

    Parameters
    ----------
    function : callable
        A function or method written for NumPy. `fuse` may also be its decorator.
    strict : bool, optional
        Whether a graph break raises `errors.Unsupported`, whose message names the replacement.

    Returns
    -------
    Fused
        Called as the function is. Without `function`, a decorator is returned.

    See Also
    --------
    evaluate, Fused.explain, last_call

    Notes
    -----
    The body runs with tracers in place of the arrays among the arguments. A tracer records operations; they
    are computed when a value is needed, on the current engine, with the bits of the library functions called
    one by one. Calls of a body without side effects are replayed from the third one with a signature on: the
    recorded operations run without Python. It may have branches on computed numbers.

    Where Python needs a value, as `if`, ``float()`` and ``numpy.asarray()`` do, and where pycudakit lacks a
    function, the recorded operations are computed before the body goes on. This is a graph break;
    `Fused.explain` lists them.

    Of pandas' Series and DataFrames, operations that mean the same in NumPy are recorded: operators of Series
    with one index, elementwise functions, reading and assigning a column. pandas computes the others, which
    are graph breaks.

    Writing into an argument writes into the caller's array, and a view stays a view. A large array that is
    not an argument, such as a global, is read at once: pass it as an argument instead.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> @pk.fuse
    ... def distance(x, y):
    ...     return np.sqrt(x * x + y * y)
    >>> distance(np.array([3.0, 5.0]), np.array([4.0, 12.0]))
    array([ 5., 13.])
    """
    if function is None:
        return functools.partial(fuse, strict=strict)
    if not callable(function):
        raise errors.Unsupported(f"fuse takes a function, not {type(function).__name__}")
    return Fused(function, strict)
