"""The header, the table of signatures and the libraries' symbols agree; each status has its exception."""

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi, abi_objects, loader
from pycudakit._runtime import call_log

LIBRARIES = [name for name in ("cpu", "cuda") if loader.find(name)]


@pytest.fixture(params=[name for name in LIBRARIES if pk.engines()[name].available])
def library(request):
    """The library object that calls from Python use."""
    return loader.library(request.param)


# ---- The header -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def header():
    root = Path(os.environ.get("PYCUDAKIT_SOURCE", Path(__file__).parents[2]))
    path = root / "csrc" / "pycudakit.h"
    if not path.is_file():
        pytest.skip(f"no source tree: {path} is not there; PYCUDAKIT_SOURCE can name one")
    return expanded(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))


def expanded(text):
    """Expand the header's macros that declare functions for a type: NAME(t, T)."""
    for name, body in re.findall(r"#define (\w+)\(t, T\)((?:[^\n]*\\\n)+[^\n]*\n)", text):
        text = text.replace(f"#define {name}(t, T){body}", "")
        declarations = re.sub(r"\s+", " ", body.replace("\\\n", " "))
        for use, t, kind in re.findall(rf"^({name}\((\w+), (\w+)\))$", text, re.MULTILINE):
            declared = re.sub(r"\bT\b", kind, declarations.replace("##t", t))
            text = text.replace(use + "\n", declared + "\n", 1)
    return text


_STRUCTS = {
    "pk_device": abi.DEVICE,
    "pk_link": abi.LINK,
    "pk_memory": abi.MEMORY,
    "pk_tuning": abi.TUNING,
    "pk_progress": abi.PROGRESS,
    "pk_range": abi.RANGE,
    "pk_rest": abi.REST,
    "pk_span": abi.SPAN,
    "pk_options": abi.OPTIONS,
    "pk_operation": abi.OPERATION,
    "pk_instruction": abi.INSTRUCTION,
    "pk_operand": abi.OPERAND,
    "pk_report": abi.REPORT,
    "pk_bins": abi.BINS,
    "pk_draws": abi.DRAWS,
    "pk_reduction": abi.REDUCTION,
    "pk_block_program": abi.BLOCK_PROGRAM,
    "pk_request": abi.REQUEST,
    "pk_binding": abi.BINDING,
    "pk_stop": abi.STOP,
    "pk_window": abi.WINDOW,
    "pk_image": abi.IMAGE,
    "pk_kernel": abi.USER_KERNEL,
    "pk_buffer": abi.BUFFER,
    "pk_symbol": abi.SYMBOL,
    "pk_argument": abi.ARGUMENT,
    "pk_step": abi.STEP,
    "pk_run": abi.RUN,
    "pk_kernel_limits": abi.LIMITS,
    "pk_copy": abi_objects.COPY,
    "pk_parameter": abi_objects.PARAMETER,
    "pk_launch": abi_objects.LAUNCH,
}
_NUMBERS = {
    f"{sign}int{bits}_t": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_NUMBERS |= {"float": np.dtype("float32"), "double": np.dtype("float64")}
_CTYPES = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
    "pk_residency_body": abi.RESIDENCY_BODY,
}


def test_functions(header):
    declared = dict(re.findall(r"PK_API int32_t (pk_\w+)\(([^)]*)\);", header))
    assert declared.keys() == abi.SIGNATURES.keys()
    assert len(re.findall(r"\bPK_API\b(?!\s*(?:__attribute__|\n))", header)) == len(declared)
    for name, text in declared.items():
        arguments = [] if text == "void" else [a.strip() for a in text.split(",")]
        assert len(arguments) == len(abi.SIGNATURES[name]), name
        for argument, ctype in zip(arguments, abi.SIGNATURES[name], strict=True):
            check_argument(f"{name}({argument})", argument, ctype)


def check_argument(context, argument, ctype):
    const, base, stars = re.fullmatch(r"(const )?(\w+) (\**)\w+", argument).groups()
    if not stars:
        assert _CTYPES[base] is ctype, context
    elif base == "void":
        assert ctype is ctypes.c_void_p, context
    elif hasattr(ctype, "_dtype_"):
        assert ctype._dtype_ == (_STRUCTS[base] if base in _STRUCTS else _NUMBERS[base]), context
        flags = np.zeros(1).flags
        wanted = flags.c_contiguous and 0x0001 | (0 if const else 0x0400)
        assert ctype._flags_ == wanted, context
    elif stars == "**":
        assert base == "char", context
        assert ctype == ctypes.POINTER(ctypes.c_char_p), context
    else:
        assert not const, context
        assert ctype == ctypes.POINTER(_CTYPES[base]), context


def test_structs(header):
    constants = dict(re.findall(r"(PK_\w+) = (\d+)", header))
    bodies = dict(re.findall(r"typedef struct (pk_\w+) \{(.*?)\} \1;", header, re.DOTALL))
    assert bodies.keys() == _STRUCTS.keys()
    for name, body in bodies.items():
        offset, alignment, fields = 0, 1, {}
        for base, field, _, count in re.findall(r"(\w+) (\w+)(\[(\w+)\])?;", body):
            item = 1 if base == "char" else (_STRUCTS.get(base) or _NUMBERS[base]).itemsize
            aligned = 8 if base in _STRUCTS else item
            offset = -(-offset // aligned) * aligned
            size = item * int(constants.get(count, count or 1))
            fields[field] = (offset, size)
            offset, alignment = offset + size, max(alignment, aligned)
        dtype = _STRUCTS[name]
        assert {f: (o, d.itemsize) for f, (d, o) in dtype.fields.items()} == fields, name
        assert dtype.itemsize == -(-offset // alignment) * alignment, name


def test_constants(header):
    constants = {name: int(value) for name, value in re.findall(r"(PK_\w+) = (\d+)", header)}
    constants["PK_ABI_VERSION"] = int(re.search(r"#define PK_ABI_VERSION (\d+)", header).group(1))
    ours = [
        *("ABI_VERSION", "MAX_DIMS", "MAX_OPERANDS", "MAX_INSTRUCTIONS", "MAX_RANGES", "NAME_SIZE"),
        *(
            "BUFFER_UPLOAD",
            "BUFFER_DOWNLOAD",
            "BUFFER_POISON",
            "BUFFER_CONSTANT",
            "BUFFER_POISON_BYTE",
        ),
        "MAX_PARAMETERS",
        *("MAX_REDUCTIONS", "OPERAND_IN_SCRATCH"),
        *("MAX_REQUEST_ARGUMENTS", "MAX_LOOP_OPERANDS"),
        *(name for name in vars(abi) if name.startswith("REQUEST_")),
        *("STOP_IF_FALSE", "STOP_IF_TRUE", "STOP_IF_NOT_FINITE"),
        *(
            "STAGE_STAGE",
            "STAGE_UPLOAD",
            "STAGE_KERNEL",
            "STAGE_DOWNLOAD",
            "STAGE_UNSTAGE",
            "STAGE_COMPUTE",
            "STAGE_COUNT",
            "OP_LOAD",
            "OP_STORE",
            "OP_CAST",
        ),
        *(
            "OP_FIRST",
            "OPERAND_BYTE_SWAPPED",
            "ON_DEVICE",
            "STREAM_LEGACY",
            "STREAM_PER_THREAD",
            "FPE_DIVIDE_BY_ZERO",
            "FPE_OVERFLOW",
            "FPE_INVALID",
            "FPE_NEGATIVE_POWER",
        ),
        *(
            "REDUCE_SUM",
            "REDUCE_PROD",
            "REDUCE_MIN",
            "REDUCE_MAX",
            "REDUCE_ARGMIN",
            "REDUCE_ARGMAX",
            "REDUCE_PTP",
            "REDUCE_DOT",
            "REDUCE_SUM_SQUARED_DEVIATIONS",
        ),
        *("FINALIZE_NONE", "FINALIZE_MEAN", "FINALIZE_NORM", "FINALIZE_VAR", "FINALIZE_STD"),
        *(
            "RESIDENT_INPUT",
            "RESIDENT_TEMPORARY",
            "RESIDENT_OUTPUT",
            "IMPORT_HOST_VALID",
            "IMPORT_DEVICE_VALID",
        ),
        *("TAKE_BATCHED_INDICES", "TAKE_INDICES_IN_BOUNDS"),
        *("BINS_INDEX", "BINS_EDGES", "BINS_UNIFORM"),
        *("SCAN_SUM", "SCAN_PROD", "SCAN_MAX", "SCAN_MIN", "SCAN_EXCLUSIVE", "SCAN_SKIP_NAN"),
        *("RESIZE_NEAREST", "RESIZE_BILINEAR", "RESIZE_AREA"),
        *("RANDOM_BITS", "RANDOM_UNIFORM", "RANDOM_NORMAL", "RANDOM_EXPONENTIAL", "RANDOM_INTEGERS"),
        *("RANDOM_POISSON", "RANDOM_BINOMIAL", "RANDOM_LOGNORMAL", "RANDOM_GAMMA", "RANDOM_BETA"),
        *("RANDOM_GEOMETRIC", "RANDOM_COUNT"),
        *(
            "FILTER_CORRELATE",
            "FILTER_SEPARABLE",
            "FILTER_BOX",
            "FILTER_MINIMUM",
            "FILTER_MAXIMUM",
            "FILTER_MEDIAN",
        ),
        *(
            "BORDER_REFLECT",
            "BORDER_NEAREST",
            "BORDER_MIRROR",
            "BORDER_WRAP",
            "BORDER_CONSTANT",
            "BORDER_SHRINK",
        ),
        *("UNIQUE_INDEX", "UNIQUE_INVERSE", "UNIQUE_COUNTS", "UNIQUE_EQUAL_NAN"),
        *(
            "MATMUL_TRANSPOSE_A",
            "MATMUL_TRANSPOSE_B",
            "PRECISION_HIGHEST",
            "PRECISION_EXACT",
            "PRECISION_TF32",
            "PRECISION_BF16",
        ),
        *("MATMUL_BY_LOOPS", "MATMUL_BY_KERNEL", "MATMUL_BY_CUBLAS", "MATMUL_BY_CUBLAS_SPLIT"),
    ]
    for name in ours:
        assert getattr(abi, name) == constants.pop(f"PK_{name}"), name
    of_objects = (
        *("MEMORY_ZEROS", "MEMORY_MANAGED", "COPY_FROM_DEVICE", "COPY_TO_DEVICE"),
        *("STREAM_NON_BLOCKING", "EVENT_BLOCKING_SYNC", "EVENT_DISABLE_TIMING"),
    )
    for name in of_objects:
        assert getattr(abi_objects, name) == constants.pop(f"PK_{name}"), name
    assert tuple(f"STAGE_{name.upper()}" for name in call_log.STAGES) == (
        *("STAGE_STAGE", "STAGE_UPLOAD", "STAGE_KERNEL", "STAGE_DOWNLOAD", "STAGE_UNSTAGE", "STAGE_COMPUTE"),
    )
    assert constants.pop("PK_TYPE_COUNT") == len(abi.TYPES)
    assert constants.pop("PK_REDUCE_COUNT") == abi.REDUCE_SUM_SQUARED_DEVIATIONS + 1
    for code, dtype in enumerate(abi.TYPES):
        assert constants.pop(f"PK_{dtype.name.upper()}") == code
    assert constants.pop("PK_OK") == 0
    for code, error in errors.BY_STATUS.items():
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).upper()
        assert constants.pop(f"PK_{name}") == code
    assert not constants


def test_operations(header, library):
    root = Path(os.environ.get("PYCUDAKIT_SOURCE", Path(__file__).parents[2]))
    listed = re.findall(r"^PK_OP([123])\((\w+), ", (root / "csrc" / "ops.def").read_text(), re.MULTILINE)
    count = ctypes.c_int64()
    library.pk_operation_count(ctypes.byref(count))
    info = np.zeros(1, abi.OPERATION)
    found = []
    for index in range(count.value):
        library.pk_operation_info(index, info)
        found.append((str(info["arity"][0]), info["name"][0].decode()))
        assert 0 < info["types"][0] < 1 << len(abi.TYPES)
        assert info["returns_bool"][0] in (0, 1)
        assert info["quiet"][0] in (0, 1)
    assert found == listed
    assert len(set(found)) == len(found)


# ---- The libraries ----------------------------------------------------------------------------------


def exported(path):
    """Return the symbols that an ELF library exports."""
    if shutil.which("nm"):
        text = subprocess.run(
            ["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True
        ).stdout
        return {line.split()[-1] for line in text.splitlines()}
    data = Path(path).read_bytes()
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == 11:
            strings = sections[link][4]
            for at in range(offset, offset + size, 24):
                name, info, _, section = struct.unpack_from("<IBBH", data, at)
                if section and info >> 4 in (1, 2):
                    names.add(data[strings + name : data.index(b"\0", strings + name)].decode())
    return names


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
@pytest.mark.parametrize("name", LIBRARIES)
def test_symbols(name):
    if pk.build_info()[name]["sanitizers"]:
        pytest.skip("sanitizers export symbols of their own")
    assert exported(loader.find(name)) == set(abi.SIGNATURES)


def test_elf_reader_agrees_with_nm(monkeypatch):
    if sys.platform != "linux" or not shutil.which("nm"):
        pytest.skip("needs nm")
    path = loader.find(LIBRARIES[0])
    by_nm = exported(path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert exported(path) == by_nm


def test_abi_version_is_checked():
    code = """if True:
        from pycudakit._native import abi
        abi.ABI_VERSION += 1
        import pycudakit as pk
        status = pk.engines()["cpu"]
        assert not status.available
        print(status.reason)
        with pk.engine("cpu"):
            try:
                pk.add([1.0], 1.0)
            except pk.errors.NoDevice as error:
                print(error)
    """
    lines = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(lines) == 2
    version = abi.ABI_VERSION
    for line in lines:
        assert f"speaks version {version} of the ABI and this pycudakit {version + 1}" in line


@pytest.mark.parametrize("status", sorted(errors.BY_STATUS))
def test_every_status_has_its_exception(library, status):
    with pytest.raises(errors.BY_STATUS[status]) as caught:
        library.pk_fail(status)
    assert type(caught.value) is errors.BY_STATUS[status]
    assert str(status) in str(caught.value) or status == 2
    assert "memory" in str(caught.value) or status != 2


def test_errors_are_also_pythons():
    assert issubclass(errors.InvalidArgument, ValueError)
    assert issubclass(errors.OutOfMemory, MemoryError)
    assert issubclass(errors.Unsupported, TypeError)
    assert all(issubclass(error, errors.Error) for error in errors.BY_STATUS.values())


@pytest.mark.parametrize("status", [0, -1, 9, 2**31 - 1])
def test_fail_refuses_other_statuses(library, status):
    with pytest.raises(errors.InvalidArgument, match="status"):
        library.pk_fail(status)


def test_messages_belong_to_threads(raw):
    def message():
        text = ctypes.c_char_p()
        assert raw.pk_last_error(ctypes.byref(text)) == 0
        return text.value.decode()

    assert raw.pk_fail(4) == 4
    seen = []

    def other():
        seen.append(message())
        raw.pk_fail(6)
        seen.append(message())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen[0] == ""
    assert "6" in seen[1]
    assert "4" in message()


def test_null_and_out_of_range(raw):
    for name in (
        "abi_version",
        "last_error",
        "build_info",
        "thread_count",
        "instruction_set",
        "device_count",
        "memory_info",
        "tuning_count",
    ):
        assert getattr(raw, f"pk_{name}")(None) == 1, name
    assert raw.pk_operation_count(None) == 1
    count = ctypes.c_int64(-7)
    assert raw.pk_operation_count(ctypes.byref(count)) == 0
    assert raw.pk_pinned_take(ctypes.c_int64(8), None) == 1
    for function, dtype in (
        (raw.pk_operation_info, abi.OPERATION),
        (raw.pk_device_info, abi.DEVICE),
        (raw.pk_link_speed, abi.LINK),
        (raw.pk_tuning_info, abi.TUNING),
    ):
        space = np.full(dtype.itemsize, 0xAA, np.uint8)
        assert function(ctypes.c_int64(0), None) == 1
        for index in (-1, count.value if dtype is abi.OPERATION else 1000, 2**62, -(2**63)):
            assert function(ctypes.c_int64(index), ctypes.c_void_p(space.ctypes.data)) == 1, index
        assert (space == 0xAA).all()
    for index in (-1, 1000, 2**62, -(2**63)):
        assert raw.pk_tune(ctypes.c_int64(index), ctypes.c_int64(1)) == 1


@pytest.mark.parametrize("size", [0, -1, -(2**63), 2**62])
def test_memory_that_cannot_be_taken(raw, size):
    address = ctypes.c_uint64(7)
    assert raw.pk_pinned_take(ctypes.c_int64(size), ctypes.byref(address)) == (2 if size > 0 else 1)
    assert address.value == 7


def test_pointers_are_strict(library):
    evaluate = library.pk_evaluate
    good = [
        *(np.zeros(1, abi.INSTRUCTION), 1, np.zeros(1, abi.OPERAND), 1, np.zeros(1, np.int64), 1),
        *(np.zeros(1, abi.OPTIONS), np.zeros(1, np.uint8), np.zeros(1, abi.REPORT)),
    ]
    readonly = np.zeros(1, np.uint8)
    readonly.flags.writeable = False
    report = np.zeros(1, abi.REPORT)
    report.flags.writeable = False
    bad = [
        (0, np.zeros(16, np.uint8)), (0, None), (0, 0), (0, [1]),
        (0, np.zeros(4, abi.INSTRUCTION)[::2]), (1, "1"), (1, 1.5), (2, np.zeros(1, abi.INSTRUCTION)),
        (4, np.zeros(1, np.int32)), (4, np.zeros(1, ">i8")), (4, np.zeros(4, np.int64)[::2]),
        (6, None), (6, np.zeros(1, abi.REPORT)), (6, np.zeros(4, abi.OPTIONS)[::2]), (6, 0),
        (7, np.zeros(1, np.int8)), (7, readonly), (7, np.zeros(4, np.uint8)[::2]), (8, report), (8, readonly),
    ]  # fmt: skip
    for position, value in bad:
        arguments = [*good]
        arguments[position] = value
        with pytest.raises((ctypes.ArgumentError, TypeError)):
            evaluate(*arguments)
