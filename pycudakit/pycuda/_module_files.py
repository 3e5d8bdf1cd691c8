"""`module_from_file` and `module_from_buffer`: modules of sources that were compiled before."""

from __future__ import annotations

import json
import os
from typing import Any

from pycudakit.pycuda import _engine
from pycudakit.pycuda._errors import LaunchError, LogicError
from pycudakit.pycuda._module import CompiledSource, Module, load
from pycudakit.pycuda.compiler import SOURCE_MARK, compile


def _compiled_again(image: bytes) -> CompiledSource:
    """Compile the source behind an image for the CPU: the disk cache has its library, for this machine."""
    _, mark, arguments = image.rpartition(SOURCE_MARK)
    if not mark:
        raise LogicError(
            "a cubin or PTX runs on a GPU alone, and the engine is 'cpu': give the source, to SourceModule"
        )
    try:
        keywords = json.loads(arguments)
    except ValueError:
        raise LogicError("the image is cut off: compile its source again") from None
    return compile(**keywords)


def module_from_buffer(buffer: Any, options: Any = (), message_handler: Any = None) -> Module:  # noqa: ARG001
    """Load a module from the result of `compile` or, on a GPU, from a cubin or PTX."""
    if isinstance(buffer, CompiledSource):
        return load(buffer)
    image = buffer.encode() if isinstance(buffer, str) else bytes(buffer)
    if not image:
        raise LogicError("module_from_buffer: the buffer is empty")
    if _engine.current().is_cpu:
        return load(_compiled_again(image))
    if not image.startswith(b"\x7fELF"):
        image += b"\0"  # PTX is a string of C
    try:
        return Module._of(image, bytes(16), None)  # noqa: SLF001
    except LaunchError as error:
        raise LogicError(f"the image does not load: {error}") from None


def module_from_file(filename: str | os.PathLike[str]) -> Module:
    """Load a module from a file: on a GPU, a cubin or PTX."""
    try:
        with open(filename, "rb") as file:
            image = file.read()
    except OSError as error:
        raise LogicError(f"module_from_file: {error}") from None
    return module_from_buffer(image)
