"""Modules: instances of compiled sources, with their kernels and variables."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable

import numpy as np

from pycudakit._native import abi, abi_objects
from pycudakit.kernels.compiling.source import Parameter, Signature
from pycudakit.pycuda import _engine
from pycudakit.pycuda._device import current_device
from pycudakit.pycuda._errors import LogicError, absent
from pycudakit.pycuda._function import Function

# The codes of types in the symbols of C++.
_TYPES = (
    "bool, char, signed char, unsigned char, short, unsigned short, int, unsigned int, long, unsigned long, "
    "long long, unsigned long long, float, double, unsigned, size_t"
)
_TYPE_CODES = dict(zip(_TYPES.split(", "), "bcahstijlmxyfdjm", strict=True))
_TEXTURES = "CUDA 12 has no texture and surface references: pass device memory to the kernel"


class CompiledSource(bytes):
    """A compiled source: the bytes of a cubin, or of a library for the CPU, and its source's declarations.

    Attributes
    ----------
    image
        The image that the engine loads: the bytes, or the path of the library.
    key
        A key of 16 bytes: equal keys are equal images.
    engine
        The engine that it is for.
    symbols
        The symbols of kernels by their names.
    signatures
        The kernels' signatures by their names.
    prints, debug
        Whether its kernels may print, and whether they check their accesses.
    """

    image: bytes
    key: bytes
    engine: str
    symbols: dict[str, str]
    signatures: dict[str, Signature]
    prints: bool
    debug: bool


class Module:
    """A module: an instance of a compiled source, with variables of its own."""

    handle: int
    prints: bool
    debug: bool

    def __init__(self) -> None:
        raise LogicError("a module is made by SourceModule, module_from_file or module_from_buffer")

    @classmethod
    def _of(cls, image: bytes, key: bytes, compiled: CompiledSource | None) -> Module:
        module = object.__new__(cls)
        module._owner = engine = _engine.current()
        module.handle = 0
        module.prints = compiled is not None and compiled.prints
        module.debug = compiled is not None and compiled.debug
        module._compiled, module._functions = compiled, {}
        data, table, handle = np.frombuffer(image, np.uint8), np.zeros(1, abi.IMAGE), ctypes.c_uint64()
        table["address"], table["bytes"] = data.ctypes.data, len(data)
        table["key"] = np.frombuffer(key, np.uint64)
        engine.module_load(table.ctypes.data, current_device(), ctypes.byref(handle))
        module.handle = handle.value
        return module

    _owner: _engine.Engine
    _compiled: CompiledSource | None
    _functions: dict[str, Function]

    def get_function(self, name: str) -> Function:
        """Return a kernel by its name, or by its symbol."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions.setdefault(name, self._function(name))
        return function

    def _function(self, name: str) -> Function:
        compiled = self._compiled
        symbols = {} if compiled is None else compiled.symbols
        names = {symbol: known for known, symbol in symbols.items()}
        known = name if name in symbols else names.get(name) or _unmangled(name, symbols)
        signature = None if compiled is None else compiled.signatures.get(known)
        if compiled is not None and signature is None:
            listed = ", ".join(compiled.signatures) or "none"
            raise LogicError(f"the source has no kernel {name!r}; its kernels are: {listed}")
        parameters = () if signature is None else signature.parameters
        table = np.zeros(len(parameters), abi_objects.PARAMETER)
        for row, parameter in zip(table, parameters, strict=True):
            row["label"], row["itemsize"] = parameter.name.encode()[:63], _itemsize(parameter)
        symbol = np.frombuffer(symbols.get(known, name).encode(), np.uint8)
        limits, handle = np.zeros(1, abi.LIMITS), ctypes.c_uint64()
        _engine.current().module_function(
            *(self.handle, symbol.ctypes.data, len(symbol), table.ctypes.data, len(table)),
            *(limits.ctypes.data, ctypes.byref(handle)),
        )
        return Function(self, name, handle.value, limits[0], signature)

    def get_global(self, name: str) -> tuple[int, int]:
        """Return the address and the size of a variable, valid as long as the module."""
        text = np.frombuffer(name.encode(), np.uint8)
        address, size = ctypes.c_uint64(), ctypes.c_int64()
        _engine.current().module_variable(
            self.handle, text.ctypes.data, len(text), ctypes.byref(address), ctypes.byref(size)
        )
        return address.value, size.value

    get_texref = absent("get_texref", _TEXTURES)
    get_surfref = absent("get_surfref", _TEXTURES)

    def attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of one of its functions."""
        value = ctypes.c_int64()
        _engine.current().function_attribute(function, attribute, ctypes.byref(value))
        return value.value

    def __del__(self) -> None:
        """Unload the module."""
        if getattr(self, "handle", 0):
            self._owner.give_back("module_unload", self.handle)


def _unmangled(symbol: str, names: Iterable[str]) -> str:
    """Return the name of a kernel for its symbol in C++: f for _Z1fPi, f<int> for _Z1fIiEvPT_."""
    for name in names:
        if "<" in name and re.match(_instance_symbol(name), symbol) is not None:
            return name
    match = re.match(r"_Z(\d+)", symbol)
    return symbol if match is None else symbol[match.end() :][: int(match[1])]


def _instance_symbol(name: str) -> str:
    """Return a pattern of the first part of an instance's symbol, by the C++ ABI of Itanium."""
    base, _, arguments = name.partition("<")
    codes = ""
    for argument in arguments[:-1].split(", "):
        if argument in ("true", "false"):
            codes += f"Lb{int(argument == 'true')}E"
        elif argument.isdigit():
            codes += f"L[a-z]{argument}E"
        else:
            codes += _TYPE_CODES.get(argument) or f"{len(argument)}{re.escape(argument)}"
    return f"_Z{len(base)}{base}I{codes}E"


def _itemsize(parameter: Parameter) -> int:
    if not parameter.pointer:
        return 0
    return 1 if parameter.dtype is None else parameter.dtype.itemsize


def load(compiled: CompiledSource) -> Module:
    """Return a module of a compiled source."""
    engine = _engine.current()
    if compiled.engine != engine.name:
        raise LogicError(
            f"the source was compiled for {compiled.engine!r}, and the engine is {engine.name!r}"
        )
    return Module._of(compiled.image, compiled.key, compiled)  # noqa: SLF001
