"""The main loop of a helper process, which `worker_pool` starts: it runs requests one by one."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import select
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from pycudakit import errors
from pycudakit._native import hardware
from pycudakit._runtime import context, native_call
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running import execute, shared_memory, worker_pool
from pycudakit.kernels.running.run_request import Outcome, RunRequest


def main(socket: int, lifeline: int, memory: int, parent: int) -> None:
    """Run requests until the connection closes."""
    threading.Thread(target=_end_with_parent, args=(lifeline, parent), daemon=True).start()
    _dump_no_core()
    connection: Connection[bytes, bytes] = Connection(socket)
    shared = shared_memory.Shared(memory)
    binaries: dict[bytes, Binary] = {}
    connection.send_bytes(worker_pool.STARTED)
    with contextlib.suppress(EOFError, OSError):
        while True:
            fresh, new, body = pickle.loads(connection.recv_bytes())  # noqa: S301  (from our parent)
            if fresh:
                binaries.clear()
            binaries.update(new)
            request, worker_context = shared_memory.Unpacker(io.BytesIO(body), binaries).load()
            result = _answer(connection, shared, request, worker_context)
            connection.send_bytes(_packed(result))
            if worker_context.choice.engine == "cuda" and isinstance(result.error, worker_pool.DEVICE_LOST):
                break  # CUDA is unusable in this process from now on
            del request
    _end()


def _answer(
    connection: Connection[bytes, bytes],
    shared: shared_memory.Shared,
    request: RunRequest,
    worker_context: worker_pool.WorkerContext,
) -> worker_pool.WorkerResult:
    printed = io.StringIO()
    outcome: Outcome | None = None
    error: BaseException | None = None
    calls: list[native_call.CallRecord] = []
    with contextlib.redirect_stdout(printed), _callers_context(worker_context):
        try:
            for device in worker_context.devices[:1]:
                hardware.link_speed(device)  # starts CUDA, so that this does not count against the timeout
        except errors.Error as caught:
            error = caught
        connection.send_bytes(worker_pool.BEGUN)
        try:
            if error is None:
                _lay_out(shared, request)
                run = functools.partial(execute.run_request, request, worker_context.choice)
                outcome, _ = native_call.collect_calls(run, calls)
        except Exception as caught:  # noqa: BLE001
            error = caught
    return worker_pool.WorkerResult(outcome, error, printed.getvalue(), calls)


def _lay_out(shared: shared_memory.Shared, request: RunRequest) -> None:
    offsets, size = shared_memory.buffer_offsets(request.buffers)
    shared.grow(size)
    for buffer, offset in zip(request.buffers, offsets, strict=True):
        if buffer.up or buffer.down:
            buffer.array = shared.array(offset, buffer.bytes)
    shared.forget(size)


def _callers_context(worker_context: worker_pool.WorkerContext) -> contextlib.AbstractContextManager[None]:
    profiles: tuple[list[Any], ...] = ([],) if worker_context.profiled else ()
    return context.override(
        engine=worker_context.choice.engine, devices=worker_context.devices or None, profiles=profiles
    )


def _packed(result: worker_pool.WorkerResult) -> bytes:
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  (an exception that does not pickle)
        error: Any = errors.DeviceError(f"{type(result.error).__name__}: {result.error}")
        return pickle.dumps(worker_pool.WorkerResult(None, error, result.text, []))


def _end_with_parent(lifeline: int, parent: int) -> None:
    with contextlib.suppress(OSError):
        while os.getppid() == parent:
            if select.select([lifeline], [], [], 0.5)[0]:
                break
    _end()


def _end() -> None:
    """End the process at once, even while a kernel runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def _dump_no_core() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  (POSIX has it)

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
