"""Devices, contexts, enumerations and exceptions."""

import ctypes
import threading

import pytest

from pycudakit import errors
from pycudakit.pycuda import driver as drv

pytestmark = pytest.mark.usefixtures("engine")


def test_versions():
    drv.init()
    assert drv.get_version() >= (12, 0, 0)
    assert drv.get_driver_version() >= 12000
    with pytest.raises(drv.LogicError, match="flags are 1"):
        drv.init(1)


def test_devices(engine):
    device = drv.Device(0)
    assert drv.Device.count() >= 1
    assert device.name()
    assert device == drv.Device(0)
    assert hash(device) == hash(drv.Device(0))
    assert device != 0
    assert len(device.compute_capability()) == 2
    assert device.total_memory() > 0
    assert device.get_attribute(drv.device_attribute.WARP_SIZE) == device.warp_size == 32
    assert device.max_threads_per_block == 1024
    assert device.get_attributes()[drv.device_attribute.MAX_BLOCK_DIM_X] == 1024
    assert drv.Device(device.pci_bus_id()) == device
    assert device.name() in repr(device)
    if engine == "cpu":
        assert device.name() == "pycudakit CPU engine"
        assert device.compute_capability() == (9, 0)
        assert device.multiprocessor_count == 132
        assert device.max_shared_memory_per_block == 48 << 10
        assert drv.mem_get_info()[0] <= 4 << 30
    with pytest.raises(AttributeError, match="no_such"):
        device.no_such  # noqa: B018
    for number in (-1, 1000, "0000:ff:1f.7"):
        with pytest.raises(drv.LogicError, match="no device"):
            drv.Device(number)


def test_contexts_are_a_stack():
    assert drv.Context.get_current() is None
    assert drv.Context.get_device() == drv.Device(0)
    context = drv.Device(0).make_context()
    assert drv.Context.get_current() is context
    primary = drv.Device(0).retain_primary_context()
    assert drv.Context.get_current() is context
    primary.push()
    assert drv.Context.get_current() is primary
    drv.Context.synchronize()
    drv.Context.pop()
    assert drv.Context.get_current() is context
    assert drv.Context.attach() is context
    memory = drv.mem_alloc(8)
    context.detach()
    assert drv.Context.get_current() is None
    memory.free()
    for call in (context.detach, context.push):
        with pytest.raises(drv.LogicError, match="detached"):
            call()
    with pytest.raises(drv.LogicError, match="no context"):
        drv.Context.pop()
    primary.detach()


def test_handles_of_contexts(engine):
    """All contexts of a device have the primary context's address, which CUDA has, too."""
    context, primary = drv.Device(0).make_context(), drv.Device(0).retain_primary_context()
    assert context.handle == primary.handle > 0
    if engine == "cuda":
        current = ctypes.c_void_p()
        drv.mem_alloc(4)
        assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(current)) == 0
        assert current.value == context.handle


def test_each_thread_has_a_stack():
    context = drv.Device(0).make_context()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(drv.Context.get_current()))
    thread.start()
    thread.join()
    assert seen == [None]
    context.pop()


def test_limits_and_configurations():
    drv.Context.set_limit(drv.limit.STACK_SIZE, 4096)
    assert drv.Context.get_limit(drv.limit.STACK_SIZE) == 4096
    drv.Context.set_cache_config(drv.func_cache.PREFER_L1)
    assert drv.Context.get_cache_config() == drv.func_cache.PREFER_L1
    with pytest.raises(drv.LogicError, match="limit"):
        drv.Context.set_limit(99, 1)


def test_enumerations():
    assert str(drv.device_attribute.WARP_SIZE) == "WARP_SIZE"
    assert int(drv.device_attribute.WARP_SIZE) == 10
    assert drv.event_flags.BLOCKING_SYNC | drv.event_flags.DISABLE_TIMING == 3
    assert drv.ctx_flags.SCHED_AUTO == 0
    assert drv.array_format.FLOAT == 0x20
    assert drv.host_alloc_flags.DEVICEMAP == 2


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (drv.MemoryError, errors.OutOfMemory),
        (drv.LogicError, errors.InvalidArgument),
        (drv.LaunchError, errors.DeviceError),
        (drv.RuntimeError, errors.NoDevice),
        (drv.CompileError, errors.CompileError),
    ],
)
def test_exceptions(ours, theirs):
    assert issubclass(ours, drv.Error)
    assert issubclass(ours, theirs)
    assert issubclass(drv.MemoryError, MemoryError)


def test_another_engine(engine):
    import pycudakit as pk

    drv.mem_alloc(8)
    with pk.engine("numpy"), pytest.raises(drv.LogicError, match=f"'numpy' now.*'{engine}'"):
        drv.mem_alloc(8)
    drv.mem_alloc(8)


def test_characterize():
    from pycudakit.pycuda import characterize

    assert characterize.platform_bits() == 64
    assert characterize.has_stack()
    assert characterize.has_double_support()
    assert characterize.sizeof("long") == 8
    assert characterize.sizeof("Triple", "struct Triple { char a; int b; };") == 8


@pytest.mark.parametrize("name", ["gl", "gl.autoinit", "sparse", "sparse.packeted", "sparse.cg"])
def test_packages_that_are_not_offered(name):
    import importlib

    module = importlib.import_module(f"pycudakit.pycuda.{name}")
    with pytest.raises(drv.LogicError, match=rf"pycuda\.{name}\.Anything does not exist: "):
        module.Anything(1, key=2)
    assert not hasattr(module, "__no_such_name__")
