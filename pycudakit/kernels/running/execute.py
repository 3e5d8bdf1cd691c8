"""Execution of a run request: engine choice, isolation, fallback, and the native call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, engine_status, loader
from pycudakit._runtime import context
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import fallback_choice, warn_of_fallback
from pycudakit.kernels.running.request_encoding import EncodedRequest, print_text
from pycudakit.kernels.running.run_request import Kernel, Outcome, RunRequest

_BLOCK_LIMIT = 10.0  # seconds that a block of a checked kernel may take on the CPU
_MAX_TIMEOUT_SECONDS = 10_000_000  # seconds of a timeout

Say = Callable[[str], object]


def choose(function: str, why_not_cuda: Callable[[], str | None]) -> EngineChoice:
    """Choose the engine for kernels, or raise.

    Parameters
    ----------
    function
        The function's name in `last_call`.
    why_not_cuda
        Returns why kernels cannot be compiled for a GPU, or None.
    """
    engine = context.checked_current_engine()
    if engine == "numpy":
        raise errors.Unsupported(
            f"{function}: the engine 'numpy' runs no kernels; use the engine 'auto', 'cuda' or 'cpu'"
        )
    if engine != "auto":
        loader.library(engine)  # or NoDevice
        return EngineChoice(function, engine, context.REASON_ENGINE_REQUESTED)
    status = engine_status.status("cuda")
    missing = why_not_cuda() if status else status.reason
    if missing is None:
        return EngineChoice(function, "cuda", "auto: kernels run on a GPU where there is one", automatic=True)
    loader.library("cpu")
    return EngineChoice(function, "cpu", f"auto: no kernels on a GPU: {missing}")


def fall_back(error: errors.Error, choice: EngineChoice, has_inouts: bool) -> EngineChoice:
    """Warn, and return the choice of the CPU engine after a failure on CUDA; or raise the failure."""
    # Memory may run out in the download, after arrays that are both inputs and outputs have changed.
    is_intact = isinstance(error, errors.NoDevice) or not has_inouts
    if not (choice.automatic and is_intact):
        raise error
    warn_of_fallback(error)
    return fallback_choice(choice)


def block_limit() -> int:
    """Return the time limit of a block in checked kernels, in milliseconds."""
    setting = os.environ.get("PYCUDAKIT_BLOCK_LIMIT")
    try:
        seconds = _BLOCK_LIMIT if setting is None else float(setting)
        return round(seconds * 1000)
    except (ValueError, OverflowError):
        raise errors.InvalidArgument(
            f"PYCUDAKIT_BLOCK_LIMIT is {setting!r}; give seconds, such as 10, or 0 for no limit"
        ) from None


def isolates(isolate: bool | None, timeout: float | None) -> bool:
    """Return True if a run needs a helper process: by its arguments, or else by PYCUDAKIT_ISOLATE."""
    if timeout is not None:
        if not isinstance(timeout, (int, float, np.number)):
            raise TypeError(f"timeout is {timeout!r}; give seconds, or None")
        if not 0 < timeout <= _MAX_TIMEOUT_SECONDS:
            raise errors.InvalidArgument(
                f"timeout is {timeout!r}; give seconds, more than 0 and at most {_MAX_TIMEOUT_SECONDS:,}, "
                "or None"
            )
        if isolate is False:
            raise errors.InvalidArgument(
                "timeout is given with isolate=False: a kernel in this process cannot be stopped"
            )
        return True
    if isolate is None:
        return os.environ.get("PYCUDAKIT_ISOLATE", "0") not in ("", "0")
    return bool(isolate)


def limits_of(
    kernel: Kernel, engine: str, device: int, *, isolate: bool = False, timeout: float | None = None
) -> Any:
    """Return a kernel's limits. This loads the binary, which runs the constructors of its static objects.

    Parameters
    ----------
    isolate, timeout
        As for a run: whether to load it in a helper process only, and the timeout in seconds.
    """
    if isolate:
        request = RunRequest(kernel.label, [], (), limits_query=kernel)
        choice = EngineChoice(kernel.label, engine, context.REASON_ENGINE_REQUESTED)
        return run_request(request, choice, isolate=True, timeout=timeout).limits
    binary = np.zeros(1, abi.IMAGE)
    data, key = np.frombuffer(kernel.binary.data, np.uint8), np.frombuffer(kernel.binary.key, np.uint64)
    binary["address"], binary["bytes"], binary["key"] = data.ctypes.data, len(data), key
    symbol = np.frombuffer(kernel.symbol.encode(), np.uint8)
    limits = np.zeros(1, abi.LIMITS)
    loader.library(engine).pk_kernel_info(binary, symbol, len(symbol), device, limits)
    return limits[0]


def run_request(
    request: RunRequest, choice: EngineChoice, *, isolate: bool | None = False, timeout: float | None = None
) -> Outcome:
    """Run a request, record the call, and print the kernels' output.

    Parameters
    ----------
    isolate
        Whether to run in a helper process; None means as PYCUDAKIT_ISOLATE says.
    timeout
        Seconds after which a helper process is stopped.
    """
    if isolates(isolate, timeout):
        from pycudakit.kernels.running import worker_pool  # noqa: PLC0415  (few need it)

        outcome = worker_pool.run_in_worker(request, choice, timeout)
        print_text(outcome.text)
        return outcome
    if request.limits_query is not None:
        device = context.current_devices()[0] if choice.engine == "cuda" else 0
        return Outcome(0.0, "", limits_of(request.limits_query, choice.engine, device))
    tables = EncodedRequest(request, choice.engine)
    text = tables.run_and_print(choice)
    return Outcome(tables.seconds, text)
