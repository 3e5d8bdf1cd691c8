"""Run kernels in a helper process, which they may crash, or not end in.

The arrays lie in memory that the two processes share; all else goes through a socket. A helper is kept for
the next run. It ends when this process does, however that ends: it then reads the end of a pipe, or, where a
fork has that pipe, too, finds that its parent is another one.
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
from pycudakit._runtime.engine_choice import Plan
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running import request_encoding
from pycudakit.kernels.running.run_request import Launch, Outcome, Repeat, Request
from pycudakit.kernels.running.shared_memory import Packer, Shared, copy, memory_file, places

MOST = 4  # helpers at a time, each with a CUDA context of its own
_BINARIES = 256  # that a helper remembers
STARTED, BEGUN = b"started", b"begun"
_PATIENCE = 60.0  # seconds for a helper to start, and to wake a GPU
_LOOK = 0.25  # seconds between looks at whether it is stopped
_FAREWELL = 2.0  # seconds that one which was killed is waited for
_REMEDY = "; with isolate=True"  # what the CUDA library says where it is not
LOST = (errors.DeviceError, errors.NoDevice)  # after these, CUDA is lost in a process

# The child finds this package and NumPy where we do.
_MAIN = (
    "import sys; sys.path[:] = sys.argv[5:]; from pycudakit.kernels.running import helper_main; "
    "helper_main.main(*map(int, sys.argv[1:5]))"
)


@dataclass(frozen=True, slots=True)
class Where:
    """What is in force here, and is to be there."""

    plan: Plan
    devices: tuple[int, ...]
    profiled: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What a helper answers.

    Parameters
    ----------
    error
        What the run raised, if it did.
    text
        What kernels had printed then.
    calls
        What is recorded of it.
    """

    outcome: Outcome | None
    error: BaseException | None
    text: str
    calls: Sequence[native_call.Record]


def run_in_helper(request: Request, plan: Plan, timeout: float | None = None) -> Outcome:
    """Run in a helper process; record the call.

    Parameters
    ----------
    timeout
        Seconds, from when the helper has begun, after which it is stopped.

    Raises
    ------
    DeviceError
        The helper crashed, or did not end in time; nothing was written. The next run has a new one.
    """
    profiled = bool(context.here.get().profiles)
    devices = context.devices_asked() if plan.engine == "cuda" else ()
    with _helpers.one() as helper:
        result = helper.run(request, Where(replace(plan, automatic=False), devices, profiled), timeout)
    for call in result.calls:
        native_call.done(call)
    if result.outcome is None:
        request_encoding.say(result.text)
        raise _told(result.error, request)
    return result.outcome


def _told(error: BaseException | None, request: Request) -> BaseException:
    """Return what a helper raised, as it is told here."""
    if error is None:
        return errors.DeviceError(f"{_names(request)}: a helper process gave no answer")
    why, remedy, _ = str(error).partition(_REMEDY)
    if not (remedy and isinstance(error, errors.DeviceError)):
        return error
    return errors.DeviceError(
        f"{why}; that ended the helper process it ran in, no output was written, and the next call starts a "
        "new one"
    )


def release() -> None:
    """End the helpers that nobody uses."""
    _helpers.close_idle()


# ---- A helper --------------------------------------------------------------------------------------


def _names(request: Request) -> str:
    """Return the names of the kernels that a request runs."""
    names: dict[str, None] = {}
    left = list(request.steps)
    while left:
        step = left.pop(0)
        if isinstance(step, Repeat):
            left[:0] = step.steps
        elif isinstance(step, Launch):
            names[step.kernel.label] = None
    if len(names) > 4:
        return ", ".join([*list(names)[:3], f"{len(names) - 3} more"])
    return ", ".join(names) or request.function


class Helper:
    """A process that runs kernels, one request at a time."""

    def __init__(self) -> None:
        self.is_lost = False
        self._binaries: dict[bytes, Binary] = {}
        with contextlib.ExitStack() as files:  # closed, unless all is there
            try:
                self._process = self._start(files)
            except OSError as error:
                raise errors.DeviceError(f"isolate=True: no helper process starts: {error}") from None
            self._files = files.pop_all()
        try:
            self._await(STARTED)
        except (EOFError, OSError):
            words = self._last_words()
            self.close()
            raise errors.DeviceError(f"isolate=True: the helper process does not start: {words}") from None
        except BaseException:
            self.close()
            raise

    def _start(self, files: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        """Start the process, and open what leads to it."""
        self._memory = memory_file()
        files.callback(os.close, self._memory)
        self._shared = Shared(self._memory)
        self._complaints = files.enter_context(os.fdopen(memory_file(), "r+b"))
        self._end, theirs = socket.socketpair()
        files.enter_context(self._end)  # whose options are the connection's
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
                    stderr=self._complaints,
                    env=variables,
                    pass_fds=handed,
                    start_new_session=True,  # Ctrl-C is ours
                )
            finally:
                os.close(lifeline)

    def _await(self, word: bytes, stopped_for: float = _PATIENCE) -> None:
        if not self._says_something(_PATIENCE, stopped_for) or self._connection.recv_bytes() != word:
            raise EOFError

    def _says_something(self, patience: float | None, stopped_for: float = _PATIENCE) -> bool:
        """Wait for its next words, if it is not stopped for longer, as SIGSTOP does: then it is given up."""
        began = time.monotonic()
        stopped = 0.0
        while not self._connection.poll(_LOOK if patience is None else min(_LOOK, patience)):
            stopped = stopped + _LOOK if _is_stopped(self._process.pid) else 0.0
            if stopped > stopped_for:
                raise EOFError
            if patience is not None and time.monotonic() - began > patience:
                return False
        return True

    def _give_up_after(self, seconds: float) -> None:
        """Have what is sent and received fail when the other side has not gone on for so long."""
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(seconds) + 1, 0))
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds) + 1, 0))

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read()[-4000:].decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it says nothing")

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def run(self, request: Request, where: Where, timeout: float | None) -> Result:
        """Run a request; whoever gets an exception closes the helper."""
        offsets, size = places(request.buffers)
        self._shared.grow(size)
        for buffer, offset in zip(request.buffers, offsets, strict=True):
            if isinstance(buffer.array, np.ndarray) and buffer.up and buffer.bytes:
                copy(self._shared.array(offset, buffer.bytes), buffer.array)
        result = self._ask(request, where, timeout)
        if result.outcome is not None:
            for buffer, offset in zip(request.buffers, offsets, strict=True):
                if isinstance(buffer.array, np.ndarray) and buffer.down and buffer.bytes:
                    copy(buffer.array, self._shared.array(offset, buffer.bytes))
        self._shared.shrink()
        return result

    def _ask(self, request: Request, where: Where, timeout: float | None) -> Result:
        told = [replace(buffer, array=None) for buffer in request.buffers]
        body = io.BytesIO()
        if len(self._binaries) > _BINARIES:
            self._binaries.clear()
        fresh = not self._binaries
        packer = Packer(body, self._binaries)
        packer.dump((replace(request, buffers=told, symbols=dict(request.symbols)), where))
        message = pickle.dumps((fresh, packer.new, body.getvalue()), pickle.HIGHEST_PROTOCOL)
        try:
            patience = _PATIENCE if timeout is None else timeout
            self._give_up_after(patience)
            self._connection.send_bytes(message)
            self._binaries.update(packer.new)
            self._await(BEGUN, patience)
            if not self._says_something(timeout):
                self._too_long(request, patience)
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            self._crashed(request)
        result: Result = pickle.loads(answer)  # noqa: S301  (from our own child)
        self.is_lost = where.plan.engine == "cuda" and isinstance(result.error, LOST)
        return result

    def _too_long(self, request: Request, timeout: float) -> NoReturn:
        raise errors.DeviceError(
            f"{_names(request)}: had not ended after timeout={timeout:g} seconds, and was stopped; no output "
            "was written"
        )

    def _crashed(self, request: Request) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            how = "SIGSTOP, or another signal that stops it" if _is_stopped(self._process.pid) else "hung up"
        elif code < 0:
            how = _signal_name(-code)
        else:
            how = f"exit status {code} ({self._last_words()})"
        raise errors.DeviceError(
            f"{_names(request)}: the helper process that ran it was ended by {how}. No output was written, "
            "and the next call starts a new one. With debug=True, the CPU engine names what is out of bounds"
        )

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:  # its GPU is busy
            _ending.append(self._process)
        _ending[:] = [process for process in _ending if process.poll() is None]
        self._files.close()

    def disown(self) -> None:
        """In the child of a fork: it is the parent's."""
        with contextlib.suppress(OSError):
            self._files.close()
        self._process.returncode = 0  # nobody waits for it here


def _is_stopped(process: int) -> bool:
    """Tell whether somebody stopped a child, where the system says that."""
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


# ---- All of them -----------------------------------------------------------------------------------


class _Helpers:
    """The helpers of this process: as many as there are runs at a time, up to `MOST`."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MOST)
        self._lock = threading.Lock()
        self._idle: list[Helper] = []
        self._all: set[Helper] = set()

    @contextlib.contextmanager
    def one(self) -> Iterator[Helper]:
        """Have a helper for a run; one that met an exception, or is to go, is not kept."""
        with self._free:
            helper = self._take()
            try:
                yield helper
            except BaseException:
                self._discard(helper)
                raise
            if helper.is_lost:
                self._discard(helper)
                return
            with self._lock:
                self._idle.append(helper)

    def _take(self) -> Helper:
        while True:
            with self._lock:
                helper = self._idle.pop() if self._idle else None
            if helper is None:
                helper = Helper()
                with self._lock:
                    self._all.add(helper)
                return helper
            if helper.alive:
                return helper
            self._discard(helper)

    def _discard(self, helper: Helper) -> None:
        with self._lock:
            self._all.discard(helper)
        helper.close()

    def close_idle(self) -> None:
        """End those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for helper in idle:
            self._discard(helper)

    def disown(self) -> None:
        """In the child of a fork: have none."""
        for helper in list(self._all):
            helper.disown()


_helpers = _Helpers()
_ending: list[subprocess.Popen[bytes]] = []


def _after_fork() -> None:
    global _helpers  # noqa: PLW0603
    _helpers.disown()
    _helpers = _Helpers()
    for process in _ending:
        process.returncode = 0  # the parent waits for it
    _ending.clear()


atexit.register(release)
hardware.on_release.append(release)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
