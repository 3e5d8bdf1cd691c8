"""Other readers of an array that a fused stencil writes by double buffering see the values of each step."""

import ctypes
import types
import warnings

import numpy as np
import pytest

import pycudakit as pk

SIZE, STEPS = 30_000, 6
MODULE = types.ModuleType("model_of_a_test")


def _module_attribute(u):
    MODULE.u = u
    return lambda: float(MODULE.u[7])


def _memoryview(u):
    view = memoryview(u)
    return lambda: view[7]


def _array_of_objects(u):
    holder = np.empty(1, object)
    holder[0] = u
    return lambda: float(holder[0][7])


def _address(u):
    pointer = ctypes.cast(u.ctypes.data, ctypes.POINTER(ctypes.c_double))
    return lambda: pointer[7]


def _view_of_another_type(u):
    view = u.view(np.int64)
    return lambda: int(view[7])


READERS = [_module_attribute, _memoryview, _array_of_objects, _address, _view_of_another_type]


def diffuse(u, read):
    seen = []
    for _ in range(STEPS):
        u[1:-1] = 0.25 * (u[:-2] + 2 * u[1:-1] + u[2:])
        seen.append(read())
    return seen


def start():
    return np.random.default_rng(1).random(SIZE)


@pytest.mark.parametrize("make", READERS)
def test_each_step_is_seen(engine, make):
    ours, theirs = start(), start()
    got = pk.fuse(diffuse)(ours, make(ours))
    assert got == diffuse(theirs, make(theirs))
    np.testing.assert_array_equal(ours, theirs)


def overflow_at(u, step, fail):
    for each in range(STEPS):
        u[1:-1] = 0.25 * (u[:-2] + 2 * u[1:-1] + u[2:])
        if each == step:
            fail(u)


def _warning_as_error(u):
    np.exp(u * 1e6)[0].item()


def _raise_of_errstate(u):
    with np.errstate(all="raise"):
        np.exp(u * 1e6)[0].item()


@pytest.mark.parametrize("step", [0, 2, STEPS - 1])
@pytest.mark.parametrize("fail", [_warning_as_error, _raise_of_errstate])
def test_an_exception_between_steps_comes_out_as_it_is(engine, fail, step):
    ours, theirs = start(), start()
    raised = []
    for function, u in ((pk.fuse(overflow_at), ours), (overflow_at, theirs)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((RuntimeWarning, FloatingPointError)) as caught:
                function(u, step, fail)
        raised.append(type(caught.value))
    assert raised[0] is raised[1]
    np.testing.assert_array_equal(ours, theirs)
