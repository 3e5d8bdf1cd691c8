"""The part of the ctypes binding for memory, streams, events and modules that outlive a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

MEMORY_ZEROS, MEMORY_MANAGED = 1, 2
COPY_FROM_DEVICE, COPY_TO_DEVICE = 1, 2
STREAM_NON_BLOCKING = 1
EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING = 1, 2
PARAMETER_ALIGNMENT = 16  # bytes, of each parameter of a launch

COPY = np.dtype(
    [
        *((name, np.uint64) for name in ("destination", "source")),
        *((name, np.int64) for name in ("destination_pitch", "source_pitch")),
        *((name, np.int64) for name in ("destination_height", "source_height")),
        *((name, np.int64) for name in ("width", "rows", "layers", "flags")),
    ]
)
PARAMETER = np.dtype([("label", "S64"), ("itemsize", np.int64)])
LAUNCH = np.dtype(
    [
        ("function", np.uint64),
        ("stream", np.uint64),
        ("grid", np.int64, (3,)),
        ("block", np.int64, (3,)),
        ("shared", np.int64),
        ("block_limit", np.int64),
        ("progress_callback", np.uint64),
        ("reserved", np.int64),
    ]
)

_INT32, _SIZE, _ADDRESS = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
_SIZE_OUT, _ADDRESS_OUT = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_uint64)


def signatures(
    table: Callable[[Any], Any], written: Callable[[Any], Any], image: Any, limits: Any
) -> dict[str, tuple[Any, ...]]:
    """Return the argument types of the entries.

    Parameters
    ----------
    table, written
        Return the type of a table of that dtype, which an entry reads or writes.
    image, limits
        The dtypes of `pk_image` and `pk_kernel_limits`.
    """
    name = (table(np.uint8), _SIZE)
    return {
        "pk_device_memory_allocate": (_SIZE, _SIZE, _INT32, _ADDRESS_OUT),
        "pk_device_memory_free": (_ADDRESS,),
        "pk_device_memory_find": (_ADDRESS, _ADDRESS_OUT, _SIZE_OUT, _SIZE_OUT),
        "pk_device_memory_info": (_SIZE, _SIZE_OUT, _SIZE_OUT),
        "pk_device_memory_copy": (table(COPY), _SIZE, _SIZE, _ADDRESS, _SIZE),
        "pk_device_memory_fill": (_ADDRESS, _SIZE, ctypes.c_uint32, *[_SIZE] * 4, _ADDRESS),
        "pk_host_memory_register": (_ADDRESS, _SIZE),
        "pk_host_memory_unregister": (_ADDRESS,),
        "pk_device_attribute": (_SIZE, _INT32, _SIZE_OUT),
        "pk_device_synchronize": (_SIZE,),
        "pk_stream_create": (_SIZE, _INT32, _SIZE, _ADDRESS_OUT),
        "pk_stream_destroy": (_ADDRESS,),
        "pk_stream_synchronize": (_SIZE, _ADDRESS),
        "pk_stream_query": (_SIZE, _ADDRESS, _SIZE_OUT),
        "pk_stream_wait_event": (_SIZE, _ADDRESS, _ADDRESS),
        "pk_event_create": (_SIZE, _INT32, _ADDRESS_OUT),
        "pk_event_destroy": (_ADDRESS,),
        "pk_event_record": (_ADDRESS, _ADDRESS),
        "pk_event_synchronize": (_ADDRESS,),
        "pk_event_query": (_ADDRESS, _SIZE_OUT),
        "pk_event_elapsed": (_ADDRESS, _ADDRESS, ctypes.POINTER(ctypes.c_double)),
        "pk_module_load": (table(image), _SIZE, _ADDRESS_OUT),
        "pk_module_unload": (_ADDRESS,),
        "pk_module_function": (_ADDRESS, *name, table(PARAMETER), _SIZE, written(limits), _ADDRESS_OUT),
        "pk_module_variable": (_ADDRESS, *name, _ADDRESS_OUT, _SIZE_OUT),
        "pk_module_launch": (table(LAUNCH), table(np.uint8), _SIZE),
        "pk_module_printed": (_ADDRESS, written(np.uint8), _SIZE, _SIZE_OUT),
        "pk_function_attribute": (_ADDRESS, _INT32, _SIZE_OUT),
        "pk_function_set_attribute": (_ADDRESS, _INT32, _SIZE),
    }
