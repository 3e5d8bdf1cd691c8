"""Device memory by PyCUDA's names: allocations, copies, fills and host memory."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycudakit.pycuda import driver as drv
from pycudakit.pycuda.compiler import SourceModule

pytestmark = pytest.mark.usefixtures("engine")


# ---- Allocations ------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_round_trips():
    a = np.random.default_rng(1).standard_normal((7, 9))
    memory = drv.to_device(a)
    assert (drv.from_device(memory, a.shape, a.dtype) == a).all()
    assert (drv.from_device_like(memory, a) == a).all()
    b = np.empty_like(a)
    drv.memcpy_dtoh(b, memory)
    assert (b == a).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_buffers_of_arrays(order):
    """Copies take the buffers of arrays of either order, as `array.data` is one."""
    a = np.asarray(np.random.default_rng(1).standard_normal((7, 9)), order=order)
    memory, b = drv.mem_alloc(a.nbytes), np.empty_like(a)
    drv.memcpy_htod(memory, a.data)
    drv.memcpy_dtoh(b.data, memory)
    np.testing.assert_array_equal(b, a)
    drv.memcpy_dtoh(bytearray(0), memory)
    with pytest.raises(ValueError, match="the buffer is not contiguous"):
        drv.memcpy_htod(memory, a[::2, ::2].data)


def test_memory_begins_as_zeros():
    for _ in range(3):
        memory = drv.mem_alloc(1000)
        assert not drv.from_device(memory, 1000, np.uint8).any()
        drv.memset_d8(memory, 9, 1000)
        memory.free()


def test_an_allocation_is_its_address():
    memory = drv.mem_alloc(100)
    assert isinstance(int(memory), int)
    assert type(memory + 4) is int
    assert memory + 4 == int(memory) + 4
    assert np.intp(memory) + 8 == int(memory) + 8
    assert int(memory) % 256 == 0
    assert memory.nbytes == 100
    assert "100 bytes" in repr(memory)
    assert copy.copy(memory) is memory
    assert copy.deepcopy(memory) is memory
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(memory)


def test_free():
    memory = drv.mem_alloc(100)
    memory.free()
    with pytest.raises(drv.LogicError, match=r"100 bytes at .* freed already"):
        memory.free()
    with pytest.raises(drv.LogicError, match="freed"):
        drv.memcpy_htod(memory, np.zeros(4))
    with pytest.raises(drv.LogicError, match="freed"):
        drv.memset_d8(memory, 0, 4)


@pytest.mark.parametrize("size", [0, -1])
def test_no_bytes(size):
    with pytest.raises(drv.LogicError, match=f"{size} bytes"):
        drv.mem_alloc(size)


def test_too_much_memory():
    with pytest.raises(drv.MemoryError, match=str(1 << 50)) as caught:
        drv.mem_alloc(1 << 50)
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(TypeError, match="float"):
        drv.mem_alloc(1.5)


@pytest.mark.alone  # others at work on the GPU change its free memory
def test_allocations_of_threads_are_all_freed():
    def work():
        for size in range(1, 500):
            drv.mem_alloc(size)

    gc.collect()
    before, total = drv.mem_get_info()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < before <= total
    assert before - drv.mem_get_info()[0] <= 256 << 20  # a pool may keep that much


def test_pitch_and_address_ranges():
    memory, pitch = drv.mem_alloc_pitch(100, 7, 4)
    assert pitch >= 100
    begin, size = drv.mem_get_address_range(int(memory) + 5)
    assert begin == int(memory)
    assert size >= pitch * 7
    with pytest.raises(drv.LogicError, match="access_size is 3"):
        drv.mem_alloc_pitch(100, 7, 3)


class Holder(drv.PointerHolderBase):
    def __init__(self, memory):
        super().__init__()
        self.memory = memory
        self.gpudata = int(memory)  # as many programs do, which hold another library's arrays

    def get_pointer(self):
        return int(self.memory)


class ForeignArray:
    """An array of another library."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def __cuda_array_interface__(self):
        return {"shape": (4,), "typestr": "<f4", "data": (int(self.memory), False), "version": 3}


@pytest.mark.parametrize("wrap", [int, np.intp, Holder, ForeignArray, lambda memory: memory])
def test_objects_that_name_device_memory(wrap):
    memory = drv.mem_alloc(16)
    values = np.arange(4, dtype=np.float32)
    drv.memcpy_htod(wrap(memory), values)
    assert (drv.from_device(wrap(memory), 4, np.float32) == values).all()
    drv.memset_d32(wrap(memory), 0, 4)
    assert not drv.from_device(memory, 4, np.float32).any()


def test_holders():
    memory = drv.mem_alloc(16)
    holder = Holder(memory)
    assert int(holder) == int(memory)
    with pytest.raises(NotImplementedError, match="get_pointer"):
        int(drv.PointerHolderBase())


@pytest.mark.parametrize("wrong", [None, "text", 1.5, np.zeros(4)])
def test_objects_that_name_no_device_memory(wrong):
    with pytest.raises(TypeError, match="device memory"):
        drv.memcpy_htod(wrong, np.zeros(4))


# ---- Copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [np.zeros((5, 5)), np.zeros((5, 5), order="F"), bytearray(200)])
def test_hosts_of_copies(host):
    memory = drv.to_device(np.arange(25.0))
    drv.memcpy_dtoh(host, memory)
    flat = np.frombuffer(host) if isinstance(host, bytearray) else host.ravel(order="K")
    assert (flat == np.arange(25.0)).all()


@pytest.mark.parametrize(
    ("host", "error", "message"),
    [
        (np.zeros((5, 5))[:, ::2], ValueError, "not contiguous"),
        (np.zeros(3, object), TypeError, "Python objects"),
        ([1, 2], TypeError, "list"),
    ],
)
def test_hosts_that_are_refused(host, error, message):
    memory = drv.mem_alloc(1000)
    with pytest.raises(error, match=message):
        drv.memcpy_htod(memory, host)
    with pytest.raises(error, match=message):
        drv.memcpy_dtoh(host, memory)


def test_read_only_destinations():
    memory = drv.mem_alloc(8)
    frozen = np.zeros(8, np.uint8)
    frozen.setflags(write=False)
    for host in (frozen, b"12345678"):
        with pytest.raises(ValueError, match="read-only"):
            drv.memcpy_dtoh(host, memory)
        drv.memcpy_htod(memory, host)


def test_copies_beyond_an_allocation():
    memory = drv.mem_alloc(16)
    for call in (
        lambda: drv.memcpy_htod(memory, np.zeros(3)),
        lambda: drv.memcpy_dtoh(np.zeros(3), memory),
        lambda: drv.memcpy_dtod(memory, drv.mem_alloc(100), 24),
        lambda: drv.memcpy_dtod(drv.mem_alloc(100), memory, 24),
    ):
        with pytest.raises(drv.LogicError, match="24 bytes begins at byte 0 of an allocation of 16 bytes"):
            call()
    with pytest.raises(drv.LogicError, match="8 bytes begins at byte 12 of an allocation of 16 bytes"):
        drv.memcpy_htod(memory + 12, np.zeros(1))
    with pytest.raises(drv.LogicError, match=r"a fill of 20 bytes .* 16 bytes"):
        drv.memset_d32(memory, 1, 5)


@pytest.mark.parametrize("flags", [0, 1])
def test_asynchronous_twins(flags):
    stream = drv.Stream(flags)
    a = drv.pagelocked_zeros(1000, np.float32)
    a[:] = np.arange(1000)
    b = drv.pagelocked_empty_like(a)
    first, second = drv.mem_alloc_like(a), drv.mem_alloc_like(a)
    drv.memcpy_htod_async(first, a, stream)
    drv.memcpy_dtod_async(second, first, a.nbytes, stream)
    drv.memcpy_dtoh_async(b, second, stream)
    stream.synchronize()
    assert (b == np.arange(1000)).all()
    drv.memset_d32_async(first, 7, 1000, stream)
    drv.memcpy_peer_async(second, first, a.nbytes, stream=stream)
    stream.synchronize()
    assert (drv.from_device(second, 1000, np.int32) == 7).all()
    drv.memcpy_peer(first, second, a.nbytes)
    with pytest.raises(TypeError, match="stream is a int"):
        drv.memcpy_htod_async(first, a, 5)


@pytest.mark.parametrize("item", [1, 2, 4])
@pytest.mark.parametrize("is_async", [False, True])
def test_fills(item, is_async):
    end, value = ("_async" if is_async else ""), (1 << 8 * item) - 3
    flat, rows = drv.mem_alloc(64), drv.mem_alloc(4 * 64)
    getattr(drv, f"memset_d{8 * item}{end}")(flat, value, 5)
    getattr(drv, f"memset_d2d{8 * item}{end}")(rows, 64, value, 3, 4)
    drv.Context.synchronize()
    dtype = np.dtype(f"u{item}")
    expected = np.zeros(64 // item, dtype)
    expected[:5] = value
    assert (drv.from_device(flat, expected.shape, dtype) == expected).all()
    expected = np.zeros((4, 64 // item), dtype)
    expected[:, :3] = value
    assert (drv.from_device(rows, expected.shape, dtype) == expected).all()
    getattr(drv, f"memset_d{8 * item}{end}")(flat, -1, 1)
    for misfit in (1 << 8 * item, -(1 << 8 * item - 1) - 1):
        with pytest.raises(OverflowError, match=f"{misfit}, which does not fit in {item} bytes"):
            getattr(drv, f"memset_d{8 * item}{end}")(flat, misfit, 1)


# ---- Rows and layers --------------------------------------------------------------------------------


@given(data=st.data())
def test_copies_of_rows_and_layers(engine, data):
    draw = data.draw
    depth, height, width = (draw(st.integers(1, most)) for most in (3, 5, 9))
    z, y, x = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(0, 3))
    whole = np.arange((depth + z) * (height + y) * (width + x), dtype=np.uint8)
    whole = whole.reshape(depth + z, height + y, width + x)
    memory, target = drv.to_device(whole), np.zeros((depth, height, width), np.uint8)
    copy = drv.Memcpy3D()
    copy.set_src_device(memory)
    copy.set_dst_host(target)
    copy.src_x_in_bytes, copy.src_y, copy.src_z = x, y, z
    copy.src_pitch, copy.src_height = width + x, height + y
    copy.width_in_bytes, copy.height, copy.depth = width, height, depth
    copy()
    assert (target == whole[z:, y:, x:]).all()
    rows = np.zeros((height, width), np.uint8)
    copy = drv.Memcpy2D()
    copy.set_src_device(memory)
    copy.set_dst_host(rows)
    copy.src_x_in_bytes, copy.src_y, copy.src_pitch = x, y, width + x
    copy.width_in_bytes, copy.height = width, height
    copy(aligned=True)
    assert (rows == whole[0, y:, x:]).all()


def test_rows_from_the_host_in_a_stream():
    a = np.arange(12, dtype=np.uint8).reshape(3, 4)
    memory, stream = drv.mem_alloc(3 * 32), drv.Stream()
    copy = drv.Memcpy2D()
    copy.set_src_host(a)
    copy.set_dst_device(memory)
    copy.dst_pitch, copy.width_in_bytes, copy.height = 32, 4, 3
    copy(stream)
    stream.synchronize()
    assert (drv.from_device(memory, (3, 32), np.uint8)[:, :4] == a).all()


def test_rows_that_do_not_fit():
    copy = drv.Memcpy2D()
    copy.width_in_bytes, copy.height = 8, 3
    memory, target = drv.mem_alloc(20), np.zeros(20, np.uint8)
    copy.set_src_device(memory)
    copy.set_dst_host(np.zeros(24, np.uint8))
    with pytest.raises(drv.LogicError, match="24 bytes begins at byte 0 of an allocation of 20 bytes"):
        copy(aligned=True)
    copy.set_src_device(drv.mem_alloc(24))
    copy.set_dst_host(target)
    with pytest.raises(drv.LogicError, match="bytes 0 to 24 of a dst_host of 20 bytes"):
        copy(aligned=True)
    copy.dst_x_in_bytes = -8
    with pytest.raises(drv.LogicError, match="bytes -8 to 16 of a dst_host of 20 bytes"):
        copy(aligned=True)
    assert not target.any()
    copy.dst_x_in_bytes = 0
    copy.set_dst_host(np.zeros(24, np.uint8))
    copy.src_pitch = 7
    with pytest.raises(drv.LogicError, match="pitch of 7 bytes is less than a row's 8"):
        copy(aligned=True)
    with pytest.raises(drv.LogicError, match="texture"):
        copy.set_src_array(None)


# ---- Host memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pagelocked", "aligned", "managed"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_host_arrays(kind, order):
    empty, zeros = getattr(drv, f"{kind}_empty"), getattr(drv, f"{kind}_zeros")
    a, b = empty((3, 4), np.float32, order), zeros((3, 4), np.float32, order)
    assert a.shape == b.shape == (3, 4)
    assert a.flags.f_contiguous == (order == "F")
    assert not b.any()
    a[:] = 5
    like = getattr(drv, f"{kind}_zeros_like")(a)
    assert like.dtype == np.float32
    assert like.flags.f_contiguous == (order == "F")
    assert not like.any()
    assert getattr(drv, f"{kind}_empty_like")(a).strides == a.strides
    memory = drv.to_device(a)
    drv.memcpy_dtoh(like, memory)
    assert (like == 5).all()
    view = a[1:]
    del a
    gc.collect()
    assert (view == 5).all()


@pytest.mark.parametrize("kind", ["pagelocked", "aligned", "managed"])
def test_host_arrays_that_are_refused(kind):
    empty = getattr(drv, f"{kind}_empty")
    with pytest.raises(TypeError, match="Python objects"):
        empty(3, object)
    with pytest.raises(ValueError, match="order"):
        empty(3, float, "K")
    with pytest.raises(ValueError, match="negative"):
        empty((3, -1), float)
    assert empty(0, float).shape == (0,)
    assert empty((), float).shape == ()


def test_alignment():
    for alignment in (64, 4096, 1 << 16):
        assert drv.aligned_empty(10, float, alignment=alignment).ctypes.data % alignment == 0
    with pytest.raises(ValueError, match="power of two"):
        drv.aligned_empty(10, float, alignment=24)


def test_registered_memory():
    a = drv.aligned_zeros(4096, np.float32)
    registered = drv.register_host_memory(a)
    registered[:] = 3
    assert (a == 3).all()
    memory, stream = drv.mem_alloc_like(a), drv.Stream()
    drv.memcpy_htod_async(memory, registered, stream)
    stream.synchronize()
    assert (drv.from_device_like(memory, a) == 3).all()
    registered.base.unregister()
    with pytest.raises(drv.LogicError, match="unregistered already"):
        registered.base.unregister()


@pytest.mark.parametrize("kind", ["pagelocked", "managed"])
def test_bases_of_host_arrays(engine, kind):
    """Kernels access the memory at the pointer that the base of an array has."""
    source = "__global__ void count(int *x) { x[threadIdx.x] = threadIdx.x; }"
    count = SourceModule(source).get_function("count")
    a = getattr(drv, f"{kind}_empty")((2, 5), np.int32, mem_flags=drv.host_alloc_flags.DEVICEMAP)
    assert a.flags.c_contiguous
    count(np.intp(a.base.get_device_pointer()), block=(10, 1, 1))
    drv.Context.synchronize()
    np.testing.assert_array_equal(a, np.arange(10).reshape(2, 5))
    transposed = getattr(drv, f"{kind}_zeros")((3, 2), np.float32, order="F")
    assert transposed.flags.f_contiguous
    assert transposed.base.get_device_pointer() == transposed.ctypes.data
    points = getattr(drv, f"{kind}_zeros")(3, [("x", np.int32), ("y", np.float64)])
    assert points.dtype.names == ("x", "y")
    if kind == "managed":
        count(a, block=(10, 1, 1))
    else:
        with pytest.raises(TypeError, match=r"In\(array\)"):
            count(a, block=(10, 1, 1))
    a.base.free()
    with pytest.raises(drv.LogicError, match="freed already"):
        a.base.free()


def test_buffers_over_memory(engine):
    if engine != "cpu":
        pytest.skip("the host cannot access a GPU's memory")
    memory = drv.to_device(np.arange(10, dtype=np.uint8))
    buffer = memory.as_buffer(5, 2)
    assert bytes(buffer) == bytes([2, 3, 4, 5, 6])
