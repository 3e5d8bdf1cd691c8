"""Arrays for the bodies of fused functions under test, and helpers that build and compare the functions."""

import ast
import re

import numpy as np
from helpers.numpy_versions import has_numpy
from helpers.strategies import outcome

import pycudakit as pk

SIZES = [120, 12_000]  # elements: small ones are computed eagerly under `auto`, large ones are deferred


def pool(n):
    """Return the arrays that bodies refer to by name."""
    rng = np.random.default_rng(n)
    whole = lambda low, high, dtype: rng.integers(low, high, n).astype(dtype)  # noqa: E731
    tens = lambda dtype=float: (rng.standard_normal(n) * 10).astype(dtype)  # noqa: E731
    rows = n // 12
    arrays = {
        "x": tens(),
        "y": tens(),
        "z": tens(),
        "p": rng.random(n) + 0.5,
        "f": tens("f4"),
        "g": tens("f4"),
    }
    arrays |= {"h": tens("f2"), "i": whole(-100, 100, "i8"), "j": whole(1, 9, "i8"), "k": whole(-9, 9, "i4")}
    arrays |= {"u": whole(0, 256, "u1"), "v": whole(-128, 128, "i1"), "w": whole(0, 9, "u2")}
    arrays |= {"l": whole(0, 2**63, "u8"), "m": tens() > 0, "q": tens() > 3, "a": np.sort(tens())}
    arrays |= {"s": rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.5, 1e308], n)}
    arrays |= {
        "A": tens().reshape(rows, 12),
        "B": tens().reshape(rows, 12),
        "N": whole(-9, 9, "i8").reshape(rows, 12),
    }
    arrays |= {"G": tens("f4").reshape(rows, 12), "F": np.asfortranarray(tens().reshape(rows, 12))}
    arrays |= {
        "T": tens().reshape(-1, 5, 12),
        "C": rng.standard_normal((12, 12)),
        "r": rng.standard_normal(12),
    }
    arrays |= {"c": rng.standard_normal((rows, 1)), "o": np.array(2.5), "oi": np.array(3), "e": np.zeros(0)}
    arrays |= {"E": np.zeros((0, 12)), "b": tens(">f8"), "bi": whole(-9, 9, ">i4"), "d": tens()}
    arrays |= {"R": tens()[::-1], "S": np.repeat(tens(), 2)[::2], "at": rng.integers(-n, n, n // 2)}
    arrays |= {"Z": np.broadcast_to(np.array(1.5), (n,)), "one": np.array([2.0]), "D": np.ones((3, 4, 5))}
    arrays["d"].flags.writeable = False
    return arrays


def written(body):
    """Return a function with this body; its parameters are the arrays that the body names."""
    names = {
        node.id for node in ast.walk(ast.parse(body.replace("return ", ""))) if isinstance(node, ast.Name)
    }
    found = sorted(names & pool(SIZES[0]).keys())
    body = body if "return" in body else f"return {body}"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    space = {"np": np, "pk": pk}
    exec(f"def body({', '.join(found)}):\n{lines}", space)
    return space["body"], found


def flat(value):
    """Flatten nested tuples and lists."""
    return [part for each in value for part in flat(each)] if isinstance(value, (tuple, list)) else [value]


def split(text):
    """Split a text into bodies, at newlines and at three or more spaces."""
    return [body for body in re.split(r" {3,}|\n", text) if body]


def check(body, n, compare):
    function, names = written(body)
    ours, numpys = pool(n), pool(n)
    status, got, warned = outcome(pk.fuse(function), *(ours[name] for name in names))
    wanted_status, want, wanted_warnings = outcome(function, *(numpys[name] for name in names))
    assert (status, wanted_status) == ("ok", "ok"), (got, want)
    for mine, theirs in zip(flat(got), flat(want), strict=True):
        if type(theirs) is int and type(mine) is np.int64 and not has_numpy("2.3"):
            mine = int(mine)  # noqa: PLW2901  (a deferred count)
        assert type(mine) is type(theirs), f"a {type(mine)}, not a {type(theirs)}"
        if isinstance(theirs, (np.ndarray, np.generic)):
            compare(np.asarray(mine), np.asarray(theirs))
        else:
            assert mine == theirs
    for name in names:
        compare(ours[name], numpys[name])
    assert warned == wanted_warnings


def near(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    eps = 4 * {2: 1e-3, 4: 1e-6, 8: 1e-12}[want.itemsize]
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps * max(1, np.max(np.abs(want), initial=0)))
