"""PyCUDA's enumerations, with CUDA's numbers."""

from __future__ import annotations

import enum


class Enumeration(enum.IntEnum):
    """An enumeration whose members print as their names."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Return the name, with that of the enumeration."""
        return f"pycuda.driver.{type(self).__name__}.{self.name}"


class ipc_mem_flags(Enumeration):  # noqa: N801
    """Flags of memory shared between processes."""

    LAZY_ENABLE_PEER_ACCESS = 1


class ctx_flags(Enumeration):  # noqa: N801
    """Flags of a context."""

    SCHED_AUTO = 0
    SCHED_SPIN = 1
    SCHED_YIELD = 2
    SCHED_MASK = 7
    BLOCKING_SYNC = 4
    SCHED_BLOCKING_SYNC = 4
    MAP_HOST = 8
    LMEM_RESIZE_TO_MAX = 16
    FLAGS_MASK = 255


class event_flags(Enumeration):  # noqa: N801
    """Flags of an event."""

    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2
    INTERPROCESS = 4


class array_format(Enumeration):  # noqa: N801
    """The formats of an array."""

    UNSIGNED_INT8 = 1
    UNSIGNED_INT16 = 2
    UNSIGNED_INT32 = 3
    SIGNED_INT8 = 8
    SIGNED_INT16 = 9
    SIGNED_INT32 = 10
    HALF = 16
    FLOAT = 32


class address_mode(Enumeration):  # noqa: N801
    """How a texture reads beyond its borders."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class filter_mode(Enumeration):  # noqa: N801
    """How a texture is interpolated."""

    POINT = 0
    LINEAR = 1


class pointer_attribute(Enumeration):  # noqa: N801
    """Attributes of a pointer."""

    CONTEXT = 1
    MEMORY_TYPE = 2
    DEVICE_POINTER = 3
    HOST_POINTER = 4


class profiler_output_mode(Enumeration):  # noqa: N801
    """The formats of the profiler's output."""

    KEY_VALUE_PAIR = 0
    CSV = 1


class func_cache(Enumeration):  # noqa: N801
    """Preferences between cache and shared memory."""

    PREFER_NONE = 0
    PREFER_SHARED = 1
    PREFER_L1 = 2
    PREFER_EQUAL = 3


class shared_config(Enumeration):  # noqa: N801
    """The width of the banks of shared memory."""

    DEFAULT_BANK_SIZE = 0
    FOUR_BYTE_BANK_SIZE = 1
    EIGHT_BYTE_BANK_SIZE = 2


class function_attribute(Enumeration):  # noqa: N801
    """Attributes of a kernel."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    CONST_SIZE_BYTES = 2
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    PTX_VERSION = 5
    BINARY_VERSION = 6
    CACHE_MODE_CA = 7
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    MAX = 17


class memory_type(Enumeration):  # noqa: N801
    """The kinds of memory."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


class compute_mode(Enumeration):  # noqa: N801
    """Which processes may use a device."""

    DEFAULT = 0
    EXCLUSIVE = 1
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class jit_option(Enumeration):  # noqa: N801
    """Options of the linker and the PTX compiler."""

    MAX_REGISTERS = 0
    THREADS_PER_BLOCK = 1
    WALL_TIME = 2
    INFO_LOG_BUFFER = 3
    INFO_LOG_BUFFER_SIZE_BYTES = 4
    ERROR_LOG_BUFFER = 5
    ERROR_LOG_BUFFER_SIZE_BYTES = 6
    OPTIMIZATION_LEVEL = 7
    TARGET_FROM_CUCONTEXT = 8
    TARGET = 9
    FALLBACK_STRATEGY = 10


class jit_target(Enumeration):  # noqa: N801
    """Targets of the PTX compiler."""

    COMPUTE_10 = 10
    COMPUTE_11 = 11
    COMPUTE_12 = 12
    COMPUTE_13 = 13
    COMPUTE_20 = 20
    COMPUTE_21 = 21
    COMPUTE_30 = 30
    COMPUTE_32 = 32
    COMPUTE_35 = 35
    COMPUTE_37 = 37
    COMPUTE_50 = 50
    COMPUTE_52 = 52
    COMPUTE_53 = 53
    COMPUTE_60 = 60
    COMPUTE_61 = 61
    COMPUTE_62 = 62
    COMPUTE_70 = 70
    COMPUTE_72 = 72
    COMPUTE_75 = 75
    COMPUTE_80 = 80
    COMPUTE_86 = 86
    COMPUTE_90 = 90
    COMPUTE_90A = 65626


class jit_fallback(Enumeration):  # noqa: N801
    """The driver's behaviour without matching code."""

    PREFER_PTX = 0
    PREFER_BINARY = 1


class limit(Enumeration):  # noqa: N801
    """Limits of a context."""

    STACK_SIZE = 0
    PRINTF_FIFO_SIZE = 1
    MALLOC_HEAP_SIZE = 2
    DEV_RUNTIME_SYNC_DEPTH = 3
    DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4


class mem_attach_flags(Enumeration):  # noqa: N801
    """Which streams may access managed memory."""

    GLOBAL = 1
    HOST = 2
    SINGLE = 4


class graphics_register_flags(Enumeration):  # noqa: N801
    """Flags of a graphics resource."""

    NONE = 0
    READ_ONLY = 1
    WRITE_DISCARD = 2
    SURFACE_LDST = 4
    TEXTURE_GATHER = 8


class array_cubemap_face(Enumeration):  # noqa: N801
    """The faces of a cube map."""

    POSITIVE_X = 0
    NEGATIVE_X = 1
    POSITIVE_Y = 2
    NEGATIVE_Y = 3
    POSITIVE_Z = 4
    NEGATIVE_Z = 5


class jit_input_type(Enumeration):  # noqa: N801
    """The kinds of the linker's inputs."""

    CUBIN = 0
    PTX = 1
    FATBINARY = 2
    OBJECT = 3
    LIBRARY = 4


class array3d_flags:  # noqa: N801
    """Flags of an array."""

    ARRAY3D_2DARRAY = 1
    ARRAY3D_LAYERED = 1
    SURFACE_LDST = 2
    CUBEMAP = 4
    TEXTURE_GATHER = 8


class host_alloc_flags:  # noqa: N801
    """Flags of page-locked memory."""

    PORTABLE = 1
    DEVICEMAP = 2
    WRITECOMBINED = 4


class mem_host_register_flags:  # noqa: N801
    """Flags of registered memory."""

    PORTABLE = 1
    DEVICEMAP = 2


class mem_peer_register_flags:  # noqa: N801
    """Flags of memory of a peer."""


setattr(array3d_flags, "2DARRAY", 1)
