"""The table in C++ and that in Python are one; each function is in the library."""

import ctypes

import mysum


def test_functions_and_parameters():
    parameters = mysum.LIBRARY.pk_table_parameters
    parameters.restype = ctypes.c_int64
    assert {name: parameters(name.encode()) for name in mysum.__all__} == {
        name: len(types) for name, types in mysum.ARGTYPES.items()
    }
    assert parameters(b"no_such_function") == -1


def test_symbols():
    for name in mysum.__all__:
        assert mysum.LIBRARY.pk_table_call(name.encode())
        assert callable(getattr(mysum, name))
