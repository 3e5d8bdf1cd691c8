"""Helpers for fake libraries: decode ctypes arguments, and reset callers that hold entries already."""

import gc
import weakref

import numpy as np

from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing import device_replay


def number_of(argument):
    """Return a number or an address from any form of ctypes argument."""
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    value = getattr(argument, "value", argument)
    if isinstance(value, int):
        return value
    return int(repr(argument).partition("(")[2].rstrip(")>"), 0)  # ctypes shows the address nowhere else


_known = weakref.WeakSet()  # prepared calls that existed before the test; later searches skip them


def settle():
    """Freeze the existing objects, so that later searches through memory skip them."""
    # A proxy of a dead object has no class.
    _known.update(found for found in gc.get_objects() if issubclass(type(found), NativeCall))
    gc.freeze()


def forget_entries():
    """Make prepared calls look up their library entries again."""
    settle()
    for found in list(_known):
        found._entries.clear()
    device_replay._captured_calls.clear()
