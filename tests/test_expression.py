"""`pk.evaluate`: NumPy, evaluating the same string through Python, is what its results are compared with."""

import ast
import itertools
import sys
import threading
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_same_outcome, assert_values, broadcast_shapes, build, layouts, outcome

import pycudakit as pk
from pycudakit._language import ARITIES, MOST_OPERANDS

FUNCTIONS = {name: getattr(np, name) for name in ARITIES if hasattr(np, name)}
FUNCTIONS["astype"] = lambda x, dtype: np.asarray(x).astype(dtype)[()]
FUNCTIONS |= {dtype: np.dtype(dtype) for dtype in ("int8", "int32", "float32", "float64")}

EXACT_UNARY = ["-{}", "+{}", "~{}", "abs({})", "square({})", "sign({})", "floor({})", "isnan({})", "rint({})"]
EXACT_UNARY += ["logical_not({})", "nan_to_num({})", "signbit({})", "{}**2", "astype({}, float32)", "sqrt({})"]
EXACT_BINARY = ["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} & {}", "{} | {}", "{} ^ {}", "{} < {}"]
EXACT_BINARY += ["{} == {}", "{} >= {}", "maximum({}, {})", "fmin({}, {})", "logical_or({}, {})", "{} << 1"]
EXACT_BINARY += ["copysign({}, {})", "{} // {}", "{} % {}"]
NUMBERS = ["0", "1", "2", "3", "(-1)", "0.5", "(-2.5)", "True", "300", "2*3", "n", "s", "(n - 1)", "s / 2"]

REFUSALS = (TypeError, OverflowError, ZeroDivisionError)

leaves = st.sampled_from(["a", "b", "c", "a", "b", "c", *NUMBERS])


def _grown(inner):
    return st.one_of(
        st.builds(lambda form, x: f"({form.format(x)})", st.sampled_from(EXACT_UNARY), inner),
        st.builds(lambda form, x, y: f"({form.format(x, y)})", st.sampled_from(EXACT_BINARY), inner, inner),
        st.builds("where({}, {}, {})".format, inner, inner, inner),
    )


trees = st.recursive(leaves, _grown, max_leaves=12)
dtypes = st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"])


def by_numpy(expression, names):
    """What a NumPy user gets; a 0-d result is a scalar."""
    return np.asarray(eval(expression, dict(FUNCTIONS), names))[()]


def check(expression, names, ulp=0):
    """Compare types, shapes and values with NumPy's; of a result that NumPy refuses, the kind of error."""
    with np.errstate(all="ignore"):
        ours = outcome(pk.evaluate, expression, names)
        numpys = outcome(by_numpy, expression, names)
    if isinstance(ours[1], OverflowError) and "where(" in expression:
        return  # np.where wraps a Python integer that its company cannot hold
    if ours[0] == numpys[0] == "error":
        assert isinstance(ours[1], REFUSALS), ours  # which of several errors comes first is free
        assert isinstance(numpys[1], REFUSALS), numpys
        return
    if any("scalar" in text for text in numpys[2]):  # NumPy's scalars warn of more than its arrays do
        ours, numpys = (*ours[:2], set()), (*numpys[:2], set())
    assert_same_outcome(
        ours, numpys, ulp, strides=False, free_zero=True, context=f"{expression} of {names!r:.300}"
    )


# ---- Results -----------------------------------------------------------------------------------------


@given(trees, st.data())
def test_random_expressions(engine, expression, data):
    kind = data.draw(st.sampled_from(["ordinary", "small", "special"]))
    names = {
        name: build(data.draw(dtypes), shape, kind, seed, data.draw(layouts))
        for name, shape, seed in zip("abc", data.draw(broadcast_shapes(3)), range(3), strict=True)
    }
    names |= {"n": data.draw(st.integers(-3, 9)), "s": data.draw(st.floats(-4, 4, width=16))}
    check(expression, names)
