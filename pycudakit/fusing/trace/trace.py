"""One call of a fused function: what it asks of its arrays, as NumPy has it asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._native import allocator
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime.native_call import last_call
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.scheduler import stand_ins_in
from pycudakit.fusing.trace.elementwise import element_function
from pycudakit.fusing.trace.indexing import Indexing
from pycudakit.fusing.trace.out_argument import wanted, with_out_named
from pycudakit.fusing.trace.where_argument import is_mask_of, masked


class Recording(Indexing):
    """What a fused function asks for while it runs.

    Parameters
    ----------
    name
        The function's.
    captured
        Of NumPy's functions, which are no ufuncs, who takes them: called with the recording first.
    strict
        Whether a look raises.
    """

    def __init__(self, name: str, captured: Mapping[Any, Callable[..., Any]], strict: bool) -> None:
        super().__init__(name, strict)
        self._captured = captured

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def operate(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Write an operator down."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises(inputs)
        if self.rest_is_numpys():
            return self._rest(ufunc, inputs, {})
        function = element_function(ufunc)
        if function is None:
            return self.ufunc(ufunc, "__call__", inputs, {})
        return self.apply(function, inputs)

    def operate_in_place(self, ufunc: Any, target: StandIn, other: Any) -> StandIn:
        """Write an operator down that changes its left operand."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises((target, other))
        else:
            inputs = (target, other)
        if self.rest_is_numpys():
            return self._rest(ufunc, inputs, {"out": (target,)})  # type: ignore[no-any-return]
        function = element_function(ufunc)
        if function is None:
            result: StandIn = self.ufunc(ufunc, "__call__", inputs, {"out": (target,)})
            return result
        changed: StandIn = self.apply(function, inputs, out=target)
        return changed

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a ufunc down, or have NumPy compute it."""
        inputs, keywords = self.own(inputs), self.own(keywords)
        if self.rest_is_numpys():
            return self._rest(getattr(ufunc, method), inputs, keywords)
        function = element_function(ufunc)
        if function is not None and method == "__call__" and not keywords:
            return self.apply(function, inputs)
        if any(type(out) is StandIn and out.is_scalar for out in keywords.get("out") or ()):
            raise TypeError("return arrays must be of ArrayType")
        if method == "__call__":
            taken = self._plain_ufunc(function, inputs, keywords)
            if taken is not NotImplemented:
                return taken
        captured = self._captured.get(ufunc if method == "__call__" else (ufunc, method))
        if captured is not None:
            taken = self._taken(ufunc if method == "__call__" else None, captured, inputs, keywords)
            if taken is not NotImplemented:
                return taken
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self.by_numpy(getattr(ufunc, method), inputs, keywords, name)

    def _plain_ufunc(
        self, function: ElementFunction | None, inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if function is None or not keywords.keys() <= {"out", "dtype", "casting", "where"}:
            return NotImplemented
        (out,) = keywords.get("out") or (None,)
        if keywords.get("where", True) is not True:
            return self._masked_ufunc(function, inputs, out, **keywords)
        if out is not None and type(out) is not StandIn:
            if type(out) is not np.ndarray or out.dtype not in CODES:
                return NotImplemented
            result = self.apply(
                function, inputs, out=self.outside(out), **{k: v for k, v in keywords.items() if k != "out"}
            )
            self.share(result)
            return out
        dtype = keywords.get("dtype")
        return self.apply(
            function,
            inputs,
            out=out,
            dtype=None if dtype is None else np.dtype(dtype),
            casting=keywords.get("casting", "same_kind"),
        )

    def _masked_ufunc(
        self,
        function: ElementFunction,
        inputs: tuple[Any, ...],
        target: Any,
        *,
        where: Any,
        out: Any = None,  # noqa: ARG002
        dtype: Any = None,
        casting: str = "same_kind",
    ) -> Any:
        """Write a ufunc down that leaves elements as they are."""
        if type(target) is not StandIn or not is_mask_of(where, target.shape):
            return NotImplemented
        if function.name == "power" and target.dtype.kind in "iu":  # which may be refused for an element
            return NotImplemented
        of_mask = masked(function, None if dtype is None else np.dtype(dtype), casting)
        return self.apply(of_mask, (*inputs, where, target), out=target)

    def outside(self, array: Array) -> StandIn:
        """Return what stands for an array that is no argument, to be written to."""
        return StandIn(self, leaf(*self.memory.newest(array, self.memory.storage_for(array))))

    def share(self, stand_in: StandIn) -> None:
        """Bring it to the host, where others see it, and may write to it."""
        self.in_one_memory(stand_in)
        storage = stand_in.node.storage
        if storage is not None:
            self.compute_readers(storage)
            storage.share()

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a function of NumPy's down, or have NumPy compute it."""
        arguments, keywords = self.own(arguments), self.own(keywords)
        if self.rest_is_numpys():
            return self._rest(function, arguments, keywords)
        captured = self._captured.get(function)
        if captured is not None:
            taken = self._taken(function, captured, arguments, keywords)
            if taken is not NotImplemented:
                return taken
        return self.by_numpy(function, arguments, keywords)

    def _taken(
        self,
        function: Any,
        captured: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call who takes a function; return NotImplemented for arguments that only NumPy has it take."""
        try:
            if function is not None:
                return self.with_out(function, captured, arguments, keywords)
            return self.handled(captured, self, *arguments, **keywords)
        except errors.Unsupported:
            if self.strict and self.breaks:  # which told of itself
                raise
            return NotImplemented

    def with_out(
        self,
        function: Any,
        captured: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call who takes a function, and copy the result to an `out` on the device, if that can be."""
        arguments, keywords = with_out_named(function, arguments, keywords)
        without_out = wanted(function, arguments, keywords) if self.memory.scope.is_open else None
        if without_out is not None:
            result = self.handled(captured, self, *without_out.arguments, **without_out.keywords)
            result = NotImplemented if result is NotImplemented else self.wrap(result)
            if without_out.takes(result):
                self.set(without_out.out, ..., result)
                return without_out.out
        result = self.handled(captured, self, *arguments, **keywords)
        return result if result is NotImplemented else _out_or(result, keywords)

    def _rest(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Have NumPy compute what comes after passes were given up: nothing is put off."""
        result = self.wrap(function(*self.resolved(arguments), **self.resolved(keywords)))
        return _out_or(result, keywords)

    def elsewhere(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: StandIn | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Have NumPy compute an elementwise function of what it alone takes."""
        keywords: dict[str, Any] = {} if out is None else {"out": out}
        if dtype is not None:
            keywords["dtype"] = dtype
        if casting != "same_kind":
            keywords["casting"] = casting
        return self.by_numpy(function.numpy, tuple(inputs), keywords)

    def by_numpy(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str = ""
    ) -> Any:
        """Have NumPy compute what the kit lacks; it may write to its arguments."""
        name = name or getattr(function, "__name__", str(function))
        self.note_break(f"numpy.{name}(), which pycudakit lacks,", "do that outside of the function")
        return self.on_host(function, arguments, keywords, may_write=True)

    def on_host(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], may_write: bool = False
    ) -> Any:
        """Call a function with arrays."""
        given = self.resolved(arguments), self.resolved(keywords)
        written = stand_ins_in((arguments, keywords)) if may_write else ()
        storages = [s.node.storage for s in written if s.node.storage is not None]
        for storage in storages:
            self.before_write(storage)
        for storage in storages:  # or some entries would write to the device, and others to the host
            storage.leave()
        before = None if self.passes is None else last_call()
        result = function(*given[0], **given[1])
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._tell_of_host(function, (arguments, keywords), wrapped, before)
        return wrapped

    def at_home(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        places: int = 1,
        are_unseen: bool = False,
    ) -> Any:
        """Call a function that finds its first `places` arguments on the device, and leaves results there.

        Results that `are_unseen` it looks at only where it says so.
        """
        out = keywords.get("out")
        if not self.memory.scope.is_open or not (out is None or self.is_there(out)):
            return self.on_host(function, arguments, keywords, may_write="out" in keywords)
        # Copies live as long as the call: what nobody holds, the device forgets.
        placed = [self._side_by_side(each) for each in arguments[:places]]
        given = [*map(self.where_it_is, placed), *self.resolved(arguments[places:])]
        named = self.resolved({key: value for key, value in keywords.items() if key != "out"})
        if out is not None:
            self.before_write(out.node.storage)
            self.memory.keep([out.node.array])
            named["out"] = out.node.array
        try:
            return self.leave_results(function, given, named, (arguments, keywords), are_unseen, places > 0)
        except allocator.LeftToNumPyError:
            return self.on_host(function, arguments, keywords, may_write=out is not None)

    def leave_results(
        self,
        function: Any,
        given: Sequence[Any],
        named: Mapping[str, Any],
        reads: Any,
        are_unseen: bool = False,
        is_left_home: bool = False,
    ) -> Any:
        """Call a function with arrays, some of which are on the device, and leave its results there, too."""
        kept: list[Storage] = []
        with self.keeping_results(kept, are_unseen, is_left_home):
            result = function(*given, **named)
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._tell_of_host(function, reads, wrapped, None)
        return wrapped

    def is_there(self, out: Any) -> bool:
        """Tell whether an entry may write to an array where it is."""
        if type(out) is not StandIn or out.is_scalar:
            return False
        flags = self.store(out).flags
        return bool(flags.c_contiguous and flags.writeable and out.dtype.isnative and out.size)

    def _side_by_side(self, argument: Any) -> Any:
        """Return a copy of what is on the device in steps, where entries do not find it."""
        if type(argument) is not StandIn:
            return argument
        array, storage = self.store(argument), argument.node.storage
        is_there = storage is not None and storage.is_kept and array.dtype.isnative
        if not is_there or array.flags.c_contiguous:
            return argument
        copy = self.stand_in(allocator.empty(array.shape, array.dtype))
        assert copy.node.storage is not None  # noqa: S101
        copy.node.storage.keep(residency.TEMPORARY)
        self.write(copy, argument.node)
        return copy

    def where_it_is(self, argument: Any) -> Any:
        """Return what an entry finds on the device, if that can be, and else on the host."""
        if type(argument) is not StandIn:
            return self.resolved(argument)
        array = self.store(argument)
        if not (array.dtype.isnative and array.flags.c_contiguous):
            return self.resolved(argument)
        self.memory.keep([array])
        return array

    def _tell_of_host(self, function: Any, given: Any, result: Any, before: Any) -> None:
        reads = [s.node.array for s in stand_ins_in(given) if s.node.array is not None]
        writes = [s.node.array for s in stand_ins_in(result) if s.node.array is not None]
        shape = max((array.shape for array in reads), key=math.prod, default=())
        self.tell(getattr(function, "__name__", type(function).__name__), shape, reads, writes, before)

    def attribute(self, stand_in: StandIn, name: str) -> Any:
        """Return an attribute of the array, or a method that works on the host."""
        self.note_break(f".{name}")
        array = self.read(stand_in)
        found = getattr(array[()] if stand_in.is_scalar else array, name)
        if not callable(found):
            self.share(stand_in)  # it may be another way to the memory
            return self.wrap(found)

        def method(*arguments: Any, **keywords: Any) -> Any:
            return self.on_host(
                lambda own, *rest, **named: getattr(own, name)(*rest, **named),
                (stand_in, *arguments),
                keywords,
                may_write=True,
            )

        return method


def _out_or(result: Any, keywords: Mapping[str, Any]) -> Any:
    """Return where a call was to put its result, or that."""
    out = keywords.get("out")
    if type(out) is tuple and len(out) == 1:
        (out,) = out
    elif type(out) is tuple:
        return tuple(one if place is None else place for one, place in zip(result, out, strict=True))
    return result if out is None else out


def _as_numpy_raises(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the ufunc that NumPy's operator takes for a power, and its inputs."""
    base, exponent = inputs
    if type(exponent) in (int, float) and (type(base) is StandIn or isinstance(base, np.ndarray)):
        is_number = type(base) is StandIn and base.is_scalar
        if exponent == 2 and (base.dtype.kind == "f" or (type(exponent) is int and not is_number)):
            return np.square, (base,)
        if base.dtype.kind == "f":
            fast = {1.0: np.positive, -1.0: np.reciprocal, 0.5: np.sqrt}.get(exponent)
            if fast is not None:
                return fast, (base,)
    return np.power, inputs
