"""What rooms above do for calls that are met below: the package says who does it, when it is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_implementations: dict[str, Callable[..., Any]] = {
    "try_replay": lambda *_: NotImplemented
}  # until there is who plays


def register(**functions: Callable[..., Any]) -> None:
    """Name the functions of rooms above that do what the functions of these names, below, are asked."""
    _implementations.update(functions)


def call_on_device(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the kit's, or compute one element by element, where its arrays lie on a GPU."""
    return _implementations["call_on_device"](function, *args, **kwargs)


def try_replay(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a call that is known as it is made on a GPU, or NotImplemented."""
    return _implementations["try_replay"](function, args, kwargs)


def call_on_dask(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], module: str = "pycudakit") -> Any:
    """Call a function of the kit's of this name where the blocks of its Dask arrays are computed."""
    return _implementations["call_on_dask"](name, args, kwargs, module)


def compile_requested(library: Any) -> None:
    """Have those passes compiled that a library would rather have as kernels of their own."""
    _implementations["compile_requested"](library)
