"""Random mutations of a valid call's arguments that lead to no memory outside of the arrays."""

import collections
import ctypes

import numpy as np

from pycudakit._native import abi

# The fields of structs that may be any number; and the addresses, apart from fields of type uint64.
CODES = {"image", "kernel", "buffer", "offset", "first_argument", "shared", "block_limit", "device_count"}
CODES |= {"span_capacity", "stream", "asynchronous"}
IN_A_RUN = {
    "images": abi.IMAGE,
    "kernels": abi.USER_KERNEL,
    "buffers": abi.BUFFER,
    "symbols": abi.SYMBOL,
    "steps": abi.STEP,
    "arguments": abi.ARGUMENT,
}
ADDRESSES = {*IN_A_RUN, "values", "name", "address"}
ANY_NUMBER = {
    "pk_scan": {0, 1},
    **{f"pk_unique_{t}": {2} for t in abi.SORTED},
    **{f"pk_argsort_{t}": {5} for t in abi.SORTED},
    **{f"pk_searchsorted_{t}": {5} for t in abi.SORTED},
    **{f"pk_matmul_{t}": {8, 9} for t in abi.MULTIPLIED},
    "pk_gray": {4, 5},
    "pk_resize": {5},
    "pk_device_info": {0},
    "pk_link_speed": {0},
    "pk_tuning_info": {0},
    "pk_operation_info": {0},
    "pk_tune": {0, 1},
}
# Values that pk_run_requests refuses before anything runs. Another address or size may lead to memory outside
# of the arrays.
REFUSED = {
    abi.REQUEST: {"entry": [-1, abi.REQUEST_COUNT, 99, -(2**63)]},
    abi.BINDING: {"word": [0], "buffer": [-1, 1 << 40]},
    abi.BUFFER: {"address": [0], "bytes": [-1, -(2**63)], "flags": [4, 8, -1]},
    abi.STOP: {
        **{name: [-1, 1 << 40] for name in ("call", "buffer", "offset")},
        **{name: [-1, 99] for name in ("type", "kind")},
    },
}
WRITEABLE = 0x400  # NumPy's NPY_ARRAY_WRITEABLE
KEPT = collections.deque(maxlen=8)  # keeps the tables of the last runs alive
FLOATS = [0.0, -0.0, -1.0, 0.5, 1e-310, 1e308, -1e308, 2.0**63, np.inf, -np.inf, np.nan]


def spoilt(rng, name, arguments):
    """Return the arguments with one to three changes."""
    arguments = list(arguments)
    changes = int(rng.integers(1, 4))
    for _ in range(changes):
        place = int(rng.integers(len(arguments))) if arguments else 0
        if arguments and arguments[place] is not None:
            arguments[place] = _other(rng, name, place, arguments[place], changes == 1)
    return arguments


def _other(rng, name, place, argument, alone):
    kind = abi.SIGNATURES[name][place]
    if isinstance(argument, float):
        return float(rng.choice(FLOATS))
    if isinstance(argument, (int, np.integer)):
        if kind is ctypes.c_uint64:
            return 0
        if name == "pk_run_requests" and place == 5:  # without a binding, a table has a stale address
            return -1
        if kind is ctypes.c_int32 or place in ANY_NUMBER.get(name, ()):
            return _code(rng, 32 if kind is ctypes.c_int32 else 64)
        return _less(rng, int(argument))
    if not isinstance(argument, np.ndarray) or rng.random() < 0.15:
        return None
    if kind._flags_ & WRITEABLE:
        return argument  # the caller's own, so that it is seen whether it was written to
    if name == "pk_run_requests" and argument.dtype == abi.BUFFER and argument.size:
        return _refused(rng, argument.copy())
    return _table(rng, argument) if argument.dtype.names else _values(rng, name, place, argument, alone)


def _code(rng, bits):
    least = -(2 ** (bits - 1))
    return int(rng.choice([-1, 0, 1, 2, 3, 4, 7, 12, 64, 99, 255, 256, least, -(least + 1)]))


def _less(rng, number):
    some = [-1, -2, -(2**31), -(2**63), 0, 1, number // 2, number - 1, number]
    return int(rng.choice([n for n in some if -(2**63) <= n <= number]))


def _table(rng, array):
    other = array.copy()
    if not array.size:
        return other
    if array.dtype == abi.RUN and rng.random() < 0.7:
        return _run(rng, other)
    if array.dtype in (abi.REQUEST, abi.BINDING):
        return _of_requests(rng, other)
    rows = other.reshape(-1)[: 1 + int(rng.integers(min(array.size, 8)))]
    row, field = rows[-1:], str(rng.choice(array.dtype.names))
    type_ = array.dtype[field].base
    if array.dtype[field].shape:
        values = row[field].reshape(-1)
        at = int(rng.integers(values.size))
        if type_.kind == "u":
            values[at] = rng.integers(0, 2**64, dtype=np.uint64)
        else:
            values[at] = 0 if field == "strides" else _less(rng, int(values[at]))
        row[field] = values.reshape(row[field].shape)
    elif array.dtype == abi.INSTRUCTION:
        number = int(rng.integers(0, 20)) if rng.random() < 0.5 else _code(rng, 63)
        row[field] = np.int64(number).astype(type_)
    elif type_.kind == "S":
        row[field] = b"\xff" * type_.itemsize  # which does not end
    elif type_.kind == "f":
        row[field] = rng.choice(FLOATS)
    elif field == "type":
        row[field] = rng.choice([_smaller(rng, int(row[field][0])), -1, 12, 99, 255, 2**31 - 1])
    elif field in CODES or type_.itemsize == 4:
        row[field] = np.int64(_code(rng, 8 * type_.itemsize)).astype(type_)
    elif type_.kind == "u" or (field in ADDRESSES and array.dtype in (abi.RUN, abi.SYMBOL)):
        row[field] = 0
    else:
        row[field] = _less(rng, int(row[field][0]))
    return other


def _run(rng, run):
    """Change one of the tables of a run."""
    field = str(rng.choice(list(IN_A_RUN)))
    address = int(run[field][0])
    count = int(run[field.removesuffix("s") + "_count"][0])
    if address and count > 0:
        dtype = IN_A_RUN[field]
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        KEPT.append(_table(rng, np.frombuffer(memory, dtype)))
        run[field] = KEPT[-1].ctypes.data
    return run


def _of_requests(rng, table):
    """Change a request by an argument of 0, or a table to one that is refused."""
    if table.dtype == abi.BINDING or rng.random() < 0.5:
        return _refused(rng, table)
    row = table[int(rng.integers(table.size))]
    # Not the sizes and strides of a loop, which only the loop reads.
    places = 3 if row["entry"] == abi.REQUEST_LOOP else abi.MAX_REQUEST_ARGUMENTS
    row["arguments"][int(rng.integers(places))] = 0
    return table


def _refused(rng, table):
    """Change a field of a table to a value that is refused."""
    field = str(rng.choice(list(REFUSED[table.dtype])))
    table[field][int(rng.integers(table.size))] = rng.choice(REFUSED[table.dtype][field])
    return table


def refused_list(rng, arguments):
    """Return the arguments of pk_run_requests with one change that it refuses before anything runs."""
    arguments = list(arguments)
    tables = [i for i in (0, 2, 4, 6, 8) if len(arguments[i])]  # before the number of rows of each
    place = int(rng.choice([*tables, 11, 13]))  # or the addresses of the results
    way = int(rng.integers(4))
    if place > 10 or way == 0:
        arguments[place] = None
    elif way == 1:
        arguments[place + 1] = int(rng.choice([-1, -(2**31), -(2**63)]))
    elif arguments[place].dtype.names:
        arguments[place] = _refused(rng, arguments[place].copy())
    else:  # the order
        arguments[place] = arguments[place].copy()
        arguments[place][int(rng.integers(arguments[place].size))] = rng.choice([-1, len(arguments[0])])
    return arguments


def _smaller(rng, code):
    """Return a type whose elements are not larger."""
    if not 0 <= code < len(abi.TYPES):
        return 0
    return rng.choice([i for i, t in enumerate(abi.TYPES) if t.itemsize <= abi.TYPES[code].itemsize])


def _values(rng, name, place, array, alone):
    other = array.copy()
    if other.size == 0:
        return other
    kinds = abi.SIGNATURES[name]
    shapes = [p for p, kind in enumerate(kinds) if getattr(kind, "_dtype_", None) == np.int64]
    tells_sizes = any(getattr(kind, "_dtype_", None) == abi.OPERAND for kind in kinds) or "matmul" in name
    flat = other.reshape(-1)
    # The matrices, which come before the sizes, may have int64, too.
    if tells_sizes and shapes and place == shapes[-1 if "matmul" in name else 0]:
        if alone and rng.random() < 0.2 and 1 < flat.size < abi.MAX_DIMS:
            flat[:] = 2**62  # with the other sizes, more than there are numbers for
        else:
            at = int(rng.integers(min(flat.size, 3)))  # the rest of a kept one is not told
            flat[at] = _less(rng, int(flat[at]))
        return other
    at = rng.integers(0, flat.size, 1 + int(rng.integers(8)))
    values = rng.bytes(at.size * flat.itemsize)
    flat[at] = np.frombuffer(values, flat.dtype)
    return other
