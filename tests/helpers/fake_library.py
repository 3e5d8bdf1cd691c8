"""For stand-ins for a library: what its entries are given, and who has them already."""

import gc
import weakref

import numpy as np

from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing import replay


def number_of(argument):
    """Return a number or an address, in whatever form it goes to ctypes."""
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    value = getattr(argument, "value", argument)
    if isinstance(value, int):
        return value
    return int(repr(argument).partition("(")[2].rstrip(")>"), 0)  # ctypes tells it nowhere else


_known = weakref.WeakSet()  # what is prepared, among what later searches through memory leave out


def settle():
    """Take what there is out of all later searches through memory."""
    # A proxy of what is no more cannot be asked for its class.
    _known.update(found for found in gc.get_objects() if issubclass(type(found), NativeCall))
    gc.freeze()


def forget_entries():
    """Have what is prepared for many calls ask for its library again."""
    settle()
    for found in list(_known):
        found._entries.clear()
    replay._captured_calls.clear()
