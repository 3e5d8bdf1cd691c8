"""`public_function`: a decorator that registers how a function of the public API is called.

`_interop.dispatch.accept_foreign_arrays` makes the public function of it when a program first uses that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pycudakit._runtime.native_call import logged_as_one_call

F = TypeVar("F", bound=Callable[..., Any])


def public_function(
    *,
    numpy: Callable[..., Any] | None = None,
    device_fast_path: Callable[..., Any] | None = None,
    one_call: str | None = None,
) -> Callable[[F], F]:
    """Register a function of the public API.

    Parameters
    ----------
    numpy
        NumPy's function, which computes small calls under `auto` from the same arguments.
    device_fast_path
        Computes a call on device arrays; for arguments that need the general path, which takes less device
        memory, it returns None or raises OutOfMemory.
    one_call
        The name under which calls of several library functions are logged as one.
    """

    def register(function: F) -> F:
        registered: Any = function if one_call is None else logged_as_one_call(one_call)(function)
        if numpy is not None:
            registered.numpy_for_small = numpy
        if device_fast_path is not None:
            registered.device_fast_path = device_fast_path
        public: F = registered
        return public

    return register
