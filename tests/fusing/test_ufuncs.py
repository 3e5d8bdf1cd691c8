"""Ufuncs in bodies that call `ufunc.reduce`."""

import copy
import pickle

import numpy as np
from helpers.strategies import assert_values

import pycudakit as pk


def test_ufuncs_are_themselves(engine):
    """A body that names `reduce` sees wrappers of ufuncs, which behave as the ufuncs do."""

    @pk.fuse
    def body(x, ufunc):
        assert isinstance(np.add, np.ufunc)
        assert np.add is np.add
        assert np.add == ufunc
        assert ufunc == np.add
        assert np.add != np.subtract
        assert {ufunc: 1}[np.add] == 1
        assert (np.add.nin, np.add.identity, np.add.__name__) == (2, 0, "add")
        assert repr(np.add) == "<ufunc 'add'>"
        assert copy.copy(np.add) is ufunc
        np.add.at(x, [0], 1)
        return np.add.reduce([x, np.add(x, 1)]), np.add.outer(x, x), np.add.accumulate(x), np.add

    x = np.arange(5)
    reduced, outer, accumulated, add = body(x, np.add)
    assert x.tolist() == [1, 1, 2, 3, 4]
    assert_values(reduced, 2 * x + 1)
    assert_values(outer, np.add.outer(x, x))
    assert_values(accumulated, np.add.accumulate(x))
    assert add == np.add
    assert pickle.loads(pickle.dumps(add)) is np.add
    assert_values(add(x, x), x + x)


maximum = np.maximum


def test_reduce_by_another_name(engine):
    minimum = np.minimum
    x = np.arange(1.0, 20_000)
    got = pk.fuse(lambda x: (maximum.reduce([x, -x]), minimum.reduce([x, -x])), strict=True)(x)
    assert_values(got[0], x)
    assert_values(got[1], -x)
