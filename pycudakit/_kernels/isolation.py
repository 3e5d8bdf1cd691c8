"""Run kernels in a helper process, which they may crash, or not end in.

The arrays lie in memory that the two processes share; all else goes through a socket. A helper is kept for
the next run. It ends when this process does, however that ends: it then reads the end of a pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import IO, Any, NoReturn

import numpy as np

from pycudakit import _call, _engine, errors
from pycudakit._family import Plan
from pycudakit._kernels import running
from pycudakit._kernels.request import Buffer, Image, Launch, Outcome, Repeat, Request
from pycudakit._values import Array

MOST = 4  # helpers at a time, each with a CUDA context of its own
_KEPT = 256 << 20  # bytes that a helper shares with us between runs
_IMAGES = 256  # that a helper remembers
_ALIGNMENT = 256
STARTED, BEGUN = b"started", b"begun"
_PATIENCE = 60.0  # seconds for a helper to start, and to wake a GPU
LOST = (errors.DeviceError, errors.NoDevice)  # after these, CUDA is lost in a process

# The child finds this package and NumPy where we do.
_MAIN = (
    "import sys; sys.path[:] = sys.argv[4:]; from pycudakit._kernels import isolated; "
    "isolated.main(*map(int, sys.argv[1:4]))"
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
        What `last_call` is to tell; in a profile, its calls.
    """

    outcome: Outcome | None
    error: BaseException | None
    text: str
    calls: Sequence[_call.Call | _call.Told]


def run(request: Request, plan: Plan, timeout: float | None = None) -> Outcome:
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
    profiled = bool(_engine.asked.get().profiles)
    devices = _engine.devices_asked() if plan.engine == "cuda" else ()
    with _helpers.one() as helper:
        result = helper.run(request, Where(replace(plan, automatic=False), devices, profiled), timeout)
    for call in result.calls:
        if isinstance(call, _call.Call):
            _call.computed(call)
        else:
            _call.local.call = call
    if result.outcome is None:
        running.say(result.text)
        raise result.error or errors.DeviceError(f"{_names(request)}: a helper process gave no answer")
    return result.outcome


def release() -> None:
    """End the helpers that nobody uses."""
    _helpers.close_idle()


# ---- Messages --------------------------------------------------------------------------------------


class Packer(pickle.Pickler):
    """Pickles a request, and leaves out what the other side has: images, and the arrays of buffers."""

    def __init__(self, file: IO[bytes], known: dict[bytes, Image]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._known = known
        self.new: dict[bytes, Image] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return an image's key."""
        if not isinstance(value, Image):
            return None
        key = value.engine.encode() + value.key
        if key not in self._known:
            self.new[key] = value
        return key


class Unpacker(pickle.Unpickler):
    """Unpickles what `Packer` pickled."""

    def __init__(self, file: IO[bytes], known: dict[bytes, Image]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, key: Any) -> Image:
        """Return the image of a key."""
        return self._known[key]


def places(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Return where in the shared memory each buffer's array lies, and how many bytes all take."""
    offsets, end = [], 0
    for buffer in buffers:
        offsets.append(end)
        if buffer.up or buffer.down:
            end += -(-buffer.bytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


class Shared:
    """Memory that two processes share: a file that has no name."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._mapped = 0

    def grow(self, size: int) -> None:
        """Have at least so many bytes."""
        size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        if os.fstat(self._file).st_size < size:
            os.ftruncate(self._file, size)
        if self._mapped < size:
            self._map = mmap.mmap(self._file, size)  # the old one goes with the last array in it
            self._mapped = size

    def shrink(self) -> None:
        """Give back what is more than is kept."""
        if self._mapped > _KEPT:
            self._map, self._mapped = None, 0
            os.ftruncate(self._file, 0)

    def forget(self, size: int) -> None:
        """Unmap what the other side may have given back."""
        if size > _KEPT:
            self._map, self._mapped = None, 0

    def array(self, offset: int, size: int) -> Array:
        """Return bytes of it."""
        assert self._map is not None  # noqa: S101  (grow was called)
        return np.frombuffer(self._map, np.uint8, size, offset)


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pycudakit", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1, order="A").view(np.uint8)


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


# ---- A helper --------------------------------------------------------------------------------------


class Helper:
    """A process that runs kernels, one request at a time."""

    def __init__(self) -> None:
        self.is_lost = False
        self._images: dict[bytes, Image] = {}
        self._memory = _memory_file()
        self._shared = Shared(self._memory)
        ours, theirs = socket.socketpair()
        lifeline, self._life = os.pipe()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the helper)
        self._connection: Connection[bytes, bytes] = Connection(ours.detach())
        handed = (theirs.fileno(), lifeline, self._memory)
        variables = {name: value for name, value in os.environ.items() if name != "PYCUDAKIT_ISOLATE"}
        program = spawn.get_executable() or sys.executable
        paths = [os.fspath(path) for path in sys.path]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [os.fsdecode(program), "-c", _MAIN, *map(str, handed), *paths],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                env=variables,
                pass_fds=handed,
                start_new_session=True,  # Ctrl-C is ours
            )
        except BaseException as error:
            self._close_files()
            if isinstance(error, OSError):
                raise errors.DeviceError(f"isolate=True: no helper process starts: {error}") from None
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        try:
            self._await(STARTED)
        except (EOFError, OSError):
            words = self._last_words()
            self.close()
            raise errors.DeviceError(f"isolate=True: the helper process does not start: {words}") from None
        except BaseException:
            self.close()
            raise

    def _await(self, word: bytes) -> None:
        if not self._connection.poll(_PATIENCE) or self._connection.recv_bytes() != word:
            raise EOFError

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
        try:
            self._shared.grow(size)
        except (OSError, ValueError) as error:
            raise errors.OutOfMemory(f"{_names(request)}: {size:,} bytes to share: {error}") from None
        for buffer, offset in zip(request.buffers, offsets, strict=True):
            if buffer.array is not None and buffer.up and buffer.bytes:
                self._shared.array(offset, buffer.bytes)[:] = _bytes_of(buffer.array)
        result = self._ask(request, where, timeout)
        if result.outcome is not None:
            for buffer, offset in zip(request.buffers, offsets, strict=True):
                if buffer.array is not None and buffer.down and buffer.bytes:
                    _bytes_of(buffer.array)[:] = self._shared.array(offset, buffer.bytes)
        self._shared.shrink()
        return result

    def _ask(self, request: Request, where: Where, timeout: float | None) -> Result:
        told = [replace(buffer, array=None) for buffer in request.buffers]
        body = io.BytesIO()
        if len(self._images) > _IMAGES:
            self._images.clear()
        fresh = not self._images
        packer = Packer(body, self._images)
        packer.dump((replace(request, buffers=told, symbols=dict(request.symbols)), where))
        message = pickle.dumps((fresh, packer.new, body.getvalue()), pickle.HIGHEST_PROTOCOL)
        try:
            self._connection.send_bytes(message)
            self._images.update(packer.new)
            self._await(BEGUN)
            if timeout is not None and not self._connection.poll(timeout):
                self._too_long(request, timeout)
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
            how = "hung up"
        elif code < 0:
            how = _signal_name(-code)
        else:
            how = f"exit status {code} ({self._last_words()})"
        raise errors.DeviceError(
            f"{_names(request)}: the helper process that ran it was ended by {how}; no output was written, "
            "the next call starts a new one. On the CPU engine, debug=True names an access outside a buffer"
        )

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._close_files()

    def _close_files(self) -> None:
        self._connection.close()
        os.close(self._life)
        os.close(self._memory)
        self._complaints.close()

    def disown(self) -> None:
        """In the child of a fork: it is the parent's."""
        with contextlib.suppress(OSError):
            self._close_files()
        self._process.returncode = 0  # nobody waits for it here


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


def _after_fork() -> None:
    global _helpers  # noqa: PLW0603
    _helpers.disown()
    _helpers = _Helpers()


atexit.register(release)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
