"""For stand-ins for a library: what its entries are given, and who has them already."""

import gc

import numpy as np

from pycudakit._calls.invocation import Invocation


def number_of(argument):
    """Return a number or an address, in whatever form it goes to ctypes."""
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    value = getattr(argument, "value", argument)
    if isinstance(value, int):
        return value
    return int(repr(argument).partition("(")[2].rstrip(")>"), 0)  # ctypes tells it nowhere else


_settled = []  # what was prepared before the first test


def _prepared():
    # A proxy of what is no more cannot be asked for its class.
    return [found for found in gc.get_objects() if issubclass(type(found), Invocation)]


def settle():
    """Take what there is before the first test out of all later searches through memory."""
    gc.collect()
    _settled.extend(_prepared())
    gc.freeze()


def forget_entries():
    """Have what is prepared for many calls ask for its library again."""
    for found in (*_settled, *_prepared()):
        found._entries.clear()
