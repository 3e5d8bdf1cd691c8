"""Capture and replay of calls on device arrays: the plans of such calls.

The first call with a signature warms the caches. The second is captured as a list of library calls, with the
buffers that they use. Later calls replay this list with the device pointers of their own arguments and
results.

The list depends only on the signature: the function, the dtypes and layouts of the arrays, and the other
arguments. This holds as long as the host reads no computed value: a call that synchronized is not replayable.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.values import operations
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    LEGACY_STREAM,
    device_engine,
    has_one_device,
    library_of_type,
    numpy_dtype,
)
from pycudakit._interop.memory_layout import Extent, contiguous_strides, extent, overlap
from pycudakit._native import abi, hardware, loader
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime import context, late_bound, native_call
from pycudakit._runtime.lru_cache import LRUCache, next_use, release_least_recent
from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing.execute.capture import NotReplayableError, key_of_constant, shape_of
from pycudakit.fusing.guards import MAX_DEPTH, ImpureError
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.background_jit import compile_requested

_MODULES = tuple(
    f"{__name__.partition('.')[0]}.{module}"
    for module in ("_families", "_element_programs", "fusing.composites", "image", "linalg")
)
# Bytes of the buffers of one captured call, above which Python's share of the time is negligible, and of all
# captured calls. They are address ranges on the host that are never touched.
_MAX_BYTES, _MAX_TOTAL_BYTES = 1 << 30, 16 << 30
_MAX_SIGNATURES = 256
_MAX_COPIED_BYTES = 1 << 20  # bytes of a table that an entry reads on the host
_REPLAYS_BETWEEN_COMPILES = 16  # after so many replays, kernels that are worth it are compiled
_ALIGNMENT = 256  # bytes
# Entries whose arrays are all on the device, and that return nothing to the host.
_ENTRIES = """pk_digitize pk_evaluate pk_filter pk_gray pk_histogram pk_interp pk_lookup pk_reduce
pk_reduce_several pk_resize pk_scan pk_take pk_weighted_histogram"""
_REPLAYABLE = frozenset(_ENTRIES.split())
_REPLAYABLE_PREFIXES = ("pk_argsort_", "pk_matmul_", "pk_searchsorted_", "pk_sort_")
_INTEGERS = [code for code, dtype in enumerate(abi.TYPES) if dtype.kind in "iu"]


# ---- Signatures --------------------------------------------------------------------------------------


class CallSignature(NamedTuple):
    """The signature of a call, as a hashable key, and the arrays of this call."""

    key: tuple[Any, ...]
    arrays: list[Any]
    addresses: list[int]  # of the arrays' first elements, on the device
    stream: int
    device: int


def _signature_of(function: Any, args: Any, kwargs: Any) -> CallSignature | None:
    """Return the signature of a call; None if it cannot be replayed."""
    if device_engine() is None or context.current_context.get().wait or residency.has_listener():
        return None
    guards = getattr(function, "guards", None)  # of a fused function
    if guards is None and not _is_module_of_functions(getattr(function, "__module__", "")):
        return None
    # No guard sees the attributes of a method's object.
    is_method = guards is not None and type(function.function) is MethodType
    if guards is not None and (guards.sets_errors or guards.has_arrays or is_method):
        return None
    arrays: list[Any] = []
    seen: list[Any] = []
    try:
        guard_values = None if guards is None else guards.evaluate()
        allow_lists = guards is None  # a fused function might change a list argument
        positional = tuple([_key_of_argument(value, arrays, seen, allow_lists) for value in args])
        keyword = tuple(
            [(name, _key_of_argument(each, arrays, seen, allow_lists)) for name, each in kwargs.items()]
        )
    except (NotReplayableError, ImpureError, ValueError):
        return None
    locations = {(stream, gpu) for _, _, stream, gpu in seen}
    if len(locations) != 1 or _any_overlap([memory for memory, *_ in seen]):
        return None
    stream, gpu = locations.pop()
    key = weakref.ref(function), guard_values, positional, keyword, gpu
    return CallSignature(key, arrays, [address for _, address, _, _ in seen], stream, gpu)


@functools.lru_cache(1024)
def _is_module_of_functions(module: str) -> bool:
    """Return True if the results of a module's functions depend on nothing but their arguments."""
    return module.startswith(_MODULES) and not module.endswith(".evaluate")  # it reads its caller's variables


def _key_of_argument(
    value: Any, arrays: list[Any], seen: list[Any], allow_lists: bool, depth: int = 0
) -> Any:
    """Return the part of the key for one argument; append device arrays to `arrays` and `seen`."""
    kind = type(value)
    if (kind is tuple or (kind is list and allow_lists)) and depth < MAX_DEPTH:
        return kind, tuple([_key_of_argument(part, arrays, seen, allow_lists, depth + 1) for part in value])
    library = library_of_type(kind)
    if library is None:
        key = kind if value is Ellipsis or value is np._NoValue else key_of_constant(value)  # noqa: SLF001
        if key is None:
            raise NotReplayableError
        return key
    if not library.is_on_device(value):
        raise NotReplayableError
    for place, array in enumerate(arrays):
        if array is value:
            return place
    try:
        inspected = library.inspect(value)
        gpu = 0 if has_one_device() else library.device_index(value)
    except INSPECT_ERRORS:
        raise NotReplayableError from None
    if inspected is None or inspected[0][3]:  # a read-only array
        raise NotReplayableError
    (name, shape, strides, _), address, stream = inspected
    dtype = numpy_dtype(name)
    if dtype is None or not (address and math.prod(shape)):
        raise NotReplayableError
    arrays.append(value)
    item = dtype.itemsize
    memory = extent(shape, contiguous_strides(shape, item) if strides is None else strides, item, address)
    seen.append((memory, address, stream or LEGACY_STREAM, gpu))
    return kind, dtype, tuple(shape), strides, address % _ALIGNMENT


def _any_overlap(extents: Iterable[Extent]) -> bool:
    return any([overlap(one, other) for one, other in itertools.pairwise(sorted(extents))])  # noqa: C419


# ---- Captured calls ----------------------------------------------------------------------------------


class _Step(NamedTuple):
    """A library call of a captured call; `run` makes it, and returns False if it fails.

    The other fields let `_elide_copies` follow the resident buffers, by their addresses: the temporary buffer
    that a step adds, one that it imports or drops, those that an entry reads or writes, and the two of an
    entry that copies all of one buffer to all of another.
    """

    run: Callable[[], bool]
    adds: int = 0
    imports: int = 0
    drops: int = 0
    uses: frozenset[int] = frozenset()
    copy: tuple[int, int] | None = None


_NO_STEP = _Step(lambda: True)


class CapturedCall:
    """The library calls of one captured call, in order, ready to be replayed.

    During capture it is a `residency.CaptureListener` and observes the native calls.

    Parameters
    ----------
    signature
        The call's signature.
    """

    def __init__(self, signature: CallSignature) -> None:
        self._library = loader.library("cuda")
        self._record: Any = None  # the entry of the call log
        self._device = signature.device
        self._inputs = signature.arrays, signature.addresses
        # New arrays, with their addresses at capture.
        self._new: list[tuple[Any, int, tuple[int, ...], DType]] = []
        self._owners: list[Array] = []  # the host copies of arguments
        self._ranges: dict[int, int] = {}  # sizes of the buffers that are resident now, by address
        self._sizes: dict[int, int] = {}  # and of those that were
        self._index_of_new: dict[int, int] = {}  # by address, of new arrays whose memory is aligned
        self._stream = ctypes.c_uint64()
        self._steps = [_Step(self._entry("pk_residency_set_stream", self._stream))]
        if signature.device != 0:
            set_device = self._entry("pk_residency_set_device", ctypes.c_int64(signature.device))
            self._steps.insert(0, _Step(set_device))
        self._run_steps: list[Callable[[], bool]] = []
        self._drops: list[_Step] = []  # added before the next step; the last ones are left to the scope's end
        self._used: set[int] = set()  # the buffers of the entry that is being recorded
        self._entry_arguments: list[Array] = []  # the entries' array arguments
        self._is_valid = True
        self._template: Any = None  # the result, with indices in place of arrays
        self._device_addresses: list[int] = []  # of the replayed call's arguments and new arrays
        self._replays = self.bytes = 0

    # ---- Capture ----

    def mark_not_replayable(self) -> None:
        """Give up: the call did something that cannot be replayed."""
        self._is_valid = False

    def keep_alive(self, owner: Array) -> None:
        """Keep the host copy alive: its address range is the key in the residency table."""
        self._owners.append(owner)

    def on_resident(self, address: int, size: int, intent: int) -> None:
        """Record a buffer made resident. Uploads are allowed only for small constants of the function."""
        is_small = intent == residency.INPUT and size <= residency.MAX_INLINE_UPLOAD_BYTES
        self._is_valid = self._is_valid and (intent == residency.TEMPORARY or is_small)
        self._note_range(address, size)
        became_resident = ctypes.c_int32()
        arguments = (
            ctypes.c_uint64(address),
            ctypes.c_int64(size),
            ctypes.c_int32(intent),
            ctypes.byref(became_resident),
        )
        make_resident = self._entry("pk_residency_add", *arguments)
        adds = address if intent == residency.TEMPORARY else 0
        self._add(_Step(lambda: make_resident() and became_resident.value == 1, adds=adds))

    def on_imported(self, address: int, size: int, device_address: int, valid: int) -> None:
        """Record the import of the device buffer of an argument or of a new array."""
        self._note_range(address, size)
        self._is_valid = self._is_valid and valid == abi.IMPORT_DEVICE_VALID
        found = self._array_of_address(device_address)
        if found is None:
            return self.mark_not_replayable()
        index, offset = found
        if index >= len(self._inputs[0]) and not offset and not device_address % _ALIGNMENT:
            self._index_of_new[address] = index
        self._add(_Step(self._import(address, size, index, offset), imports=address))
        return None

    def _import(self, address: int, size: int, index: int, offset: int) -> Callable[[], bool]:
        """Return a function that imports the device buffer of an argument or of a new array."""
        address_argument, device_of = ctypes.c_uint64(), ctypes.c_int32()
        arguments = ctypes.c_uint64(address), ctypes.c_int64(size), address_argument, ctypes.c_uint64(0)
        valid = ctypes.c_int32(abi.IMPORT_DEVICE_VALID)
        import_buffer = self._entry("pk_residency_import", *arguments, valid, ctypes.byref(device_of))

        def run() -> bool:
            address_argument.value = self._device_addresses[index] + offset
            return import_buffer() and device_of.value == self._device

        return run

    def on_dropped(self, address: int) -> None:
        """Record that a buffer was dropped."""
        if self._ranges.pop(address, None) is not None:
            drop = self._entry("pk_residency_drop", ctypes.c_uint64(address))
            self._drops.append(_Step(drop, drops=address))

    def on_allocated(self, new: Any, address: int, shape: tuple[int, ...], dtype: DType) -> None:
        """Record a new array, allocated on the device of the first argument."""
        self._new.append((new, address, shape, dtype))

    def on_native_call(self, entry: NativeCall, _function: str) -> None:
        """Record a call of an entry of the C library with its arguments."""
        name, arguments = entry.describe_entry()
        is_replayable = name in _REPLAYABLE or name.startswith(_REPLAYABLE_PREFIXES)
        # A download, or a transfer in chunks, has synchronized with the host.
        has_synchronized = entry.report["bytes_down"][0] or entry.report["chunks"][0]
        returns_to_host = name.startswith("pk_reduce") and not self._keeps_results(arguments)
        if (
            not is_replayable
            or has_synchronized
            or returns_to_host
            or _may_refuse(name, arguments)
            or not self._is_valid
        ):
            return self.mark_not_replayable()
        self._used.clear()
        try:
            kinds = abi.SIGNATURES[name]
            shape = shape_of(arguments)
            bound_arguments = [
                self._bind_argument(kind, value, shape) for kind, value in zip(kinds, arguments, strict=True)
            ]
        except NotReplayableError:
            return self.mark_not_replayable()
        copy = _copy_of(arguments, self._ranges) if name == "pk_evaluate" else None
        self._add(_Step(self._entry(name, *bound_arguments), uses=frozenset(self._used), copy=copy))
        return None

    def finish(self, result: Any) -> bool:
        """End the capture with the call's result; return True if the call can be replayed."""
        self._record = native_call.last_record()
        arrays, addresses = self._inputs
        indices = {id(array): index for index, array in enumerate([*arrays, *(new for new, *_ in self._new)])}
        self._inputs = [], addresses
        self._new = [(None, address, shape, dtype) for _, address, shape, dtype in self._new]
        try:
            self._template = _template_of(result, indices)
        except NotReplayableError:
            return False
        self._elide_copies()
        self._run_steps = [step.run for step in self._steps]
        return self._is_valid and bool(self._entry_arguments) and self.bytes <= _MAX_BYTES

    def _elide_copies(self) -> None:
        """Let entries store to the memory of new arrays, in place of buffers that are copied to these.

        Such a buffer is not used after the copy, nor is the new array by an entry.
        """
        for index, step in enumerate([*self._steps]):
            if step.copy is None:
                continue
            source, target = step.copy
            added = [i for i, each in enumerate(self._steps[:index]) if each.adds == source]
            later = [each for i, each in enumerate(self._steps) if i > index and source in each.uses]
            uses = [each for each in self._steps if target in each.uses]
            if len(added) != 1 or later or len(uses) != 1 or target not in self._index_of_new:
                continue
            run = self._import(source, self._sizes[target], self._index_of_new[target], 0)
            self._steps[added[0]] = _Step(run, imports=source)
            self._steps[index] = _NO_STEP
            self._steps = [_NO_STEP if target in (each.imports, each.drops) else each for each in self._steps]
        self._steps = [each for each in self._steps if each is not _NO_STEP]

    def _add(self, step: _Step) -> None:
        self._steps += [*self._drops, step]
        self._drops.clear()

    def _entry(self, name: str, *arguments: Any) -> Callable[[], bool]:
        call = functools.partial(abi.unchecked(self._library, name), *arguments)
        return lambda: call() == 0

    def _note_range(self, address: int, size: int) -> None:
        self._ranges[address] = self._sizes[address] = size
        self.bytes += size

    def _keeps_results(self, arguments: tuple[Any, ...]) -> bool:
        """Return True if all results of reductions, the last operands, are resident."""
        reductions, *rest = arguments
        table = next(each for each in rest if isinstance(each, np.ndarray) and each.dtype == abi.OPERAND)
        return all(self._is_in_resident_range(int(row["address"])) for row in table[-len(reductions) :])

    def _is_in_resident_range(self, address: int) -> bool:
        used = [first for first, size in self._ranges.items() if first <= address < first + size]
        self._used.update(used)
        return bool(used)

    def _array_of_address(self, device_address: int) -> tuple[int, int] | None:
        """Return the index of the array that contains an address, and the offset from its first element.

        None means that no array does.
        """
        first_addresses = [*self._inputs[1], *(address for _, address, *_ in self._new)]
        # The first element of an array with negative strides is not its lowest address.
        distances = [
            (address - device_address, index)
            for index, address in enumerate(first_addresses)
            if address >= device_address
        ]
        if not distances:
            return None
        distance, index = min(distances)
        return index, -distance

    def _bind_argument(self, kind: Any, value: Any, shape: Array | None) -> Any:
        """Return an argument that outlives the call: a resident buffer's address, or a copy."""
        dtype = getattr(kind, "_dtype_", None)
        if dtype in (abi.OPTIONS, abi.REPORT):
            value = np.zeros(1, dtype)
            if dtype == abi.OPTIONS and self._device != 0:
                devices = np.array([self._device], np.int64)
                self._entry_arguments.append(devices)
                value["devices"], value["device_count"] = address_of(devices), 1
        elif isinstance(value, np.ndarray) and not self._is_in_resident_range(address_of(value)):
            value = self._copied(value, shape)
        if isinstance(value, np.ndarray):
            self._entry_arguments.append(value)
            return ctypes.c_void_p(address_of(value))
        if isinstance(value, ctypes._SimpleCData):  # noqa: SLF001  (a number)
            return type(value)(value.value)
        return kind(value) if isinstance(value, (int, float)) else value

    def _copied(self, table: Array, shape: Array | None) -> Array:
        """Copy a table that an entry reads on the host, and the numbers whose addresses it contains."""
        if table.nbytes > _MAX_COPIED_BYTES:
            raise NotReplayableError
        table = table.copy()
        if table.dtype == abi.BINS and any(
            row["edges"] and not self._is_in_resident_range(int(row["edges"])) for row in table
        ):
            raise NotReplayableError
        for row in table if table.dtype == abi.OPERAND else ():
            address = int(row["address"])
            if address == 0 or self._is_in_resident_range(address):
                continue
            strides = row["strides"]
            is_scalar = not (strides if shape is None else strides[: shape.size][shape > 1]).any()
            if not is_scalar or row["flags"]:
                raise NotReplayableError
            strides[:] = 0
            number = np.empty((), abi.TYPES[int(row["type"])])
            ctypes.memmove(address_of(number), address, number.nbytes)
            row["address"] = address_of(number)
            self._entry_arguments.append(number)
        return table

    # ---- Replay ----

    def replay(self, signature: CallSignature) -> Any:
        """Replay with a call's arrays and return its result; NotImplemented if that fails."""
        first = signature.arrays[0]
        library = library_of_type(type(first))
        assert library is not None  # noqa: S101
        new = [library.empty(shape, dtype, first) for _, _, shape, dtype in self._new]
        addresses = [library.address_of(array) for array in new]
        # Shadow allocations have the alignment of their device buffers.
        if any(
            (address - captured_address) % _ALIGNMENT
            for address, (_, captured_address, *_) in zip(addresses, self._new, strict=True)
        ):
            return NotImplemented
        self._device_addresses = [*signature.addresses, *addresses]
        self._stream.value = signature.stream
        if not residency.run_in_residency_scope(self._library, self._run):
            return NotImplemented
        self._replays += 1
        if self._replays % _REPLAYS_BETWEEN_COMPILES == 0:
            compile_requested(self._library)
        native_call.log_call(self._record)
        return _fill_template(self._template, [*signature.arrays, *new])

    def _run(self) -> bool:
        for step in self._run_steps:  # noqa: SIM110  (a generator takes longer)
            if not step():
                return False
        return True


def _copy_of(arguments: tuple[Any, ...], sizes: dict[int, int]) -> tuple[int, int] | None:
    """Return the buffers that a program of `pk_evaluate` copies from and to, if it does nothing else."""
    program, _, table, _, shape, dimensions, *_ = arguments
    if [*program["op"]] != [abi.OP_LOAD, abi.OP_STORE] or len(table) != 2:
        return None
    loaded, stored = int(program["a"][0]), int(program["b"][1])
    source, target = (int(table["address"][row]) for row in (loaded, stored))
    count = getattr(dimensions, "value", dimensions)  # a number of ctypes, or of Python
    axes = tuple(shape[:count].tolist())
    dtype = abi.TYPES[table["type"][stored]]
    strides = contiguous_strides(axes, dtype.itemsize)
    is_dense = all(tuple(row["strides"][: len(strides)].tolist()) == strides for row in table)
    is_whole = sizes.get(source) == sizes.get(target) == math.prod(axes) * dtype.itemsize
    return (source, target) if {*table["type"].tolist()} == {CODES[dtype]} and is_dense and is_whole else None


def _may_refuse(name: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if an entry may raise depending on values: indices, or integers to negative powers."""
    if name == "pk_take":
        return not arguments[6] & abi.TAKE_INDICES_IN_BOUNDS
    programs = (
        value for value in arguments if isinstance(value, np.ndarray) and value.dtype == abi.INSTRUCTION
    )
    return any(
        np.any((program["op"] == operations()["power"]) & np.isin(program["type"], _INTEGERS))
        for program in programs
    )


def _template_of(result: Any, indices: dict[int, int]) -> Any:
    """Return a result with the indices of its arrays in place of these."""
    if id(result) in indices:
        return indices[id(result)]
    if not isinstance(result, (list, tuple)):
        raise NotReplayableError
    kind: Any = type(result)
    make = kind._make if hasattr(kind, "_fields") else kind
    return make, [_template_of(part, indices) for part in result]


def _fill_template(template: Any, arrays: list[Any]) -> Any:
    if type(template) is int:
        return arrays[template]
    make, parts = template
    return make([_fill_template(part, arrays) for part in parts])


# ---- The cache ---------------------------------------------------------------------------------------


@dataclass
class _CapturedCalls:
    """The captured calls of one signature that no thread is replaying now."""

    idle: list[CapturedCall]
    are_replayable: bool = True
    last_use: int = 0

    @property
    def bytes(self) -> int:
        """The address ranges of the captured calls."""
        return sum([each.bytes for each in self.idle])

    def release(self) -> None:
        """Drop the captured calls; the next call is captured again."""
        self.idle.clear()


_captured_calls: LRUCache[tuple[Any, ...], _CapturedCalls] = LRUCache(_MAX_SIGNATURES)
hardware.on_release.append(_captured_calls.clear)


def try_replay(function: Any, args: Any, kwargs: Any) -> tuple[Any, CallSignature | None]:
    """Replay a call, if its signature was captured; return the result, or NotImplemented, and the signature.

    The signature is None if the call cannot be replayed.
    """
    signature = _signature_of(function, args, kwargs)
    captured = None if signature is None else _captured_calls[signature.key]
    if signature is None or captured is None:
        return NotImplemented, signature
    try:
        captured_call = captured.idle.pop()
    except IndexError:  # none is captured yet, or other threads are replaying all of them
        return NotImplemented, signature
    result = captured_call.replay(signature)
    if result is not NotImplemented:
        captured.idle.append(captured_call)
        captured.last_use = next_use()
    return result, signature


def call(signature: CallSignature | None, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call `run` with arguments that include device arrays; capture the second call with a signature."""
    if signature is None:
        return run(*args, **kwargs)
    captured = _captured_calls[signature.key]
    if captured is None:
        _captured_calls[signature.key] = _CapturedCalls([])  # the first call warms the caches
        return run(*args, **kwargs)
    if not captured.are_replayable:
        return run(*args, **kwargs)
    return _capture(signature, functools.partial(run, *args, **kwargs), captured)


def _capture(signature: CallSignature, call: Callable[[], Any], captured: _CapturedCalls) -> Any:
    captured_call = CapturedCall(signature)
    with residency.listened_to_by(captured_call), native_call.observe_entries(captured_call.on_native_call):
        result = call()
    if not captured_call.finish(result):
        captured.are_replayable = False
        return result
    captured.idle.append(captured_call)
    captured.last_use = next_use()
    _captured_calls[signature.key] = captured  # it may have been dropped meanwhile
    release_least_recent(_captured_calls.live_values(), _MAX_TOTAL_BYTES)
    return result


late_bound.register(try_replay=try_replay)
