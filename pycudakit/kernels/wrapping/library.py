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

    def __init__(self, state: dict[str, Any], engine: str, path: str, source: Source) -> None:
        wrapped = declarations.read(
            source.text,
            source.name,
            source.options,
            source.include_dirs,
            state["functions"],
            {"out": state["out"], "inout": state["inout"]},
        )
        declarations.warn_of_exits(wrapped)
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise errors.CompileError(f"{source.name}: its binary does not load: {error}") from None
        library.pk_table_message.restype = ctypes.c_char_p
        if engine == "cpu":
            library.pk_set_engine(*map(ctypes.c_void_p, engine_functions()))
        types, dtypes = table.read(library, wrapped.functions, source.name)
        self._state = state
        self._library = library
        self.name: str = state["name"]
        self.engine = engine
        self.dtypes = dtypes
        self.functions: tuple[str, ...] = tuple(one.name for one in wrapped.functions)
        for one in wrapped.functions:
            if hasattr(Library, one.name) or one.name in ("name", "engine", "dtypes", "functions"):
                raise errors.CompileError(
                    f"{self.name}:{one.line}: the function {one.name!r} has the name of an attribute of "
                    "Library: "
                    "rename it"
                )
            setattr(self, one.name, LibraryFunction(self, one, types[one.name], wrapped.file))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source and its options: unpickling compiles, or finds the binary on disk."""
        return _library_of, (self._state,)

    def __repr__(self) -> str:
        """Return the name, the engine and the functions."""
        return f"<Library {self.name!r} on {self.engine}: {', '.join(self.functions)}>"

    def __getattr__(self, name: str) -> Any:
        """Raise: the library has no such function."""
        if name.startswith("__") or "functions" not in self.__dict__:
            raise AttributeError(name)
        raise AttributeError(
            f"{self.name} has no function {name!r}; its functions: {', '.join(self.functions)}"
        )

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

    See Also
    --------
    SourceModule

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
    return _library_of(
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


def _strings(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is {values!r}; give a list of strings: [{values!r}]")
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
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "a folder, where a .cu file is wanted", str(path_or_source))
        with open(path, "rb") as opened:
            data = opened.read(declarations.MAX_BYTES + 1)
    if len(data) > declarations.MAX_BYTES:
        raise errors.CompileError(f"{file} has more than {declarations.MAX_BYTES >> 20} MiB: divide it")
    try:
        text = data.decode("utf-8-sig")  # Windows writes a byte order mark
    except UnicodeDecodeError as error:
        raise errors.CompileError(f"{file} is no text in UTF-8: {error}") from None
    if "\0" in text:
        raise errors.CompileError(f"{file} is no text: it has a null character in it")
    return text, file, folder


# ---- Loading ---------------------------------------------------------------------------------------

_libraries: OrderedDict[tuple[Any, ...], Library] = OrderedDict()
_lock = threading.Lock()


def _library_of(state: dict[str, Any]) -> Library:
    """Return the library of a source: that of an earlier call, from disk, or compiled."""
    engine = execute.choose("wrap", cuda_build.why_not).engine
    source = Source(
        text=state["text"],
        name=state["name"],
        options=(*state["options"], *(f"-l{one}" for one in state["libraries"])),
        include_dirs=state["include_dirs"],
        no_extern_c=True,
        debug=False,
        arch=cache.arch(context.current_devices()[0]) if engine == "cuda" else "",
        kernels=(),
    )
    # The binary's path depends on its contents, and so on those of headers.
    path = os.fsdecode(cache.get(source, f"wrapped {engine}").binary.data)
    key = (path, *(value for name, value in state.items() if name != "text"))
    with _lock:
        found = _libraries.get(key)
        if found is None:
            found = _libraries[key] = Library(state, engine, path, source)
            if len(_libraries) > _MAX_LIBRARIES:
                _libraries.popitem(last=False)
        else:
            _libraries.move_to_end(key)
    return found


def types_of(
    source: Source, wrapped: declarations.WrappedSource
) -> tuple[dict[str, table.FunctionTypes], dict[str, DType]]:
    """Return the types of the functions of a source, and the dtypes of its structs.

    The machine's C++ compiler finds them without code; nvcc, if there is one, where the source uses a
    library that the CPU engine lacks, such as Thrust.
    """
    try:
        loaded = cache.get(source, "wrapped types")
    except errors.CompileError:
        if cuda_build.why_not() is not None:
            raise
        loaded = cache.get(source, "wrapped cuda")
    library = ctypes.CDLL(os.fsdecode(loaded.binary.data))
    return table.read(library, wrapped.functions, source.name)


@functools.cache
def engine_functions() -> tuple[int, int]:
    """Return the addresses by which host code launches kernels on the CPU engine, and of its allocator."""
    addresses = np.zeros(2, np.uint64)
    library = loader.library("cpu")
    library.pk_kernel_launcher(addresses[:1])
    library.pk_result_allocator(ctypes.cast(addresses[1:].ctypes.data, ctypes.POINTER(ctypes.c_uint64)))
    return int(addresses[0]), int(addresses[1])
