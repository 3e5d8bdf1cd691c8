"""The helper process that `isolation` starts: it runs one request after the other."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from pycudakit import _call, _engine, _machine, _profile, errors
from pycudakit._kernels import isolation, running, sharing
from pycudakit._kernels.request import Image, Outcome, Request


def main(socket: int, lifeline: int, memory: int) -> None:
    """Answer until the other side is gone."""
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    _dump_no_core()
    connection: Connection[bytes, bytes] = Connection(socket)
    shared = sharing.Shared(memory)
    images: dict[bytes, Image] = {}
    connection.send_bytes(isolation.STARTED)
    with contextlib.suppress(EOFError, OSError):
        while True:
            fresh, new, body = pickle.loads(connection.recv_bytes())  # noqa: S301  (from our parent)
            if fresh:
                images.clear()
            images.update(new)
            request, where = sharing.Unpacker(io.BytesIO(body), images).load()
            result = _answer(connection, shared, request, where)
            connection.send_bytes(_packed(result))
            if where.plan.engine == "cuda" and isinstance(result.error, isolation.LOST):
                break  # CUDA is lost here
            del request
    _end()


def _answer(
    connection: Connection[bytes, bytes], shared: sharing.Shared, request: Request, where: isolation.Where
) -> isolation.Result:
    printed = io.StringIO()
    outcome: Outcome | None = None
    error: BaseException | None = None
    calls: list[_call.Call | _call.Told] = []
    with contextlib.redirect_stdout(printed), _as_there(where) as profile:
        try:
            for device in where.devices[:1]:
                _machine.link_speed(device)  # so that what comes first does not count against a timeout
        except errors.Error as met:
            error = met
        connection.send_bytes(isolation.BEGUN)
        try:
            if error is None:
                _call.local.call = None
                _lay_out(shared, request)
                outcome = running.run(request, where.plan)
                calls = _calls(profile)
        except Exception as met:  # noqa: BLE001
            error = met
    return isolation.Result(outcome, error, printed.getvalue(), calls)


def _calls(profile: _profile.Profile | None) -> list[_call.Call | _call.Told]:
    if profile is not None:
        return list(profile.calls)
    told = _call.local.call
    return [] if told is None else [told]


def _lay_out(shared: sharing.Shared, request: Request) -> None:
    offsets, size = sharing.places(request.buffers)
    shared.grow(size)
    for buffer, offset in zip(request.buffers, offsets, strict=True):
        if buffer.up or buffer.down:
            buffer.array = shared.array(offset, buffer.bytes)
    shared.forget(size)


@contextlib.contextmanager
def _as_there(where: isolation.Where) -> Iterator[_profile.Profile | None]:
    with _engine.asking(engine=where.plan.engine, devices=where.devices or None):
        if where.profiled:
            with _profile.profile() as profile:
                yield profile
        else:
            yield None


def _packed(result: isolation.Result) -> bytes:
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  (an exception that does not pickle)
        error: Any = errors.DeviceError(f"{type(result.error).__name__}: {result.error}")
        return pickle.dumps(isolation.Result(None, error, result.text, []))


def _end_with_parent(lifeline: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(lifeline, 1):
            pass
    _end()


def _end() -> None:
    """End at once: a kernel may run that does not end."""
    os.kill(os.getpid(), signal.SIGKILL)


def _dump_no_core() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  (POSIX has it)

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
