"""`Program`: several kernel launches over named device buffers, run by one call."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop.device_view import DeviceView
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array, DType, masked_arrays
from pycudakit._runtime import context
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.function import Function
from pycudakit.kernels.program_ir import BufferDeclaration, Handle, LaunchStep, Loop, Lowered, repr_lines
from pycudakit.kernels.running import argument_binding, execute
from pycudakit.kernels.running.device_arguments import (
    device_argument,
    empty_like_device,
    is_on_device,
    refuse_isolated_device_arrays,
)
from pycudakit.kernels.running.run_request import Buffer, Place
from pycudakit.kernels.running.shared_memory import copy
from pycudakit.kernels.running.transfers import In

_UP, _DOWN = ("input", "inout"), ("output", "inout")
_ONE = (1, 1, 1)
_RESERVED = ("inputs", "out", "symbols", "isolate", "timeout", "time_kernel", "self")


class Program:
    """A sequence of kernel launches over named device buffers, run in order by one call.

    Each input is uploaded once, each output is downloaded once, and temporaries exist only on the device.
    `input`, `inout`, `output` and `temp` declare buffers; `launch` adds a launch, with a buffer for each
    pointer of the kernel. A program can be called any number of times, from any thread, and can be pickled.

    Parameters
    ----------
    name : str
        The function's name in `last_call`.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> halve = pk.SourceModule('''
    ... __global__ void halve(const float *from, float *to, int n) {
    ...     int i = threadIdx.x + blockIdx.x * blockDim.x;
    ...     if (i < n) to[i] = from[i] / 2;
    ... }
    ... ''').get_function("halve")
    >>> p = pk.Program()
    >>> u, v = p.inout("u", 3, np.float32), p.temp("v", 3, np.float32)
    >>> with p.repeat(2):
    ...     p.launch(halve, u, v, 3, block=(32, 1, 1))
    ...     p.launch(halve, v, u, 3, block=(32, 1, 1))
    >>> p(u=np.array([16, 32, 48], np.float32))["u"]
    array([1., 2., 3.], dtype=float32)
    """

    def __init__(self, name: str = "Program") -> None:
        self.name = name
        self._memory: list[BufferDeclaration] = []
        self._steps: list[LaunchStep | Loop] = []
        self._open: list[list[LaunchStep | Loop]] = [self._steps]
        self._prepared: dict[tuple[str, int], Lowered] = {}

    @property
    def has_inouts(self) -> bool:
        """Whether a buffer is both uploaded and downloaded."""
        return any(memory.kind == "inout" for memory in self._memory)

    # ---- Buffers -----------------------------------------------------------------------------------

    def input(self, name: str, shape: Any, dtype: Any) -> Handle:
        """Declare a buffer that is uploaded from an argument of each call.

        Parameters
        ----------
        name : str
            The keyword of the argument.
        shape : int or tuple of int
            The shape of the array.
        dtype : dtype
            The dtype of the array.

        Returns
        -------
        Handle
            The buffer, as an argument of `launch` for a pointer of the kernel.
        """
        return self._declare("input", name, shape, dtype)

    def inout(self, name: str, shape: Any, dtype: Any) -> Handle:
        """Declare a buffer that is uploaded, and whose content at the end is returned; see `input`."""
        return self._declare("inout", name, shape, dtype)

    def output(self, name: str, shape: Any, dtype: Any, *, poison: bool = False) -> Handle:
        """Declare a buffer whose content at the end is returned; see `input`.

        It starts as zeros or, with `poison`, as a pattern that shows elements that no kernel has written.
        """
        return self._declare("output", name, shape, dtype, poison)

    def temp(self, name: str, shape: Any, dtype: Any, *, poison: bool = False) -> Handle:
        """Declare a temporary buffer on the device, which starts as an `output` does."""
        return self._declare("temp", name, shape, dtype, poison)

    def _declare(self, kind: str, name: Any, shape: Any, dtype: Any, poison: bool = False) -> Handle:
        if not isinstance(name, str):
            raise TypeError(f"a buffer's name must be a string, and is {name!r}")
        if not name.isidentifier() or name in _RESERVED:
            raise ValueError(f"a buffer's name is the keyword of a call, which {name!r} cannot be")
        if any(memory.name == name for memory in self._memory):
            raise ValueError(f"there is a buffer {name!r} already")
        sizes: tuple[int, ...]
        try:
            sizes = (operator.index(shape),)
        except TypeError:
            sizes = tuple(operator.index(size) for size in shape)
        if any(size < 0 for size in sizes):
            raise ValueError(f"the shape {sizes} of the buffer {name!r} has a negative size")
        element = np.dtype(dtype)
        if element.hasobject or not element.itemsize:
            raise TypeError(f"the buffer {name!r} cannot have the dtype {element}")
        element = element.newbyteorder("=")
        self._memory.append(BufferDeclaration(kind, name, sizes, element, poison))
        self._prepared.clear()
        return Handle(self, len(self._memory) - 1, name, sizes, element)

    # ---- Steps -------------------------------------------------------------------------------------

    @contextmanager
    def repeat(self, count: int) -> Iterator[None]:
        """Repeat the launches of a ``with`` block; blocks may be nested.

        Parameters
        ----------
        count : int
            The number of repetitions, from 0.
        """
        times = operator.index(count)
        if times < 0:
            raise ValueError(f"repeat({times}): a count cannot be negative")
        steps: list[LaunchStep | Loop] = []
        self._open.append(steps)
        try:
            yield
        finally:
            self._open.pop()
        if steps:
            self._open[-1].append(Loop(times, steps))

    def launch(
        self,
        function: Function,
        *args: Any,
        block: Any = None,
        grid: Any = (1, 1, 1),
        shared: int = 0,
        threads: int | None = None,
    ) -> None:
        """Add a launch of a kernel.

        Parameters
        ----------
        function : Function
            A kernel of a `SourceModule`.
        *args
            For each parameter of the kernel a buffer of this program, a number, a struct, or None, which is
            a null pointer.
        block, grid : tuple of int
            The threads of a block, and the blocks, in up to three dimensions.
        shared : int
            Bytes of dynamic shared memory.
        threads : int, optional
            Instead of block and grid: a one-dimensional launch of at least so many threads, with the block
            of the occupancy calculator.

        Raises
        ------
        TypeError, ValueError
            An argument does not match its parameter, which the message names. Nothing was added.
        """
        if not isinstance(function, Function):
            raise TypeError(f"launch takes a function of a SourceModule first, not {function!r}")
        slots = argument_binding.slots_of(function.signature)
        if len(args) != len(slots):
            raise TypeError(argument_binding.wrong_count(function.signature, len(args)))
        placed = tuple(self._placed(slot, value) for slot, value in zip(slots, args, strict=True))
        bytes_shared = operator.index(shared)
        if bytes_shared < 0:
            raise ValueError(f"shared is {shared}; give bytes, from 0")
        shown = [value.label if isinstance(value, Handle) else str(value) for value in args]
        where = f"{function.name}({', '.join(shown)})"
        if threads is not None:
            if block is not None:
                raise TypeError(f"{function.name}: give block and grid, or threads, not both")
            count = operator.index(threads)
            if count < 0:
                raise ValueError(f"threads is {threads}; give a number of threads, from 0")
            if not count:
                return  # as a grid for no elements
            step = LaunchStep(function, placed, _ONE, _ONE, bytes_shared, count, f"{where} threads={count}")
        else:
            if block is None:
                raise TypeError(f"{function.name}: block is missing, such as (256, 1, 1); or give threads")
            shape, blocks = (
                argument_binding.dimensions("block", block),
                argument_binding.dimensions("grid", grid),
            )
            where += f" block={shape} grid={blocks}"
            step = LaunchStep(function, placed, blocks, shape, bytes_shared, 0, where)
        for slot, place in zip(slots, placed, strict=True):
            if isinstance(place, Place) and not slot.parameter.const:
                self._memory[place.buffer].written = True
        self._open[-1].append(step)
        self._prepared.clear()

    def _placed(self, slot: argument_binding.Slot, value: Any) -> Place | bytes | None:
        """Check an argument of a launch; return a place in a buffer, the bytes of a value, or None."""
        if isinstance(value, Handle):
            if value.program is not self:
                raise ValueError(f"{slot.title}: the buffer {value.name!r} is another program's")
            slot.check(value.dtype, value.shape, is_buffer=True)
            return Place(value.index, value.offset)
        if not slot.parameter.pointer:
            return slot.value(value)
        if value is None:
            return None
        raise TypeError(
            f"{slot.title} is a pointer, and takes a buffer of the program or None, not "
            f"{type(value).__name__}: declare an input for an array"
        )

    # ---- Calls -------------------------------------------------------------------------------------

    def __call__(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        out: Mapping[str, Array] | None = None,
        symbols: Mapping[Any, Any] | None = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        time_kernel: bool = False,
        **arrays: Any,
    ) -> Any:
        """Run the program.

        Parameters
        ----------
        inputs : mapping, optional
            Arrays by the names of buffers, in place of keywords.
        out : mapping, optional
            Arrays for the results, by name; other results are new arrays. The array of an `inout` may
            already be written when the run begins.
        symbols : mapping, optional
            Values of ``__constant__`` and ``__device__`` variables by name, if all kernels belong to one
            `SourceModule`; else a mapping from modules to such mappings.
        isolate : bool, optional
            Whether to run in a helper process, which a kernel may crash; None means as
            ``PYCUDAKIT_ISOLATE`` says.
        timeout : float, optional
            Seconds after which a helper process is stopped.
        time_kernel : bool
            Whether to return the milliseconds of the launches, too.
        **arrays
            The initial contents of `input` and `inout` buffers. Device arrays are used in place; results are
            then device arrays of the same library as the first of them.

        Returns
        -------
        dict of str to ndarray
            The final contents of `inout` and `output` buffers; with `time_kernel`, a tuple of that and a
            float.

        Raises
        ------
        TypeError, ValueError
            An array is missing, unknown, or of another shape or dtype. Nothing was run.
        """
        if len(self._open) > 1:
            raise ValueError(f"{self.name} is called inside a block of repeat; call it after the block")
        input_arrays = self._checked_inputs({**(inputs or {}), **arrays})
        out_arrays = self._checked_outputs(dict(out or {}))
        isolates = execute.isolates(isolate, timeout)
        device_array = next(
            (each for each in (*input_arrays.values(), *out_arrays.values()) if isinstance(each, DeviceView)),
            None,
        )
        if device_array is not None:
            refuse_isolated_device_arrays(self.name, isolates)
        choice = execute.choose(self.name, cache.why_not_cuda)
        results: dict[str, Array] = {}
        buffers: list[Buffer] = []
        while True:
            lowered = self._lowered(choice.engine, isolates, timeout)
            request = lowered.request(self.name, buffers, symbols)
            request.waits = time_kernel or context.current_context.get().wait
            if not buffers:
                # A run that may be refused writes nothing, and neither does one in a helper process.
                is_safe = lowered.fits and not (isolates or symbols)
                buffers += [
                    self._buffer(each, input_arrays, out_arrays, results, is_safe)
                    if device_array is None
                    else self._device_buffer(each, input_arrays, out_arrays, results, device_array)
                    for each in self._memory
                ]
            try:
                if isolates:
                    outcome = execute.run_request(request, choice, isolate=True, timeout=timeout)
                else:
                    outcome = lowered.run(request, choice)
                break
            except (errors.NoDevice, errors.OutOfMemory) as error:
                if device_array is not None:
                    raise
                choice = execute.fall_back(error, choice, any(each.up and each.down for each in buffers))
            except errors.Error:
                if not lowered.is_stale():
                    raise
                self._prepared.clear()
        for name, array in out_arrays.items():
            if not isinstance(array, DeviceView) and results[name] is not array:
                np.copyto(array, results[name])
                results[name] = array
        return (results, outcome.seconds * 1e3) if time_kernel else results

    def _lowered(self, engine: str, isolate: bool, timeout: float | None) -> Lowered:
        device = context.current_devices()[0] if engine == "cuda" else 0
        lowered = self._prepared.get((engine, device))
        if lowered is None:
            lowered = Lowered(self._steps, engine, device, isolate=isolate, timeout=timeout)
            self._prepared[engine, device] = lowered
        return lowered

    def _checked_inputs(self, input_arrays: Mapping[str, Any]) -> dict[str, Any]:
        declared = [memory for memory in self._memory if memory.kind in _UP]
        names = ", ".join(memory.name for memory in declared) or "none"
        for name in input_arrays:
            if name not in [memory.name for memory in declared]:
                raise TypeError(f"{self.name} has no input {name!r}; its inputs are: {names}")
        checked = {}
        for memory in declared:
            if memory.name not in input_arrays:
                raise TypeError(f"{self.name}: the input {memory.name!r} is missing; the inputs are: {names}")
            array = In(input_arrays[memory.name]).array
            if not isinstance(array, np.ndarray):
                array = device_argument(array, f"{self.name}: the input {memory.name!r}")
            self._check(memory, array, "input")
            checked[memory.name] = array
        return checked

    def _checked_outputs(self, out: dict[str, Any]) -> dict[str, Any]:
        declared = {memory.name: memory for memory in self._memory if memory.kind in _DOWN}
        for name, array in out.items():
            if name not in declared:
                names = ", ".join(declared) or "none"
                raise TypeError(f"{self.name} has no output {name!r}; its outputs are: {names}")
            if is_on_device(array):
                out[name] = device_array = device_argument(array, f"{self.name}: out[{name!r}]")
                self._check(declared[name], device_array, "output")
                if device_array.is_readonly:
                    raise ValueError(f"{self.name}: out[{name!r}] is read-only")
                continue
            if not isinstance(array, np.ndarray) or isinstance(array, masked_arrays()):
                raise TypeError(
                    f"{self.name}: out[{name!r}] must be an array, and is a {type(array).__name__}"
                )
            self._check(declared[name], array, "output")
            if not array.flags.writeable:
                raise ValueError(f"{self.name}: out[{name!r}] is read-only")
        return out

    def _check(self, memory: BufferDeclaration, array: Array | DeviceView, role: str) -> None:
        if array.dtype.newbyteorder("=") != memory.dtype:
            raise TypeError(
                f"{self.name}: the {role} {memory.name!r} is declared as {memory.dtype}, and the array is "
                f"{array.dtype}; convert it with astype, or declare the buffer as that"
            )
        if array.shape != memory.shape:
            raise ValueError(
                f"{self.name}: the {role} {memory.name!r} is declared with the shape {memory.shape}, and the "
                f"array has {array.shape}"
            )

    def _buffer(
        self,
        memory: BufferDeclaration,
        input_arrays: dict[str, Array],
        out_arrays: dict[str, Array],
        results: dict[str, Array],
        is_safe: bool,
    ) -> Buffer:
        """Return a buffer of a run on host arrays, and add its array to the results."""
        array = input_arrays.get(memory.name)
        target = out_arrays.get(memory.name)
        if memory.kind == "input":
            array = np.ascontiguousarray(array, memory.dtype)
        elif memory.kind == "output":
            is_place = target is not None and _is_dense(target)
            array = target if is_place else allocator.empty(memory.shape, memory.dtype)
        elif memory.kind == "inout" and array is not None and not (array is target and _is_dense(array)):
            others = [
                *input_arrays.values(),
                *(each for name, each in out_arrays.items() if name != memory.name),
            ]
            is_free = target is not None and not any(np.may_share_memory(target, each) for each in others)
            destination = target if is_safe and is_free and target is not None and _is_dense(target) else None
            array = _copied(array, memory.dtype, destination)
        if memory.kind in _DOWN and array is not None:
            results[memory.name] = array
        return Buffer(
            memory.name,
            memory.bytes,
            memory.dtype.itemsize,
            array,
            up=memory.kind in _UP,
            down=memory.kind in _DOWN,
            poison=memory.poison,
            constant=memory.kind == "input" and not memory.written,
        )

    def _device_buffer(
        self,
        memory: BufferDeclaration,
        input_arrays: dict[str, Any],
        out_arrays: dict[str, Any],
        results: dict[str, Any],
        device_array: DeviceView,
    ) -> Buffer:
        """Return a buffer of a run on device arrays; new results belong to the library of `device_array`."""
        if memory.kind == "output" and memory.name not in out_arrays:
            new_array = empty_like_device(device_array.owner, memory.shape, memory.dtype)
            out_arrays[memory.name] = (
                new_array if isinstance(new_array, np.ndarray) else device_argument(new_array, memory.name)
            )
        array, target = input_arrays.get(memory.name), out_arrays.get(memory.name)
        if not isinstance(array, DeviceView) and not isinstance(target, DeviceView):
            return self._buffer(memory, _on_host(input_arrays), _on_host(out_arrays), results, is_safe=False)
        argument = array if memory.kind == "input" else target
        is_same = memory.kind != "inout" or (
            isinstance(array, DeviceView)
            and isinstance(target, DeviceView)
            and array.address == target.address
        )
        if not (isinstance(argument, DeviceView) and is_same):
            raise errors.Unsupported(
                f"{self.name}: kernels update the inout {memory.name!r} in place on a GPU: give the "
                f"same array as out={{{memory.name!r}: ...}}, or declare an input and an output"
            )
        if memory.kind in _DOWN:
            results[memory.name] = argument.owner
        written = (each for each in out_arrays.values() if isinstance(each, DeviceView))
        is_apart = not any(argument.overlaps(each) for each in written)
        return Buffer(
            memory.name,
            memory.bytes,
            memory.dtype.itemsize,
            argument,
            up=memory.kind in _UP,
            down=memory.kind in _DOWN,
            poison=memory.poison,
            constant=memory.kind == "input" and not memory.written and is_apart,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the buffers and steps: compiled kernels are not pickled."""
        return {name: value for name, value in vars(self).items() if name != "_prepared"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled program."""
        vars(self).update(state, _prepared={})

    def __repr__(self) -> str:
        """Return the buffers and steps, a line for each."""
        buffers = (f"    {each.kind} {each.name}: {each.dtype}, {each.shape}" for each in self._memory)
        return "\n".join([f"{self.name}:", *buffers, *repr_lines(self._steps, 1)])


def _on_host(arrays: Mapping[str, Any]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _copied(array: Array, dtype: DType, target: Array | None) -> Array:
    """Copy an array to the dense array `target`, or to a new one."""
    result = allocator.empty(array.shape, dtype) if target is None else target
    if _is_dense(array):
        copy(result, array)
    else:
        np.copyto(result, array)
    return result


def _is_dense(array: Array) -> bool:
    return array.flags.c_contiguous and array.dtype.isnative
