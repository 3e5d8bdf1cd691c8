"""`SourceModule`: CUDA C source that is compiled at run time for a GPU or for the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NoReturn

from pycudakit import errors
from pycudakit._runtime import context
from pycudakit.kernels.compiling import cache, execution_report, include_tracking
from pycudakit.kernels.compiling.source import Parameter, Signature, Source
from pycudakit.kernels.function import Function
from pycudakit.kernels.reading import signatures
from pycudakit.kernels.running import execute


class SourceModule:
    """A module of user kernels in CUDA C, compiled for a GPU or, without one, for the CPU.

    It is compiled at once for the engine in force, and for another engine at the first call there. Binaries
    are cached on disk, in ``PYCUDAKIT_CACHE_DIR`` or ``~/.cache/pycudakit``.

    Parameters
    ----------
    source : str
        The source text. It is wrapped in ``extern "C"``, except its includes.
    options : sequence of str
        Options for the compiler: ``["-DN=3"]``.
    include_dirs : sequence of path-like
        The folders that ``#include`` searches first.
    no_extern_c : bool
        Do not wrap the text; templates need that.
    arch : str, optional
        The architecture to compile for, ``"sm_90"``; by default that of the GPU.
    name : str
        The file's name in messages.
    debug : bool
        Check accesses, barriers and time on the CPU engine, and name the source line of an error.
    nvcc, keep, code, cache_dir
        For compatibility with PyCUDA. The first two are ignored; `code` is the same as `arch`; `cache_dir` is
        the folder of the disk cache, or False for none.

    Raises
    ------
    CompileError
        The source does not compile. The message has the compiler's log, with the source's line numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> module = pk.SourceModule('''
    ... __global__ void twice(float *x, int n) {
    ...     int i = threadIdx.x + blockIdx.x * blockDim.x;
    ...     if (i < n) x[i] *= 2;
    ... }
    ... ''')
    >>> twice = module.get_function("twice")
    >>> x = np.arange(4, dtype=np.float32)
    >>> twice(pk.InOut(x), np.int32(4), block=(256, 1, 1), grid=(1, 1))
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        source: str,
        options: Iterable[str] | None = (),
        include_dirs: Iterable[str | os.PathLike[str]] | None = (),
        no_extern_c: bool = False,
        arch: str | None = None,
        name: str = "kernel.cu",
        debug: bool = False,
        *,
        nvcc: str | None = None,  # noqa: ARG002
        keep: bool = False,  # noqa: ARG002
        code: str | None = None,
        cache_dir: cache.CacheDir = None,
    ) -> None:
        if _text("source", source).endswith((".cu", ".cuh")) and "\n" not in source:
            raise errors.InvalidArgument(
                f"source is {source!r}; give the text, Path({source!r}).read_text(), or for a file with host "
                f"code use pk.wrap({source!r})"
            )
        self.__setstate__(
            {
                "source": source,
                "options": _texts("options", options),
                "include_dirs": _texts("include_dirs", include_dirs),
                "no_extern_c": bool(no_extern_c),
                "arch": arch or code,
                "name": _text("name", name),
                "debug": bool(debug),
                "cache_dir": cache_dir,
            }
        )
        choice = execute.choose("SourceModule", cache.why_not_cuda)
        if self._declared.plain or not self.functions:  # templates are compiled when they get their arguments
            self._compile(self._declared.plain, choice.engine, _device(choice.engine))

    # ---- As data -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the source and its options: binaries are not pickled."""
        return dict(self._state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state that `__getstate__` returned; the next call compiles."""
        self._state = state
        self.source: str = state["source"]
        self.name: str = state["name"]
        self.debug: bool = state["debug"]
        folders = include_tracking.folders_of(state["include_dirs"], state["options"])
        self._declared = signatures.parse(
            *(self.source, self.name, state["options"]),
            lambda name: include_tracking.find_included(name, folders),
        )
        self._functions: dict[str, Function] = {}

    def __repr__(self) -> str:
        """Return the module's name and its kernels."""
        return f"<SourceModule {self.name!r}: {', '.join(self.functions) or 'no kernels'}>"

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the kernels; those of templates with their parameters: ``"scale<T>"``."""
        return self._declared.kernels

    @property
    def variables(self) -> dict[str, Parameter]:
        """The ``__constant__`` and ``__device__`` variables, which a call may set by `symbols=`."""
        return self._declared.variables

    # ---- Kernels -----------------------------------------------------------------------------------

    def get_function(self, name: str) -> Function:
        """Return a kernel.

        Parameters
        ----------
        name : str
            The name in the source; for a template with arguments, ``"scale<float>"``, which is compiled now.

        Raises
        ------
        InvalidArgument
            The source has no such kernel; the message lists those that it has.
        """
        function = self._function(name)
        if "<" in function.name:
            choice = execute.choose(function.name, cache.why_not_cuda)
            self.binary(function.signature, choice.engine, _device(choice.engine))
        return function

    def _function(self, name: str) -> Function:
        function = self._functions.get(name)
        if function is not None:
            return function
        try:
            signature = self._declared.signature(_text("name", name))
        except KeyError:
            names = ", ".join(map(repr, self.functions))
            others = f"its kernels are {names}" if names else "none of its functions is __global__"
            remedy = ": give a template its arguments" if self._declared.is_template(name) else ""
            message = f"{self.name} has no kernel {name!r}; {others}{remedy}"
            raise errors.InvalidArgument(message) from None
        return self._functions.setdefault(name, Function(self, signature))

    def report(self) -> str:
        """Return how the CPU engine runs each kernel: a line that ends with the loops that are vectorised.

        A kernel without barriers is a loop over threads. One with barriers is a loop from each barrier to the
        next, or it runs on fibers, and the line has the reason. Templates are listed once `get_function` has
        returned them with arguments.

        Raises
        ------
        CompileError
            There is no C++ compiler, or the source does not compile.

        Examples
        --------
        >>> import pycudakit as pk
        >>> source = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
        >>> print(pk.SourceModule(source).report())
        twice: a loop over threads; vectorised: the loops over threads
        """
        instances = [each.signature for each in self._functions.values() if "<" in each.signature.name]
        return execution_report.report(self._source("", (*self._declared.plain, *instances)))

    def get_global(self, name: str) -> NoReturn:
        """Raise `Unsupported`: PyCUDA returns an address; here a call sets a variable by `symbols`."""
        raise errors.Unsupported(
            f"get_global({name!r}): Python has no addresses of the device; give the value with each call, "
            f"symbols={{{name!r}: array}}, or pass a buffer as an argument"
        )

    # ---- Compiling ---------------------------------------------------------------------------------

    def binary(self, signature: Signature, engine: str, device: int) -> cache.Loaded:
        """Return the binary that contains a kernel; each instance of a template has its own."""
        kernels = (signature,) if "<" in signature.name else self._declared.plain
        return self._compile(kernels, engine, device)

    def _compile(self, kernels: tuple[Signature, ...], engine: str, device: int) -> cache.Loaded:
        state = self._state
        arch = (state["arch"] or cache.arch(device)) if engine == "cuda" else ""
        return cache.get(self._source(arch, kernels), engine, state["cache_dir"])

    def _source(self, arch: str, kernels: tuple[Signature, ...]) -> Source:
        state = self._state
        return Source(
            text=self.source,
            name=self.name,
            options=state["options"],
            include_dirs=state["include_dirs"],
            no_extern_c=state["no_extern_c"],
            debug=self.debug,
            arch=arch,
            kernels=kernels,
        )


def _device(engine: str) -> int:
    return context.current_devices()[0] if engine == "cuda" else 0


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, and is a {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} has a null character in it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} cannot be encoded as UTF-8: {error}") from None
    return value


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is {values!r}; give a list of strings: [{values!r}]")
    return tuple(_text(f"each of {name}", os.fspath(value)) for value in values or ())
