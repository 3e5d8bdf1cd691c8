"""The call of a wrapped function: its arguments are checked, and become C's."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from pycudakit import errors
from pycudakit._native import allocator
from pycudakit._native.abi import address_of_dense
from pycudakit._native.dtypes import Array, DType
from pycudakit.kernels.compiling.source import Parameter
from pycudakit.kernels.running.argument_binding import Slot
from pycudakit.kernels.wrapping import table
from pycudakit.kernels.wrapping.declarations import WrappedFunction
from pycudakit.kernels.wrapping.table import CType, FunctionTypes
from pycudakit.kernels.wrapping.tags import size_function, size_in_python


class LoadedLibrary(Protocol):
    """The part of `Library` that a function uses."""

    def _message(self) -> str: ...


# The vectors of CUDA, by their components' dtypes.
_VECTORS = {
    letters: name
    for pairs in (
        "i1 char i2 short i4 int i8 longlong",
        "u1 uchar u2 ushort u4 uint u8 ulonglong",
        "f2 half f4 float f8 double",
    )
    for letters, name in zip(pairs.split()[::2], pairs.split()[1::2], strict=True)
}


@dataclass(frozen=True, slots=True)
class Size:
    """The number of elements that a pointer has at least: an expression of Python, and its value."""

    text: str
    of: Callable[[Mapping[str, Any]], int]
    parameter: int  # the parameter that it is, or -1 for an expression
    is_tagged: bool  # whether a tag gives it; else it is the only integer parameter


class Argument:
    """A parameter with its checks."""

    def __init__(
        self, function: WrappedFunction, index: int, ctype: CType, role: str, size: Size | None
    ) -> None:
        declared = function.parameters[index]
        element = declared.base if ctype.struct else _element(ctype, declared.base)
        is_plain = not ctype.components and not ctype.struct
        self.name = declared.name
        self.declared = declared.declared
        self.ctype = ctype
        self.role = role  # "in", "inout", "out" or "value"
        self.size = size
        self.is_text = ctype.is_pointer and ctype.is_const and element == "char"
        self.slot = Slot(
            function.name,
            index,
            Parameter(
                declared.name,
                _typed(declared.declared, declared.name),
                element,
                pointer=ctype.is_pointer,
                const=ctype.is_const,
                dtype=ctype.dtype if is_plain else None,
            ),
            self.bytes if not ctype.is_pointer else 0,
        )
        self.title = self.slot.title

    @property
    def dtype(self) -> DType:
        """The dtype of the elements, or of the value."""
        return np.dtype(self.ctype.dtype)  # which is not None: void is refused

    @property
    def bytes(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize * (self.ctype.components or 1)

    @property
    def is_written(self) -> bool:
        """Whether the function writes to the pointer's target."""
        return self.role in ("out", "inout")

    @property
    def is_passed_by_address(self) -> bool:
        """Whether C gets the value's address: that of a pointer, a struct, a vector or a half."""
        ctype = self.ctype
        return ctype.is_pointer or bool(ctype.struct or ctype.components) or self.dtype == np.float16

    def converter(self) -> Any:
        """Return the entry of ``argtypes``: an ndpointer for a pointer, else the type of ctypes."""
        if not self.is_passed_by_address:
            return np.ctypeslib.as_ctypes_type(self.dtype)
        if self.is_written:
            return np.ctypeslib.ndpointer(self.dtype, flags=("C_CONTIGUOUS", "ALIGNED", "WRITEABLE"))
        return np.ctypeslib.ndpointer(self.dtype, flags=("C_CONTIGUOUS", "ALIGNED"))

    # ---- Values ------------------------------------------------------------------------------------

    def array(self, argument: Any, kept: list[Any]) -> tuple[int, int]:
        """Return the address and the bytes of an argument for a pointer, or raise."""
        if argument is None:
            return 0, 0
        if self.is_text and isinstance(argument, (str, bytes)):
            data = np.frombuffer(
                (argument.encode() if isinstance(argument, str) else argument) + b"\0", np.int8
            )
            kept.append(data)
            return data.ctypes.data, 1 << 62
        if not isinstance(argument, np.ndarray):
            if isinstance(
                argument, (int, float, complex, str, bytes, list, tuple, np.generic)
            ) or not hasattr(argument, "__array_interface__"):
                raise TypeError(
                    f"{self.title} is a pointer, and takes a NumPy array, or None, not a "
                    f"{type(argument).__name__}"
                )
            argument = np.asarray(argument)
        array: Array = argument.view(np.ndarray)
        self._check(array)
        is_written = self.is_written
        flags = array.flags
        if is_written and not flags.writeable:
            raise ValueError(f"{self.title} is written, and the array given is read-only: give a copy")
        if not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
            if is_written:
                raise ValueError(
                    f"{self.title} is written, and the array given is not contiguous, aligned and of "
                    "native byte "
                    "order: give one that is, such as np.ascontiguousarray(x), and copy it back"
                )
            array = np.array(array, array.dtype.newbyteorder("="), order="C")
        kept.append(array)
        return array.ctypes.data, array.nbytes

    def _check(self, array: Array) -> None:
        self.slot.check(array.dtype, array.shape)
        if self.ctype.struct and array.dtype != self.dtype:
            raise TypeError(
                f"{self.title} takes arrays of the struct's dtype, {self.dtype}, and the one given is of "
                f"{array.dtype}: make it by library.dtypes[{self.ctype.struct!r}]"
            )

    def value(self, argument: Any, kept: list[Any]) -> Any:
        """Return a value as an argument of ctypes, or raise."""
        if self.ctype.struct and isinstance(argument, (tuple, np.void, np.ndarray)):
            argument = np.array(argument, self.dtype) if isinstance(argument, tuple) else argument
            if argument.dtype != self.dtype or argument.size != 1:
                raise TypeError(
                    f"{self.title} takes a value of the struct's dtype, {self.dtype}, and is given one of "
                    f"{argument.dtype}: make it by library.dtypes[{self.ctype.struct!r}]"
                )
            data = np.frombuffer(argument.tobytes(), np.uint8)
        else:
            data = np.frombuffer(self.slot.value(argument), np.uint8)
        if not self.is_passed_by_address:
            return data.view(self.dtype)[0].item()
        kept.append(data)
        return data.ctypes.data

    def made(self, values: Mapping[str, Any]) -> Array:
        """Return a new array for an output that is left out."""
        if self.size is None:
            raise TypeError(f"{self.title} is left out, and its size is not known: give an array")
        count = self.size.of(values)
        if count < 0:
            raise ValueError(f"{self.title} is left out, and would have {count} elements")
        shape = (count, self.ctype.components) if self.ctype.components > 1 else (count,)
        nbytes = count * max(self.ctype.components, 1) * self.dtype.itemsize
        made: Array = allocator.with_result_allocator(nbytes, lambda: np.empty(shape, self.dtype))
        return made


def _element(ctype: CType, base: str) -> str:
    """Return the name by which `Slot` knows the type."""
    letters = np.dtype(ctype.dtype).str[1:]
    if ctype.components:
        return f"{_VECTORS[letters]}{ctype.components}"
    return "char" if letters == "i1" and base == "char" else str(ctype.dtype)


def _typed(declared: str, name: str) -> str:
    """Return a declaration without the parameter's name."""
    head, found, tail = declared.rpartition(name)
    return f"{head.strip()}{tail.strip()}" if found else declared


class LibraryFunction:
    """A function of a `Library`: it checks its arguments, and calls C.

    Attributes
    ----------
    argtypes
        The types of its parameters, for ctypes: ``ndpointer(dtype, flags)`` for each pointer.
    """

    def __init__(
        self, library: LoadedLibrary, declared: WrappedFunction, types: FunctionTypes, file: str
    ) -> None:
        self.library = library
        self.__name__ = self.__qualname__ = declared.name
        self.arguments = arguments_of(declared, types, file)
        self.declaration = declared.declaration
        self.argtypes = [argument.converter() for argument in self.arguments]
        self._types = types
        passed = [
            ctypes.c_void_p if argument.is_passed_by_address else converter
            for argument, converter in zip(self.arguments, self.argtypes, strict=True)
        ]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *passed)(types.address)
        self._result: Any = None
        if types.is_text:
            self._result = ctypes.c_char_p
        elif types.result.dtype is not None and not types.is_status:
            self._result = np.ctypeslib.as_ctypes_type(types.result.dtype)
        self._names = [argument.name for argument in self.arguments]
        self._outputs = [i for i, argument in enumerate(self.arguments) if argument.role == "out"]
        self._plans = [_plan(argument) for argument in self.arguments]
        self._sizes = [
            (i, argument.size.parameter, argument.bytes, argument.size)
            for i, argument in enumerate(self.arguments)
            if argument.ctype.is_pointer and argument.size is not None
        ]
        self._count = len(self.arguments)
        self.__signature__ = self._signature()
        self.__doc__ = self._documentation(declared)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the library and the name."""
        return getattr, (self.library, self.__name__)

    def __repr__(self) -> str:
        """Return the declaration in C."""
        return f"<function {self.declaration}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; return its result, and the outputs that were left out."""
        made: list[Any] = []
        outputs = self._outputs
        if kwargs or len(args) != self._count or (outputs and any(args[i] is None for i in outputs)):
            args, made = self._arranged(args, kwargs)
        values: list[Any] = []
        nbytes: list[int] = []
        kept: list[Any] = []
        for argument, (kind, dtype, low, high) in zip(args, self._plans):  # noqa: B905  (equal lengths)
            if kind == _POINTER:
                if type(argument) is np.ndarray and argument.dtype is dtype:
                    flags = argument.flags
                    if flags.carray if low else flags.c_contiguous and flags.aligned:
                        values.append(address_of_dense(argument))
                        nbytes.append(argument.nbytes)
                        continue
                address, held = self.arguments[len(values)].array(argument, kept)
                values.append(address)
                nbytes.append(held)
            elif type(argument) is kind and low <= argument <= high:
                values.append(argument)
                nbytes.append(0)
            else:
                values.append(self.arguments[len(values)].value(argument, kept))
                nbytes.append(0)
        for index, parameter, item, size in self._sizes:
            count = (
                values[parameter] if parameter >= 0 else size.of(dict(zip(self._names, values, strict=True)))
            )
            if nbytes[index] < count * item:
                self._refuse_size(index, count, nbytes[index] // item)
        result = None if self._result is None else self._result()
        status = self._call(None if result is None else ctypes.byref(result), *values)
        if status:
            self._raise(status)
        if result is None and not made:
            return None
        out = [] if result is None else [_text(result.value) if self._types.is_text else result.value]
        out += made
        return out[0] if len(out) == 1 else tuple(out)

    # ---- Arguments ---------------------------------------------------------------------------------

    def _arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """Return the arguments in C's order, and the outputs that were left out and are made."""
        name = self.__name__
        unknown = [key for key in kwargs if key not in self._names]
        if unknown:
            raise TypeError(f"{name} has no parameter {unknown[0]!r}; it is {self.declaration}")
        given: list[Any] = [_MISSING] * self._count
        for key, value in kwargs.items():
            given[self._names.index(key)] = value
        left = [i for i in range(self._count) if given[i] is _MISSING]
        if len(args) != len(left):
            left = [i for i in left if i not in self._outputs]
        if len(args) > len(left):
            raise TypeError(
                f"{name} takes {self._count} arguments ({self.declaration}), and "
                f"{len(args) + len(kwargs)} were "
                "given"
            )
        for i, value in zip(left, args, strict=False):
            given[i] = value
        missing = [i for i in range(self._count) if given[i] is _MISSING and i not in self._outputs]
        if missing:
            argument = self.arguments[missing[0]]
            hint = f": tag it `// @out {argument.name}[...]`, and it is returned" * (argument.role == "inout")
            raise TypeError(f"{name} is called without {argument.name!r}; it is {self.declaration}{hint}")
        return self._with_outputs([None if value is _MISSING else value for value in given])

    def _with_outputs(self, given: list[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        left_out = [i for i in self._outputs if given[i] is None]
        values = {
            argument.name: argument.value(given[i], [])
            for i, argument in enumerate(self.arguments)
            if argument.ctype.is_integer
        }
        made = []
        for i in left_out:
            given[i] = self.arguments[i].made(values)
            made.append(given[i])
        return tuple(given), made

    def _refuse_size(self, index: int, count: int, has: int) -> NoReturn:
        argument = self.arguments[index]
        text, hint = "", ""
        if argument.size is not None:
            text = argument.size.text
            if argument.role == "inout" and not argument.size.is_tagged:
                hint = f"; if that is enough, tag it `// @inout {argument.name}[{has}]`"
        raise ValueError(
            f"{argument.title} needs at least {text} elements, which is {count}, "
            f"and the array has {has}{hint}"
        )

    def _raise(self, status: int) -> NoReturn:
        message = self.library._message()  # noqa: SLF001  (a function is a part of its library)
        if status == table.OUT_OF_MEMORY:
            raise errors.OutOfMemory(f"{self.__name__}: {message}")
        if status == table.EXCEPTION:
            raise errors.DeviceError(f"{self.__name__} threw an exception: {message}")
        if status == table.RETURNED:
            raise errors.DeviceError(f"{self.__name__} returned the status {message}")
        raise errors.DeviceError(f"{self.__name__}: {message}")

    # ---- Documentation -----------------------------------------------------------------------------

    def _signature(self) -> inspect.Signature:
        kinds = inspect.Parameter
        parameters = [
            kinds(argument.name, kinds.POSITIONAL_OR_KEYWORD)
            for i, argument in enumerate(self.arguments)
            if i not in self._outputs
        ]
        parameters += [kinds(self._names[i], kinds.KEYWORD_ONLY, default=None) for i in self._outputs]
        return inspect.Signature(parameters)

    def _documentation(self, declared: WrappedFunction) -> str:
        lines = [f"Call ``{declared.declaration}``.", "", "Parameters", "----------"]
        for argument in self.arguments:
            lines += [f"{argument.name} : {_described(argument)}", f"    {_role(argument)}"]
        call = f"library.{declared.name}({', '.join(self.__signature__.parameters)})"
        result = ", ".join(self._names[i] for i in self._outputs)
        lines += [
            "",
            "Examples",
            "--------",
            f">>> {result + ' = ' if result else ''}{call}  # doctest: +SKIP",
            "",
        ]
        return "\n".join(lines)


def _described(argument: Argument) -> str:
    if not argument.ctype.is_pointer:
        return argument.ctype.struct or str(argument.dtype)
    components = f" by {argument.ctype.components}" if argument.ctype.components > 1 else ""
    return f"array of {argument.ctype.struct or argument.dtype}{components}"


def _role(argument: Argument) -> str:
    if not argument.ctype.is_pointer:
        return f"``{argument.declared}``."
    size = (
        "its size is not checked"
        if argument.size is None
        else f"it has at least ``{argument.size.text}`` elements"
    )
    how = {
        "in": "It is read",
        "inout": "It is read and written",
        "out": "It is written; if it is left out, it is made and returned",
    }[argument.role]
    return f"``{argument.declared}``. {how}; {size}."


_MISSING = object()
_POINTER = object()


def _plan(argument: Argument) -> tuple[Any, Any, Any, Any]:
    """Return how a usual argument is recognized: its kind, dtype, and limits."""
    if argument.ctype.is_pointer:
        return _POINTER, argument.dtype, argument.is_written, None
    dtype = argument.dtype
    if argument.is_passed_by_address or dtype.kind not in "iuf":
        return None, None, None, None
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return float, dtype, -most, most
    limits = np.iinfo(dtype)
    return int, dtype, int(limits.min), int(limits.max)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def arguments_of(declared: WrappedFunction, types: FunctionTypes, file: str) -> list[Argument]:
    """Return the parameters of a function with their checks."""
    tags, where = declared.tags, f"{file}:{declared.line}: {declared.name!r}"
    integers = [
        parameter.name
        for parameter, ctype in zip(declared.parameters, types.parameters, strict=True)
        if ctype.is_integer
    ]
    out = []
    for index, (parameter, ctype) in enumerate(zip(declared.parameters, types.parameters, strict=True)):
        name = parameter.name
        tagged = "out" if name in tags.outputs else "inout" if name in tags.inouts else ""
        if tagged and (not ctype.is_pointer or ctype.is_const):
            reason = "points to const" if ctype.is_pointer else "is a value"
            raise errors.CompileError(
                f"{where}: parameter {name!r} is tagged @{tagged}, and {reason}: drop the tag"
            )
        if name in tags.sizes and not ctype.is_pointer:
            raise errors.CompileError(f"{where}: parameter {name!r} has a size, and is no pointer")
        role = "value" if not ctype.is_pointer else "in" if ctype.is_const else tagged or "inout"
        size = None
        text = tags.sizes.get(name)
        is_tagged = text is not None
        if text is None and ctype.is_pointer and len(integers) == 1 and not tags.has_no_sizes:
            text = integers[0]
        if text is not None:
            expression = size_in_python(text, integers, where)
            names = [one.name for one in declared.parameters]
            position = names.index(expression) if expression in integers else -1
            size = Size(expression, size_function(expression, integers), position, is_tagged)
        out.append(Argument(declared, index, ctype, role, size))
    return out
