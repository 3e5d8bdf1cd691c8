"""Kernels: launches, prepared launches, and attributes."""

from __future__ import annotations

import math
import operator
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._runtime.interrupts import Watcher
from pycudakit.kernels.compiling.source import Signature
from pycudakit.kernels.running.execute import block_limit
from pycudakit.pycuda import _engine
from pycudakit.pycuda._arguments import ArgumentHandler, KernelParameter, UnknownParameter
from pycudakit.pycuda._enums import function_attribute
from pycudakit.pycuda._errors import LogicError, absent, raise_error
from pycudakit.pycuda._streams import Event, handle_of

_LAUNCH = struct.Struct("=QQ3q3q2qQq")  # a pk_launch
_MAX_HEADERS = 256
_SHARED_BYTES = 48 << 10  # a block's, unless the program allows a kernel more
_INTERRUPTED = next(status for status, kind in errors.BY_STATUS.items() if kind is errors.Interrupted)

# The exceptions of an argument's conversion where `struct` does not take it as it is, and of a comparison.
_UNPACKABLE = (KeyError, TypeError, ValueError, OverflowError, struct.error)


def _three(name: str, sizes: Any) -> tuple[int, int, int]:
    """Return the sizes of a block or a grid along x, y and z."""
    given = sizes if isinstance(sizes, Sequence) else (sizes,)
    try:
        if name == "grid" and any(isinstance(size, (float, np.floating)) for size in given):
            given = _whole(given)
        numbers = [operator.index(size) for size in given]
    except TypeError:
        raise TypeError(f"{name} is {sizes!r}; give integers: use // where there is /") from None
    if not 1 <= len(numbers) <= 3:
        raise LogicError(f"{name} is {sizes!r}; give up to three sizes, such as (256, 1, 1)")
    if max(numbers) >= 1 << 62 or min(numbers) < -(1 << 62):
        raise LogicError(f"{name} is {sizes!r}; no device has that many")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _whole(sizes: Sequence[Any]) -> list[Any]:
    """Return the sizes of a grid without fractions: / gave integers when many programs were written."""
    if not all(math.isfinite(size) for size in sizes):
        raise LogicError(f"grid is {sizes!r}; give integers")
    numbers = [int(size) for size in sizes]
    if numbers != list(sizes):
        message = f"grid is {sizes!r}, and becomes {(*numbers,)!r}: use // where there is /"
        warnings.warn(message, RuntimeWarning, stacklevel=5)
    return numbers


class _Local(threading.local):
    def __init__(self) -> None:
        self.watcher = Watcher()


_local = _Local()


class Function:
    """A kernel of a module.

    Attributes
    ----------
    name
        Its name.
    """

    def __init__(self, module: Any, name: str, handle: int, limits: Any, signature: Signature | None) -> None:
        self.module = module
        self.name = name
        self._signature = signature
        self._handle = handle
        self._engine = engine = _engine.current()
        self._launch = engine.entry("pk_module_launch")
        self._prints: bool = module.prints
        self._shared_limit = _SHARED_BYTES - int(limits["static_shared"])
        self._limit = block_limit() if module.debug and engine.is_cpu else 0
        self._parameters = _parameters(name, limits, signature)
        codes = struct.Struct("=" + "".join(parameter.code for parameter in self._parameters))
        self._pack, self._size = codes.pack, codes.size
        # By the types of the arguments: the getters of those that `struct` does not pack as they are.
        self._direct: dict[tuple[type, ...], tuple[tuple[int, Any], ...]] = {}
        # The packed `pk_launch` by grid, block, bytes of shared memory, stream and the thread's watcher,
        # which the launch calls: the key keeps it alive.
        self._headers: dict[Any, bytes] = {}
        self.forget()
        _engine.forget_on_fork(self)

    def forget(self) -> None:
        """Clear the cache, so that the next launch checks the engine."""
        self._headers.clear()
        # The last launch: types of the arguments, and the key of `_headers`; then how such arguments are
        # launched. It is one attribute, as `__getattr__` slows each look-up.
        self._last: Any = None, (), b"", self._pack, self._launch, self._size

    def __repr__(self) -> str:
        """Return the kernel's declaration."""
        if self._signature is None:
            return f"<Function {self.name}>"
        listed = ", ".join(map(str, self._signature.parameters))
        return f"<Function {self.name}({listed})>"

    # ---- Launches ----------------------------------------------------------------------------------

    def __call__(
        self,
        *args: Any,
        block: Any = None,
        grid: Any = (1, 1),
        stream: Any = None,
        shared: int | None = 0,
        texrefs: Sequence[Any] = (),
        time_kernel: bool = False,
    ) -> float | None:
        """Launch the kernel.

        Parameters
        ----------
        *args
            For a pointer device memory, an address, an array on the device, or In, Out or InOut of an array
            of the host; for a value a number, a NumPy scalar, or the bytes of a struct.
        block, grid
            The threads of a block, and the blocks, along x, y and z.
        stream
            The stream; None is the legacy default stream.
        shared
            The bytes of dynamic shared memory.
        texrefs
            There are none.
        time_kernel
            Return the kernel's time in seconds, and wait for it.
        """
        if texrefs:
            _refuse_textures(texrefs)
        if shared is None:
            shared = 0
        if time_kernel:
            return self._timed(args, grid, block, shared, stream)
        self._run(args, grid, block, shared, stream)
        return None

    def prepare(self, arg_types: Any, texrefs: Sequence[Any] = ()) -> Function:
        """Return the function itself; the types of parameters come from the source.

        Parameters
        ----------
        arg_types
            The types for a kernel whose source is not known.
        texrefs
            There are none.
        """
        _refuse_textures(texrefs)
        if self._signature is None:
            self._retype(arg_types)
        return self

    def prepared_call(self, grid: Any, block: Any, *args: Any, shared_size: int = 0) -> None:
        """Launch the kernel in the legacy default stream."""
        last, getters, header, pack, launch, size = self._last
        packed = None
        try:
            if (tuple(map(type, args)), grid, block, shared_size, 0, _local.watcher) == last:
                packed = pack(*args) if not getters else pack(*_got(args, getters))
        except _UNPACKABLE:
            pass  # below, where it is not the context of errors
        if packed is None:
            self._run(args, grid, block, shared_size, None)
        else:
            status = launch(header, packed, size)
            if status:
                self._end(status)

    def prepared_async_call(
        self, grid: Any, block: Any, stream: Any, *args: Any, shared_size: int = 0
    ) -> None:
        """Launch the kernel in a stream."""
        self._run(args, grid, block, shared_size, stream)

    def prepared_timed_call(
        self, grid: Any, block: Any, *args: Any, shared_size: int = 0
    ) -> Callable[[], float]:
        """Launch the kernel; return a function that waits for it and returns its time in seconds."""
        begin, end = Event(), Event()
        begin.record()
        self._run(args, grid, block, shared_size, None)
        end.record()

        def seconds() -> float:
            end.synchronize()
            return end.time_since(begin) * 1e-3

        return seconds

    def _timed(self, args: Any, grid: Any, block: Any, shared: Any, stream: Any) -> float:
        """Launch the kernel, wait for it, and return its time in seconds."""
        begin, end = Event(), Event()
        begin.record(stream)
        self._run(args, grid, block, shared, stream, end)
        end.synchronize()
        return end.time_since(begin) * 1e-3

    def _run(
        self, args: Any, grid: Any, block: Any, shared: Any, stream: Any, end: Event | None = None
    ) -> None:
        last, getters, header, pack, launch, size = self._last
        packed = None
        try:
            kinds, watcher = tuple(map(type, args)), _local.watcher
            handle = 0 if stream is None else stream.handle
            launched = kinds, grid, block, shared, handle, watcher
            is_new = launched != last
            if is_new:
                getters = self._direct[kinds]
                header = self._headers[grid, block, shared, handle, watcher]
            packed = pack(*args) if not getters else pack(*_got(args, getters))
        except (*_UNPACKABLE, AttributeError):
            pass  # below, where it is not the context of errors
        if packed is None:
            self._run_checked(args, grid, block, shared, stream, end)
            return
        status = launch(header, packed, size)
        if status or self._prints:
            self._end(status)
        elif is_new:
            self._last = launched, getters, header, pack, launch, size
        if end is not None:
            end.record(stream)

    def _end(self, status: int) -> None:
        """Print the kernel's output, and raise its failure."""
        if self._prints:
            self._engine.note_print(self.module)
            if self._engine.is_cpu:
                self._engine.print_texts()
        if status:
            if status == _INTERRUPTED:
                _local.watcher.raise_error()
            raise_error(self._engine.library, status)

    # ---- Launches whose arguments are checked ------------------------------------------------------

    def _run_checked(
        self, args: Any, grid: Any, block: Any, shared: Any, stream: Any, end: Event | None = None
    ) -> None:
        if block is None:
            raise ValueError(f"{self.name}: give block, the threads of a block, such as block=(256, 1, 1)")
        engine = _engine.current()  # or LogicError
        if engine is not self._engine:
            raise LogicError(f"{self.name} belongs to another engine")
        header = self._header(grid, block, shared, stream)
        handlers: list[ArgumentHandler] = []
        packed = self._packed(args, handlers)
        for handler in handlers:
            handler.pre_call(stream)
        status = self._launch(header, packed, self._size)
        if status or self._prints:
            self._end(status)
        if end is not None:
            end.record(stream)
        for handler in handlers:
            handler.post_call(stream)

    def _header(self, grid: Any, block: Any, shared: Any, stream: Any) -> bytes:
        handle = handle_of(stream)
        try:
            size = operator.index(0 if shared is None else shared)
        except TypeError:
            raise TypeError(f"{self.name}: shared is {shared!r}; give a number of bytes") from None
        if not -(1 << 62) < size < 1 << 62:
            raise LogicError(f"{self.name}: shared is {size}; no device has that many bytes")
        if size > self._shared_limit:
            raise LogicError(
                f"{self.name}: shared is {size}, and {self._shared_limit} bytes of dynamic shared memory are "
                "possible: set_attribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, ...) allows more"
            )
        watcher = _local.watcher
        callback = watcher.address if self._engine.is_cpu else 0
        header = _LAUNCH.pack(
            *(self._handle, handle, *_three("grid", grid), *_three("block", block)),
            *(size, self._limit, callback, 0),
        )
        try:
            if len(self._headers) >= _MAX_HEADERS:
                self._headers.clear()
            self._headers[grid, block, shared, handle, watcher] = header
        except TypeError:  # a list, which cannot be a key
            pass
        return header

    def _packed(self, args: Sequence[Any], handlers: list[ArgumentHandler]) -> bytes:
        parameters = self._parameters
        if len(args) != len(parameters):
            raise TypeError(f"{self!r} takes {len(parameters)} arguments, and {len(args)} were given")
        values = [
            parameter.converted(argument, handlers)
            for parameter, argument in zip(parameters, args, strict=True)
        ]
        kinds = tuple(map(type, args))
        if kinds not in self._direct and len(self._direct) < _MAX_HEADERS:
            getters = []
            for index, (parameter, kind) in enumerate(zip(parameters, kinds, strict=True)):
                is_direct, getter = parameter.packed_directly(kind)
                if not is_direct:
                    break
                if getter is not None:
                    getters.append((index, getter))
            else:
                self._direct[kinds] = tuple(getters)
        return self._pack(*values)

    def _retype(self, arg_types: Any) -> None:
        """Take the types of parameters from `prepare`, as the source is not known."""
        formats = [arg_types] if isinstance(arg_types, str) else list(arg_types)
        sizes: list[int] = []
        for kind in formats:
            if isinstance(kind, str):
                sizes += [struct.calcsize(f"@{code}") for code in kind]
            elif isinstance(kind, np.dtype) or (isinstance(kind, type) and issubclass(kind, np.generic)):
                sizes.append(np.dtype(kind).itemsize)
            else:
                sizes.append(8)
        if len(self._parameters) not in (0, len(sizes)):
            raise LogicError(f"{self.name} has {len(self._parameters)} parameters, not {len(sizes)}")
        self._parameters = [UnknownParameter(self.name, index, size) for index, size in enumerate(sizes)]
        codes = struct.Struct("=" + "".join(parameter.code for parameter in self._parameters))
        self._pack, self._size = codes.pack, codes.size
        self.forget()

    # ---- Attributes --------------------------------------------------------------------------------

    def get_attribute(self, attribute: int) -> int:
        """Return an attribute, a member of `function_attribute`."""
        return int(self.module.attribute(self._handle, operator.index(attribute)))

    def set_attribute(self, attribute: int, value: int) -> None:
        """Set an attribute, a member of `function_attribute`."""
        number, count = operator.index(attribute), operator.index(value)
        _engine.current().function_set_attribute(self._handle, number, count)
        if number == function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            self._shared_limit = count
            self.forget()

    def set_cache_config(self, fc: int) -> None:
        """Do nothing: how cache and shared memory share their space is the device's choice."""

    def set_shared_config(self, config: int) -> None:
        """Do nothing: the banks of shared memory have 4 bytes."""

    param_set_texref = absent("Function.param_set_texref", "CUDA 12 has no texture references")

    def __getattr__(self, name: str) -> int:
        """Return an attribute by its name in small letters: ``function.num_regs``."""
        attribute = function_attribute.__members__.get(name.upper())
        if attribute is None or name.startswith("_"):
            raise AttributeError(f"a Function has no attribute {name!r}")
        return self.get_attribute(attribute)


def _got(args: Sequence[Any], getters: Sequence[tuple[int, Any]]) -> list[Any]:
    values = list(args)
    for index, getter in getters:
        values[index] = getter(values[index])
    return values


def _refuse_textures(texrefs: Sequence[Any]) -> None:
    if texrefs:
        raise LogicError("there are no texture references: CUDA 12 has none; pass device memory")


def _parameters(name: str, limits: Any, signature: Signature | None) -> list[KernelParameter]:
    count = int(limits["parameters"])
    sizes = limits["parameter_bytes"][: max(count, 0)].tolist()
    if signature is None:
        return [UnknownParameter(name, index, size) for index, size in enumerate(sizes)]
    declared = signature.parameters
    if count >= 0 and count != len(declared):
        raise LogicError(
            f"{name} has {count} parameters for the compiler, and {len(declared)} as its source was read: "
            "declare them without macros"
        )
    sizes = sizes or [0] * len(declared)
    return [
        KernelParameter(name, index, parameter, size)
        for index, (parameter, size) in enumerate(zip(declared, sizes, strict=True))
    ]
