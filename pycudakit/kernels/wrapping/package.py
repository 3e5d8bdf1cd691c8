"""The package that ``pycudakit wrap`` writes of a source: ctypes, ndpointer and CMake, without pycudakit."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import DType
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.wrapping import declarations, table
from pycudakit.kernels.wrapping.library import read_source, types_of
from pycudakit.kernels.wrapping.wrapped_call import Argument, arguments_of

_TEMPLATES = Path(__file__).parent / "templates"
# Names in the package's module, which no function and no parameter may have.
_RESERVED = frozenset(
    {
        *("ctypes", "os", "np", "Path", "Any", "ndpointer", "annotations", "result", "made"),
        *("ARGTYPES", "DTYPES", "LIBRARY", "_IN", "_OUT", "_FUNCTIONS", "_load", "_check", "_function"),
        *("_read", "_written", "_require_size", "_require_range", "_text", "_returned"),
    }
)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function with its checked parameters."""

    declared: declarations.WrappedFunction
    types: table.FunctionTypes
    arguments: tuple[Argument, ...]


def contents(
    path: str | os.PathLike[str],
    name: str,
    out: Iterable[str] = (),
    inout: Iterable[str] = (),
    statuses: Iterable[str] = (),
) -> dict[str, str]:
    """Return the files of a package, by their paths.

    Parameters
    ----------
    path
        The ``.cu`` file.
    name
        The package's name.
    out, inout
        The pointers that a function writes: ``"scale: y[n]"``.
    statuses
        The functions whose results are statuses.

    Raises
    ------
    InvalidArgument
        The name is no name of a package.
    CompileError
        The file has a function that cannot be wrapped.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise errors.InvalidArgument(f"--name {name}: give a name of Python, such as my_library")
    text, file, folder = read_source(Path(path))
    tagged = {"out": tuple(out), "inout": tuple(inout), "status": [f"{one}:" for one in statuses]}
    folders = () if folder is None else (folder,)
    source = declarations.read(text, file, (), folders, None, tagged)
    declarations.warn_of_exits(source)
    types, dtypes = types_of(_source(text, file, folders), source)
    functions = []
    for one in source.functions:
        if keyword.iskeyword(one.name) or one.name in _RESERVED:
            raise errors.CompileError(
                f"{file}:{one.line}: {one.name!r} is no name of a function of Python: rename it"
            )
        clashing = [parameter.name for parameter in one.parameters if parameter.name in _RESERVED]
        if clashing:
            raise errors.CompileError(
                f"{file}:{one.line}: {one.name!r}: parameter {clashing[0]!r} has a name of the package's "
                "module: "
                "rename it"
            )
        functions.append(_Function(one, types[one.name], tuple(arguments_of(one, types[one.name], file))))
    values = _values(name, file, source, functions, dtypes)
    files = {
        target: _filled((_TEMPLATES / template).read_text(encoding="utf-8"), values)
        for template, target in (
            ("pyproject.toml.in", "pyproject.toml"),
            ("CMakeLists.txt.in", "CMakeLists.txt"),
            ("README.md.in", "README.md"),
            ("shim.cu.in", "csrc/shim.cu"),
            ("init.py.in", f"{name}/__init__.py"),
            ("test_table.py.in", "tests/test_table.py"),
            ("test_functions.py.in", "tests/test_functions.py"),
        )
    }
    files[f"{name}/py.typed"] = ""
    files["csrc/function_table.h"] = table.HEADER.read_text(encoding="utf-8")
    files[f"csrc/{file}"] = Path(path).read_bytes().decode()  # with its byte order mark, if it has one
    files |= {f"csrc/{header}": content for header, content in _headers(source, folder).items()}
    return dict(sorted(files.items()))


def write(files: Mapping[str, str], to: Path, *, force: bool = False) -> None:
    """Write a package's files.

    Raises
    ------
    InvalidArgument
        The folder exists and is not empty, and `force` is False.
    """
    if to.exists() and not to.is_dir():
        raise errors.InvalidArgument(f"{to} is no folder: name another by --to")
    if to.exists() and any(to.iterdir()) and not force:
        raise errors.InvalidArgument(f"{to} exists, and is not empty: name another by --to, or give --force")
    for name, text in files.items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))


def differences(files: Mapping[str, str], to: Path) -> list[str]:
    """Return a line for each file of a package that a folder has not, or has otherwise."""
    lines = []
    for name, text in files.items():
        path = to / name
        if not path.is_file():
            lines.append(f"{path} is missing")
        elif path.read_bytes() != text.encode("utf-8", "surrogateescape"):
            lines.append(f"{path} differs")
    return lines


def _source(text: str, file: str, folders: tuple[str, ...]) -> Source:
    return Source(
        text=text,
        name=file,
        options=(),
        include_dirs=folders,
        no_extern_c=True,
        debug=False,
        arch="",
        kernels=(),
    )


def _headers(source: declarations.WrappedSource, folder: str | None) -> dict[str, str]:
    """Return the user's headers, by their paths in the folder of the source."""
    found: dict[str, str] = {}
    for path, header in source.headers.headers.items():
        name = os.path.relpath(path, folder)
        if name.startswith(os.pardir):
            raise errors.CompileError(
                f"{source.file} includes {header.name!r}, which is outside of its folder, and so of the "
                "package: copy it beside the file"
            )
        found[Path(name).as_posix()] = header.text
    return found


# ---- Text ------------------------------------------------------------------------------------------


def _filled(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: values[match[1]], template)


def _values(
    name: str,
    file: str,
    source: declarations.WrappedSource,
    functions: Sequence[_Function],
    dtypes: Mapping[str, DType],
) -> dict[str, str]:
    listed = ", ".join(f'"{one.declared.name}"' for one in functions)
    return {
        "name": name,
        "project": name.replace("_", "-"),
        "file": file,
        "variable": f"{name.upper()}_LIBRARY_DIR",
        "imports": "\n".join(sorted(["import numpy as np", "import pytest", f"import {name}"])),
        "table": table.text(source).split("\n", 1)[1].rstrip(),
        "dtypes": _dtypes(dtypes),
        "all": f"[{listed}]",
        "names": f"({listed},)",
        "declarations": "\n".join(f"    {_signature(one)}" for one in functions),
        "functions": "\n\n\n".join([*_helpers(functions), *map(_python, functions)]),
        "tests": "\n\n\n".join(_tests(name, one) for one in functions),
        "functions_in_c": "\n".join(f"- `{one.declared.declaration}`" for one in functions),
        "example": _example(name, functions[0]),
    }


def _helpers(functions: Sequence[_Function]) -> list[str]:
    """Return the functions of the module that only some results need."""
    helpers = []
    if any(one.types.is_text for one in functions):
        helpers.append(
            "def _text(value: bytes | None) -> str | None:\n"
            '    return None if value is None else value.decode("utf-8", "replace")'
        )
    if any(argument.role == "out" for one in functions for argument in one.arguments):
        helpers.append(
            "def _returned(values: list[Any]) -> Any:\n"
            "    return values[0] if len(values) == 1 else tuple(values) or None"
        )
    return helpers


def _dtypes(dtypes: Mapping[str, DType]) -> str:
    lines = ["DTYPES: dict[str, np.dtype[Any]] = {}"]
    for name, dtype in dtypes.items():
        fields = [dtype.fields[field] for field in dtype.names or ()] if dtype.fields else []
        formats = ", ".join(_format(one[0], dtypes) for one in fields)
        offsets = ", ".join(str(one[1]) for one in fields)
        names = ", ".join(f'"{one}"' for one in dtype.names or ())
        lines += [
            f'DTYPES["{name}"] = np.dtype(',
            "    {",
            f'        "names": [{names}],',
            f'        "formats": [{formats}],',
            f'        "offsets": [{offsets}],',
            f'        "itemsize": {dtype.itemsize},',
            "    }",
            ")",
        ]
    return "\n".join(lines)


def _format(dtype: Any, dtypes: Mapping[str, DType]) -> str:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"({_format(base, dtypes)}, {shape})"
    struct = next((name for name, one in dtypes.items() if one == dtype), None)
    return f'DTYPES["{struct}"]' if struct else f'"{dtype.str[1:]}"'


def _dtype_in_python(argument: Argument) -> str:
    return f'DTYPES["{argument.ctype.struct}"]' if argument.ctype.struct else f"np.{argument.dtype}"


def _argtype(argument: Argument) -> str:
    if not argument.is_passed_by_address:
        return f"ctypes.{argument.converter().__name__}"
    return f"{'_OUT' if argument.is_written else '_IN'}({_dtype_in_python(argument)})"


def _result_type(one: _Function) -> str | None:
    types = one.types
    if types.is_text:
        return "ctypes.c_char_p"
    if types.result.dtype is None or types.is_status:
        return None
    return f"ctypes.{np.ctypeslib.as_ctypes_type(types.result.dtype).__name__}"


def _signature(one: _Function) -> str:
    types = "".join(f"\n        {_argtype(argument)}," for argument in one.arguments)
    return f'"{one.declared.name}": [{types}{types and chr(10) + "    "}],'


def _python(one: _Function) -> str:
    """Return a function of the module."""
    name, arguments = one.declared.name, one.arguments
    outputs = [argument for argument in arguments if argument.role == "out"]
    made = [argument for argument in outputs if argument.size is not None]
    names = [f"{argument.name}: {_annotation(argument)}" for argument in arguments if argument not in outputs]
    names += ["*"] if outputs else []
    names += [f"{argument.name}: Any = None" for argument in outputs]
    lines = [f"def {name}({', '.join(names)}) -> Any:", f'    """Call ``{one.declared.declaration}``.']
    notes = [f"    {_note(argument)}" for argument in arguments if argument.ctype.is_pointer]
    lines += [*([""] if notes else []), *notes, '    """' if notes else ""]
    if not notes:
        lines[-2:] = [f'{lines[-2]}"""']
    for argument in arguments:
        if argument.ctype.is_integer:
            lines.append(
                f'    _require_range("{name}", "{argument.name}", {argument.name}, np.{argument.dtype})'
            )
        elif argument.is_passed_by_address and not argument.ctype.is_pointer:
            lines.append(
                f"    {argument.name} = np.ascontiguousarray({argument.name}, {_dtype_in_python(argument)})"
            )
    if made:
        lines.append("    made = []")
    for argument in made:
        components = argument.ctype.components
        shape = f"({_size(argument)}, {components})" if components > 1 else _size(argument)
        lines += [
            f"    if {argument.name} is None:",
            f"        {argument.name} = np.empty({shape}, {_dtype_in_python(argument)})",
            f"        made.append({argument.name})",
        ]
    for argument in arguments:
        if argument.ctype.is_pointer:
            lines += _checks(name, argument)
    passed = ", ".join(argument.name for argument in arguments)
    result = _result_type(one)
    if result is not None:
        lines.append(f"    result = {result}()")
    given = "None" if result is None else "ctypes.byref(result)"
    lines.append(f'    _FUNCTIONS["{name}"]({given}{", " if passed else ""}{passed})')
    value = "_text(result.value)" if one.types.is_text else "result.value"
    if made:
        returned = f"[{value}, *made]" if result is not None else "made"
        lines.append(f"    return _returned({returned})")
    elif result is not None:
        lines.append(f"    return {value}")
    return "\n".join(lines)


def _size(argument: Argument) -> str:
    return "" if argument.size is None else argument.size.text


def _checks(function: str, argument: Argument) -> list[str]:
    name, check = argument.name, "_written" if argument.is_written else "_read"
    lines = [f'    {name} = {check}("{function}", "{name}", {name}, {_dtype_in_python(argument)})']
    if argument.size is not None:
        components = argument.ctype.components
        count = f"{components} * ({argument.size.text})" if components > 1 else argument.size.text
        lines.append(f'    _require_size("{function}", "{name}", {name}, {count}, "{argument.size.text}")')
    return lines


def _annotation(argument: Argument) -> str:
    if argument.ctype.is_pointer or argument.is_passed_by_address:
        return "Any"
    return {"b": "bool", "f": "float"}.get(argument.dtype.kind, "int")


def _note(argument: Argument) -> str:
    how = {"in": "read", "inout": "read and written", "out": "written, and returned if it is left out"}
    size = "its size is not checked" if argument.size is None else f"at least {argument.size.text} elements"
    return f"{argument.name}: {argument.ctype.struct or argument.dtype}, {how[argument.role]}; {size}."


def _value(name: str, argument: Argument) -> str:
    """Return an argument for a test."""
    dtype = _dtype_in_python(argument).replace("DTYPES", f"{name}.DTYPES")
    components = argument.ctype.components
    if argument.ctype.is_pointer:
        return f"np.ones({f'(COUNT, {components})' if components > 1 else 'COUNT'}, {dtype})"
    if argument.is_passed_by_address:
        return f"np.zeros({components or '()'}, {dtype})"
    return "1"


def _tests(name: str, one: _Function) -> str:
    """Return the tests of a function: its checks, and the place of its oracle."""
    function = one.declared.name
    pointers = [argument for argument in one.arguments if argument.ctype.is_pointer]
    sized = [argument for argument in pointers if argument.size is not None]
    tests = []
    if pointers:
        values = "".join(f'\n        "{one.name}": {_value(name, one)},' for one in one.arguments)
        tests.append(f"def arguments_of_{function}():\n    return {{{values}\n    }}")
        tests.append(
            _test_of(
                *(name, function, "no_other_dtype", pointers[0].name, 'np.ones(COUNT, "M8[s]")'),
                *("TypeError", f"{function}: {pointers[0].name} takes arrays of "),
            )
        )
    if sized:
        short = sized[0].name
        tests.append(
            _test_of(
                *(name, function, "no_short_array", short, f'arguments["{short}"][:0]'),
                *("ValueError", f"{function}: {short} needs at least "),
            )
        )
    tests.append(
        f"def test_{function}_against_its_oracle():\n"
        f'    pytest.skip("compute the result of {function} in NumPy, and compare")'
    )
    return "\n\n\n".join(tests)


def _test_of(name: str, function: str, case: str, parameter: str, value: str, kind: str, message: str) -> str:
    return "\n".join(
        [
            f"def test_{function}_takes_{case}():",
            f"    arguments = arguments_of_{function}()",
            f'    arguments["{parameter}"] = {value}',
            f'    with pytest.raises({kind}, match="{message}"):',
            f"        {name}.{function}(**arguments)",
        ]
    )


def _example(name: str, one: _Function) -> str:
    given = [argument.name for argument in one.arguments if argument.role != "out"]
    outputs = ", ".join(argument.name for argument in one.arguments if argument.role == "out")
    return f"{outputs + ' = ' if outputs else ''}{name}.{one.declared.name}({', '.join(given)})"
