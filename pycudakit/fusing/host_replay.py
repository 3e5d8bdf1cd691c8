"""Capture and replay of calls on host arrays.

The first call with a signature is traced as usual. A later one is traced and captured as a path of a tree
of plans. Calls after it run the plans, without tracing, if the signature is equal, the branches on computed
numbers have outcomes that are known, and no operation may have to warn.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import time
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native import hardware
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Noted, Reason
from pycudakit._runtime.lru_cache import LRUCache, next_use, release_least_recent
from pycudakit._runtime.native_call import collect_calls, log_fused_call
from pycudakit.fusing.bytecode.value_kinds import is_named_tuple
from pycudakit.fusing.errstate import ignores_underflow, raises_warnings, recorded_warnings
from pycudakit.fusing.execute.capture import Capture, NotReplayableError, Scalar, key_of_constant
from pycudakit.fusing.execute.lowering import lower
from pycudakit.fusing.execute.plan import Plan
from pycudakit.fusing.execute.plan_tree import NotReplayed, PlanTree
from pycudakit.fusing.guards import MAX_DEPTH, Evaluation, Guards, ImpureError
from pycudakit.fusing.memory.buffer import byte_bounds
from pycudakit.fusing.memory.pytree import is_generator, tree_map_in_place

IS_ON = os.environ.get("PYCUDAKIT_REPLAY") != "0"
_MAX_SIGNATURES = 256
_MAX_ARRAY_BYTES = 64 << 20  # of all arguments: of longer calls, Python has a small share
_MAX_BYTES = 256 << 20  # of the runs that are idle, of all functions
_MAX_FAILURES = 2  # replays in succession that must be traced after all, before the plans are dropped
_MAX_PATHS = 64  # of one signature
_MANY_MISSES = 8  # calls in succession whose paths are not known, after which fewer are tried
_MAX_FAILED_CAPTURES = 3  # of calls that branch, of which others may be replayable
_MAX_LENGTH = 64  # of a container among the arguments
_OPERAND_TYPES = frozenset({float, np.float64})  # of numbers whose values are operands
_OTHER_TYPES = (np.ndarray, np.generic, type, FunctionType, ModuleType)  # of no objects with plain attributes
_CONTIGUOUS = 1 | 2  # NumPy's flags: in C order, in Fortran order


class Operands(NamedTuple):
    """The objects among the arguments of a call that are no constants.

    `addresses` are those of the arrays, and `bounds` the begin and the end of each in memory. The values of
    the attributes of `objects` are constants of a plan.
    """

    arrays: list[Array]
    addresses: list[int]
    bounds: list[tuple[int, int]]
    generators: list[Any]  # of pycudakit
    containers: list[Any]  # lists and dicts
    objects: list[Any]  # of other classes


class Signature(NamedTuple):
    """The signature of a call, as a hashable key, and the objects of this call.

    `scalars` are arrays of numbers that the function only computes with, by the index or the name of the
    argument.
    """

    key: tuple[Any, ...]
    operands: Operands
    engine: str
    scalars: dict[int | str, Array]
    has_guarded_arrays: bool

    @property
    def arrays(self) -> list[Array]:
        """The arguments that are arrays."""
        return self.operands.arrays


class _Entry:
    """The plans of one signature."""

    def __init__(self) -> None:
        self.is_replayable = True
        # The longest time limit that was too short for a capture under `auto`; inf if none is long enough.
        self.late_seconds = -1.0
        self.last_use = next_use()
        self.failures = self.misses = self.failed_captures = 0
        self.tree: PlanTree | None = None

    @property
    def bytes(self) -> int:
        """The memory of the plans."""
        tree = self.tree  # another thread may release it
        return 0 if tree is None else tree.bytes

    def release(self) -> None:
        """Drop the plans; the next call is captured again."""
        self.tree = None

    def drop(self) -> None:
        """Drop the plans for good."""
        self.is_replayable, self.tree = False, None

    def add(self, capture: Capture, function: str, result: Any) -> bool:
        """Add the path of a captured call, if it can be replayed; return whether it can."""
        tree = self.tree
        outcomes = [segment.outcome for segment in capture.segments[:-1]]
        path = lower(capture, function, result, () if tree is None else tree.live_outs(outcomes))
        if path is None:
            return False
        self.failed_captures = 0
        if tree is None:
            self.tree = PlanTree(path, capture.breaks)
        else:
            tree.add(path, capture.breaks)
        return True

    @property
    def lacks_path(self) -> bool:
        """Whether the next call is to be captured."""
        tree = self.tree
        is_known = tree is not None and not (self.misses and tree.paths < _MAX_PATHS)
        may_capture = self.is_replayable and self.failed_captures < _MAX_FAILED_CAPTURES
        return may_capture and self.is_due and not is_known

    @property
    def is_due(self) -> bool:
        """Whether there were 0, 1, 2, 4, 8, ... misses in succession, since misses and captures take long."""
        return self.misses & (self.misses - 1) == 0


def signature_of(function: Any, engine: str, args: Any, kwargs: Any) -> Signature | None:
    """Return the signature of a call of a fused function on an engine; None if it cannot be replayed."""
    if engine not in ("cpu", "cuda"):
        return None
    guards: Guards | None = function.guards
    if guards is None or not IS_ON or context.fast_path_engine() not in (engine, "auto"):
        return None
    operands = Operands([], [], [], [], [], [])
    bounds = operands.bounds
    scalars: dict[int | str, Array] = {}
    types: list[tuple[int | str, type]] = []  # of the numbers, whose arrays have one dtype
    scalar_arguments = function.scalar_arguments
    if scalar_arguments and not _OPERAND_TYPES.isdisjoint(map(type, (*args, *kwargs.values()))):
        named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for key, value in named:
            if key in scalar_arguments and type(value) in _OPERAND_TYPES:
                scalars[key] = np.array(value)
                types.append((key, type(value)))
        args = [scalars.get(index, value) for index, value in enumerate(args)]
        kwargs = {name: scalars.get(name, value) for name, value in kwargs.items()}
    evaluation = Evaluation()
    try:
        if type(function.function) is MethodType:
            operands.objects.append(function.function.__self__)
        positional = tuple([_key_of(value, operands) for value in args])
        keyword = kwargs and tuple([(name, _key_of(value, operands)) for name, value in kwargs.items()])
        guard_values = _guard_values(guards, operands.objects, evaluation)
    except (NotReplayableError, ImpureError):
        return None
    has_operands = len(bounds) > len(scalars) or operands.generators
    if not has_operands or sum([end - begin for begin, end in bounds]) > _MAX_ARRAY_BYTES:
        return None
    memory = evaluation.memory
    if memory:  # whose elements are constants of a plan: no argument shares it
        bounds = [*bounds, *[(each.begin, each.end) for each in memory.values()]]
    if len(bounds) > 1:
        bounds.sort()
        if any([one[1] > other[0] for one, other in itertools.pairwise(bounds)]):  # noqa: C419  (a list is faster)
            return None
    key_of_call = engine, guard_values, positional, keyword or (), tuple(types)
    return Signature(key_of_call, operands, engine, scalars, bool(memory))


def _guard_values(guards: Guards, objects: list[Any], evaluation: Evaluation) -> tuple[Any, ...]:
    if not objects:
        return guards.evaluate(evaluation)
    keys = guards.keys_of_objects(objects, evaluation)
    return (*guards.evaluate(evaluation), *keys)  # after that: it has the free variables of methods, too


def guards_hold(function: Any, signature: Signature) -> bool:
    """Return True if the free variables, and the attributes of arguments, are as a signature has them."""
    try:
        values = _guard_values(function.guards, signature.operands.objects, Evaluation())
        return bool(values == signature.key[1])
    except ImpureError:
        return False


def _key_of(value: Any, operands: Operands, depth: int = 0) -> Any:
    """Return the part of the key for one argument, and append it to the operands if it is one."""
    kind = type(value)
    if kind is np.ndarray:
        arrays, addresses, bounds, *_ = operands
        for index, array in enumerate(arrays):
            if array is value:
                return index
        dtype, flags = value.dtype, value.flags.num
        address = address_of(value)
        if dtype not in CODES or not value.size or dtype.metadata is not None:
            raise NotReplayableError
        arrays.append(value)
        addresses.append(address)
        bounds.append((address, address + value.nbytes) if flags & _CONTIGUOUS else byte_bounds(value))
        return dtype.char, value.shape, value.strides, flags
    if issubclass(kind, tuple) and len(value) <= _MAX_LENGTH and depth < MAX_DEPTH:
        if kind is not tuple and not is_named_tuple(kind):
            raise NotReplayableError
        return kind, tuple([_key_of(part, operands, depth + 1) for part in value])
    key = key_of_constant(value)
    if key is not None:
        return key
    if kind is list or kind is dict:
        return kind, _key_of_container(value, operands, depth)
    if is_generator(value) and not isinstance(value, np.random.Generator):
        return kind, _index_in(operands.generators, value)
    if depth or isinstance(value, _OTHER_TYPES):
        raise NotReplayableError
    return object, _index_in(operands.objects, value)


def _index_in(values: list[Any], value: Any) -> int:
    """Return the index of an object, which is appended if it is new."""
    for index, other in enumerate(values):
        if other is value:
            return index
    values.append(value)
    return len(values) - 1


def _key_of_container(value: Any, operands: Operands, depth: int) -> Any:
    """Return the key of a list or dict that no other argument is or has."""
    containers = operands.containers
    if len(value) > _MAX_LENGTH or depth >= MAX_DEPTH or any(value is each for each in containers):
        raise NotReplayableError
    containers.append(value)
    if type(value) is list:
        return tuple([_key_of(part, operands, depth + 1) for part in value])
    names = tuple(map(key_of_constant, value))
    if None in names:
        raise NotReplayableError
    return names, tuple([_key_of(part, operands, depth + 1) for part in value.values()])


class PlanCache:
    """The plans of one fused function, by signature; beyond 256, the least recently used one is dropped."""

    def __init__(self) -> None:
        self._entries: LRUCache[tuple[Any, ...], _Entry] = LRUCache(_MAX_SIGNATURES)
        self.captured = 0  # paths so far
        self.late = 0  # captures that were given up under `auto`
        self.timed_out = 0  # those of them that met the time limit, and may be tried with a longer one
        _caches.add(self)

    def replay(self, signature: Signature, reason: Reason) -> Any:
        """Replay a call; return NotImplemented if it has no plan, or must be traced to warn.

        The call log gets the reason for the engine.
        """
        entry = self._entries[signature.key]
        tree = None if entry is None else entry.tree
        if entry is None or tree is None or not ignores_underflow():
            return NotImplemented
        if entry.misses >= _MANY_MISSES and not entry.is_due:
            entry.misses += 1
            return NotImplemented
        if tree.has_several_segments:
            result = _replay_as_one_call(tree, signature, reason)
        else:
            operands = signature.operands
            result = tree.replay(operands.arrays, operands.addresses, reason, operands.generators)
        if type(result) is not NotReplayed:
            entry.failures = entry.misses = 0
            entry.last_use = next_use()
            return result
        entry.misses += result is NotReplayed.UNKNOWN_PATH
        entry.failures += result is NotReplayed.FAILED
        if entry.failures >= _MAX_FAILURES:
            entry.drop()
        return NotImplemented

    def adopt(self, signature: Signature) -> bool:
        """Adopt the plans that a call on the CPU engine has captured, for replays on a GPU.

        That takes less time than a traced call there. Return False if a GPU needs plans of its own.
        """
        key_on_cpu = ("cpu", *signature.key[1:])
        entry, other = self._entries[signature.key], self._entries[key_on_cpu]
        if other is None or other.tree is None:
            return False
        if entry is not None and (entry.tree is not None or not entry.is_replayable):
            return False
        tree = other.tree.for_engine(signature.engine)
        if tree is None:
            return False
        entry = self._entry_of(signature)
        entry.tree, entry.last_use = tree, next_use()
        _bound_memory()
        return True

    def tree_of(self, signature: Signature) -> PlanTree | None:
        """Return the tree of plans of a signature; None if there is none."""
        entry = self._entries[signature.key]
        return None if entry is None else entry.tree

    def note(self, signature: Signature | None) -> None:
        """Note that a call has succeeded."""
        if signature is not None and self._entries[signature.key] is None:
            self._entries[signature.key] = _Entry()

    def may_capture(self, signature: Signature, is_warm: bool, max_seconds: float | None = None) -> bool:
        """Return True if a call is to be captured, with this time limit.

        Another one with its signature must have succeeded, unless the function `is_warm`.
        """
        entry = self._entries[signature.key]
        if entry is None:
            return is_warm
        is_wanted = entry.lacks_path and (max_seconds is None or entry.late_seconds < max_seconds)
        return is_wanted and ignores_underflow() and not raises_warnings()

    def capture(
        self,
        signature: Signature,
        function: str,
        run: Callable[[Capture], Any],
        max_seconds: float | None = None,
    ) -> Any:
        """Call `run` with a capture that has this time limit, and keep the plan."""
        layouts = list(map(_layout_of, signature.arrays))
        capture = Capture(signature.arrays, signature.engine, max_seconds, signature.operands.generators)
        capture.scalars = signature.scalars
        capture.containers = set(map(id, signature.operands.containers))
        capture.has_guarded_arrays = signature.has_guarded_arrays
        with recorded_warnings() as met:
            result = run(capture)
        entry = self._entry_of(signature)
        is_added = not met and entry.add(capture, function, result)
        result = tree_map_in_place(result, _without_scalar, lambda _: False)
        if capture.is_late:
            entry.late_seconds = capture.max_seconds if capture.timed_out else math.inf
            self.late += 1
            self.timed_out += capture.timed_out
        elif layouts != list(map(_layout_of, signature.arrays)):
            entry.drop()
        elif is_added:
            self.captured += 1
            entry.last_use = next_use()
            _bound_memory()
        else:
            entry.failed_captures += 1
            has_other_paths = bool(capture.breaks) and entry.failed_captures < _MAX_FAILED_CAPTURES
            if entry.tree is None and not has_other_paths:
                entry.drop()
        return result

    def _entry_of(self, signature: Signature) -> _Entry:
        entry = self._entries[signature.key]
        if entry is None:  # it was dropped meanwhile
            entry = self._entries[signature.key] = _Entry()
        return entry

    def entries(self) -> list[_Entry]:
        """Return the entries that have plans."""
        return [entry for entry in self._entries.live_values() if entry.tree is not None]

    def trees(self) -> list[PlanTree]:
        """Return the trees that are kept."""
        return [entry.tree for entry in self.entries() if entry.tree is not None]

    def plans(self) -> list[Plan]:
        """Return the plans that are kept."""
        return [node.lowered.plan for tree in self.trees() for node in tree.nodes()]

    def clear(self) -> None:
        """Forget all plans."""
        self._entries.clear()


_caches: weakref.WeakSet[PlanCache] = weakref.WeakSet()


def _bound_memory() -> None:
    """Drop the plans that were used least recently if those of all functions take too much memory."""
    release_least_recent([entry for cache in list(_caches) for entry in cache.entries()], _MAX_BYTES)


def release() -> None:
    """Forget the plans of all functions."""
    for cache in list(_caches):
        cache.clear()


hardware.on_release.append(release)


def _replay_as_one_call(tree: PlanTree, signature: Signature, reason: Reason) -> Any:
    """Replay a call, whose segments the call log has as one call."""
    began = time.perf_counter()
    numpy_seconds: list[float] = []
    arrays, addresses, _, generators, *_ = signature.operands
    replay = functools.partial(tree.replay, arrays, addresses, reason, generators, numpy_seconds)
    # Under `auto`, the functions of pycudakit among the host calls run on the engine of the replay, too.
    is_usual = not tree.has_host_calls or context.current_engine() == signature.engine
    with (
        contextlib.nullcontext() if is_usual else context.override(engine=signature.engine, fallback="numpy")
    ):
        result, calls = collect_calls(replay)
    if type(result) is not NotReplayed:
        seconds = time.perf_counter() - began
        # The calls of a plan say that they are replayed, those of host calls do not.
        other_reason = Noted(reason, "replayed") if tree.has_host_calls or not calls else ""
        log_fused_call(tree.function, calls, seconds, sum(numpy_seconds), tree.breaks, other_reason)
    return result


def _layout_of(array: Array) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.strides, array.flags.num


def _without_scalar(value: Any) -> Any:
    return value.number if type(value) is Scalar else value
