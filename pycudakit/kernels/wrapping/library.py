"""`wrap` and `Library`: a CUDA source with ``extern "C"`` functions as functions of Python."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import loader
from pycudakit._native.dtypes import DType
from pycudakit._runtime import context
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.running import execute
from pycudakit.kernels.wrapping import cuda_build, declarations, table
from pycudakit.kernels.wrapping.wrapped_call import LibraryFunction

_MAX_LIBRARIES = 128


class Library:
    """The functions of a CUDA source with C linkage, which `wrap` returns; each is an attribute.

    A library runs on the engine that was in force when it was made, since its static variables are there.

    Attributes
    ----------
    name : str
        The file's name.
    engine : str
        ``"cuda"`` or ``"cpu"``.
    functions : tuple of str
        The functions' names.
    dtypes : dict of str to dtype
        The dtype of each struct that a parameter has.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> library = pk.wrap('''
    ... extern "C" double mean(const double *x, int n) {
    ...     double sum = 0;
    ...     for (int i = 0; i < n; ++i) sum += x[i];
    ...     return sum / n;
    ... }
    ... ''')
    >>> library.mean(np.array([1.0, 2.0, 6.0]), 3)
    3.0
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state
        self.name: str = state["name"]
        self.engine, self._library, self.dtypes = _load(state, self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source and its options: unpickling compiles, or finds the binary on disk."""
        return Library, (self._state,)

    def __repr__(self) -> str:
        """Return the name, the engine and the functions."""
        return f"<Library {self.name!r} on {self.engine}: {', '.join(self.functions)}>"

    def __dir__(self) -> Iterable[str]:
        """Return the attributes, and the functions."""
        return [*super().__dir__(), *self.functions]

    def __getattr__(self, name: str) -> Any:
        """Raise: the library has no such function."""
        if name.startswith("__") or "functions" not in self.__dict__:
            raise AttributeError(name)
        raise AttributeError(
            f"{self.name} has no function {name!r}; those it has are {', '.join(self.functions)}"
        )

    def _add(self, functions: Iterable[LibraryFunction]) -> None:
        by_name = {function.__name__: function for function in functions}
        self.functions: tuple[str, ...] = tuple(by_name)
        for name, function in by_name.items():
            if hasattr(Library, name) or name in ("name", "engine", "dtypes", "functions"):
                raise errors.CompileError(
                    f"{self.name}: the function {name!r} has the name of an attribute of Library: rename it"
                )
            setattr(self, name, function)

    def _message(self) -> str:
        """Return the message of the last error in this thread."""
        text: bytes = self._library.pk_table_message()
        return text.decode("utf-8", "replace")


def wrap(
    path_or_source: str | os.PathLike[str],
    *,
    functions: Iterable[str] | None = None,
    out: str | Iterable[str] = (),
    inout: str | Iterable[str] = (),
    options: Iterable[str] = (),
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    libraries: Iterable[str] = (),
    name: str | None = None,
) -> Library:
    """Compile a CUDA source with ``extern "C"`` functions, and return these as functions of Python.

    For a GPU it is compiled by nvcc; without one by the machine's C++ compiler, and kernels run on the CPU
    engine. Binaries are cached on disk, as kernels are.

    Parameters
    ----------
    path_or_source : str or path-like
        The path of a ``.cu`` file; a string with a newline is the source itself.
    functions : sequence of str, optional
        The functions to wrap; by default all with C linkage.
    out, inout : str or sequence of str
        The pointers that a function writes, with their numbers of elements: ``"scale: y[n]"``. An output may
        be left out of a call, and is then made and returned.
    options : sequence of str
        Options for the compiler: ``["-DN=3"]``.
    include_dirs : sequence of path-like
        The folders that ``#include`` searches, after the file's own.
    libraries : sequence of str
        The libraries to link: ``["cublas"]``.
    name : str, optional
        The file's name in messages.

    Returns
    -------
    Library
        With each function as an attribute.

    Raises
    ------
    CompileError
        There is no compiler, the source does not compile, or it has a function that cannot be wrapped: the
        message has the line, and says what to write.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> library = pk.wrap('''
    ... __global__ void twice(const float *x, float *y, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) y[i] = 2 * x[i];
    ... }
    ... // @out y[n]
    ... extern "C" void launch_twice(const float *x, float *y, int n) {
    ...     float *d_x, *d_y;
    ...     cudaMalloc(&d_x, n * sizeof(float));
    ...     cudaMalloc(&d_y, n * sizeof(float));
    ...     cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice);
    ...     twice<<<(n + 255) / 256, 256>>>(d_x, d_y, n);
    ...     cudaMemcpy(y, d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    ...     cudaFree(d_x);
    ...     cudaFree(d_y);
    ... }
    ... ''')
    >>> library.launch_twice(np.arange(4, dtype=np.float32), n=4)
    array([0., 2., 4., 6.], dtype=float32)
    """
    text, file, folder = read_source(path_or_source)
    folders = [] if folder is None else [folder]
    return Library(
        {
            "text": text,
            "name": name or file,
            "functions": None if functions is None else tuple(functions),
            "out": (out,) if isinstance(out, str) else tuple(out),
            "inout": (inout,) if isinstance(inout, str) else tuple(inout),
            "options": _strings("options", options),
            "include_dirs": tuple(folders) + _strings("include_dirs", include_dirs),
            "libraries": _strings("libraries", libraries),
        }
    )


def _strings(what: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what} is {values!r}; give a list of strings: [{values!r}]")
    return tuple(os.fspath(value) for value in values)


def read_source(path_or_source: Any) -> tuple[str, str, str | None]:
    """Return the source, its name, and the folder of its file."""
    if isinstance(path_or_source, str) and "\n" in path_or_source:
        data, file, folder = path_or_source.encode(), "source.cu", None
    else:
        if not isinstance(path_or_source, (str, os.PathLike)):
            raise TypeError(f"wrap takes a path or a source, not a {type(path_or_source).__name__}")
        path = os.path.abspath(os.fspath(path_or_source))
        file, folder = os.path.basename(path), os.path.dirname(path)
        if not os.path.exists(path):
            raise FileNotFoundError(
                errno.ENOENT,
                "no such file (a source has a newline, and a path has none)",
                str(path_or_source),
            )
        with open(path, "rb") as opened:
            data = opened.read(declarations.MAX_BYTES + 1)
    if len(data) > declarations.MAX_BYTES:
        raise errors.CompileError(f"{file} has more than {declarations.MAX_BYTES >> 20} MiB: divide it")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise errors.CompileError(f"{file} is no text in UTF-8: {error}") from None
    if "\0" in text:
        raise errors.CompileError(f"{file} is no text: it has a null character in it")
    return text, file, folder


# ---- Loading ---------------------------------------------------------------------------------------

_Loaded = tuple[ctypes.CDLL, declarations.WrappedSource, dict[str, table.FunctionTypes], dict[str, DType]]
_loaded: OrderedDict[tuple[Any, ...], _Loaded] = OrderedDict()
_lock = threading.Lock()


def _load(state: dict[str, Any], library: Library) -> tuple[str, ctypes.CDLL, dict[str, DType]]:
    """Compile a source, or find it in the cache; add its functions to a library."""
    engine = execute.choose("wrap", cuda_build.why_not).engine
    options = (*state["options"], *(f"-l{one}" for one in state["libraries"]))
    source = Source(
        text=state["text"],
        name=state["name"],
        options=options,
        include_dirs=state["include_dirs"],
        no_extern_c=True,
        debug=False,
        arch=cache.arch(context.current_devices()[0]) if engine == "cuda" else "",
        kernels=(),
    )
    path = cache.get(source, f"wrapped {engine}").binary.data
    key = (path, *(value for name, value in state.items() if name != "text"))
    with _lock:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = _opened(os.fsdecode(path), source, state, engine)
            while len(_loaded) > _MAX_LIBRARIES:
                _loaded.popitem(last=False)
        else:
            _loaded.move_to_end(key)
    opened, wrapped, types, dtypes = found
    library._library = opened  # noqa: SLF001  (its own constructor calls)
    library._add(LibraryFunction(library, one, types[one.name], wrapped.file) for one in wrapped.functions)  # noqa: SLF001
    return engine, opened, dtypes


def _opened(path: str, source: Source, state: dict[str, Any], engine: str) -> _Loaded:
    tagged = {"out": state["out"], "inout": state["inout"]}
    wrapped = declarations.read(
        source.text, source.name, source.options, source.include_dirs, state["functions"], tagged
    )
    declarations.warn_of_exits(wrapped)
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise errors.CompileError(f"{source.name}: what it was compiled to does not load: {error}") from None
    opened.pk_table_message.restype = ctypes.c_char_p
    if engine == "cpu":
        opened.pk_set_launcher(ctypes.c_void_p(_launcher()))
    types, dtypes = table.read(opened, wrapped.functions, source.name)
    return opened, wrapped, types, dtypes


def types_of(
    source: Source, wrapped: declarations.WrappedSource
) -> tuple[dict[str, table.FunctionTypes], dict[str, DType]]:
    """Return the types of the functions of a source, and the dtypes of its structs, without its code."""
    path = cache.get(source, "wrapped types").binary.data
    return table.read(ctypes.CDLL(os.fsdecode(path)), wrapped.functions, source.name)


@functools.cache
def _launcher() -> int:
    """Return the address of the function by which host code launches kernels on the CPU engine."""
    address = np.zeros(1, np.uint64)
    loader.library("cpu").pk_kernel_launcher(address)
    return int(address[0])
