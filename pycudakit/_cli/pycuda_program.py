"""`pycudakit pycuda script.py`: runs a program with pycudakit in PyCUDA's place."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import tokenize
import types
from collections.abc import Callable, Sequence
from typing import Any

import pycudakit as pk
from pycudakit import errors
from pycudakit.pycuda import driver, install


def run(
    script: str | None,
    module: str | None,
    code: str | None,
    arguments: Sequence[str],
    engine: Any = None,
    debug: bool = False,
) -> int:
    """Run a program as `python` does; return its exit status.

    Parameters
    ----------
    script, module, code
        The program: a file or a folder, the name of a module, or its text; the others are None.
    arguments
        The program's arguments.
    engine
        The engine, or None for the one in force.
    debug
        Whether its kernels check their accesses.
    """
    if (script is not None) + (module is not None) + (code is not None) != 1:
        raise errors.InvalidArgument("name a program: a Python script, -m and a module, or -c and a text")
    if script is not None and not os.path.exists(script):
        raise errors.InvalidArgument(f"{script} does not exist: name a Python script")
    if engine is not None:
        pk.set_engine(engine)
    install()
    if debug:
        driver.set_debugging()
    if module is not None:
        sys.argv, sys.path[0] = ["-m", *arguments], os.getcwd()
        return _status(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))
    if code is not None:
        sys.argv, sys.path[0] = ["-c", *arguments], ""
        return _status(lambda: _run_as_main(code, "<string>"))
    assert script is not None  # noqa: S101  (for mypy)
    sys.argv = [script, *arguments]
    if os.path.isdir(script):
        sys.path[0] = script
        return _status(lambda: runpy.run_path(script, run_name="__main__"))
    path = os.path.abspath(script)
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    return _status(lambda: _run_as_main(_text_of(path), path))


def _text_of(path: str) -> str:
    with tokenize.open(path) as file:  # in the encoding that the file declares
        return file.read()


def _run_as_main(text: str, name: str) -> None:
    """Run a program in a new module `__main__`, which stays that until the process ends."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    if os.path.isabs(name):
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(text, name, "exec", dont_inherit=True), main.__dict__)  # noqa: S102


def _status(program: Callable[[], object]) -> int:
    """Run a program; return its exit status. The traceback of an exception has no frames of this module."""
    try:
        program()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001  (of the program)
        frames = error.__traceback__
        internal = (__file__, runpy.__file__, "<frozen runpy>")
        while frames is not None and frames.tb_frame.f_code.co_filename in internal:
            frames = frames.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0
