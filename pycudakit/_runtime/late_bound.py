"""Late-bound hooks: lower layers call functions of upper layers through this table.

`pycudakit/__init__.py` fills the table at import, so that no lower layer imports an upper one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_implementations: dict[str, Callable[..., Any]] = {
    "try_replay": lambda *_: (NotImplemented, None)  # until `fusing.device_replay` registers its own
}


def register(**functions: Callable[..., Any]) -> None:
    """Register the implementations of the functions below, by their names."""
    _implementations.update(functions)


def call_on_device(function: Any, args: Any, kwargs: Any, signature: Any = None) -> Any:
    """Call a pycudakit function, or an elementwise one, on arrays in device memory.

    `signature` is that of the call, which `try_replay` has returned.
    """
    return _implementations["call_on_device"](function, args, kwargs, signature)


def try_replay(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the result of replaying a captured call on device arrays, or NotImplemented; and its signature.

    The signature is None if the call cannot be replayed.
    """
    result: tuple[Any, Any] = _implementations["try_replay"](function, args, kwargs)
    return result


def call_on_dask(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], module: str = "pycudakit") -> Any:
    """Call the pycudakit function of this name on Dask arrays: it runs where their chunks are computed."""
    return _implementations["call_on_dask"](name, args, kwargs, module)


def compile_requested(library: Any) -> None:
    """Compile with NVRTC the fused kernels for which a library requested it."""
    _implementations["compile_requested"](library)
