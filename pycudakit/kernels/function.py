"""`Function`: a kernel of a `SourceModule` that is called like a Python function."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pycudakit import errors
from pycudakit._native import engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import Pool
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.compiling.source import Parameter, Signature
from pycudakit.kernels.running import argument_binding
from pycudakit.kernels.running.argument_binding import BoundArguments, dimensions
from pycudakit.kernels.running.device_arguments import refuse_isolated_device_arrays
from pycudakit.kernels.running.execute import block_limit, choose, fall_back, isolates, limits_of, run_request
from pycudakit.kernels.running.request_encoding import EncodedRequest
from pycudakit.kernels.running.run_request import Kernel, Launch, RunRequest


class Module(Protocol):
    """The part of `SourceModule` that a `Function` uses."""

    name: str
    source: str
    debug: bool

    @property
    def variables(self) -> dict[str, Parameter]:
        """The module's ``__constant__`` and ``__device__`` variables, by name."""
        ...

    def binary(self, signature: Signature, engine: str, device: int) -> cache.Loaded:
        """Return the binary that contains a kernel."""
        ...

    def _function(self, name: str) -> Function: ...


_ONE = (1, 1, 1)
_Size = tuple[int, int, int]
_Shape = tuple[int, int, _Size, _Size]  # elements, bytes of shared memory, grid and block


def grid_for(shape: int | Sequence[int], block: int | Sequence[int]) -> tuple[int, int, int]:
    """Return the grid whose blocks cover an array with at least one thread for each element.

    Parameters
    ----------
    shape : int or tuple of int
        The array's shape, or a number of elements. The last axis is along x, the one before it along y.
    block : int or tuple of int
        The threads of a block along x, y and z.

    Returns
    -------
    tuple of three ints
        The blocks along x, y and z.

    See Also
    --------
    SourceModule

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.grid_for(1000, 256)
    (4, 1, 1)
    >>> height, width = 480, 640
    >>> pk.grid_for((height, width), (16, 8, 1))
    (40, 60, 1)
    """
    try:
        sizes = [operator.index(shape)]  # type: ignore[arg-type]
    except TypeError:
        sizes = [operator.index(size) for size in shape][::-1]  # type: ignore[union-attr]
    if len(sizes) > 3 or min(sizes, default=0) < 0:
        raise ValueError(
            f"shape is {shape!r}; give up to three sizes, from 0: reshape the array, or pass its size"
        )
    x, y, z = (
        max(1, -(-size // threads))
        for size, threads in zip([*sizes, 1, 1, 1], dimensions("block", block), strict=False)
    )
    return x, y, z


class _PreparedKernel:
    """A compiled kernel with its limits and its reusable encoded requests."""

    def __init__(
        self, function: Function, engine: str, device: int, isolate: bool, timeout: float | None
    ) -> None:
        signature, module = function.signature, function.module
        loaded = module.binary(signature, engine, device)
        symbol = loaded.symbols[signature.name]
        self.engine = engine
        self.names = loaded.symbols
        self.kernel = Kernel(loaded.binary, symbol, signature.name)
        self.limits = limits_of(self.kernel, engine, device, isolate=isolate, timeout=timeout)
        count = int(self.limits["parameters"])
        if count >= 0 and count != len(signature.parameters):
            raise errors.CompileError(
                f"{module.name}:{signature.line}: {signature.name} has {count} parameters for the compiler, "
                f"and {len(signature.parameters)} as its source was read: declare them without macros"
            )
        sizes = self.limits["parameter_bytes"][: max(count, 0)].tolist()
        self.slots = argument_binding.slots_of(signature, sizes)
        # A checked kernel's limit, and values of structs of an unknown size, differ from call to call.
        self.is_plain = not module.debug and count >= 0
        self._is_checked = module.debug and engine == "cpu"
        self._tables = Pool(self._new_tables)

    def is_stale(self) -> bool:
        """Return True if the file of the binary was removed."""
        return self.engine == "cpu" and not os.path.exists(self.kernel.binary.data)

    def run(self, choice: EngineChoice, bound: BoundArguments, shape: _Shape, waits: bool) -> float:
        """Run a launch with a buffer for each pointer, by reused request tables; return its seconds."""
        tables = self._tables.take(choice, bound, shape)
        for index, (address, stream, size, flags, item, _, _) in enumerate(bound.buffers):
            tables.set_buffer(index, address, stream, size, flags, item)
        if bound.values:
            tables.set_values(b"".join(bound.values))
        tables.shape(*shape)
        if bound.has_device_arrays:
            tables.set_blocking(waits)
        tables.run_and_print(choice)
        seconds = tables.seconds  # before another call has the tables
        self._tables.give_back(tables)
        return seconds

    def _new_tables(self, choice: EngineChoice, bound: BoundArguments, shape: _Shape) -> EncodedRequest:
        return EncodedRequest(self.request(choice, bound, shape), choice.engine)

    def request(self, choice: EngineChoice, bound: BoundArguments, shape: _Shape) -> RunRequest:
        """Return the run request of one launch."""
        elements, shared, grid, block = shape
        launch = Launch(self.kernel, bound.request_arguments(), grid, block, shared, elements)
        limit = block_limit() if self._is_checked else 0
        return RunRequest(choice.function, bound.request_buffers(), (launch,), block_limit=limit)


class Function:
    """A kernel that `SourceModule.get_function` returns; a call runs it on NumPy arrays.

    Attributes
    ----------
    module : SourceModule
        The module of the kernel.
    name : str
        The name that `get_function` got.
    signature
        The kernel's name, parameters and line in the source.
    """

    def __init__(self, module: Module, signature: Signature) -> None:
        self.module = module
        self.name = signature.name
        self.signature = signature
        self._prepared: dict[tuple[str, int], _PreparedKernel] = {}
        self._plans: dict[str, tuple[EngineChoice, engine_status.EngineStatus | None]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the module and the name; unpickling compiles again."""
        return _function, (self.module, self.name)

    def __repr__(self) -> str:
        """Return the kernel's declaration."""
        listed = ", ".join(map(str, self.signature.parameters))
        return f"<Function {self.name}({listed})>"

    # ---- Calls -------------------------------------------------------------------------------------

    def __call__(
        self,
        *args: Any,
        block: Any = None,
        grid: Any = (1, 1),
        stream: None = None,
        shared: int = 0,
        symbols: Mapping[str, Any] | None = None,
        out_args: bool = False,
        time_kernel: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Launch the kernel, and wait until its outputs are copied to the host.

        Parameters
        ----------
        *args
            For each parameter: for a pointer `In`, `Out` or `InOut` of an array, a bare array (`In` where the
            parameter is const, else `InOut`), or None, a null pointer; for a value a NumPy scalar of its
            type, a Python number that fits, or a structured scalar of a struct's layout. Device arrays, of
            PyTorch and others, are used in place, zero-copy: the launch is enqueued on their stream.
        block, grid : tuple of int
            The threads of a block, and the blocks, along x, y and z.
        stream : None
            For compatibility with PyCUDA; only None is accepted, since calls are synchronous.
        shared : int
            Bytes of dynamic shared memory.
        symbols : mapping of str to array_like, optional
            Values of ``__constant__`` and ``__device__`` variables, for this call.
        out_args : bool
            Return the arrays that are written, as a tuple.
        time_kernel : bool
            Return the kernel's own milliseconds; with `out_args`, both: a tuple of the arrays, and the time.
        isolate : bool, optional
            Run in a helper process, so that a crash does not end this one; None means as PYCUDAKIT_ISOLATE
            says.
        timeout : float, optional
            Seconds after which the kernel is stopped; implies `isolate`.

        Raises
        ------
        TypeError, ValueError
            An argument does not match its parameter, which the message names; nothing ran.
        """
        if stream is not None:
            raise ValueError(f"{self.name}: there are no streams: leave stream out, or give None")
        if block is None:
            raise ValueError(f"{self.name}: give block, the threads of a block, such as block=(256, 1, 1)")
        shape = 0, _bytes(shared), dimensions("grid", grid), dimensions("block", block)
        return self._run(args, shape, symbols, isolate, timeout, out_args, time_kernel)

    def launch(
        self,
        n: int,
        *args: Any,
        shared: int = 0,
        symbols: Mapping[str, Any] | None = None,
        out_args: bool = False,
        time_kernel: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Launch at least `n` threads in one dimension; the occupancy calculator picks the block.

        Parameters
        ----------
        n : int
            The number of elements, one thread for each; with 0, nothing is launched.
        *args, shared, symbols, out_args, time_kernel, isolate, timeout
            As for a call.
        """
        elements = operator.index(n)
        if not 0 <= elements < 1 << 62:
            raise ValueError(f"{self.name}: n is {n}; give a number of elements, from 0")
        shape = elements, _bytes(shared), _ONE, _ONE
        return self._run(args, shape, symbols, isolate, timeout, out_args, time_kernel, runs=elements > 0)

    def _run(
        self,
        args: Sequence[Any],
        shape: _Shape,
        symbols: Mapping[str, Any] | None,
        isolate: bool | None,
        timeout: float | None,
        out_args: bool,
        time_kernel: bool,
        runs: bool = True,
    ) -> Any:
        choice = self._plan()
        is_isolated = isolates(isolate, timeout)
        while True:
            device = context.current_devices()[0] if choice.engine == "cuda" else 0
            prepared = self.prepared(choice.engine, device, isolate=is_isolated, timeout=timeout)
            bound = argument_binding.bind(self.signature, prepared.slots, args)
            waits = False
            if bound.has_device_arrays:
                refuse_isolated_device_arrays(self.name, is_isolated)
                waits = time_kernel or context.current_context.get().wait
            try:
                if bound.is_plain and prepared.is_plain and not (is_isolated or symbols) and runs:
                    seconds = prepared.run(choice, bound, shape, waits)
                else:
                    request = prepared.request(choice, bound, shape)
                    request.waits = waits
                    request.steps = request.steps if runs else ()
                    request.symbols = self._symbols(prepared, symbols)
                    seconds = run_request(request, choice, isolate=is_isolated, timeout=timeout).seconds
                break
            except (errors.NoDevice, errors.OutOfMemory) as error:
                if bound.has_device_arrays:
                    raise
                choice = fall_back(error, choice, bound.has_inouts)
            except errors.Error:
                if not prepared.is_stale():
                    raise
                self._prepared.clear()
        bound.unpack()
        if not (out_args or time_kernel):
            return None
        outputs, milliseconds = tuple(bound.outputs), seconds * 1e3
        return (outputs, milliseconds) if out_args and time_kernel else outputs if out_args else milliseconds

    def _symbols(
        self, prepared: _PreparedKernel, symbols: Mapping[str, Any] | None
    ) -> Mapping[Any, Mapping[str, Array]]:
        if not symbols:
            return {}
        variables = self.module.variables
        values = {
            prepared.names.get(name, name): argument_binding.symbol(
                self.name, variables.get(name), name, value
            )
            for name, value in symbols.items()
        }
        return {prepared.kernel.binary: values}

    def _plan(self) -> EngineChoice:
        """Return the engine choice of a call, which is cached while the engines' status is unchanged."""
        engine = context.current_engine()
        status = engine_status.status("cuda") if engine == "auto" else None
        cached = self._plans.get(engine)
        if cached is not None and cached[1] is status:
            return cached[0]
        choice = choose(self.name, cache.why_not_cuda)
        self._plans[engine] = choice, status
        return choice

    def prepared(
        self, engine: str, device: int = 0, *, isolate: bool = False, timeout: float | None = None
    ) -> _PreparedKernel:
        """Return the kernel compiled for an engine, with its limits; compile it if necessary."""
        key = engine, device
        kernel = self._prepared.get(key)
        if kernel is None:
            kernel = self._prepared.setdefault(key, _PreparedKernel(self, engine, device, isolate, timeout))
        return kernel

    # ---- PyCUDA's prepared calls -------------------------------------------------------------------

    def prepare(self, arg_types: Any = None, texrefs: Sequence[Any] = ()) -> Function:  # noqa: ARG002
        """Return the function itself, as PyCUDA does; parameter types come from the source."""
        if texrefs:
            raise errors.Unsupported(f"{self.name}: there are no texture references")
        return self

    def prepared_call(self, grid: Any, block: Any, *args: Any, shared_size: int = 0) -> None:
        """Launch the kernel, with the arguments in PyCUDA's order."""
        self(*args, grid=grid, block=block, shared=shared_size)

    # ---- Properties --------------------------------------------------------------------------------

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters, as its source declares them."""
        return self.signature.parameters

    @property
    def num_regs(self) -> int:
        """The registers of a thread; 0 on the CPU engine."""
        return self._limit("registers")

    @property
    def shared_size_bytes(self) -> int:
        """The bytes of static shared memory."""
        return self._limit("static_shared")

    @property
    def max_threads_per_block(self) -> int:
        """The largest number of threads in a block."""
        return self._limit("threads")

    def _limit(self, name: str) -> int:
        choice = self._plan()
        device = context.current_devices()[0] if choice.engine == "cuda" else 0
        return int(self.prepared(choice.engine, device).limits[name])


def _function(module: Module, name: str) -> Function:
    return module._function(name)  # noqa: SLF001


def _bytes(shared: Any) -> int:
    try:
        size = operator.index(shared)
    except TypeError:
        raise TypeError(f"shared is {shared!r}; give a number of bytes") from None
    if not 0 <= size < 1 << 31:
        raise ValueError(f"shared is {size}; give a number of bytes, from 0 to the device's limit")
    return size
