"""Helpers for the digest cases of several families."""

import numpy as np

from helpers.hashed import FLOATS, INTEGERS

LONG = 1_200_000  # elements: several chunks on a GPU, and work for several threads of a CPU
GROUPS = {"integers": INTEGERS, **{name: [name] for name in FLOATS}}


def attempt(function, *arguments, **keywords):
    """Return the result of a call, or the name of the builtin class of its exception."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:  # noqa: BLE001
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def layouts(array):
    """Yield the array in memory layouts other than C order."""
    yield np.asfortranarray(array)
    yield np.repeat(array, 2, axis=-1)[..., ::2]
    yield array[..., ::-1].copy()[..., ::-1]
    yield array.astype(array.dtype.newbyteorder())
