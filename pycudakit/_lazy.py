"""Public names: lazy imports on first access (PEP 562), `dir`, messages about misspelt names, signatures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

MODULES_OF_NAMES: dict[str, dict[str, str]] = {}  # for each package, the module of each public name


def import_names(package: str, modules: Mapping[str, str]) -> None:
    """Import names of modules into a package; `modules` is as for `attach`."""
    namespace = vars(sys.modules[package])
    for module, names in modules.items():
        found = importlib.import_module(f"{package}.{module}")
        for name in names.split():
            namespace[name] = getattr(found, name)
            MODULES_OF_NAMES.setdefault(package, {})[name] = module


def attach(
    package: str,
    modules: Mapping[str, str],
    wrap: Callable[[FunctionType], Any] | None = None,
    unwrapped: Mapping[str, str] | None = None,
) -> None:
    """Give a package the public names of modules, as lazy attributes.

    Parameters
    ----------
    package
        The package's name.
    modules
        For each module, relative to the package, its public names, separated by spaces. A module directly in
        the package is itself a name, too.
    wrap
        Called with each function; its result becomes the attribute.
    unwrapped
        More modules and names, whose functions are not wrapped.
    """
    unwrapped = unwrapped or {}
    module_of = {
        name: module for group in (modules, unwrapped) for module in group for name in group[module].split()
    }
    module_of.update((module, module) for module in (*modules, *unwrapped) if "." not in module)
    MODULES_OF_NAMES.setdefault(package, {}).update(module_of)
    this = sys.modules[package]

    def get(name: str) -> Any:
        if name not in module_of:
            raise _missing(package, name)
        module = importlib.import_module(f"{package}.{module_of[name]}")
        value = module if module_of[name] == name else getattr(module, name)
        if wrap is not None and isinstance(value, FunctionType) and module_of[name] not in unwrapped:
            value = wrap(value)
        vars(this).setdefault(name, value)
        _show_as_public(package, vars(this)[name])
        return vars(this)[name]

    vars(this)["__getattr__"] = get


def lazy_function(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls a module's function, and imports the module at the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


def set_public_names(package: str, names: Iterable[str]) -> None:
    """Make names the public ones of a package, for `dir`, for messages about misspelt names, and for pickles.

    Those that are already imported get the package as their `__module__`, lazy ones when they are imported.
    """
    names = sorted(names)
    namespace = vars(sys.modules[package])
    namespace["__dir__"] = lambda: [*names]
    if "__getattr__" not in namespace:

        def get(name: str) -> Any:
            raise _missing(package, name)

        namespace["__getattr__"] = get
    for name in names:
        if name in namespace:
            _show_as_public(package, namespace[name])


def _missing(package: str, name: str) -> AttributeError:
    """Return the error for a name that a package does not have, with NumPy's function or a similar name."""
    import difflib  # noqa: PLC0415 - for messages only

    this = sys.modules[package]
    message = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(message, name=name, obj=this)
    submodule = package.partition(".")[2]
    for module in [submodule] if submodule else ["", "linalg", "fft"]:
        try:
            numpys = importlib.import_module(f"numpy.{module}".rstrip(".")).__all__
        except ImportError:  # such as numpy.image
            continue
        if name in numpys:
            path = ".".join(filter(None, (module, name)))
            is_ours = module != submodule and name in dir(getattr(this, module, None))
            message += f": did you mean {path!r}?" if is_ours else f": use NumPy's np.{path}"
            return AttributeError(message, name=name)
    if similar := difflib.get_close_matches(name, dir(this), 1):
        message += f": did you mean {similar[0]!r}?"
    return AttributeError(message, name=name)  # with `obj`, tracebacks would repeat the suggestion


def _show_as_public(package: str, value: Any) -> None:
    """Set `__module__`, so that pickles name no private module; remove annotations that say `Any`."""
    module = getattr(value, "__module__", "")
    if module != package and not module.startswith(f"{package}."):
        return
    value.__module__ = package
    functions = [value]
    if isinstance(value, type):
        bases = [base for base in value.__mro__ if base.__module__.startswith("pycudakit")]
        functions = [function for base in bases for function in vars(base).values()]
    for each in functions:
        function: Any = each
        while isinstance(function, FunctionType):  # a decorated one, too
            given = function.__annotations__
            function.__annotations__ = {name: text for name, text in given.items() if text != "Any"}
            function = getattr(function, "__wrapped__", None)
