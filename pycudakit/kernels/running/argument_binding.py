"""Argument binding: checks a call's arguments against a kernel's parameters.

Arrays become buffers; numbers, vectors and structs become bytes in the parameter's type.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit._interop import foreign_arrays
from pycudakit._interop.device_view import DeviceView
from pycudakit._native import allocator
from pycudakit._native.abi import (
    BUFFER_CONSTANT,
    BUFFER_DOWNLOAD,
    BUFFER_POISON,
    BUFFER_UPLOAD,
    ON_DEVICE,
    address_of,
)
from pycudakit._native.dtypes import Array, DType
from pycudakit.kernels.compiling.source import Parameter, Signature
from pycudakit.kernels.reading.declarators import VECTORS
from pycudakit.kernels.running.device_arguments import device_argument, is_on_device
from pycudakit.kernels.running.run_request import Buffer, Place
from pycudakit.kernels.running.transfers import In, InOut, Out, Wrapper, as_array

_MAX_GRID_SIZE = 1 << 31  # a limit of blocks or threads along an axis for every device
_CHARS = frozenset(np.dtype(name) for name in ("int8", "uint8", "S1"))  # the dtypes for a char
_COMPLEX: dict[str, DType] = {"float2": np.dtype("complex64"), "double2": np.dtype("complex128")}


# ---- Shapes ----------------------------------------------------------------------------------------


def dimensions(name: str, value: Any) -> tuple[int, int, int]:
    """Return the dimensions of a block or a grid as three integers, or raise."""
    if type(value) is tuple and len(value) == 3:
        x, y, z = value
        if (
            type(x) is type(y) is type(z) is int
            and 0 < x < _MAX_GRID_SIZE
            and 0 < y < _MAX_GRID_SIZE
            and 0 < z < _MAX_GRID_SIZE
        ):
            return value
    sizes: Sequence[Any] | None = value if type(value) is tuple else None
    if sizes is None:
        try:
            sizes = (operator.index(value),)
        except TypeError:
            sizes = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} is {value!r}; give up to three integers, such as (256, 1, 1)")
    try:
        x, y, z = (*map(operator.index, sizes), 1, 1)[:3]
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give integers: use // where there is /") from None
    if not (0 < x < _MAX_GRID_SIZE and 0 < y < _MAX_GRID_SIZE and 0 < z < _MAX_GRID_SIZE):
        raise ValueError(f"{name} is {value!r}; each size is from 1 to the device's limit")
    return x, y, z


# ---- A call's arguments ----------------------------------------------------------------------------


class BoundArguments:
    """The arguments of one call, in the form that the encoded request takes.

    Attributes
    ----------
    buffers
        For each its address, stream, bytes, flags, bytes of an element, label and array.
    arguments
        For each a buffer's index, the bytes of a value, or None.
    outputs
        The arrays that are written.
    has_device_arrays
        Whether there is a device array.
    """

    __slots__ = (
        "_inouts",
        "_unpacked",
        "arguments",
        "buffers",
        "has_device_arrays",
        "is_plain",
        "outputs",
        "values",
    )

    def __init__(self) -> None:
        self.buffers: list[tuple[int, int, int, int, int, str, Array | DeviceView]] = []
        self.arguments: list[int | bytes | None] = []
        self.values: list[bytes] = []
        self.outputs: list[Any] = []
        self.is_plain = True  # each pointer has its own buffer
        self.has_device_arrays = False
        self._unpacked: list[tuple[Array, Array]] = []
        # By address, the arrays that go both ways, with their index in `buffers`.
        self._inouts: dict[int, list[tuple[int, Array]]] = {}

    @property
    def has_inouts(self) -> bool:
        """Whether an array is both uploaded and downloaded."""
        return bool(self._inouts)

    def unpack(self) -> None:
        """Copy the results of packed arrays back after the run, in the parameters' order."""
        for target, dense in self._unpacked:
            np.copyto(target, dense, casting="unsafe")

    def request_buffers(self) -> list[Buffer]:
        """Return the buffers in the form of a `RunRequest`."""
        return [
            Buffer(
                label,
                size,
                item,
                array,
                up=bool(flags & BUFFER_UPLOAD),
                down=bool(flags & BUFFER_DOWNLOAD),
                poison=bool(flags & BUFFER_POISON),
                constant=bool(flags & BUFFER_CONSTANT),
            )
            for _, _, size, flags, item, label, array in self.buffers
        ]

    def request_arguments(self) -> tuple[Place | bytes | None, ...]:
        """Return the arguments in the form of a `Launch`."""
        return tuple(Place(a) if isinstance(a, int) else a for a in self.arguments)

    def add(self, slot: Slot, array: Array, flags: int) -> None:
        """Add a host array as the argument of a pointer."""
        layout = array.flags
        is_written = flags & BUFFER_DOWNLOAD
        if is_written and not layout.writeable:
            raise _readonly(slot)
        address = address_of(array)
        if is_written:
            self.outputs.append(array)
            if flags & BUFFER_UPLOAD:
                alike = self._inouts.setdefault(address, [])
                if alike and self._reuse_buffer_of(array, alike):
                    return
                alike.append((len(self.buffers), array))
        self.arguments.append(len(self.buffers))
        source = array
        if not (layout.c_contiguous and layout.aligned and array.dtype.isnative):
            native = array.dtype.newbyteorder("=")
            goes_up = flags & BUFFER_UPLOAD
            source = np.array(array, native, order="C") if goes_up else allocator.empty(array.shape, native)
            if is_written:
                self._unpacked.append((array, source))
            address = address_of(source)
        self.buffers.append((address, 0, source.nbytes, flags, source.itemsize, slot.name, source))

    def add_device_array(self, slot: Slot, array: DeviceView, flags: int) -> None:
        """Add a device array as the argument of a pointer."""
        if flags & BUFFER_DOWNLOAD:
            if array.is_readonly:
                raise _readonly(slot)
            self.outputs.append(array.owner)
        self.has_device_arrays = True
        self.arguments.append(len(self.buffers))
        flags |= ON_DEVICE
        self.buffers.append(
            (array.address, array.stream, array.nbytes, flags, array.dtype.itemsize, slot.name, array)
        )

    def separate_aliased_outputs(self) -> None:
        """Give a read-only device array that overlaps an output a buffer of its own, as for host arrays."""
        written = [
            (address, address + size)
            for address, _, size, flags, *_ in self.buffers
            if flags & ON_DEVICE and flags & BUFFER_DOWNLOAD
        ]
        for index, (address, stream, size, flags, *rest) in enumerate(self.buffers):
            is_read = flags & ON_DEVICE and flags & BUFFER_CONSTANT
            if is_read and any(address < end and low < address + size for low, end in written):
                self.buffers[index] = (address, stream, size, flags & ~BUFFER_CONSTANT, *rest)  # type: ignore[assignment]

    def _reuse_buffer_of(self, array: Array, alike: list[tuple[int, Array]]) -> bool:
        """Use the buffer of an earlier parameter if it has the same array; return whether that was done."""
        for index, other in alike:
            if _is_same_view(array, other):
                self.arguments.append(index)
                self.is_plain = False
                return True
        return False


def _readonly(slot: Slot) -> ValueError:
    return ValueError(
        f"{slot.title} is written by the kernel, and the array given is read-only: give a copy, or "
        "In(array) if it is not written"
    )


def _is_same_view(a: Array, b: Array) -> bool:
    """Return True if two arrays at one address have the same elements."""
    return a.shape == b.shape and a.strides == b.strides and a.dtype.str == b.dtype.str


class Slot:
    """A parameter of a kernel: converts an argument to a buffer or to bytes, or raises.

    Parameters
    ----------
    kernel
        The kernel's name, for messages.
    index
        The position, from 0.
    size
        The bytes of the parameter if known, else 0.
    """

    def __init__(self, kernel: str, index: int, parameter: Parameter, size: int = 0) -> None:
        self.parameter = parameter
        self.name = parameter.name
        self.size = size
        dtype = None if parameter.pointer else parameter.dtype
        self._dtype = dtype
        self._scalar = None if dtype is None else dtype.type
        self._is_pointer = parameter.pointer
        self._element = parameter.dtype if parameter.element != "char" else None
        self._up = BUFFER_UPLOAD | (BUFFER_CONSTANT if parameter.const else 0)
        self._bare = self._up if parameter.const else BUFFER_UPLOAD | BUFFER_DOWNLOAD
        name = repr(parameter.name) if parameter.name else f"number {index + 1}"
        self.title = f"{kernel}: parameter {name} ({parameter.type})"

    def add(self, bound: BoundArguments, argument: Any) -> None:
        """Check an argument, and add it to the arguments of a call."""
        kind = type(argument)
        if not self._is_pointer:
            value = argument.tobytes() if kind is self._scalar else self.value(argument)
            bound.arguments.append(value)
            bound.values.append(value)
            return
        if kind is In:
            array, flags = argument.array, self._up
        elif kind is Out:
            array, flags = argument.array, BUFFER_DOWNLOAD | (BUFFER_POISON if argument.poison else 0)
            if self.parameter.const:
                raise TypeError(f"{self.title} cannot be written by the kernel, so it takes no Out(array)")
        elif kind is InOut:
            array, flags = argument.array, BUFFER_UPLOAD | BUFFER_DOWNLOAD
        elif kind is np.ndarray:
            array, flags = argument, self._bare
        elif argument is None:
            bound.arguments.append(None)
            bound.is_plain = False
            return
        elif isinstance(argument, Wrapper):
            self.add(bound, argument.settled())
            return
        else:
            array, flags = self._foreign(argument), self._bare
        if type(array) is not np.ndarray:
            device_array = device_argument(array, self.title)
            self.check(device_array.dtype, device_array.shape)
            bound.add_device_array(self, device_array, flags)
            return
        if array.dtype is not self._element:
            self.check(array.dtype, array.shape)
        bound.add(self, array, flags)

    def _foreign(self, argument: Any) -> Any:
        if isinstance(argument, np.ndarray):
            return as_array(argument)
        if is_on_device(argument):
            return argument
        if not isinstance(argument, np.generic):
            array = foreign_arrays.read(argument, self.title, by_numpy=False)
            if self.parameter.const and (
                hasattr(array, "__array__") or hasattr(array, "__array_interface__")
            ):
                return np.asarray(array)
        raise TypeError(
            f"{self.title} is a pointer, and takes a NumPy array, In, Out or InOut of one, or None, "
            f"not {_named(argument)}"
        )

    def check(self, dtype: DType, shape: tuple[int, ...] = (0,), *, is_buffer: bool = False) -> None:
        """Raise unless the parameter is a pointer to elements of this dtype, of an array or a buffer."""
        if not self._is_pointer:
            raise TypeError(f"{self.title} is a value, and takes no array")
        declared, element = self.parameter.dtype, self.parameter.element
        native = dtype.newbyteorder("=")
        if native == declared:
            return
        if native.hasobject or not native.itemsize:
            raise TypeError(f"{self.title} takes no array of {dtype}")
        if element.endswith("*"):
            raise TypeError(f"{self.title} points to device pointers, which Python cannot give: give None")
        if element == "char" and native in _CHARS:
            return
        if declared is not None:
            # The results in a converted copy would not reach the caller's array.
            are_integers = (
                declared.kind in "iu" and native.kind in "iu" and declared.itemsize == native.itemsize
            )
            how = f"convert it, as with .astype(np.{declared})"
            if is_buffer:
                how = f"declare it as {declared}"
                if declared.itemsize == native.itemsize:
                    how = f"reinterpret it, as with .view(np.{declared}), or {how}"
            elif not self.parameter.const:
                how = (
                    f"reinterpret it, as with .view(np.{declared})"
                    if are_integers
                    else f"{how}, and use the converted array"
                )
            raise TypeError(f"{self.title} takes {declared} arrays, and the one given is of {dtype}: {how}")
        vector = VECTORS.get(element)
        if vector is not None and not _is_vector(native, shape, *vector, _COMPLEX.get(element)):
            base, count = vector
            raise TypeError(
                f"{self.title} takes {base} arrays whose last dimension is {count}, or of a dtype of "
                f"{count * base.itemsize} bytes, and the one given is of {dtype} and shape {shape}"
            )

    def value(self, argument: Any) -> bytes:
        """Convert a value to the parameter's bytes, or raise."""
        if self._is_pointer:
            raise TypeError(f"{self.title} is a pointer, and takes no value")
        dtype = self._dtype
        if isinstance(argument, (np.generic, np.ndarray)):
            return self._numpys(np.asarray(argument))
        if dtype is None:
            return self._struct(argument)
        if isinstance(argument, (bool, int)):
            return self._integer(int(argument), dtype)
        if isinstance(argument, float) and dtype.kind in "fc":
            return self._float(argument, dtype)
        if isinstance(argument, complex) and dtype.kind == "c":
            self._float(argument.real, dtype)
            self._float(argument.imag, dtype)
            raw: bytes = dtype.type(argument).tobytes()
            return raw
        raise TypeError(f"{self.title} takes a number, {dtype}, not {_named(argument)}")

    def _integer(self, number: int, dtype: DType) -> bytes:
        if dtype.kind in "fc":
            try:
                return self._float(float(number), dtype)
            except OverflowError:
                raise self._misfit(number) from None
        if dtype.kind == "b" and number not in (0, 1):
            raise self._misfit(number)
        try:
            return number.to_bytes(dtype.itemsize, sys.byteorder, signed=dtype.kind == "i")
        except OverflowError:
            raise self._misfit(number) from None

    def _float(self, number: float, dtype: DType) -> bytes:
        with np.errstate(all="ignore"):
            value = dtype.type(number)
        if np.isinf(value) and abs(number) != np.inf:
            raise self._misfit(number)
        raw: bytes = value.tobytes()
        return raw

    def _misfit(self, number: Any) -> OverflowError:
        return OverflowError(f"{self.title}: {_shown(number)} does not fit in {self._dtype}")

    def _numpys(self, array: Array) -> bytes:
        """Return the bytes of a NumPy scalar or a 0-d array."""
        native = array.dtype.newbyteorder("=")
        dtype, element = self._dtype, self.parameter.element
        if dtype is None and element in VECTORS and native.names is None:
            return self._vector(array)
        if array.size != 1 or (array.ndim and dtype is not None):
            raise TypeError(f"{self.title} is a value, and takes no array of shape {array.shape}")
        if native.hasobject:
            raise TypeError(f"{self.title} takes no {array.dtype}")
        if dtype is not None and native != dtype and not (element == "char" and native in _CHARS):
            raise TypeError(
                f"{self.title} takes {dtype}, and is given {array.dtype}: convert it, as with np.{dtype}(...)"
            )
        return self._sized(array.astype(native).tobytes(), native)

    def _struct(self, argument: Any) -> bytes:
        if self.parameter.element in VECTORS and isinstance(argument, (tuple, list)):
            return self._vector(argument)
        raise TypeError(
            f"{self.title} takes a NumPy scalar, or a structured one of the struct's layout, not "
            f"{_named(argument)}"
        )

    def _vector(self, argument: Any) -> bytes:
        base, count = VECTORS[self.parameter.element]
        if isinstance(argument, np.ndarray):
            native = argument.dtype.newbyteorder("=")
            if native == _COMPLEX.get(self.parameter.element) and argument.size == 1:
                raw: bytes = argument.astype(native).tobytes()
                return raw
            if native != base:
                raise TypeError(f"{self.title} takes {count} of {base}, and is given {argument.dtype}")
        values = list(argument) if np.ndim(argument) == 1 else []
        if len(values) != count:
            raise ValueError(f"{self.title} takes {count} numbers, not {argument!r}")
        part = Slot("", 0, Parameter("", base.name, base.name, pointer=False, const=False, dtype=base))
        part.title = self.title
        return b"".join(map(part.value, values))

    def _sized(self, raw: bytes, dtype: DType) -> bytes:
        if self.size and len(raw) != self.size:
            hint = ": np.dtype(..., align=True) lays fields out as C does" if dtype.names is not None else ""
            raise TypeError(f"{self.title} has {self.size} bytes, and the argument has {len(raw)}{hint}")
        return raw


def _is_vector(native: DType, shape: tuple[int, ...], base: DType, count: int, other: DType | None) -> bool:
    if native == base:
        return count == 1 or (len(shape) > 0 and shape[-1] == count) or shape == (0,)
    return native == other or (native.names is not None and native.itemsize == count * base.itemsize)


def _named(argument: object) -> str:
    kind = type(argument).__name__
    return f"{_shown(argument)}, of type {kind}" if isinstance(argument, (int, float, str)) else f"a {kind}"


def _shown(argument: Any) -> str:
    if isinstance(argument, int) and abs(argument) > 10**50:
        return "a number of more than 50 digits"  # Python refuses to write some
    text = repr(argument)
    return text if len(text) < 60 else f"{text[:50]}..."


def slots_of(signature: Signature, sizes: Sequence[int] = ()) -> tuple[Slot, ...]:
    """Return the slots of a kernel's parameters; `sizes` are the bytes of each, if known."""
    parameter_sizes = sizes if len(sizes) == len(signature.parameters) else [0] * len(signature.parameters)
    return tuple(
        Slot(signature.name, index, parameter, size)
        for index, (parameter, size) in enumerate(zip(signature.parameters, parameter_sizes, strict=True))
    )


def bind(signature: Signature, slots: Sequence[Slot], args: Sequence[Any]) -> BoundArguments:
    """Check the arguments of a call, and bind them to a kernel's parameters."""
    if len(args) != len(slots):
        raise TypeError(wrong_count(signature, len(args)))
    bound = BoundArguments()
    for slot, argument in zip(slots, args):  # noqa: B905  (their lengths are equal)
        slot.add(bound, argument)
    if bound.has_device_arrays:
        bound.separate_aliased_outputs()
    return bound


def wrong_count(signature: Signature, count: int) -> str:
    """Return the message for a call with a wrong number of arguments."""
    listed = ", ".join(map(str, signature.parameters))
    given = "1 was given" if count == 1 else f"{count} were given"
    return f"{signature.name} takes {len(signature.parameters)} arguments ({listed}), and {given}"


def symbol(kernel: str, parameter: Parameter | None, name: str, argument: Any) -> Array:
    """Return the value of a ``__constant__`` or ``__device__`` variable as a contiguous array."""
    if isinstance(argument, Wrapper):
        argument = argument.array
    if parameter is None or parameter.dtype is None or isinstance(argument, (np.ndarray, np.generic)):
        array = as_array(argument)
    else:
        array = np.asarray(argument)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"{kernel}: symbols[{name!r}] takes numbers, not {_named(argument)}")
        slot = Slot(kernel, 0, replace(parameter, pointer=False))
        slot.title = f"{kernel}: symbols[{name!r}] ({parameter.element})"
        numbers = np.array(argument, object).reshape(-1).tolist()
        raw = b"".join(map(slot.value, numbers))
        array = np.frombuffer(raw, parameter.dtype).reshape(array.shape)
    native = array.dtype.newbyteorder("=")
    if parameter is not None and parameter.dtype is not None and native != parameter.dtype:
        is_char = parameter.element == "char" and native in _CHARS
        if not is_char:
            raise TypeError(
                f"{kernel}: symbols[{name!r}] is a {parameter.element} variable, and the value is "
                f"{array.dtype}: convert it, as with .astype(np.{parameter.dtype})"
            )
    if native.hasobject or not array.size:
        raise TypeError(f"{kernel}: symbols[{name!r}] takes no {array.dtype} of {array.size} elements")
    return np.array(array, native, order="C", ndmin=1)
