"""The tuning constants of the CUDA engine's pipeline, which experiments may change."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, loader


class Tuning(NamedTuple):
    """A tuning constant: its description (`text`), value and default, and its range, `min` to `max`."""

    name: str
    text: str
    value: int
    default: int
    min: int
    max: int


def tunings() -> dict[str, Tuning]:
    """Return the tuning constants of the CUDA engine's pipeline, by name; none without the CUDA library.

    The defaults were measured; `tuned` changes them for experiments. The environment variable
    ``PYCUDAKIT_STREAM_<NAME>`` sets one for a process.

    Returns
    -------
    dict of str to Tuning

    See Also
    --------
    tuned

    Examples
    --------
    >>> import pycudakit as pk
    >>> all(tuning.min <= tuning.value <= tuning.max for tuning in pk.tunings().values())
    True
    """
    try:
        library = loader.library("cuda")
    except errors.NoDevice:
        return {}
    count = ctypes.c_int64()
    library.pk_tuning_count(ctypes.byref(count))
    rows = np.zeros(count.value, abi.TUNING)
    for index in range(count.value):
        library.pk_tuning_info(index, rows[index : index + 1])
    constants = (Tuning(name.decode(), text.decode(), *numbers) for name, text, *numbers in rows.tolist())
    return {tuning.name: tuning for tuning in constants}


def tuned(**values: int) -> AbstractContextManager[None]:
    """Set tuning constants inside a ``with`` block, for the whole process.

    Parameters
    ----------
    **values : int
        Values, by the names of `tunings`.

    Returns
    -------
    context manager

    See Also
    --------
    tunings

    Examples
    --------
    >>> import pycudakit as pk
    >>> minima = {name: tuning.min for name, tuning in pk.tunings().items()}
    >>> with pk.tuned(**minima):
    ...     total = pk.add([1.0, 2.0], 0.5)
    >>> total
    array([1.5, 2.5])
    """
    tunings_by_name = tunings()
    checked = {name: _checked(name, value, tunings_by_name) for name, value in values.items()}
    return _set(checked, tunings_by_name)


def _checked(name: str, value: Any, tunings_by_name: dict[str, Tuning]) -> int:
    if name not in tunings_by_name:
        choices = (
            f"choose one of {', '.join(tunings_by_name)}"
            if tunings_by_name
            else "without the CUDA library there are none"
        )
        raise errors.InvalidArgument(f"there is no constant {name!r}; {choices}")
    tuning = tunings_by_name[name]
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not tuning.min <= number <= tuning.max:
        limits = f"from {tuning.min} to {tuning.max}"
        raise errors.InvalidArgument(f"{name} is {value!r}; choose an integer {limits}")
    return number


@contextmanager
def _set(values: dict[str, int], tunings_by_name: dict[str, Tuning]) -> Iterator[None]:
    before = {name: tuning.value for name, tuning in tunings().items()} if values else {}
    positions = {name: position for position, name in enumerate(tunings_by_name)}
    try:
        for name, value in values.items():
            loader.library("cuda").pk_tune(positions[name], value)
        yield
    finally:
        for name in values:
            loader.library("cuda").pk_tune(positions[name], before[name])
