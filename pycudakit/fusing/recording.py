"""One call of a fused function: what is asked of its arrays, put off, and computed when it is needed."""

from __future__ import annotations

import functools
import importlib
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._calls import asked, operands
from pycudakit._calls.arguments import as_argument, broadcast, needs_copy
from pycudakit._calls.invocation import by_numpy, last_call
from pycudakit._calls.plan import asked_for
from pycudakit._families.elementwise import compound, functions
from pycudakit._families.elementwise.fast import call as call_elementwise
from pycudakit._library.types import CODES, Array, DType
from pycudakit._programs import estimate
from pycudakit._programs.function import ElementFunction, as_numpy_takes_numbers, compile_function
from pycudakit._programs.values import OF_ANY_INTEGER
from pycudakit._programs.work import works_of
from pycudakit.fusing import device
from pycudakit.fusing.breaks import Break, where_asked
from pycudakit.fusing.costs import Costs
from pycudakit.fusing.explained import PlanPass
from pycudakit.fusing.nodes import MOST_STEPS, PLAIN, Node, Pass, leaf
from pycudakit.fusing.stand_in import StandIn
from pycudakit.fusing.storage import Storage, owner_of

SMALL = 8192  # elements: `auto` computes with fewer at once
TINY = 1024  # elements: exact operations on so few are NumPy's, whose bits are the same
SNAPSHOT = 32 << 10  # bytes: arrays that are no arguments are copied if they have no more
_MOST_OUTPUTS = 32  # of a pass
_MOST_LIVE = 64
_WORTH_KEEPING = 1.5e-9  # seconds an element on one thread: what takes longer is not computed twice

_EXACT_NAMES = """absolute add divide equal greater greater_equal less less_equal logical_and logical_not
logical_or maximum minimum multiply negative not_equal sqrt square subtract"""
_EXACT = frozenset(_EXACT_NAMES.split())

# What `numpy.errstate` changes: an object that is another one where it is in force.
_errors_in_force: Callable[[], Any] = getattr(
    getattr(importlib.import_module("numpy._core.umath"), "_extobj_contextvar", None), "get", np.geterr
)


@functools.cache
def element_function(name: str) -> ElementFunction | None:
    """Return what a program computes as NumPy's ufunc of that name, if it can."""
    known = name in functions.__dict__ and isinstance(getattr(np, name, None), np.ufunc)
    return ElementFunction(name, getattr(np, name)) if known else None


@functools.lru_cache(4096)
def _result_of(
    function: ElementFunction, types: tuple[Any, ...], out: DType | None, dtype: DType | None, casting: str
) -> tuple[DType, bool, float]:
    """Return the type of a result, whether it may be refused for an element, and NumPy's seconds for one."""
    if out is not None:  # NumPy's errors, where it cannot take the result
        compile_function(function, types, (out,), False, dtype, casting)
    program = compile_function(function, types, (None,), False, dtype, casting)
    return program.out_dtypes[0], program.may_refuse, estimate.estimate(program).numpy


class Recording:
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
        self.name = name
        self.captured = captured
        self.strict = strict
        self.engine = asked.checked_current()
        self.scope = device.Scope()
        self.breaks: list[Break] = []
        self.passes: list[PlanPass] | None = None  # where somebody asks
        self.names: dict[int, str] = {}  # of storages
        self._labels: Mapping[int, str] = {}
        self.costs = Costs()
        self._errors = np.geterr()
        self._in_force = _errors_in_force()
        self._live: list[weakref.ref[StandIn]] = []  # those that may be put off
        self._storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        self._given: list[Storage] = []
        self._written: list[Storage] = []  # given ones that were written to

    # ---- Arrays --------------------------------------------------------------------------------------

    def given(self, arrays: Sequence[Array]) -> None:
        """Learn of the arguments."""
        for array in arrays:
            known = self._storage_of(array)
            if known is None:
                known = Storage(array, self.scope, is_given=True)
                self._storages[id(known.owner)] = known
                self._given.append(known)
                if id(array) in self._labels:
                    self.names[id(known)] = self._labels[id(array)]
            known.extend(array)
        for i, one in enumerate(self._given):  # memory that NumPy does not know to be one
            for other in self._given[:i]:
                if one.first < other.last and other.first < one.last:
                    one.may_keep = other.may_keep = False

    def label(self, names: Mapping[int, str]) -> None:
        """Learn the arguments' names, by the identity of their arrays."""
        self._labels = names

    def _storage_of(self, array: Array) -> Storage | None:
        owner = owner_of(array)
        known = self._storages.get(id(owner))
        return known if known is not None and known.owner is owner else None

    def _storage_for(self, array: Array) -> Storage:
        storage = self._storage_of(array)
        if storage is None:
            storage = Storage(array, self.scope)
            self._storages[id(storage.owner)] = storage
        return storage

    def stand_in(self, array: Array) -> StandIn:
        """Return what stands for an array."""
        return StandIn(self, leaf(array, self._storage_for(array)))

    def wrap(self, result: Any) -> Any:
        """Return what stands for the result of a function that was called at once."""
        if type(result) is np.ndarray:
            return self.stand_in(result) if result.dtype in CODES else result
        if isinstance(result, np.generic):
            return StandIn(self, leaf(np.asarray(result)), True) if result.dtype in CODES else result
        if isinstance(result, (tuple, list)):
            parts = [self.wrap(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        return result

    def store(self, stand_in: StandIn) -> Array:
        """Return the array that it stands for, computed, wherever its newest values are."""
        if stand_in.node.array is None:
            self.compute([stand_in])
        node = stand_in.node
        array = node.array
        assert array is not None  # noqa: S101
        if node.storage is None:
            node.storage = self._storage_for(array)
        return array

    def read(self, stand_in: StandIn) -> Array:
        """Return the array that it stands for, with its values on the host."""
        array = self.store(stand_in)
        if stand_in.node.storage is not None:
            stand_in.node.storage.fetch()
        return array

    def look(self, stand_in: StandIn, what: str) -> Array:
        """Return its values for Python to look at."""
        self.note_break(what)
        return self.read(stand_in)

    def note_break(self, what: str, instead: str = "") -> None:
        """Tell that the function could not be put off as a whole."""
        at = where_asked(what, instead)
        self.breaks.append(at)
        if self.strict:
            raise errors.Unsupported(f"{self.name}: {at}")

    def resolved(self, value: Any) -> Any:
        """Return a value with arrays for all that stands for some, on the host."""
        kind = type(value)
        if kind is StandIn:
            array = self.read(value)
            return array[()] if value.is_scalar else array
        if kind is tuple or kind is list:
            return kind(self.resolved(part) for part in value)
        if kind is dict:
            return {key: self.resolved(part) for key, part in value.items()}
        if kind is slice:
            return slice(*(self.resolved(part) for part in (value.start, value.stop, value.step)))
        return value

    # ---- Elementwise functions -----------------------------------------------------------------------

    def operate(self, ufunc: Any, inputs: tuple[Any, ...]) -> Any:
        """Write an operator down."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises(inputs)
        function = element_function(ufunc.__name__) if ufunc.nout == 1 else None
        if function is None:
            return self.ufunc(ufunc, "__call__", inputs, {})
        return self.apply(function, inputs)

    def operate_in_place(self, ufunc: Any, target: StandIn, other: Any) -> StandIn:
        """Write an operator down that changes its left operand."""
        if ufunc is np.power:
            ufunc, inputs = _as_numpy_raises((target, other))
        else:
            inputs = (target, other)
        function = element_function(ufunc.__name__)
        if function is None:
            result: StandIn = self.ufunc(ufunc, "__call__", inputs, {"out": (target,)})
            return result
        changed: StandIn = self.apply(function, inputs, out=target)
        return changed

    def apply(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        *,
        out: StandIn | None = None,
        dtype: DType | None = None,
        casting: str = "same_kind",
    ) -> Any:
        """Write an elementwise function down."""
        if _errors_in_force() is not self._in_force:
            self._change_errors()
        if function.name in OF_ANY_INTEGER:
            inputs = as_numpy_takes_numbers(function.name, inputs)
        arguments: list[Any] = []
        types: list[Any] = []
        must_read = False
        for value in inputs:
            kind = type(value)
            if kind is StandIn:
                node = value.node
            elif kind is int or kind is float:
                arguments.append(value)
                types.append(kind)
                continue
            else:
                found, is_large = self._leaf_of(value)
                if found is None:
                    return self._elsewhere(function, inputs, out, dtype, casting)
                node = found
                must_read |= is_large
            arguments.append(node)
            types.append(node.dtype)
        result, may_refuse, seconds = _result_of(
            function, tuple(types), None if out is None else out.dtype.newbyteorder("="), dtype, casting
        )
        if may_refuse:
            return self._at_once(function, inputs, out, dtype, casting)
        nodes = [argument for argument in arguments if type(argument) is Node]
        shape = nodes[0].shape
        for node in nodes:
            if node.shape != shape:
                shape = broadcast(nodes, [])  # type: ignore[arg-type]
                break
        self.costs.operation(math.prod(shape), seconds)
        quick = self._quick(function, nodes, shape, dtype, casting)
        if quick is not None:
            value = self.wrap(quick(*(a.array if type(a) is Node else a for a in arguments)))
            return value if out is None else self.put(out, value)
        for node in nodes:  # what is repeated is computed once
            if node.array is None and node.shape != shape:
                self._run([node])
        given = PLAIN if dtype is None and casting == "same_kind" else (dtype, casting)
        node = Node(function, tuple(arguments), given, result, shape)
        value = StandIn(self, node, shape == ())
        if out is not None:
            return self.put(out, value)
        self.put_off(value)
        if must_read or node.steps > MOST_STEPS:
            self.store(value)
        return value

    def put_off(self, value: StandIn) -> StandIn:
        """Remember what is to be computed later."""
        self._live.append(weakref.ref(value))
        if len(self._live) > _MOST_LIVE:
            self._live = [weakref.ref(live) for live in self._waiting()]
        return value

    def _waiting(self) -> list[StandIn]:
        """Return what is put off and may still be asked for."""
        living = (live() for live in self._live)
        return [stand_in for stand_in in living if stand_in is not None and stand_in.node.array is None]

    def _leaf_of(self, value: Any) -> tuple[Node | None, bool]:
        """Return the node of what is no stand-in, None if it is NumPy's alone; and whether to read it now."""
        argument = as_argument(value)
        if argument is None:
            return None, False
        array = np.asarray(argument)
        if array is not value or not array.size:
            return leaf(array), False
        storage = self._storage_of(array)
        if storage is not None and storage.holds(array):
            return leaf(array, storage), False
        for given in self._given:
            if given.overlaps(array):  # in part, or in a way that NumPy does not know of
                given.share()
        if array.nbytes <= SNAPSHOT:
            return leaf(array.copy()), False
        return leaf(array), True

    def _quick(
        self,
        function: ElementFunction,
        nodes: Sequence[Node],
        shape: tuple[int, ...],
        dtype: DType | None,
        casting: str,
    ) -> Callable[..., Any] | None:
        """Return what computes a small function at once, if it is one."""
        if math.prod(shape) > SMALL or any(node.array is None or node.array.size > SMALL for node in nodes):
            return None
        plain = dtype is None and casting == "same_kind"
        if plain and function.name in _EXACT and math.prod(shape) <= TINY:
            return function.numpy
        if self.engine != "auto":
            return None
        return lambda *arrays: call_elementwise(function, arrays, None, True, dtype, casting)

    def _at_once(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: StandIn | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Compute what may be refused for an element's value."""
        given = [self.resolved(value) for value in inputs]
        value = self.wrap(call_elementwise(function, given, None, True, dtype, casting))
        return value if out is None else self.put(out, value)

    def _elsewhere(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: StandIn | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Have NumPy compute what it alone takes."""
        keywords: dict[str, Any] = {} if out is None else {"out": out}
        if dtype is not None:
            keywords["dtype"] = dtype
        if casting != "same_kind":
            keywords["casting"] = casting
        return self.by_numpy(function.numpy, tuple(inputs), keywords)

    def put(self, target: StandIn, value: StandIn) -> StandIn:
        """Make a value that of a stand-in, as `out=` and operators in place do; their types were checked."""
        broadcast([value, _Target(target.shape)], [_Target(target.shape)])  # type: ignore[list-item]
        node = value.node
        if target.node.array is None and target.shape == value.shape:
            dtype = target.node.dtype
            target.node = node if node.dtype == dtype else _cast(node, dtype)
            if target.node.array is None:
                self.put_off(target)
            return target
        self.store(target)
        self._write(target, node)
        return target

    def _write(self, target: StandIn, value: Node) -> None:
        """Write a value to the array of a stand-in, broadcast and cast."""
        array, storage = target.node.array, target.node.storage
        assert array is not None  # noqa: S101
        assert storage is not None  # noqa: S101
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if not array.size:
            return
        self.before_write(storage, value)
        if needs_copy(array, value.leaves()):
            if value.array is not None:
                value = Node(_COPY, (value,), PLAIN, value.dtype, value.shape)
            self._run([value])
        if value.shape != array.shape and value.array is None:
            self._run([value])
        self._run([value], [array], storage)

    def before_write(self, storage: Storage, besides: Node | None = None) -> None:
        """Compute what was put off and reads memory that is about to change."""
        waiting = [stand_in for stand_in in self._waiting() if stand_in.node is not besides]
        if waiting:
            self.compute(w for w in waiting if any(map(storage.overlaps, w.node.leaves())))
        if storage.is_given and storage not in self._written:
            self._written.append(storage)

    # ---- Computing -----------------------------------------------------------------------------------

    def _change_errors(self) -> None:
        """Compute what was put off before `numpy.errstate` changed, as it was then."""
        now = np.geterr()
        if now != self._errors:
            with np.errstate(**self._errors):
                self.compute(self._waiting())
        self._errors, self._in_force = now, _errors_in_force()

    def compute(self, stand_ins: Iterable[StandIn], keep: bool = True) -> None:
        """Compute what was put off, what has the same shape in one pass; keep it on the device, or not."""
        by_shape: dict[tuple[int, ...], dict[int, Node]] = {}
        for stand_in in stand_ins:
            node = stand_in.node
            if node.array is None:
                by_shape.setdefault(node.shape, {})[id(node)] = node
        for found in by_shape.values():
            nodes = list(found.values())
            for first in range(0, len(nodes), _MOST_OUTPUTS):
                self._run(nodes[first : first + _MOST_OUTPUTS], keep=keep)

    def _run(
        self,
        nodes: Sequence[Node],
        outs: Sequence[Array] | None = None,
        storage: Storage | None = None,
        keep: bool = True,
    ) -> None:
        """Compute nodes of one shape in one pass, into an array that lies in a storage, or into new ones."""
        together = Pass(nodes)
        if self.scope.is_open:
            self.keep(together.arrays)
        if outs is not None:
            if storage is not None:
                storage.keep(device.INPUT)
            self._evaluate(together, outs)
            return
        shape = nodes[0].shape
        whole = [array for array in together.arrays if array.shape == shape]
        new = [operands.allocate(node.dtype, shape, whole) for node in nodes]
        storages = [self._storage_for(array) for array in new]
        if keep and self.scope.is_open:
            for each in storages:
                each.keep(device.TEMPORARY)
        self._evaluate(together, new)
        for node, array, own in zip(nodes, new, storages, strict=True):
            node.computed(array, own)

    def _evaluate(self, together: Pass, outs: Sequence[Array]) -> None:
        """Compute a pass into arrays of one shape that lie beside what it reads, or just where that does."""
        function, inputs = together.function, together.inputs
        program = compile_function(
            function,
            tuple(v.dtype.newbyteorder("=") if isinstance(v, np.ndarray) else type(v) for v in inputs),
            tuple(out.dtype.newbyteorder("=") for out in outs),
            False,
            None,
            "same_kind",
        )
        shape, size = outs[0].shape, outs[0].size
        moved = sum(array.nbytes for array in together.arrays)
        self.costs.evaluated(estimate.cpu_seconds(program, size, moved))
        if self.engine != "auto":
            plan = asked_for(function.name, self.engine)
        else:
            plan = estimate.choose(function.name, program, size, moved)
            if plan.engine == "numpy":
                out = outs[0] if len(outs) == 1 else tuple(outs)
                by_numpy(function.name, plan.reason, lambda: function.numpy(*inputs, out=out))
                self.tell(function.name, shape, together.arrays, outs)
                return
            plan = replace(plan, automatic=False) if plan.engine == "cuda" and self._written else plan
        works = works_of(program)
        work = works.take()
        try:
            work.aim(size, *outs, None, *inputs)
            work.spread(shape, *outs, None, *inputs)
            if work.run(plan, size):
                work.report_met()
        finally:
            works.give_back(work)
        self.tell(function.name, shape, together.arrays, outs)

    def tell(
        self, function: str, shape: tuple[int, ...], reads: Iterable[Array], writes: Iterable[Array]
    ) -> None:
        """Remember what the last call did, if somebody asks."""
        call = None if self.passes is None else last_call()
        if self.passes is None or call is None:
            return
        names = [tuple(dict.fromkeys(map(self._name_of, arrays))) for arrays in (reads, writes)]
        moved = call.bytes_up, call.bytes_down
        self.passes.append(PlanPass(function, call.engine, shape, names[0], names[1], call.seconds, *moved))

    def _name_of(self, array: Array) -> str:
        storage = self._storage_of(array)
        if storage is None:
            return "a number" if array.size == 1 else "an array"
        number = sum(name.startswith("t") for name in self.names.values()) + 1
        return self.names.setdefault(id(storage), f"t{number}")

    def keep(self, arrays: Iterable[Array]) -> None:
        """Let the device keep what a pass reads, for the next ones."""
        for array in arrays:
            storage = self._storage_of(array)
            if storage is not None and storage.holds(array):
                storage.keep(device.INPUT)

    def keeps_at_second_use(self, node: Node) -> bool:
        """Tell whether what a node computes is better kept than computed again."""
        if self.engine == "cuda":
            return True
        together = Pass([node])
        types = tuple(
            v.dtype.newbyteorder("=") if isinstance(v, np.ndarray) else type(v) for v in together.inputs
        )
        program = compile_function(together.function, types, (None,), False, None, "same_kind")
        return estimate.estimate(program).ours > _WORTH_KEEPING

    def finish(self, values: Sequence[StandIn]) -> None:
        """Compute what a function returns, and what else outlives it; bring all of that to the host."""
        self._change_errors()
        self.compute([*values, *self._waiting()], keep=False)
        for value in values:
            self.read(value)
        self.bring_home()

    @property
    def has_written(self) -> bool:
        """Whether an argument was written to."""
        return bool(self._written)

    def bring_home(self) -> None:
        """Bring to the host what was written to the caller's arrays."""
        for storage in self._written:
            storage.fetch()

    # ---- Indexing ------------------------------------------------------------------------------------

    def view(self, stand_in: StandIn, make: Callable[[Array], Any]) -> StandIn:
        """Return what stands for a view of it."""
        array = self.store(stand_in)
        made = make(array)
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        if made.size and not storage.overlaps(made):  # a copy: of the host's values
            storage.fetch()
            return self.stand_in(make(array))
        return StandIn(self, leaf(made, storage))

    def get(self, stand_in: StandIn, index: Any) -> Any:
        """Return a view, or the elements at some places."""
        basic = _is_basic(index)
        if basic:
            if basic is not _WITH_STAND_IN:
                node = stand_in.node
                array = node.array if node.storage is not None else None
                if array is None:
                    array = self.store(stand_in)
                found = array[index]
                self.costs.view()
                if type(found) is np.ndarray:
                    return StandIn(self, leaf(found, stand_in.node.storage))
                if stand_in.node.storage is not None and stand_in.node.storage.is_kept:
                    found = self.read(stand_in)[index]
                return StandIn(self, leaf(np.asarray(found)), True)
        elif any(_is_mask(part) for part in _parts(index)):
            self.note_break("the number of elements that a mask keeps", "use numpy.where() to keep the shape")
        return self.wrap(self.read(stand_in)[self.resolved(index)])

    def set(self, stand_in: StandIn, index: Any, value: Any) -> None:
        """Write to a view, or to the elements at some places."""
        if _errors_in_force() is not self._in_force:
            self._change_errors()
        array = self.store(stand_in)
        if _is_basic(index):
            part = array
            if index is not Ellipsis:
                given = tuple(self._plain_index(each) for each in _parts(index))
                part = array[given if ... in given else (*given, ...)]
            node = self._value_for(part, value)
            if node is not None:
                return self._write(StandIn(self, leaf(part, stand_in.node.storage)), node)
        elif _is_mask(index) and index.shape == array.shape and np.ndim(value) == 0:
            node = self._value_for(array, value)
            if node is not None:
                chosen = StandIn(self, node if node.dtype == array.dtype else _cast(node, array.dtype))
                return self._write(stand_in, self._chosen(index, chosen, stand_in).node)
        self._set_by_numpy(stand_in, array, index, value)
        return None

    def _plain_index(self, part: Any) -> Any:
        """Return a part of an index that makes views, of Python's numbers alone."""
        part = self.resolved(part)
        return int(part) if isinstance(part, (np.ndarray, np.generic)) else part  # of integers, by then

    def _chosen(self, mask: Any, yes: StandIn, no: StandIn) -> StandIn:
        chosen: StandIn = self.apply(compound.WHERE, (mask, yes, no))
        return chosen

    def _value_for(self, target: Array, value: Any) -> Node | None:
        """Return the node of what is to be written to an array; None for what NumPy alone takes."""
        if type(value) is StandIn:
            node = value.node
        elif type(value) in (int, float, bool):
            node = leaf(
                np.asarray(value).astype(target.dtype) if type(value) is not int else _int_as(value, target)
            )
        else:
            found, _ = self._leaf_of(value)
            if found is None:
                return None
            node = found
        shape = node.shape
        while len(shape) > target.ndim and shape[0] == 1:
            shape = shape[1:]
        try:
            fits = np.broadcast_shapes(shape, target.shape) == target.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"could not broadcast input array from shape {_shown(node.shape)} "
                f"into shape {_shown(target.shape)}"
            )
        if shape != node.shape:
            if node.array is None:
                self._run([node])
            assert node.array is not None  # noqa: S101
            node = leaf(node.array.reshape(shape), node.storage)
        return node

    def _set_by_numpy(self, stand_in: StandIn, array: Array, index: Any, value: Any) -> None:
        """Write to the host's memory."""
        storage = stand_in.node.storage
        assert storage is not None  # noqa: S101
        index, value = self.resolved(index), self.resolved(value)
        self.before_write(storage)
        storage.fetch()
        array[index] = value
        storage.changed()

    # ---- NumPy's functions ---------------------------------------------------------------------------

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a ufunc down, or have NumPy compute it."""
        if method == "__call__":
            taken = self._plain_ufunc(ufunc, inputs, keywords)
            if taken is not NotImplemented:
                return taken
            captured = self.captured.get(ufunc)
            if captured is not None:
                return captured(self, *inputs, **keywords)
        captured = self.captured.get((ufunc, method))
        if captured is not None:
            return captured(self, *inputs, **keywords)
        return self.by_numpy(getattr(ufunc, method), inputs, keywords)

    def _plain_ufunc(self, ufunc: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        function = element_function(ufunc.__name__) if ufunc.nout == 1 else None
        if function is None or not keywords.keys() <= {"out", "dtype", "casting"}:
            return NotImplemented
        (out,) = keywords.get("out") or (None,)
        if out is not None and type(out) is not StandIn:
            if type(out) is not np.ndarray or out.dtype not in CODES:
                return NotImplemented
            result = self.apply(
                function, inputs, out=self.outside(out), **{k: v for k, v in keywords.items() if k != "out"}
            )
            self.settle(result)
            return out
        dtype = keywords.get("dtype")
        return self.apply(
            function,
            inputs,
            out=out,
            dtype=None if dtype is None else np.dtype(dtype),
            casting=keywords.get("casting", "same_kind"),
        )

    def outside(self, array: Array) -> StandIn:
        """Return what stands for an array that is no argument, to be written to."""
        return StandIn(self, leaf(array, self._storage_for(array)))

    def settle(self, stand_in: StandIn) -> None:
        """Bring what was written to an array that is no argument to the host, where others see it."""
        storage = stand_in.node.storage
        if storage is not None:
            storage.share()

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Write a function of NumPy's down, or have NumPy compute it."""
        captured = self.captured.get(function)
        if captured is not None:
            return captured(self, *arguments, **keywords)
        return self.by_numpy(function, arguments, keywords)

    def by_numpy(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Have NumPy compute what the kit lacks; it may write to its arguments."""
        name = getattr(function, "__name__", str(function))
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
        result = function(*given[0], **given[1])
        for storage in storages:
            storage.changed()
        wrapped = self.wrap(result)
        if self.passes is not None:
            self._tell_of_host(function, (arguments, keywords), wrapped)
        return wrapped

    def _tell_of_host(self, function: Any, given: Any, result: Any) -> None:
        reads = [s.node.array for s in stand_ins_in(given) if s.node.array is not None]
        writes = [s.node.array for s in stand_ins_in(result) if s.node.array is not None]
        shape = max((array.shape for array in reads), key=math.prod, default=())
        self.tell(getattr(function, "__name__", "a function"), shape, reads, writes)

    def attribute(self, stand_in: StandIn, name: str) -> Any:
        """Return an attribute of the array, or a method that works on the host."""
        self.note_break(f".{name}")
        array = self.read(stand_in)
        found = getattr(array, name)
        if not callable(found):
            return self.wrap(found)

        def method(*arguments: Any, **keywords: Any) -> Any:
            return self.on_host(
                lambda own, *rest, **named: getattr(own, name)(*rest, **named),
                (stand_in, *arguments),
                keywords,
                may_write=True,
            )

        return method


_COPY = ElementFunction("positive", np.positive)


class _Target:
    """Stands for an array of a shape, where shapes are compared."""

    class flags:  # noqa: N801
        writeable = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _cast(node: Node, dtype: DType) -> Node:
    native = dtype.newbyteorder("=")
    return Node(compound.astype_function(native), (node,), PLAIN, native, node.shape)


def _as_numpy_raises(inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the ufunc that NumPy's operator takes for a power, and its inputs."""
    base, exponent = inputs
    if type(exponent) in (int, float) and isinstance(base, np.ndarray):
        if exponent == 2:
            return np.square, (base,)
        if base.dtype.kind == "f":
            fast = {1.0: np.positive, -1.0: np.reciprocal, 0.5: np.sqrt}.get(exponent)
            if fast is not None:
                return fast, (base,)
    return np.power, inputs


def _int_as(value: int, target: Array) -> Array:
    return np.full((), value, target.dtype)  # raises OverflowError, as NumPy does


def _shown(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


_WITH_STAND_IN = "with a stand-in"  # true, as every string


def _is_basic(index: Any) -> bool | str:
    """Tell whether an index makes a view, and whether it has a stand-in's value."""
    found: bool | str = True
    for part in _parts(index):
        kind = type(part)
        if kind is slice:
            if StandIn in (type(part.start), type(part.stop), type(part.step)):
                found = _WITH_STAND_IN
            continue
        if kind is int or part is None or part is Ellipsis:
            continue
        if kind is bool or isinstance(part, (list, np.bool_)):
            return False
        if isinstance(part, np.ndarray):  # NumPy copies for one without dimensions, too
            if part.ndim or part.dtype.kind not in "iu":
                return False
            found = _WITH_STAND_IN
        elif not hasattr(part, "__index__"):
            return False
    return found


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == np.bool_


def stand_ins_in(value: Any) -> Iterable[StandIn]:
    """Yield the stand-ins in tuples, lists and dicts."""
    kind = type(value)
    if kind is StandIn:
        yield value
    elif kind in (tuple, list):
        for part in value:
            yield from stand_ins_in(part)
    elif kind is dict:
        for part in value.values():
            yield from stand_ins_in(part)
