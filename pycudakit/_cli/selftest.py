"""`pycudakit selftest`: compares functions of every family with NumPy, on every engine and dtype."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._cli import common, selftest_cases
from pycudakit._cli.progress import Progress, Say
from pycudakit._cli.ulp_compare import verdict
from pycudakit._native import abi

COUNT = 30_003
# fmt: off
INEXACT = frozenset([
    "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "power",
    "float_power", "arctan2", "hypot",
])
# fmt: on
FREE_ZERO = frozenset(["maximum", "minimum", "fmax", "fmin", "clip"])
OTHERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "clip": lambda xp, x, y: xp.clip(x, np.minimum(x[0], y[1]), np.maximum(x[0], y[1])),
    "nan_to_num": lambda xp, x, _: xp.nan_to_num(x),
    "round": lambda xp, x, _: xp.round(x),
    "where": lambda xp, x, y: xp.where(x > y, x, y),
}

Case = tuple[str, Callable[[Any], Any]]


def _values(dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return values of all magnitudes: the extremes, small ones, and floats' special values."""
    if dtype.kind == "b":
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, COUNT, dtype, endpoint=True)
        values[: COUNT // 2] %= 12
        values[-2:] = limits.min, limits.max
        return values
    values = rng.normal(0, 1, COUNT).astype(dtype)
    values[: COUNT // 4] *= 50
    tiny = np.finfo(dtype).tiny
    values[-8:] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, tiny, tiny / 2
    return values


def _ufuncs() -> Iterator[str]:
    for name in pk.__all__:
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc) or ufunc.signature is not None:
            continue
        # One name of each ufunc; but not logaddexp, in which cancellation may amplify errors.
        if ufunc.__name__ == name and not name.startswith("logaddexp"):
            yield name


def _cases(dtype: np.dtype[Any], rng: np.random.Generator) -> Iterator[Case]:
    x = _values(dtype, rng)
    y = rng.permutation(x)
    powers = y % 7 if dtype.kind in "iu" else y  # no negative integer powers
    x.flags.writeable = y.flags.writeable = False
    # The second argument is reversed, so that half of the operands are not contiguous.
    for name in _ufuncs():
        second = powers if name == "power" else y
        arguments = (x, second[::-1]) if getattr(np, name).nin == 2 else (x[::-1],)
        yield name, lambda xp, name=name, operands=arguments: getattr(xp, name)(*operands)  # type: ignore[misc]
    for name, call in OTHERS.items():
        yield name, lambda xp, call=call: call(xp, x, y)  # type: ignore[misc]
    yield from selftest_cases.cases(dtype, x, rng)
    small = np.where(np.isfinite(x), x, 1) % 100 if dtype.kind != "b" else x
    for target in abi.TYPES:
        yield f"astype {target}", lambda xp, t=target: xp.astype(small.astype(dtype), t)  # type: ignore[misc]


def _outcome(call: Callable[[Any], Any], xp: Any) -> Any:
    try:
        return call(xp)
    except TypeError as error:  # the function does not support the dtype
        return error


def _check(name: str, dtype: np.dtype[Any], call: Callable[[Any], Any]) -> str | None:
    """Compare one call with NumPy; return the fault, or None."""
    theirs = _outcome(call, np)
    mine = _outcome(call, pk)
    refused = isinstance(mine, TypeError)
    if refused != isinstance(theirs, TypeError):
        return f"{name} of {dtype}: {mine if refused else 'no TypeError, which NumPy raises'}"
    if refused:
        return None
    right, words = verdict(mine, theirs, common.ULPS if name in INEXACT else 0, name in FREE_ZERO)
    return None if right else f"{name} of {dtype}: {words}"


def _expression(dtype: np.dtype[Any], rng: np.random.Generator) -> Case:
    a, b = (rng.random(COUNT).astype(dtype) for _ in "ab")

    def call(xp: Any) -> Any:
        return common.evaluate_by(np, a, b) if xp is np else pk.evaluate(common.EXPRESSION, {"a": a, "b": b})

    return "exp", call  # with the tolerance of exp


def run(say: Say) -> int:
    """Test every available engine; return the exit status."""
    present = common.engines(say)
    if not present:
        return 1
    failures: list[str] = []
    for engine in present:
        begin, count, failures_before = time.perf_counter(), 0, len(failures)
        with (
            closing(Progress(len(abi.TYPES), say)) as progress,
            pk.engine(engine),
            np.errstate(all="ignore"),
        ):
            for dtype in abi.TYPES:
                progress.step(f"{engine}: {dtype}")
                rng = np.random.default_rng(0)
                cases = [*_cases(dtype, rng), *([_expression(dtype, rng)] if dtype.kind == "f" else [])]
                for name, call in cases:
                    wrong = _check(name, dtype, call)
                    count += 1
                    if wrong is not None:
                        failures.append(wrong)
                        progress.say(f"{engine}: {wrong}")
        seconds = time.perf_counter() - begin
        wrongs = len(failures) - failures_before
        say(f"{engine}: {count - wrongs} of {count} checks against NumPy passed, in {seconds:.1f} s")
    say(f"selftest FAILED: {len(failures)} checks" if failures else "selftest passed")
    return 1 if failures else 0
