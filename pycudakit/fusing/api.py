"""`fuse`: a function of NumPy's as few passes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pycudakit import errors
from pycudakit._interop.foreign_arrays import check_devices, is_ordinary, read, read_all, takes_devices
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import SMALL
from pycudakit._runtime.native_call import (
    FAILURES,
    apart,
    by_numpy,
    last_call,
    one_call,
    recorder,
    warn_of_takeover,
)
from pycudakit.fusing import replay
from pycudakit.fusing.arguments import Homeward
from pycudakit.fusing.escape import arrays_elsewhere, replace_left
from pycudakit.fusing.guards import Outside, outside_of
from pycudakit.fusing.memory.imported_arrays import Lending
from pycudakit.fusing.memory.pytree import (
    all_stand_ins,
    arrays_in,
    copied,
    devices_in,
    mapped,
    names_of,
    places_of,
    plain,
)
from pycudakit.fusing.numpy_api.registry import CAPTURED
from pycudakit.fusing.pickling import OWN, named, twin
from pycudakit.fusing.schedule.cost import Trial, numbers_in
from pycudakit.fusing.schedule.explain import Explained
from pycudakit.fusing.trace.current_trace import active, recording_now
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.traced_body import Body

SMALL_ARRAYS = 4096  # elements of all arguments: with no more, `auto` has NumPy run a function as it is

P = ParamSpec("P")
R = TypeVar("R")


class Fused(Generic[P, R]):
    """A function that runs as few passes: what `fuse` returns.

    Called, it does what the function does; `explain` tells how. ``__wrapped__`` is the function as it was.

    Parameters
    ----------
    function
        What is run.
    strict
        Whether a break raises.

    Notes
    -----
    Under the engine ``"numpy"`` the function runs as it was, and so do generators and coroutines always.
    Under ``"auto"``, the first call with arrays of some shapes and types runs pass by pass, and later ones
    where such a call was found to be cheapest, by measuring some of them where that is not clear.

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

    def __init__(self, function: Callable[P, R], strict: bool) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._strict = strict
        self._body = Body(function)
        self._runs_later = any(
            test(function)
            for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        )
        self._recorded = one_call(getattr(function, "__name__", "fused"), of_passes=True)(self._record)
        self._record_small = recorder(Call(self._name, "numpy", SMALL))
        self._best: dict[tuple[Any, ...], str | Trial] = {}  # engine, by the arrays' shapes and types

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function."""
        if recording_now() is not None:
            return self._body(*args, **kwargs)  # type: ignore[no-any-return]
        engine = context.checked_current()
        if self._runs_later:
            return self.__wrapped__(*args, **kwargs)
        if context.is_numpys(engine):
            return by_numpy(self._name, context.ASKED_FOR, lambda: self.__wrapped__(*args, **kwargs))
        if not (all(map(is_ordinary, args)) and all(map(is_ordinary, kwargs.values()))):
            if (answer := replay.played(self, args, kwargs)) is not NotImplemented:
                return answer  # type: ignore[no-any-return]
            devices = devices_in((args, kwargs)) if takes_devices() else []
            if devices:
                run = functools.partial(self._run_on_devices, devices)
                return replay.call(self, run, args, kwargs)  # type: ignore[no-any-return]
            args, kwargs = read_all(self._name, self.__wrapped__, args, kwargs, by_numpy=True)  # type: ignore[assignment]
        result: R
        arrays = arrays_in(args)
        if kwargs:
            arrays += arrays_in(kwargs.values())
        if engine == "auto":
            result = self._run_automatically(arrays, args, kwargs)
            return result
        recording = Recording(self._name, CAPTURED, self._strict)
        result = self._recorded(recording, arrays, args, kwargs)
        return result

    def _run_automatically(self, arrays: list[Any], args: Any, kwargs: Any) -> Any:
        """Run it where such arguments were cheapest, by what it did with some before."""
        key = tuple([(array.shape, array.dtype) for array in arrays])
        best = self._best.get(key)
        if best is None and 0 < sum(array.size for array in arrays) <= SMALL_ARRAYS and not self._strict:
            return self._run_small(key, args, kwargs)
        if best == "numpy" and not self._strict:
            return self._run_by_numpy(args, kwargs)
        if best == "cuda":
            return self._run_on_cuda(arrays, args, kwargs)
        if isinstance(best, Trial):
            who = best.next_one(numbers_in([*args, *kwargs.values()]))
            if who is not None:
                return self._run_measured(best, who, key, arrays, args, kwargs)
        recording = Recording(self._name, CAPTURED, self._strict)
        recording.costs.are_of_small = best == "unknown"
        result = self._recorded(recording, arrays, args, kwargs)
        if best in (None, "unknown"):
            recording.costs.up += sum(array.nbytes for array in arrays)
            recording.costs.down += sum(array.nbytes for array in arrays_in([result]))
            if len(self._best) >= _MOST_KEYS:
                self._best.clear()
            self._best[key] = best = recording.costs.best()
            if best == "cpu" and not (recording.costs.are_clear or self._strict):
                self._best[key] = Trial(numbers_in([*args, *kwargs.values()]))
        return result

    def _run_measured(
        self, trial: Trial, who: str, key: tuple[Any, ...], arrays: list[Any], args: Any, kwargs: Any
    ) -> Any:
        """Run it, and remember who answers first once enough calls were measured."""
        began = time.perf_counter()
        if who == "numpy":
            result = self._run_by_numpy(args, kwargs)
        else:
            result = self._recorded(Recording(self._name, CAPTURED, self._strict), arrays, args, kwargs)
        first = trial.took(who, time.perf_counter() - began)
        if first is not None:
            self._best[key] = first
        return result

    def _run_small(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Have NumPy run what has small arguments; should it take long, it is written down the next time."""
        began = time.thread_time()  # however busy the machine is
        result = self._run_by_numpy(args, kwargs)
        if time.thread_time() - began > _LONG:
            self._best[key] = "unknown"
        return result

    def _run_by_numpy(self, args: Any, kwargs: Any) -> Any:
        if context.fast() == context.WATCHED:
            return by_numpy(self._name, SMALL, lambda: self.__wrapped__(*args, **kwargs))
        result = self.__wrapped__(*args, **kwargs)
        self._record_small()
        return result

    def _run_on_cuda(self, arrays: list[Any], args: Any, kwargs: Any) -> Any:
        """Run it on the GPU; where that fails before an argument was written to, on the CPU engine."""
        recording = None
        put_back = places_of([*args, *kwargs.values()])
        try:
            with context.asking(engine="cuda"):
                recording = Recording(self._name, CAPTURED, self._strict)
                return self._recorded(recording, arrays, args, kwargs)
        except FAILURES as error:
            if recording is not None and recording.memory.written:
                raise
            warn_of_takeover(error)
            put_back()
        with context.asking(engine="cpu"):
            return self._recorded(Recording(self._name, CAPTURED, self._strict), arrays, args, kwargs)

    @functools.cached_property
    def outside(self) -> Outside | None:
        """What the function names outside, if calls of one kind are alike."""
        return None if self._runs_later else outside_of(self.__wrapped__)

    def _run_on_devices(self, devices: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Run it where its arrays lie; its results will lie there, too."""
        there = set(map(id, devices))
        if not all(id(value) in there or is_ordinary(value) for value in (*args, *kwargs.values())):
            args, kwargs = mapped((args, kwargs), _given(self._name, devices))
        with contextlib.nullcontext() if context.current() == "cuda" else context.asking(engine="cuda"):
            recording = Recording(self._name, CAPTURED, self._strict)
            return self._recorded(recording, arrays_in([args, kwargs]), args, kwargs, devices)

    @property
    def _name(self) -> str:
        return getattr(self.__wrapped__, "__name__", "fused")

    def _record(
        self, recording: Recording, arrays: list[Any], args: Any, kwargs: Any, devices: Sequence[Any] = ()
    ) -> Any:
        recording.memory.given([plain(array) for array in arrays])
        recording.memory.elsewhere = functools.partial(
            arrays_elsewhere, self.__wrapped__, self._body.is_ours, (*args, *kwargs.values())
        )
        body = functools.partial(self._run, recording, args, kwargs)
        if devices:
            body = functools.partial(self._run_lending, recording, devices, args, kwargs)
        try:
            gpus = (0,) if devices else context.devices_asked()
            return recording.memory.scope.run(recording.engine, body, gpus)
        except FAILURES as error:
            if not recording.memory.written:
                raise
            raise type(error)(f"{error}; {self._name} had begun to write to its arguments") from error

    def _run_lending(self, recording: Recording, devices: Sequence[Any], args: Any, kwargs: Any) -> Any:
        try:
            lending = Lending(recording.memory, devices)
        except errors.Error:
            check_devices(self._name, self.__wrapped__, args, kwargs)  # which names the argument
            raise
        recording.memory.scope.be_on(lending.device)
        lending.queue()
        own = (lending.device,)
        is_usual = context.devices_asked() == own
        try:
            with contextlib.nullcontext() if is_usual else context.asking(devices=own):
                return self._run(recording, args, kwargs, lending)
        finally:
            lending.give_back()

    def _run(self, recording: Recording, args: Any, kwargs: Any, lending: Lending | None = None) -> Any:
        homeward = Homeward(recording, lending)
        roots = self.__wrapped__, args, kwargs
        args, kwargs = homeward.stand_ins(self.__wrapped__, args, kwargs)
        known = sys.getrefcount(recording)  # which each stand-in refers to
        token = active.set(recording)
        try:
            result = self._body(*args, **kwargs)
        except BaseException as error:
            # After a failure of the engine, what it has may be lost; that is told already.
            with contextlib.suppress(*(errors.Error,) * isinstance(error, errors.Error)):
                recording.memory.bring_home()
                homeward.give_back()
                replace_left((*roots, error), homeward.of)
            raise
        finally:
            active.reset(token)
            recording.is_over = True
        if lending is None:
            recording.finish(all_stand_ins(result))
        else:
            homeward.compute_on_device(all_stand_ins(result), lending)
        homeward.give_back()
        result = homeward.of(result)
        if sys.getrefcount(recording) > known:
            replace_left((*roots, result), homeward.of)
            result = mapped(result, homeward.iterator_of)
        if lending is not None:
            recording.finish(())
        recording.is_left_to_numpy = True
        return result

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explained:
        """Run the function with copies of its arrays, and tell what it did.

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
        if context.is_numpys(context.checked_current()):
            return Explained(self._name, "numpy", (), ())
        devices = devices_in((args, kwargs)) if takes_devices() else []
        if devices:
            check_devices("explain", self.__wrapped__, args, kwargs)
            with context.asking(engine="cuda"):
                return self._explain(*mapped((args, kwargs), _given("explain", devices)))
        return self._explain(*read_all("explain", self.__wrapped__, args, kwargs, by_numpy=True))

    def _explain(self, args: Any, kwargs: Any) -> Explained:
        args, kwargs = mapped((args, kwargs), copied)
        recording = Recording(self._name, CAPTURED, self._strict)
        recording.passes = []
        arrays = arrays_in([args, kwargs])
        recording.memory.label(names_of(self.__wrapped__, args, kwargs))
        with apart():
            self._recorded(recording, arrays, args, kwargs, devices_in((args, kwargs)))
            whole = last_call()
        return Explained(
            self._name,
            recording.engine if whole is None else whole.engine,
            tuple(recording.passes),
            tuple(recording.breaks),
            0 if whole is None else whole.bytes_up,
            0 if whole is None else whole.bytes_down,
            recording.memory.scope.bytes_kept,
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind it to an instance, as methods are."""
        return self if instance is None else BoundFused(self, instance)

    @functools.cached_property
    def _own(self) -> Any:
        return twin(self.__wrapped__)

    def __reduce__(self) -> Any:
        """Pickle it by its name, as a function; without one, as what is fused."""
        name: str = getattr(self.__wrapped__, "__qualname__", "")
        is_known = named(self.__module__, name) is self
        if is_known and self.__module__ != "__main__":
            return name
        return _fused_again, (self._own if is_known else self.__wrapped__, self._strict)

    def __repr__(self) -> str:
        """Tell what is fused."""
        return f"<fused {self.__wrapped__!r}>"


def _fused_again(function: Any, strict: bool) -> Fused[Any, Any]:
    name, _, own = getattr(function, "__qualname__", "").rpartition(".")
    if own == OWN:
        known = named(function.__module__, name)
        if isinstance(known, Fused) and known._own is function:  # noqa: SLF001
            return known
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
        """Tell whether it is the same function, bound to the same instance."""
        if not isinstance(other, BoundFused):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        """Return the same for equal ones."""
        return hash((self.__func__, id(self.__self__)))

    def __repr__(self) -> str:
        """Tell what is bound to what."""
        return f"<bound {self.__func__!r} of {self.__self__!r}>"

    def explain(self, *args: Any, **kwargs: Any) -> Explained:
        """Run the method with copies of its arrays, and tell what it did."""
        return self.__func__.explain(self.__self__, *args, **kwargs)


_MOST_KEYS = 256
_LONG = 5e-3  # seconds


def _given(title: str, devices: Sequence[Any]) -> Callable[[Any], Any]:
    """Return what reads an argument, but for what lies on a GPU."""
    there = {id(device) for device in devices}
    return lambda value: value if id(value) in there else read(value, title)


@overload
def fuse(function: Callable[P, R], *, strict: bool = False) -> Fused[P, R]: ...


@overload
def fuse(*, strict: bool = False) -> Callable[[Callable[P, R]], Fused[P, R]]: ...


def fuse(function: Any = None, *, strict: bool = False) -> Any:
    """Run a function of NumPy's as few passes over its arrays.

    Parameters
    ----------
    function : callable
        What is written for NumPy: a function or a method, under its decorator or given here.
    strict : bool, optional
        Whether a break raises `errors.Unsupported`, which says where it is and what to write instead.

    Returns
    -------
    Fused
        Called as the function is; without a function, what takes one.

    Notes
    -----
    At every call the body runs with stand-ins for the arrays among the arguments. They write down what is
    asked of them, and it is computed when it is needed, on the engine asked for, to the bits of pycudakit's
    functions called one by one.

    Where Python looks at a value, as `if`, ``float()`` and ``numpy.asarray()`` do, and where a function is
    one that pycudakit lacks, that much is computed first, and the body goes on: a break, which
    `Fused.explain` tells.

    Writing into an argument writes into the caller's array, and a view stays a view. Large arrays that are no
    arguments are read at once: better pass them.

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
        raise errors.Unsupported(f"fuse takes a function, and got {type(function).__name__}")
    return Fused(function, strict)
