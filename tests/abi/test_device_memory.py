"""pk_device_memory_*: allocations, copies and fills, and refused calls."""

import ctypes
import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycudakit import errors
from pycudakit._native import abi_objects, loader

GUARD = 64 << 10
FROM, TO = abi_objects.COPY_FROM_DEVICE, abi_objects.COPY_TO_DEVICE


@pytest.fixture
def library(engine):
    return loader.library(engine)


def allocate(library, size, flags=abi_objects.MEMORY_ZEROS):
    address = ctypes.c_uint64()
    library.pk_device_memory_allocate(0, size, flags, ctypes.byref(address))
    return address.value


def copy_table(**fields):
    table = np.zeros(1, abi_objects.COPY)
    table["rows"] = table["layers"] = 1
    for name, value in fields.items():
        table[name] = value
    return table


def copy(library, stream=0, synchronous=1, **fields):
    library.pk_device_memory_copy(copy_table(**fields), 1, 0, stream, synchronous)


def upload(library, address, array, **keywords):
    copy(library, destination=address, source=array.ctypes.data, width=array.nbytes, flags=TO, **keywords)


def download(library, address, size):
    array = np.full(size, 0xEE, np.uint8)
    copy(library, destination=array.ctypes.data, source=address, width=size, flags=FROM)
    return array


def info(library):
    free, total = ctypes.c_int64(), ctypes.c_int64()
    library.pk_device_memory_info(0, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def find(library, address):
    begin, size, device = ctypes.c_uint64(), ctypes.c_int64(), ctypes.c_int64(-1)
    library.pk_device_memory_find(address, ctypes.byref(begin), ctypes.byref(size), ctypes.byref(device))
    return begin.value, size.value, device.value


@pytest.mark.smoke
@pytest.mark.parametrize("size", [1, 255, 4096, 70_000, 5 << 20])
def test_memory_begins_as_zeros_again_and_again(library, size):
    for _ in range(3):
        address = allocate(library, size)
        assert address % 256 == 0
        assert not download(library, address, size).any()
        upload(library, address, np.full(size, 7, np.uint8))
        assert (download(library, address, size) == 7).all()
        library.pk_device_memory_free(address)


def test_allocations_do_not_overlap_and_are_found(library):
    sizes = [1, 100, 4096, 4097, 1 << 20, 3, 256]
    addresses = [allocate(library, size) for size in sizes]
    ranges = sorted(zip(addresses, sizes, strict=True))
    for (begin, size), (following, _) in itertools.pairwise(ranges):
        assert begin + size <= following
    for address, size in ranges:
        assert find(library, address) == (address, size, 0)
        assert find(library, address + size - 1) == (address, size, 0)
    for address in addresses:
        library.pk_device_memory_free(address)


def test_the_bytes_behind_an_allocation_belong_to_nobody(library, engine):
    if engine != "cpu":
        pytest.skip("CUDA decides about the memory behind an allocation")
    addresses = sorted(allocate(library, 1000) for _ in range(8))
    for address, following in itertools.pairwise(addresses):
        assert following - (address + 1000) >= GUARD
    ctypes.memset(addresses[0] + 1000, 1, GUARD)  # an overrun, which does no harm
    assert not download(library, addresses[1], 1000).any()
    for address in addresses:
        library.pk_device_memory_free(address)


def test_freed_memory_is_refused(library):
    address = allocate(library, 1000)
    library.pk_device_memory_free(address)
    with pytest.raises(errors.InvalidArgument, match=r"freed"):
        library.pk_device_memory_free(address)
    with pytest.raises(errors.InvalidArgument, match=r"freed"):
        download(library, address, 10)
    with pytest.raises(errors.InvalidArgument, match=r"freed"):
        library.pk_device_memory_fill(address, 0, 1, 1, 10, 1, 0, 0)
    with pytest.raises(errors.InvalidArgument, match="no allocation"):
        library.pk_device_memory_free(123456)


@pytest.mark.parametrize("size", [0, -1, -(2**62)])
def test_no_bytes(library, size):
    with pytest.raises(errors.InvalidArgument, match=rf"at least 1 byte, and {size} "):
        allocate(library, size)


def test_too_many_bytes(library):
    with pytest.raises(errors.OutOfMemory, match=str(1 << 50)):
        allocate(library, 1 << 50)


def test_unknown_flags_and_devices(library):
    for arguments in ((0, 8, 4), (-1, 8, 0), (1000, 8, 0)):
        address = ctypes.c_uint64(7)
        with pytest.raises(errors.InvalidArgument, match=r"flags|device"):
            library.pk_device_memory_allocate(*arguments, ctypes.byref(address))
        assert address.value == 7


def test_null_pointers(library):
    for name, arguments in (
        ("allocate", (0, 8, 0, None)),
        ("find", (0, None, None, None)),
        ("info", (0, None, None)),
    ):
        with pytest.raises(errors.InvalidArgument, match="null pointer"):
            getattr(library, f"pk_device_memory_{name}")(*arguments)
    with pytest.raises(errors.InvalidArgument, match="null pointer"):
        copy(library, destination=0, source=0, width=8, flags=0)
    with pytest.raises(errors.InvalidArgument, match="null pointer"):
        library.pk_device_memory_fill(0, 0, 1, 1, 8, 1, 0, 0)


def test_info(library):
    free, total = info(library)
    assert 0 < free <= total


# ---- Copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "size"), [(0, 1001), (1000, 1), (999, 2)])
def test_copies_beyond_an_allocation(library, offset, size):
    address = allocate(library, 1000)
    array = np.full(size, 0x55, np.uint8)
    message = f"a copy of {size} bytes begins at byte {offset} of an allocation of 1000 bytes"
    for flags, ends in ((TO, ("destination", "source")), (FROM, ("source", "destination"))):
        device, host = ends
        fields = {device: address + offset, host: array.ctypes.data}
        with pytest.raises(errors.InvalidArgument, match=message):
            copy(library, width=size, flags=flags, **fields)
    assert (array == 0x55).all()
    assert not download(library, address, 1000).any()
    library.pk_device_memory_free(address)


def test_nothing_is_copied_if_one_of_several_copies_is_wrong(library):
    address = allocate(library, 64)
    array = np.ones(64, np.uint8)
    table = np.concatenate(
        [
            copy_table(destination=address, source=array.ctypes.data, width=64, flags=TO),
            copy_table(destination=address, source=array.ctypes.data, width=65, flags=TO),
        ]
    )
    with pytest.raises(errors.InvalidArgument, match="65 bytes"):
        library.pk_device_memory_copy(table, 2, 0, 0, 1)
    assert not download(library, address, 64).any()
    library.pk_device_memory_copy(table[:1].copy(), 1, 0, 0, 1)
    assert download(library, address, 64).all()
    library.pk_device_memory_free(address)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": -1}, "negative"),
        ({"rows": -1}, "negative"),
        ({"layers": -1}, "negative"),
        ({"rows": 2, "source_pitch": 7, "destination_pitch": 8}, "pitch of 7 bytes is less than a row's 8"),
        (
            {"layers": 2, "source_pitch": 8, "destination_pitch": 8, "source_height": 0},
            "height of 0 rows is less than a layer's 1",
        ),
        ({"flags": 4}, "flags"),
        ({"rows": 2, "source_pitch": 2**62, "destination_pitch": 2**62}, "spans more bytes"),
        ({"rows": 2**62}, "spans more bytes"),
    ],
)
def test_wrong_tables(library, fields, message):
    array = np.zeros(64, np.uint8)
    base = {"destination": array.ctypes.data, "source": array.ctypes.data + 32, "width": 8}
    with pytest.raises(errors.InvalidArgument, match=message):
        copy(library, **{**base, **fields})


@given(data=st.data())
def test_rows_and_layers(engine, data):
    library = loader.library(engine)
    draw = data.draw
    layers, rows, width = (draw(st.integers(1, most)) for most in (3, 4, 9))
    size, shapes = [], []
    for _ in range(2):
        height, pitch = draw(st.integers(rows, rows + 2)), draw(st.integers(width, width + 5))
        shapes.append((layers, height, pitch))
        size.append(layers * height * pitch)
    source = np.arange(size[0], dtype=np.uint8).reshape(shapes[0])
    there, back = allocate(library, size[0]), np.full(shapes[1], 0xAA, np.uint8)
    upload(library, there, source.reshape(-1))
    copy(
        library,
        destination=back.ctypes.data,
        source=there,
        destination_pitch=shapes[1][2],
        source_pitch=shapes[0][2],
        destination_height=shapes[1][1],
        source_height=shapes[0][1],
        width=width,
        rows=rows,
        layers=layers,
        flags=FROM,
    )
    expected = np.full(shapes[1], 0xAA, np.uint8)
    expected[:, :rows, :width] = source[:, :rows, :width]
    assert (back == expected).all()
    library.pk_device_memory_free(there)


@pytest.mark.parametrize("size", [1, 1000, (1 << 20) - 1, 1 << 20, (9 << 20) + 5])
def test_copies_of_every_direction(library, size):
    array = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    first, second = allocate(library, size), allocate(library, size)
    upload(library, first, array)
    copy(library, destination=second, source=first, width=size, flags=FROM | TO)
    assert (download(library, second, size) == array).all()
    for address in (first, second):
        library.pk_device_memory_free(address)


def test_a_copy_of_nothing(library):
    library.pk_device_memory_copy(copy_table(destination=0, source=0, width=0), 1, 0, 0, 1)
    library.pk_device_memory_copy(np.zeros(0, abi_objects.COPY), 0, 0, 0, 1)
    with pytest.raises(errors.InvalidArgument, match="count"):
        library.pk_device_memory_copy(copy_table(), -1, 0, 0, 1)


# ---- Fills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("item", "value"), [(1, 0xAB), (2, 0xABCD), (4, 0xABCDEF01)])
@pytest.mark.parametrize("rows", [1, 3])
def test_fills(library, item, value, rows):
    pitch, width = 64, 9
    address = allocate(library, pitch * rows)
    library.pk_device_memory_fill(address, pitch, value, item, width, rows, 0, 0)
    expected = np.zeros((rows, pitch // item), f"u{item}")
    expected[:, :width] = value
    assert (download(library, address, pitch * rows) == expected.view(np.uint8).reshape(-1)).all()
    library.pk_device_memory_free(address)


def test_fills_that_are_refused(library):
    address = allocate(library, 64)
    for arguments, message in (
        ((address, 0, 1, 3, 8, 1), "1, 2 or 4 bytes"),
        ((address + 1, 0, 1, 2, 8, 1), "multiple"),
        ((address, 0, 1, 4, 17, 1), "a fill of 68 bytes begins at byte 0 of an allocation of 64 bytes"),
        ((address, 32, 1, 1, 32, 3), "a fill of 96 bytes"),
        ((address, 4, 1, 1, 8, 2), "pitch of 4"),
        ((address, 0, 1, 1, -1, 1), "negative"),
    ):
        with pytest.raises(errors.InvalidArgument, match=message):
            library.pk_device_memory_fill(*arguments, 0, 0)
    assert not download(library, address, 64).any()
    library.pk_device_memory_free(address)


# ---- Threads and other memory -----------------------------------------------------------------------


@pytest.mark.alone  # others at work on the GPU change its free memory
def test_allocations_of_several_threads(library):
    before = info(library)[0]
    failures = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(2000):
            address = allocate(library, int(generator.integers(1, 20_000)))
            if address % 256:
                failures.append(address)
            library.pk_device_memory_free(address)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert before - info(library)[0] <= 512 << 20  # the pool keeps 256 MiB, and other threads have slots


def test_managed_memory_is_the_hosts_too(library):
    address = allocate(library, 100, abi_objects.MEMORY_ZEROS | abi_objects.MEMORY_MANAGED)
    array = np.frombuffer((ctypes.c_uint8 * 100).from_address(address), np.uint8)
    assert not array.any()
    upload(library, address, np.arange(100, dtype=np.uint8))
    assert (array == np.arange(100)).all()
    library.pk_device_memory_free(address)


def test_registered_host_memory(library):
    memory = np.zeros(8192, np.uint8)
    begin = memory.ctypes.data
    library.pk_host_memory_register(begin, 4096)
    library.pk_host_memory_unregister(begin)
    with pytest.raises(errors.Error):
        library.pk_host_memory_unregister(begin)
    with pytest.raises(errors.InvalidArgument, match="no bytes"):
        library.pk_host_memory_register(begin, 0)
