"""A fake GPU: the CPU library in place of the CUDA library, with device memory hidden from the host.

The host copy of device-resident memory is overwritten with wrong values except while an entry of the library
runs. So code that reads it without a download gets wrong values, as on a GPU. Bytes moved over the link are
counted.
"""

import contextlib
import ctypes
import sys
import threading
import types

import numpy as np

from helpers.fake_library import forget_entries, number_of
from pycudakit._native import abi, driver_jit, loader

_HIDDEN = 0xA5
# The entries that look up device-resident buffers.
_NAMES = """digitize evaluate filter gray histogram histogram_of_extent interp
lookup argsort matmul put random reduce reduce_several resize run_requests scan searchsorted select sort take
unique weighted_histogram"""
_RESIDENCY_AWARE = frozenset(_NAMES.split())
_OPERANDS = {
    "pk_evaluate": (2, 3),
    "pk_reduce": (3, 4),
    "pk_scan": (2, None),
    "pk_sort": (0, None),
    "pk_argsort": (0, None),
}
_OPTIONS = {"pk_evaluate": -3}


def _bytes_at(address, size):
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


class _Range:
    """A range of host memory that has a device buffer."""

    def __init__(self, address, size, device_copy, on_host, on_device):
        self.host, self.device_copy = _bytes_at(address, size), device_copy
        self.on_host, self.on_device = on_host, on_device

    def show(self):
        """Make the values visible to an entry."""
        if self.on_device:
            self.host[:] = self.device_copy
        else:
            self.device_copy[:] = self.host
        self.before = self.host.copy()

    def download(self):
        """Download: make the values visible to the host, which may then write others."""
        if not self.on_host:
            self.host[:] = self.device_copy
        self.on_host, self.on_device = True, False

    def hide(self):
        """Overwrite the host copy, so that only entries see the values."""
        if not np.array_equal(self.before, self.host):
            self.device_copy[:] = self.host
            self.on_host, self.on_device = False, True
        elif self.on_device is False:
            self.on_device = True
        if not self.on_host:
            self.host[:] = _HIDDEN


class _Entry:
    """An entry of the library, run with its operands made visible."""

    def __init__(self, gpu, name, function):
        self.__dict__.update(gpu=gpu, name=name, function=function)

    def __setattr__(self, name, value):
        setattr(self.function, name, value)

    def __call__(self, *arguments):
        return self.gpu.run(self.name, self.function, arguments)


def _plain(value):
    return value.value if isinstance(value, ctypes._SimpleCData) else value


class _Local(threading.local):
    """The state of a thread: the ranges of its open plan."""

    def __init__(self):
        self.ranges, self.device, self.stream = {}, 0, 0


class FakeGpu:
    """The library with one or several fake GPUs."""

    def __init__(self, count=1):
        self._cpu = loader.library("cpu")
        self._local, self._count = _Local(), count
        self.devices = []  # of each call of `_OPERANDS`
        self.bytes_up = self.bytes_down = self.queued = self.imported = 0
        self.waits = False  # whether the last enqueued call was to synchronize

    @property
    def _ranges(self):
        return self._local.ranges

    def __getitem__(self, name):
        method = getattr(type(self), name, None)
        if method is None:
            return _Entry(self, name, self._cpu[name])
        return lambda *arguments: method(self, *map(_plain, arguments)) or 0

    def __getattr__(self, name):
        function = getattr(self._cpu, name)
        if name in ("pk_last_error", "pk_jit_request") or not name.startswith("pk_"):
            return function
        return _Entry(self, name, function)

    def run(self, name, function, arguments):
        if name == "pk_run_in_residency_scope":
            before, outer = set(self._ranges), (self._local.device, self._local.stream)
            self._local.device = 0
            try:
                return function(*arguments)
            finally:  # buffers live no longer than the plan
                self._local.ranges = {first: one for first, one in self._ranges.items() if first in before}
                self._local.device, self._local.stream = outer
        entry = name.removeprefix("pk_")
        sees_residency = not _RESIDENCY_AWARE.isdisjoint((entry, entry.rpartition("_")[0]))
        devices = self._devices(name, arguments) if sees_residency else []
        for one in self._ranges.values() if sees_residency and devices != [self._local.device] else ():
            one.download()
        shown = list(self._ranges.values()) if sees_residency and devices == [self._local.device] else []
        for one in shown:
            one.show()
        try:
            done = self._queued(name, function, arguments)
            if sees_residency and self._local.stream:
                report = _bytes_at(number_of(arguments[-1]), abi.REPORT.itemsize).view(abi.REPORT)
                report["chunks"] = 0  # an asynchronous call reports no chunks
            return done
        finally:
            for one in shown:
                one.hide()

    def _queued(self, name, function, arguments):
        """Run an entry with arrays "on the device", which are host memory as well."""
        if name == "pk_run_requests":
            count, address = number_of(arguments[7]), number_of(arguments[6])
            buffers = _bytes_at(address, count * abi.BUFFER.itemsize).view(abi.BUFFER)
            with self._copied_buffers(buffers):
                return function(*arguments)
        if name not in _OPERANDS:
            return function(*arguments)
        at, count = _OPERANDS[name]
        operands = arguments[at]
        size = 2 if count is None else number_of(arguments[count])
        address = number_of(operands)
        table = _bytes_at(address, size * abi.OPERAND.itemsize).view(abi.OPERAND)
        device_flags = table["flags"] & abi.ON_DEVICE
        self.queued += bool(device_flags.any())
        self.waits = not self._options(name, arguments)["asynchronous"]
        table["flags"] &= ~abi.ON_DEVICE
        try:
            return function(*arguments)
        finally:
            table["flags"] |= device_flags

    @contextlib.contextmanager
    def _copied_buffers(self, buffers):
        """Copy the buffers of a list that are not resident, as their flags say."""
        kept = []
        for buffer in buffers:
            if not buffer["bytes"] or self._of(int(buffer["address"])) is not None:
                continue
            host = _bytes_at(int(buffer["address"]), int(buffer["bytes"]))
            if not buffer["flags"] & abi.BUFFER_DOWNLOAD:
                kept.append((host, host.copy()))
            if not buffer["flags"] & abi.BUFFER_UPLOAD:
                host[:] = _HIDDEN
        try:
            yield
        finally:
            for host, values in kept:
                host[:] = values

    def _options(self, name, arguments):
        address = number_of(arguments[_OPTIONS.get(name, -2)])
        return _bytes_at(address, abi.OPTIONS.itemsize).view(abi.OPTIONS)

    def _devices(self, name, arguments):
        """Return the GPUs that a call shall use."""
        if name not in _OPERANDS:  # only these entries have options
            return [self._local.device]
        options = self._options(name, arguments)
        address, count = int(options["devices"][0]), int(options["device_count"][0])
        devices = _bytes_at(address, 8 * count).view(np.int64).tolist() if count else [0]
        self.devices.append(devices)
        return devices

    # ---- Plans -----------------------------------------------------------------------------------------

    def pk_device_count(self, count):
        count._obj.value = self._count

    def pk_residency_set_device(self, device):
        assert 0 <= device < self._count
        self._local.device = device

    def pk_residency_add(self, address, size, kind, kept):
        self._ranges[address] = _Range(
            address, size, np.empty(size, np.uint8), kind == abi.RESIDENT_INPUT, False
        )
        kept._obj.value = 1

    def pk_residency_import(self, address, size, source, _, valid, device):
        self.imported += 1
        on_host = valid == abi.IMPORT_HOST_VALID
        self._ranges[address] = one = _Range(address, size, _bytes_at(source, size), on_host, not on_host)
        if not on_host:
            one.host[:] = _HIDDEN
        device._obj.value = 0

    def _of(self, address):
        for first, one in self._ranges.items():
            if first <= address < first + one.host.size:
                return one
        return None

    def pk_residency_set_stream(self, stream):
        self._local.stream = stream

    def pk_residency_upload(self, address, _, report):
        one = self._of(address)
        if one is not None and one.on_host and not one.on_device:
            one.device_copy[:] = one.host
            one.on_device = True
            self.bytes_up += one.host.size
            report["bytes_up"] = one.host.size

    def pk_residency_download(self, address, _, report):
        one = self._of(address)
        if one is not None and one.on_device and not one.on_host:
            one.host[:] = one.device_copy
            one.on_host = True
            self.bytes_down += one.host.size
            report["bytes_down"] = one.host.size

    def pk_residency_invalidate(self, address):
        one = self._of(address)
        if one is not None:
            one.on_host, one.on_device = True, False

    def pk_residency_drop(self, address):
        self._ranges.pop(address, None)


# ---- A library of arrays on the fake GPU ---------------------------------------------------------------


def _aligned(shape, dtype):
    """Return an array aligned like a device allocation."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    room = np.empty(size + 256, np.uint8)
    start = -room.ctypes.data % 256
    made = room[start : start + size].view(dtype).reshape(shape)
    made[...] = np.full(shape, 77).astype(dtype)
    return made


class ndarray:
    """A fake CuPy array: its type and module name say that it is on a GPU."""

    def __init__(self, shape, dtype=np.float64, values=None):
        self.values = values = _aligned(shape, dtype) if values is None else values
        self.data = types.SimpleNamespace(ptr=values.ctypes.data)
        self.device = types.SimpleNamespace(id=0)

    @property
    def shape(self):
        return self.values.shape

    @property
    def ndim(self):
        return self.values.ndim

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def __cuda_array_interface__(self):
        x = self.values
        return {
            "shape": x.shape,
            "typestr": x.dtype.str,
            "data": (x.ctypes.data, not x.flags.writeable),
            "strides": None if x.flags.c_contiguous else x.strides,
            "version": 3,
            "stream": 1,
        }

    @property
    def flags(self):
        return self.values.flags

    @property
    def T(self):
        return _holding(self.values.T)

    @property
    def strides(self):
        return self.values.strides

    def __getitem__(self, index):
        return _holding(self.values[index])


ndarray.__module__ = "cupy"


def _holding(values):
    return ndarray(values.shape, values.dtype, values)


def _as_array(x):
    x = np.asarray(x)
    made = ndarray(x.shape, x.dtype)
    made.values[...] = x
    return made


def module():
    """Return a fake `cupy` module."""
    made = types.ModuleType("cupy")
    made.ndarray = ndarray
    made.asarray = _as_array
    made.asnumpy = lambda x: x.values
    runtime = types.SimpleNamespace(getDevice=lambda: 0)
    stream = types.SimpleNamespace(ptr=0)
    made.cuda = types.SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream)
    return made


def put(monkeypatch, count=1):
    """Install the fake library and the fake `cupy`; return the fake GPU."""
    forget_entries()
    gpu, real = FakeGpu(count), loader.library
    monkeypatch.setattr(loader, "library", lambda name: gpu if name == "cuda" else real(name))
    monkeypatch.setattr(driver_jit, "has_native_code", lambda _device: True)
    monkeypatch.setitem(sys.modules, "cupy", module())
    return gpu
