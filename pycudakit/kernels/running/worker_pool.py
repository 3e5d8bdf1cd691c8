"""The pool of helper processes, in which kernels run isolated: they may crash or hang there.

Arrays are in shared memory; everything else goes through a socket. A helper is reused for later runs. It ends
with this process, whatever the cause: it reads the end of a pipe or, if a forked child holds the pipe open,
finds that its parent has changed.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import NoReturn

import numpy as np

from pycudakit import errors
from pycudakit._native import hardware
from pycudakit._runtime import context, native_call
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running import request_encoding
from pycudakit.kernels.running.run_request import Launch, Outcome, Repeat, RunRequest
from pycudakit.kernels.running.shared_memory import Packer, Shared, buffer_offsets, copy, memory_file

MAX_WORKERS = 4  # each has its own CUDA context
_BINARIES = 256  # binaries that a helper remembers
STARTED, BEGUN = b"started", b"begun"
_START_SECONDS = 60.0  # time limit for a helper to start and to wake a GPU
_POLL_SECONDS = 0.25  # interval of the checks whether a helper is stopped
_EXIT_SECONDS = 2.0  # time limit for a killed helper to end
_ISOLATE_HINT = "; with isolate=True"  # the CUDA library's advice for calls without it
DEVICE_LOST = (errors.DeviceError, errors.NoDevice)  # after these, CUDA is unusable in the process

# The child gets this process's `sys.path`, so that it imports the same package and NumPy.
_MAIN = (
    "import sys; sys.path[:] = sys.argv[5:]; from pycudakit.kernels.running import worker_main; "
    "worker_main.main(*map(int, sys.argv[1:5]))"
)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The settings of the caller's context that apply to the run in the helper."""

    choice: EngineChoice
    devices: tuple[int, ...]
    profiled: bool


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The answer of a helper.

    Parameters
    ----------
    error
        The exception of the run, or None.
    text
        The output of the kernels until then.
    calls
        The records of the run's calls.
    """

    outcome: Outcome | None
    error: BaseException | None
    text: str
    calls: Sequence[native_call.CallRecord]


def run_in_worker(request: RunRequest, choice: EngineChoice, timeout: float | None = None) -> Outcome:
    """Run a request in a helper process, and record the call.

    Parameters
    ----------
    timeout
        Seconds after the start of the run after which the helper is stopped.

    Raises
    ------
    DeviceError
        The helper crashed, or exceeded the timeout; nothing was written. The next run starts a new helper.
    """
    profiled = bool(context.current_context.get().profiles)
    devices = context.current_devices() if choice.engine == "cuda" else ()
    with _workers.borrow() as worker:
        result = worker.run(
            request, WorkerContext(replace(choice, automatic=False), devices, profiled), timeout
        )
    for call in result.calls:
        native_call.log_call(call)
    if result.outcome is None:
        request_encoding.print_text(result.text)
        raise _translated_error(result.error, request)
    return result.outcome


def _translated_error(error: BaseException | None, request: RunRequest) -> BaseException:
    """Translate an exception of a helper to one for the caller."""
    if error is None:
        return errors.DeviceError(f"{_names(request)}: a helper process gave no answer")
    why, remedy, _ = str(error).partition(_ISOLATE_HINT)
    if not (remedy and isinstance(error, errors.DeviceError)):
        return error
    return errors.DeviceError(
        f"{why}; that ended the helper process it ran in, no output was written, and the next call starts a "
        "new one"
    )


def release() -> None:
    """End idle helpers."""
    _workers.close_idle()


# ---- A helper --------------------------------------------------------------------------------------


def _names(request: RunRequest) -> str:
    """Return the names of the kernels that a request runs."""
    names: dict[str, None] = {}
    pending = list(request.steps)
    while pending:
        step = pending.pop(0)
        if isinstance(step, Repeat):
            pending[:0] = step.steps
        elif isinstance(step, Launch):
            names[step.kernel.label] = None
    if len(names) > 4:
        return ", ".join([*list(names)[:3], f"{len(names) - 3} more"])
    return ", ".join(names) or request.function


class Worker:
    """A helper process, which runs one request at a time."""

    def __init__(self) -> None:
        self.lost_device = False
        self._binaries: dict[bytes, Binary] = {}
        with contextlib.ExitStack() as files:  # closed if an exception occurs
            try:
                self._process = self._start(files)
            except OSError as error:
                raise errors.DeviceError(f"isolate=True: no helper process starts: {error}") from None
            self._files = files.pop_all()
        try:
            self._await(STARTED)
        except (EOFError, OSError):
            words = self._stderr_tail()
            self.close()
            raise errors.DeviceError(f"isolate=True: the helper process does not start: {words}") from None
        except BaseException:
            self.close()
            raise

    def _start(self, files: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        """Start the process, and open the files of the connection."""
        self._memory = memory_file()
        files.callback(os.close, self._memory)
        self._shared = Shared(self._memory)
        self._stderr = files.enter_context(os.fdopen(memory_file(), "r+b"))
        self._end, theirs = socket.socketpair()
        files.enter_context(self._end)  # the same socket as the connection's
        with theirs:
            self._connection: Connection[bytes, bytes] = files.enter_context(
                Connection(os.dup(self._end.fileno()))
            )
            lifeline, life = os.pipe()
            files.callback(os.close, life)
            handed = (theirs.fileno(), lifeline, self._memory)
            variables = {name: value for name, value in os.environ.items() if name != "PYCUDAKIT_ISOLATE"}
            program = spawn.get_executable() or sys.executable
            paths = [os.fspath(path) for path in sys.path]
            try:
                return subprocess.Popen(  # noqa: S603
                    [os.fsdecode(program), "-c", _MAIN, *map(str, handed), str(os.getpid()), *paths],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    env=variables,
                    pass_fds=handed,
                    start_new_session=True,  # Ctrl-C reaches this process only
                )
            finally:
                os.close(lifeline)

    def _await(self, word: bytes, stopped_for: float = _START_SECONDS) -> None:
        if not self._poll(_START_SECONDS, stopped_for) or self._connection.recv_bytes() != word:
            raise EOFError

    def _poll(self, patience: float | None, stopped_for: float = _START_SECONDS) -> bool:
        """Wait for data, at most `patience` seconds; raise EOFError if the helper stays stopped (SIGSTOP)."""
        began = time.monotonic()
        stopped = 0.0
        while not self._connection.poll(_POLL_SECONDS if patience is None else min(_POLL_SECONDS, patience)):
            stopped = stopped + _POLL_SECONDS if _is_stopped(self._process.pid) else 0.0
            if stopped > stopped_for:
                raise EOFError
            if patience is not None and time.monotonic() - began > patience:
                return False
        return True

    def _set_timeout(self, seconds: float) -> None:
        """Set the timeout of the socket, for sending and receiving."""
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(seconds) + 1, 0))
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds) + 1, 0))

    def _stderr_tail(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read()[-4000:].decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it says nothing")

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def run(self, request: RunRequest, worker_context: WorkerContext, timeout: float | None) -> WorkerResult:
        """Run a request; after an exception the caller must close the helper."""
        offsets, size = buffer_offsets(request.buffers)
        self._shared.grow(size)
        for buffer, offset in zip(request.buffers, offsets, strict=True):
            if isinstance(buffer.array, np.ndarray) and buffer.up and buffer.bytes:
                copy(self._shared.array(offset, buffer.bytes), buffer.array)
        result = self._ask(request, worker_context, timeout)
        if result.outcome is not None:
            for buffer, offset in zip(request.buffers, offsets, strict=True):
                if isinstance(buffer.array, np.ndarray) and buffer.down and buffer.bytes:
                    copy(buffer.array, self._shared.array(offset, buffer.bytes))
        self._shared.shrink()
        return result

    def _ask(self, request: RunRequest, worker_context: WorkerContext, timeout: float | None) -> WorkerResult:
        sent_buffers = [replace(buffer, array=None) for buffer in request.buffers]
        body = io.BytesIO()
        if len(self._binaries) > _BINARIES:
            self._binaries.clear()
        fresh = not self._binaries
        packer = Packer(body, self._binaries)
        packer.dump((replace(request, buffers=sent_buffers, symbols=dict(request.symbols)), worker_context))
        message = pickle.dumps((fresh, packer.new, body.getvalue()), pickle.HIGHEST_PROTOCOL)
        try:
            patience = _START_SECONDS if timeout is None else timeout
            self._set_timeout(patience)
            self._connection.send_bytes(message)
            self._binaries.update(packer.new)
            self._await(BEGUN, patience)
            if not self._poll(timeout):
                self._too_long(request, patience)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            self._crashed(request)
        result: WorkerResult = pickle.loads(answer)  # noqa: S301  (from our own child)
        self.lost_device = worker_context.choice.engine == "cuda" and isinstance(result.error, DEVICE_LOST)
        return result

    def _too_long(self, request: RunRequest, timeout: float) -> NoReturn:
        raise errors.DeviceError(
            f"{_names(request)}: had not ended after timeout={timeout:g} seconds, and was stopped; no output "
            "was written"
        )

    def _crashed(self, request: RunRequest) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            how = "SIGSTOP, or another signal that stops it" if _is_stopped(self._process.pid) else "hung up"
        elif code < 0:
            how = _signal_name(-code)
        else:
            how = f"exit status {code} ({self._stderr_tail()})"
        raise errors.DeviceError(
            f"{_names(request)}: the helper process that ran it was ended by {how}. No output was written, "
            "and the next call starts a new one. With debug=True, the CPU engine names the invalid access"
        )

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._process.kill()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:  # its GPU is busy
            _ending.append(self._process)
        _ending[:] = [process for process in _ending if process.poll() is None]
        self._files.close()

    def detach_after_fork(self) -> None:
        """Detach from the process in the child of a fork: it belongs to the parent."""
        with contextlib.suppress(OSError):
            self._files.close()
        self._process.returncode = 0  # so that `subprocess` does not wait for it


def _is_stopped(process: int) -> bool:
    """Return True if a child process is stopped by a signal; False where the system cannot say."""
    if not hasattr(os, "waitid"):
        return False
    about = os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    return about is not None and about.si_code == os.CLD_STOPPED


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} ({signal.strsignal(number)})"


# ---- The pool --------------------------------------------------------------------------------------


class _WorkerPool:
    """The helpers of this process: one for each concurrent run, up to `MAX_WORKERS`."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MAX_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Worker]:
        """Borrow a helper for a run; after an exception, or if it is to end, it is discarded."""
        with self._free:
            worker = self._take()
            try:
                yield worker
            except BaseException:
                self._discard(worker)
                raise
            if worker.lost_device:
                self._discard(worker)
                return
            with self._lock:
                self._idle.append(worker)

    def _take(self) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                worker = Worker()
                with self._lock:
                    self._all.add(worker)
                return worker
            if worker.alive:
                return worker
            self._discard(worker)

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.close()

    def close_idle(self) -> None:
        """End idle helpers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            self._discard(worker)

    def detach_after_fork(self) -> None:
        """Drop all helpers in the child of a fork: they belong to the parent."""
        for worker in list(self._all):
            worker.detach_after_fork()


_workers = _WorkerPool()
_ending: list[subprocess.Popen[bytes]] = []


def _after_fork() -> None:
    global _workers  # noqa: PLW0603
    _workers.detach_after_fork()
    _workers = _WorkerPool()
    for process in _ending:
        process.returncode = 0  # the parent waits for it
    _ending.clear()


atexit.register(release)
hardware.on_release.append(release)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
