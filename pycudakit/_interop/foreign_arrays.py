"""Arguments of other libraries: which they are, and how they are read as NumPy arrays.

Host arrays are read without a copy. Types that override NumPy's functions (NEP 13 and NEP 18) are delegated
to NumPy under `auto`, as are masked arrays and pandas objects; a named engine refuses calls that would lose a
mask, nulls or labels. `dispatch` decides which implementation computes a call.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pycudakit import errors
from pycudakit._native import engine_status
from pycudakit._native.dtypes import Array, check_file, masked_arrays
from pycudakit._runtime import context, native_call
from pycudakit._runtime.engine_choice import OTHER_ENGINE, fallback_to_numpy
from pycudakit._runtime.lazy_array import LazyArray

P = ParamSpec("P")
R = TypeVar("R")

_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__", "__arrow_c_stream__", "null_count")
_CONTAINERS = (dict, list, tuple)
_MAX_INSPECTED = 64  # elements of a container that are inspected
# Functions that pandas implements itself, or that skip NaN, so that nulls are handled.
_NAMES = """all amax amin any argmax argmin argsort astype clip flip max mean min nanargmax nanargmin
nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar
prod ptp repeat round stack std sum transpose var"""
_NULL_AWARE = frozenset(_NAMES.split())
# Types that need no conversion, and types that do; both grow as types are seen.
ordinary_types: set[type] = {bool, float, int, np.ndarray, str, type(None)}
_foreign: set[type] = set()


def library_of(value: Any) -> str:
    """Return the name of the library that a value's type comes from."""
    return type(value).__module__.partition(".")[0]


def _parts(container: Any) -> list[Any]:
    whole = container.values() if type(container) is dict else container
    return list(itertools.islice(whole, _MAX_INSPECTED))


def _leaves(container: Any) -> Iterator[Any]:
    """Yield the parts of nested containers that are none themselves, of each container once."""
    pending, seen = [container], set()
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        for part in _parts(inner):
            if type(part) in _CONTAINERS:
                pending.append(part)
            else:
                yield part


def is_dask(value: Any) -> bool:
    """Return True if a value is a Dask array."""
    return library_of(value) == "dask" and hasattr(value, "dask") and hasattr(value, "chunks")


def has_dask(value: Any) -> bool:
    """Return True if a value, or an element of a list or a tuple, is a Dask array."""
    return is_dask(value) or (type(value) in (list, tuple) and any(map(has_dask, _parts(value))))


def is_ordinary(value: Any) -> bool:
    """Return True if functions take a value without conversion."""
    kind: Any = type(value)
    if kind in ordinary_types:
        return True
    if kind in _foreign:
        return False
    if issubclass(kind, np.memmap):
        check_file(value)
        return kind is np.memmap
    if kind in _CONTAINERS:
        return all(map(is_ordinary, _leaves(value)))
    if overrides_numpy(kind) or isinstance(value, masked_arrays()):
        return False
    if not issubclass(kind, (np.ndarray, np.generic)) and any(hasattr(kind, name) for name in _PROTOCOLS):
        _foreign.add(kind)
        return False
    if isinstance(value, (np.ndarray, np.generic)) or not (
        library_of(value) == "pandas" or is_dask(value) or any(hasattr(value, name) for name in _PROTOCOLS)
    ):
        ordinary_types.add(kind)
        return True
    return False


@functools.cache
def overrides_numpy(kind: type) -> bool:
    """Return True if a type overrides NumPy's functions: an ndarray subclass, or by NEP 13 or NEP 18."""
    if issubclass(kind, (LazyArray, np.generic, *masked_arrays())) or kind in (np.ndarray, np.memmap):
        return False
    protocols = ("__array_ufunc__", "__array_function__")
    return issubclass(kind, np.ndarray) or any(hasattr(kind, name) for name in protocols)


def overriding_argument(values: Iterable[Any]) -> Any:
    """Return the first value, or element of one, whose type overrides NumPy's functions, or None.

    Columns that are read instead do not count: those that may have nulls, and pandas' on a named engine.
    """
    for value in values:
        kind: Any = type(value)
        if kind in _CONTAINERS:
            inner = overriding_argument(_parts(value))
            if inner is not None:
                return inner
        elif kind not in ordinary_types and overrides_numpy(kind) and not is_device_array(value):
            is_read = library_of(value) == "pandas" and context.current_engine() not in ("auto", "numpy")
            if not is_read and not hasattr(kind, "null_count"):
                return value
    return None


def delegate_to_override(name: str, value: Any, by_numpy: Callable[[], Any]) -> Any:
    """Call NumPy's function, which dispatches to the value's override; a named engine raises instead."""
    kind, engine = type(value).__name__, context.checked_current_engine()
    overrides = f"{kind} overrides NumPy's functions"
    if engine in ("auto", "numpy"):
        return native_call.run_numpy(name, f"auto: {overrides}", by_numpy)
    refusal = (
        f"{name}: not on the {engine} engine: {overrides}, and the result would lose its type: convert it by "
        f"numpy.asarray(...) first, or {OTHER_ENGINE}"
    )
    return native_call.run_numpy(name, fallback_to_numpy(name, refusal, overrides).reason, by_numpy)


def is_device_array(value: Any) -> bool:
    """Return True if a value that is not ordinary is in device memory."""
    from pycudakit._interop import device_view  # noqa: PLC0415  (few calls need it)

    if library_of(value) == "pandas":  # whose attributes take long to be found missing
        return False
    return not isinstance(value, masked_arrays()) and device_view.is_device_array(value)


def read(
    value: Any, title: str | Callable[[], str], by_numpy: bool | None = None, mask_aware: bool = True
) -> Any:
    """Convert a value to an argument of a function: a NumPy array of its memory, or the value itself.

    Parameters
    ----------
    value
        The argument.
    title
        Its name in error messages, or a function that returns it.
    by_numpy
        Whether a value that NumPy can read is left as it is, for NumPy or its own library to handle; None
        means True under `auto` and `numpy`.
    mask_aware
        Whether NumPy's function respects a mask.
    """
    if is_ordinary(value):
        return value
    by_numpy = context.current_engine() in ("auto", "numpy") if by_numpy is None else by_numpy
    kind = type(value)
    if kind is dict:
        return {key: read(part, title, by_numpy, mask_aware) for key, part in value.items()}
    if kind in _CONTAINERS:
        return kind([read(part, title, by_numpy, mask_aware) for part in value])
    try:
        return _read(value, by_numpy, mask_aware)
    except errors.Error as error:
        raise type(error)(f"{title() if callable(title) else title}: {error}") from None


def _read(value: Any, by_numpy: bool, mask_aware: bool) -> Any:
    name = type(value).__name__
    if isinstance(value, masked_arrays()):
        if (by_numpy or context.falls_back()) and (mask_aware or not np.ma.is_masked(value)):
            return value
        engine = context.current_engine()
        text = f"{name} has a mask, which would be lost: .filled(...) or .compressed() first"
        if engine == "auto":
            raise errors.Unsupported(text)
        raise errors.Unsupported(f"not on the {engine} engine: {text}" + f", or {OTHER_ENGINE}" * mask_aware)
    if is_device_array(value):
        from pycudakit._interop.device_view import check, copy_to_host_hint  # noqa: PLC0415

        check(value)
        raise errors.Unsupported(
            f"{name} is on a GPU, and this call takes arrays on the host: "
            f"{copy_to_host_hint(library_of(value))}"
        )
    library = library_of(value)
    if library == "pandas":
        return value if by_numpy else _column(value)
    kind: Any = type(value)
    if overrides_numpy(kind) and not hasattr(kind, "null_count"):
        return value  # the functions refuse it
    if not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        if hasattr(kind, "__cuda_array_interface__"):
            raise errors.InvalidArgument(f"{name} has no address: has its memory been freed?")
        return value
    columns = value.columns if library == "pyarrow" and hasattr(value, "columns") else None
    if any(map(_has_nulls, [value] if columns is None else columns)):
        drop = ".drop_null()" if library == "pyarrow" else ".drop_nulls()"
        remedy = f".fill_null(...) or {drop}" if columns is None else drop
        raise errors.Unsupported(f"{name} has nulls, which arrays cannot have: {remedy} first")
    if hasattr(value, "__array__"):
        return value if by_numpy else np.asarray(value)
    return np.from_dlpack(value)


def _has_nulls(value: Any) -> bool:
    """Return True if a column, or a frame of Polars, has nulls."""
    count = getattr(value, "null_count", 0)
    return bool(np.any(np.asarray(count() if callable(count) else count)))


def _types_of_pandas(value: Any) -> list[Any]:
    """Return the dtypes of a Series, Index or DataFrame; raise if one of an extension type has nulls."""
    types: Any = getattr(value, "dtypes", None)
    is_frame = hasattr(types, "__iter__")
    dtypes = [*types] if is_frame else [getattr(value, "dtype", None)]
    for index, dtype in enumerate(dtypes):
        is_extension = dtype is not None and not isinstance(dtype, np.dtype)
        if is_extension and np.any((value.iloc[:, index] if is_frame else value).isna()):
            raise errors.Unsupported(
                f"{type(value).__name__} of {dtype} has nulls, which arrays cannot have: .fillna(...) or "
                ".dropna() first"
            )
    return dtypes


def _column(value: Any) -> Any:
    """Return the values of a Series, Index or DataFrame as a NumPy array."""
    dtypes = _types_of_pandas(value)
    own = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    are_numbers = all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in own)
    if own == dtypes or not (are_numbers or len({*own}) == 1):  # pandas makes objects of mixed bools
        return value.to_numpy()
    return value.to_numpy(np.result_type(*own) if are_numbers else own[0])


def check_nulls(
    name: str,
    parameters: Callable[..., Any] | Sequence[str],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Raise for pandas columns with nulls, naming the argument, unless the function handles nulls."""
    if name not in _NULL_AWARE:
        _check(_refuse_nulls, name, parameters, args, kwargs)


def _refuse_nulls(value: Any) -> None:
    if library_of(value) == "pandas":
        _types_of_pandas(value)


def with_pandas_index(result: Array, inputs: Sequence[Any]) -> Any:
    """Wrap a result in the first pandas type among the inputs, with its index, if the shapes match."""
    pandas_inputs = [value for value in inputs if library_of(value) == "pandas" and hasattr(value, "index")]
    if not pandas_inputs:
        return result
    first = pandas_inputs[0]
    labels = {"index": first.index, "copy": False}
    if hasattr(first, "columns"):
        labels["columns"] = first.columns
    elif all(getattr(value, "name", None) == first.name for value in pandas_inputs):
        labels["name"] = first.name
    return type(first)(result, **labels) if result.shape == first.shape else result


def check_indices(function: str, inputs: Sequence[Any]) -> None:
    """Raise for pandas operands with different indices: pandas would align them, an engine cannot."""
    pandas_inputs = [value for value in inputs if library_of(value) == "pandas" and hasattr(value, "index")]
    for other in pandas_inputs[1:]:
        if other.shape != pandas_inputs[0].shape or not other.index.equals(pandas_inputs[0].index):
            raise errors.Unsupported(
                f"{function}: operands of pandas with different indices: align them first, or use the engine "
                "'auto'"
            )


def can_use_device_arrays() -> bool:
    """Return True if the engine in force can compute with device arrays."""
    return context.current_engine() in ("auto", "cuda") and engine_status.status("cuda").available


def is_on_device(value: Any) -> bool:
    """Return True if a value, or an element of a list or a tuple, is in device memory."""
    if is_ordinary(value):
        return False
    if type(value) in _CONTAINERS:
        return any(map(is_on_device, _parts(value)))
    return is_device_array(value)


def check_device_arguments(
    name: str,
    parameters: Callable[..., Any] | Sequence[str],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Raise for device arrays that no engine can use, naming the argument."""
    from pycudakit._interop.device_view import as_device_view  # noqa: PLC0415

    def refuse(value: Any) -> None:
        if is_on_device(value):
            as_device_view(value)

    _check(refuse, name, parameters, args, kwargs)


def _check(
    refuse: Callable[[Any], None],
    name: str,
    parameters: Callable[..., Any] | Sequence[str],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Call `refuse` for each argument, or each of its elements; name the argument in its error.

    The name is looked up after an error only, since that is slow.
    """
    for key, value in [*enumerate(args), *kwargs.items()]:
        for part in _parts(value) if type(value) in _CONTAINERS else [value]:
            try:
                refuse(part)
            except errors.Error as error:
                title = _parameter(parameters, key) if isinstance(key, int) else key
                raise type(error)(f"{name}, {title}: {error}") from None


def read_all(
    name: str,
    parameters: Callable[..., Any] | Sequence[str],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    by_numpy: bool | None = None,
    mask_aware: bool | str = True,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Convert the arguments of a function by `read`, but for `out`, which must be an ordinary array.

    `parameters` are the parameters' names, or a function that has them. `mask_aware` may name the one
    parameter whose mask NumPy respects.
    """

    def read_one(value: Any, key: str | int) -> Any:
        def parameter() -> str:
            return key if isinstance(key, str) else _parameter(parameters, key)

        is_aware = mask_aware == parameter() if isinstance(mask_aware, str) else mask_aware
        return read(value, lambda: f"{name}, {parameter()}", by_numpy, is_aware)

    read_kwargs = {key: read_one(value, key) for key, value in kwargs.items()}
    if "out" in read_kwargs:
        read_kwargs["out"] = kwargs["out"]
    read_args = [v if is_ordinary(v) else read_one(v, key) for key, v in enumerate(args)]
    return tuple(read_args), read_kwargs


def _parameter(parameters: Callable[..., Any] | Sequence[str], key: int) -> str:
    """Return the name of a positional parameter."""
    try:
        names = list(inspect.signature(parameters).parameters) if callable(parameters) else parameters
    except ValueError:
        names = []
    return names[key] if key < len(names) else f"argument {key + 1}"
