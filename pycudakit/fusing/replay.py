"""Calls of pycudakit's functions with arrays on a GPU, written down once and played from then on.

What such a call asks of the library follows from the function, from how its arrays lie, and from its other
arguments, as long as the host looks at nothing of what is computed. So the entries that the second call of a
kind makes are written down, with the memory that it keeps on the way, and for the next ones they are called
again: with other homes for the arguments and the results.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.values import operations
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    LEGACY_STREAM,
    byte_extent,
    device_engine,
    has_one_device,
    library_of_type,
    numpy_dtype,
)
from pycudakit._native import abi, hardware, loader
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context, late_bound, native_call
from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing.guards import ImpureError
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.background_jit import compile_requested

_ROOMS = tuple(
    f"{__name__.partition('.')[0]}.{room}"
    for room in ("_families", "_element_programs", "fusing.composites", "image", "linalg")
)
# Bytes of a call, of which more takes so long that Python is next to nothing; and of all tapes: of the host's
# memory, which nobody touches.
_MOST_BYTES, _MOST_IN_ALL = 1 << 30, 16 << 30
_MOST_KINDS = 256
_MOST_COPIED = 1 << 20  # bytes of what an entry reads on the host
_OFTEN = 16  # plays, after which it is looked whether a pass is worth to be compiled
_ALIGNED = 256  # bytes
# What finds all of its arrays on the device, and tells nothing but what it stores there.
_ENTRIES = """pk_digitize pk_evaluate pk_filter pk_gray pk_histogram pk_interp pk_lookup pk_reduce
pk_reduce_several pk_resize pk_scan pk_take pk_weighted_histogram"""
_PLAYED = frozenset(_ENTRIES.split())
_PLAYED_OF_TYPES = ("pk_argsort_", "pk_matmul_", "pk_searchsorted_", "pk_sort_")
_INTEGERS = [code for code, dtype in enumerate(abi.TYPES) if dtype.kind in "iu"]


class _OtherError(Exception):
    """Ends the look at a call of which nothing can be played."""


# ---- Which calls are alike ---------------------------------------------------------------------------


class CallSignature(NamedTuple):
    """A kind of calls, and the arrays of one."""

    key: tuple[Any, ...]
    arrays: list[Any]
    addresses: list[int]  # of their first elements
    stream: int
    device: int


def _kind_of(function: Any, args: Any, kwargs: Any) -> CallSignature | None:
    """Return which calls are like this one; None if it is one that cannot be played."""
    if device_engine() is None or context.current_context.get().wait or residency.has_listener():
        return None
    guards = getattr(function, "guards", None)  # of a fused function
    if guards is None and not _is_of_the_kit(function):
        return None
    arrays: list[Any] = []
    seen: list[Any] = []
    try:
        there = None if guards is None else guards.evaluate()
        of_lists = guards is None  # which a function of the caller's might change
        given = tuple([_described(value, arrays, seen, of_lists) for value in args])
        named = tuple([(name, _described(each, arrays, seen, of_lists)) for name, each in kwargs.items()])
    except (_OtherError, ImpureError, ValueError):
        return None
    places = {(stream, gpu) for _, _, stream, gpu in seen}
    if len(places) != 1 or _overlap(seen):
        return None
    stream, gpu = places.pop()
    key = function, there, given, named, gpu
    return CallSignature(key, arrays, [address for _, address, _, _ in seen], stream, gpu)


@functools.lru_cache(1024)
def _is_of_the_kit(function: Any) -> bool:
    """Tell whether a function's result follows from its arguments."""
    room = getattr(function, "__module__", "")
    return room.startswith(_ROOMS) and not room.endswith(".evaluate")  # which looks at its caller's names


def _described(value: Any, arrays: list[Any], seen: list[Any], of_lists: bool) -> Any:
    """Return what tells an argument from those of other calls; arrays on a GPU go to a list."""
    kind = type(value)
    if kind in (bool, int, str, type(None), type):
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is tuple or (kind is list and of_lists):
        return kind, tuple([_described(part, arrays, seen, of_lists) for part in value])
    if isinstance(value, (np.dtype, np.generic)):
        return kind, str(value) if isinstance(value, np.dtype) else value.tobytes()
    if value is Ellipsis or value is np._NoValue:  # noqa: SLF001
        return kind
    library = library_of_type(kind)
    if library is None or not library.is_on_device(value):
        raise _OtherError
    for place, known in enumerate(arrays):
        if known is value:
            return place
    try:
        found = library.inspect(value)
        gpu = 0 if has_one_device() else library.device_index(value)
    except INSPECT_ERRORS:
        raise _OtherError from None
    if found is None or found[0][3]:  # what may not be written to
        raise _OtherError
    (name, shape, strides, _), address, stream = found
    dtype = numpy_dtype(name)
    if dtype is None or not (address and math.prod(shape)):
        raise _OtherError
    arrays.append(value)
    seen.append((_extent(dtype, tuple(shape), strides, address), address, stream or LEGACY_STREAM, gpu))
    return kind, dtype, tuple(shape), strides, address % _ALIGNED


def _extent(dtype: DType, shape: tuple[int, ...], strides: Any, address: int) -> tuple[int, int]:
    """Return where an array's memory begins and ends."""
    if strides is None:
        return address, address + math.prod(shape) * dtype.itemsize
    low, high = byte_extent(shape, strides)
    return address + low, address + high + dtype.itemsize


def _overlap(seen: list[Any]) -> bool:
    extents = sorted([extent for extent, *_ in seen])
    return any(one[1] > other[0] for one, other in itertools.pairwise(extents))


# ---- What is written down ----------------------------------------------------------------------------


class CapturedCall:
    """What a call asks of the library, in its order, and then what plays it.

    Parameters
    ----------
    kind
        Of the call.
    """

    def __init__(self, kind: CallSignature) -> None:
        self._library = loader.library("cuda")
        self._record: Any = None  # of the call
        self._device = kind.device
        self._inputs = kind.arrays, kind.addresses
        self._new: list[tuple[Any, int, tuple[int, ...], DType]] = []  # with where they were
        self._owners: list[Array] = []  # of the memory by whose addresses the library knows what is kept
        self._ranges: dict[int, int] = {}  # bytes that are kept now, by the first's address
        self._stream = ctypes.c_uint64()
        self._steps = [self._entry("pk_plan_set_stream", self._stream)]
        if kind.device != 0:
            self._steps.insert(0, self._entry("pk_plan_set_device", ctypes.c_int64(kind.device)))
        self._drops: list[Callable[[], bool]] = []  # steps, if others follow: a plan's end drops all
        self._lasting: list[Array] = []  # what entries are given
        self._is_valid = True
        self._template: Any = None  # of the result
        self._homes: list[int] = []  # of the arguments and the new arrays of a call that is played
        self._plays = self.bytes = 0

    # ---- While a call is written down ----

    def mark_not_replayable(self) -> None:
        """Note that the call did what cannot be played."""
        self._is_valid = False

    def keep_alive(self, owner: Array) -> None:
        """Keep memory for as long as its addresses are names."""
        self._owners.append(owner)

    def on_resident(self, address: int, size: int, intent: int) -> None:
        """Note memory that is kept; what goes up there is what the function has made, or names."""
        is_small = intent == residency.INPUT and size <= residency.MAX_INLINE_UPLOAD_BYTES
        self._is_valid = self._is_valid and (intent == residency.TEMPORARY or is_small)
        self._note_range(address, size)
        became_resident = ctypes.c_int32()
        given = (
            ctypes.c_uint64(address),
            ctypes.c_int64(size),
            ctypes.c_int32(intent),
            ctypes.byref(became_resident),
        )
        keep = self._entry("pk_plan_make_resident", *given)
        self._add(lambda: keep() and became_resident.value == 1)

    def on_imported(self, address: int, size: int, home: int, valid: int) -> None:
        """Note memory that stands for an argument's, or for a new array's."""
        self._note_range(address, size)
        self._is_valid = self._is_valid and valid == abi.IMPORT_DEVICE_VALID
        place, offset = self._place_of(home)
        own, device_of = ctypes.c_uint64(), ctypes.c_int32()
        given = ctypes.c_uint64(address), ctypes.c_int64(size), own, ctypes.c_uint64(0)
        import_buffer = self._entry("pk_plan_import", *given, ctypes.c_int32(valid), ctypes.byref(device_of))

        def step() -> bool:
            own.value = self._homes[place] + offset
            return import_buffer() and device_of.value == self._device

        self._add(step)

    def on_dropped(self, address: int) -> None:
        """Note memory that is kept no longer."""
        if self._ranges.pop(address, None) is not None:
            self._drops.append(self._entry("pk_plan_drop", ctypes.c_uint64(address)))

    def on_allocated(self, new: Any, address: int, shape: tuple[int, ...], dtype: DType) -> None:
        """Note a new array beside the first argument."""
        self._new.append((new, address, shape, dtype))

    def on_native_call(self, entry: NativeCall) -> None:
        """Note what an entry was given."""
        name, arguments = entry.describe_entry()
        is_known = name in _PLAYED or name.startswith(_PLAYED_OF_TYPES)
        # What has come down, or gone in chunks, was waited for: by who looks at something.
        was_waited_for = entry.report["bytes_down"][0] or entry.report["chunks"][0]
        is_seen = name.startswith("pk_reduce") and not self._keeps_results(arguments)
        if not is_known or was_waited_for or is_seen or _may_refuse(name, arguments) or not self._is_valid:
            return self.mark_not_replayable()
        try:
            kinds = abi.SIGNATURES[name]
            shape = _shape_of(arguments)
            given = [self._own(kind, value, shape) for kind, value in zip(kinds, arguments, strict=True)]
        except _OtherError:
            return self.mark_not_replayable()
        self._add(self._entry(name, *given))
        return None

    def finish(self, result: Any) -> bool:
        """End with the call's result, and tell whether such calls can be played."""
        self._record = native_call.last_record()
        arrays, addresses = self._inputs
        places = {id(array): place for place, array in enumerate([*arrays, *(new for new, *_ in self._new)])}
        self._inputs = [], addresses
        self._new = [(None, at, shape, dtype) for _, at, shape, dtype in self._new]
        try:
            self._template = _template_of(result, places)
        except _OtherError:
            return False
        return self._is_valid and bool(self._lasting) and self.bytes <= _MOST_BYTES

    def _add(self, step: Callable[[], bool]) -> None:
        self._steps += [*self._drops, step]
        self._drops.clear()

    def _entry(self, name: str, *given: Any) -> Callable[[], bool]:
        call = functools.partial(abi.unchecked(self._library, name), *given)
        return lambda: call() == 0

    def _note_range(self, address: int, size: int) -> None:
        self._ranges[address] = size
        self.bytes += size

    def _keeps_results(self, arguments: tuple[Any, ...]) -> bool:
        """Tell whether all results of reductions, which are the last operands, are kept."""
        reductions, *rest = arguments
        table = next(each for each in rest if isinstance(each, np.ndarray) and each.dtype == abi.OPERAND)
        return all(self._is_in_resident_range(int(row["address"])) for row in table[-len(reductions) :])

    def _is_in_resident_range(self, address: int) -> bool:
        return any(first <= address < first + size for first, size in self._ranges.items())

    def _place_of(self, home: int) -> tuple[int, int]:
        """Return which array memory is of, and how far from its first element that begins."""
        known = [*self._inputs[1], *(address for _, address, *_ in self._new)]
        # An array that goes backwards has its first element behind others.
        apart, place = min((address - home, place) for place, address in enumerate(known) if address >= home)
        return place, -apart

    def _own(self, kind: Any, value: Any, shape: Array | None) -> Any:
        """Return an argument for good: what is kept by its name, tables and numbers as copies."""
        dtype = getattr(kind, "_dtype_", None)
        if dtype in (abi.OPTIONS, abi.REPORT):
            value = np.zeros(1, dtype)
            if dtype == abi.OPTIONS and self._device != 0:
                devices = np.array([self._device], np.int64)
                self._lasting.append(devices)
                value["devices"], value["device_count"] = address_of(devices), 1
        elif isinstance(value, np.ndarray) and not self._is_in_resident_range(address_of(value)):
            value = self._copied(value, shape)
        if isinstance(value, np.ndarray):
            self._lasting.append(value)
            return ctypes.c_void_p(address_of(value))
        if isinstance(value, ctypes._SimpleCData):  # noqa: SLF001  (a number)
            return type(value)(value.value)
        return kind(value) if isinstance(value, (int, float)) else value

    def _copied(self, table: Array, shape: Array | None) -> Array:
        """Return a copy of what an entry reads on the host, and of numbers of which that has the places."""
        if table.nbytes > _MOST_COPIED:
            raise _OtherError
        table = table.copy()
        if table.dtype == abi.BINS and any(
            row["edges"] and not self._is_in_resident_range(int(row["edges"])) for row in table
        ):
            raise _OtherError
        for row in table if table.dtype == abi.OPERAND else ():
            address = int(row["address"])
            if address == 0 or self._is_in_resident_range(address):
                continue
            strides = row["strides"]
            is_one = not (strides if shape is None else strides[: shape.size][shape > 1]).any()
            if not is_one or row["flags"]:
                raise _OtherError
            strides[:] = 0
            number = np.empty((), abi.TYPES[int(row["type"])])
            ctypes.memmove(address_of(number), address, number.nbytes)
            row["address"] = address_of(number)
            self._lasting.append(number)
        return table

    # ---- When it is played ----

    def replay(self, kind: CallSignature) -> Any:
        """Return the result of a call of its kind; NotImplemented if it cannot be played after all."""
        first = kind.arrays[0]
        library = library_of_type(type(first))
        assert library is not None  # noqa: S101
        new = [library.empty(shape, dtype, first) for _, _, shape, dtype in self._new]
        homes = [library.address_of(array) for array in new]
        # An array is aligned on the host as it is on the device.
        if any((home - at) % _ALIGNED for home, (_, at, *_) in zip(homes, self._new, strict=True)):
            return NotImplemented
        self._homes = [*kind.addresses, *homes]
        self._stream.value = kind.stream
        if not residency.run_in_residency_scope(self._library, self._run):
            return NotImplemented
        self._plays += 1
        if self._plays % _OFTEN == 0:
            compile_requested(self._library)
        native_call.log_call(self._record)
        return _filled(self._template, [*kind.arrays, *new])

    def _run(self) -> bool:
        for step in self._steps:  # noqa: SIM110  (a generator takes longer)
            if not step():
                return False
        return True


def _shape_of(arguments: tuple[Any, ...]) -> Array | None:
    """Return the shape of an entry's operands: it comes behind their table, and how many these are."""
    arrays = [value if isinstance(value, np.ndarray) else None for value in arguments]
    for place, table in enumerate(arrays):
        if table is not None and table.dtype == abi.OPERAND:
            behind = (each for each in arrays[place + 1 : place + 3] if each is not None)
            return next((each for each in behind if each.dtype == np.int64), None)
    return None


def _may_refuse(name: str, arguments: tuple[Any, ...]) -> bool:
    """Tell whether an entry raises what depends on values: of indices, or of integers to negative powers."""
    if name == "pk_take":
        return not arguments[6] & abi.TAKE_INDICES_IN_BOUNDS
    programs = (
        value for value in arguments if isinstance(value, np.ndarray) and value.dtype == abi.INSTRUCTION
    )
    return any(
        np.any((program["op"] == operations()["power"]) & np.isin(program["type"], _INTEGERS))
        for program in programs
    )


def _template_of(result: Any, places: dict[int, int]) -> Any:
    """Return a result with the places of arrays in their stead."""
    if id(result) in places:
        return places[id(result)]
    if not isinstance(result, (list, tuple)):
        raise _OtherError
    kind: Any = type(result)
    make = kind._make if hasattr(kind, "_fields") else kind
    return make, [_template_of(part, places) for part in result]


def _filled(template: Any, arrays: list[Any]) -> Any:
    if type(template) is int:
        return arrays[template]
    make, parts = template
    return make([_filled(part, arrays) for part in parts])


# ---- All that there are ------------------------------------------------------------------------------


@dataclass
class _Known:
    """The tapes of a kind of calls that nobody plays now, if there can be any."""

    idle: list[CapturedCall]
    are_possible: bool = True


_known: dict[tuple[Any, ...], _Known] = {}
hardware.on_release.append(_known.clear)


def try_replay(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a call of one of pycudakit's functions, if there is a tape; else NotImplemented."""
    kind = _kind_of(function, args, kwargs)
    known = None if kind is None else _known.get(kind.key)
    if kind is None or known is None:
        return NotImplemented
    try:
        tape = known.idle.pop()
    except IndexError:  # there is none yet, or other threads play all
        return NotImplemented
    result = tape.replay(kind)
    if result is not NotImplemented:
        known.idle.append(tape)
    return result


def call(function: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call what runs a pycudakit function with arrays on a GPU; write it down, if that is new."""
    kind = _kind_of(function, args, kwargs)
    if kind is None:
        return run(*args, **kwargs)
    known = _known.get(kind.key)
    if known is None:
        if len(_known) >= _MOST_KINDS:
            _known.clear()
        _known[kind.key] = _Known([])  # the first call prepares what others find
        return run(*args, **kwargs)
    if not known.are_possible:
        return run(*args, **kwargs)
    return _recorded(kind, functools.partial(run, *args, **kwargs), known)


def _recorded(kind: CallSignature, call: Callable[[], Any], known: _Known) -> Any:
    tape = CapturedCall(kind)
    with residency.listened_to_by(tape), native_call.observe_entries(tape.on_native_call):
        result = call()
    if not tape.finish(result):
        known.are_possible = False
        return result
    if tape.bytes + sum(each.bytes for others in _known.values() for each in others.idle) > _MOST_IN_ALL:
        _known.clear()
    known.idle.append(tape)
    return result


late_bound.register(try_replay=try_replay)
