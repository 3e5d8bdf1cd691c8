"""The folders of the libraries and the C header, for programs in other languages."""

from __future__ import annotations

from pathlib import Path

from pycudakit import errors
from pycudakit._native import loader


def get_library_dir() -> str:
    """Return the folder of the libraries and of their CMake and pkg-config files.

    Returns
    -------
    str

    Raises
    ------
    NoDevice
        No library is installed.

    See Also
    --------
    get_include

    Examples
    --------
    >>> import os
    >>> import pycudakit as pk
    >>> any("pycudakit_cpu" in name for name in os.listdir(pk.get_library_dir()))
    True
    """
    path = loader.find("cpu")
    if path is None:
        raise errors.NoDevice(f"no library built: {loader.file_name('cpu')} is nowhere{loader.HINT}")
    return str(Path(path).parent.absolute())


def get_include() -> str:
    """Return the folder of ``pycudakit.h``, for the compiler's ``-I``.

    Returns
    -------
    str

    Raises
    ------
    NoDevice
        No library is installed.

    See Also
    --------
    get_library_dir

    Examples
    --------
    >>> import os
    >>> import pycudakit as pk
    >>> os.listdir(pk.get_include())
    ['pycudakit.h']
    """
    folder = Path(get_library_dir()).parent / "include"
    if not (folder / "pycudakit.h").is_file():
        raise errors.NoDevice(f"there is no {folder / 'pycudakit.h'}; install pycudakit again")
    return str(folder)
